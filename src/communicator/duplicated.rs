//! Which communicators are being duplicated by a call that does not block: making another one
//! meanwhile is not safe with Open MPI 4.1.

use crate::mpi::{Attribute, Communicator, Error};

/// On communicators that MPI_Comm_idup was called on.
static DUPLICATED: Attribute<Duplicated> = Attribute::new();

struct Duplicated;

/// Remembers that a duplication of `communicator` is being started. Local.
///
/// # Errors
/// MPI's, which it has raised: the handle leads to no communicator.
pub(super) fn mark(communicator: Communicator) -> Result<(), Error> {
    let mark = || communicator.size().map(|_| Some(Duplicated));
    DUPLICATED.with(Some(communicator), mark, |_| ())
}

/// Whether a duplication may be under way. (When it ends is not seen.)
pub(super) fn may_be_under_way(communicator: Communicator) -> bool {
    DUPLICATED.is_on(communicator)
}

/// MPI is about to end.
pub(super) fn end() {
    DUPLICATED.end();
}
