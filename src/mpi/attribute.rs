//! Our state behind a communicator's attribute, and the hook at the end of MPI.
//!
//! While a communicator is being freed, the program's own delete callbacks may still use it, after
//! ours has freed the state: then it has none, and calls on it are native.
//!
//! The attribute's copy callback copies nothing (a duplicate gets its own state when it needs one)
//! but is a real function, since Open MPI does not accept a null one. The delete callback frees
//! the state with the communicator. Open MPI 5 does not run MPI_COMM_WORLD's delete callbacks at
//! MPI_Finalize; MPI_COMM_SELF's run everywhere, first, while MPI can still be used: so what has
//! to happen at the end hangs there.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::thread::ThreadId;

use super::sys::MPI_Comm;
use parking_lot::Mutex;

use super::communicator::free_judge;
use super::native::native;
use super::{Communicator, SUCCESS, check, is_active};
use crate::communicator::State;

/// A keyval that is created when it is first needed.
struct Keyval {
    value: AtomicI32,
    created: AtomicBool,
}

type Delete = unsafe extern "C" fn(MPI_Comm, c_int, *mut c_void, *mut c_void) -> c_int;

impl Keyval {
    const fn new() -> Keyval {
        Keyval {
            value: AtomicI32::new(0),
            created: AtomicBool::new(false),
        }
    }

    fn get(&self) -> Option<c_int> {
        self.created
            .load(Ordering::Acquire)
            .then(|| self.value.load(Ordering::Relaxed))
    }

    /// The keyval, created unless it exists. Without a lock, which must not be held across an MPI
    /// call: of two threads that create one at once, the later frees its own.
    fn get_or_create(&self, delete: Delete) -> Option<c_int> {
        if let Some(keyval) = self.get() {
            return Some(keyval);
        }
        let functions = &native().functions;
        let invalid = native().constants.keyval_invalid.0;
        let mut keyval = invalid;
        // SAFETY: both callbacks are functions of the types that MPI calls.
        check(unsafe {
            (functions.PMPI_Comm_create_keyval)(
                Some(copy_nothing),
                Some(delete),
                &mut keyval,
                std::ptr::null_mut(),
            )
        })
        .ok()?;
        let _ = self
            .value
            .compare_exchange(0, keyval, Ordering::AcqRel, Ordering::Acquire);
        self.created.store(true, Ordering::Release);
        let winner = self.value.load(Ordering::Acquire);
        if winner != keyval {
            // SAFETY: created above and used nowhere.
            unsafe { (functions.PMPI_Comm_free_keyval)(&mut keyval) };
        }
        Some(winner)
    }

    fn free(&self) {
        if self.created.swap(false, Ordering::AcqRel) {
            let mut keyval = self.value.swap(0, Ordering::AcqRel);
            // SAFETY: created by `get_or_create`; MPI keeps it while attributes refer to it.
            unsafe { (native().functions.PMPI_Comm_free_keyval)(&mut keyval) };
        }
    }
}

static STATE: Keyval = Keyval::new();
static END: Keyval = Keyval::new();
/// On communicators that MPI_Comm_idup was called on.
static DUPLICATED: Keyval = Keyval::new();
/// Set by the thread that hooks the end of MPI. (Were the attribute set twice, MPI would call the
/// first one's delete callback, as if it were the end.)
static HOOKED: AtomicBool = AtomicBool::new(false);
/// Set when MPI is about to end: from then on every call is native.
static ENDED: AtomicBool = AtomicBool::new(false);

/// The communicators that are being freed, and how many they are, so that calls seldom need the lock.
static FREED: Mutex<Vec<Freed>> = Mutex::new(Vec::new());
static FREEING: AtomicUsize = AtomicUsize::new(0);

/// A communicator that is being freed, by its handle, and the thread that does it: to another
/// thread the same handle may be a new communicator already.
#[derive(PartialEq)]
struct Freed(Communicator, ThreadId);

impl Freed {
    fn here(communicator: Communicator) -> Freed {
        Freed(communicator, std::thread::current().id())
    }
}

// SAFETY: the handle is only compared.
unsafe impl Send for Freed {}

/// Runs `free`, which frees `communicator`.
pub fn while_freed(communicator: Communicator, free: impl FnOnce() -> c_int) -> c_int {
    FREED.lock().push(Freed::here(communicator));
    FREEING.fetch_add(1, Ordering::SeqCst);
    let code = free();
    FREEING.fetch_sub(1, Ordering::SeqCst);
    let mut freed = FREED.lock();
    if let Some(index) = freed
        .iter()
        .position(|freed| *freed == Freed::here(communicator))
    {
        freed.swap_remove(index);
    }
    code
}

fn is_being_freed(communicator: Communicator) -> bool {
    FREEING.load(Ordering::SeqCst) > 0 && FREED.lock().contains(&Freed::here(communicator))
}

unsafe extern "C" fn copy_nothing(
    _communicator: MPI_Comm,
    _keyval: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI passes the address of an integer.
    unsafe { *flag = 0 };
    SUCCESS
}

unsafe extern "C" fn delete_state(
    _communicator: MPI_Comm,
    _keyval: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    // SAFETY: every value of this attribute was made by `Box::into_raw` in `state`, and MPI calls
    // this once for each.
    drop(unsafe { Box::from_raw(value.cast::<State>()) });
    SUCCESS
}

/// The state of `communicator`, made by `create` (collective) at the first call on it. None where
/// MPI is not there to use, or the attribute cannot be set.
///
/// The reference is good for the duration of a collective call: MPI forbids to free a communicator
/// meanwhile.
pub fn state<'call>(
    communicator: Communicator,
    create: impl FnOnce() -> Option<State>,
) -> Option<&'call State> {
    if ENDED.load(Ordering::Relaxed) {
        return None;
    }
    if STATE.get().is_none() && !is_active() {
        return None;
    }
    if is_being_freed(communicator) {
        return None;
    }
    let keyval = STATE.get_or_create(delete_state)?;
    if let Some(found) = lookup(communicator, keyval) {
        return Some(found);
    }
    hook_end();
    let state = Box::into_raw(Box::new(create()?));
    // SAFETY: `state` is a box's address, which `delete_state` turns back into the box.
    let set = check(unsafe {
        (native().functions.PMPI_Comm_set_attr)(communicator.handle(), keyval, state.cast())
    });
    if set.is_err() {
        // SAFETY: the attribute was not set, so nobody else owns the box.
        drop(unsafe { Box::from_raw(state) });
        return None;
    }
    // SAFETY: owned by the attribute from here on; see above for how long.
    Some(unsafe { &*state })
}

/// Remembers that a duplication of `communicator` that does not block is being started. Local.
pub fn mark_duplicated(communicator: Communicator) {
    if ENDED.load(Ordering::Relaxed) || communicator.is_null() || !is_active() {
        return;
    }
    if let Some(keyval) = DUPLICATED.get_or_create(delete_nothing) {
        let marker: *mut c_void = (&raw const ENDED).cast_mut().cast();
        // SAFETY: the value is only compared with null, never read through.
        unsafe {
            (native().functions.PMPI_Comm_set_attr)(communicator.handle(), keyval, marker);
        }
    }
}

/// Whether such a duplication may be under way. (When it ends is not seen.)
pub fn is_being_duplicated(communicator: Communicator) -> bool {
    let keyval = DUPLICATED.get();
    keyval.is_some_and(|keyval| attribute(communicator, keyval).is_some())
}

unsafe extern "C" fn delete_nothing(
    _communicator: MPI_Comm,
    _keyval: c_int,
    _value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    SUCCESS
}

fn lookup<'call>(communicator: Communicator, keyval: c_int) -> Option<&'call State> {
    let value = attribute(communicator, keyval)?;
    // SAFETY: every value of this attribute is the address of a `State`.
    Some(unsafe { &*value.cast::<State>() })
}

fn attribute(communicator: Communicator, keyval: c_int) -> Option<*mut c_void> {
    let mut value: *mut c_void = std::ptr::null_mut();
    let mut found = 0;
    // SAFETY: writes a pointer and an integer.
    let code = unsafe {
        (native().functions.PMPI_Comm_get_attr)(
            communicator.handle(),
            keyval,
            (&raw mut value).cast(),
            &mut found,
        )
    };
    (code == SUCCESS && found != 0 && !value.is_null()).then_some(value)
}

/// Sees to it that [`crate::communicator::end`] runs when MPI is about to end. Local. Not where MPI
/// was started by a session only: MPI_COMM_SELF must not be used there.
pub fn hook_end() {
    if HOOKED.load(Ordering::Relaxed) || !is_active() || HOOKED.swap(true, Ordering::AcqRel) {
        return;
    }
    let Some(keyval) = END.get_or_create(delete_end) else {
        return;
    };
    let marker: *mut c_void = (&raw const ENDED).cast_mut().cast();
    // SAFETY: the value is only compared with null, never read through.
    unsafe {
        (native().functions.PMPI_Comm_set_attr)(Communicator::own().handle(), keyval, marker);
    }
}

unsafe extern "C" fn delete_end(
    _communicator: MPI_Comm,
    _keyval: c_int,
    _value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    if !ENDED.swap(true, Ordering::AcqRel) {
        let _ = std::panic::catch_unwind(end);
    }
    SUCCESS
}

fn end() {
    crate::communicator::end();
    if let Some(keyval) = STATE.get() {
        if lookup(Communicator::world(), keyval).is_some() {
            // SAFETY: the attribute is set; its delete callback frees the state.
            unsafe {
                (native().functions.PMPI_Comm_delete_attr)(Communicator::world().handle(), keyval);
            }
        }
    }
    free_judge();
    STATE.free();
    DUPLICATED.free();
    END.free();
}
