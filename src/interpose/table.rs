//! The table of exported functions.

use std::ffi::{c_char, c_int, c_void};

use super::boundary::{Boundary, Onward, Word, typed};
use super::builds::of_opened;
use crate::call::attempt;
use crate::collective::{
    self, Allgather, Allreduce, Alltoall, Bcast, Exported, Gather, Reduce, ReduceScatter, switch,
};
use crate::communicator::{before_session, commit, hook_end, revoke, while_freed, while_starting};
use crate::linker::name;
use crate::mpi::{
    self, Buffer, Communicator, Counts, MPI_Aint, MPI_Comm, MPI_Count, MPI_Datatype,
    MPI_Errhandler, MPI_Info, MPI_Op, MPI_Request, Operands, Passed, PassedByRank, Plain,
    PlainArray, SUCCESS, free_datatype, free_operator, function, native, start_duplication,
};
use crate::select::Operation;
use crate::store::{OF_OPEN_MPI_3, OF_OPEN_MPI_4, PMIX};

/// Exports a function under both of its names. The first, with which programs come, looks for
/// another tool behind circulant; the second, with which other tools and Open MPI's Fortran
/// bindings come, is where circulant runs what is its own.
macro_rules! intercept {
    ($(
        $(#[$attribute:meta])*
        $name:ident / $profiled:ident($($argument:ident: $type:ty),*)
            $(first $first:block)? $(around $around:ident)?
            $body:block
    )*) => {$(
        $(#[$attribute])*
        /// # Safety
        /// MPI's contract for the arguments of this function.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C-unwind" fn $name($($argument: Word),*) -> c_int {
            static NEXT: Onward = Onward::new();
            $($first)?
            match NEXT.tool(name!($name), name!($profiled)) {
                // SAFETY: the function of this name, or its twin, of a tool behind us, with the
                // arguments as they came.
                Some(next) => around!(unsafe { onward!(next($($argument),*)) } $(, $around)?),
                // SAFETY: the arguments as they came.
                None => unsafe { $profiled($($argument),*) },
            }
        }

        $(#[$attribute])*
        /// # Safety
        /// MPI's contract for the arguments of this function.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C-unwind" fn $profiled($($argument: Word),*) -> c_int {
            static NEXT: Onward = Onward::new();
            let _boundary = Boundary::new(stringify!($name));
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

/// A call, or what a function does around it.
macro_rules! around {
    ($call:expr) => {
        $call
    };
    ($call:expr, $around:ident) => {
        $around(|| $call)
    };
}

/// Calls the function at an address with arguments as they came.
macro_rules! onward {
    ($address:ident($($argument:ident),*)) => {
        std::mem::transmute::<
            *mut c_void,
            unsafe extern "C-unwind" fn($(word!($argument)),*) -> c_int,
        >($address)($($argument),*)
    };
}

macro_rules! word {
    ($argument:ident) => {
        Word
    };
}

/// The collective operations, each with its twin for large counts. `Count` is what either counts
/// with, `Displacement` what it measures displacements with. `arrays` are those of them that have
/// an entry for each rank, of the communicator's `size` or its `peers`. `message` are the elements
/// of a call that has the same bytes in all processes.
macro_rules! exports {
    ($(
        $name:ident, $profiled:ident, $large:ident, $large_profiled:ident
        $arguments:tt $(arrays $arrays:tt)? $(root $root:ident)? $(message $message:expr)? =>
            $operation:ident, |$state:ident| $call:expr;
    )*) => {
        exports! { @all plain c_int c_int $(
            $name / $profiled $arguments by ($profiled),
            root($($root)?) message($($message)?) $operation |$state| $call;
        )* }
        exports! { @all large MPI_Count MPI_Aint $(
            $large / $large_profiled $arguments
            by ($large_profiled or $profiled with ($($arrays)?)),
            root($($root)?) message($($message)?) $operation |$state| $call;
        )* }
    };
    (@all $module:ident $count:ident $displacement:ident $(
        $name:ident / $profiled:ident ($($argument:ident: $type:ty),*) by $functions:tt,
        root($($root:ident)?) message($($message:expr)?)
        $operation:ident |$state:ident| $call:expr;
    )*) => {
        mod $module {
            use super::*;

            type Count = $count;
            type Displacement = $displacement;

            intercept! {$(
                /// The MPI function of this name.
                ///
                $name / $profiled($($argument: $type,)* comm: MPI_Comm) {
                    let communicator = communicator!(comm);
                    let forward = || {
                        // SAFETY: the arguments as the program passed them.
                        unsafe { forward!($functions($($argument),*) communicator) }
                    };
                    let call = Exported {
                        operation: Operation::$operation,
                        communicator,
                        root: exports!(@root $($root)?),
                        message: exports!(@message $($message)?),
                    };
                    collective::run(call, forward, |$state, work, held| {
                        attempt($state, &$call, work, held)
                    })
                }
            )*}
        }
    };
    (@root) => { None };
    (@root $root:ident) => { Some($root) };
    (@message) => { None };
    (@message $message:expr) => { Some($message) };
}

/// Calls the MPI library's function; where it has none for large counts, the plain one, which has
/// an error for a count that is too large.
macro_rules! forward {
    (($function:ident)($($argument:ident),*) $communicator:ident) => {
        (native().functions.$function)($($argument,)* $communicator.handle())
    };
    (
        ($large:ident or $plain:ident with ($(($($array:ident),* of $ranks:ident))?))
        ($($argument:ident),*) $communicator:ident
    ) => {
        if let Some(large) = native().functions.$large {
            large($($argument,)* $communicator.handle())
        } else {
            $($(
                let $array = match PlainArray::new($array, $communicator, $communicator.$ranks()) {
                    Ok(array) => array,
                    Err(raised) => return raised,
                };
            )*)?
            let function = native().functions.$plain;
            function($($argument.plain(),)* $communicator.handle())
        }
    };
}

/// A communicator.
macro_rules! communicator {
    ($comm:expr) => {
        // SAFETY: an argument of the call in progress.
        unsafe { Communicator::new($comm) }
    };
}

/// A buffer, a count and a datatype.
macro_rules! passed {
    ($buffer:ident, $count:ident, $datatype:ident) => {
        // SAFETY: arguments of the call in progress, which belong together.
        unsafe { Passed::new(Buffer::new($buffer), i64::from($count), $datatype) }
    };
}

/// The same with elements for every rank: as many of each, or arrays of counts and displacements.
macro_rules! by_rank {
    ($buffer:ident, $count:ident, $datatype:ident, $ranks:expr) => {{
        let (count, ranks) = (i64::from($count), $ranks);
        let (counts, displacements) = (Counts::equal(count, ranks), Counts::steps(count, ranks));
        // SAFETY: arguments of the call in progress, which belong together.
        unsafe { PassedByRank::new(Buffer::new($buffer), counts, displacements, $datatype) }
    }};
    ($buffer:ident, $counts:ident, $displacements:ident, $datatype:ident, $ranks:expr) => {{
        let (counts, displacements) = (array!($counts, $ranks), array!($displacements, $ranks));
        // SAFETY: arguments of the call in progress, which belong together.
        unsafe { PassedByRank::new(Buffer::new($buffer), counts, displacements, $datatype) }
    }};
}

/// An entry for every rank.
macro_rules! array {
    ($array:ident, $ranks:expr) => {
        // SAFETY: an array argument of the call in progress, with an entry for every rank.
        unsafe { Counts::array($array, $ranks) }
    };
}

/// The arguments of a reduction, whose result has these parts.
macro_rules! operands {
    ($send:ident, $receive:ident, $counts:expr, $datatype:ident, $op:ident) => {{
        let (send, receive, counts) = (Buffer::new($send), Buffer::new($receive), $counts);
        // SAFETY: arguments of the call in progress, which belong together.
        unsafe { Operands::new(send, receive, counts, $datatype, $op) }
    }};
}

exports! {
    MPI_Bcast, PMPI_Bcast, MPI_Bcast_c, PMPI_Bcast_c(
        buffer: *mut c_void, count: Count, datatype: MPI_Datatype, root: c_int
    ) root root message passed!(buffer, count, datatype) => Bcast, |_state| Bcast {
        data: passed!(buffer, count, datatype),
        root,
    };

    MPI_Reduce, PMPI_Reduce, MPI_Reduce_c, PMPI_Reduce_c(
        send: *const c_void, receive: *mut c_void, count: Count, datatype: MPI_Datatype,
        op: MPI_Op, root: c_int
    ) root root message passed!(send, count, datatype) => Reduce, |_state| Reduce {
        operands: operands!(send, receive, Counts::equal(count, 1), datatype, op),
        root,
    };

    MPI_Allgather, PMPI_Allgather, MPI_Allgather_c, PMPI_Allgather_c(
        send: *const c_void, send_count: Count, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: Count, receive_type: MPI_Datatype
    ) => Allgather, |state| Allgather {
        operation: Operation::Allgather,
        send: passed!(send, send_count, send_type),
        receive: by_rank!(receive, receive_count, receive_type, state.peers()),
    };

    MPI_Allgatherv, PMPI_Allgatherv, MPI_Allgatherv_c, PMPI_Allgatherv_c(
        send: *const c_void, send_count: Count, send_type: MPI_Datatype,
        receive: *mut c_void, counts: *const Count, displacements: *const Displacement,
        receive_type: MPI_Datatype
    ) arrays (counts, displacements of peers) => Allgatherv, |state| Allgather {
        operation: Operation::Allgatherv,
        send: passed!(send, send_count, send_type),
        receive: by_rank!(receive, counts, displacements, receive_type, state.peers()),
    };

    MPI_Reduce_scatter_block, PMPI_Reduce_scatter_block,
    MPI_Reduce_scatter_block_c, PMPI_Reduce_scatter_block_c(
        send: *const c_void, receive: *mut c_void, count: Count, datatype: MPI_Datatype,
        op: MPI_Op
    ) => ReduceScatterBlock, |state| ReduceScatter {
        operation: Operation::ReduceScatterBlock,
        operands: {
            let counts = Counts::equal(count, state.size());
            operands!(send, receive, counts, datatype, op)
        },
    };

    MPI_Reduce_scatter, PMPI_Reduce_scatter, MPI_Reduce_scatter_c, PMPI_Reduce_scatter_c(
        send: *const c_void, receive: *mut c_void, counts: *const Count, datatype: MPI_Datatype,
        op: MPI_Op
    ) arrays (counts of size) => ReduceScatter, |state| ReduceScatter {
        operation: Operation::ReduceScatter,
        operands: operands!(send, receive, array!(counts, state.size()), datatype, op),
    };

    MPI_Allreduce, PMPI_Allreduce, MPI_Allreduce_c, PMPI_Allreduce_c(
        send: *const c_void, receive: *mut c_void, count: Count, datatype: MPI_Datatype,
        op: MPI_Op
    ) message passed!(send, count, datatype) => Allreduce, |_state| Allreduce {
        operands: operands!(send, receive, Counts::equal(count, 1), datatype, op),
    };

    MPI_Alltoall, PMPI_Alltoall, MPI_Alltoall_c, PMPI_Alltoall_c(
        send: *const c_void, send_count: Count, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: Count, receive_type: MPI_Datatype
    ) => Alltoall, |state| Alltoall {
        send: by_rank!(send, send_count, send_type, state.peers()),
        receive: by_rank!(receive, receive_count, receive_type, state.peers()),
    };

    MPI_Gather, PMPI_Gather, MPI_Gather_c, PMPI_Gather_c(
        send: *const c_void, send_count: Count, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: Count, receive_type: MPI_Datatype, root: c_int
    ) root root => Gather, |state| Gather {
        operation: Operation::Gather,
        part: passed!(send, send_count, send_type),
        whole: by_rank!(receive, receive_count, receive_type, state.peers()),
        root,
    };

    MPI_Scatter, PMPI_Scatter, MPI_Scatter_c, PMPI_Scatter_c(
        send: *const c_void, send_count: Count, send_type: MPI_Datatype,
        receive: *mut c_void, receive_count: Count, receive_type: MPI_Datatype, root: c_int
    ) root root => Scatter, |state| Gather {
        operation: Operation::Scatter,
        part: passed!(receive, receive_count, receive_type),
        whole: by_rank!(send, send_count, send_type, state.peers()),
        root,
    };
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

    /// MPI_Comm_idup. On Open MPI, no private communicator is made while it is under way.
    ///
    MPI_Comm_idup / PMPI_Comm_idup(
        comm: MPI_Comm, newcomm: *mut MPI_Comm, request: *mut MPI_Request
    ) {
        let function = native().functions.PMPI_Comm_idup;
        // SAFETY: the arguments as the program passed them.
        unsafe { start_duplication(request, || function(comm, newcomm, request)) }
    }

    /// MPI_Comm_idup_with_info; as MPI_Comm_idup.
    ///
    MPI_Comm_idup_with_info / PMPI_Comm_idup_with_info(
        comm: MPI_Comm, info: MPI_Info, newcomm: *mut MPI_Comm, request: *mut MPI_Request
    ) {
        let functions = &native().functions;
        let start = || match functions.PMPI_Comm_idup_with_info {
            // SAFETY: the arguments as the program passed them.
            Some(function) => unsafe { function(comm, info, newcomm, request) },
            // What an info says are hints, which an MPI need not take.
            // SAFETY: as above.
            None => unsafe { (functions.PMPI_Comm_idup)(comm, newcomm, request) },
        };
        // SAFETY: as above.
        unsafe { start_duplication(request, start) }
    }

    /// MPI_Op_free. An operator that a call of circulant's uses, which may be what frees it, is
    /// freed when that has ended. Local.
    ///
    MPI_Op_free / PMPI_Op_free(op: *mut MPI_Op) {
        // SAFETY: the argument as the program passed it.
        unsafe { free_operator(op) }
    }

    /// MPI_Type_free; as MPI_Op_free. Another thread may free what this one uses.
    ///
    MPI_Type_free / PMPI_Type_free(datatype: *mut MPI_Datatype) {
        // SAFETY: the argument as the program passed it.
        unsafe { free_datatype(datatype) }
    }

    /// MPIX_Comm_revoke, which ends all waiting on a communicator that has lost a process. It does
    /// so on circulant's own for the same processes, too: who waits there, for a process that
    /// lives and has left the call with an error, would wait for ever. Local.
    ///
    MPIX_Comm_revoke / PMPIX_Comm_revoke(comm: MPI_Comm) {
        let Some(function) = native().functions.PMPIX_Comm_revoke else {
            return native().constants.err_arg.0;
        };
        if let Err(raised) = revoke(communicator!(comm)) {
            return raised.0;
        }
        // SAFETY: the argument as the program passed it.
        unsafe { function(comm) }
    }

    /// MPI_Init, in which this process tells the others that it has circulant. After it the end of
    /// MPI is hooked, so that a program that calls nothing of ours gets its report, too. Local.
    ///
    /// Another tool's MPI_Init may call the MPI library's own, past circulant. So this is around
    /// that, too.
    ///
    MPI_Init / PMPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) around start {
        // SAFETY: the arguments as the program passed them.
        start(|| unsafe { (native().functions.PMPI_Init)(argc, argv) })
    }

    /// MPI_Init_thread; as MPI_Init.
    ///
    MPI_Init_thread / PMPI_Init_thread(
        argc: *mut c_int, argv: *mut *mut *mut c_char, required: c_int, provided: *mut c_int
    ) around start {
        // SAFETY: the arguments as the program passed them.
        start(|| unsafe { (native().functions.PMPI_Init_thread)(argc, argv, required, provided) })
    }

    /// MPI_Session_init, by which a program may begin before MPI_Init. The entry of this process is
    /// made before it, too. Local.
    ///
    MPI_Session_init / PMPI_Session_init(
        info: MPI_Info, handler: MPI_Errhandler, session: *mut c_void
    ) {
        let Some(function) = native().functions.PMPI_Session_init else {
            return native().constants.err_arg.0;
        };
        before_session();
        // SAFETY: the arguments as the program passed them.
        unsafe { function(info, handler, session) }
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
            // SAFETY: a function with variable arguments finds integers and pointers where one
            // with fixed arguments does, on all machines that MPI is used on but Apple's. It looks
            // at those that the program passed; others may be anything.
            Some(next) => unsafe { onward!(next(level, a, b, c, d, e)) },
            None => SUCCESS,
        }
    }
}

/// MPI_Init, by `init`, and what belongs to it.
fn start(init: impl FnOnce() -> c_int) -> c_int {
    // Another build does that, where the process has another MPI.
    if mpi::unusable().is_some() {
        return init();
    }
    let _boundary = Boundary::new("MPI_Init");
    let code = while_starting(init);
    hook_end();
    mpi::make_probe();
    code
}

/// The functions of a PMIx library that MPI_Init calls under the launchers that have PMIx.
macro_rules! intercepted_pmix {
    ($library:ident: $commit:ident, $put:ident) => {
        /// PMIx_Commit, by which MPI_Init makes known what it has put.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub extern "C" fn $commit() -> c_int {
            match of_opened(name!($commit)) {
                // SAFETY: this function, of another build.
                Some(next) => unsafe { onward!(next()) },
                None => commit(&$library),
            }
        }

        /// PMIx_Put, by which MPI_Init puts what other processes need.
        ///
        /// # Safety
        /// The contract of PMIx's function of this name.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $put(scope: Word, key: Word, value: Word) -> c_int {
            match of_opened(name!($put)) {
                // SAFETY: this function, of another build; the arguments as they came.
                Some(next) => unsafe { onward!(next(scope, key, value)) },
                // SAFETY: the arguments as they came.
                None => unsafe { $library.put(typed(scope), typed(key), typed(value)) },
            }
        }
    };
}

intercepted_pmix!(PMIX: PMIx_Commit, PMIx_Put);
intercepted_pmix!(OF_OPEN_MPI_4: OPAL_MCA_PMIX3X_PMIx_Commit, OPAL_MCA_PMIX3X_PMIx_Put);
intercepted_pmix!(OF_OPEN_MPI_3: OPAL_MCA_PMIX2X_PMIx_Commit, OPAL_MCA_PMIX2X_PMIx_Put);

/// # Safety
/// The contract of `forward`, for its argument.
unsafe fn free(
    comm: *mut MPI_Comm,
    forward: unsafe extern "C-unwind" fn(*mut MPI_Comm) -> c_int,
) -> c_int {
    // SAFETY: the argument as the program passed it.
    let forward = || unsafe { forward(comm) };
    if comm.is_null() {
        return forward();
    }
    // SAFETY: not null, so the address of a handle, which is an argument of the call in progress.
    while_freed(unsafe { Communicator::new(*comm) }, forward)
}
