//! An operator: whether its operands commute, and what it may be applied to.

use std::ffi::c_int;

use parking_lot::Mutex;

use super::sys::{MPI_Datatype, MPI_Op};

use super::library::{NumberKind, UNSET, native};
use super::probe::probe;
use super::{Datatype, SUCCESS, check};

/// An operator of the program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operator(MPI_Op);

/// Memory of one element of a predefined datatype.
type Room = [u128; 4];

/// What an operator does with numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorKind {
    /// Adds them.
    Sum,
    /// Multiplies them.
    Product,
    /// Finds the largest or the smallest.
    Extreme,
    /// The same, and where it is.
    Place,
    /// Takes their bits, or their truth values, together.
    Logical,
    /// What the program says.
    Own,
}

// SAFETY: a handle, which any thread may use; what it leads to is MPI's to protect.
unsafe impl Send for Operator {}
// SAFETY: as above.
unsafe impl Sync for Operator {}

impl Operator {
    /// None for an operator that MPI has to judge.
    ///
    /// # Safety
    /// `handle` may be passed to MPI as an operator while this value, or a copy, is used for more
    /// than to compare it: the program passed it as one to the call in progress. (An MPI whose
    /// handles are pointers follows it.)
    pub unsafe fn new(handle: MPI_Op) -> Option<Operator> {
        let constants = &native().constants;
        let unset = MPI_Op(UNSET as _);
        let rejected = [unset, constants.op_null, constants.replace, constants.no_op];
        (!rejected.contains(&handle)).then_some(Operator(handle))
    }

    /// MPI's handle.
    pub fn handle(self) -> MPI_Op {
        self.0
    }

    /// Whether operands may be exchanged. None where MPI does not know the operator.
    pub fn is_commutative(self) -> Option<bool> {
        if self.is_predefined() {
            return Some(true);
        }
        if !self.is_known() {
            return None;
        }
        let mut flag: c_int = 0;
        // SAFETY: writes one integer.
        check(unsafe { (native().functions.PMPI_Op_commutative)(self.0, &mut flag) }).ok()?;
        Some(flag != 0)
    }

    /// Whether MPI takes this for an operator of the program's. It is asked to reduce nothing.
    fn is_known(self) -> bool {
        self.reduces(0, native().constants.byte).unwrap_or(true)
    }

    /// Whether it is one of MPI's own, which are defined on certain predefined datatypes only.
    pub fn is_predefined(self) -> bool {
        let c = &native().constants;
        let is = |own: &[&MPI_Op]| own.iter().any(|own| **own == self.0);
        // The usual ones first: every reduction asks.
        is(&[&c.sum, &c.max, &c.min, &c.prod])
            || is(&[&c.land, &c.band, &c.lor, &c.bor, &c.lxor, &c.bxor])
            || is(&[&c.minloc, &c.maxloc])
    }

    /// What it does with numbers.
    pub fn kind(self) -> OperatorKind {
        let c = &native().constants;
        match self.0 {
            op if op == c.sum => OperatorKind::Sum,
            op if op == c.prod => OperatorKind::Product,
            op if op == c.max || op == c.min => OperatorKind::Extreme,
            op if op == c.maxloc || op == c.minloc => OperatorKind::Place,
            _ if self.is_predefined() => OperatorKind::Logical,
            _ => OperatorKind::Own,
        }
    }

    /// Whether no order of operands makes a difference to the result, not even in its last bit: one
    /// of MPI's own operators on one of its integer datatypes. (Not those of pairs, which are
    /// mostly of floating-point numbers. Even the largest of those depends on the order: there are
    /// two zeros, and NaN.)
    pub fn is_exact_on(self, datatype: &Datatype) -> bool {
        let c = &native().constants;
        self.is_predefined()
            && self.0 != c.minloc
            && self.0 != c.maxloc
            && matches!(
                datatype.numbers(),
                Some(NumberKind::Signed | NumberKind::Unsigned)
            )
    }

    /// Whether MPI accepts this on `datatype`: a predefined operator is defined on certain
    /// predefined datatypes. The program's own operators are its own responsibility. Local.
    pub fn accepts(self, datatype: &Datatype) -> bool {
        !self.is_predefined() || datatype.is_predefined() && self.is_defined_on(datatype)
    }

    /// The same of a predefined operator and datatype. MPI is asked once.
    fn is_defined_on(self, datatype: &Datatype) -> bool {
        /// The most answers that are remembered.
        const MOST: usize = 64;
        /// The last answer first.
        static ANSWERS: Mutex<Vec<(Operator, Datatype, bool)>> = Mutex::new(Vec::new());
        let is_this = |known: &&(Operator, Datatype, bool)| (known.0, known.1) == (self, *datatype);
        if let Some(&(_, _, is_defined)) = ANSWERS.lock().iter().find(is_this) {
            return is_defined;
        }
        // One element of any predefined datatype is no longer.
        if datatype.span(1) > size_of::<Room>() {
            return false;
        }
        // The lock is not held while MPI is asked. What it was not asked is not remembered.
        let Some(is_defined) = self.reduces(1, datatype.handle()) else {
            return true;
        };
        let mut answers = ANSWERS.lock();
        answers.truncate(MOST - 1);
        answers.insert(0, (self, *datatype, is_defined));
        is_defined
    }

    /// Whether MPI reduces no element or one, of a predefined datatype that has [`Room`], on the
    /// probe, whose errors the program does not hear of. (MPI_Reduce_local would raise them on a
    /// communicator of the program.) None if there is no probe.
    fn reduces(self, count: c_int, datatype: MPI_Datatype) -> Option<bool> {
        // Zero is a value of all of them.
        let (input, mut output): (Room, Room) = ([0; 4], [0; 4]);
        let reduce = native().functions.PMPI_Reduce;
        let code = probe()?.ask(|alone| {
            // SAFETY: both are aligned for and large enough to hold one element, which begins at
            // its address, as those of all predefined datatypes do.
            unsafe {
                reduce(
                    input.as_ptr().cast(),
                    output.as_mut_ptr().cast(),
                    count,
                    datatype,
                    self.0,
                    0,
                    alone,
                )
            }
        });
        Some(code == SUCCESS)
    }
}
