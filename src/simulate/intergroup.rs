//! MPI_Allgatherv between the two groups of an inter-communicator, in the simulator: the exchange on
//! all processes, then the allgather of each group.

use std::cell::RefCell;
use std::collections::HashMap;

use super::{Collective, Counts, Failure, Memory, NOTHING, Network, Problem, Rank};
use super::{contribution, execute};
use crate::engine::{Pacing, scratch_units};
use crate::plan::{Division, Doubling, Exchange, Parts, Plan, Segments, Stream};
use crate::schedule::{Rule, Sequence};

/// A problem of two groups.
#[derive(Clone, Debug)]
pub struct Intergroup {
    /// The units that each process of either group has.
    pub lengths: [Vec<usize>; 2],
    /// How they are divided among the processes of the other.
    pub division: Division,
    /// Units of a step.
    pub segment: usize,
    /// The skips of the allgathers.
    pub rule: Rule,
    /// How far rounds may overlap.
    pub pacing: Pacing,
}

/// Runs `problem`: what each process of the first group, then of the second, did.
///
/// # Errors
/// See [`Failure`]; of wrong results `message` is a rank of the other group.
pub fn simulate_intergroup(problem: &Intergroup) -> Result<Vec<Counts>, Failure> {
    let groups = [0, 1].map(|group| problem.lengths[group].len());
    let streams = [0, 1].map(|group| {
        let mut stream = Stream::default();
        let lengths = problem.lengths[group].iter().copied();
        stream.set(lengths, groups[1 - group], problem.division);
        stream
    });
    let (mut counts, results) = exchange(problem, groups, &streams)?;
    let mut first = 0;
    for group in [0, 1] {
        let stream = &streams[1 - group];
        let all = first..first + groups[group];
        let gathered = gather(problem, stream, results[all.clone()].to_vec())?;
        for (count, (rank, (gathered, result))) in
            counts[all].iter_mut().zip(gathered.into_iter().enumerate())
        {
            add(count, &gathered);
            check(stream, 1 - group, first + rank, &result)?;
        }
        first += groups[group];
    }
    Ok(counts)
}

fn add(to: &mut Counts, more: &Counts) {
    to.rounds += more.rounds;
    to.messages_sent += more.messages_sent;
    to.synchronous += more.synchronous;
    to.messages_received += more.messages_received;
    to.sent += more.sent;
    to.received += more.received;
    to.copied += more.copied;
}

/// The unit of a group's stream at `position`.
fn unit(stream: &Stream, group: usize, position: usize) -> u64 {
    let has = |&sender: &usize| stream.block(sender).contains(&position);
    let sender = (0..stream.senders()).find(has).unwrap_or(0);
    contribution(2 * sender + group, sender, position)
}

fn check(stream: &Stream, group: usize, rank: usize, result: &[u64]) -> Result<(), Failure> {
    for sender in 0..stream.senders() {
        let block = stream.block(sender);
        for position in block.clone() {
            if result[position] != unit(stream, group, position) {
                return Err(Failure::Wrong {
                    rank,
                    message: sender,
                    unit: position - block.start,
                });
            }
        }
    }
    Ok(())
}

/// A problem that only says how long messages are.
fn messages(lengths: Vec<usize>, pacing: Pacing) -> Problem {
    Problem {
        collective: Collective::AllBroadcast,
        processes: 0,
        blocks: 1,
        lengths,
        segment: None,
        in_place: false,
        pacing,
    }
}

/// A process whose messages start at `starts` in `result`.
fn rank<'a>(
    problem: &'a Problem,
    network: &'a RefCell<Network>,
    starts: Vec<usize>,
    result: Vec<u64>,
    (scratch, rounds): (usize, usize),
) -> Rank<'a> {
    let memories = &mut network.borrow_mut().memories;
    memories.push(Memory {
        starts,
        result,
        input: Vec::new(),
        scratch: vec![NOTHING; scratch],
        in_place: false,
    });
    Rank {
        rank: memories.len() - 1,
        problem,
        receives: HashMap::new(),
        network,
        counts: Counts {
            rounds,
            ..Counts::default()
        },
    }
}

/// The exchange; what each process has of the other group's stream then.
fn exchange(
    problem: &Intergroup,
    groups: [usize; 2],
    streams: &[Stream; 2],
) -> Result<(Vec<Counts>, Vec<Vec<u64>>), Failure> {
    let mut parts = Parts::default();
    parts.set([&streams[0], &streams[1]], problem.segment);
    let lengths = parts.iter().map(|part| part.length).collect();
    let of_parts = messages(lengths, problem.pacing);
    let processes = groups[0] + groups[1];
    let plans: Vec<_> = (0..processes)
        .map(|rank| Exchange::new(&parts, groups, rank))
        .collect();
    let scratch = scratch_units(&plans[0], of_parts.lengths.iter().copied(), problem.pacing);
    let network = RefCell::new(Network::default());
    let mut ranks: Vec<_> = (0..processes)
        .map(|process| {
            let group = usize::from(process >= groups[0]);
            let (own, other) = (&streams[group], &streams[1 - group]);
            let block = own.block(process - group * groups[0]);
            // The other group's stream, and behind it the own block.
            let mut result = vec![NOTHING; other.length()];
            result.extend(block.clone().map(|position| unit(own, group, position)));
            let start = |(message, part): (usize, &crate::plan::Part)| {
                if usize::from(parts.is_of_second(message)) != group {
                    part.start
                } else if part.start >= block.start && part.start < block.end {
                    other.length() + part.start - block.start
                } else {
                    usize::MAX
                }
            };
            let starts = parts.iter().enumerate().map(start).collect();
            let size = (scratch, plans[process].rounds());
            rank(&of_parts, &network, starts, result, size)
        })
        .collect();
    execute(&plans, &mut ranks, &network, problem.pacing)?;
    let counts = ranks.iter().map(|rank| rank.counts).collect();
    let memories = network.borrow_mut().memories.drain(..).collect::<Vec<_>>();
    Ok((
        counts,
        memories.into_iter().map(|memory| memory.result).collect(),
    ))
}

/// The allgather in a group whose processes have received their segments of the other's `stream`.
fn gather(
    problem: &Intergroup,
    stream: &Stream,
    received: Vec<Vec<u64>>,
) -> Result<Vec<(Counts, Vec<u64>)>, Failure> {
    let processes = stream.receivers();
    let lengths = (0..processes).map(|rank| stream.segment(rank).len());
    let of_segments = messages(lengths.collect(), problem.pacing);
    let sequence = Sequence::of_rule(problem.rule, processes);
    let segments = Segments::new(stream.longest_segment(), problem.segment);
    let plans: Vec<_> = (0..processes)
        .map(|rank| Doubling::new(&sequence, rank, segments))
        .collect();
    let lengths = of_segments.lengths.iter().copied();
    let scratch = scratch_units(&plans[0], lengths, problem.pacing);
    let network = RefCell::new(Network::default());
    let mut ranks: Vec<_> = received
        .into_iter()
        .zip(&plans)
        .map(|(result, plan)| {
            let starts = (0..processes)
                .map(|rank| stream.segment(rank).start)
                .collect();
            let size = (scratch, plan.rounds());
            rank(&of_segments, &network, starts, result, size)
        })
        .collect();
    execute(&plans, &mut ranks, &network, problem.pacing)?;
    let counts: Vec<_> = ranks.iter().map(|rank| rank.counts).collect();
    let memories = network.borrow_mut().memories.drain(..).collect::<Vec<_>>();
    let results = memories.into_iter().map(|memory| memory.result);
    Ok(counts.into_iter().zip(results).collect())
}
