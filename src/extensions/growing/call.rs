//! circulant_allreduce_v, and circulant_allgather_merge, which is one with a merge for its operator: a
//! reduction whose operand grows.
//!
//! By the rounds of Lang, *Modified Bruck/Dissemination Algorithm for Commutative Reduction in MPI*,
//! Algorithm 1 or 2, over the private communicator; or, where that cannot be, by Algorithm 0: the MPI
//! library's MPI_Allgatherv, and then all operands combined in pairs ([`gather_and_combine`]).
//!
//! How much memory a call takes, nobody knows before. So it is not bounded by the setting, which says what
//! is kept, and a process without memory for it ends the job.
//!
//! A merge cannot fail, but for a result of 2^31 elements, which all processes find. A function of the
//! program can, on any process: so all say at the end whether it has, which are two messages a process in
//! each of log2 p steps more, of one byte (MPI_Allreduce).

use std::ffi::c_int;

use super::combination::Combination;
use super::dissemination::Dissemination;
use super::growth::{Growth, Rules};
use super::operands::{Exchanging, OperandMemory, Operands};
use super::rounds::Growing;
use super::stores::{Limit, Outcome, Stretch, pairwise};
use crate::communicator::{Service, State, Stop};
use crate::mpi::{Array, Communicator, Error, native};
use crate::plan::Census;
use crate::report::Work;
use crate::select::{self, Algorithm, Facts, Operation, Reason};

/// The arguments, which have been checked.
pub struct AllreduceV {
    /// The own block.
    pub input: Array,
    /// recvbuf, capacity, datatype
    pub output: Array,
    /// compare or combine, context
    pub combination: Combination,
}

/// What became of a call, and which reason sent it to the MPI library, if one did.
#[derive(Clone, Copy, Default)]
pub struct Grown {
    /// How it ended.
    pub outcome: Outcome,
    /// Why it was not circulant's.
    pub reason: Option<Reason>,
}

/// More elements than this no `int` counts.
fn limit() -> Limit {
    Limit {
        elements: c_int::MAX as usize,
        status: native().constants.err_count.0,
    }
}

/// Tries a call of `operation`.
pub fn allreduce_v(
    state: &State,
    operation: Operation,
    call: &AllreduceV,
    work: &mut Work,
    result: &mut Grown,
) -> Result<(), Stop> {
    let attempted = attempt(state, operation, call, work);
    match attempted {
        Ok(outcome) => {
            result.outcome = outcome;
            Ok(())
        }
        Err(Stop::Native(reason)) => {
            result.reason = Some(reason);
            Err(Stop::Native(reason))
        }
        Err(stop) => Err(stop),
    }
}

fn attempt(
    state: &State,
    operation: Operation,
    call: &AllreduceV,
    work: &mut Work,
) -> Result<Outcome, Stop> {
    state.intra()?;
    let facts = Facts::new(operation, state.size());
    let mut algorithm = select::growing(&facts, state.settings())?;
    if !state.settings().force {
        let nodes = state.nodes()?.count();
        algorithm = select::growing(&Facts { nodes, ..facts }, state.settings())?;
    }
    state.serve([Some(call.input), Some(call.output)], |service| {
        let (team, communicator) = (service.team.clone(), service.communicator());
        let (census, dissemination);
        let (plan, segment): (&dyn Growing, usize) = match algorithm {
            Algorithm::Dissemination { segment } => {
                dissemination = Dissemination::new(team.size(), team.place());
                (&dissemination, segment)
            }
            _ => {
                census = Census::new(team.skips(), team.place());
                (&census, algorithm.segment())
            }
        };
        let outcome = exchange(plan, call, service, segment, state.scratch_max())?;
        work.bytes = (outcome.elements * call.output.datatype().size()) as u64;
        work.record(algorithm, plan.rounds() as u64, 1);
        Ok(agreed(call, communicator, outcome)?)
    })
}

/// The rounds, in messages of at most `segment` bytes. `most` bytes of memory are kept.
fn exchange(
    plan: &dyn Growing,
    call: &AllreduceV,
    service: &mut Service,
    segment: usize,
    most: usize,
) -> Result<Outcome, Stop> {
    let rules = Rules {
        ordered: call.combination.is_ordered(),
        step: (segment / call.output.datatype().size().max(1)).max(1),
        limit: limit(),
    };
    let kept = service.kept.take().and_then(|kept| kept.downcast().ok());
    let mut memory: Box<OperandMemory> = kept.unwrap_or_default();
    let communicator = service.communicator();
    let operands = Operands::new(&mut memory, call.combination, call.output, communicator);
    match grow(plan, Exchanging::new(operands), &call.input, rules) {
        Ok(outcome) => {
            memory.shrink(most);
            service.kept = Some(memory);
            Ok(outcome)
        }
        Err(error) => {
            // A send may still be reading from it.
            std::mem::forget(memory);
            Err(Stop::Failed(error))
        }
    }
}

fn grow(
    plan: &dyn Growing,
    mut links: Exchanging<'_>,
    input: &Array,
    rules: Rules,
) -> Result<Outcome, Error> {
    links.load(input)?;
    let outcome = Growth::new(plan, &mut links, input.count(), rules).advance()?;
    // MPI's calls return when they are done.
    Ok(outcome.unwrap_or_default())
}

/// How a call ended on all processes: with the code of the lowest rank on which it failed, if it did.
/// Collective, unless it is a merge, of which all processes know.
fn agreed(
    call: &AllreduceV,
    communicator: Communicator,
    outcome: Outcome,
) -> Result<Outcome, Error> {
    if call.combination.is_merge() || communicator.all_agree(outcome.status == 0)? {
        return Ok(outcome);
    }
    let codes = communicator.gather_all(i64::from(outcome.status) as u64)?;
    let failed = codes
        .into_iter()
        .map(|code| code as i32)
        .find(|&code| code != 0);
    Ok(Outcome {
        status: failed.unwrap_or(outcome.status),
        ..outcome
    })
}

/// Algorithm 0, on the program's communicator. Collective.
pub fn gather_and_combine(communicator: Communicator, call: &AllreduceV) -> Result<Outcome, Error> {
    let counts = communicator.gather_all(call.input.count() as u64)?;
    let counts: Vec<usize> = counts.into_iter().map(|count| count as usize).collect();
    let total = counts
        .iter()
        .fold(0usize, |sum, &count| sum.saturating_add(count));
    if total > limit().elements {
        return Ok(Outcome {
            elements: total,
            status: limit().status,
        });
    }
    let mut memory = OperandMemory::default();
    let mut operands = Operands::new(&mut memory, call.combination, call.output, communicator);
    operands.gather(&call.input, &counts)?;
    let mut start = 0;
    let runs = counts.into_iter().map(|count| {
        start += count;
        Stretch {
            store: 0,
            start: start - count,
            count,
        }
    });
    let outcome = pairwise(&mut operands, runs.collect(), limit())?;
    agreed(call, communicator, outcome)
}
