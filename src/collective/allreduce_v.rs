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

use crate::communicator::{State, Stop};
use crate::engine::{Growth, Limit, Outcome, Rules, Stretch, pairwise};
use crate::mpi::{
    Buffer, Combination, Communicator, Datatype, Error, Exchanging, OperandMemory, Operands,
    Outputs, native,
};
use crate::plan::{Census, Dissemination, Growing as Plan};
use crate::report::Work;
use crate::select::{Merging, Operation, Reason};

/// The arguments, which have been checked.
#[derive(Clone, Copy)]
pub struct AllreduceV {
    /// The own block: sendbuf, or recvbuf where that is in place.
    pub input: Buffer,
    /// sendcount
    pub count: usize,
    /// recvbuf, capacity
    pub outputs: Outputs,
    /// datatype
    pub datatype: Datatype,
    /// compare or combine, context
    pub combination: Combination,
}

/// What became of a call, and which reason sent it to the MPI library, if one did.
#[derive(Clone, Copy, Default)]
pub struct Growing {
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
    result: &mut Growing,
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
    state.blocks(operation, 0, 0)?;
    let merging = state.merging();
    if merging == Merging::Allgather {
        return Err(Stop::Native(Reason::Chosen));
    }
    let longest = state.step()?;
    let data = [
        (call.input, call.datatype),
        (call.outputs.buffer, call.datatype),
    ];
    state.serve(&data, |service| {
        let (census, dissemination);
        let plan: &dyn Plan = if merging == Merging::Dissemination {
            dissemination = Dissemination::new(service.skips.processes(), service.rank);
            &dissemination
        } else {
            census = Census::new(&service.skips, service.rank);
            &census
        };
        let (private, memory) = (&service.private, &mut service.operands);
        let communicator = private.communicator();
        let outcome = exchange(
            plan,
            call,
            Exchanging::new(operands(memory, call, communicator), private),
            longest,
        )?;
        service.operands.shrink(state.scratch_max());
        work.bytes = (outcome.elements * call.datatype.size()) as u64;
        work.rounds = plan.rounds() as u64;
        work.blocks = 1;
        agreed(call, communicator, outcome).map_err(Stop::from)
    })
}

fn operands<'a>(
    memory: &'a mut OperandMemory,
    call: &AllreduceV,
    communicator: Communicator,
) -> Operands<'a> {
    let AllreduceV {
        datatype,
        combination,
        outputs,
        ..
    } = *call;
    Operands::new(memory, datatype, combination, outputs, communicator)
}

/// The rounds.
fn exchange(
    plan: &dyn Plan,
    call: &AllreduceV,
    mut links: Exchanging<'_>,
    longest: usize,
) -> Result<Outcome, Stop> {
    let rules = Rules {
        ordered: call.combination.is_ordered(),
        step: (longest / call.datatype.size().max(1)).max(1),
        limit: limit(),
    };
    links.load(call.input, call.count)?;
    let outcome = Growth::new(plan, &mut links, call.count, rules).advance()?;
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
    let counts = communicator.gather_all(call.count as u64)?;
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
    let mut operands = operands(&mut memory, call, communicator);
    operands.gather(call.input, &counts)?;
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
