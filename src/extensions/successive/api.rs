//! circulant_successive_bcast and circulant_successive_owner: they check arguments and raise
//! errors.

use std::ffi::{c_int, c_void};

use super::call::{SuccessiveBcast, successive_bcast, successive_bcast_natively};
use super::values::Callbacks;
use crate::collective::{self, Exported};
use crate::communicator::State;
use crate::extensions::intra;
use crate::interpose::{Boundary, CommWord, DatatypeWord, pass_on, typed};
use crate::mpi::{Datatype, Error, Held, SUCCESS, native};
use crate::plan::Succession;
use crate::report::Work;
use crate::select::Operation;

/// A callback of circulant_successive_bcast. It gets the step, a buffer of count elements, and the
/// context that the program passed. It returns 0 (MPI_SUCCESS), or an error code, which ends the
/// operation. It must not throw an exception.
#[allow(non_camel_case_types)]
pub type circulant_step =
    Option<unsafe extern "C" fn(i: c_int, buffer: *mut c_void, context: *mut c_void) -> c_int>;

/// n broadcasts in order, i = 0, 1, ..., n - 1. Each is of count elements of datatype, from the
/// process that circulant_successive_owner returns for i.
///
/// On the owner of step i, produce(i, buffer, context) fills the buffer. It is called after the
/// values 0, ..., i - 1 were stored there. On every process, including the owner, store(i, buffer,
/// context) is called for each step, in order. The buffer belongs to circulant. It has the layout
/// of datatype, is aligned to 16 bytes, and is valid until the callback returns; what store writes
/// there is lost. Callbacks run in the calling thread, while later values are on their way. They
/// may call MPI: point-to-point functions on any communicator, collective functions on
/// communicators other than comm. But they must not wait for callbacks of other processes on comm,
/// which may be p steps behind or ahead. (With CIRCULANT_SUCCESSIVE_BCAST=trees they may wait for
/// callbacks of the same step.)
///
/// Collective. n, count and the type signature must be the same on all processes.
///
/// Returns MPI_SUCCESS, or on all processes the code that a callback returned. If several callbacks
/// returned one, the least step counts, and among those the least rank. The process whose callback
/// it was calls no more callbacks; the others call none once they know, at most p steps later. Such
/// a code belongs to the program and is not raised on the communicator. Errors of MPI are raised,
/// and so are errors of arguments: MPI_ERR_COMM (null, or an inter-communicator), MPI_ERR_ARG (n is
/// negative, or a callback is null), MPI_ERR_COUNT, MPI_ERR_TYPE. If a process has no memory for a
/// value, all processes return MPI_ERR_NO_MEM.
///
/// # Safety
/// The callbacks may be called as above until the function returns. The handles are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn circulant_successive_bcast(
    n: c_int,
    count: c_int,
    datatype: DatatypeWord,
    produce: circulant_step,
    store: circulant_step,
    context: *mut c_void,
    comm: CommWord,
) -> c_int {
    let _boundary = Boundary::new("circulant_successive_bcast");
    pass_on!(required circulant_successive_bcast(
        n, count, datatype, produce, store, context, comm
    ));
    // SAFETY: an argument of this call.
    let communicator = match unsafe { intra(comm) } {
        Ok(communicator) => communicator,
        Err(code) => return code,
    };
    let classes = &native().constants;
    let (Some(produce), Some(store), 0..) = (produce, store, n) else {
        return communicator.raise(Error(classes.err_arg.0));
    };
    let Ok(count) = usize::try_from(count) else {
        return communicator.raise(Error(classes.err_count.0));
    };
    // SAFETY: an argument of this call.
    let datatype = unsafe { Datatype::of(typed(datatype)) };
    let Some(datatype) = datatype.filter(Datatype::may_be_committed) else {
        return communicator.raise(Error(classes.err_type.0));
    };
    let call = SuccessiveBcast {
        steps: n,
        // SAFETY: by this function's contract.
        callbacks: unsafe { Callbacks::new((produce, store), context, (count, datatype)) },
    };
    let mut code = SUCCESS;
    let natively = || successive_bcast_natively(communicator, call);
    let ours = |state: &State, work: &mut Work, _: &mut Option<Held>| {
        code = successive_bcast(state, call, work)?;
        Ok(None)
    };
    // Callbacks may free it.
    let _held = Held::new([Some(datatype), None], None);
    let call = Exported::own(Operation::SuccessiveBcast, communicator);
    let result = collective::run(call, natively, ours);
    if result == SUCCESS { code } else { result }
}

/// The rank in comm of the process that owns step i >= 0 of circulant_successive_bcast. The owners
/// repeat after p steps, where p is the size of comm. For p = 2^d they follow the binary reflected
/// Gray code, i xor i/2; for other p the owner is i mod p. Local.
///
/// Returns MPI_UNDEFINED after it raised an error: MPI_ERR_COMM (null, or an inter-communicator) or
/// MPI_ERR_ARG (i is negative).
///
/// # Safety
/// `comm` is a valid handle.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn circulant_successive_owner(comm: CommWord, i: c_int) -> c_int {
    let _boundary = Boundary::new("circulant_successive_owner");
    pass_on!(required circulant_successive_owner(comm, i));
    let classes = &native().constants;
    // SAFETY: an argument of this call.
    let Ok(communicator) = (unsafe { intra(comm) }) else {
        return classes.undefined.0;
    };
    let (Ok(size), Ok(step)) = (communicator.size(), usize::try_from(i)) else {
        communicator.raise(Error(classes.err_arg.0));
        return classes.undefined.0;
    };
    // A rank.
    Succession::new(size).owner(step) as c_int
}
