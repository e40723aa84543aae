//! The table of exported functions.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::boundary::cross;
use super::onward::{Onward, Word, typed};
use crate::collective::{
    Allgather, Allgatherv, Allreduce, Alltoall, Bcast, Reduce, ReduceScatter, ReduceScatterBlock,
    Rooted, allgather, allgatherv, allreduce, alltoall, bcast, gather, reduce, reduce_scatter,
    reduce_scatter_block, scatter, switch,
};
#[cfg(idup_with_info)]
use crate::mpi::MPI_Info;
use crate::mpi::{
    Buffer, Communicator, Counts, MPI_Comm, MPI_Datatype, MPI_Op, MPI_Request, SUCCESS, function,
    hook_end, mark_duplicated, native, while_freed,
};
#[cfg(large_count)]
use crate::mpi::{MPI_Aint, MPI_Count};
use crate::select::Operation;

/// Exports a function under both of its names. The first, with which programs come, looks for
/// another tool behind circulant; the second, with which other tools and Open MPI's Fortran
/// bindings come, is where circulant runs what is its own.
macro_rules! intercept {
    ($(
        $(#[$attribute:meta])*
        $name:ident / $profiled:ident($($argument:ident: $type:ty),*) $(first $first:block)? $body:block
    )*) => {$(
        $(#[$attribute])*
        /// # Safety
        /// MPI's contract for the arguments of this function.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name($($argument: Word),*) -> c_int {
            static NEXT: Onward = Onward::new();
            $($first)?
            match NEXT.tool(name!($name), name!($profiled)) {
                // SAFETY: the function of this name, or its twin, of a tool behind us, with the
                // arguments as they came.
                Some(next) => unsafe { onward!(next($($argument),*)) },
                // SAFETY: the arguments as they came.
                None => unsafe { $profiled($($argument),*) },
            }
        }

        $(#[$attribute])*
        /// # Safety
        /// MPI's contract for the arguments of this function.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $profiled($($argument: Word),*) -> c_int {
            static NEXT: Onward = Onward::new();
            if let Some(next) = NEXT.of_another_mpi(name!($profiled)) {
                // SAFETY: the function of this name of the MPI that the program calls, with the
                // arguments as they came.
                return unsafe { onward!(next($($argument),*)) };
            }
            // SAFETY: the program passed an argument of this type.
            $(let $argument: $type = unsafe { typed($argument) };)*
            $body
        }
    )*};
}

macro_rules! name {
    ($name:ident) => {
        CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()).unwrap_or(c"")
    };
}

/// Calls the function at an address with arguments as they came.
macro_rules! onward {
    ($address:ident($($argument:ident),*)) => {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($(word!($argument)),*) -> c_int>(
            $address
        )($($argument),*)
    };
}

macro_rules! word {
    ($argument:ident) => {
        Word
    };
}

/// The collective operations. One line a function:
/// `name / twin(arguments) root? => Operation: attempt(Arguments { field = argument, ... })`.
macro_rules! exports {
    ($(
        $(#[$condition:meta])*
        $name:ident / $native:ident($($argument:ident: $type:ty),*) $(root $root:ident)? =>
            $operation:ident: $attempt:ident($arguments:ident {
                $($field:ident = $($kind:ident)? ($value:ident)),*
            });
    )*) => {intercept! {$(
        /// The MPI function of this name.
        ///
        $(#[$condition])*
        $name / $native($($argument: $type,)* comm: MPI_Comm) {
            // SAFETY: the arguments as the program passed them.
            let forward = || unsafe { (native().functions.$native)($($argument,)* comm) };
            #[allow(unused_mut, unused_assignments)]
            let mut root_argument = None;
            $(root_argument = Some($root);)?
            cross(Operation::$operation, comm, root_argument, forward, |state, work| {
                $attempt(state, $arguments { $($field: exports!(@$($kind)? $value)),* }, work)
            })
        }
    )*}};
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
    MPI_Bcast / PMPI_Bcast(
        buffer: *mut c_void, count: c_int, datatype: MPI_Datatype, root: c_int
    ) root root => Bcast: bcast(Bcast {
        buffer = buffer(buffer), count = count(count), datatype = (datatype), root = (root)
    });

    MPI_Reduce / PMPI_Reduce(
        send: *const c_void, receive: *mut c_void, count: c_int, datatype: MPI_Datatype,
        op: MPI_Op, root: c_int
    ) root root => Reduce: reduce(Reduce {
        send = buffer(send), receive = buffer(receive), count = count(count),
        datatype = (datatype), op = (op), root = (root)
    });

    MPI_Allgather / PMPI_Allgather(
        send: *const c_void, send_count: c_int, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: c_int, receive_type: MPI_Datatype
    ) => Allgather: allgather(Allgather {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type)
    });

    MPI_Allgatherv / PMPI_Allgatherv(
        send: *const c_void, send_count: c_int, send_type: MPI_Datatype,
        receive: *mut c_void, counts: *const c_int, displacements: *const c_int,
        receive_type: MPI_Datatype
    ) => Allgatherv: allgatherv(Allgatherv {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), counts = narrow(counts),
        displacements = narrow(displacements), receive_type = (receive_type)
    });

    MPI_Reduce_scatter_block / PMPI_Reduce_scatter_block(
        send: *const c_void, receive: *mut c_void, count: c_int, datatype: MPI_Datatype,
        op: MPI_Op
    ) => ReduceScatterBlock: reduce_scatter_block(ReduceScatterBlock {
        send = buffer(send), receive = buffer(receive), count = count(count),
        datatype = (datatype), op = (op)
    });

    MPI_Reduce_scatter / PMPI_Reduce_scatter(
        send: *const c_void, receive: *mut c_void, counts: *const c_int, datatype: MPI_Datatype,
        op: MPI_Op
    ) => ReduceScatter: reduce_scatter(ReduceScatter {
        send = buffer(send), receive = buffer(receive), counts = narrow(counts),
        datatype = (datatype), op = (op)
    });

    MPI_Allreduce / PMPI_Allreduce(
        send: *const c_void, receive: *mut c_void, count: c_int, datatype: MPI_Datatype,
        op: MPI_Op
    ) => Allreduce: allreduce(Allreduce {
        send = buffer(send), receive = buffer(receive), count = count(count),
        datatype = (datatype), op = (op)
    });

    MPI_Alltoall / PMPI_Alltoall(
        send: *const c_void, send_count: c_int, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: c_int, receive_type: MPI_Datatype
    ) => Alltoall: alltoall(Alltoall {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type)
    });

    MPI_Gather / PMPI_Gather(
        send: *const c_void, send_count: c_int, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: c_int, receive_type: MPI_Datatype, root: c_int
    ) root root => Gather: gather(Rooted {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type), root = (root)
    });

    MPI_Scatter / PMPI_Scatter(
        send: *const c_void, send_count: c_int, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: c_int, receive_type: MPI_Datatype, root: c_int
    ) root root => Scatter: scatter(Rooted {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type), root = (root)
    });

    #[cfg(large_count)]
    MPI_Bcast_c / PMPI_Bcast_c(
        buffer: *mut c_void, count: MPI_Count, datatype: MPI_Datatype, root: c_int
    ) root root => Bcast: bcast(Bcast {
        buffer = buffer(buffer), count = count(count), datatype = (datatype), root = (root)
    });

    #[cfg(large_count)]
    MPI_Reduce_c / PMPI_Reduce_c(
        send: *const c_void, receive: *mut c_void, count: MPI_Count, datatype: MPI_Datatype,
        op: MPI_Op, root: c_int
    ) root root => Reduce: reduce(Reduce {
        send = buffer(send), receive = buffer(receive), count = count(count),
        datatype = (datatype), op = (op), root = (root)
    });

    #[cfg(large_count)]
    MPI_Allgather_c / PMPI_Allgather_c(
        send: *const c_void, send_count: MPI_Count, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: MPI_Count, receive_type: MPI_Datatype
    ) => Allgather: allgather(Allgather {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type)
    });

    #[cfg(large_count)]
    MPI_Allgatherv_c / PMPI_Allgatherv_c(
        send: *const c_void, send_count: MPI_Count, send_type: MPI_Datatype,
        receive: *mut c_void, counts: *const MPI_Count, displacements: *const MPI_Aint,
        receive_type: MPI_Datatype
    ) => Allgatherv: allgatherv(Allgatherv {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), counts = wide(counts),
        displacements = addresses(displacements), receive_type = (receive_type)
    });

    #[cfg(large_count)]
    MPI_Reduce_scatter_block_c / PMPI_Reduce_scatter_block_c(
        send: *const c_void, receive: *mut c_void, count: MPI_Count, datatype: MPI_Datatype,
        op: MPI_Op
    ) => ReduceScatterBlock: reduce_scatter_block(ReduceScatterBlock {
        send = buffer(send), receive = buffer(receive), count = count(count),
        datatype = (datatype), op = (op)
    });

    #[cfg(large_count)]
    MPI_Reduce_scatter_c / PMPI_Reduce_scatter_c(
        send: *const c_void, receive: *mut c_void, counts: *const MPI_Count,
        datatype: MPI_Datatype, op: MPI_Op
    ) => ReduceScatter: reduce_scatter(ReduceScatter {
        send = buffer(send), receive = buffer(receive), counts = wide(counts),
        datatype = (datatype), op = (op)
    });

    #[cfg(large_count)]
    MPI_Allreduce_c / PMPI_Allreduce_c(
        send: *const c_void, receive: *mut c_void, count: MPI_Count, datatype: MPI_Datatype,
        op: MPI_Op
    ) => Allreduce: allreduce(Allreduce {
        send = buffer(send), receive = buffer(receive), count = count(count),
        datatype = (datatype), op = (op)
    });

    #[cfg(large_count)]
    MPI_Alltoall_c / PMPI_Alltoall_c(
        send: *const c_void, send_count: MPI_Count, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: MPI_Count, receive_type: MPI_Datatype
    ) => Alltoall: alltoall(Alltoall {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type)
    });

    #[cfg(large_count)]
    MPI_Gather_c / PMPI_Gather_c(
        send: *const c_void, send_count: MPI_Count, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: MPI_Count, receive_type: MPI_Datatype, root: c_int
    ) root root => Gather: gather(Rooted {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type), root = (root)
    });

    #[cfg(large_count)]
    MPI_Scatter_c / PMPI_Scatter_c(
        send: *const c_void, send_count: MPI_Count, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: MPI_Count, receive_type: MPI_Datatype, root: c_int
    ) root root => Scatter: scatter(Rooted {
        send = buffer(send), send_count = count(send_count), send_type = (send_type),
        receive = buffer(receive), receive_count = count(receive_count),
        receive_type = (receive_type), root = (root)
    });
}

intercept! {
    /// MPI_Comm_free, during which the communicator is left to the MPI library.
    ///
    MPI_Comm_free / PMPI_Comm_free(comm: *mut MPI_Comm) {
        // SAFETY: the argument as the program passed it.
        unsafe { free(comm, native().functions.PMPI_Comm_free) }
    }

    /// MPI_Comm_disconnect; as MPI_Comm_free.
    ///
    MPI_Comm_disconnect / PMPI_Comm_disconnect(comm: *mut MPI_Comm) {
        // SAFETY: the argument as the program passed it.
        unsafe { free(comm, native().functions.PMPI_Comm_disconnect) }
    }

    /// MPI_Comm_idup, which is remembered: until its end is seen, which it is not, no private
    /// communicator is made beside it.
    ///
    MPI_Comm_idup / PMPI_Comm_idup(
        comm: MPI_Comm, newcomm: *mut MPI_Comm, request: *mut MPI_Request
    ) {
        mark_duplicated(Communicator::new(comm));
        // SAFETY: the arguments as the program passed them.
        unsafe { (native().functions.PMPI_Comm_idup)(comm, newcomm, request) }
    }

    /// MPI_Comm_idup_with_info; as MPI_Comm_idup.
    ///
    #[cfg(idup_with_info)]
    MPI_Comm_idup_with_info / PMPI_Comm_idup_with_info(
        comm: MPI_Comm, info: MPI_Info, newcomm: *mut MPI_Comm, request: *mut MPI_Request
    ) {
        mark_duplicated(Communicator::new(comm));
        // SAFETY: the arguments as the program passed them.
        unsafe { (native().functions.PMPI_Comm_idup_with_info)(comm, info, newcomm, request) }
    }

    /// MPI_Init, after which the end of MPI is hooked, so that a program that calls nothing of ours
    /// gets its report, too. Local.
    ///
    MPI_Init / PMPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) {
        // SAFETY: the arguments as the program passed them.
        let code = unsafe { (native().functions.PMPI_Init)(argc, argv) };
        hook_end();
        code
    }

    /// MPI_Init_thread; as MPI_Init.
    ///
    MPI_Init_thread / PMPI_Init_thread(
        argc: *mut c_int, argv: *mut *mut *mut c_char, required: c_int, provided: *mut c_int
    ) {
        // SAFETY: the arguments as the program passed them.
        let code = unsafe { (native().functions.PMPI_Init_thread)(argc, argv, required, provided) };
        hook_end();
        code
    }

    /// MPI_Pcontrol: level 0 sends all calls that follow to the MPI library, any other takes that
    /// back. The arguments after the level are the other tools' affair; of those, as many integers
    /// and pointers are passed on as registers hold.
    ///
    MPI_Pcontrol / PMPI_Pcontrol(
        level: Word, a: Word, b: Word, c: Word, d: Word, e: Word
    ) first {
        // Also where a tool behind circulant keeps the call to itself.
        switch(level as c_int != 0);
    } {
        switch(level as c_int != 0);
        match function(c"PMPI_Pcontrol") {
            // SAFETY: MPI defines no arguments after the level, and whoever does not expect these
            // does not look at them.
            Some(next) => unsafe { onward!(next(level, a, b, c, d, e)) },
            None => SUCCESS,
        }
    }
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
