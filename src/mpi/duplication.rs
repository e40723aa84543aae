//! Duplications of communicators that do not block: whether one is under way.
//!
//! Open MPI 4.1.4 and 5.0.11 give out context ids in the order of the communicators that others are
//! made from. A pending MPI_Comm_idup of MPI_COMM_WORLD, say, holds up whatever else its process
//! makes, and may wait for a process that waits for that. Of one communicator, Open MPI mixes up
//! what is made at the same time. So a program that makes a communicator meanwhile may hang, with
//! circulant or without it. One that makes none must not hang because circulant does. MPICH has
//! neither fault.
//!
//! A duplication counts from its start until the program has completed its request. When it ends in
//! between depends on the time, and so would the order in which reductions of floating-point
//! numbers are made, if that counted.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::library::{ABI, function};
use super::probe::probe;
use super::sys::MPI_Request;
use super::{SUCCESS, may_be_called_by_several_threads};
use crate::abi::Abi;

/// A duplication that has not been seen to be completed.
struct Pending {
    request: MPI_Request,
    /// Fortran's handle of the request: its place in a table of Open MPI's.
    place: c_int,
}

// SAFETY: a handle, which any thread may use.
unsafe impl Send for Pending {}

/// The lock is held while handles are translated, which is local.
static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());
/// How many are being started.
static STARTING: AtomicUsize = AtomicUsize::new(0);

/// While one is being started; also if an exception of the program's ends that.
struct Starting;

impl Starting {
    fn begin() -> Starting {
        STARTING.fetch_add(1, Ordering::SeqCst);
        Starting
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        STARTING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs `start`, which starts a duplication, and returns what that returns. Local.
///
/// # Safety
/// If `start` succeeds, `request` points to the request.
pub unsafe fn start_duplication(
    request: *const MPI_Request,
    start: impl FnOnce() -> c_int,
) -> c_int {
    if ABI != Abi::OpenMpi {
        return start();
    }
    // It could not be made meanwhile.
    probe();
    let _starting = Starting::begin();
    let code = start();
    if code == SUCCESS {
        let mut pending = PENDING.lock();
        // Before the new request is in the table: it may be an old one that serves again.
        pending.retain(Pending::is_there);
        // SAFETY: by this function's contract.
        pending.extend(Pending::of(unsafe { *request }));
    }
    code
}

/// Whether a duplication may be under way in this process, so that no communicator is to be made.
/// Local.
pub(super) fn is_duplicating() -> bool {
    if ABI != Abi::OpenMpi {
        return false;
    }
    let mut pending = PENDING.lock();
    pending.retain(Pending::is_there);
    !pending.is_empty() || STARTING.load(Ordering::SeqCst) > 0
}

/// Whether another thread may start one at any time.
pub(super) fn may_be_started() -> bool {
    ABI == Abi::OpenMpi && may_be_called_by_several_threads()
}

/// MPI is about to end.
pub fn forget_duplications() {
    PENDING.lock().clear();
}

/// MPI_Request_c2f and MPI_Request_f2c. Where Fortran's integers are of 64 bits, places are smaller
/// than 2^31 all the same.
struct Translation {
    to_fortran: ToFortran,
    from_fortran: FromFortran,
}

type ToFortran = unsafe extern "C" fn(MPI_Request) -> c_int;
type FromFortran = unsafe extern "C" fn(c_int) -> MPI_Request;

/// None where the MPI library has none, which Open MPI has.
fn translation() -> Option<&'static Translation> {
    static FOUND: OnceCell<Option<Translation>> = OnceCell::new();
    let find = || {
        let names = [c"PMPI_Request_c2f", c"PMPI_Request_f2c"];
        let [to_fortran, from_fortran] = names.map(function);
        // SAFETY: both are the MPI library's functions of these names, whose types these are.
        unsafe {
            Some(Translation {
                to_fortran: std::mem::transmute::<*mut c_void, ToFortran>(to_fortran?),
                from_fortran: std::mem::transmute::<*mut c_void, FromFortran>(from_fortran?),
            })
        }
    };
    FOUND.get_or_init(find).as_ref()
}

impl Pending {
    fn of(request: MPI_Request) -> Option<Pending> {
        let to_fortran = translation()?.to_fortran;
        // SAFETY: a request that MPI has just made.
        let place = unsafe { to_fortran(request) };
        Some(Pending { request, place })
    }

    /// Whether the program has not completed it. Open MPI then takes a request out of its table.
    fn is_there(&self) -> bool {
        translation().is_some_and(|translation| {
            // SAFETY: Open MPI finds nothing, or another request, in a place that is not this
            // request's any more. If it is the same again, it is of another duplication, which is
            // under way.
            unsafe { (translation.from_fortran)(self.place) }.0 == self.request.0
        })
    }
}
