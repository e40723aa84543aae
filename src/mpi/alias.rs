//! Input that aliases its result without MPI_IN_PLACE: an error that some MPI libraries look for.

use std::ffi::{c_int, c_void};

use parking_lot::Mutex;

use super::library::native;
use super::probe::{Probe, probe};
use super::sys::MPI_Comm;
use super::{Communicator, SUCCESS};

/// Operations that an MPI library treats alike in this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alias {
    /// Those that move elements.
    Moved,
    /// MPI_Reduce, at the root: even Open MPI looks.
    Reduced,
    /// MPI_Allreduce of one element.
    AllreducedOne,
    /// MPI_Allreduce of several: here Open MPI looks.
    AllreducedSeveral,
    /// MPI_Reduce_scatter(_block).
    Scattered,
}

/// What MPI has answered so far, by operation. Held while MPI is asked, which is local.
static ANSWERS: Mutex<[Option<bool>; 5]> = Mutex::new([None; 5]);

impl Alias {
    /// Whether MPI has an error for it: asks it once, on a communicator of ours, which the
    /// program's error handlers do not hear of. (MPICH has a setting for this.) No where it cannot
    /// be asked.
    pub fn is_rejected(self) -> bool {
        let mut answers = ANSWERS.lock();
        let answer = &mut answers[self as usize];
        if answer.is_none() {
            *answer = self.ask();
        }
        answer.unwrap_or(false)
    }

    fn ask(self) -> Option<bool> {
        let probe = probe()?;
        let code = if self == Alias::AllreducedSeveral {
            // Open MPI's error is on MPI_COMM_WORLD, whatever the communicator.
            Communicator::world().with_errors_returned(|| self.attempt(probe))
        } else {
            self.attempt(probe)
        };
        Some(code != SUCCESS)
    }

    /// A call of that kind on a communicator of this process alone.
    fn attempt(self, alone: &Probe) -> c_int {
        alone.ask(|alone| self.call(alone))
    }

    fn call(self, alone: MPI_Comm) -> c_int {
        let (functions, constants) = (&native().functions, &native().constants);
        let mut elements = [0u8; 2];
        let result: *mut c_void = elements.as_mut_ptr().cast();
        let input = result.cast_const();
        let (byte, op) = (constants.byte, constants.bor);
        // SAFETY: as many bytes are there, which are their own result on one process; by one thread
        // at a time, as a communicator's collectives must be.
        unsafe {
            match self {
                Alias::Moved => (functions.PMPI_Allgather)(input, 1, byte, result, 1, byte, alone),
                Alias::Reduced => (functions.PMPI_Reduce)(input, result, 1, byte, op, 0, alone),
                Alias::AllreducedOne => {
                    (functions.PMPI_Allreduce)(input, result, 1, byte, op, alone)
                }
                Alias::AllreducedSeveral => {
                    (functions.PMPI_Allreduce)(input, result, 2, byte, op, alone)
                }
                Alias::Scattered => {
                    (functions.PMPI_Reduce_scatter_block)(input, result, 1, byte, op, alone)
                }
            }
        }
    }
}
