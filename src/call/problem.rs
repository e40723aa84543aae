//! What a process brings to a call, when its arguments have been found valid.

use super::{
    AllToAll, Allgather, AllgatherBetween, Broadcast, BroadcastBetween, Combination, Passage,
};
use crate::communicator::{Service, State, Stop};
use crate::mpi::Array;
use crate::report::Work;
use crate::select::Algorithm;

/// The problem of one process.
pub enum Problem {
    /// One message to all.
    Broadcast(Broadcast),
    /// A message of each process to all.
    Allgather(Allgather),
    /// A message of each process to each.
    AllToAll(AllToAll),
    /// A message of each process to the root, or back.
    Passage(Passage),
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
            Problem::Passage(problem) => [problem.whole.map(|whole| whole.first()), problem.part],
            Problem::Combination(problem) => [Some(problem.input), Some(problem.result)],
            Problem::BroadcastBetween(problem) => [problem.task.ok().map(|(data, _)| data), None],
            Problem::AllgatherBetween(problem) => {
                [problem.receive.map(|receive| receive.first()), problem.send]
            }
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
        match self {
            Problem::Broadcast(problem) => problem.run(algorithm, service),
            Problem::Allgather(problem) => problem.run(algorithm, service),
            Problem::AllToAll(problem) => problem.run(service),
            Problem::Passage(problem) => problem.run(service),
            Problem::Combination(problem) => problem.run(algorithm, service),
            Problem::BroadcastBetween(problem) => problem.run(state, service, work),
            Problem::AllgatherBetween(problem) => problem.run(state, service, work),
        }
    }
}
