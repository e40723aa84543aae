//! PMIx, the store of Open MPI's launchers, and of others.
//!
//! The MPI library calls it, from a library of its own choice, which it may load in MPI_Init only.
//! So circulant exports PMIx_Commit, with which the MPI library makes known what it has put: that
//! call shows which library it is, and comes before MPI_Init's barrier. And it exports PMIx_Put, to
//! see a key that the MPI library's processes have.
//!
//! Open MPI 5 (5.0.11) wants what all have put to be handed out at that barrier, but its launcher
//! hands out nothing. What a process of another node has put is asked for, process by process.
//!
//! Some versions of Open MPI 3 and 4 have a PMIx inside whose functions have other names, unless
//! they are built with one that stands by itself. All that is here is there for each [`Library`].
//!
//! The structures are laid out as PMIx has had them since its version 2.

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

use once_cell::sync::OnceCell;
use parking_lot::{Condvar, Mutex};

use super::key;
use crate::linker::{Object, Symbols, name};

const SUCCESS: c_int = 0;
const NOT_SUPPORTED: c_int = -47;

/// PMIX_GLOBAL: for processes of this node and of others.
const GLOBAL: u8 = 3;

/// PMIX_RANK_WILDCARD: of the job, and not of one process.
const ALL_RANKS: u32 = u32::MAX - 1;

/// The types of values that are used.
const BOOL: u16 = 1;
const STRING: u16 = 3;
const INT: u16 = 6;

/// How long a key of the MPI library's of a process on another node may take, in seconds; and then,
/// should there be no answer, each time that its entry is asked for. (A process that has put
/// something else is waited for by its node's daemon, since it may put the key later.)
const PATIENCE: c_int = 2;
const MORE_PATIENCE: [c_int; 2] = [10, 10];

/// pmix_value_t: a type and a union, which is no larger than this in any version.
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
    room: [u64; 30],
}

#[repr(C)]
union Data {
    flag: bool,
    integer: c_int,
    string: *mut c_char,
    word: u64,
}

impl Value {
    fn new(kind: u16, set: impl FnOnce(&mut Data)) -> Value {
        let mut data = Data { word: 0 };
        set(&mut data);
        let room = [0; 30];
        Value { kind, data, room }
    }
}

/// pmix_info_t; an array of one, so what follows the value's known part is not looked at.
#[repr(C)]
struct Info {
    key: Key,
    flags: u32,
    value: Value,
}

impl Info {
    fn new(key: &CStr, value: Value) -> Info {
        Info {
            key: filled(key),
            flags: 0,
            value,
        }
    }

    /// Only what is known on this node.
    fn immediate() -> Info {
        let value = Value::new(BOOL, |data| data.flag = true);
        Info::new(c"pmix.immediate", value)
    }

    /// For so many seconds at most.
    fn patient(seconds: c_int) -> Info {
        let value = Value::new(INT, |data| data.integer = seconds);
        Info::new(c"pmix.timeout", value)
    }
}

/// pmix_proc_t.
#[repr(C)]
struct Process {
    namespace: [c_char; 256],
    rank: u32,
}

/// A rank, as PMIx has them; PMIX_RANK_UNDEF for what is none.
fn number(rank: usize) -> u32 {
    u32::try_from(rank).unwrap_or(u32::MAX)
}

/// A key, as PMIx has them.
type Key = [c_char; 512];

/// A string in an array that it does not fill.
fn filled<const N: usize>(text: &CStr) -> [c_char; N] {
    let mut array = [0; N];
    let bytes = text.to_bytes();
    for (place, byte) in array[..N - 1].iter_mut().zip(bytes) {
        *place = *byte as c_char;
    }
    array
}

type Commit = unsafe extern "C" fn() -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut c_void) -> c_int;
type Get = unsafe extern "C" fn(
    *const Process,
    *const c_char,
    *const Info,
    usize,
    *mut *mut Value,
) -> c_int;
type Found = unsafe extern "C" fn(c_int, *mut Value, *mut c_void);
type GetLater = unsafe extern "C" fn(
    *const Process,
    *const c_char,
    *const Info,
    usize,
    Found,
    *mut c_void,
) -> c_int;

/// The functions of the library that the MPI library calls.
struct Functions {
    commit: Commit,
    put: Put,
    get: Get,
    get_later: GetLater,
}

/// A PMIx library that an MPI library may call, by the names of its functions.
pub struct Library {
    commit: &'static CStr,
    put: &'static CStr,
    get: &'static CStr,
    get_later: &'static CStr,
    functions: OnceCell<Option<Functions>>,
}

/// The library whose names all begin so.
macro_rules! library {
    ($prefix:literal) => {
        Library {
            commit: name!($prefix PMIx_Commit),
            put: name!($prefix PMIx_Put),
            get: name!($prefix PMIx_Get),
            get_later: name!($prefix PMIx_Get_nb),
            functions: OnceCell::new(),
        }
    };
}

/// One that stands by itself.
pub static PMIX: Library = library!("");
/// The one inside some versions of Open MPI 4. (That inside 4.1.4 has the plain names.)
pub static OF_OPEN_MPI_4: Library = library!("OPAL_MCA_PMIX3X_");
/// The one inside some versions of Open MPI 3.
pub static OF_OPEN_MPI_3: Library = library!("OPAL_MCA_PMIX2X_");

impl Library {
    fn functions(&self) -> Option<&Functions> {
        self.functions.get_or_init(|| self.find()).as_ref()
    }

    fn find(&self) -> Option<Functions> {
        let object = self.object()?;
        let (commit, put) = (object.find(self.commit)?, object.find(self.put)?);
        let (get, get_later) = (object.find(self.get)?, object.find(self.get_later)?);
        // SAFETY: PMIx's functions of these names, which have these types since its version 2.
        Some(unsafe {
            Functions {
                commit: std::mem::transmute::<*mut c_void, Commit>(commit),
                put: std::mem::transmute::<*mut c_void, Put>(put),
                get: std::mem::transmute::<*mut c_void, Get>(get),
                get_later: std::mem::transmute::<*mut c_void, GetLater>(get_later),
            }
        })
    }

    /// An object that is loaded, and is or depends on this library: one with a PMIx_Commit that is
    /// not circulant's, of this build or of one that passes calls to it.
    fn object(&self) -> Option<Symbols> {
        let preloaded = Symbols::GLOBAL.find(c"circulant_version");
        let circulants = [Some(Library::object as *mut c_void), preloaded];
        let circulants = circulants.map(|function| function.and_then(Object::of));
        let has_another = |symbols: &Symbols| {
            let found = symbols.find(self.commit);
            found.is_some_and(|function| !circulants.contains(&Object::of(function)))
        };
        std::iter::once(Symbols::NEXT)
            .chain(Symbols::of_all_loaded())
            .find(has_another)
    }

    /// Its PMIx_Commit.
    pub fn commit(&self) -> c_int {
        let Some(functions) = self.functions() else {
            return NOT_SUPPORTED;
        };
        // SAFETY: takes no arguments; the caller has called PMIx_Init.
        unsafe { (functions.commit)() }
    }

    /// Its PMIx_Put.
    ///
    /// # Safety
    /// The arguments as the caller of PMIx_Put passed them.
    pub unsafe fn put(&self, scope: u8, key: *const c_char, value: *mut c_void) -> c_int {
        let Some(functions) = self.functions() else {
            return NOT_SUPPORTED;
        };
        if scope == GLOBAL && !key.is_null() {
            // SAFETY: a key is a string.
            let key = unsafe { CStr::from_ptr(key) };
            // Those of PMIx's own are not asked for at other nodes.
            if !key.to_bytes().starts_with(b"pmix") {
                FAMILIAR.get_or_init(|| filled(key));
            }
        }
        // SAFETY: by this function's contract.
        unsafe { (functions.put)(scope, key, value) }
    }
}

/// The first key that the MPI library has put for processes of other nodes. All processes of a job
/// put that, as a rule, since it has an address. (Open MPI's rank 0 puts others besides, later.)
static FAMILIAR: OnceCell<Key> = OnceCell::new();

/// The store, of a process that a launcher with PMIx has started.
pub struct Pmix {
    functions: &'static Functions,
    namespace: CString,
    rank: usize,
}

impl Pmix {
    /// That of this process, if there is one. Not before its MPI library has begun to use it, by
    /// the functions of this library.
    pub fn of_process(library: &'static Library) -> Option<Pmix> {
        Some(Pmix {
            rank: env::var("PMIX_RANK").ok()?.parse().ok()?,
            namespace: CString::new(env::var("PMIX_NAMESPACE").ok()?).ok()?,
            functions: library.functions()?,
        })
    }

    /// Makes this process's entry, if that can be done. All who read the entries see whether it is
    /// there.
    pub fn put(&self, entry: &str) {
        let (Some(key), Ok(text)) = (own_key(self.rank), CString::new(entry)) else {
            return;
        };
        let mut value = Value::new(STRING, |data| data.string = text.as_ptr().cast_mut());
        // SAFETY: a key and a value as PMIx declares them, which it copies.
        unsafe { (self.functions.put)(GLOBAL, key.as_ptr(), (&raw mut value).cast()) };
    }

    /// The entry of a rank, if it made one.
    ///
    /// What another node's process has put may be on that node only, and is brought here then. So
    /// this may take some seconds, should the launcher not answer.
    pub fn entry(&self, rank: usize) -> Option<String> {
        let key = own_key(rank)?;
        let here = || self.get(number(rank), &key);
        here().or_else(|| {
            self.fetch(rank, &key)?;
            here()
        })
    }

    /// Has what a rank has put brought to this node. None, if it is of this node: then all is here.
    fn fetch(&self, rank: usize, key: &Key) -> Option<()> {
        let here = self.get(ALL_RANKS, &filled(c"pmix.lpeers"));
        let here = here.unwrap_or_default();
        if here.split(',').any(|other| other.parse() == Ok(rank)) {
            return None;
        }
        let first = FAMILIAR.get().map(|familiar| (*familiar, PATIENCE));
        let then = MORE_PATIENCE.map(|patience| (*key, patience));
        let mut requests = first.into_iter().chain(then);
        requests
            .any(|(key, patience)| self.ask_for(rank, &key, patience))
            .then_some(())
    }

    fn process(&self, rank: u32) -> Process {
        let namespace = filled(&self.namespace);
        Process { namespace, rank }
    }

    /// The value of a key that is known on this node.
    fn get(&self, rank: u32, key: &Key) -> Option<String> {
        let (process, info) = (self.process(rank), Info::immediate());
        let mut value = std::ptr::null_mut();
        // SAFETY: a process, a key and one attribute as PMIx declares them; writes a pointer.
        let status = unsafe { (self.functions.get)(&process, key.as_ptr(), &info, 1, &mut value) };
        if status != SUCCESS || value.is_null() {
            return None;
        }
        // SAFETY: a value that PMIx has allocated, for its caller to free with what it points to.
        unsafe {
            let text = text_of(value);
            if (*value).kind == STRING {
                libc::free((*value).data.string.cast());
            }
            libc::free(value.cast());
            text
        }
    }

    /// Asks the launcher for a key of a rank. With that, all that the rank has put comes to this
    /// node. Whether there was an answer in time. The launcher of Open MPI 5 may lose requests of
    /// which a process makes several at once.
    fn ask_for(&self, rank: usize, key: &Key, patience: c_int) -> bool {
        let process = self.process(number(rank));
        let fetching = Arc::new(Fetching::new(patience));
        let data = Arc::into_raw(fetching.clone());
        // SAFETY: as in `get`. The attribute, and `data`, live until `found` was called, since that
        // owns a share of both.
        let status = unsafe {
            let info = &raw const (*data).info;
            let data = data.cast_mut().cast();
            (self.functions.get_later)(&process, key.as_ptr(), info, 1, found, data)
        };
        if status == SUCCESS {
            return fetching.wait(patience) == Some(SUCCESS);
        }
        // SAFETY: `found` will not be called, so its share is still here.
        drop(unsafe { Arc::from_raw(data) });
        false
    }
}

fn own_key(rank: usize) -> Option<Key> {
    let key = CString::new(key(rank)).ok()?;
    Some(filled(&key))
}

/// # Safety
/// A value of PMIx's.
unsafe fn text_of(value: *const Value) -> Option<String> {
    // SAFETY: by this function's contract; what is of type string points to one.
    unsafe {
        if (*value).kind != STRING || (*value).data.string.is_null() {
            return None;
        }
        let text = CStr::from_ptr((*value).data.string);
        Some(text.to_string_lossy().into_owned())
    }
}

/// A request under way.
struct Fetching {
    info: Info,
    /// The status of its end.
    end: Mutex<Option<c_int>>,
    changed: Condvar,
}

impl Fetching {
    fn new(patience: c_int) -> Fetching {
        Fetching {
            info: Info::patient(patience),
            end: Mutex::new(None),
            changed: Condvar::new(),
        }
    }

    fn end(&self, status: c_int) {
        *self.end.lock() = Some(status);
        self.changed.notify_all();
    }

    /// The status of its end. The launcher ends a request in time; one that it forgets is given up
    /// a little later.
    fn wait(&self, patience: c_int) -> Option<c_int> {
        let last = Instant::now() + Duration::from_secs(1 + u64::from(patience.unsigned_abs()));
        let mut end = self.end.lock();
        while end.is_none() && !self.changed.wait_until(&mut end, last).timed_out() {}
        *end
    }
}

// SAFETY: the attribute is only read, by PMIx; its value is a number.
unsafe impl Send for Fetching {}
// SAFETY: as above.
unsafe impl Sync for Fetching {}

/// The end of a request, in a thread of PMIx's.
unsafe extern "C" fn found(status: c_int, _value: *mut Value, data: *mut c_void) {
    // SAFETY: the share that the request was started with, once.
    let fetching = unsafe { Arc::from_raw(data.cast::<Fetching>().cast_const()) };
    fetching.end(status);
}
