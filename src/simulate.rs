//! A transport with p processes in memory: runs the real engine on the real plans in one thread,
//! checks every result against a serial computation, and counts what each process did.
//!
//! It is as unkind as MPI allows: a message is read from the sender's memory only when the receiver
//! asks for it to be finished, a send is unfinished until then, and a receive that is never matched
//! is a deadlock that is reported. So a block that is overwritten too early, a round that runs ahead
//! of its data and a block that is counted twice all show as wrong results.

#![forbid(unsafe_code)]

mod growing;
mod intergroup;
mod successive;

pub use growing::{Combine, Grown, Pattern, Places, simulate_growing, simulate_pairwise};
pub use intergroup::{Intergroup, simulate_intergroup};
pub use successive::{Broken, Outcome, SuccessiveProblem, simulate_successive};

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};

use crate::engine::{Engine, Pacing, Workspace, scratch_units};
use crate::plan::{
    AllBroadcast, AllToAll, Allreduce, Broadcast, Census, Doubling, Gather, Plan, Reversed, Routes,
    Scatter, Schedules, Segments,
};
use crate::schedule::{Rule, Sequence, Skips, Table};
use crate::transport::{Place, Progress, SendMode, Transport};

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
    let (p, n) = (problem.processes, problem.blocks);
    let skips = Skips::new(p);
    let sequence = |rule| Sequence::of_rule(rule, p);
    let largest = problem.lengths.iter().copied().max().unwrap_or(0);
    let segments = problem
        .segment
        .map_or(Segments::WHOLE, |segment| Segments::new(largest, segment));
    match problem.collective {
        Collective::Broadcast { root } => {
            let schedules = all_schedules(&skips, root);
            run(problem, |r| Broadcast::new(&skips, &schedules[r], r, n))
        }
        Collective::Reduction { root } => {
            let schedules = all_schedules(&skips, root);
            run(problem, |r| {
                Reversed(Broadcast::new(&skips, &schedules[r], r, n))
            })
        }
        Collective::AllBroadcast => {
            let (table, messages) = (Table::new(&skips), filled(&problem.lengths));
            run(problem, |r| {
                AllBroadcast::new(&skips, &table, &messages, r, n)
            })
        }
        Collective::AllReduction => {
            let (table, messages) = (Table::new(&skips), filled(&problem.lengths));
            run(problem, |r| {
                Reversed(AllBroadcast::new(&skips, &table, &messages, r, n))
            })
        }
        Collective::Allgather(rule) => {
            let sequence = sequence(rule);
            run(problem, |r| Doubling::new(&sequence, r, segments))
        }
        Collective::ReduceScatter(rule) => {
            let sequence = sequence(rule);
            run(problem, |r| Reversed(Doubling::new(&sequence, r, segments)))
        }
        Collective::Allreduce(rule) => {
            let sequence = sequence(rule);
            run(problem, |r| {
                Allreduce::new(Doubling::new(&sequence, r, segments))
            })
        }
        Collective::ReduceScatterInOrder => {
            let sequence = sequence(Rule::Linear);
            run(problem, |r| Reversed(Doubling::ordered(&sequence, r)))
        }
        Collective::AllreduceInOrder => {
            let sequence = sequence(Rule::Linear);
            run(problem, |r| Allreduce::new(Doubling::ordered(&sequence, r)))
        }
        Collective::Census => run(problem, |r| Census::new(&skips, r)),
        Collective::AllToAll(rule) => {
            let sequence = sequence(rule);
            let routes = Routes::new(&sequence);
            run(problem, |r| AllToAll::new(&sequence, &routes, r))
        }
        Collective::Gather(root, rule) => {
            let sequence = sequence(rule);
            run(problem, |r| Gather::new(&sequence, r, root))
        }
        Collective::Scatter(root, rule) => {
            let sequence = sequence(rule);
            run(problem, |r| Scatter(Gather::new(&sequence, r, root)))
        }
    }
}

fn all_schedules(skips: &Skips, root: usize) -> Vec<Schedules> {
    (0..skips.processes())
        .map(|rank| Schedules::new(skips, rank, root))
        .collect()
}

fn filled(lengths: &[usize]) -> Vec<usize> {
    (0..lengths.len())
        .filter(|&message| lengths[message] > 0)
        .collect()
}

fn run<P: Plan>(problem: &Problem, plan: impl Fn(usize) -> P) -> Result<Vec<Counts>, Failure> {
    let network = RefCell::new(Network::default());
    let plans: Vec<P> = (0..problem.processes).map(plan).collect();
    let scratch = scratch_units(&plans[0], problem.lengths.iter().copied(), problem.pacing);
    let mut ranks: Vec<_> = (0..problem.processes)
        .map(|rank| Rank::new(problem, rank, scratch, plans[rank].rounds(), &network))
        .collect();
    execute(&plans, &mut ranks, &network, problem.pacing)?;
    ranks.iter().try_for_each(Rank::check)?;
    Ok(ranks.iter().map(|rank| rank.counts).collect())
}

/// Runs each process' plan to its end.
fn execute<P: Plan>(
    plans: &[P],
    ranks: &mut [Rank<'_>],
    network: &RefCell<Network>,
    pacing: Pacing,
) -> Result<(), Failure> {
    let mut workspaces: Vec<_> = ranks.iter().map(|_| Workspace::default()).collect();
    let mut engines: Vec<_> = ranks
        .iter_mut()
        .zip(&mut workspaces)
        .zip(plans)
        .map(|((transport, workspace), plan)| Engine::new(plan, transport, workspace, pacing))
        .collect();
    finish_all(&mut engines, network)?;
    drop(engines);
    let in_flight = &network.borrow().in_flight;
    if in_flight.values().any(|queue| !queue.is_empty()) {
        return Err(Failure::Unreceived);
    }
    Ok(())
}

/// Advances each process in turn until all are done, or none can go on.
fn finish_all(
    engines: &mut [Engine<'_, Rank<'_>>],
    network: &RefCell<Network>,
) -> Result<(), Failure> {
    let mut waiting: Vec<usize> = (0..engines.len()).collect();
    while let Some(&rank) = waiting.first() {
        let before = (network.borrow().steps, waiting.len());
        let mut still = Vec::new();
        for &rank in &waiting {
            if engines[rank].advance()? == Progress::Pending {
                still.push(rank);
            }
        }
        waiting = still;
        if before == (network.borrow().steps, waiting.len()) {
            return Err(Failure::Deadlock { rank });
        }
    }
    Ok(())
}

/// A send that its receiver has not taken yet: where the data still is.
#[derive(Clone, Copy)]
struct Flight {
    slot: usize,
    place: Place,
    length: usize,
}

#[derive(Default)]
struct Network {
    /// The messages under way from one process to another, oldest first.
    in_flight: HashMap<(usize, usize), VecDeque<Flight>>,
    memories: Vec<Memory>,
    /// The unfinished sends, by process and slot.
    unfinished: HashMap<(usize, usize), ()>,
    /// Counts everything that happened, to tell a deadlock.
    steps: usize,
}

/// The memory of one process. Units are 64-bit words. Messages lie one after the other.
struct Memory {
    /// Where each message starts, and the end.
    starts: Vec<usize>,
    result: Vec<u64>,
    input: Vec<u64>,
    scratch: Vec<u64>,
    in_place: bool,
}

impl Memory {
    fn at(&mut self, place: Place) -> (&mut [u64], usize) {
        match place {
            Place::Result { message, offset } => (&mut self.result, self.starts[message] + offset),
            Place::Input { message, offset } if self.in_place => {
                (&mut self.result, self.starts[message] + offset)
            }
            Place::Input { message, offset } => (&mut self.input, self.starts[message] + offset),
            Place::Scratch { offset } => (&mut self.scratch, offset),
        }
    }

    fn read(&mut self, place: Place, length: usize) -> Vec<u64> {
        let (memory, offset) = self.at(place);
        memory[offset..offset + length].to_vec()
    }

    fn write(&mut self, place: Place, data: &[u64]) {
        let (memory, offset) = self.at(place);
        memory[offset..offset + data.len()].copy_from_slice(data);
    }
}

/// Process `rank`'s side of the network.
struct Rank<'a> {
    rank: usize,
    problem: &'a Problem,
    receives: HashMap<usize, (usize, Place, usize)>,
    network: &'a RefCell<Network>,
    counts: Counts,
}

/// Marks memory that nothing has been stored in.
const NOTHING: u64 = 0xDEAD_BEEF_DEAD_BEEF;

/// What `rank` contributes to `unit` of `message`: distinct for each of them.
fn contribution(rank: usize, message: usize, unit: usize) -> u64 {
    let mut x = (rank as u64) << 42 ^ (message as u64) << 21 ^ unit as u64;
    for _ in 0..2 {
        x = (x ^ x >> 31)
            .wrapping_add(1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    x ^ x >> 29
}

/// The composition of two maps x -> a x + b over 32 bits, `left` first; b in the upper half, an odd a
/// in the lower.
fn compose(left: u64, right: u64) -> u64 {
    let parts = |map: u64| (map as u32 | 1, (map >> 32) as u32);
    let ((a, b), (c, d)) = (parts(left), parts(right));
    let (slope, offset) = (c.wrapping_mul(a), c.wrapping_mul(b).wrapping_add(d));
    u64::from(offset) << 32 | u64::from(slope)
}

impl Problem {
    /// Combines two operands.
    fn combined(&self, left: u64, right: u64) -> u64 {
        match self.collective {
            Collective::ReduceScatterInOrder | Collective::AllreduceInOrder => compose(left, right),
            _ => left.wrapping_add(right),
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
            Collective::AllToAll(_) => {
                let target = (rank + message) % self.processes;
                return Some(contribution(rank, target, unit));
            }
            _ => false,
        };
        own.then(|| contribution(rank, message, unit))
    }

    /// What a serial computation gives for a unit of a result at `rank`, if it belongs there.
    fn expected(&self, rank: usize, message: usize, unit: usize) -> Option<u64> {
        let sum = || {
            let contributions = (0..self.processes).map(|rank| contribution(rank, message, unit));
            contributions
                .reduce(|sum, next| self.combined(sum, next))
                .unwrap_or(NOTHING)
        };
        match self.collective {
            Collective::Broadcast { root } => Some(contribution(root, message, unit)),
            Collective::AllBroadcast | Collective::Allgather(_) => {
                Some(contribution(message, message, unit))
            }
            Collective::Reduction { root } => (root == rank).then(sum),
            Collective::AllReduction
            | Collective::ReduceScatter(_)
            | Collective::ReduceScatterInOrder => (message == rank).then(sum),
            Collective::Allreduce(_) | Collective::AllreduceInOrder | Collective::Census => {
                Some(sum())
            }
            Collective::AllToAll(_) => {
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

    /// Every unit of every message.
    fn units(&self) -> impl Iterator<Item = (usize, usize)> {
        let messages = self.lengths.iter().enumerate();
        messages.flat_map(|(message, &length)| (0..length).map(move |unit| (message, unit)))
    }
}

impl<'a> Rank<'a> {
    fn new(
        problem: &'a Problem,
        rank: usize,
        scratch: usize,
        rounds: usize,
        network: &'a RefCell<Network>,
    ) -> Rank<'a> {
        let held = |(message, unit)| problem.held(rank, message, unit).unwrap_or(NOTHING);
        let mut result: Vec<u64> = problem.units().map(held).collect();
        let mut input = Vec::new();
        if problem.combines() {
            let own = |(message, unit)| contribution(rank, message, unit);
            input.extend(problem.units().map(own));
            if problem.in_place {
                result = std::mem::take(&mut input);
            }
        }
        let mut starts = vec![0];
        for length in &problem.lengths {
            starts.push(starts[starts.len() - 1] + length);
        }
        let scratch = vec![NOTHING; scratch];
        network.borrow_mut().memories.push(Memory {
            starts,
            result,
            input,
            scratch,
            in_place: problem.in_place,
        });
        Rank {
            rank,
            problem,
            receives: HashMap::new(),
            network,
            counts: Counts {
                rounds,
                ..Counts::default()
            },
        }
    }

    /// Compares the result with a serial computation.
    fn check(&self) -> Result<(), Failure> {
        let problem = self.problem;
        let memory = &self.network.borrow().memories[self.rank];
        for (message, unit) in problem.units() {
            let found = memory.result[memory.starts[message] + unit];
            let expected = problem.expected(self.rank, message, unit);
            if expected.is_some_and(|expected| expected != found) {
                return Err(Failure::Wrong {
                    rank: self.rank,
                    message,
                    unit,
                });
            }
        }
        Ok(())
    }
}

impl Transport for Rank<'_> {
    type Error = Failure;

    fn length(&self, message: usize) -> usize {
        self.problem.lengths[message]
    }

    fn in_place(&self) -> bool {
        self.problem.in_place
    }

    fn follows(&self, place: Place, length: usize, next: Place) -> bool {
        let memory = &mut self.network.borrow_mut().memories[self.rank];
        let mut position = |place| memory.at(place).1;
        std::mem::discriminant(&place) == std::mem::discriminant(&next)
            && position(place) + length == position(next)
    }

    fn start_send(
        &mut self,
        slot: usize,
        to: usize,
        place: Place,
        length: usize,
        mode: SendMode,
    ) -> Result<(), Failure> {
        // A standard send may take as long as a synchronous one.
        let mut network = self.network.borrow_mut();
        network.steps += 1;
        network.unfinished.insert((self.rank, slot), ());
        let flight = Flight {
            slot,
            place,
            length,
        };
        network
            .in_flight
            .entry((self.rank, to))
            .or_default()
            .push_back(flight);
        self.counts.messages_sent += 1;
        self.counts.synchronous += usize::from(mode == SendMode::Synchronous);
        self.counts.sent += length;
        Ok(())
    }

    fn start_receive(
        &mut self,
        slot: usize,
        from: usize,
        place: Place,
        length: usize,
    ) -> Result<(), Failure> {
        self.receives.insert(slot, (from, place, length));
        // What is received into must not be relied on from now on.
        self.network.borrow_mut().memories[self.rank].write(place, &vec![NOTHING; length]);
        Ok(())
    }

    fn finish_send(&mut self, slot: usize) -> Result<Progress, Failure> {
        let unfinished = self
            .network
            .borrow()
            .unfinished
            .contains_key(&(self.rank, slot));
        Ok(if unfinished {
            Progress::Pending
        } else {
            Progress::Ready
        })
    }

    fn finish_receive(&mut self, slot: usize) -> Result<Progress, Failure> {
        let Some(&(from, place, expected)) = self.receives.get(&slot) else {
            return Ok(Progress::Ready);
        };
        let mut network = self.network.borrow_mut();
        let queue = network.in_flight.entry((from, self.rank)).or_default();
        let Some(flight) = queue.pop_front() else {
            return Ok(Progress::Pending);
        };
        if flight.length != expected {
            return Err(Failure::Length {
                rank: self.rank,
                sent: flight.length,
                expected,
            });
        }
        let data = network.memories[from].read(flight.place, flight.length);
        network.memories[self.rank].write(place, &data);
        network.unfinished.remove(&(from, flight.slot));
        network.steps += 1;
        self.receives.remove(&slot);
        self.counts.messages_received += 1;
        self.counts.received += expected;
        Ok(Progress::Ready)
    }

    fn copy(&mut self, from: Place, to: Place, length: usize) -> Result<(), Failure> {
        let memory = &mut self.network.borrow_mut().memories[self.rank];
        let data = memory.read(from, length);
        memory.write(to, &data);
        self.counts.copied += length;
        Ok(())
    }

    fn combine(&mut self, from: Place, into: Place, length: usize) -> Result<(), Failure> {
        let memory = &mut self.network.borrow_mut().memories[self.rank];
        let mut data = memory.read(into, length);
        for (into, from) in data.iter_mut().zip(memory.read(from, length)) {
            *into = self.problem.combined(from, *into);
        }
        memory.write(into, &data);
        self.counts.reduced += length;
        Ok(())
    }

    fn about_to_send(&mut self, _: usize, _: usize, _: usize) -> Result<(), Failure> {
        Ok(())
    }

    fn arrived(&mut self, _: usize, _: usize, _: usize) -> Result<(), Failure> {
        Ok(())
    }
}

/// A check that cannot fail is none: plans with a defect, and what is found.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Pacing, Synchronous};
    use crate::plan::Piece;

    #[derive(Clone, Copy, PartialEq)]
    enum Defect {
        None,
        /// Sends nothing.
        Mute,
        /// Sends another block than it should.
        Mistaken,
        /// Cuts the message into fewer blocks.
        Coarse,
    }

    /// A broadcast in which one process has a defect.
    struct Defective<'a>(Broadcast<'a>, Defect);

    impl Plan for Defective<'_> {
        fn processes(&self) -> usize {
            self.0.processes()
        }
        fn messages(&self) -> usize {
            self.0.messages()
        }
        fn blocks(&self) -> usize {
            self.0.blocks()
        }
        fn rounds(&self) -> usize {
            self.0.rounds()
        }
        fn combining(&self) -> usize {
            self.0.combining()
        }
        fn is_root(&self, message: usize) -> bool {
            self.0.is_root(message)
        }
        fn send(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
            let to = self.0.send(round, pieces);
            match self.1 {
                Defect::None | Defect::Coarse => (),
                Defect::Mute => pieces.clear(),
                Defect::Mistaken => {
                    let next =
                        |piece: &mut Piece| piece.block = (piece.block + 1) % self.0.blocks();
                    pieces.iter_mut().for_each(next);
                }
            }
            to
        }
        fn receive(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
            self.0.receive(round, pieces)
        }
        fn width(&self, round: usize) -> usize {
            self.0.width(round)
        }
        fn holding(&self) -> usize {
            self.0.holding()
        }
    }

    fn outcome(defect: Defect) -> Result<Vec<Counts>, Failure> {
        let problem = Problem {
            collective: Collective::Broadcast { root: 0 },
            processes: 5,
            blocks: 3,
            lengths: vec![9],
            segment: None,
            in_place: false,
            pacing: Pacing {
                window: 4,
                sends: 2,
                synchronous: Synchronous::Unpaced,
            },
        };
        let skips = Skips::new(5);
        let schedules = all_schedules(&skips, 0);
        run(&problem, |rank| {
            let defect = if rank == 0 { defect } else { Defect::None };
            let blocks = if defect == Defect::Coarse { 2 } else { 3 };
            Defective(
                Broadcast::new(&skips, &schedules[rank], rank, blocks),
                defect,
            )
        })
    }

    #[test]
    fn defects_are_found() {
        assert!(outcome(Defect::None).is_ok());
        let deadlock = matches!(outcome(Defect::Mute), Err(Failure::Deadlock { .. }));
        assert!(deadlock, "{:?}", outcome(Defect::Mute));
        let wrong = matches!(outcome(Defect::Mistaken), Err(Failure::Wrong { .. }));
        assert!(wrong, "{:?}", outcome(Defect::Mistaken));
        let length = matches!(outcome(Defect::Coarse), Err(Failure::Length { .. }));
        assert!(length, "{:?}", outcome(Defect::Coarse));
    }
}
