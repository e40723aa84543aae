//! Checks: a call that circulant has run is repeated by the MPI library, and the results are
//! compared (`CIRCULANT_CHECK`).
//!
//! ```text
//! copy the input that is where the result goes; agree that there is memory for copies
//! run the call; copy the result; agree that all have run it
//! put the input back; run the MPI library's function with the program's arguments; compare
//! agree that no process has found a difference
//! ```
//!
//! So the native call is the one that the program would have made, in the program's own buffers.
//! What is copied is the packed data: memory between the elements may be in use by other threads,
//! and is neither read nor written. If there is a difference, the program keeps the MPI library's
//! result. If there is none, it gets circulant's, as it does without a check: that matters where
//! both differ by rounding.
//!
//! Results are compared bit for bit, but for sums, products and extremes of floating-point numbers
//! (`rounding.rs`). Such a call has one more allreduce, of what the bound on rounding needs. Not
//! checked are reductions of which it is not known whether they round: those with the program's
//! operators, unless settings say otherwise, those that find places (MPI_MINLOC), and those of
//! datatypes that are not known. Nor are calls on inter-communicators, where not all processes take
//! part in what is agreed on, and circulant's own functions.
//!
//! The processes agree before the native call that all have run theirs, since one that found a
//! message of a wrong length has an error to raise. One that goes native alone because of wrong
//! arguments is missed, as it is in the MPI library.

use std::ffi::c_int;

use crate::communicator::{Service, State, Stop};
use crate::message::say;
use crate::mpi::{Array, Communicator, Error, Held, Moment, Packed, SUCCESS, packed_size};
use crate::pool::Agreement;
use crate::report;
use crate::rounding::Rounding;
use crate::select::{Algorithm, Facts};

/// The elements of this process in a call, as far as a check has to know them.
pub(super) struct Touched {
    /// Those that are written.
    pub results: Vec<Array>,
    /// Those that are read, and may be overwritten.
    pub kept: Vec<Array>,
    /// How results are compared; None where that is not known.
    pub comparison: Option<Comparison>,
}

impl Touched {
    /// Those of a call that moves elements.
    pub(super) fn moved(results: Vec<Array>, kept: Vec<Array>) -> Touched {
        Touched {
            results,
            kept,
            comparison: Some(Comparison::Bits),
        }
    }
}

/// How results are compared.
pub(super) enum Comparison {
    /// Bit for bit.
    Bits,
    /// As those of reductions that round.
    Rounded {
        rounding: Rounding,
        operand: Array,
        /// How many numbers of the operand are before this process's result.
        before: usize,
    },
}

/// A call that is to be repeated natively.
pub struct Check {
    facts: Facts,
    algorithm: Algorithm,
    began: Moment,
    touched: Touched,
    /// What the call uses, which the MPI library's uses, too.
    _held: Held,
    /// circulant's result.
    ours: Packed,
    /// What is kept; then an operand, if nothing is; then the MPI library's result.
    copy: Packed,
    /// For each number of the operands, what the bound on rounding needs.
    sums: Vec<f64>,
}

impl Check {
    /// Of a call that is due.
    pub(super) fn new(facts: Facts, algorithm: Algorithm, touched: Touched, held: Held) -> Check {
        Check {
            facts,
            algorithm,
            began: Moment::now(),
            touched,
            _held: held,
            ours: Packed::default(),
            copy: Packed::default(),
            sums: Vec::new(),
        }
    }

    /// Runs the call between copies, if all processes have memory for them. Without the check, if
    /// not, and if not all have run the call. Collective.
    pub(super) fn around<D>(
        mut self: Box<Self>,
        state: &State,
        service: &mut Service,
        run: impl FnOnce(&mut Service) -> Result<D, Stop>,
    ) -> Result<(D, Option<Box<Check>>), Stop> {
        let communicator = service.communicator();
        let is_ready = self.keep(communicator);
        if !service.members.all_agree(is_ready)? {
            return Ok((run(service)?, None));
        }
        if let Some(checks) = state.checks() {
            checks.lock().count(&self.facts);
        }
        self.weigh(communicator)?;
        self.began = Moment::now();
        state.begin(self.began);
        let ran = match run(service) {
            Err(stop @ (Stop::Native(_) | Stop::Failed(_))) => return Err(stop),
            ran => ran,
        };
        let is_copied = ran.is_ok() && self.ours.pack(&self.touched.results, communicator).is_ok();
        let are_all = service.members.all_agree(is_copied)?;
        Ok((ran?, are_all.then_some(self)))
    }

    /// When the call itself began.
    pub fn began(&self) -> Moment {
        self.began
    }

    /// Makes room for all copies, and those of what is kept.
    fn keep(&mut self, communicator: Communicator) -> bool {
        let mut room = packed_size(&self.touched.kept).max(packed_size(&self.touched.results));
        match &self.touched.comparison {
            Some(Comparison::Bits) => {}
            Some(Comparison::Rounded {
                rounding, operand, ..
            }) => {
                room = room.max(operand.size());
                let numbers = rounding.numbers(operand.size());
                if self.sums.try_reserve_exact(numbers).is_err() {
                    return false;
                }
            }
            None => return false,
        }
        let mut touched = self.touched.kept.iter().chain(&self.touched.results);
        touched.all(|array| array.datatype().is_packable())
            && self.ours.reserve(packed_size(&self.touched.results))
            && self.copy.reserve(room)
            && self.copy.pack(&self.touched.kept, communicator).is_ok()
    }

    /// Finds what the bound on rounding needs. Collective. What is kept of a reduction is its
    /// operand.
    fn weigh(&mut self, communicator: Communicator) -> Result<(), Error> {
        let Some(Comparison::Rounded {
            rounding, operand, ..
        }) = &self.touched.comparison
        else {
            return Ok(());
        };
        if self.touched.kept.is_empty() {
            self.copy.pack(&[*operand], communicator)?;
        }
        rounding.weigh(self.copy.bytes(), &mut self.sums);
        communicator.sum_all(&mut self.sums)
    }

    /// Repeats the call by `native`, and compares. Returns MPI's error code. Collective.
    ///
    /// # Errors
    /// MPI's, of circulant's own calls.
    pub fn finish(
        mut self,
        state: &State,
        root: Option<c_int>,
        native: impl Fn() -> c_int,
    ) -> Result<c_int, Stop> {
        // Not around the repeated call: the program's error handler may throw there.
        state.serve([None, None], |service| {
            Ok(self.put_back(service.communicator())?)
        })?;
        let code = native();
        let differences = state.serve([None, None], |service| {
            let communicator = service.communicator();
            let own = if code == SUCCESS {
                self.difference(communicator)?
            } else {
                None
            };
            if !service.members.all_agree(own.is_none())? {
                let own = own.map_or(u64::MAX, |offset| offset as u64);
                return Ok(communicator.gather_all(own)?);
            }
            if code == SUCCESS
                && matches!(self.touched.comparison, Some(Comparison::Rounded { .. }))
            {
                self.ours.unpack(&self.touched.results, communicator)?;
            }
            Ok(Vec::new())
        });
        let differences = match differences {
            // The MPI library has raised its own.
            Err(Stop::Failed(error)) if code != SUCCESS => {
                state.leave_after(error);
                return Ok(code);
            }
            // Nobody compares any more, as on a communicator that was revoked meanwhile. The
            // buffers have the MPI library's result.
            Err(Stop::Native(_)) => return Ok(code),
            found => found?,
        };
        report::count_check(self.facts.operation, !differences.is_empty());
        if let Some(checks) = state.checks().filter(|_| !differences.is_empty()) {
            checks.lock().refuse(&self.facts);
            if state.rank() == 0 {
                say(&self.line(state, root, &differences));
            }
        }
        Ok(code)
    }

    /// Puts the input back, unless nothing has changed: a broadcast's root may send what it must
    /// not write.
    fn put_back(&mut self, communicator: Communicator) -> Result<(), Error> {
        if self.touched.kept.is_empty() || self.ours.bytes() == self.copy.bytes() {
            return Ok(());
        }
        self.copy.unpack(&self.touched.kept, communicator)
    }

    /// The first byte of this process's packed result in which the MPI library's is another.
    fn difference(&mut self, communicator: Communicator) -> Result<Option<usize>, Error> {
        self.copy.pack(&self.touched.results, communicator)?;
        let (ours, theirs) = (self.ours.bytes(), self.copy.bytes());
        if ours == theirs {
            return Ok(None);
        }
        Ok(match &self.touched.comparison {
            Some(Comparison::Rounded {
                rounding, before, ..
            }) => {
                let sums = self.sums.get(*before..).unwrap_or_default();
                rounding.first_difference(ours, theirs, sums)
            }
            _ => ours.iter().zip(theirs).position(|(a, b)| a != b),
        })
    }

    /// What is said of differences: the first of each process, by rank.
    fn line(&self, state: &State, root: Option<c_int>, differences: &[u64]) -> String {
        let Facts {
            operation, bytes, ..
        } = self.facts;
        let (operation, p, algorithm) = (operation.name(), state.size(), self.algorithm.name());
        let root = root.map(|root| format!(" root={root}")).unwrap_or_default();
        let n = match self.algorithm.blocks() {
            0 | 1 => String::new(),
            n => format!(" n={n}"),
        };
        let ranks = differences.iter().enumerate();
        let mut differing = ranks.filter(|(_, offset)| **offset != u64::MAX);
        let (rank, offset) = differing.next().unwrap_or((0, &0));
        let others = match differing.count() {
            0 => "on this rank only".to_owned(),
            others => format!("and on {others} more of the {p} ranks"),
        };
        format!(
            "circulant: check of {operation} {bytes} B p={p}{root} by {algorithm}{n}: the result \
             on rank {rank} differs from the MPI library's at byte {offset}, {others}; the program \
             gets the MPI library's, and such calls stay native on this communicator"
        )
    }
}
