//! Duplications of communicators that do not block: whether one is under way.
//!
//! Open MPI 4.1.4 and 5.0.11 give out context ids in the order of the communicators that others are
//! made from. A pending MPI_Comm_idup of MPI_COMM_WORLD, say, holds up whatever else its process
//! makes, and may wait for a process that waits for that. Of one communicator, Open MPI mixes up
//! what is made at the same time. So a program that makes a communicator meanwhile may hang, with
//! circulant or without it. One that makes none must not hang because circulant does. MPICH has
//! neither fault.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::library::{ABI, native};
use super::sys::MPI_Request;
use super::{SUCCESS, check, ignored_status};
use crate::abi::Abi;

/// A duplication that has not been seen to have ended.
struct Pending(MPI_Request);

// SAFETY: a handle, which any thread may use.
unsafe impl Send for Pending {}

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());
/// How many there are, with those that are being started or asked about.
static NUMBER: AtomicUsize = AtomicUsize::new(0);

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
    NUMBER.fetch_add(1, Ordering::SeqCst);
    let code = start();
    if code == SUCCESS {
        // SAFETY: by this function's contract.
        PENDING.lock().push(Pending(unsafe { *request }));
    } else {
        NUMBER.fetch_sub(1, Ordering::SeqCst);
    }
    code
}

/// Whether a duplication may be under way in this process, so that no communicator is to be made.
/// Local.
pub fn is_duplicating() -> bool {
    if NUMBER.load(Ordering::SeqCst) == 0 {
        return false;
    }
    // No lock is held while MPI is asked: it makes progress, and may call the program.
    let mut pending = std::mem::take(&mut *PENDING.lock());
    let before = pending.len();
    pending.retain(|duplication| !duplication.has_ended());
    let ended = before - pending.len();
    PENDING.lock().append(&mut pending);
    NUMBER.fetch_sub(ended, Ordering::SeqCst) > ended
}

impl Pending {
    fn has_ended(&self) -> bool {
        let get_status = native().functions.PMPI_Request_get_status;
        let mut flag = 0;
        // SAFETY: the program may have completed the request. But Open MPI keeps all requests of
        // duplications in a list of its own, which lasts as long as MPI. There a request that was
        // completed says that it is complete, until it serves to make another communicator. Then
        // it says whether that has been made, after which this duplication has ended, too.
        let code = unsafe { get_status(self.0, &mut flag, ignored_status()) };
        check(code).is_err() || flag != 0
    }
}
