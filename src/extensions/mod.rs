//! The operations that MPI does not have. Each module holds one, from its C functions to its
//! rounds.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`successive`] | broadcasts in order, with callbacks: circulant_successive_bcast |
//! | [`growing`] | growing operands: circulant_allgather_merge, circulant_allreduce_v |

pub mod growing;
pub mod successive;

#[cfg(any(feature = "mpi", feature = "bindings"))]
use crate::interpose::{CommWord, typed};
#[cfg(any(feature = "mpi", feature = "bindings"))]
use crate::mpi::{Communicator, Error, native};

/// The intra-communicator `comm`, or the code of the error that was raised.
///
/// # Safety
/// An argument of the call in progress.
#[cfg(any(feature = "mpi", feature = "bindings"))]
unsafe fn intra(comm: CommWord) -> Result<Communicator, std::ffi::c_int> {
    // SAFETY: by this function's contract, the program passed an MPI_Comm.
    let communicator = unsafe { Communicator::new(typed(comm)) };
    let class = Error(native().constants.err_comm.0);
    if communicator.is_null() {
        return Err(Communicator::world().raise(class));
    }
    match communicator.is_inter() {
        Ok(false) => Ok(communicator),
        Ok(true) => Err(communicator.raise(class)),
        // MPI has raised it.
        Err(error) => Err(error.0),
    }
}
