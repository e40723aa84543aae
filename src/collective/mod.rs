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
mod gather;
mod reduce;
mod reduce_scatter;

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

pub use allgather::Allgather;
pub use allreduce::Allreduce;
pub use alltoall::Alltoall;
pub use bcast::Bcast;
pub use gather::Gather;
pub use reduce::Reduce;
pub use reduce_scatter::ReduceScatter;

use crate::call::Check;
use crate::communicator::{State, Stop, is_small, process, with_state};
use crate::message::say;
use crate::mpi::{
    self, Alias, Array, Arrays, Communicator, Counts, Error, Held, Moment, Operands, Operator,
    Passed, PassedByRank, SUCCESS,
};
use crate::report::{self, Outcome, Trace, Work};
use crate::select::{Facts, Operation, Order, Reason};

/// Set while the program has switched circulant off.
static SWITCHED_OFF: AtomicBool = AtomicBool::new(false);

/// Whether this process has said that MPI has failed.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Switches circulant on or off for this process. The other processes must do the same between the
/// same collective calls: the program's MPI_Pcontrol is responsible for that.
pub fn switch(on: bool) {
    SWITCHED_OFF.store(!on, Ordering::Relaxed);
}

/// A call of an exported function, as far as all have that in common.
pub struct Exported {
    /// Of which operation.
    pub operation: Operation,
    /// The communicator argument.
    pub communicator: Communicator,
    /// The root argument, if there is one.
    pub root: Option<c_int>,
    /// The message, if it has as many bytes in all processes, whoever they are.
    pub message: Option<Passed>,
}

impl Exported {
    /// Of a function that MPI does not have.
    pub fn own(operation: Operation, communicator: Communicator) -> Exported {
        Exported {
            operation,
            communicator,
            root: None,
            message: None,
        }
    }

    /// Whether it is so small that no state need be made for it, on a communicator of this size.
    fn is_small(&self, size: usize) -> bool {
        let bytes = || self.message.as_ref().and_then(Passed::bytes);
        let is_on = !SWITCHED_OFF.load(Ordering::Relaxed);
        is_on && is_small(self.operation, self.communicator, size, bytes)
    }
}

/// Tries a call; where it is not ours, `native` runs it. Returns MPI's error code.
pub fn run(
    call: Exported,
    native: impl Fn() -> c_int,
    attempt: impl FnOnce(&State, &mut Work, &mut Option<Held>) -> Result<Option<Box<Check>>, Stop>,
) -> c_int {
    let is_small = |size| call.is_small(size);
    let ended = with_state(call.communicator, is_small, |state| match state {
        None => native(),
        Some(state) => run_with(state, &call, native, attempt),
    });
    // An error that MPI has raised is not raised once more.
    ended.unwrap_or_else(|error| error.0)
}

fn run_with(
    state: &State,
    call: &Exported,
    native: impl Fn() -> c_int,
    attempt: impl FnOnce(&State, &mut Work, &mut Option<Held>) -> Result<Option<Box<Check>>, Stop>,
) -> c_int {
    let (operation, communicator, root) = (call.operation, call.communicator, call.root);
    let observes = state.observes();
    let start = observes.then(Moment::now);
    // Until the call has ended, also if the MPI library runs it after all.
    let mut held = None;
    let mut work = Work::default();
    let attempted = if SWITCHED_OFF.load(Ordering::Relaxed) {
        Err(Stop::Native(Reason::SwitchedOff))
    } else {
        attempt(state, &mut work, &mut held)
    };
    let mut check = None;
    let (outcome, code) = match attempted {
        Ok(to_check) => {
            check = to_check;
            state.end(Outcome::Circulant);
            (Outcome::Circulant, SUCCESS)
        }
        Err(Stop::Native(reason)) => {
            let _ending = Ending { state, reason };
            (Outcome::Native(reason), native())
        }
        Err(Stop::Settled(reason)) => {
            let code = native();
            if was_made(Outcome::Native(reason), code) {
                state.count_settled(operation);
            }
            (Outcome::Native(reason), code)
        }
        Err(Stop::Failed(error)) => {
            return fail(state, operation, error);
        }
        Err(Stop::Mismatched(error)) => {
            say_mismatch(operation, communicator, state.rank());
            state.end(Outcome::Circulant);
            (Outcome::Circulant, communicator.raise(error))
        }
    };
    if let Some(root) = root.filter(|_| was_made(outcome, code)) {
        state.made_from(operation, root);
    }
    if let Some(start) = start {
        let start = check.as_ref().map_or(start, |check| check.began());
        work.nanoseconds = start.elapsed();
    }
    if observes || outcome == Outcome::Circulant {
        report::count(operation, outcome, &work);
    }
    if observes {
        report::count_by_size(operation, outcome, &work, state.origin(root));
        trace(operation, state, root, outcome, work);
    }
    match check.map(|check| check.finish(state, root, native)) {
        Some(Ok(code)) => code,
        Some(Err(Stop::Failed(error))) => fail(state, operation, error),
        _ => code,
    }
}

/// Tells the state that a native call has ended: also where an exception of the program's error
/// handler has ended it, since the other processes may wait to tell its time.
struct Ending<'a> {
    state: &'a State,
    reason: Reason,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        // Nothing is learned from small calls, and they are to cost nothing.
        if self.reason != Reason::Small {
            self.state.end(Outcome::Native(self.reason));
        }
    }
}

/// Whether a call was made that ended so. A process that was alone with wrong arguments may make it
/// again.
fn was_made(outcome: Outcome, code: c_int) -> bool {
    let is_wrong = outcome == Outcome::Native(Reason::Arguments);
    !mpi::check(code).is_err_and(|error| is_wrong || error.is_of_arguments())
}

/// MPI has failed: the program's error handler hears of it. One line says where, if that ends the
/// job or is the first time: a program that survives failures may see many.
fn fail(state: &State, operation: Operation, error: Error) -> c_int {
    let is_first = !HAS_FAILED.swap(true, Ordering::Relaxed);
    if is_first || state.communicator().has_fatal_errors() {
        let (operation, rank) = (operation.name(), state.rank());
        say(&format!(
            "circulant: MPI failed in the middle of {operation} on rank {rank}"
        ));
    }
    state.communicator().raise(state.leave_after(error))
}

/// What a program cannot know from the error alone, unless it handles errors itself.
fn say_mismatch(operation: Operation, communicator: Communicator, rank: usize) {
    if communicator.returns_errors() {
        return;
    }
    say(&format!(
        "circulant: rank {rank} received a message of {} of another length than it expected; \
         counts and datatypes must describe the same amount of data on all processes",
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

/// What is there, of arguments that are valid.
pub fn valid<T>(found: Option<T>) -> Result<T, Stop> {
    found.ok_or(Stop::Native(Reason::Arguments))
}

/// A count argument, if it is one.
pub fn count(argument: i64) -> Result<usize, Stop> {
    valid(usize::try_from(argument).ok())
}

/// A product that fits; what does not is not a size that any memory has.
pub fn product(a: usize, b: usize) -> Result<usize, Stop> {
    valid(a.checked_mul(b))
}

/// The bytes of all elements, and of the most of any rank.
pub fn sizes(counts: Counts, unit: usize) -> Result<(usize, usize), Stop> {
    let all = product(valid(counts.sum())?, unit)?;
    Ok((all, product(valid(counts.largest())?, unit)?))
}

/// Elements that are somewhere. Data at address zero without a datatype that leads elsewhere, or at
/// MPI_IN_PLACE where that means nothing, is the MPI library's to judge.
pub fn somewhere(elements: Option<Array>) -> Result<Array, Stop> {
    let is_somewhere = |elements: &Array| {
        let is_nowhere = elements.datatype().true_lower() == 0 && elements.first().is_bottom();
        !is_nowhere && !elements.first().is_in_place()
    };
    valid(elements.filter(is_somewhere))
}

/// The same of elements for every rank: those of the first that has some.
pub fn somewhere_by_rank(passed: &PassedByRank) -> Result<Arrays, Stop> {
    let arrays = valid(passed.arrays().filter(|_| !passed.buffer().is_in_place()))?;
    somewhere(Some(arrays.first()))?;
    Ok(arrays)
}

/// The same of elements that are to be combined. In scratch they keep their layout, so those that
/// interleave would overlay each other there; and those with gaps are packed to be copied.
pub fn combinable(elements: Option<Array>) -> Result<Array, Stop> {
    let elements = somewhere(elements)?;
    let datatype = elements.datatype();
    if datatype.interleaves() || !datatype.is_dense() && !datatype.is_packable() {
        Err(Stop::Native(Reason::Arguments))
    } else {
        Ok(elements)
    }
}

/// Whether the input of a reduction is where its result goes.
pub fn is_in_place(operands: &Operands, alias: Alias) -> Result<bool, Stop> {
    let is_alias = operands.send() == operands.receive();
    Ok(operands.send().is_in_place() || aliases(is_alias, alias)?)
}

/// Whether elements that are moved are where they go already. MPICH looks only at those of one
/// datatype, at addresses that it computes as if they had no gaps. (Buffers alone do not say so:
/// absolute datatypes have the same one, MPI_BOTTOM, for all data.)
pub fn is_moved_in_place(from: &Array, to: &Array) -> Result<bool, Stop> {
    let begins = from.data() == to.data();
    let is_seen = begins && from.datatype() == to.datatype() && to.datatype().is_dense();
    Ok(aliases(is_seen, Alias::Moved)? || begins)
}

/// Whether input is to be treated as in place because it `begins` where its result goes, without
/// MPI_IN_PLACE. If the MPI library has an error for that, it raises it. If not, the call often
/// works there; and the other processes may not know of it, so that it must not go native on this
/// one alone.
fn aliases(begins: bool, alias: Alias) -> Result<bool, Stop> {
    if begins && alias.is_rejected() {
        Err(Stop::Native(Reason::Arguments))
    } else {
        Ok(begins)
    }
}

/// The operator of these operands, and in which order it may combine them.
pub fn operator(operands: &Operands) -> Result<(Operator, Order), Stop> {
    let operator = valid(operands.operator())?;
    let order = if !valid(operator.is_commutative())? {
        Order::Ranks
    } else if operands
        .datatype()
        .is_some_and(|datatype| operator.is_exact_on(&datatype))
    {
        Order::Any
    } else {
        Order::Commutative
    };
    Ok((operator, order))
}

/// What is known of a reduction whose result is as long as each process's operand.
fn whole_operand(
    operation: Operation,
    operands: &Operands,
    state: &State,
    work: &mut Work,
) -> Result<Facts, Stop> {
    let count = valid(operands.counts().sum())?;
    let bytes = product(count, valid(operands.unit())?)?;
    work.bytes = bytes as u64;
    state.pass_small(operation, bytes)?;
    Ok(Facts {
        bytes: bytes as u64,
        largest: bytes as u64,
        units: count as u64,
        order: operator(operands)?.1,
        ..Facts::new(operation, state.size())
    })
}
