//! Algorithms by lanes: what crosses the ports of nodes, in how many rounds.

use std::sync::Arc;

use circulant::nodes::Nodes;
use circulant::schedule::Rule;
use circulant::stage::consecutive;

use crate::leaders::{ceil_log2, every_nodes, lengths, on_nodes, problem, solve};
use crate::simulator::{Collective, Counts, Problem};

/// Nodes of as many processes each.
fn equal_nodes() -> impl Iterator<Item = Arc<Nodes>> {
    every_nodes().filter(|nodes| nodes.are_equal())
}

/// Steps of one block of every message, of all of it, and of some of its units.
const SEGMENTS: [usize; 3] = [usize::MAX, 25, 4];

/// What one lane counts if each of its messages is as long as the longest of all.
fn lane(collective: Collective, nodes: &Nodes, lengths: &[usize], segment: usize) -> Vec<Counts> {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let messages = vec![longest; nodes.count()];
    on_nodes(&Problem {
        segment: Some(segment),
        ..problem(collective, messages, 1, nodes.count())
    })
}

/// What others have comes into a node once, and to a process once.
#[test]
fn an_allgather_enters_each_node_once() {
    for nodes in equal_nodes() {
        let p = nodes.processes();
        for (which, lengths) in lengths(p).into_iter().enumerate() {
            let total: usize = lengths.iter().sum();
            let segment = SEGMENTS[(which + p) % SEGMENTS.len()];
            let alone = lane(
                Collective::Allgather(Rule::Halving),
                &nodes,
                &lengths,
                segment,
            );
            let whole = problem(Collective::AllBroadcast, lengths.clone(), 1, p);
            let solved = solve(&whole, &nodes, |stages, on| {
                let messages = consecutive(lengths.iter().copied());
                stages.allgather_by_lanes(on, messages, segment);
            });
            solved.expect_rounds(&alone, 1, |_| 0);
            solved.expect_units(|count| count.received, |rank| total - lengths[rank]);
            let others = |node| total - solved.of_node(node, &lengths);
            solved.expect_crossing(|port| port.entered.units, others);
        }
    }
}

#[test]
fn a_reduce_scatter_leaves_each_node_once() {
    for nodes in equal_nodes() {
        let p = nodes.processes();
        for (which, lengths) in lengths(p).into_iter().enumerate() {
            let total: usize = lengths.iter().sum();
            let segment = SEGMENTS[(which + p) % SEGMENTS.len()];
            let collective = Collective::ReduceScatter(Rule::Halving);
            let alone = lane(collective, &nodes, &lengths, segment);
            let in_place = (which + p) % 2 == 0;
            let whole = Problem {
                in_place,
                ..problem(Collective::AllReduction, lengths.clone(), 1, p)
            };
            let solved = solve(&whole, &nodes, |stages, on| {
                let messages = consecutive(lengths.iter().copied());
                stages.reduce_scatter_by_lanes(on, messages, segment, in_place);
            });
            solved.expect_rounds(&alone, 1, |_| 0);
            solved.expect_units(|count| count.sent, |rank| total - lengths[rank]);
            let others = |node| total - solved.of_node(node, &lengths);
            solved.expect_crossing(|port| port.left.units, others);
            assert_eq!(solved.reduced(), (p - 1) * total, "{}", solved.name);
        }
    }
}

/// Each port carries twice what the other nodes' parts are, in and out, and each process of a node
/// as much of it.
#[test]
fn an_allreduce_crosses_each_port_twice() {
    for nodes in equal_nodes() {
        let (p, count) = (nodes.processes(), nodes.count());
        for (each, segment) in [(1, usize::MAX), (5, usize::MAX), (9, 4)] {
            let length = each * p;
            let in_place = (p + each) % 2 == 0;
            let whole = Problem {
                in_place,
                ..problem(Collective::Census, vec![length], 1, p)
            };
            let solved = solve(&whole, &nodes, |stages, on| {
                stages.allreduce_by_lanes(on, 0..length, segment, in_place);
            });
            let parts = vec![each; p];
            let alone = lane(
                Collective::Allgather(Rule::Halving),
                &nodes,
                &parts,
                segment,
            );
            let rounds = 2 * (alone[0].rounds + ceil_log2(nodes.largest()));
            assert_eq!(solved.counts[0].rounds, rounds, "{}", solved.name);
            let crossed = 2 * (length - length / count);
            solved.expect_crossing(|port| port.entered.units, |_| crossed);
            solved.expect_crossing(|port| port.left.units, |_| crossed);
            solved.expect_units(|count| count.sent, |_| 2 * (length - each));
            assert_eq!(solved.reduced(), (p - 1) * length, "{}", solved.name);
        }
    }
}
