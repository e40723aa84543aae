//! One file per MPI operation: arguments, selection, plan, engine; or native.
//!
//! Each file has one function that tries a call, and fills in the [`Work`] as it becomes known; or it
//! returns a [`Stop`] that sends the call to the MPI library with its arguments untouched. [`run`] is
//! what they have in common.
//!
//! What may decide between ours and native is the same on every process: sizes of signatures, the
//! operator, agreed settings, agreed resources. Arguments that are wrong on one process only go to
//! the MPI library there, which raises what it always raises.

#![forbid(unsafe_code)]

mod allgather;
mod allgatherv;
mod allreduce;
mod allreduce_v;
mod alltoall;
mod bcast;
mod gather;
mod intergroup;
mod reduce;
mod reduce_scatter;
mod reduce_scatter_block;
mod scatter;
mod successive_bcast;
mod tree;

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub use allgather::{Allgather, allgather};
pub use allgatherv::{Allgatherv, allgatherv};
pub use allreduce::{Allreduce, allreduce};
pub use allreduce_v::{AllreduceV, Growing, allreduce_v, gather_and_combine};
pub use alltoall::{Alltoall, alltoall};
pub use bcast::{Bcast, bcast};
pub use gather::gather;
pub use reduce::{Reduce, reduce};
pub use reduce_scatter::{ReduceScatter, reduce_scatter};
pub use reduce_scatter_block::{ReduceScatterBlock, reduce_scatter_block};
pub use scatter::scatter;
pub use successive_bcast::{SuccessiveBcast, successive_bcast, successive_bcast_natively};
pub use tree::Rooted;

use crate::communicator::{State, Stop, process, state};
use crate::mpi::{
    Buffer, Communicator, Datatype, MPI_Datatype, MPI_Op, Operator, Overlay, Private, SUCCESS,
    Source,
};
use crate::plan::{Doubling, Plan, Segments};
use crate::report::{self, Outcome, Trace, Work};
use crate::schedule::Sequence;
use crate::select::{Operation, Reason};

/// Set while the program has switched circulant off.
static SWITCHED_OFF: AtomicBool = AtomicBool::new(false);

/// Switches circulant on or off: for this process, of which MPI_Pcontrol demands, as of the ranks of a
/// collective call, that the others do the same between the same calls.
pub fn switch(on: bool) {
    SWITCHED_OFF.store(!on, Ordering::Relaxed);
}

/// Tries a call of `operation` on `communicator` (with that `root`, where it has one); where it is
/// not ours, `native` runs it. Returns MPI's error code.
pub fn run(
    operation: Operation,
    communicator: Communicator,
    root: Option<c_int>,
    native: impl FnOnce() -> c_int,
    attempt: impl FnOnce(&State, &mut Work) -> Result<(), Stop>,
) -> c_int {
    let Some(state) = state(communicator) else {
        return native();
    };
    let observes = process().observes;
    let start = observes.then(Instant::now);
    let mut work = Work::default();
    let attempted = if SWITCHED_OFF.load(Ordering::Relaxed) {
        Err(Stop::Native(Reason::SwitchedOff))
    } else {
        attempt(state, &mut work)
    };
    let (outcome, code) = match attempted {
        Ok(()) => (Outcome::Circulant, SUCCESS),
        Err(Stop::Native(reason)) => (Outcome::Native(reason), native()),
        Err(Stop::Failed(error)) => {
            let (operation, rank) = (operation.name(), state.rank());
            report::say(&format!(
                "circulant: MPI failed in the middle of {operation} on rank {rank}"
            ));
            return communicator.raise(error);
        }
        Err(Stop::Mismatched(error)) => {
            say_mismatch(operation, communicator, state.rank());
            (Outcome::Circulant, communicator.raise(error))
        }
    };
    if let Some(start) = start {
        work.nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    }
    if observes || outcome == Outcome::Circulant {
        report::count(operation, outcome, &work);
    }
    if observes {
        trace(operation, state, root, outcome, work);
    }
    code
}

/// What a program cannot know from the error alone, unless it handles errors itself.
fn say_mismatch(operation: Operation, communicator: Communicator, rank: usize) {
    if communicator.returns_errors() {
        return;
    }
    report::say(&format!(
        "circulant: rank {rank} received a message of {} of another length than it expected; counts and \
         datatypes must describe the same amount of data on all processes",
        operation.name()
    ));
}

/// One line a call on rank 0, if that was asked for.
fn trace(operation: Operation, state: &State, root: Option<c_int>, outcome: Outcome, work: Work) {
    if !process().settings.trace || process().rank != 0 {
        return;
    }
    let number = report::total_calls(operation);
    let root = root.and_then(|root| usize::try_from(root).ok());
    let trace = Trace {
        operation,
        number,
        processes: state.size(),
        root,
        outcome,
        work,
    };
    report::say(&report::trace_line(&trace));
}

/// A count argument, if it is one.
fn count(argument: i64) -> Result<usize, Stop> {
    usize::try_from(argument).map_err(|_| Stop::Native(Reason::Arguments))
}

/// Bytes of data in one element, for a datatype that is one.
fn size(datatype: MPI_Datatype) -> Result<usize, Stop> {
    Datatype::size_of(datatype).ok_or(Stop::Native(Reason::Arguments))
}

/// The layout of the datatype of the elements at `buffer`, for one that is usual enough. Data at
/// address zero without a datatype that leads elsewhere, or at MPI_IN_PLACE where that means
/// nothing, is the MPI library's to judge.
fn layout(datatype: MPI_Datatype, buffer: Buffer) -> Result<Datatype, Stop> {
    layout_from(datatype, buffer, 0)
}

/// The same for elements of which the first is `displacement` extents from `buffer`: what a program
/// passes together with MPI_BOTTOM may be addresses.
fn layout_from(
    datatype: MPI_Datatype,
    buffer: Buffer,
    displacement: isize,
) -> Result<Datatype, Stop> {
    let is_nowhere = |datatype: &Datatype| {
        datatype.true_lower() == 0 && datatype.element(buffer, displacement).is_bottom()
    };
    Datatype::new(datatype)
        .filter(|datatype| !buffer.is_in_place() && !is_nowhere(datatype))
        .ok_or(Stop::Native(Reason::Arguments))
}

/// The same for elements that are to be combined. In scratch they keep their layout, so those that
/// interleave would overlay each other there; and those with gaps are packed to be copied.
fn combined_layout(datatype: MPI_Datatype, buffer: Buffer) -> Result<Datatype, Stop> {
    let datatype = layout(datatype, buffer)?;
    if datatype.interleaves() || !datatype.is_dense() && !datatype.is_packable() {
        Err(Stop::Native(Reason::Arguments))
    } else {
        Ok(datatype)
    }
}

/// Whether input is to be treated as in place because it `begins` where its result goes, without
/// MPI_IN_PLACE. If the MPI library has an error for that, it raises it. If not, the call often works
/// there; and the other processes may not know of it, so that it must not go native on this one alone.
fn overlays(begins: bool, operation: Overlay) -> Result<bool, Stop> {
    if begins && operation.is_rejected() {
        Err(Stop::Native(Reason::Arguments))
    } else {
        Ok(begins)
    }
}

/// Where the input of an operation that combines is, and whether its result goes there.
fn combined_input(
    send: Buffer,
    receive: Buffer,
    operation: Overlay,
) -> Result<(Buffer, bool), Stop> {
    if send.is_in_place() || overlays(send == receive, operation)? {
        Ok((receive, true))
    } else {
        Ok((send, false))
    }
}

/// The same where elements are moved. MPICH looks only at those of one datatype, at addresses that
/// it computes as if they had no gaps.
fn moved_overlay(from: (Buffer, Datatype), to: (Buffer, Datatype)) -> Result<bool, Stop> {
    let begins = begin_alike(from, to);
    let is_seen = begins && from.1 == to.1 && to.1.is_dense();
    Ok(overlays(is_seen, Overlay::Moved)? || begins)
}

/// Whether data begins where other data does. Buffers alone do not say so: absolute datatypes have the
/// same one, MPI_BOTTOM, for all data.
fn begin_alike(one: (Buffer, Datatype), other: (Buffer, Datatype)) -> bool {
    let first = |(buffer, datatype): (Buffer, Datatype)| buffer.offset(datatype.true_lower());
    first(one) == first(other)
}

/// Elements at `elements` of the program, with what is to be known to pack or unpack them.
fn source(elements: Buffer, datatype: Datatype, private: &Private, packed: &mut Vec<u8>) -> Source {
    Source {
        elements,
        datatype,
        contiguous: datatype.is_contiguous(private, packed),
    }
}

/// A product that fits; what does not is not a size that any memory has.
fn product(a: usize, b: usize) -> Result<usize, Stop> {
    a.checked_mul(b).ok_or(Stop::Native(Reason::Arguments))
}

/// An operator that may be ours: a commutative one.
fn operator(handle: MPI_Op) -> Result<Operator, Stop> {
    match any_operator(handle)? {
        (operator, true) => Ok(operator),
        (_, false) => Err(Stop::Native(Reason::NotCommutative)),
    }
}

/// An operator that may be ours where the order of ranks can be kept, and whether it is commutative.
fn ordered_operator(state: &State, handle: MPI_Op) -> Result<(Operator, bool), Stop> {
    match any_operator(handle)? {
        (_, false) if !state.keeps_order() => Err(Stop::Native(Reason::NotCommutative)),
        operator => Ok(operator),
    }
}

/// An operator, and whether it is commutative.
fn any_operator(handle: MPI_Op) -> Result<(Operator, bool), Stop> {
    let operator = Operator::new(handle);
    operator
        .and_then(|operator| Some((operator, operator.is_commutative()?)))
        .ok_or(Stop::Native(Reason::Arguments))
}

/// The rounds of a reduce-scatter or an allreduce with one block: in the order of ranks for an operator
/// that is not commutative.
fn rounds(sequence: &Sequence, rank: usize, segments: Segments, commutative: bool) -> Doubling<'_> {
    if commutative {
        Doubling::new(sequence, rank, segments)
    } else {
        Doubling::ordered(sequence, rank)
    }
}

/// The work of a call that ran as `plan`.
fn done(work: &mut Work, plan: &dyn Plan) {
    work.rounds = plan.rounds() as u64;
    work.blocks = plan.blocks() as u64;
}
