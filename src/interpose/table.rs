//! The table of exported functions.

use std::ffi::{c_char, c_int, c_void};

use super::boundary::cross;
use crate::collective::{
    Allgather, Allgatherv, Allreduce, Alltoall, Bcast, Reduce, ReduceScatter, ReduceScatterBlock,
    Rooted, allgather, allgatherv, allreduce, alltoall, bcast, gather, reduce, reduce_scatter,
    reduce_scatter_block, scatter,
};
#[cfg(idup_with_info)]
use crate::mpi::MPI_Info;
use crate::mpi::{
    Buffer, Communicator, Counts, MPI_Comm, MPI_Datatype, MPI_Op, MPI_Request, hook_end,
    mark_duplicated, native, while_freed,
};
#[cfg(large_count)]
use crate::mpi::{MPI_Aint, MPI_Count};
use crate::select::Operation;

/// One line a function:
/// `name = native(arguments) root? => Operation: attempt(Arguments { field = argument, ... })`.
macro_rules! exports {
    ($(
        $(#[$condition:meta])*
        $name:ident = $native:ident($($argument:ident: $type:ty),*) $(root $root:ident)? =>
            $operation:ident: $attempt:ident($arguments:ident {
                $($field:ident = $($kind:ident)? ($value:ident)),*
            });
    )*) => {$(
        /// The MPI function of this name.
        ///
        /// # Safety
        /// MPI's contract for its arguments.
        $(#[$condition])*
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name($($argument: $type,)* comm: MPI_Comm) -> c_int {
            // SAFETY: the arguments as the program passed them.
            let forward = || unsafe { (native().functions.$native)($($argument,)* comm) };
            #[allow(unused_mut, unused_assignments)]
            let mut root_argument = None;
            $(root_argument = Some($root);)?
            cross(Operation::$operation, comm, root_argument, forward, |state, work| {
                $attempt(state, $arguments { $($field: exports!(@$($kind)? $value)),* }, work)
            })
        }
    )*};
    (@buffer $value:ident) => {
        // SAFETY: a buffer argument of the call in progress.
        unsafe { Buffer::from_caller($value.cast()) }
    };
    (@narrow $value:ident) => {
        // SAFETY: an array argument of the call in progress.
        unsafe { Counts::narrow($value) }
    };
    (@wide $value:ident) => {
        // SAFETY: an array argument of the call in progress.
        unsafe { Counts::wide($value) }
    };
    (@addresses $value:ident) => {
        // SAFETY: an array argument of the call in progress.
        unsafe { Counts::addresses($value) }
    };
    (@count $value:ident) => { i64::from($value) };
    (@ $value:ident) => { $value };
}

exports! {
    MPI_Bcast = PMPI_Bcast(
        buffer: *mut c_void, count: c_int, datatype: MPI_Datatype, root: c_int
    ) root root => Bcast: bcast(Bcast {
        buffer = buffer(buffer), count = count(count), datatype = (datatype), root = (root)
    });

    MPI_Reduce = PMPI_Reduce(
        send: *const c_void, receive: *mut c_void, count: c_int, datatype: MPI_Datatype,
        op: MPI_Op, root: c_int
    ) root root => Reduce: reduce(Reduce {
        send = buffer(send), receive = buffer(receive), count = count(count),
        datatype = (datatype), op = (op), root = (root)
    });

    MPI_Allgather = PMPI_Allgather(
        send: *const c_void, send_count: c_int, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: c_int, receive_type: MPI_Datatype
    ) => Allgather: allgather(Allgather {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type)
    });

    MPI_Allgatherv = PMPI_Allgatherv(
        send: *const c_void, send_count: c_int, send_type: MPI_Datatype,
        receive: *mut c_void, counts: *const c_int, displacements: *const c_int,
        receive_type: MPI_Datatype
    ) => Allgatherv: allgatherv(Allgatherv {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), counts = narrow(counts),
        displacements = narrow(displacements), receive_type = (receive_type)
    });

    MPI_Reduce_scatter_block = PMPI_Reduce_scatter_block(
        send: *const c_void, receive: *mut c_void, count: c_int, datatype: MPI_Datatype,
        op: MPI_Op
    ) => ReduceScatterBlock: reduce_scatter_block(ReduceScatterBlock {
        send = buffer(send), receive = buffer(receive), count = count(count),
        datatype = (datatype), op = (op)
    });

    MPI_Reduce_scatter = PMPI_Reduce_scatter(
        send: *const c_void, receive: *mut c_void, counts: *const c_int, datatype: MPI_Datatype,
        op: MPI_Op
    ) => ReduceScatter: reduce_scatter(ReduceScatter {
        send = buffer(send), receive = buffer(receive), counts = narrow(counts),
        datatype = (datatype), op = (op)
    });

    MPI_Allreduce = PMPI_Allreduce(
        send: *const c_void, receive: *mut c_void, count: c_int, datatype: MPI_Datatype,
        op: MPI_Op
    ) => Allreduce: allreduce(Allreduce {
        send = buffer(send), receive = buffer(receive), count = count(count),
        datatype = (datatype), op = (op)
    });

    MPI_Alltoall = PMPI_Alltoall(
        send: *const c_void, send_count: c_int, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: c_int, receive_type: MPI_Datatype
    ) => Alltoall: alltoall(Alltoall {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type)
    });

    MPI_Gather = PMPI_Gather(
        send: *const c_void, send_count: c_int, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: c_int, receive_type: MPI_Datatype, root: c_int
    ) root root => Gather: gather(Rooted {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type), root = (root)
    });

    MPI_Scatter = PMPI_Scatter(
        send: *const c_void, send_count: c_int, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: c_int, receive_type: MPI_Datatype, root: c_int
    ) root root => Scatter: scatter(Rooted {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type), root = (root)
    });

    #[cfg(large_count)]
    MPI_Bcast_c = PMPI_Bcast_c(
        buffer: *mut c_void, count: MPI_Count, datatype: MPI_Datatype, root: c_int
    ) root root => Bcast: bcast(Bcast {
        buffer = buffer(buffer), count = count(count), datatype = (datatype), root = (root)
    });

    #[cfg(large_count)]
    MPI_Reduce_c = PMPI_Reduce_c(
        send: *const c_void, receive: *mut c_void, count: MPI_Count, datatype: MPI_Datatype,
        op: MPI_Op, root: c_int
    ) root root => Reduce: reduce(Reduce {
        send = buffer(send), receive = buffer(receive), count = count(count),
        datatype = (datatype), op = (op), root = (root)
    });

    #[cfg(large_count)]
    MPI_Allgather_c = PMPI_Allgather_c(
        send: *const c_void, send_count: MPI_Count, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: MPI_Count, receive_type: MPI_Datatype
    ) => Allgather: allgather(Allgather {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type)
    });

    #[cfg(large_count)]
    MPI_Allgatherv_c = PMPI_Allgatherv_c(
        send: *const c_void, send_count: MPI_Count, send_type: MPI_Datatype,
        receive: *mut c_void, counts: *const MPI_Count, displacements: *const MPI_Aint,
        receive_type: MPI_Datatype
    ) => Allgatherv: allgatherv(Allgatherv {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), counts = wide(counts),
        displacements = addresses(displacements), receive_type = (receive_type)
    });

    #[cfg(large_count)]
    MPI_Reduce_scatter_block_c = PMPI_Reduce_scatter_block_c(
        send: *const c_void, receive: *mut c_void, count: MPI_Count, datatype: MPI_Datatype,
        op: MPI_Op
    ) => ReduceScatterBlock: reduce_scatter_block(ReduceScatterBlock {
        send = buffer(send), receive = buffer(receive), count = count(count),
        datatype = (datatype), op = (op)
    });

    #[cfg(large_count)]
    MPI_Reduce_scatter_c = PMPI_Reduce_scatter_c(
        send: *const c_void, receive: *mut c_void, counts: *const MPI_Count,
        datatype: MPI_Datatype, op: MPI_Op
    ) => ReduceScatter: reduce_scatter(ReduceScatter {
        send = buffer(send), receive = buffer(receive), counts = wide(counts),
        datatype = (datatype), op = (op)
    });

    #[cfg(large_count)]
    MPI_Allreduce_c = PMPI_Allreduce_c(
        send: *const c_void, receive: *mut c_void, count: MPI_Count, datatype: MPI_Datatype,
        op: MPI_Op
    ) => Allreduce: allreduce(Allreduce {
        send = buffer(send), receive = buffer(receive), count = count(count),
        datatype = (datatype), op = (op)
    });

    #[cfg(large_count)]
    MPI_Alltoall_c = PMPI_Alltoall_c(
        send: *const c_void, send_count: MPI_Count, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: MPI_Count, receive_type: MPI_Datatype
    ) => Alltoall: alltoall(Alltoall {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type)
    });

    #[cfg(large_count)]
    MPI_Gather_c = PMPI_Gather_c(
        send: *const c_void, send_count: MPI_Count, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: MPI_Count, receive_type: MPI_Datatype, root: c_int
    ) root root => Gather: gather(Rooted {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type), root = (root)
    });

    #[cfg(large_count)]
    MPI_Scatter_c = PMPI_Scatter_c(
        send: *const c_void, send_count: MPI_Count, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: MPI_Count, receive_type: MPI_Datatype, root: c_int
    ) root root => Scatter: scatter(Rooted {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type), root = (root)
    });
}

/// MPI_Comm_free, during which the communicator is left to the MPI library.
///
/// # Safety
/// MPI's contract for its argument.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Comm_free(comm: *mut MPI_Comm) -> c_int {
    // SAFETY: the argument as the program passed it.
    unsafe { free(comm, native().functions.PMPI_Comm_free) }
}

/// MPI_Comm_disconnect; as MPI_Comm_free.
///
/// # Safety
/// MPI's contract for its argument.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Comm_disconnect(comm: *mut MPI_Comm) -> c_int {
    // SAFETY: the argument as the program passed it.
    unsafe { free(comm, native().functions.PMPI_Comm_disconnect) }
}

/// # Safety
/// The contract of `forward`, for its argument.
unsafe fn free(
    comm: *mut MPI_Comm,
    forward: unsafe extern "C" fn(*mut MPI_Comm) -> c_int,
) -> c_int {
    // SAFETY: the argument as the program passed it.
    let forward = || unsafe { forward(comm) };
    if comm.is_null() {
        return forward();
    }
    // SAFETY: not null, so the address of a handle.
    while_freed(Communicator::new(unsafe { *comm }), forward)
}

/// MPI_Comm_idup, which is remembered: until its end is seen, which it is not, no private communicator
/// is made beside it.
///
/// # Safety
/// MPI's contract for its arguments.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Comm_idup(
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    mark_duplicated(Communicator::new(comm));
    // SAFETY: the arguments as the program passed them.
    unsafe { (native().functions.PMPI_Comm_idup)(comm, newcomm, request) }
}

/// MPI_Comm_idup_with_info; as MPI_Comm_idup.
///
/// # Safety
/// MPI's contract for its arguments.
#[cfg(idup_with_info)]
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Comm_idup_with_info(
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    mark_duplicated(Communicator::new(comm));
    // SAFETY: the arguments as the program passed them.
    unsafe { (native().functions.PMPI_Comm_idup_with_info)(comm, info, newcomm, request) }
}

/// MPI_Init, after which the end of MPI is hooked, so that a program that calls nothing of ours
/// gets its report, too. Local.
///
/// # Safety
/// MPI's contract for its arguments.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    // SAFETY: the arguments as the program passed them.
    let code = unsafe { (native().functions.PMPI_Init)(argc, argv) };
    hook_end();
    code
}

/// MPI_Init_thread; as MPI_Init.
///
/// # Safety
/// MPI's contract for its arguments.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Init_thread(
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    // SAFETY: the arguments as the program passed them.
    let code = unsafe { (native().functions.PMPI_Init_thread)(argc, argv, required, provided) };
    hook_end();
    code
}
