//! A call of a collective operation, from what is known of it to its end.
//!
//! ```text
//! facts -> problem -> algorithm (select/) -> prepare: stages, scratch, memory -> advance -> finish
//! ```
//!
//! | file | what it holds |
//! | --- | --- |
//! | `movement` | broadcast, allgather, all-to-all, gather, scatter |
//! | `combination` | reduce, reduce-scatter, allreduce |
//! | `check` | a call that is repeated natively, to compare |
//! | `shared` | the calls of both that run in shared memory |
//! | `between_groups` | broadcast and allgather on inter-communicators |

#![forbid(unsafe_code)]

mod between_groups;
mod check;
mod combination;
mod movement;
mod shared;

pub use between_groups::{AllgatherBetween, BroadcastBetween, Task};
pub use check::Check;
pub use combination::{Combination, Target};
pub use movement::{AllToAll, Allgather, Broadcast, GatherScatter};

use std::sync::Arc;

use check::Touched;

use crate::communicator::{Service, State, Stop};
use crate::engine::Call;
use crate::mpi::{Allocation, Array, Error, Held, ReturnedErrors};
use crate::pool::Lease;
use crate::report::Work;
use crate::select::{Algorithm, Facts, Reason};
use crate::stage::Stages;
use crate::transport::{
    Bytes, Elements, Lengths, Memory, Mismatch, PointToPoint, Progress, give_up, wait_for_one,
};

/// A call, as the program made it.
pub trait Collective {
    /// What of it is the same on all processes. Sets the bytes of its work as soon as they are
    /// known.
    ///
    /// # Errors
    /// Native, if the arguments are not usual enough, or nothing is to be chosen.
    fn facts(&self, state: &State, work: &mut Work) -> Result<Facts, Stop>;

    /// The problem of this process.
    ///
    /// # Errors
    /// Native, if the arguments are not usual enough.
    fn problem(&self, state: &State) -> Result<Problem, Stop>;
}

/// Tries a call. Returns what is left to do if it is to be checked. `held` gets what is not to be
/// freed before the call has ended, whoever runs it.
///
/// # Errors
/// Why it is not, or no longer, ours.
pub fn attempt(
    state: &State,
    call: &impl Collective,
    work: &mut Work,
    held: &mut Option<Held>,
) -> Result<Option<Box<Check>>, Stop> {
    let facts = call.facts(state, work)?;
    if state.has_to_find_nodes(&facts) {
        // It waits for others.
        *held = call.problem(state).ok().map(|problem| problem.held());
    }
    let facts = state.with_surroundings(facts)?;
    if let Some(reason) = state.settled(&facts) {
        return Err(Stop::Settled(reason));
    }
    // A process that is alone with wrong arguments leaves before the call is counted or tried. So
    // it can make the call again, and is where the others are. (Between groups nothing is tried,
    // and not all processes know a wrong call.)
    let sound = match facts.moves_something() && !state.is_inter() {
        true => Some(sound_problem(state, call)?),
        false => None,
    };
    // From here on it may wait for others.
    if let Some(problem) = &sound {
        *held = Some(problem.held());
    }
    let checks = state.checks();
    if let Some(checks) = checks {
        checks.lock().admit(&facts)?;
    }
    let algorithm = state.choose(facts)?;
    let problem = match sound {
        Some(problem) => problem,
        None => call.problem(state)?,
    };
    held.get_or_insert_with(|| problem.held());
    let is_due = checks.is_some_and(|checks| checks.lock().is_due(&facts));
    let touched = if is_due { problem.touched(state) } else { None };
    let check = touched.map(|touched| {
        let held = problem.held();
        Box::new(Check::new(facts, algorithm, touched, held))
    });
    let (done, check) = state.serve(problem.data(), |service| {
        let run = |service: &mut Service| {
            let done = problem.run(algorithm, state, service, work);
            service.leased().into_iter().for_each(|at| state.begin(at));
            done
        };
        match check {
            None => Ok((run(service)?, None)),
            Some(check) => check.around(state, service, run),
        }
    })?;
    work.record(algorithm, done.rounds, done.blocks);
    Ok(check)
}

/// The problem of this process, with datatypes and an operator that MPI accepts, as far as it can
/// be asked now.
fn sound_problem(state: &State, call: &impl Collective) -> Result<Problem, Stop> {
    let problem = call.problem(state)?;
    let may_be_sent = problem.data().iter().flatten().all(Array::may_be_sent);
    let may_be_combined = match &problem {
        Problem::Combination(problem) => problem.operator.accepts(problem.input.datatype()),
        _ => true,
    };
    match may_be_sent && may_be_combined {
        true => Ok(problem),
        false => Err(Stop::Native(Reason::Arguments)),
    }
}

/// The problem of one process.
pub enum Problem {
    /// One message to all.
    Broadcast(Broadcast),
    /// A message of each process to all.
    Allgather(Allgather),
    /// A message of each process to each.
    AllToAll(AllToAll),
    /// A message of each process to the root, or back.
    GatherScatter(GatherScatter),
    /// Elements of all processes, combined.
    Combination(Combination),
    /// One message to the other group.
    BroadcastBetween(BroadcastBetween),
    /// A message of each process to the other group.
    AllgatherBetween(AllgatherBetween),
}

/// How a call ran.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Its rounds.
    pub rounds: u64,
    /// The most blocks of a message.
    pub blocks: u64,
}

impl Done {
    /// This call, and another that is a part of the same operation.
    pub fn and(self, other: Done) -> Done {
        Done {
            rounds: self.rounds + other.rounds,
            blocks: self.blocks.max(other.blocks),
        }
    }
}

impl Problem {
    /// Elements of each datatype in it.
    pub fn data(&self) -> [Option<Array>; 2] {
        match self {
            Problem::Broadcast(problem) => [Some(problem.elements), None],
            Problem::Allgather(problem) => [Some(problem.result.first()), problem.own],
            Problem::AllToAll(problem) => {
                [Some(problem.send.first()), Some(problem.receive.first())]
            }
            Problem::GatherScatter(problem) => {
                [problem.whole.map(|whole| whole.first()), problem.part]
            }
            Problem::Combination(problem) => [Some(problem.input), Some(problem.result)],
            Problem::BroadcastBetween(problem) => {
                [problem.task.ok().map(|task| task.elements), None]
            }
            Problem::AllgatherBetween(problem) => {
                [problem.receive.map(|receive| receive.first()), problem.send]
            }
        }
    }

    /// What of it the program may free while the call is in progress.
    fn held(&self) -> Held {
        let operator = match self {
            Problem::Combination(problem) => Some(problem.operator),
            _ => None,
        };
        let datatypes = self.data().map(|data| data.map(|data| *data.datatype()));
        Held::new(datatypes, operator)
    }

    /// What a check has to know of it. None, on all processes, if it is not checked.
    fn touched(&self, state: &State) -> Option<Touched> {
        match self {
            Problem::Broadcast(problem) => Some(problem.touched(state.rank())),
            Problem::Allgather(problem) => Some(problem.touched(state.rank())),
            Problem::AllToAll(problem) => Some(problem.touched()),
            Problem::GatherScatter(problem) => Some(problem.touched(state.rank())),
            Problem::Combination(problem) => problem.touched(state),
            Problem::BroadcastBetween(_) | Problem::AllgatherBetween(_) => None,
        }
    }

    /// Runs it by `algorithm`.
    ///
    /// # Errors
    /// Native, if it is not ours after all; MPI's.
    pub fn run(
        self,
        algorithm: Algorithm,
        state: &State,
        service: &mut Service,
        work: &mut Work,
    ) -> Result<Done, Stop> {
        if algorithm.is_of_nodes() {
            service.divide(state.nodes()?);
        }
        if matches!(algorithm, Algorithm::Shared { .. }) {
            service.share(state.settings().shared_max)?;
        }
        let waits = algorithm != Algorithm::Shared { across: None };
        let _errors = waits.then(|| ReturnedErrors::during_call_on(state.communicator()));
        match self {
            Problem::Broadcast(problem) => problem.run(algorithm, service),
            Problem::Allgather(problem) => problem.run(algorithm, service),
            Problem::AllToAll(problem) => problem.run(algorithm, service),
            Problem::GatherScatter(problem) => problem.run(algorithm, service),
            Problem::Combination(problem) => problem.run(algorithm, service),
            Problem::BroadcastBetween(problem) => problem.run(state, service, work),
            Problem::AllgatherBetween(problem) => problem.run(algorithm, state, service, work),
        }
    }
}

/// A call in progress: it owns its stages, its memory, its lease on scratch and its tag.
struct Running<M> {
    call: Call<PointToPoint<M>>,
    /// Which lease it has. None where it uses that of another call.
    lease: Option<usize>,
    done: Done,
}

impl<M: Memory> Running<M> {
    /// Prepares a call of `stages` in `memory`, whose allocation is on this lease. Calls in
    /// progress at once are different chunks.
    fn prepare(
        service: &mut Service,
        stages: Stages,
        chunk: usize,
        lease: Option<usize>,
        memory: M,
    ) -> Running<M> {
        let done = Done {
            rounds: stages.rounds() as u64,
            blocks: stages.blocks() as u64,
        };
        let engine = service.spare.engine(service.pacing);
        let (communicator, tag) = (service.communicator(), service.tag(chunk));
        let transport = PointToPoint::new(communicator, tag, Lengths::Exact, memory);
        Running {
            call: Call::new(stages, engine, transport),
            lease,
            done,
        }
    }

    /// The memory of a call whose stages are done, how it ran, and whether all messages were as
    /// long as expected.
    fn end(self, service: &mut Service) -> (M, Done, Result<(), Mismatch>) {
        let (stages, engine, transport) = self.call.finish();
        service.spare.keep(stages, engine);
        let lengths = transport.check_lengths();
        (transport.into_memory(), self.done, lengths)
    }
}

/// A memory that holds a call's allocation.
trait Owner: Memory {
    /// Leaves its lists to other calls; returns the allocation.
    fn leave(self, service: &mut Service) -> Arc<Allocation>;
}

impl Owner for Bytes {
    fn leave(self, service: &mut Service) -> Arc<Allocation> {
        let (allocation, lists) = self.into_parts();
        service.spare.keep_lists(lists);
        allocation
    }
}

impl Owner for Elements {
    fn leave(self, service: &mut Service) -> Arc<Allocation> {
        let (allocation, packed) = self.into_parts();
        service.spare.keep_packed(packed);
        allocation
    }
}

impl<M: Owner> Running<M> {
    /// Finishes a call whose stages are done.
    ///
    /// # Errors
    /// MPI's; or that processes disagree on the size of the data.
    fn finish(self, service: &mut Service) -> Result<Done, Stop> {
        let lease = self.lease;
        let (mut memory, done, lengths) = self.end(service);
        if lengths.is_ok() {
            memory.finish()?;
        }
        let memory = memory.leave(service);
        if let Some(slot) = lease {
            service.pool.give_back(Lease { slot, memory });
        }
        lengths?;
        Ok(done)
    }
}

/// Runs a call of `stages` in `memory`, whose allocation is on this lease, from beginning to end.
///
/// # Errors
/// MPI's; or that processes disagree on the size of the data.
fn run_to_end<M: Owner>(
    service: &mut Service,
    stages: Stages,
    lease: usize,
    memory: M,
) -> Result<Done, Stop> {
    let call = Running::prepare(service, stages, 0, Some(lease), memory);
    let [call] = complete([call])?;
    call.finish(service)
}

/// Runs calls, in progress at once, until the end of all.
///
/// # Errors
/// MPI's, of any of them. The transfers of all are then given up.
fn complete<M: Memory, C: AsMut<[Running<M>]>>(mut calls: C) -> Result<C, Stop> {
    match advance_all(calls.as_mut()) {
        Ok(()) => Ok(calls),
        Err(error) => {
            let calls = calls.as_mut().iter_mut();
            give_up(calls.map(|call| &mut call.call.transport));
            Err(Stop::Failed(error))
        }
    }
}

fn advance_all<M: Memory>(calls: &mut [Running<M>]) -> Result<(), Error> {
    let is_alone = calls.len() == 1;
    for call in calls.iter_mut() {
        // Where there is nothing else to do, MPI waits best.
        call.call.transport.set_waits(is_alone);
    }
    loop {
        let mut waiting = Vec::new();
        for call in calls.iter_mut() {
            if call.call.advance()? == Progress::Pending {
                waiting.push(&mut call.call.transport);
            }
        }
        if waiting.is_empty() {
            return Ok(());
        }
        wait_for_one(waiting.into_iter())?;
    }
}
