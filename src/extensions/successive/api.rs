//! circulant_successive_bcast and circulant_successive_owner: arguments are judged, errors raised.

use std::ffi::{c_int, c_void};

use super::call::{SuccessiveBcast, successive_bcast, successive_bcast_natively};
use super::values::Callbacks;
use crate::interpose::cross;
use crate::mpi::{Communicator, Datatype, Error, MPI_Comm, MPI_Datatype, SUCCESS, native};
use crate::plan::Succession;
use crate::select::Operation;

/// A callback of circulant_successive_bcast: gets a step, a buffer of count elements, and the context that was passed
/// with it. Returns 0 (MPI_SUCCESS), or else an error code, which ends the operation.
#[allow(non_camel_case_types)]
pub type circulant_step =
    Option<unsafe extern "C" fn(i: c_int, buffer: *mut c_void, context: *mut c_void) -> c_int>;

/// n broadcasts in order, i = 0, 1, ..., n - 1, each of count elements of datatype from the process that
/// circulant_successive_owner says.
///
/// On the owner of step i, produce(i, buffer, context) is called to fill the buffer, once the values 0, ..., i - 1 have
/// been stored there. On every process, the owner too, store(i, buffer, context) is called in the order of
/// the steps. The buffer is circulant's, laid out as datatype says, aligned to 16 bytes, and good until the callback
/// returns; what store writes there goes nowhere. Callbacks run in the calling thread, while later values are on their
/// way. They may call MPI: messages on any communicator, collectives on others than comm; but they must not wait for
/// callbacks of other processes on comm, which may be p steps behind or ahead. (With CIRCULANT_SUCCESSION=trees they may
/// wait for those of the same step.)
///
/// Collective. n, count and the type signature must be the same on all processes.
///
/// Returns MPI_SUCCESS, or on all processes the code that a callback returned: if several did, that of the
/// least step, and there of the least rank. The process that it happened on calls no more callbacks, the others none
/// once they know of it, at most p steps later. Such a code is the program's own and is not raised on the
/// communicator. Errors of MPI's are, and those of the arguments: MPI_ERR_COMM (null, or an inter-communicator),
/// MPI_ERR_ARG (n is negative, or a callback null), MPI_ERR_COUNT, MPI_ERR_TYPE. MPI_ERR_NO_MEM, where a process has
/// no memory for a value, is returned on all.
///
/// # Safety
/// The callbacks may be called as above until the function returns, and the handles are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_successive_bcast(
    n: c_int,
    count: c_int,
    datatype: MPI_Datatype,
    produce: circulant_step,
    store: circulant_step,
    context: *mut c_void,
    comm: MPI_Comm,
) -> c_int {
    let communicator = match of_one_group(comm) {
        Ok(communicator) => communicator,
        Err(code) => return code,
    };
    let classes = &native().constants;
    let (Some(produce), Some(store), 0..) = (produce, store, n) else {
        return communicator.raise(Error(classes.err_arg.0));
    };
    if count < 0 {
        return communicator.raise(Error(classes.err_count.0));
    }
    if Datatype::of(datatype).is_none() {
        return communicator.raise(Error(classes.err_type.0));
    }
    let call = SuccessiveBcast {
        steps: n,
        count,
        datatype,
        // SAFETY: by this function's contract.
        callbacks: unsafe { Callbacks::new(produce, store, context) },
    };
    let mut code = SUCCESS;
    let natively = || successive_bcast_natively(communicator, call);
    let result = cross(
        Operation::SuccessiveBcast,
        comm,
        None,
        natively,
        |state, work| {
            code = successive_bcast(state, call, work)?;
            Ok(())
        },
    );
    if result == SUCCESS { code } else { result }
}

/// The rank in comm of the process that owns step i of circulant_successive_bcast there, for i >= 0: cyclic with p, the
/// processes of comm. For p = 2^d the i-th of the binary reflected Gray code, i xor i/2; else i mod p. Local.
///
/// MPI_UNDEFINED after an error was raised: MPI_ERR_COMM (null, or an inter-communicator) or MPI_ERR_ARG (i is
/// negative).
///
/// # Safety
/// `comm` is a valid handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_successive_owner(comm: MPI_Comm, i: c_int) -> c_int {
    let classes = &native().constants;
    let Ok(communicator) = of_one_group(comm) else {
        return classes.undefined.0;
    };
    let (Ok(size), Ok(step)) = (communicator.size(), usize::try_from(i)) else {
        communicator.raise(Error(classes.err_arg.0));
        return classes.undefined.0;
    };
    // A rank.
    Succession::new(size).owner(step) as c_int
}

/// An intra-communicator; or the code of the error that was raised.
fn of_one_group(comm: MPI_Comm) -> Result<Communicator, c_int> {
    let communicator = Communicator::new(comm);
    let class = Error(native().constants.err_comm.0);
    if communicator.is_null() {
        return Err(Communicator::world().raise(class));
    }
    match communicator.is_inter() {
        Ok(false) => Ok(communicator),
        Ok(true) => Err(communicator.raise(class)),
        Err(error) => Err(error.0),
    }
}
