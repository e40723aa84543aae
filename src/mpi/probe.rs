//! The probe: a communicator of this process alone, to ask MPI about handles.
//!
//! It is made while errors on MPI_COMM_WORLD are returned. Where that may be done to a communicator
//! depends in turn on what the probe tells of error handlers. So both are here.

use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::communicator::ErrorHandler;
use super::library::{native, speaks_pmi};
use super::sys::MPI_Comm;
use super::{Communicator, Error, is_active, may_be_called_by_several_threads};

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
/// Set before it is freed.
static IS_FREED: AtomicBool = AtomicBool::new(false);
/// Set by the thread that makes it.
static MAKING: AtomicBool = AtomicBool::new(false);

impl Probe {
    /// Asks something by calls on its handle. One thread at a time does: the calls are collective.
    pub fn ask<R>(&self, question: impl FnOnce(MPI_Comm) -> R) -> R {
        let _alone = ASKING.lock();
        question(self.communicator.handle())
    }

    /// Its handle, for messages of this process to itself.
    pub fn handle(&self) -> MPI_Comm {
        self.communicator.handle()
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
        made.set_error_handler(native().constants.errors_return)?;
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

/// The probe. None where it cannot be made, as in a program without MPI_COMM_WORLD, or is being
/// made; or MPI is about to end. Local.
pub(super) fn probe() -> Option<&'static Probe> {
    // The ranks of a simulation may share what is static.
    if cfg!(smpi) || IS_FREED.load(Ordering::Acquire) {
        return None;
    }
    // One thread makes it, and the others go without meanwhile: no lock is held while MPI makes it,
    // and two could not be made at once with one tag.
    let may_be_made = || PROBE.get().is_none() && is_active();
    if may_be_made() && !MAKING.swap(true, Ordering::AcqRel) {
        let made = Probe::new().ok()?;
        return Some(PROBE.get_or_init(|| made));
    }
    PROBE.get()
}

/// Makes it when MPI has just been initialized, on MPICH: once the program has left no context id,
/// the error would end the job there.
pub fn make_probe() {
    if speaks_pmi() {
        probe();
    }
}

/// Frees it, when MPI is about to end and nothing is asked any more.
pub fn free_probe() {
    IS_FREED.store(true, Ordering::Release);
    if let Some(probe) = PROBE.get() {
        probe.communicator.free();
    }
}

/// A communicator whose errors are returned for a while.
struct Replaced {
    communicator: Communicator,
    /// What it had before.
    handler: ErrorHandler,
    /// How many calls have it so now, on several threads.
    times: usize,
}

// SAFETY: handles, which any thread may use.
unsafe impl Send for Replaced {}

/// All of them. The lock is held while handlers are set, which is local.
static REPLACED: Mutex<Vec<Replaced>> = Mutex::new(Vec::new());

impl Communicator {
    /// Its error handler, if it may be another for a while. In MPICH communicators have none before
    /// the program sets one there, or where they came from; their errors then go to
    /// MPI_COMM_WORLD's. MPI says that it is MPI_ERRORS_ARE_FATAL, and once that was set, so it is.
    fn replaceable_handler(self, probe: Option<&Probe>) -> Option<ErrorHandler> {
        let handler = self.error_handler().ok()?;
        let may_be_none = handler.handle() == native().constants.errors_are_fatal;
        (!may_be_none || probe.is_some_and(Probe::is_always_handled)).then_some(handler)
    }

    /// Runs `action` while errors on this communicator are returned instead of raised, if its
    /// handler is [replaceable](Communicator::replaceable_handler).
    pub fn with_errors_returned<R>(self, action: impl FnOnce() -> R) -> R {
        let is_replaced = self.replace_handler();
        let result = action();
        if is_replaced {
            self.restore_handler();
        }
        result
    }

    /// The same for an action in which late processes are waited for. Where several threads may
    /// call MPI, the handler stays: another thread may set it meanwhile, hand it down to a new
    /// communicator, or make an error of which the program is to hear.
    pub fn waiting_with_errors_returned<R>(self, action: impl FnOnce() -> R) -> R {
        match may_be_called_by_several_threads() {
            true => action(),
            false => self.with_errors_returned(action),
        }
    }

    /// Has errors returned, until as many calls of `restore_handler`; false where that may not be.
    fn replace_handler(self) -> bool {
        // Making the probe replaces a handler, too.
        let probe = probe();
        let mut replaced = REPLACED.lock();
        if let Some(known) = replaced.iter_mut().find(|known| known.communicator == self) {
            known.times += 1;
            return true;
        }
        let Some(handler) = self.replaceable_handler(probe) else {
            return false;
        };
        // Any communicator may have it.
        self.set_error_handler(native().constants.errors_return)
            .ok();
        replaced.push(Replaced {
            communicator: self,
            handler,
            times: 1,
        });
        true
    }

    fn restore_handler(self) {
        let mut replaced = REPLACED.lock();
        let known = replaced.iter().position(|known| known.communicator == self);
        let Some(index) = known else { return };
        replaced[index].times -= 1;
        if replaced[index].times == 0 {
            self.restore(&replaced.swap_remove(index).handler);
        }
    }

    /// Has its errors handled again by this, as before they were returned, unless the program has
    /// set another handler since. (One that has errors returned is not noticed.)
    pub(super) fn restore(self, handler: &ErrorHandler) {
        if self.returns_errors() {
            // What MPI gave it accepts.
            self.set_error_handler(handler.handle()).ok();
        }
    }

    /// Whether another communicator can be made from it without harm: an error would be returned,
    /// or none is to be expected, since a context id is free. To find that out makes one, which a
    /// duplication under way would hold up. Local.
    pub(super) fn can_be_tried(self) -> bool {
        let probe = probe();
        self.replaceable_handler(probe).is_some() || probe.is_none_or(Probe::has_room)
    }
}
