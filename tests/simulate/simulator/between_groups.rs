//! MPI_Allgatherv between the two groups of an inter-communicator, in the simulator.

use std::sync::Arc;

use super::{Chance, Conditions, Counts, Failure, Memory, contribution, execute, sum};
use circulant::engine::Pacing;
use circulant::plan::{Division, Stream};
use circulant::schedule::Rule;
use circulant::stage::{Groups, Stages};
use circulant::team::{Graph, Ranks, Team};

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
    /// As [`Conditions::chance`].
    pub chance: Option<Chance>,
}

/// Runs `problem`: what each process of the first group, then of the second, did.
///
/// # Errors
/// See [`Failure`]; of wrong results `message` is a rank of the other group.
pub fn simulate_intergroup(problem: &Intergroup) -> Result<Vec<Counts>, Failure> {
    let sizes = [0, 1].map(|group| problem.lengths[group].len());
    let streams = [0, 1].map(|group| {
        let lengths = problem.lengths[group].iter().copied();
        Stream::new(lengths, sizes[1 - group], problem.division)
    });
    let graphs = [sizes[0] + sizes[1], sizes[0], sizes[1]]
        .map(|processes| Arc::new(Graph::new(processes, problem.rule)));
    let all: Vec<_> = (0..2).flat_map(|own| members(sizes, own)).collect();
    let memories = all.iter().map(|groups| memory(groups, &streams));
    let stages = all
        .iter()
        .map(|groups| stages(problem, groups, &streams, &graphs));
    let conditions = Conditions {
        pacing: problem.pacing,
        operator: sum,
        chance: problem.chance.clone(),
    };
    let executed = execute(memories.collect(), vec![stages.collect()], conditions)?;
    for (groups, memory) in all.iter().zip(&executed.memories) {
        check(groups, &streams, memory)?;
    }
    Ok(executed.counts)
}

fn members(sizes: [usize; 2], own: usize) -> impl Iterator<Item = Groups> {
    (0..sizes[own]).map(move |rank| Groups { sizes, own, rank })
}

fn stages(
    problem: &Intergroup,
    groups: &Groups,
    streams: &[Stream; 2],
    graphs: &[Arc<Graph>; 3],
) -> Stages {
    let own = groups.of(groups.own);
    let whole = Team::new(graphs[0].clone(), Ranks::ALL, groups.place());
    let graph = graphs[1 + groups.own].clone();
    let group = Team::new(graph, Ranks::from(own.start), groups.rank);
    let mut stages = Stages::default();
    stages.allgather_between(groups, [&whole, &group], streams, problem.segment);
    stages
}

/// The unit of a group's stream at `position`.
fn unit(stream: &Stream, group: usize, position: usize) -> u64 {
    let has = |&sender: &usize| stream.block(sender).contains(&position);
    let sender = (0..stream.senders()).find(has).unwrap_or(0);
    contribution(2 * sender + group, sender, position)
}

fn memory(groups: &Groups, streams: &[Stream; 2]) -> Memory {
    let block = streams[groups.own].block(groups.rank);
    let mut memory = Memory::new(streams[groups.other()].length());
    let units = block.map(|position| unit(&streams[groups.own], groups.own, position));
    memory.input = units.collect();
    memory
}

fn check(groups: &Groups, streams: &[Stream; 2], memory: &Memory) -> Result<(), Failure> {
    let (other, stream) = (groups.other(), &streams[groups.other()]);
    for sender in 0..stream.senders() {
        let block = stream.block(sender);
        for position in block.clone() {
            if memory.result[position] != unit(stream, other, position) {
                return Err(Failure::Wrong {
                    rank: groups.place(),
                    message: sender,
                    unit: position - block.start,
                });
            }
        }
    }
    Ok(())
}
