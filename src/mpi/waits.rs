//! Errors of messages that MPI waits for.
//!
//! MPICH and what is built from it raise what MPI_Wait finds, such as a message that is longer than
//! its receive, on MPI_COMM_WORLD, whichever communicator the message was sent on. There the
//! error would end a job whose program has errors returned on the communicator of its call. So
//! errors on MPI_COMM_WORLD are returned while circulant waits. Then the call's communicator hears
//! of it, as natively.

use super::communicator::ErrorHandler;
use super::library::{native, speaks_pmi};
use super::{Communicator, may_be_called_by_several_threads};

/// While it lives, errors on MPI_COMM_WORLD are returned.
#[must_use]
pub struct ReturnedErrors(ErrorHandler);

impl ReturnedErrors {
    /// For a call on this communicator of the program. None where MPI raises errors of waiting
    /// where the message was sent; or would raise one as the call's communicator does; or where
    /// other threads may call MPI meanwhile, whose errors would be returned, too.
    ///
    /// A communicator may have no handler in MPICH, which looks the same as that errors are fatal.
    /// Once replaced, that of MPI_COMM_WORLD is fatal, and communicators that are made from it
    /// later have it, rather than none. So it is left alone where the call's looks the same.
    ///
    /// Errors of MPI calls in the program's operators are returned, too, while they run for it.
    pub fn during_call_on(communicator: Communicator) -> Option<ReturnedErrors> {
        if !speaks_pmi() || may_be_called_by_several_threads() {
            return None;
        }
        let (constants, world) = (&native().constants, Communicator::world());
        let handler = world.error_handler().ok()?;
        let is_as_wanted = handler.handle() == constants.errors_return;
        let is_fatal = handler.handle() == constants.errors_are_fatal;
        if is_as_wanted || (is_fatal && communicator.has_fatal_errors()) {
            return None;
        }
        world.set_error_handler(constants.errors_return).ok()?;
        Some(ReturnedErrors(handler))
    }
}

impl Drop for ReturnedErrors {
    fn drop(&mut self) {
        Communicator::world().restore(&self.0);
    }
}
