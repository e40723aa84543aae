//! Algorithms by lanes: what crosses the ports of nodes, in how many rounds.

use std::sync::Arc;

use circulant::engine::{Pacing, Synchronous, scratch_units};
use circulant::nodes::{Nodes, Placement};
use circulant::plan::Plan;
use circulant::schedule::Rule;
use circulant::select::{self, Algorithm, Facts, Operation, Order, Settings};
use circulant::stage::{Stages, consecutive, even};
use circulant::team::{Machine, Team};

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

/// Settings under which calls are tried in lanes, by rules and by default.
fn settings() -> impl Iterator<Item = Settings> {
    let pacings = [(1, 2), (1, 1), (16, 16), (64, 64)];
    let rules = [Rule::Halving, Rule::Linear];
    pacings.into_iter().flat_map(move |(window, sends)| {
        rules.map(|skips| Settings {
            force: true,
            skips,
            window,
            sends,
            ..Settings::default()
        })
    })
}

/// Whatever the settings: a call that is by lanes has the scratch that it asks for, and runs no more
/// rounds at once than there are slots for. An allreduce may go in pieces, but not in many.
#[test]
fn lanes_fit_into_scratch() {
    let mut lanes = 0;
    let layouts = [(2, 2), (8, 4), (36, 32), (2, 63), (2, 64), (2, 128), (3, 7)];
    for (settings, (count, k)) in settings().flat_map(|s| layouts.map(|layout| (s.clone(), layout)))
    {
        let p = count * k;
        let nodes = Arc::new(Nodes::of_size(p, k, Placement::Blocked));
        let team = Team::whole(p, 0, settings.skips);
        let ranks: Vec<_> = (0..p).collect();
        let machine = Machine::new(nodes.clone(), &ranks, 0, settings.skips);
        let pacing = Pacing {
            window: settings.window,
            sends: settings.sends,
            synchronous: Synchronous::Unpaced,
        };
        for bytes in [p, 400_000, 4_000_000, 40_000_000, 200_000_000] {
            for operation in [
                Operation::Allgatherv,
                Operation::ReduceScatter,
                Operation::Allreduce,
            ] {
                for times in [1, 2] {
                    let lengths: Vec<_> = irregular(bytes, p, times).collect();
                    let facts = Facts {
                        bytes: lengths.iter().sum::<usize>() as u64,
                        largest: lengths.iter().copied().max().unwrap_or(0) as u64,
                        order: Order::Any,
                        ..Facts::new(operation, p)
                    };
                    let choice = select::choose(&facts.on(&nodes), &settings);
                    let Ok(Algorithm::Lanes { segment }) = choice else {
                        continue;
                    };
                    let on = (&team, &machine);
                    let messages = || consecutive(lengths.iter().copied());
                    let mut stages = Stages::default();
                    let room = settings.scratch_max as usize;
                    let room = match operation {
                        Operation::Allgatherv => {
                            stages.allgather_by_lanes(on, messages(), segment);
                            room
                        }
                        Operation::ReduceScatter => {
                            stages.reduce_scatter_by_lanes(on, messages(), segment, false);
                            room
                        }
                        _ => {
                            stages.allreduce_by_lanes(on, 0..bytes, segment, false);
                            room.max(bytes + room / 4)
                        }
                    };
                    let asked = scratch_units(&stages, pacing);
                    let name =
                        format!("{operation:?} of {bytes} x {times} on {count} x {k}, {pacing:?}");
                    assert!(asked <= room, "{asked} > {room}: {name}");
                    let at_once = stages
                        .as_slice()
                        .iter()
                        .map(|stage| stage.plan.shape().at_once);
                    assert!(at_once.max() <= Some(64), "{name}");
                    lanes += 1;
                }
            }
        }
    }
    assert!(lanes > 300, "{lanes}");
}

/// Equal parts; or those of every other process twice as long, and nothing of the others.
fn irregular(bytes: usize, p: usize, times: usize) -> impl Iterator<Item = usize> {
    let equal = even(0..bytes, p).map(|span| span.length);
    equal
        .enumerate()
        .map(move |(rank, length)| if rank % times == 0 { length * times } else { 0 })
}
