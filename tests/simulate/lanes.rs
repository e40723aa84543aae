//! Algorithms by lanes: what crosses the ports of nodes, in how many rounds.

use std::sync::Arc;

use circulant::engine::{Pacing, Synchronous, scratch_units};
use circulant::nodes::{Nodes, Placement};
use circulant::plan::Plan;
use circulant::schedule::Rule;
use circulant::select::{self, Algorithm, Cut, Facts, Operation, Order, Settings};
use circulant::stage::{Lanes, Span, Stages, consecutive, even, shares};
use circulant::team::{Machine, Team};

use crate::leaders::{
    LENGTH, Solved, ceil_log2, every_nodes, lengths, on_nodes, problem, rooted, solve,
};
use crate::simulator::{Collective, Counts, Problem};

/// Nodes with equal numbers of processes.
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

/// Messages of all processes of equal nodes, and how they go.
struct Case {
    nodes: Arc<Nodes>,
    lengths: Vec<usize>,
    segment: usize,
    in_place: bool,
}

fn cases() -> impl Iterator<Item = Case> {
    equal_nodes().flat_map(|nodes| {
        let p = nodes.processes();
        let all = lengths(p).into_iter().enumerate();
        all.map(move |(which, lengths)| Case {
            nodes: nodes.clone(),
            lengths,
            segment: SEGMENTS[(which + p) % SEGMENTS.len()],
            in_place: (which + p) % 2 == 0,
        })
    })
}

impl Case {
    fn total(&self) -> usize {
        self.lengths.iter().sum()
    }

    fn problem(&self, collective: Collective) -> Problem {
        problem(collective, self.lengths.clone(), 1, self.nodes.processes())
    }

    /// One lane in this case.
    fn lane(&self, collective: Collective) -> Vec<Counts> {
        lane(collective, &self.nodes, &self.lengths, self.segment)
    }

    /// What the ranks of a node have not.
    fn of_others(&self, solved: &Solved, node: usize) -> usize {
        self.total() - solved.of_node(node, &self.lengths)
    }
}

/// Nodes and numbers of lanes, up to as many as the smallest has processes; and blocks and a root.
fn rooted_cases() -> impl Iterator<Item = (Arc<Nodes>, usize, usize, usize)> {
    every_nodes().flat_map(|nodes| {
        let sizes = (0..nodes.count()).map(|node| nodes.ranks(node).len());
        let (smallest, p) = (sizes.min().unwrap_or(1), nodes.processes());
        let blocks_and_roots = [(1, 0), (2, p - 1), (7, p / 2), (3, p / 3)];
        (1..=smallest).map(move |lanes| {
            let (n, root) = blocks_and_roots[(lanes + p) % blocks_and_roots.len()];
            (nodes.clone(), lanes, n, root)
        })
    })
}

/// n - 1 + ceil(log2 N) rounds across, ceil(log2 k) within, and one before them. Where all are
/// heads, one is enough within.
fn expect_rooted_rounds(solved: &Solved, nodes: &Nodes, lanes: usize, n: usize) {
    let within = match nodes.largest() <= lanes {
        true => 1,
        false => ceil_log2(nodes.largest()),
    };
    let expected = n + ceil_log2(nodes.count()) + within;
    let rounds = solved.counts.iter().map(|count| count.rounds);
    assert!(
        rounds.into_iter().all(|rounds| rounds == expected),
        "{}",
        solved.name
    );
}

/// One unit comes into a node once, and to a process once, where it belongs. The units that cross a
/// port are divided among its lanes.
#[test]
fn a_broadcast_by_lanes_enters_each_node_once() {
    for (nodes, lanes, n, root) in rooted_cases() {
        let [flat, whole] = rooted(&nodes, root, n, |root| Collective::Broadcast { root });
        let solved = solve(&whole, &nodes, |stages, on| {
            stages.broadcast_by_lanes(on, root, (n, lanes), 0..LENGTH);
        });
        expect_rooted_rounds(&solved, &nodes, lanes, n);
        solved.expect_units_of_lanes(&on_nodes(&flat), lanes);
        let units = |rank| if rank == root { 0 } else { LENGTH };
        solved.expect_units(|count| count.received, units);
        assert!(solved.counts.iter().all(|count| count.copied == 0));
    }
}

#[test]
fn a_reduction_by_lanes_leaves_each_node_once() {
    for (nodes, lanes, n, root) in rooted_cases() {
        let p = nodes.processes();
        let in_place = (p + n) % 2 == 0;
        let [flat, whole] = rooted(&nodes, root, n, |root| Collective::Reduction { root });
        let whole = Problem { in_place, ..whole };
        let solved = solve(&whole, &nodes, |stages, on| {
            stages.reduction_by_lanes(on, root, (n, lanes), 0..LENGTH, in_place);
        });
        expect_rooted_rounds(&solved, &nodes, lanes, n);
        solved.expect_units_of_lanes(&on_nodes(&flat), lanes);
        let units = |rank| if rank == root { 0 } else { LENGTH };
        solved.expect_units(|count| count.sent, units);
        assert_eq!(solved.reduced(), (p - 1) * LENGTH, "{}", solved.name);
    }
}

/// What others have comes into a node once, and to a process once.
#[test]
fn an_allgather_enters_each_node_once() {
    for case in cases() {
        let whole = case.problem(Collective::AllBroadcast);
        let solved = solve(&whole, &case.nodes, |stages, on| {
            let messages: Vec<_> = consecutive(case.lengths.iter().copied()).collect();
            let cut = (Cut::Segments(case.segment), case.nodes.largest());
            stages.allgather_by_lanes(on, &messages, cut);
        });
        let alone = case.lane(Collective::Allgather(Rule::Halving));
        solved.expect_rounds(&alone, 1, |_| 0);
        let others = |rank: usize| case.total() - case.lengths[rank];
        solved.expect_units(|count| count.received, others);
        let others = |node| case.of_others(&solved, node);
        solved.expect_crossing(|port| port.entered.units, others);
    }
}

#[test]
fn a_reduce_scatter_leaves_each_node_once() {
    for case in cases() {
        let in_place = case.in_place;
        let whole = Problem {
            in_place,
            ..case.problem(Collective::AllReduction)
        };
        let solved = solve(&whole, &case.nodes, |stages, on| {
            let messages = consecutive(case.lengths.iter().copied());
            stages.reduce_scatter_by_all_lanes(on, messages, case.segment, in_place);
        });
        let alone = case.lane(Collective::ReduceScatter(Rule::Halving));
        solved.expect_rounds(&alone, 1, |_| 0);
        let others = |rank: usize| case.total() - case.lengths[rank];
        solved.expect_units(|count| count.sent, others);
        let others = |node| case.of_others(&solved, node);
        solved.expect_crossing(|port| port.left.units, others);
        let combined = (case.nodes.processes() - 1) * case.total();
        assert_eq!(solved.reduced(), combined, "{}", solved.name);
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
                stages.allreduce_by_lanes(on, 0..length, (segment, nodes.largest()), in_place);
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
    let places = settings().flat_map(|settings| layouts.map(|layout| (settings.clone(), layout)));
    let operations = [
        Operation::Allgatherv,
        Operation::ReduceScatter,
        Operation::Allreduce,
    ];
    for (settings, (count, k)) in places {
        let p = count * k;
        let nodes = Arc::new(Nodes::of_size(p, k, Placement::Blocked));
        let sizes = [p, 400_000, 4_000_000, 40_000_000, 200_000_000];
        // The last is of one process, which is by lanes where it is not forced.
        let problems = sizes.into_iter();
        let problems = problems.flat_map(|bytes| [(bytes, 1), (bytes, 2), (bytes, p)]);
        let calls = problems.flat_map(|problem| operations.map(|operation| (operation, problem)));
        for (operation, (bytes, times)) in calls {
            let lengths: Vec<_> = irregular(bytes, p, times).collect();
            let force = times < p;
            let settings = Settings {
                force,
                ..settings.clone()
            };
            let name = format!("{operation:?} of {bytes} x {times} on {count} x {k}, {settings:?}");
            let Some(stages) = stages_in_lanes(operation, &lengths, &nodes, &settings) else {
                continue;
            };
            let asked = scratch_units(&stages, pacing(&settings));
            let most = settings.scratch_max as usize;
            let room = match operation {
                Operation::Allreduce => most.max(lengths.iter().sum::<usize>() + most / 4),
                _ => most,
            };
            assert!(asked <= room, "{asked} > {room}: {name}");
            let stages = stages.as_slice().iter();
            let at_once = stages.map(|stage| stage.plan.shape().at_once);
            assert!(at_once.max() <= Some(64), "{name}");
            lanes += 1;
        }
    }
    assert!(lanes > 300, "{lanes}");
}

/// The same of reductions, which have several blocks where nobody has measured the network.
#[test]
fn reductions_by_lanes_fit_into_scratch() {
    let mut lanes = 0;
    let sizes = [300_000, 4_000_000, 40_000_000, 200_000_000, 1_000_000_000];
    for (count, k) in [(2, 2), (8, 4), (5, 3), (36, 32), (2, 64), (200, 4), (3, 7)] {
        let nodes = Arc::new(Nodes::of_size(count * k, k, Placement::Blocked));
        let most = [1, 2, 4, 7, 32];
        let places = settings().flat_map(|settings| most.map(|lanes| (settings.clone(), lanes)));
        for ((settings, lanes_max), bytes) in places.flat_map(|place| {
            let with_size = move |bytes| (place.clone(), bytes);
            sizes.map(with_size)
        }) {
            let settings = Settings {
                force: false,
                lanes: lanes_max,
                ..settings
            };
            let name = format!("{bytes} on {count} x {k}, {settings:?}");
            let stages = stages_in_lanes(Operation::Reduce, &[bytes], &nodes, &settings);
            let Some(stages) = stages else {
                continue;
            };
            let asked = scratch_units(&stages, pacing(&settings));
            assert!(
                asked <= settings.scratch_max as usize,
                "{asked} bytes: {name}"
            );
            let at_once = stages
                .as_slice()
                .iter()
                .map(|stage| stage.plan.shape().at_once);
            assert!(at_once.max() <= Some(64), "{name}");
            lanes += 1;
        }
    }
    assert!(lanes > 300, "{lanes}");
}

fn pacing(settings: &Settings) -> Pacing {
    Pacing {
        window: settings.window,
        sends: settings.sends,
        synchronous: Synchronous::Unpaced,
    }
}

/// The stages of rank 0 in a call of parts of `lengths` bytes, or of one whole, if it is by lanes.
fn stages_in_lanes(
    operation: Operation,
    lengths: &[usize],
    nodes: &Arc<Nodes>,
    settings: &Settings,
) -> Option<Stages> {
    let p = nodes.processes();
    let bytes = lengths.iter().sum();
    let facts = Facts {
        bytes: bytes as u64,
        largest: lengths.iter().copied().max().unwrap_or(0) as u64,
        order: Order::Any,
        ..Facts::new(operation, p)
    };
    let Ok(Algorithm::Lanes { cut, lanes }) = select::choose(&facts.on(nodes), settings) else {
        return None;
    };
    let ranks: Vec<_> = (0..p).collect();
    let machine = Machine::new(nodes.clone(), &ranks, 0, settings.skips);
    let team = Team::whole(p, 0, settings.skips);
    let on = (&team, &machine);
    let messages: Vec<_> = consecutive(lengths.iter().copied()).collect();
    if !operation.is_rooted() && Lanes::of(&machine, &messages, cut, lanes) == Lanes::OfHeads {
        // As by leaders, it may turn out to have too little scratch.
        return None;
    }
    let mut stages = Stages::default();
    match (operation, cut) {
        (Operation::Allgatherv, cut) => {
            stages.allgather_by_lanes(on, &messages, (cut, lanes));
        }
        (Operation::ReduceScatter, Cut::Segments(segment)) => {
            stages.reduce_scatter_by_all_lanes(on, messages, segment, false);
        }
        (_, Cut::Blocks(n)) => stages.reduction_by_lanes(on, 0, (n, lanes), 0..bytes, false),
        (_, Cut::Segments(segment)) => {
            stages.allreduce_by_lanes(on, 0..bytes, (segment, lanes), false);
        }
    }
    Some(stages)
}

/// Equal parts; or those of every other process twice as long, and nothing of the others.
fn irregular(bytes: usize, p: usize, times: usize) -> impl Iterator<Item = usize> {
    let equal = even(0..bytes, p).map(|span| span.length);
    equal
        .enumerate()
        .map(move |(rank, length)| if rank % times == 0 { length * times } else { 0 })
}

/// What the root of a broadcast of n blocks by lanes runs.
fn broadcast_at_root(nodes: &Arc<Nodes>, (n, lanes): (usize, usize), root: usize) -> Stages {
    let p = nodes.processes();
    let ranks: Vec<_> = (0..p).collect();
    let team = Team::whole(p, root, Rule::Halving);
    let machine = Machine::new(nodes.clone(), &ranks, root, Rule::Halving);
    let mut stages = Stages::default();
    stages.broadcast_by_lanes((&team, &machine), root, (n, lanes), 0..LENGTH);
    stages
}

/// All parts of a broadcast are sent from where they belong, and received there.
#[test]
fn broadcasts_by_lanes_need_no_scratch() {
    for (nodes, lanes, n, root) in rooted_cases() {
        let stages = broadcast_at_root(&nodes, (n, lanes), root);
        let pacing = pacing(&Settings::default());
        assert_eq!(scratch_units(&stages, pacing), 0, "{nodes:?} {lanes} {n}");
    }
}

/// Scratch of rank 0 in a reduce-scatter of these messages by so many lanes.
fn scratch_by_heads(nodes: &Arc<Nodes>, messages: &[Span], (cut, lanes): (Cut, usize)) -> usize {
    let p = nodes.processes();
    let ranks: Vec<_> = (0..p).collect();
    let team = Team::whole(p, 0, Rule::Halving);
    let machine = Machine::new(nodes.clone(), &ranks, 0, Rule::Halving);
    let mut stages = Stages::default();
    let shares = shares(messages, lanes);
    stages.reduce_scatter_by_leaders((&team, &machine), &shares, cut, false);
    scratch_units(&stages, pacing(&Settings::default()))
}

/// The messages of a lane have 1/L of the units. So all lanes together need no more scratch than
/// leaders do, where blocks can be divided.
#[test]
fn reduce_scatters_by_heads_need_the_scratch_of_leaders() {
    for nodes in every_nodes().filter(|nodes| nodes.smallest() > 1) {
        let lengths = (0..nodes.processes()).map(|rank| 960 * (1 + rank % 3));
        let messages: Vec<_> = consecutive(lengths).collect();
        let lanes = [2, 4, 8]
            .into_iter()
            .filter(|&lanes| lanes <= nodes.smallest());
        let cuts = [Cut::Blocks(5), Cut::Blocks(60), Cut::Segments(usize::MAX)];
        for (lanes, cut) in lanes.flat_map(|lanes| cuts.map(|cut| (lanes, cut))) {
            let [alone, all] =
                [1, lanes].map(|lanes| scratch_by_heads(&nodes, &messages, (cut, lanes)));
            assert!(
                all <= alone,
                "{nodes:?} {lanes} {cut:?}: {all} after {alone}"
            );
        }
    }
}

/// Where all processes are heads, no message has more than one part of a block.
#[test]
fn heads_send_each_other_single_parts() {
    let mut seen = [0; 2];
    for (nodes, lanes, n, root) in rooted_cases() {
        let stages = broadcast_at_root(&nodes, (n, lanes), root);
        let plan = &stages.as_slice()[0].plan;
        let widest = (0..plan.shape().rounds).map(|index| plan.width(index));
        let are_all_heads = nodes.largest() <= lanes;
        let expected = if are_all_heads { 1 } else { lanes };
        assert_eq!(widest.max(), Some(expected), "{nodes:?} {lanes} {n}");
        seen[usize::from(are_all_heads)] += 1;
    }
    assert!(seen.iter().all(|&count| count > 20), "{seen:?}");
}
