//! One file per MPI operation: its arguments, and what they say of the call and its problem.
//!
//! [`run`] is what all exported calls have in common. It tries a call, and fills in the [`Work`] as
//! it becomes known; or a [`Stop`] sends the call to the MPI library with its arguments untouched.
//!
//! What may decide between ours and native is the same on every process: sizes of signatures, the
//! operator, agreed settings, agreed resources. Arguments that are wrong on one process only go to
//! the MPI library there, which raises what it always raises.

#![forbid(unsafe_code)]

mod allgather;
mod allreduce;
mod alltoall;
mod bcast;
pub mod check;
mod gather;
mod reduce;
mod reduce_scatter;

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub use allgather::Allgather;
pub use allreduce::Allreduce;
pub use alltoall::Alltoall;
pub use bcast::Bcast;
pub use gather::Gather;
pub use reduce::Reduce;
pub use reduce_scatter::ReduceScatter;

use crate::communicator::{State, Stop, process, with_state};
use crate::message::say;
use crate::mpi::{Communicator, SUCCESS};
use crate::report::{self, Outcome, Trace, Work};
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
    with_state(communicator, |state| match state {
        None => native(),
        Some(state) => run_with(state, (operation, communicator, root), native, attempt),
    })
}

fn run_with(
    state: &State,
    (operation, communicator, root): (Operation, Communicator, Option<c_int>),
    native: impl FnOnce() -> c_int,
    attempt: impl FnOnce(&State, &mut Work) -> Result<(), Stop>,
) -> c_int {
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
            say(&format!(
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
    say(&format!(
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
    say(&report::trace_line(&trace));
}
