//! Input that is where its result goes, without MPI_IN_PLACE: an error that some MPI libraries look for.

use std::ffi::{c_int, c_void};

use super::communicator::judge;
use super::native::native;
use super::{Communicator, SUCCESS};

/// Operations that an MPI library treats alike in this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlay {
    /// Those that move elements.
    Moved,
    /// MPI_Reduce, at the root: even Open MPI looks.
    Reduced,
    /// MPI_Allreduce, of so many elements: Open MPI looks where there are several.
    Allreduced(usize),
    /// MPI_Reduce_scatter(_block).
    Scattered,
}

impl Overlay {
    /// Whether MPI has an error for it: asks it, on a communicator of ours, which the program's error handlers
    /// do not hear of. (MPICH has a setting for this.)
    pub fn is_rejected(self) -> bool {
        let Some(judge) = judge() else {
            return true;
        };
        // Open MPI's error in MPI_Allreduce is on MPI_COMM_WORLD, whatever the communicator.
        Communicator::world().with_errors_returned(|| self.attempt(judge)) != SUCCESS
    }

    /// A call of that kind on a communicator of this process alone, of one byte or two.
    fn attempt(self, alone: Communicator) -> c_int {
        let (functions, constants) = (&native().functions, &native().constants);
        let mut elements = [0u8; 2];
        let result: *mut c_void = elements.as_mut_ptr().cast();
        let input = result.cast_const();
        let (byte, op, alone) = (constants.byte, constants.bor, alone.handle());
        // SAFETY: as many bytes are there, which are their own result on one process.
        unsafe {
            match self {
                Overlay::Moved => {
                    (functions.PMPI_Allgather)(input, 1, byte, result, 1, byte, alone)
                }
                Overlay::Reduced => (functions.PMPI_Reduce)(input, result, 1, byte, op, 0, alone),
                Overlay::Allreduced(elements) => {
                    let count = if elements > 1 { 2 } else { 1 };
                    (functions.PMPI_Allreduce)(input, result, count, byte, op, alone)
                }
                Overlay::Scattered => {
                    (functions.PMPI_Reduce_scatter_block)(input, result, 1, byte, op, alone)
                }
            }
        }
    }
}
