//! Algorithms by leaders of nodes: what crosses the ports of nodes, in how many rounds.
//!
//! A node's port has to carry what a process carries where every node is one process: the same
//! collective is simulated so, too.

#![allow(clippy::panic)] // That is how a test fails.

use std::sync::Arc;

use circulant::engine::{Pacing, Synchronous};
use circulant::nodes::{Nodes, Placement};
use circulant::plan::{Concurrent, Direct};
use circulant::schedule::Rule;
use circulant::select::Cut;
use circulant::stage::{Cutting, Span, Stages, consecutive, even, lane_of, shares};
use circulant::team::{Machine, Team};

use crate::simulator::{
    Chance, Collective, Conditions, Counts, Executed, Memory, Port, Problem, contribution, execute,
    simulate, simulate_with, sum,
};

const PACING: Pacing = Pacing {
    window: 1,
    sends: 2,
    synchronous: Synchronous::Unpaced,
};

/// ceil(log2 of a number).
pub fn ceil_log2(number: usize) -> usize {
    number.next_power_of_two().trailing_zeros() as usize
}

/// Nodes of these sizes, whose processes have ranks as the placement says.
fn placed(sizes: &[usize], placement: Placement) -> Nodes {
    let processes = sizes.iter().enumerate().flat_map(|(node, &size)| {
        let place = move |place| (place, node);
        (0..size).map(place)
    });
    let mut processes: Vec<_> = processes.collect();
    match placement {
        Placement::Blocked => {}
        Placement::Cyclic => processes.sort_unstable(),
        Placement::Shuffled => processes.sort_by_key(|&(place, node)| contribution(node, place, 0)),
    }
    let keys: Vec<_> = processes.iter().map(|&(_, node)| node as u64).collect();
    Nodes::of_keys(&keys)
}

/// 2 to 12 nodes of up to 8 processes, all of the same size or not, however they are placed. On one
/// node there is no call by leaders.
pub fn every_nodes() -> impl Iterator<Item = Arc<Nodes>> {
    let sizes = (2..=12usize).flat_map(|count| {
        (1..=8usize).flat_map(move |size| {
            let equal = vec![size; count];
            let unequal = (0..count).map(|node| 1 + (node * node + count) % size);
            [equal, unequal.collect()]
        })
    });
    sizes.flat_map(|sizes| {
        let placements = [Placement::Blocked, Placement::Cyclic, Placement::Shuffled];
        // Each for a few processes, and in turn for many.
        let processes: usize = sizes.iter().sum();
        let chosen = placements.into_iter().enumerate();
        let chosen = chosen.filter(move |(turn, _)| processes < 20 || processes % 3 == *turn);
        chosen.map(move |(_, placement)| Arc::new(placed(&sizes, placement)))
    })
}

/// The number of units that can be cut into as many blocks as the tests do.
const WHOLE: usize = 10;

/// Lengths of the messages of p processes: equal ones, different ones, and one alone; and some
/// whose blocks differ by a unit.
pub fn lengths(p: usize) -> [Vec<usize>; 4] {
    let uneven: Vec<_> = (0..p).map(|rank| (rank * rank + p) % 7).collect();
    let mut single = vec![0; p];
    single[p / 2] = 3 * WHOLE;
    let multiples = uneven.iter().map(|length| WHOLE * length).collect();
    [vec![WHOLE; p], multiples, single, uneven]
}

/// Whether blocks are as long whether the messages of a node are cut one by one, or all together.
fn are_whole(lengths: &[usize], cut: Cut) -> bool {
    matches!(cut, Cut::Segments(_)) || lengths.iter().all(|length| length % WHOLE == 0)
}

pub fn problem(
    collective: Collective,
    lengths: Vec<usize>,
    blocks: usize,
    processes: usize,
) -> Problem {
    Problem {
        collective,
        processes,
        blocks,
        lengths,
        segment: None,
        in_place: false,
        pacing: PACING,
    }
}

/// What was solved on nodes.
pub struct Solved {
    pub name: String,
    nodes: Arc<Nodes>,
    pub counts: Vec<Counts>,
    pub ports: Vec<Port>,
}

/// Solves `problem` on nodes: `add` appends a process's stages, which combine in place or not.
pub fn solve(
    problem: &Problem,
    nodes: &Arc<Nodes>,
    add: impl Fn(&mut Stages, (&Team, &Machine)),
) -> Solved {
    let name = format!("{problem:?} on {nodes:?}");
    let ranks: Vec<_> = (0..nodes.processes()).collect();
    let executed = simulate_with(problem, |team| {
        let machine = Machine::new(nodes.clone(), &ranks, team.place(), Rule::Halving);
        let mut stages = Stages::default();
        add(&mut stages, (team, &machine));
        stages
    });
    let Executed {
        counts, traffic, ..
    } = executed.unwrap_or_else(|failure| panic!("{failure:?}: {name}"));
    Solved {
        name,
        nodes: nodes.clone(),
        counts,
        ports: traffic.ports(nodes),
    }
}

/// The same collective where each node is one process.
pub fn on_nodes(problem: &Problem) -> Vec<Counts> {
    simulate(problem).unwrap_or_else(|failure| panic!("{failure:?}: {problem:?}"))
}

impl Solved {
    /// All processes take as many rounds as the processes of `flat`, and q' more, `times` times;
    /// and `more`, by rank.
    pub fn expect_rounds(&self, flat: &[Counts], times: usize, more: impl Fn(usize) -> usize) {
        let within = times * ceil_log2(self.nodes.largest());
        for (rank, count) in self.counts.iter().enumerate() {
            let expected = flat[0].rounds + within + more(rank);
            assert_eq!(count.rounds, expected, "rank {rank}: {}", self.name);
        }
    }

    /// Each port carries what the process does that stands for its node in `flat`.
    fn expect_ports(&self, flat: &[Counts]) {
        self.expect_units_of_ports(flat);
        for (port, alone) in self.ports.iter().zip(flat) {
            let messages = (port.entered.messages, port.left.messages);
            let expected = (alone.messages_received, alone.messages_sent);
            assert_eq!(messages, expected, "{}", self.name);
        }
    }

    /// As many units, in no more messages: there may be none where each message of a node is so
    /// short that its block has no unit.
    fn expect_units_of_ports(&self, flat: &[Counts]) {
        self.expect_units_of_lanes(flat, 1);
    }

    /// The same by so many lanes, each of which has as many messages.
    pub fn expect_units_of_lanes(&self, flat: &[Counts], lanes: usize) {
        for (node, (Port { entered, left, .. }, alone)) in self.ports.iter().zip(flat).enumerate() {
            let name = format!("node {node}: {}", self.name);
            let expected = (alone.received, alone.sent);
            assert_eq!((entered.units, left.units), expected, "{name}");
            assert!(
                entered.messages <= lanes * alone.messages_received,
                "{name}"
            );
            assert!(left.messages <= lanes * alone.messages_sent, "{name}");
        }
    }

    /// Each process receives (or sends) so many units, by rank.
    pub fn expect_units(&self, of: impl Fn(&Counts) -> usize, expected: impl Fn(usize) -> usize) {
        for (rank, count) in self.counts.iter().enumerate() {
            assert_eq!(of(count), expected(rank), "rank {rank}: {}", self.name);
        }
    }

    /// So many units cross each port, by node.
    pub fn expect_crossing(&self, of: impl Fn(&Port) -> usize, expected: impl Fn(usize) -> usize) {
        for (node, port) in self.ports.iter().enumerate() {
            assert_eq!(of(port), expected(node), "node {node}: {}", self.name);
        }
    }

    /// The units of the messages of a node.
    pub fn of_node(&self, node: usize, lengths: &[usize]) -> usize {
        let ranks = self.nodes.ranks(node).iter();
        ranks.map(|&rank| lengths[rank]).sum()
    }

    /// k - 1, of the gather or the scatter on the node of this rank.
    fn rounds_of_direct(&self, rank: usize) -> usize {
        self.nodes.ranks(self.nodes.node(rank)).len() - 1
    }

    pub fn reduced(&self) -> usize {
        self.counts.iter().map(|count| count.reduced).sum()
    }
}

pub const LENGTH: usize = 24;

/// A collective with a root where each node is one process, and the same of all processes.
pub fn rooted(
    nodes: &Nodes,
    root: usize,
    blocks: usize,
    of: impl Fn(usize) -> Collective,
) -> [Problem; 2] {
    let with_root = |root, processes| problem(of(root), vec![LENGTH], blocks, processes);
    [
        with_root(nodes.node(root), nodes.count()),
        with_root(root, nodes.processes()),
    ]
}

/// One unit comes into a node once, and to a process once, in as many rounds as on a flat graph of
/// the nodes and ceil(log2) of a node.
#[test]
fn a_broadcast_enters_each_node_once() {
    for nodes in every_nodes() {
        let p = nodes.processes();
        for (n, root) in [(1, 0), (2, p - 1), (7, p / 2)] {
            let [flat, whole] = rooted(&nodes, root, n, |root| Collective::Broadcast { root });
            let solved = solve(&whole, &nodes, |stages, on| {
                stages.broadcast_by_leaders(on, root, n, 0..LENGTH);
            });
            let flat = on_nodes(&flat);
            solved.expect_rounds(&flat, 1, |_| 0);
            let rounds = n - 1 + ceil_log2(nodes.count()) + ceil_log2(nodes.largest());
            assert_eq!(solved.counts[0].rounds, rounds, "{}", solved.name);
            solved.expect_ports(&flat);
            let units = |is_root| if is_root { 0 } else { LENGTH };
            solved.expect_units(|count| count.received, |rank| units(rank == root));
            let entered = |node| units(node == nodes.node(root));
            solved.expect_crossing(|port| port.entered.units, entered);
            assert!(solved.counts.iter().all(|count| count.copied == 0));
        }
    }
}

#[test]
fn a_reduction_leaves_each_node_once() {
    for nodes in every_nodes() {
        let p = nodes.processes();
        for (n, root, in_place) in [(1, p - 1, true), (2, p / 2, false), (7, 0, true)] {
            let [flat, whole] = rooted(&nodes, root, n, |root| Collective::Reduction { root });
            let whole = Problem { in_place, ..whole };
            let solved = solve(&whole, &nodes, |stages, on| {
                stages.reduction_by_leaders(on, root, n, 0..LENGTH, in_place);
            });
            let flat = on_nodes(&flat);
            solved.expect_rounds(&flat, 1, |_| 0);
            solved.expect_ports(&flat);
            let units = |is_root| if is_root { 0 } else { LENGTH };
            solved.expect_units(|count| count.sent, |rank| units(rank == root));
            let left = |node| units(node == nodes.node(root));
            solved.expect_crossing(|port| port.left.units, left);
            assert_eq!(solved.reduced(), (p - 1) * LENGTH, "{}", solved.name);
        }
    }
}

/// In several blocks, by which [`WHOLE`] can be divided; in one, and in steps of it.
const CUTS: [Cut; 4] = [
    Cut::Blocks(2),
    Cut::Blocks(5),
    Cut::Segments(usize::MAX),
    Cut::Segments(25),
];

/// The collective between the nodes, cut so, of which each has the messages of all of its ranks.
fn across(
    nodes: &Nodes,
    lengths: &[usize],
    cut: Cut,
    [blocks, one_block]: [Collective; 2],
) -> Problem {
    let of_node = |node| {
        let ranks = nodes.ranks(node).iter();
        ranks.map(|&rank| lengths[rank]).sum()
    };
    let of_nodes = (0..nodes.count()).map(of_node).collect();
    match cut {
        Cut::Blocks(n) => problem(blocks, of_nodes, n, nodes.count()),
        Cut::Segments(segment) => Problem {
            segment: Some(segment),
            ..problem(one_block, of_nodes, 1, nodes.count())
        },
    }
}

/// The units of each rank that it need not send to a head, or receive from one: those of the lane
/// whose head it is.
fn led(nodes: &Arc<Nodes>, shares: &[Span]) -> Vec<usize> {
    let p = nodes.processes();
    let ranks: Vec<_> = (0..p).collect();
    let units = |&rank: &usize| {
        let machine = Machine::new(nodes.clone(), &ranks, rank, Rule::Halving);
        lane_of(&machine, shares).map_or(0, |lane| shares[lane * p + rank].length)
    };
    ranks.iter().map(units).collect()
}

/// Every other cut, by one lane, and by as many as the smallest node has processes.
fn cuts_by_lanes(nodes: &Nodes, which: usize) -> impl Iterator<Item = (Cut, usize)> {
    let most = nodes.smallest();
    let lanes = move |cut| {
        [1, most]
            .into_iter()
            .take(most.min(2))
            .map(move |lanes| (cut, lanes))
    };
    CUTS.into_iter().skip(which % 2).step_by(2).flat_map(lanes)
}

/// Whether lanes take as many steps as leaders do.
fn are_steps_alike(lanes: usize, cut: Cut) -> bool {
    lanes == 1 || !matches!(cut, Cut::Segments(25))
}

/// What others have comes into a node once. The head of a lane receives all but its own message of
/// it, and the others of its node all messages: theirs come back to them among those of the node.
#[test]
fn an_allgather_enters_each_node_once() {
    for nodes in every_nodes() {
        let p = nodes.processes();
        for (which, lengths) in lengths(p).into_iter().enumerate() {
            let total: usize = lengths.iter().sum();
            let messages: Vec<_> = consecutive(lengths.iter().copied()).collect();
            for (cut, lanes) in cuts_by_lanes(&nodes, which) {
                let kinds = [
                    Collective::AllBroadcast,
                    Collective::Allgather(Rule::Halving),
                ];
                let shares = shares(&messages, lanes);
                let flat = on_nodes(&across(&nodes, &lengths, cut, kinds));
                let whole = problem(Collective::AllBroadcast, lengths.clone(), 1, p);
                let solved = solve(&whole, &nodes, |stages, on| {
                    stages.allgather_by_leaders(on, &shares, cut);
                });
                if are_steps_alike(lanes, cut) {
                    solved.expect_rounds(&flat, 1, |rank| solved.rounds_of_direct(rank));
                }
                if lanes == 1 && are_whole(&lengths, cut) {
                    solved.expect_units_of_ports(&flat);
                }
                let led = led(&nodes, &shares);
                solved.expect_units(|count| count.received, |rank| total - led[rank]);
                let others = |node| total - solved.of_node(node, &lengths);
                solved.expect_crossing(|port| port.entered.units, others);
            }
        }
    }
}

#[test]
fn a_reduce_scatter_leaves_each_node_once() {
    for nodes in every_nodes() {
        let p = nodes.processes();
        for (which, lengths) in lengths(p).into_iter().enumerate() {
            let total: usize = lengths.iter().sum();
            let messages: Vec<_> = consecutive(lengths.iter().copied()).collect();
            for (turn, (cut, lanes)) in cuts_by_lanes(&nodes, which).enumerate() {
                let kinds = [
                    Collective::AllReduction,
                    Collective::ReduceScatter(Rule::Halving),
                ];
                let shares = shares(&messages, lanes);
                let flat = on_nodes(&across(&nodes, &lengths, cut, kinds));
                let in_place = (turn + p) % 3 == 0;
                let whole = Problem {
                    in_place,
                    ..problem(Collective::AllReduction, lengths.clone(), 1, p)
                };
                let solved = solve(&whole, &nodes, |stages, on| {
                    stages.reduce_scatter_by_leaders(on, &shares, cut, in_place);
                });
                if are_steps_alike(lanes, cut) {
                    solved.expect_rounds(&flat, 1, |rank| solved.rounds_of_direct(rank));
                }
                if lanes == 1 && are_whole(&lengths, cut) {
                    solved.expect_units_of_ports(&flat);
                }
                let led = led(&nodes, &shares);
                solved.expect_units(|count| count.sent, |rank| total - led[rank]);
                let others = |node| total - solved.of_node(node, &lengths);
                solved.expect_crossing(|port| port.left.units, others);
                assert_eq!(solved.reduced(), (p - 1) * total, "{}", solved.name);
            }
        }
    }
}

/// Each port carries twice what the other nodes' parts are, in and out.
#[test]
fn an_allreduce_crosses_each_port_twice() {
    for nodes in every_nodes() {
        let (p, count) = (nodes.processes(), nodes.count());
        for (each, segment) in [(1, usize::MAX), (5, usize::MAX), (9, 20)] {
            let length = each * count;
            let parts: Vec<_> = even(0..length, count).map(|span| span.length).collect();
            let flat = Problem {
                segment: Some(segment),
                ..problem(Collective::Allreduce(Rule::Halving), parts, 1, count)
            };
            let in_place = (p + each) % 2 == 0;
            let whole = Problem {
                in_place,
                ..problem(Collective::Census, vec![length], 1, p)
            };
            let solved = solve(&whole, &nodes, |stages, on| {
                stages.allreduce_by_leaders(on, 0..length, (segment, 1), in_place);
            });
            let flat = on_nodes(&flat);
            solved.expect_rounds(&flat, 2, |_| 0);
            solved.expect_ports(&flat);
            let crossed = 2 * (length - each);
            for (node, port) in solved.ports.iter().enumerate() {
                let units = (port.entered.units, port.left.units);
                assert_eq!(units, (crossed, crossed), "{}", solved.name);
                // To the leader and back.
                let stayed = 2 * (nodes.ranks(node).len() - 1) * length;
                assert_eq!(port.stayed.units, stayed, "{}", solved.name);
            }
            assert_eq!(solved.reduced(), (p - 1) * length, "{}", solved.name);
        }
    }
}

/// What comes to a leader within its node, and goes from it, in messages here and in shared memory
/// there: between the leaders goes what goes between as many processes, each of which is a node.
#[test]
fn leaders_exchange_what_their_nodes_bring_and_need() {
    for nodes in every_nodes() {
        let (p, count) = (nodes.processes(), nodes.count());
        let reduced = |machine: &Machine, head, in_place, stages: &mut Stages, range| {
            let whole = (1, Cutting::Even);
            stages.reduction(&machine.node, head, whole, range, in_place);
        };
        for (n, root) in [(1, 0), (2, p - 1), (7, p / 2)] {
            let [flat, whole] = rooted(&nodes, root, n, |root| Collective::Broadcast { root });
            let solved = solve(&whole, &nodes, |stages, on| {
                stages.broadcast_across(on, root, n, 0..LENGTH);
                stages.broadcast(&on.1.node, on.1.head(root), 1, 0..LENGTH);
            });
            solved.expect_ports(&on_nodes(&flat));

            let [flat, whole] = rooted(&nodes, root, n, |root| Collective::Reduction { root });
            let in_place = n == 2;
            let solved = solve(&Problem { in_place, ..whole }, &nodes, |stages, on| {
                reduced(on.1, on.1.head(root), in_place, stages, 0..LENGTH);
                stages.reduction_across(on, root, n, 0..LENGTH);
            });
            solved.expect_ports(&on_nodes(&flat));
        }

        for (which, lengths) in lengths(p).into_iter().enumerate() {
            let total: usize = lengths.iter().sum();
            let messages: Vec<_> = consecutive(lengths.iter().copied()).collect();
            let of_node = |machine: &Machine| {
                let own = nodes.ranks(machine.leaders.place()).iter();
                own.map(|&rank| messages[rank]).collect::<Vec<_>>()
            };
            for cut in CUTS.into_iter().skip(which % 2).step_by(2) {
                let kinds = [
                    Collective::AllBroadcast,
                    Collective::Allgather(Rule::Halving),
                ];
                let flat = on_nodes(&across(&nodes, &lengths, cut, kinds));
                let whole = problem(Collective::AllBroadcast, lengths.clone(), 1, p);
                let solved = solve(&whole, &nodes, |stages, on| {
                    let node = &on.1.node;
                    let gather = Direct::gather(node.size(), node.place(), 0);
                    let gather = Concurrent::new(vec![gather]);
                    stages.add(node, true, of_node(on.1), |_| gather);
                    stages.allgather_across(on, messages.iter().copied(), cut);
                    stages.broadcast(node, 0, 1, 0..total);
                });
                if are_whole(&lengths, cut) {
                    solved.expect_units_of_ports(&flat);
                }

                let kinds = [
                    Collective::AllReduction,
                    Collective::ReduceScatter(Rule::Halving),
                ];
                let flat = on_nodes(&across(&nodes, &lengths, cut, kinds));
                let whole = problem(Collective::AllReduction, lengths.clone(), 1, p);
                let solved = solve(&whole, &nodes, |stages, on| {
                    let node = &on.1.node;
                    reduced(on.1, 0, false, stages, 0..total);
                    stages.reduce_scatter_across(on, messages.iter().copied(), cut);
                    let scatter = Direct::scatter(node.size(), node.place(), 0);
                    let scatter = Concurrent::new(vec![scatter]);
                    stages.add(node, true, of_node(on.1), |_| scatter);
                });
                if are_whole(&lengths, cut) {
                    solved.expect_units_of_ports(&flat);
                }
            }
        }

        let length = 5 * count;
        let parts: Vec<_> = even(0..length, count).map(|span| span.length).collect();
        let flat = Problem {
            segment: Some(20),
            ..problem(Collective::Allreduce(Rule::Halving), parts, 1, count)
        };
        let whole = problem(Collective::Census, vec![length], 1, p);
        let solved = solve(&whole, &nodes, |stages, on| {
            reduced(on.1, 0, false, stages, 0..length);
            stages.allreduce_across(on, 0..length, Cut::Segments(20));
            stages.broadcast(&on.1.node, 0, 1, 0..length);
        });
        solved.expect_ports(&on_nodes(&flat));
    }
}

/// Each message goes once between its process and the root, in a round of its own, from its place.
#[test]
fn direct_gather_and_scatter_move_each_message_once() {
    for p in 1..=40usize {
        for root in [0, p / 2, p - 1] {
            for (lengths, gathers) in lengths(p).iter().flat_map(|l| [(l, true), (l, false)]) {
                let messages: Vec<_> = consecutive(lengths.iter().copied()).collect();
                let stages = |rank| {
                    let mut stages = Stages::default();
                    let team = Team::whole(p, rank, Rule::Halving);
                    stages.add(&team, true, messages.iter().copied(), |_| {
                        Concurrent::new(vec![match gathers {
                            true => Direct::gather(p, rank, root),
                            false => Direct::scatter(p, rank, root),
                        }])
                    });
                    stages
                };
                let sender = |message| if gathers { message } else { root };
                let memory = |rank| {
                    let mut memory = Memory::new(lengths.iter().sum());
                    for (message, span) in messages.iter().enumerate() {
                        let units = &mut memory.result[span.result..span.result + span.length];
                        for (unit, place) in units.iter_mut().enumerate() {
                            if sender(message) == rank {
                                *place = contribution(rank, message, unit);
                            }
                        }
                    }
                    memory
                };
                let conditions = Conditions {
                    pacing: PACING,
                    operator: sum,
                    chance: Some(Chance::of_seed(p as u64)),
                };
                let calls = vec![(0..p).map(stages).collect()];
                let executed = execute((0..p).map(memory).collect(), calls, conditions);
                let executed = executed.unwrap_or_else(|failure| panic!("{failure:?} p={p}"));
                for (message, span) in messages.iter().enumerate() {
                    let receiver = if gathers { root } else { message };
                    for unit in 0..span.length {
                        let found = executed.memories[receiver].result[span.result + unit];
                        assert_eq!(found, contribution(sender(message), message, unit), "p={p}");
                    }
                }
                let others = lengths.iter().sum::<usize>() - lengths[root];
                let with_data = (0..p).filter(|&rank| rank != root && lengths[rank] > 0);
                let at_root = (with_data.count(), others);
                for (rank, count) in executed.counts.iter().enumerate() {
                    let own = (usize::from(lengths[rank] > 0), lengths[rank]);
                    let moved = if rank == root { at_root } else { own };
                    let sent = (count.messages_sent, count.sent);
                    let received = (count.messages_received, count.received);
                    let nothing = (0, 0);
                    let expected = match gathers == (rank == root) {
                        true => (nothing, moved),
                        false => (moved, nothing),
                    };
                    assert_eq!((sent, received), expected, "p={p} rank={rank}");
                    assert_eq!((count.rounds, count.copied), (p - 1, 0), "p={p}");
                }
            }
        }
    }
}
