//! A transport with p processes in memory: it runs the real engine on the real plans in one thread,
//! checks every result against a serial computation, and counts what each process did.
//!
//! It is as unkind as MPI allows. A message is read from its sender's memory when its receiver
//! waits for it, or (where [`Conditions::chance`] says so) as soon as it was sent and asked for,
//! whichever is worse. A send is unfinished until then. Memory that is to be received into holds
//! garbage. A receive that is never matched is a deadlock, which is reported. So a block that is
//! overwritten too early, a round that runs ahead of its data and a block that is counted twice all
//! show as wrong results.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `mod` | one call of any collective; counts, and failures of all simulators |
//! | `between_groups` | one allgather between two groups |
//! | `call` | calls on one communicator, several at once: memory and the transport |
//! | `network` | their messages, from sender to receiver |
//! | `traffic` | counts of them, by the ports of nodes |
//! | `defects` | plans with a defect, which have to be found |
//! | `growing` | another simulator, of reductions whose operand grows |
//! | `successive` | another simulator, of successive broadcasts, with a clock |

mod between_groups;
mod call;
mod defects;
pub mod growing;
mod network;
pub mod successive;
mod traffic;

pub use between_groups::{Intergroup, simulate_intergroup};
pub use call::{Chance, Conditions, Executed, Memory, Operator, execute, in_order, sum};
pub use traffic::Port;

use std::sync::Arc;

use circulant::engine::Pacing;
use circulant::schedule::Rule;
use circulant::stage::{Cutting, Stages, consecutive};
use circulant::team::{Graph, Ranks, Team};

/// Which collective is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// One message from `root` to all.
    Broadcast {
        /// The process that has the message.
        root: usize,
    },
    /// One message combined at `root`.
    Reduction {
        /// The process that gets the result.
        root: usize,
    },
    /// Message j from process j to all, for all j.
    AllBroadcast,
    /// Message j combined at process j, for all j.
    AllReduction,
    /// As [`AllBroadcast`](Collective::AllBroadcast), in one block.
    Allgather(Rule),
    /// As [`AllReduction`](Collective::AllReduction), in one block.
    ReduceScatter(Rule),
    /// All messages combined at all processes.
    Allreduce(Rule),
    /// As [`ReduceScatter`](Collective::ReduceScatter), by an operator that is not commutative.
    ReduceScatterInOrder,
    /// As [`Allreduce`](Collective::Allreduce), by an operator that is not commutative.
    AllreduceInOrder,
    /// One message combined at all processes.
    Census,
    /// Message e from each process to the e-th after it.
    AllToAll(Rule),
    /// The same, straight.
    Pairwise,
    /// Message j from process j to the root, for all j.
    Gather(usize, Rule),
    /// Message j from the root to process j, for all j.
    Scatter(usize, Rule),
}

/// A problem to simulate.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The collective.
    pub collective: Collective,
    /// p.
    pub processes: usize,
    /// n.
    pub blocks: usize,
    /// Units of each message: one entry, or p.
    pub lengths: Vec<usize>,
    /// Units of a step of the algorithms with one block; all at once if none.
    pub segment: Option<usize>,
    /// Reductions: the input is in the result buffer.
    pub in_place: bool,
    /// How far rounds may overlap.
    pub pacing: Pacing,
}

/// What one process did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rounds of the plan.
    pub rounds: usize,
    /// Messages sent.
    pub messages_sent: usize,
    /// Those of them that were sent in synchronous mode.
    pub synchronous: usize,
    /// Messages received.
    pub messages_received: usize,
    /// Units sent.
    pub sent: usize,
    /// Units received.
    pub received: usize,
    /// Units combined.
    pub reduced: usize,
    /// Units copied in local memory.
    pub copied: usize,
}

impl Counts {
    /// What was done in one stage and in another.
    #[must_use]
    pub fn and(self, more: Counts) -> Counts {
        Counts {
            rounds: self.rounds + more.rounds,
            messages_sent: self.messages_sent + more.messages_sent,
            synchronous: self.synchronous + more.synchronous,
            messages_received: self.messages_received + more.messages_received,
            sent: self.sent + more.sent,
            received: self.received + more.received,
            reduced: self.reduced + more.reduced,
            copied: self.copied + more.copied,
        }
    }
}

/// Why a simulation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No process can go on; the first one that waits.
    Deadlock {
        /// A process that waits.
        rank: usize,
    },
    /// A unit of a result is not what a serial computation gives.
    Wrong {
        /// The process that has it.
        rank: usize,
        /// The message.
        message: usize,
        /// The unit.
        unit: usize,
    },
    /// Sender and receiver disagree about the length of a message.
    Length {
        /// The receiver.
        rank: usize,
        /// Units sent.
        sent: usize,
        /// Units expected.
        expected: usize,
    },
    /// Messages were sent that nobody received.
    Unreceived,
    /// A header was put in front of memory that there is none of.
    Unreserved {
        /// The sender.
        rank: usize,
    },
}

/// Runs `problem` on all its processes; what each of them did, or what went wrong.
///
/// # Errors
/// See [`Failure`].
pub fn simulate(problem: &Problem) -> Result<Vec<Counts>, Failure> {
    let executed = simulate_with(problem, |team| problem.stages(team))?;
    Ok(executed.counts)
}

/// Solves `problem` by other stages than the simulator's own: those of the process of each team.
///
/// # Errors
/// See [`Failure`].
pub fn simulate_with(
    problem: &Problem,
    stages: impl Fn(&Team) -> Stages,
) -> Result<Executed, Failure> {
    let graph = Arc::new(Graph::new(problem.processes, problem.collective.rule()));
    let stages =
        (0..problem.processes).map(|rank| stages(&Team::new(graph.clone(), Ranks::ALL, rank)));
    let memories = (0..problem.processes).map(|rank| problem.memory(rank));
    let conditions = Conditions {
        pacing: problem.pacing,
        operator: problem.operator(),
        chance: None,
    };
    let executed = execute(memories.collect(), vec![stages.collect()], conditions)?;
    for (rank, memory) in executed.memories.iter().enumerate() {
        problem.check(rank, memory)?;
    }
    Ok(executed)
}

/// The step of [`mixed`]'s argument that makes its results a sequence of random numbers.
pub const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A number with no visible relation to `number`: SplitMix64. Different numbers stay different.
pub fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_add(STEP);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// What `rank` contributes to `unit` of `message`: distinct for each of them.
pub fn contribution(rank: usize, message: usize, unit: usize) -> u64 {
    mixed((rank as u64) << 42 ^ (message as u64) << 21 ^ unit as u64)
}

impl Collective {
    /// The skips of the algorithms with one block.
    fn rule(self) -> Rule {
        match self {
            Collective::Allgather(rule)
            | Collective::ReduceScatter(rule)
            | Collective::Allreduce(rule)
            | Collective::AllToAll(rule)
            | Collective::Gather(_, rule)
            | Collective::Scatter(_, rule) => rule,
            _ => Rule::default(),
        }
    }
}

impl Problem {
    /// The stages of one process.
    fn stages(&self, team: &Team) -> Stages {
        let (n, segment) = (self.blocks, self.segment.unwrap_or(usize::MAX));
        let all = 0..self.lengths.iter().sum();
        let parts = || consecutive(self.lengths.iter().copied());
        let (each, in_place) = (self.lengths.first().copied().unwrap_or(0), self.in_place);
        let mut stages = Stages::default();
        match self.collective {
            Collective::Broadcast { root } => stages.broadcast(team, root, n, all),
            Collective::Reduction { root } => {
                stages.reduction(team, root, (n, Cutting::Even), all, in_place);
            }
            Collective::AllBroadcast => stages.pipelined_allgather(team, parts(), n),
            Collective::AllReduction => {
                stages.pipelined_reduce_scatter(team, parts(), (n, Cutting::Even), in_place);
            }
            Collective::Allgather(_) => stages.allgather(team, parts(), segment),
            Collective::ReduceScatter(_) => {
                stages.reduce_scatter(team, parts(), segment, in_place);
            }
            // Messages of any lengths, where the library's allreduce cuts its data evenly.
            Collective::Allreduce(_) => {
                stages.reduce_scatter(team, parts(), segment, in_place);
                stages.allgather(team, parts(), segment);
            }
            Collective::ReduceScatterInOrder => {
                stages.ordered_reduce_scatter(team, parts(), segment, in_place);
            }
            Collective::AllreduceInOrder => {
                stages.ordered_reduce_scatter(team, parts(), segment, in_place);
                stages.allgather(team, parts(), segment);
            }
            Collective::Census => stages.census(team, all),
            Collective::AllToAll(_) => stages.all_to_all(team, each),
            Collective::Pairwise => stages.pairwise(team, parts(), segment),
            Collective::Gather(root, _) => stages.gather(team, root, each),
            Collective::Scatter(root, _) => stages.scatter(team, root, each),
        }
        stages
    }

    fn operator(&self) -> Operator {
        match self.collective {
            Collective::ReduceScatterInOrder | Collective::AllreduceInOrder => in_order,
            _ => sum,
        }
    }

    /// Whether processes contribute to a result, rather than hold a part of it.
    fn combines(&self) -> bool {
        matches!(
            self.collective,
            Collective::Reduction { .. }
                | Collective::AllReduction
                | Collective::ReduceScatter(_)
                | Collective::Allreduce(_)
                | Collective::ReduceScatterInOrder
                | Collective::AllreduceInOrder
                | Collective::Census
        )
    }

    /// What `rank` has of a unit of a result at the start.
    fn held(&self, rank: usize, message: usize, unit: usize) -> Option<u64> {
        let own = match self.collective {
            Collective::Broadcast { root } | Collective::Scatter(root, _) => rank == root,
            Collective::AllBroadcast | Collective::Allgather(_) | Collective::Gather(..) => {
                message == rank
            }
            Collective::AllToAll(_) | Collective::Pairwise => {
                let target = (rank + message) % self.processes;
                return Some(contribution(rank, target, unit));
            }
            _ => false,
        };
        own.then(|| contribution(rank, message, unit))
    }

    /// What a serial computation gives for a unit of a result at `rank`, if it belongs there.
    fn expected(&self, rank: usize, message: usize, unit: usize) -> Option<u64> {
        let combined = || {
            let contributions = (0..self.processes).map(|rank| contribution(rank, message, unit));
            contributions.reduce(self.operator())
        };
        match self.collective {
            Collective::Broadcast { root } => Some(contribution(root, message, unit)),
            Collective::AllBroadcast | Collective::Allgather(_) => {
                Some(contribution(message, message, unit))
            }
            Collective::Reduction { root } if root != rank => None,
            Collective::AllReduction
            | Collective::ReduceScatter(_)
            | Collective::ReduceScatterInOrder
                if message != rank =>
            {
                None
            }
            Collective::Reduction { .. }
            | Collective::AllReduction
            | Collective::ReduceScatter(_)
            | Collective::ReduceScatterInOrder
            | Collective::Allreduce(_)
            | Collective::AllreduceInOrder
            | Collective::Census => combined(),
            Collective::AllToAll(_) | Collective::Pairwise => {
                let source = (rank + self.processes - message) % self.processes;
                Some(contribution(source, rank, unit))
            }
            Collective::Gather(root, _) => {
                (rank == root).then(|| contribution(message, message, unit))
            }
            Collective::Scatter(root, _) => {
                (rank == message).then(|| contribution(root, message, unit))
            }
        }
    }

    /// Every unit of every message, and where it is in the result of `rank`.
    fn units(&self, rank: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let mut stages = Stages::default();
        let messages = match self.collective {
            Collective::Gather(root, rule) | Collective::Scatter(root, rule) => {
                stages.gather(
                    &Team::whole(self.processes, rank, rule),
                    root,
                    self.lengths[0],
                );
                stages.as_slice()[0].view.messages.clone()
            }
            _ => consecutive(self.lengths.iter().copied()).collect(),
        };
        let messages = messages.into_iter().enumerate();
        messages.flat_map(|(message, span)| {
            (0..span.length).map(move |unit| (message, unit, span.result + unit))
        })
    }

    fn memory(&self, rank: usize) -> Memory {
        let length = self.lengths.iter().sum();
        let mut memory = Memory::new(length);
        for (message, unit, place) in self.units(rank) {
            // Messages of a gather and a scatter that are never here share a place with another.
            if let Some(held) = self.held(rank, message, unit) {
                match self.collective {
                    Collective::Pairwise => memory.input[place] = held,
                    _ => memory.result[place] = held,
                }
            }
            if self.combines() {
                let own = contribution(rank, message, unit);
                let places = if self.in_place {
                    &mut memory.result
                } else {
                    &mut memory.input
                };
                places[place] = own;
            }
        }
        memory
    }

    /// Compares the result of `rank` with a serial computation.
    fn check(&self, rank: usize, memory: &Memory) -> Result<(), Failure> {
        for (message, unit, place) in self.units(rank) {
            let expected = self.expected(rank, message, unit);
            if expected.is_some_and(|expected| expected != memory.result[place]) {
                return Err(Failure::Wrong {
                    rank,
                    message,
                    unit,
                });
            }
        }
        Ok(())
    }
}
