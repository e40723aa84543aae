//! From a communicator's handle to its state; the end of communicators, and of MPI.
//!
//! While a communicator is being freed, the program's own delete callbacks may still use it, after
//! ours has freed the state. Then it has none, and calls on it are native.
//!
//! Open MPI 5 does not run MPI_COMM_WORLD's delete callbacks at MPI_Finalize. MPI_COMM_SELF's run
//! everywhere, first, while MPI can still be used. So what has to happen at the end hangs there.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::{State, closing, job};
use crate::mpi::{self, Attribute, Communicator, Error, Moment};
use crate::select::Operation;

static STATE: Attribute<State> = Attribute::new();
static END: Attribute<AtEnd> = Attribute::new();
/// Set by the thread that hooks the end of MPI. (Were the attribute set twice, MPI would call the
/// first one's delete callback, as if it were the end.)
static HOOKED: AtomicBool = AtomicBool::new(false);
/// Set when the hook hangs: what is dropped before that is no end.
static HANGS: AtomicBool = AtomicBool::new(false);
/// Set when MPI is about to end: from then on every call is native.
static ENDED: AtomicBool = AtomicBool::new(false);

/// The communicators that are being freed; and how many there are, so that most calls need no lock.
static FREED: Mutex<Vec<Freed>> = Mutex::new(Vec::new());
static FREEING: AtomicUsize = AtomicUsize::new(0);

/// A communicator that is being freed, and the thread that does it: to another thread the same
/// handle may be a new communicator already.
struct Freed {
    communicator: Communicator,
    thread: usize,
    /// Of the call that frees it. An error handler may have jumped out of that.
    frame: usize,
}

impl Freed {
    /// Whether it is `communicator` that is being freed, by a call around this one.
    fn is_around(&self, communicator: Communicator) -> bool {
        let is_here = self.thread == this_thread() && self.frame > mpi::frame();
        is_here && self.communicator == communicator
    }
}

/// A number that no other thread has meanwhile. std::thread::current panics in a thread that ends,
/// where a destructor of the program's may free a communicator.
fn this_thread() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// Dropped when MPI is about to end.
struct AtEnd {
    /// When it was hooked.
    began: Moment,
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        if HANGS.load(Ordering::Acquire) && !ENDED.swap(true, Ordering::AcqRel) {
            closing::write(self.began);
            STATE.end();
            mpi::free_probe();
            mpi::forget_duplications();
            mpi::forget_datatypes();
            END.end();
        }
    }
}

/// Runs `free`, which frees `communicator`.
pub fn while_freed(communicator: Communicator, free: impl FnOnce() -> c_int) -> c_int {
    let _freeing = Freeing::begin(communicator, mpi::frame());
    free()
}

/// While a communicator is being freed; also if an exception of the program's ends that.
struct Freeing(Communicator);

impl Freeing {
    fn begin(communicator: Communicator, frame: usize) -> Freeing {
        FREED.lock().push(Freed {
            communicator,
            thread: this_thread(),
            frame,
        });
        FREEING.fetch_add(1, Ordering::SeqCst);
        Freeing(communicator)
    }
}

impl Drop for Freeing {
    fn drop(&mut self) {
        FREEING.fetch_sub(1, Ordering::SeqCst);
        let (mut freed, thread) = (FREED.lock(), this_thread());
        let is_it = |freed: &Freed| freed.communicator == self.0 && freed.thread == thread;
        if let Some(index) = freed.iter().rposition(is_it) {
            freed.remove(index);
        }
    }
}

#[inline]
fn is_being_freed(communicator: Communicator) -> bool {
    FREEING.load(Ordering::SeqCst) > 0 && is_among_freed(communicator)
}

#[cold]
fn is_among_freed(communicator: Communicator) -> bool {
    let freed = FREED.lock();
    freed.iter().any(|freed| freed.is_around(communicator))
}

/// Runs `call` with the state of `communicator`, which is made at the first call on it that is not
/// small (may be collective); `is_small` gets the communicator's size. There is none where MPI
/// cannot be used, or the state cannot be kept.
///
/// # Errors
/// MPI's, which it has raised: the handle leads to no communicator.
#[inline]
pub fn with_state<R>(
    communicator: Communicator,
    is_small: impl FnOnce(usize) -> bool,
    call: impl FnOnce(Option<&State>) -> R,
) -> Result<R, Error> {
    let is_usable =
        !ENDED.load(Ordering::Relaxed) && !communicator.is_null() && !is_being_freed(communicator);
    let usable = is_usable.then_some(communicator);
    let first = || first_state(communicator, is_small);
    STATE.with(usable, first, call)
}

/// Small calls so far on communicators without a state.
static SMALL_CALLS: AtomicUsize = AtomicUsize::new(0);

/// One of this many small calls makes a state all the same, which is local here. So a communicator
/// in steady use soon has one, and MPI is no longer asked about it.
const STATE_EVERY: usize = 16;

/// Whether a call on a communicator without a state goes to the MPI library for being small. No
/// state is made then: a program that makes many communicators for small calls does not pay for it.
/// The call has as many bytes in all processes, and the limit is the job's, so all find the same.
/// Local.
pub fn is_small(
    operation: Operation,
    communicator: Communicator,
    size: usize,
    bytes: impl FnOnce() -> Option<usize>,
) -> bool {
    let limit = job::native_below(operation);
    // In a program without MPI_COMM_WORLD, where there is no limit, datatypes must not be asked.
    let is_below = limit > 0 && bytes().is_some_and(|bytes| bytes > 0 && (bytes as u64) < limit);
    // Calls on other communicators have another reason to be native, which reports tell apart.
    let is_intra = || communicator.is_inter().is_ok_and(|is_inter| !is_inter);
    is_below
        && size > 1
        && is_intra()
        && SMALL_CALLS.fetch_add(1, Ordering::Relaxed) % STATE_EVERY != 0
}

fn first_state(
    communicator: Communicator,
    is_small: impl FnOnce(usize) -> bool,
) -> Result<Option<State>, Error> {
    if !STATE.is_in_use() && !mpi::is_active() || is_small(communicator.size()?) {
        return Ok(None);
    }
    hook_end();
    State::new(communicator)
}

/// Revokes circulant's own communicator for the processes of this one, if there is one. Local.
///
/// # Errors
/// As of [`with_state`].
pub fn revoke(communicator: Communicator) -> Result<(), Error> {
    if !ENDED.load(Ordering::Relaxed) && !communicator.is_null() {
        STATE.look(communicator, State::revoke)?;
    }
    Ok(())
}

/// Sees to it that the report is written when MPI is about to end. Local. Not where MPI was started
/// by a session only: MPI_COMM_SELF must not be used there.
pub fn hook_end() {
    let may_be = !HOOKED.load(Ordering::Relaxed) && mpi::is_active();
    if may_be && !HOOKED.swap(true, Ordering::AcqRel) {
        let hook = || {
            let began = Moment::now();
            Ok(Some(AtEnd { began }))
        };
        let _ = END.with(Some(Communicator::own()), hook, |hook| {
            HANGS.store(hook.is_some(), Ordering::Release);
        });
    }
}
