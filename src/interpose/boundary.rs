//! The boundary between the program and circulant.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::collective;
use crate::communicator::{State, Stop};
use crate::message::say;
use crate::mpi::{Communicator, MPI_Comm};
use crate::report::Work;
use crate::select::Operation;

/// Runs one exported call.
///
/// A panic is a defect of circulant. It does not unwind into the program, and it does not become an
/// error code on one process, whose peers would then wait for ever: it ends the job.
pub fn cross(
    operation: Operation,
    communicator: MPI_Comm,
    root: Option<c_int>,
    native: impl FnOnce() -> c_int,
    attempt: impl FnOnce(&State, &mut Work) -> Result<(), Stop>,
) -> c_int {
    let communicator = Communicator::new(communicator);
    let call = || collective::run(operation, communicator, root, native, attempt);
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        let rank = communicator.rank().unwrap_or(0);
        say(&format!(
            "circulant: defect in {} on rank {rank}: the job ends",
            operation.name()
        ));
        communicator.abort();
        std::process::abort()
    })
}
