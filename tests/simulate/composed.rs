//! Stages compose: a node-aware allreduce is a list of plans that know nothing of nodes.

use std::sync::Arc;

use circulant::engine::{Pacing, Synchronous};
use circulant::nodes::{Nodes, Placement};
use circulant::plan::block_range;
use circulant::schedule::Rule;
use circulant::stage::{Stages, even};
use circulant::team::{Graph, Ranks, Team};

use crate::simulator::{Chance, Conditions, Memory, contribution, execute, sum};

/// `length` units of process `rank`: reduce-scatter on its node, allreduce on its lane, allgather
/// on its node.
fn node_allreduce(nodes: &Nodes, rank: usize, length: usize, segment: usize) -> Stages {
    let team = |ranks: &[usize], place| {
        let graph = Graph::new(ranks.len(), Rule::Halving);
        Team::new(Arc::new(graph), Ranks::of(ranks), place)
    };
    let (node, place) = (nodes.node(rank), nodes.place(rank));
    let local = team(nodes.ranks(node), place);
    let lane = team(&nodes.lane(place), node);
    let parts = || even(0..length, local.size());
    let own = block_range(length, local.size(), place);
    let mut stages = Stages::default();
    stages.reduce_scatter(&local, parts(), segment, false);
    stages.allreduce(&lane, own, segment, true);
    stages.allgather(&local, parts(), segment);
    stages
}

#[test]
fn allreduce_by_nodes_and_lanes() {
    let pacing = Pacing {
        window: 2,
        sends: 2,
        synchronous: Synchronous::Unpaced,
    };
    for (count, size) in [
        (2, 2),
        (3, 2),
        (2, 3),
        (5, 4),
        (4, 7),
        (9, 3),
        (11, 16),
        (33, 1),
    ] {
        for (length, segment) in [(1, 1), (40, 3), (501, 64)] {
            let p = count * size;
            let nodes = Nodes::of_size(p, size, Placement::Blocked);
            let memory = |rank| Memory {
                input: (0..length)
                    .map(|unit| contribution(rank, 0, unit))
                    .collect(),
                ..Memory::new(length)
            };
            let calls = (0..p).map(|rank| node_allreduce(&nodes, rank, length, segment));
            let conditions = Conditions {
                pacing,
                operator: sum,
                chance: Some(Chance::of_seed((p + length) as u64)),
            };
            let memories = (0..p).map(memory).collect();
            let executed = execute(memories, vec![calls.collect()], conditions);
            let serial: Vec<_> = (0..length)
                .map(|unit| (0..p).map(|rank| contribution(rank, 0, unit)).fold(0, sum))
                .collect();
            let executed = executed.expect("no deadlock");
            for (rank, memory) in executed.memories.iter().enumerate() {
                assert_eq!(
                    memory.result, serial,
                    "rank {rank}, {count} nodes of {size}"
                );
            }
        }
    }
}
