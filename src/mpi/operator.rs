//! An operator: whether its operands commute, and what it may be applied to.

use std::ffi::c_int;

use super::sys::MPI_Op;

use super::communicator::judge;
use super::native::{NumberKind, UNSET, native};
use super::{Buffer, Datatype, Private, SUCCESS, check};

/// An operator of the program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operator(MPI_Op);

impl Operator {
    /// None for an operator that MPI has to judge.
    pub fn new(handle: MPI_Op) -> Option<Operator> {
        let constants = &native().constants;
        let unset = MPI_Op(UNSET as _);
        let rejected = [unset, constants.op_null, constants.replace, constants.no_op];
        (!rejected.contains(&handle)).then_some(Operator(handle))
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

    /// Whether MPI takes this for an operator of the program's: asks it to reduce nothing, on a communicator of ours,
    /// which the program's error handlers do not hear of.
    fn is_known(self) -> bool {
        let Some(judge) = judge() else {
            return true;
        };
        let (input, mut output) = (0u8, 0u8);
        // SAFETY: no element is read or written.
        let code = unsafe {
            (native().functions.PMPI_Reduce)(
                (&raw const input).cast(),
                (&raw mut output).cast(),
                0,
                native().constants.byte,
                self.0,
                0,
                judge.handle(),
            )
        };
        code == SUCCESS
    }

    /// Whether it is one of MPI's own, which are defined on certain predefined datatypes only.
    pub fn is_predefined(self) -> bool {
        let c = &native().constants;
        let own = [
            c.sum, c.max, c.min, c.prod, c.land, c.band, c.lor, c.bor, c.lxor, c.bxor, c.minloc,
            c.maxloc,
        ];
        own.contains(&self.0)
    }

    /// Whether no order of operands makes a difference to the result, not even in its last bit: one
    /// of MPI's own operators on one of its integer datatypes. (Those of pairs are of floating-point
    /// numbers, mostly; and not even the largest of these is the same in any order: there are two
    /// zeros, and numbers that are none.)
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

    /// Whether MPI accepts this predefined operator on `datatype`: asks it to reduce one element, on
    /// a communicator of this process alone, where errors are returned. (MPI_Reduce_local would
    /// raise them on a communicator of the program.) Yes, if that communicator cannot be made: the
    /// other processes will not say no to the same question.
    pub fn accepts(self, datatype: &Datatype, private: &Private) -> bool {
        if !datatype.is_predefined() {
            return false;
        }
        // One element of any predefined datatype; zero is a value of all of them.
        let (input, mut output) = ([0u128; 4], [0u128; 4]);
        if datatype.span(1) > size_of_val(&input) {
            return false;
        }
        let Ok(alone) = private.alone() else {
            return true;
        };
        // SAFETY: both arrays are aligned for and large enough to hold one element.
        let code = unsafe {
            (native().functions.PMPI_Reduce)(
                input.as_ptr().cast(),
                output.as_mut_ptr().cast(),
                1,
                datatype.handle(),
                self.0,
                0,
                alone.communicator().handle(),
            )
        };
        code == SUCCESS
    }

    /// `into = from op into` for `count` elements.
    pub(super) fn reduce(
        self,
        from: Buffer,
        into: Buffer,
        count: usize,
        datatype: &Datatype,
    ) -> Result<(), super::Error> {
        let largest = c_int::MAX as usize;
        let mut done = 0;
        while done < count {
            let step = largest.min(count - done);
            let from = datatype.element(from, done as isize);
            let into = datatype.element(into, done as isize);
            // SAFETY: `step` elements are at both addresses and do not overlap.
            check(unsafe {
                (native().functions.PMPI_Reduce_local)(
                    from.read(),
                    into.write(),
                    step as c_int,
                    datatype.handle(),
                    self.0,
                )
            })?;
            done += step;
        }
        Ok(())
    }
}
