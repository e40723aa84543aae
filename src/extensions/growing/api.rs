//! circulant_allgather_merge and circulant_allreduce_v.

#![allow(non_camel_case_types)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use super::call::{AllreduceV, allreduce_v, gather_and_combine};
use super::combination::Combination;
use super::stores::Combined;
use crate::collective::{self, Exported};
use crate::communicator::{State, Stop};
use crate::extensions::intra;
use crate::interpose::{Boundary, CommWord, DatatypeWord, pass_on, typed};
use crate::mpi::{
    Array, Buffer, Communicator, Datatype, Error, Held, Integer, Passed, SUCCESS, native,
};
use crate::report::Work;
use crate::select::{MESSAGE_MAX, Operation, Reason};

/// Compares two elements. Returns a number below 0 if the element at `a` comes first, a number
/// above 0 if the one at `b` comes first, and 0 if they are equal. Must be the same total preorder
/// on all processes. May call MPI, but no collective function. Must not throw an exception.
pub type circulant_compare =
    Option<unsafe extern "C" fn(a: *const c_void, b: *const c_void, context: *mut c_void) -> c_int>;

/// Combines two operands, neither of them empty. The left one is of lower ranks. Writes the
/// combination to `out`, where there is room for `leftcount` + `rightcount` elements, and its
/// number of elements to `*outcount`. Must be associative, with an empty operand as its identity.
/// Returns 0. Any other value ends the operation on all processes, with that value as its error
/// code. May call MPI, but no collective function. Must not throw an exception.
pub type circulant_combine = Option<
    unsafe extern "C" fn(
        left: *const c_void,
        leftcount: c_int,
        right: *const c_void,
        rightcount: c_int,
        out: *mut c_void,
        outcount: *mut c_int,
        context: *mut c_void,
    ) -> c_int,
>;

/// Gathers the sorted blocks of all processes on all processes, as one sorted sequence. Collective.
///
/// Each process passes `sendcount` sorted elements at `sendbuf` or, with MPI_IN_PLACE, at
/// `recvbuf`. All processes get all elements at `recvbuf`, sorted, and their number in
/// `*recvcount`. Equal elements keep the order of their ranks, and on each rank the order of their
/// places.
///
/// `compare`, which is called with `context`, defines the order. It sees elements in the datatype's
/// layout. If `compare` is null, `datatype` must be one of MPI's integers or floating-point
/// numbers, MPI_BYTE or MPI_C_BOOL, and the order is ascending. (-0 and 0 are then equal, and NaNs
/// come last.) As with MPI, processes may describe the same elements by different datatypes. Either
/// all processes pass a comparison, or none.
///
/// Buffers are in the host's memory, and do not overlap.
///
/// Returns MPI_SUCCESS, or raises an error on `comm`:
///
/// - MPI_ERR_COMM (null, or an inter-communicator);
/// - MPI_ERR_COUNT (negative; or in place, `sendcount` is more than `capacity`; or on all
///   processes, the result has more than INT_MAX elements);
/// - MPI_ERR_TYPE (null; of no size or more than 1 GiB; its elements interleave; or they are no
///   numbers and there is no comparison);
/// - MPI_ERR_BUFFER (null with elements, `sendbuf` is `recvbuf`, or in a device's memory);
/// - MPI_ERR_ARG (`recvcount` is null);
/// - MPI_ERR_TRUNCATE (`capacity`, the elements that fit at `recvbuf`, is less than `*recvcount`:
///   raised where that is so, and `recvbuf` then holds nothing of use);
/// - any error that MPI returns.
///
/// # Safety
/// As for MPI's functions: the buffers hold what the counts say. `compare` can be called with them.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn circulant_allgather_merge(
    sendbuf: *const c_void,
    sendcount: c_int,
    recvbuf: *mut c_void,
    capacity: c_int,
    recvcount: *mut c_int,
    datatype: DatatypeWord,
    compare: circulant_compare,
    context: *mut c_void,
    comm: CommWord,
) -> c_int {
    let _boundary = Boundary::new("circulant_allgather_merge");
    pass_on!(required circulant_allgather_merge(
        sendbuf, sendcount, recvbuf, capacity, recvcount, datatype, compare, context, comm
    ));
    // SAFETY: arguments of a collective call, by this function's contract.
    let arguments = unsafe {
        let buffers = ((sendbuf, sendcount), (recvbuf, capacity));
        Arguments::new(buffers, recvcount, datatype, comm)
    };
    arguments.run(Operation::AllgatherMerge, |datatype| match compare {
        // SAFETY: by this function's contract.
        Some(compare) => Ok(unsafe { Combination::by_comparison(compare, context) }),
        None => Combination::of_numbers(datatype).ok_or(native().constants.err_type),
    })
}

/// Combines the operands of all processes, which may have any lengths, on all processes:
/// concatenates, merges or unites them. Collective.
///
/// Each process passes an operand of `sendcount` elements at `sendbuf` or, with MPI_IN_PLACE, at
/// `recvbuf`. All processes get the combination of all operands, in the order of ranks, at
/// `recvbuf`, and its number of elements in `*recvcount`. `combine` is called with operands in the
/// datatype's layout and with `context`. It is never called with an empty operand.
///
/// Otherwise as `circulant_allgather_merge`. It also raises MPI_ERR_OP (`combine` is null). If
/// `combine` returns another value than 0 on a process, all processes raise that value; of several,
/// that of the lowest rank. In the same way they raise MPI_ERR_COUNT if `combine` writes a count
/// that is negative or more than there is room for, or if two operands together have more than
/// INT_MAX elements.
///
/// # Safety
/// As for MPI's functions: the buffers hold what the counts say. `combine` can be called with them.
/// It writes no more elements than it says, and no more than there is room for.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn circulant_allreduce_v(
    sendbuf: *const c_void,
    sendcount: c_int,
    recvbuf: *mut c_void,
    capacity: c_int,
    recvcount: *mut c_int,
    datatype: DatatypeWord,
    combine: circulant_combine,
    context: *mut c_void,
    comm: CommWord,
) -> c_int {
    let _boundary = Boundary::new("circulant_allreduce_v");
    pass_on!(required circulant_allreduce_v(
        sendbuf, sendcount, recvbuf, capacity, recvcount, datatype, combine, context, comm
    ));
    // SAFETY: arguments of a collective call, by this function's contract.
    let arguments = unsafe {
        let buffers = ((sendbuf, sendcount), (recvbuf, capacity));
        Arguments::new(buffers, recvcount, datatype, comm)
    };
    arguments.run(Operation::AllreduceV, |_| match combine {
        // SAFETY: by this function's contract.
        Some(combine) => Ok(unsafe { Combination::by_function(combine, context) }),
        None => Err(native().constants.err_op),
    })
}

/// The arguments as the program passed them.
struct Arguments {
    /// sendbuf, sendcount, datatype
    send: Passed,
    /// recvbuf, capacity, datatype
    receive: Passed,
    /// None if it is null.
    recvcount: Option<NonNull<c_int>>,
    /// The communicator, or the code of the error that was raised.
    communicator: Result<Communicator, c_int>,
}

impl Arguments {
    /// # Safety
    /// The addresses are buffer arguments of a collective call, with these numbers of elements of
    /// this datatype. `recvcount` is null, or the address of an integer that can be written when
    /// the call ends. `comm` is an argument of the call.
    unsafe fn new(
        ((sendbuf, count), (recvbuf, capacity)): ((*const c_void, c_int), (*mut c_void, c_int)),
        recvcount: *mut c_int,
        datatype: DatatypeWord,
        comm: CommWord,
    ) -> Self {
        let (send, receive) = (Buffer::new(sendbuf), Buffer::new(recvbuf));
        // SAFETY: by this function's contract.
        unsafe {
            let datatype = typed(datatype);
            Arguments {
                send: Passed::new(send, count.into(), datatype),
                receive: Passed::new(receive, capacity.into(), datatype),
                recvcount: NonNull::new(recvcount),
                communicator: intra(comm),
            }
        }
    }

    /// Runs the call. Returns what the exported function returns.
    fn run(
        self,
        operation: Operation,
        combination: impl FnOnce(&Datatype) -> Result<Combination, Integer>,
    ) -> c_int {
        let communicator = match self.communicator {
            Ok(communicator) => communicator,
            Err(code) => return code,
        };
        let call = self.checked(combination);
        let Some(recvcount) = self.recvcount else {
            return communicator.raise(Error(native().constants.err_arg.0));
        };
        match call {
            // SAFETY: by the contract of `new`.
            Ok(call) => unsafe { serve(operation, communicator, &call, recvcount) },
            Err(class) => communicator.raise(Error(class.0)),
        }
    }

    /// The call that they describe, or the class of the error in them.
    fn checked(
        &self,
        combination: impl FnOnce(&Datatype) -> Result<Combination, Integer>,
    ) -> Result<AllreduceV, Integer> {
        let errors = &native().constants;
        let (send, receive) = (self.send.buffer(), self.receive.buffer());
        let in_place = send.is_in_place();
        let count = usize::try_from(self.send.count()).map_err(|_| errors.err_count)?;
        let capacity = usize::try_from(self.receive.count()).map_err(|_| errors.err_count)?;
        if in_place && count > capacity {
            return Err(errors.err_count);
        }
        let output = self.receive.array().ok_or(errors.err_type)?;
        let datatype = *output.datatype();
        let is_sized = datatype.size() > 0 && datatype.size() as u64 <= MESSAGE_MAX;
        if !is_sized || datatype.interleaves() || !output.may_be_sent() {
            return Err(errors.err_type);
        }
        let combination = combination(&datatype)?;
        let is_nowhere = |buffer: Buffer| buffer.is_null() || buffer.is_bottom();
        let is_bad = count > 0 && is_nowhere(if in_place { receive } else { send })
            || capacity > 0 && (is_nowhere(receive) || receive.is_in_place())
            || count > 0 && capacity > 0 && send == receive;
        if is_bad {
            return Err(errors.err_buffer);
        }
        let input = if in_place {
            output.part(0..count)
        } else {
            let input = self.send.array().filter(Array::may_be_sent);
            input.ok_or(errors.err_type)?
        };
        Ok(AllreduceV {
            input,
            output,
            combination,
        })
    }
}

/// # Safety
/// `recvcount` can be written when the call ends.
unsafe fn serve(
    operation: Operation,
    communicator: Communicator,
    call: &AllreduceV,
    recvcount: NonNull<c_int>,
) -> c_int {
    let errors = &native().constants;
    let (outcome, is_on_device) = (Cell::new(Combined::default()), Cell::new(false));
    let ours = |state: &State, work: &mut Work, _: &mut Option<Held>| {
        let tried = allreduce_v(state, operation, call, work);
        is_on_device.set(tried == Err(Stop::Native(Reason::DeviceMemory)));
        outcome.set(tried?);
        Ok(None)
    };
    let by_mpi = || {
        if is_on_device.get() {
            return communicator.raise(Error(errors.err_buffer.0));
        }
        match gather_and_combine(communicator, call) {
            Ok(combined) => {
                outcome.set(combined);
                SUCCESS
            }
            Err(error) => error.0,
        }
    };
    // The program's functions may free it.
    let _held = Held::new([Some(*call.output.datatype()), None], None);
    let code = collective::run(Exported::own(operation, communicator), by_mpi, ours);
    if code != SUCCESS {
        return code;
    }
    let Combined { elements, status } = outcome.get();
    let elements_or_most = c_int::try_from(elements).unwrap_or(c_int::MAX);
    // SAFETY: by this function's contract. The program's functions may have used it until now: no
    // reference to it was held.
    unsafe { recvcount.write(elements_or_most) };
    if status != 0 {
        communicator.raise(Error(status))
    } else if elements > call.output.count() {
        communicator.raise(Error(errors.err_truncate.0))
    } else {
        SUCCESS
    }
}
