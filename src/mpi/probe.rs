//! The probe: a communicator of this process alone, to ask MPI about handles.

use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::library::native;
use super::sys::MPI_Comm;
use super::{Communicator, Error, check};

/// A communicator of this process alone, on which errors are returned, for local calls: where MPI
/// is asked about a handle that may be invalid. Functions without a communicator would raise the
/// error on MPI_COMM_WORLD, whose handler may end the program, and not on the communicator of the
/// call.
pub(super) struct Probe {
    communicator: Communicator,
    /// See [`Probe::is_always_handled`].
    always_handled: bool,
}

// SAFETY: written once, then only read; used for calls that any thread may make at any time.
unsafe impl Send for Probe {}
// SAFETY: as above.
unsafe impl Sync for Probe {}

static PROBE: OnceCell<Probe> = OnceCell::new();
/// Held while MPI is asked, which is local.
static ASKING: Mutex<()> = Mutex::new(());
/// Set by the thread that makes it.
static MAKING: AtomicBool = AtomicBool::new(false);

impl Probe {
    /// Asks something by calls on its handle. One thread at a time does: the calls are collective.
    pub fn ask<R>(&self, question: impl FnOnce(MPI_Comm) -> R) -> R {
        let _alone = ASKING.lock();
        question(self.communicator.handle())
    }

    fn new() -> Result<Probe, Error> {
        // Not of MPI_COMM_SELF, whose handler, once set, counts more than MPI_COMM_WORLD's in MPICH
        // 5.
        let world = Communicator::world();
        let made = world.with_errors_returned(|| world.create_alone())?;
        let mut probe = Probe {
            communicator: made,
            always_handled: false,
        };
        let errors_return = native().constants.errors_return;
        // SAFETY: a communicator that was just made, and a predefined handler.
        check(unsafe {
            (native().functions.PMPI_Comm_set_errhandler)(made.handle(), errors_return)
        })?;
        probe.always_handled = probe.make_one().unwrap_or(false);
        Ok(probe)
    }

    /// Makes a communicator from it, for nothing: whether that has its error handler; none where
    /// there is no room for one more.
    fn make_one(&self) -> Option<bool> {
        let child = self.communicator.create_alone().ok()?;
        let is_handled = child.returns_errors();
        child.free();
        Some(is_handled)
    }

    /// Whether a communicator has the handler of the one that it was made from, and thus always
    /// one.
    pub(super) fn is_always_handled(&self) -> bool {
        self.always_handled
    }

    /// Whether a context id is free.
    pub(super) fn has_room(&self) -> bool {
        self.ask(|_| self.make_one().is_some())
    }
}

/// The probe. None where it cannot be made, or is being made. Local.
pub(super) fn probe() -> Option<&'static Probe> {
    // The ranks of a simulation may share what is static.
    if cfg!(smpi) {
        return None;
    }
    // One thread makes it, and the others go without meanwhile: no lock is held while MPI makes it,
    // and two could not be made at once with one tag.
    if PROBE.get().is_none() && !MAKING.swap(true, Ordering::AcqRel) {
        let made = Probe::new().ok()?;
        return Some(PROBE.get_or_init(|| made));
    }
    PROBE.get()
}

/// Frees it, when MPI is about to end and nothing is asked any more.
pub(super) fn free_probe() {
    if let Some(probe) = PROBE.get() {
        probe.communicator.free();
    }
}
