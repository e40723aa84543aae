//! One call of circulant_allreduce_v, or of circulant_allgather_merge, whose operator is a merge.
//!
//! It runs the rounds of Lang, *Modified Bruck/Dissemination Algorithm for Commutative Reduction in
//! MPI*, Algorithm 1 or 2, on the private communicator. If that is not possible it runs Algorithm
//! 0: the MPI library's MPI_Allgatherv, then the combination of all operands in pairs
//! ([`gather_and_combine`]).
//!
//! Nobody knows before how much memory a call takes. So the setting bounds only the memory that is
//! kept, and a process without memory for an operand ends the job.
//!
//! A merge fails only if its result has 2^31 elements or more, which all processes find. A function
//! of the program can fail on any process. So at the end all processes agree on whether it has, by
//! an MPI_Allreduce of one byte: two messages a process in each of log2 p further steps.

use std::ffi::c_int;

use super::combination::Combination;
use super::growth::{Growth, Rules};
use super::operands::{OperandMemory, Operands};
use super::rounds::Rounds;
use super::stores::{Combined, Limit, Places, pairwise};
use crate::communicator::{Service, State, Stop};
use crate::mpi::{Array, Communicator, Error, native};
use crate::report::Work;
use crate::select::{self, Algorithm, Facts, Operation};

/// The arguments, which have been checked.
pub struct AllreduceV {
    /// The own block.
    pub input: Array,
    /// recvbuf, capacity, datatype
    pub output: Array,
    /// compare or combine, context
    pub combination: Combination,
}

impl AllreduceV {
    /// The memory for the result. If elements have gaps, circulant must not write to those of the
    /// program's buffer.
    fn places(&self) -> Places {
        let address = self.output.first().address();
        let is_aligned = address % self.combination.alignment() == 0;
        Places {
            capacity: self.output.count(),
            direct: is_aligned && self.output.datatype().is_dense(),
            exact: self.combination.is_merge(),
        }
    }
}

/// An `int` cannot count more elements.
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
) -> Result<Combined, Stop> {
    state.intra()?;
    let facts = Facts::new(operation, state.size());
    let mut algorithm = select::growing(&facts, state.settings())?;
    if !state.settings().force {
        let nodes = state.nodes()?.count();
        algorithm = select::growing(&Facts { nodes, ..facts }, state.settings())?;
    }
    state.serve([Some(call.input), Some(call.output)], |service| {
        let team = &service.team;
        let rounds = match algorithm {
            Algorithm::Dissemination { .. } => Rounds::dissemination(team.size(), team.place()),
            _ => Rounds::circulant(team.skips(), team.place()),
        };
        let segment = algorithm.segment();
        let outcome = exchange(&rounds, call, service, segment, state.scratch_max())?;
        work.bytes = (outcome.elements * call.output.datatype().size()) as u64;
        work.record(algorithm, rounds.steps.len() as u64, 1);
        Ok(agreed(call, service.communicator(), outcome)?)
    })
}

/// Runs the rounds, in messages of at most `segment` bytes. Keeps `most` bytes of memory.
fn exchange(
    rounds: &Rounds,
    call: &AllreduceV,
    service: &mut Service,
    segment: usize,
    most: usize,
) -> Result<Combined, Stop> {
    let rules = Rules {
        ordered: call.combination.is_ordered(),
        step: (segment / call.output.datatype().size().max(1)).max(1),
        limit: limit(),
    };
    let kept = service.kept.take().and_then(|kept| kept.downcast().ok());
    let mut memory: Box<OperandMemory> = kept.unwrap_or_default();
    let mut operands = Operands::new(
        &mut memory,
        call.combination,
        call.output,
        service.communicator(),
    );
    let grown = operands.load(&call.input).and_then(|()| {
        let how = (rules, call.places());
        Growth::new(rounds, &mut operands, call.input.count(), how).advance()
    });
    match grown {
        // MPI's calls return when they are done, so there is an outcome.
        Ok(outcome) => {
            memory.shrink(most);
            service.kept = Some(memory);
            Ok(outcome.unwrap_or_default())
        }
        Err(error) => Err(Stop::Failed(error)),
    }
}

/// How a call ended on all processes: if it failed, with the code of the lowest rank on which it
/// did. Collective, unless it is a merge, whose end all processes know.
fn agreed(
    call: &AllreduceV,
    communicator: Communicator,
    outcome: Combined,
) -> Result<Combined, Error> {
    if call.combination.is_merge() || communicator.all_agree(outcome.status == 0)? {
        return Ok(outcome);
    }
    let codes = communicator.gather_all(i64::from(outcome.status) as u64)?;
    let mut codes = codes.into_iter().map(|code| code as i32);
    let failed = codes.find(|&code| code != 0);
    Ok(Combined {
        status: failed.unwrap_or(outcome.status),
        ..outcome
    })
}

/// Algorithm 0, on the program's communicator. Collective.
pub fn gather_and_combine(
    communicator: Communicator,
    call: &AllreduceV,
) -> Result<Combined, Error> {
    let counts = communicator.gather_all(call.input.count() as u64)?;
    let counts: Vec<usize> = counts.into_iter().map(|count| count as usize).collect();
    let elements = counts.iter().copied().fold(0, usize::saturating_add);
    let Limit {
        elements: most,
        status,
    } = limit();
    if elements > most {
        return Ok(Combined { elements, status });
    }
    let mut memory = OperandMemory::default();
    let mut operands = Operands::new(&mut memory, call.combination, call.output, communicator);
    operands.gather(&call.input, &counts)?;
    let outcome = pairwise(&mut operands, counts.into_iter(), call.places(), limit())?;
    agreed(call, communicator, outcome)
}
