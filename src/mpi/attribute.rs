//! Typed attributes of communicators, and the keyvals behind them.
//!
//! The copy callback copies nothing, since a duplicate gets what it needs when it needs it. But it
//! is a real function: Open MPI does not accept a null one. The delete callback drops the value.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};

use super::library::native;
use super::sys::{MPI_Comm, MPI_Datatype};
use super::{Communicator, Error, SUCCESS, check, frame};

/// A keyval that is created when it is first needed.
pub struct Keyval<K> {
    value: AtomicI32,
    created: AtomicBool,
    kind: PhantomData<fn() -> K>,
}

impl<K> Keyval<K> {
    /// None yet.
    pub const fn new() -> Keyval<K> {
        Keyval {
            value: AtomicI32::new(0),
            created: AtomicBool::new(false),
            kind: PhantomData,
        }
    }

    /// The keyval, if it exists.
    pub fn get(&self) -> Option<c_int> {
        self.created
            .load(Ordering::Acquire)
            .then(|| self.value.load(Ordering::Relaxed))
    }

    /// The keyval, created by `create` unless it exists. Without a lock, which must not be held
    /// across an MPI call: of two threads that create one at once, the later leaves its own unused.
    fn get_or_create_by(&self, create: impl FnOnce(&mut c_int) -> c_int) -> Option<c_int> {
        if let Some(keyval) = self.get() {
            return Some(keyval);
        }
        let mut keyval = native().constants.keyval_invalid.0;
        check(create(&mut keyval)).ok()?;
        let _ = self
            .value
            .compare_exchange(0, keyval, Ordering::AcqRel, Ordering::Acquire);
        self.created.store(true, Ordering::Release);
        Some(self.value.load(Ordering::Acquire))
    }

    fn free_by(&self, free: impl FnOnce(&mut c_int)) {
        if self.created.swap(false, Ordering::AcqRel) {
            free(&mut self.value.swap(0, Ordering::AcqRel));
        }
    }
}

/// Of datatypes, with boxes as values, which are dropped with the datatype.
pub struct OfDatatypes<T>(PhantomData<T>);

impl<T> Keyval<OfDatatypes<T>> {
    /// The keyval, created unless it exists.
    pub fn get_or_create(&self) -> Option<c_int> {
        self.get_or_create_by(|keyval| {
            // SAFETY: both callbacks are functions of the types that MPI calls.
            unsafe {
                (native().functions.PMPI_Type_create_keyval)(
                    Some(copy_nothing::<MPI_Datatype>),
                    Some(drop_value_of_datatype::<T>),
                    keyval,
                    std::ptr::null_mut(),
                )
            }
        })
    }

    /// Gives it up. MPI keeps it while attributes refer to it.
    pub fn free(&self) {
        self.free_by(|keyval| {
            // SAFETY: created above.
            unsafe { (native().functions.PMPI_Type_free_keyval)(keyval) };
        });
    }
}

/// Of a communicator or a datatype, by its handle.
unsafe extern "C" fn copy_nothing<Handle>(
    _handle: Handle,
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

unsafe extern "C" fn drop_value_of_datatype<T>(
    _datatype: MPI_Datatype,
    _keyval: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    // SAFETY: every value of such a keyval was made by `Box::into_raw`, and MPI calls this once for
    // each.
    unsafe { drop_box::<T>(value) };
    SUCCESS
}

/// # Safety
/// `value` was made by `Box::into_raw` of a box with a `T`, and is not used any more.
unsafe fn drop_box<T>(value: *mut c_void) {
    // SAFETY: by this function's contract.
    let value = unsafe { Box::from_raw(value.cast::<T>()) };
    // A panic must not cross into MPI, and there is nobody to tell.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(value)));
}

/// A keyval of communicators, whose values are boxes with a `T`. Its extra state is the cache.
struct Holding<T>(PhantomData<T>);

impl<T> Holding<T> {
    /// Creates a keyval whose extra state is `cache`; MPI's error code.
    fn create(keyval: &mut c_int, cache: &'static Cache) -> c_int {
        let extra = std::ptr::from_ref(cache).cast_mut().cast();
        // SAFETY: both callbacks are functions of the types that MPI calls.
        unsafe {
            (native().functions.PMPI_Comm_create_keyval)(
                Some(copy_nothing::<MPI_Comm>),
                Some(drop_value::<T>),
                keyval,
                extra,
            )
        }
    }
}

/// A value on a communicator.
struct Hung<T> {
    value: T,
    /// The [frame] of the innermost call in progress that uses it, or 0. Such calls are nested,
    /// since MPI forbids concurrent collective calls on one communicator. So a load and a store
    /// will do.
    user: AtomicUsize,
    /// Set when the communicator was freed during a call that uses it: by an error handler.
    is_freed: AtomicBool,
}

/// The use of a value by a call in progress.
struct Use<T> {
    hung: *const Hung<T>,
    /// The call around this one that uses it, too.
    around: usize,
}

impl<T> Hung<T> {
    /// The frame of the innermost call in progress that uses it, or 0.
    #[inline(always)]
    fn user(&self) -> usize {
        let user = self.user.load(Ordering::Relaxed);
        if user > frame() { user } else { 0 }
    }
}

impl<T> Use<T> {
    /// # Safety
    /// There is a value at `hung`, made by `Box::into_raw`, on a communicator. It is dropped by the
    /// delete callback alone, or by this.
    #[inline(always)]
    unsafe fn new(hung: *const Hung<T>) -> Use<T> {
        // SAFETY: by this function's contract.
        let value = unsafe { &*hung };
        let around = value.user();
        value.user.store(frame(), Ordering::Relaxed);
        Use { hung, around }
    }

    fn value(&self) -> &T {
        // SAFETY: by the contract of `new` only the delete callback and `drop` of a use drop the
        // value. `new` has set `user`, so the callback leaves the value to the outermost use, whose
        // `drop` comes after this one's.
        unsafe { &(*self.hung).value }
    }
}

impl<T> Drop for Use<T> {
    fn drop(&mut self) {
        // SAFETY: as in `value`.
        let hung = unsafe { &*self.hung };
        hung.user.store(self.around, Ordering::Relaxed);
        if self.around == 0 && hung.is_freed.load(Ordering::Relaxed) {
            // SAFETY: the delete callback has left it to this, the last use.
            unsafe { drop_box::<Hung<T>>(self.hung.cast_mut().cast()) };
        }
    }
}

unsafe extern "C" fn drop_value<T>(
    communicator: MPI_Comm,
    _keyval: c_int,
    value: *mut c_void,
    extra: *mut c_void,
) -> c_int {
    // SAFETY: the extra state of such a keyval is a cache that is never dropped.
    unsafe { &*extra.cast::<Cache>() }.forget(communicator.0 as usize);
    // SAFETY: every value of such a keyval was made by `Box::into_raw` of this type, and MPI calls
    // this once for each.
    let hung = unsafe { &*value.cast::<Hung<T>>() };
    if hung.user() > 0 {
        hung.is_freed.store(true, Ordering::Relaxed);
    } else {
        // SAFETY: as above; nobody uses it.
        unsafe { drop_box::<Hung<T>>(value) };
    }
    SUCCESS
}

/// The `most` entries of a table that a handle may have: from the entry that its hash says, the
/// next ones, since another handle may have the first. The length of the table is a power of two.
pub(super) fn nearby<T>(table: &[T], handle: usize, most: usize) -> impl Iterator<Item = &T> {
    let mixed = handle.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize);
    let first = mixed >> (usize::BITS - table.len().trailing_zeros());
    (0..most).map(move |next| &table[(first + next) % table.len()])
}

/// The values of some communicators, by their handles: so that a call need not ask MPI.
///
/// It is right although handles are used again. A value leaves the cache in the delete callback,
/// which MPI runs before the handle can mean another communicator. And an entry is never taken from
/// a handle that is in use, so what a call finds for its own handle cannot change under it. Handles
/// that find no free entry are not cached.
struct Cache([Entry; 256]);

struct Entry {
    /// The handle; [`FREE`] or [`BUSY`] if none.
    handle: AtomicUsize,
    value: AtomicPtr<c_void>,
}

/// No communicator's handle is 0 or this in any MPI. But a program may pass them.
const FREE: usize = 0;
const BUSY: usize = usize::MAX;

impl Cache {
    const fn new() -> Cache {
        Cache(
            [const {
                Entry {
                    handle: AtomicUsize::new(FREE),
                    value: AtomicPtr::new(std::ptr::null_mut()),
                }
            }; 256],
        )
    }

    /// The entries that a handle may be in.
    fn entries(&self, handle: usize) -> impl Iterator<Item = &Entry> {
        nearby(&self.0, handle, 4)
    }

    fn find(&self, handle: usize) -> Option<*mut c_void> {
        if handle == FREE || handle == BUSY {
            return None;
        }
        let mut entries = self.entries(handle);
        let found = entries.find(|entry| entry.handle.load(Ordering::Acquire) == handle)?;
        let value = found.value.load(Ordering::Relaxed);
        // An entry that is free has none, whatever handle was looked for.
        (!value.is_null()).then_some(value)
    }

    fn remember(&self, handle: usize, value: *mut c_void) {
        // The ranks of a simulation may share what is static, and have the same handles.
        if cfg!(smpi) || self.find(handle).is_some() {
            return;
        }
        let take = |entry: &&Entry| {
            let (order, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            entry
                .handle
                .compare_exchange(FREE, BUSY, order, failure)
                .is_ok()
        };
        if let Some(entry) = self.entries(handle).find(take) {
            entry.value.store(value, Ordering::Relaxed);
            entry.handle.store(handle, Ordering::Release);
        }
    }

    fn forget(&self, handle: usize) {
        for entry in self.entries(handle) {
            let (order, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            let is_it = entry.handle.compare_exchange(handle, BUSY, order, failure);
            if is_it.is_ok() {
                entry.value.store(std::ptr::null_mut(), Ordering::Relaxed);
                entry.handle.store(FREE, Ordering::Release);
            }
        }
    }
}

/// An attribute of communicators with values of type `T`, which are dropped with the communicator.
pub struct Attribute<T> {
    keyval: Keyval<Holding<T>>,
    cache: Cache,
}

impl<T: Send + Sync> Attribute<T> {
    /// Of no communicator yet.
    pub const fn new() -> Attribute<T> {
        Attribute {
            keyval: Keyval::new(),
            cache: Cache::new(),
        }
    }

    /// Whether any communicator may have it.
    pub fn is_in_use(&self) -> bool {
        self.keyval.get().is_some()
    }

    /// Runs `action` with the value that hangs on `communicator`. If none does, `make` makes it.
    /// Without a communicator, or if that fails, there is none.
    ///
    /// # Errors
    /// MPI's, which it has raised: the handle leads to no communicator.
    #[inline]
    pub fn with<R>(
        &'static self,
        communicator: Option<Communicator>,
        make: impl FnOnce() -> Result<Option<T>, Error>,
        action: impl FnOnce(Option<&T>) -> R,
    ) -> Result<R, Error> {
        let value = match communicator {
            None => None,
            Some(communicator) => match self.cache.find(communicator.handle().0 as usize) {
                Some(cached) => Some(cached),
                None => self.ask_or_make(communicator, make)?,
            },
        };
        // SAFETY: every value of this keyval was made by `hang`, and is dropped with the
        // communicator.
        let using = value.map(|value| unsafe { Use::new(value.cast::<Hung<T>>()) });
        Ok(action(using.as_ref().map(Use::value)))
    }

    /// Runs `action` with the value that hangs on `communicator`, if one does, at any time and on
    /// any thread: also while a call uses it.
    ///
    /// # Errors
    /// As of `with`.
    pub fn look(&self, communicator: Communicator, action: impl FnOnce(&T)) -> Result<(), Error> {
        if let Some(value) = self.ask(communicator)? {
            // SAFETY: a value of this keyval, as in `with`. It is there as long as the
            // communicator, which the program must not free during this call on it.
            action(unsafe { &(*value.cast::<Hung<T>>()).value });
        }
        Ok(())
    }

    #[cold]
    fn ask_or_make(
        &'static self,
        communicator: Communicator,
        make: impl FnOnce() -> Result<Option<T>, Error>,
    ) -> Result<Option<*mut c_void>, Error> {
        let mut found = self.ask(communicator)?;
        if found.is_none() {
            if let Some(value) = make()? {
                self.hang(communicator, value);
                found = self.ask(communicator)?;
            }
        }
        if let Some(value) = found {
            self.cache.remember(communicator.handle().0 as usize, value);
        }
        Ok(found)
    }

    /// Whether a value hangs on `communicator`.
    fn is_on(&self, communicator: Communicator) -> bool {
        self.ask(communicator).is_ok_and(|value| value.is_some())
    }

    fn ask(&self, communicator: Communicator) -> Result<Option<*mut c_void>, Error> {
        let mut value: *mut c_void = std::ptr::null_mut();
        let mut found = 0;
        let Some(keyval) = self.keyval.get() else {
            return Ok(None);
        };
        // SAFETY: writes a pointer and an integer.
        check(unsafe {
            (native().functions.PMPI_Comm_get_attr)(
                communicator.handle(),
                keyval,
                (&raw mut value).cast(),
                &mut found,
            )
        })?;
        Ok((found != 0 && !value.is_null()).then_some(value))
    }

    /// Hangs `value` on `communicator`, on which none hangs; or drops it, if MPI does not do that.
    fn hang(&'static self, communicator: Communicator, value: T) {
        let create = |keyval: &mut c_int| Holding::<T>::create(keyval, &self.cache);
        let Some(keyval) = self.keyval.get_or_create_by(create) else {
            return;
        };
        let value = Box::into_raw(Box::new(Hung {
            value,
            user: AtomicUsize::new(0),
            is_freed: AtomicBool::new(false),
        }));
        // SAFETY: a box's address, which `drop_value` or the last `Use` turns back into the box.
        let set = check(unsafe {
            (native().functions.PMPI_Comm_set_attr)(communicator.handle(), keyval, value.cast())
        });
        if set.is_err() {
            // SAFETY: the attribute was not set, so nobody else owns the box.
            drop(unsafe { Box::from_raw(value) });
        }
    }

    /// The end of MPI: drops the value of MPI_COMM_WORLD, whose delete callbacks Open MPI 5 does
    /// not run, and gives the keyval up. MPI_Finalize, which alone leads here, must not be called
    /// while a call on MPI_COMM_WORLD is in progress, so nobody uses the value.
    pub fn end(&self) {
        let world = Communicator::world();
        let is_set = self.is_on(world);
        if let Some(keyval) = self.keyval.get().filter(|_| is_set) {
            // SAFETY: the attribute is set; its callback drops the value, which nobody uses.
            unsafe { (native().functions.PMPI_Comm_delete_attr)(world.handle(), keyval) };
        }
        self.keyval.free_by(|keyval| {
            // SAFETY: created by `hang`; MPI keeps it while attributes refer to it.
            unsafe { (native().functions.PMPI_Comm_free_keyval)(keyval) };
        });
    }
}
