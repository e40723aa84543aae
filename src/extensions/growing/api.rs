//! circulant_allgather_merge and circulant_allreduce_v.

#![allow(non_camel_case_types)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use super::call::{AllreduceV, Grown, allreduce_v, gather_and_combine};
use super::combination::Combination;
use crate::interpose::cross;
use crate::mpi::{
    Buffer, Communicator, Datatype, Error, Integer, MPI_Comm, MPI_Datatype, Passed, SUCCESS, native,
};
use crate::select::{MESSAGE_MAX, Operation, Reason};

/// Compares two elements: below 0 if the one at `a` comes first, above 0 if that at `b` does, 0 if they
/// are equal. Must be the same total preorder on all processes. May call MPI, but nothing collective.
pub type circulant_compare =
    Option<unsafe extern "C" fn(a: *const c_void, b: *const c_void, context: *mut c_void) -> c_int>;

/// Combines two operands, neither of them empty, of which the left is of lower ranks: writes the
/// combination to `out`, where there is room for `leftcount` + `rightcount` elements, and how many they
/// are to `*outcount`. Must be associative, with an empty operand as its identity. Returns 0; any other
/// value ends the operation, with that value as its error code, on all processes. May call MPI, but
/// nothing collective.
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
/// Each process has `sendcount` elements at `sendbuf`, sorted; or, with MPI_IN_PLACE, at `recvbuf`. All get
/// all of them at `recvbuf`, sorted, and how many they are in `*recvcount`. Elements that are equal keep
/// the order of the ranks that they came from, and of their places there.
///
/// The order is that of `compare`, which is called with `context`; or, where it is null and `datatype` one
/// of MPI's integers or floating-point numbers, MPI_BYTE or MPI_C_BOOL, ascending. (Then -0 and 0 are
/// equal, and what is not a number comes last.) `compare` sees elements in the datatype's layout. As with
/// MPI, processes may describe the same elements by different datatypes; all have a comparison, or none.
///
/// Buffers are in the host's memory, and do not overlap.
///
/// Returns MPI_SUCCESS, or raises an error on `comm`: MPI_ERR_COMM (null, or an inter-communicator),
/// MPI_ERR_COUNT (negative; `sendcount` elements in place, where `capacity` is less; or of a result more than
/// INT_MAX: then on all processes), MPI_ERR_TYPE (null;
/// of no size or more than 1 GiB; its elements interleave; or no numbers, without a comparison),
/// MPI_ERR_BUFFER (null with elements, `sendbuf` is `recvbuf`, or in a device's memory), MPI_ERR_ARG
/// (`recvcount` is null), MPI_ERR_TRUNCATE (`capacity`, the elements that fit at `recvbuf`, is less than
/// `*recvcount`: on the processes where it is, and nothing is at their `recvbuf` that can be used), or what
/// MPI returns.
///
/// # Safety
/// As for MPI's functions: the buffers hold what the counts say, and `compare` can be called with them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_allgather_merge(
    sendbuf: *const c_void,
    sendcount: c_int,
    recvbuf: *mut c_void,
    capacity: c_int,
    recvcount: *mut c_int,
    datatype: MPI_Datatype,
    compare: circulant_compare,
    context: *mut c_void,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: buffer arguments of a collective call, by this function's contract.
    let arguments = unsafe { Arguments::new((sendbuf, sendcount), (recvbuf, capacity), datatype) };
    let combination = |datatype: &Datatype| match compare {
        // SAFETY: by this function's contract.
        Some(compare) => Ok(unsafe { Combination::by_comparison(compare, context) }),
        None => Combination::of_numbers(datatype).ok_or(native().constants.err_type),
    };
    // SAFETY: null, or the address of an integer, by this function's contract.
    let recvcount = unsafe { recvcount.as_mut() };
    let operation = Operation::AllgatherMerge;
    run(operation, comm, &arguments, recvcount, combination)
}

/// Combines the operands of all processes, of any lengths, on all processes: concatenates, merges, unites
/// them. Collective.
///
/// Each process has an operand of `sendcount` elements at `sendbuf`; or, with MPI_IN_PLACE, at `recvbuf`. All
/// get the combination of all of them, in the order of ranks, at `recvbuf`, and how many elements it has in
/// `*recvcount`. `combine` is called with operands in the datatype's layout and with `context`; never
/// with an empty one.
///
/// Otherwise as `circulant_allgather_merge`; besides, it raises MPI_ERR_OP (`combine` is null); on all
/// processes what `combine` returns on one of them, other than 0, of the lowest of several; and there
/// MPI_ERR_COUNT, where it writes a count that is negative or more than there is room for, or where two
/// operands together have more than INT_MAX elements.
///
/// # Safety
/// As for MPI's functions: the buffers hold what the counts say, and `combine` can be called with them, and
/// writes no more elements than it says, and not more than there is room for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_allreduce_v(
    sendbuf: *const c_void,
    sendcount: c_int,
    recvbuf: *mut c_void,
    capacity: c_int,
    recvcount: *mut c_int,
    datatype: MPI_Datatype,
    combine: circulant_combine,
    context: *mut c_void,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: buffer arguments of a collective call, by this function's contract.
    let arguments = unsafe { Arguments::new((sendbuf, sendcount), (recvbuf, capacity), datatype) };
    let combination = |_: &Datatype| match combine {
        // SAFETY: by this function's contract.
        Some(combine) => Ok(unsafe { Combination::by_function(combine, context) }),
        None => Err(native().constants.err_op),
    };
    // SAFETY: null, or the address of an integer, by this function's contract.
    let recvcount = unsafe { recvcount.as_mut() };
    run(
        Operation::AllreduceV,
        comm,
        &arguments,
        recvcount,
        combination,
    )
}

/// The arguments as they came.
struct Arguments {
    /// sendbuf, sendcount, datatype
    send: Passed,
    /// recvbuf, capacity, datatype
    receive: Passed,
}

impl Arguments {
    /// # Safety
    /// The addresses are buffer arguments of a collective call, with as many elements.
    unsafe fn new(
        (sendbuf, send_count): (*const c_void, c_int),
        (recvbuf, capacity): (*mut c_void, c_int),
        datatype: MPI_Datatype,
    ) -> Arguments {
        let (send, receive) = (Buffer::new(sendbuf), Buffer::new(recvbuf));
        Arguments {
            // SAFETY: by this function's contract.
            send: unsafe { Passed::new(send, send_count.into(), datatype) },
            // SAFETY: as above.
            receive: unsafe { Passed::new(receive, capacity.into(), datatype) },
        }
    }

    /// The call that they describe, or the class of the error that they are.
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
        if !is_sized || datatype.interleaves() {
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
            self.send.array().ok_or(errors.err_type)?
        };
        Ok(AllreduceV {
            input,
            output,
            combination,
        })
    }
}

/// One call, up to what it returns.
fn run(
    operation: Operation,
    comm: MPI_Comm,
    arguments: &Arguments,
    recvcount: Option<&mut c_int>,
    combination: impl FnOnce(&Datatype) -> Result<Combination, Integer>,
) -> c_int {
    let communicator = Communicator::new(comm);
    let errors = &native().constants;
    if communicator.is_null() {
        return Communicator::world().raise(Error(errors.err_comm.0));
    }
    match communicator.is_inter() {
        Ok(false) => {}
        Ok(true) => return communicator.raise(Error(errors.err_comm.0)),
        // Raised already, where a communicator that is none has its errors raised.
        Err(error) => return error.0,
    }
    let (Some(recvcount), call) = (recvcount, arguments.checked(combination)) else {
        return communicator.raise(Error(errors.err_arg.0));
    };
    match call {
        Ok(call) => serve(operation, communicator, &call, recvcount),
        Err(class) => communicator.raise(Error(class.0)),
    }
}

fn serve(
    operation: Operation,
    communicator: Communicator,
    call: &AllreduceV,
    recvcount: &mut c_int,
) -> c_int {
    let done = Cell::new(Grown::default());
    let by_mpi = || {
        let reason = done.get().reason;
        if reason == Some(Reason::DeviceMemory) {
            return communicator.raise(Error(native().constants.err_buffer.0));
        }
        match gather_and_combine(communicator, call) {
            Ok(outcome) => {
                done.set(Grown { outcome, reason });
                SUCCESS
            }
            Err(error) => error.0,
        }
    };
    let code = cross(
        operation,
        communicator.handle(),
        None,
        by_mpi,
        |state, work| {
            let mut result = Grown::default();
            let tried = allreduce_v(state, operation, call, work, &mut result);
            done.set(result);
            tried
        },
    );
    if code != SUCCESS {
        return code;
    }
    let outcome = done.get().outcome;
    *recvcount = c_int::try_from(outcome.elements).unwrap_or(c_int::MAX);
    if outcome.status != 0 {
        communicator.raise(Error(outcome.status))
    } else if outcome.elements > call.output.count() {
        communicator.raise(Error(native().constants.err_truncate.0))
    } else {
        SUCCESS
    }
}
