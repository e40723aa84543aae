//! What every plan says of its rounds, against the rounds themselves: how many blocks they have,
//! which are sent from the input, and for how long a block is needed.

use std::collections::HashMap;
use std::iter::repeat_n;
use std::sync::Arc;

use strum::VariantArray;

use circulant::nodes::{Nodes, Placement};
use circulant::plan::{
    Across, AnyPlan, Block, Broadcast, Concurrent, Division, Doubling, Heads, Leaders, Messages,
    Plan, Round, Schedules, ScratchUse, Segments, Source, Stream,
};
use circulant::schedule::{Rule, Sequence, Skips};
use circulant::select::Cut;
use circulant::stage::{Cutting, Groups, Stages, consecutive, shares};
use circulant::team::{Graph, Machine, Ranks, Team};

const PROCESSES: [usize; 10] = [1, 2, 3, 5, 7, 9, 16, 17, 31, 33];

/// The plans of all processes for one problem.
struct Problem<'a> {
    name: String,
    plans: Vec<&'a AnyPlan>,
    /// By process.
    rounds: Vec<Vec<Round>>,
}

impl Problem<'_> {
    fn new(name: String, plans: Vec<&AnyPlan>) -> Problem<'_> {
        let shape = plans[0].shape();
        assert!(plans.iter().all(|plan| plan.shape() == shape), "{name}");
        assert_eq!(shape.rounds % shape.at_once, 0, "{name}");
        let fill = |plan: &&AnyPlan| {
            let rounds = (0..shape.rounds).map(|index| {
                let mut round = Round::default();
                plan.fill(index, &mut round);
                round
            });
            rounds.collect()
        };
        let rounds = plans.iter().map(fill).collect();
        Problem {
            name,
            plans,
            rounds,
        }
    }

    /// The most blocks that any process sends or receives in a round.
    fn most_blocks(&self, index: usize) -> usize {
        let rounds = self.rounds.iter().map(|rounds| &rounds[index]);
        let blocks = rounds.map(|round| round.sends.len().max(round.receives.len()));
        blocks.max().unwrap_or(0)
    }

    fn widths(&self) -> Vec<usize> {
        let rounds = 0..self.plans[0].shape().rounds;
        let widths = rounds.map(|index| {
            let width = self.plans[0].width(index);
            let is_same = self.plans.iter().all(|plan| plan.width(index) == width);
            assert!(is_same, "{}: round {index}", self.name);
            width
        });
        widths.collect()
    }
}

/// Calls `check` with each plan of the stages that `add` appends for each process.
fn visit(
    name: &str,
    teams: &[Team],
    add: impl Fn(&mut Stages, &Team),
    check: &mut impl FnMut(Problem<'_>),
) {
    let of = |team: &Team| {
        let mut stages = Stages::default();
        add(&mut stages, team);
        stages
    };
    let all: Vec<_> = teams.iter().map(of).collect();
    for index in 0..all[0].as_slice().len() {
        let stages = all.iter().map(|stages| &stages.as_slice()[index]);
        // Those of one team: where nodes have a stage each, each node for itself.
        let mut by_team = HashMap::<usize, Vec<_>>::new();
        for stage in stages {
            by_team.entry(stage.team.rank(0)).or_default().push(stage);
        }
        for mut stages in by_team.into_values() {
            stages.sort_by_key(|stage| stage.team.place());
            let plans = stages.iter().map(|stage| &stage.plan).collect();
            let name = format!("{name} on {} processes, stage {index}", teams.len());
            check(Problem::new(name, plans));
        }
    }
}

fn teams(p: usize, rule: Rule) -> Vec<Team> {
    let graph = Arc::new(Graph::new(p, rule));
    let team = |place| Team::new(graph.clone(), Ranks::ALL, place);
    (0..p).map(team).collect()
}

/// Messages of which some are empty.
fn lengths(p: usize) -> impl Iterator<Item = usize> {
    (0..p).map(|rank| rank * rank % 5)
}

fn visit_whole(p: usize, rule: Rule, check: &mut impl FnMut(Problem<'_>)) {
    let (teams, root) = (teams(p, rule), 2 * p / 3);
    let q = teams[0].skips().q();
    let add = |stages: &mut Stages, team: &Team| {
        for n in [1, 2, q.max(1), 2 * q + 1, 5 * q + 2] {
            stages.broadcast(team, root, n, 0..100);
            stages.reduction(team, root, (n, Cutting::Even), 0..100, false);
            stages.pipelined_allgather(team, consecutive(lengths(p)), n);
            let cut = (n, Cutting::in_strips(n, q));
            stages.pipelined_reduce_scatter(team, consecutive(lengths(p)), cut, false);
        }
        for segment in [1, 3, 20, 1000] {
            stages.allgather(team, consecutive(repeat_n(4, p)), segment);
            stages.reduce_scatter(team, consecutive(lengths(p)), segment, false);
            stages.ordered_reduce_scatter(team, consecutive(lengths(p)), segment, false);
            stages.pairwise(team, consecutive(repeat_n(4, p)), segment);
        }
        stages.tree_broadcast(team, root, 0..100);
        stages.census(team, 0..100);
        stages.all_to_all(team, 4);
        stages.gather(team, root, 4);
        stages.scatter(team, root, 4);
    };
    visit(&format!("{rule:?}"), &teams, add, check);
}

fn visit_nodes(nodes: &Arc<Nodes>, check: &mut impl FnMut(Problem<'_>)) {
    let p = nodes.processes();
    let (ranks, root) = ((0..p).collect::<Vec<_>>(), 2 * p / 3);
    let lanes = [1, nodes.smallest().div_ceil(2), nodes.smallest()];
    let add = |stages: &mut Stages, team: &Team| {
        let machine = Machine::new(nodes.clone(), &ranks, team.place(), Rule::default());
        let (on, messages) = ((team, &machine), consecutive(lengths(p)));
        let messages: Vec<_> = messages.collect();
        for n in [1, 2, 7, 40] {
            stages.broadcast_by_leaders(on, root, n, 0..100);
            stages.reduction_by_leaders(on, root, n, 0..100, false);
            stages.broadcast_across(on, root, n, 0..100);
            stages.reduction_across(on, root, n, 0..100);
            for lanes in lanes {
                stages.broadcast_by_lanes(on, root, (n, lanes), 0..100);
                stages.reduction_by_lanes(on, root, (n, lanes), 0..100, false);
            }
        }
        // More blocks than are kept at once, where that does not take long.
        let several = Cut::Blocks(if p <= 33 { 40 } else { 5 });
        for cut in [several, Cut::Segments(3), Cut::Segments(1000)] {
            stages.allgather_across(on, messages.iter().copied(), cut);
            stages.reduce_scatter_across(on, messages.iter().copied(), cut);
            for lanes in lanes {
                let shares = shares(&messages, lanes);
                stages.allgather_by_leaders(on, &shares, cut);
                stages.reduce_scatter_by_leaders(on, &shares, cut, false);
            }
        }
        for segment in [1, 3, 1000] {
            for lanes in lanes {
                stages.allreduce_by_leaders(on, 0..100, (segment, lanes), false);
            }
            stages.allreduce_by_lanes(on, 0..100, (segment, nodes.smallest()), false);
        }
    };
    visit(
        &format!("{nodes:?}"),
        &teams(p, Rule::default()),
        add,
        check,
    );
}

fn visit_groups(sizes: [usize; 2], check: &mut impl FnMut(Problem<'_>)) {
    let streams = [0, 1].map(|group| {
        let lengths = (0..sizes[group]).map(|rank| 5 + rank * rank % 7);
        Stream::new(lengths, sizes[1 - group], Division::Evenly)
    });
    let add = |stages: &mut Stages, team: &Team| {
        let own = usize::from(team.place() >= sizes[0]);
        let rank = team.place() - own * sizes[0];
        let groups = Groups { sizes, own, rank };
        let graph = Arc::new(Graph::new(sizes[own], Rule::default()));
        let group = Team::new(graph, Ranks::from(own * sizes[0]), rank);
        stages.allgather_between(&groups, [team, &group], &streams, 3);
    };
    let teams = teams(sizes[0] + sizes[1], Rule::default());
    visit(&format!("{sizes:?}"), &teams, add, check);
}

fn all_nodes() -> impl Iterator<Item = Arc<Nodes>> {
    let sizes = [
        (2, 1),
        (6, 3),
        (9, 2),
        (16, 8),
        (17, 5),
        (31, 8),
        (33, 16),
        (64, 32),
    ];
    let nodes = sizes.into_iter().flat_map(|(p, size)| {
        [Placement::Blocked, Placement::Cyclic, Placement::Shuffled]
            .map(|placement| Nodes::of_size(p, size, placement))
    });
    nodes.filter(|nodes| nodes.count() > 1).map(Arc::new)
}

fn visit_all(mut check: impl FnMut(Problem<'_>)) {
    for p in PROCESSES {
        for &rule in <Rule as VariantArray>::VARIANTS {
            visit_whole(p, rule, &mut check);
        }
    }
    for nodes in all_nodes() {
        visit_nodes(&nodes, &mut check);
    }
    for sizes in [[1, 1], [1, 5], [7, 3], [4, 8], [9, 16]] {
        visit_groups(sizes, &mut check);
    }
}

/// A round has blocks of its lane only: of one plan of several that run concurrently.
#[test]
fn rounds_have_blocks_of_one_lane() {
    let mut most = 0;
    visit_all(|problem| {
        let shape = problem.plans[0].shape();
        assert_eq!(shape.at_once % shape.lanes, 0, "{}", problem.name);
        most = most.max(shape.lanes);
        let each = shape.messages / shape.lanes;
        for (index, round) in problem
            .rounds
            .iter()
            .flat_map(|rounds| rounds.iter().enumerate())
        {
            let sent = round.sends.iter().map(|sent| sent.block);
            let blocks = sent.chain(round.receives.iter().map(|arrived| arrived.block));
            for block in blocks {
                let lane = block.message / each;
                assert_eq!(lane, index % shape.lanes, "{}: round {index}", problem.name);
            }
        }
    });
    assert_eq!(most, 32);
}

/// Whether the width of each round is that of some process.
fn has_exact_widths(plan: &AnyPlan) -> bool {
    matches!(
        plan,
        AnyPlan::Broadcast(_)
            | AnyPlan::Reduction(_)
            | AnyPlan::Allgather(_)
            | AnyPlan::ReduceScatter(_)
            | AnyPlan::Ordered(_)
            | AnyPlan::Census(_)
            | AnyPlan::AllToAll(_)
            | AnyPlan::Pairwise(_)
            | AnyPlan::Direct(_)
            | AnyPlan::Exchange(_)
            | AnyPlan::TreeBroadcast(_)
            | AnyPlan::LanesAllgather(_)
            | AnyPlan::LanesReduceScatter(_)
    )
}

/// No process has more blocks in a round than the plan says, and where the plan can tell, one has as
/// many. Of a message for each process, none has all.
#[test]
fn rounds_are_as_wide_as_plans_say() {
    visit_all(|problem| {
        let (name, plan, p) = (&problem.name, problem.plans[0], problem.plans.len());
        let widths = problem.widths();
        let rounds = 0..widths.len();
        let most: Vec<_> = rounds.map(|index| problem.most_blocks(index)).collect();
        let fit = most.iter().zip(&widths).all(|(most, width)| most <= width);
        assert!(fit, "{name}: {most:?}, not {widths:?}");
        if has_exact_widths(plan) && p > 1 {
            assert_eq!(most, widths, "{name}");
        }
        if matches!(plan, AnyPlan::Gather(_) | AnyPlan::Scatter(_)) {
            assert!(widths.iter().all(|&width| width < p), "{name}: {widths:?}");
        }
        if matches!(plan, AnyPlan::LeadersBroadcast(_)) {
            assert_eq!(widths.iter().max(), Some(&1), "{name}");
            // Every other round is across nodes, as if each were one process.
            let across = |of: &[usize]| of.iter().step_by(2).copied().collect::<Vec<_>>();
            assert_eq!(across(&most), across(&widths), "{name}");
        }
    });
}

/// The rounds within a node are wide enough for what came in any round across that they may be of.
#[test]
fn leaders_have_room_for_the_widest_round_that_is_still_sent() {
    let skips = [
        vec![2, 1],
        vec![22, 11, 6, 3, 2, 1],
        // Few wide rounds, and many narrow ones after them.
        (8..=22).rev().chain([4, 2, 1]).collect(),
        (11..=22).rev().chain([6, 3, 2, 1]).collect(),
        (3..=13).rev().chain([2, 1]).collect(),
    ];
    for skips in &skips {
        for size in [2, 3, 5, 8, 17] {
            let nodes = Nodes::of_size(skips[0] * size, size, Placement::Blocked);
            let (nodes, graph) = (Arc::new(nodes), Skips::new(size));
            let sequence = Arc::new(Sequence::new(skips).unwrap());
            let plan = |rank: usize| {
                let across = Doubling::new(sequence.clone(), nodes.node(rank), Segments::WHOLE);
                let schedules = Arc::new(Schedules::new(&graph, nodes.place(rank), 0));
                let rounds = across.shape().rounds;
                let skips = Arc::new(graph.clone());
                let within = Broadcast::new(skips, schedules, nodes.place(rank), rounds);
                let place = (nodes.clone(), rank);
                let across = Across::new(across, place, Heads::Lowest, Messages::OfRanks);
                let leaders = Leaders::new(across, within);
                AnyPlan::from(Concurrent::new(vec![leaders]))
            };
            let plans: Vec<_> = (0..nodes.processes()).map(plan).collect();
            let problem = Problem::new(format!("{skips:?} x {size}"), plans.iter().collect());
            for (index, width) in problem.widths().into_iter().enumerate() {
                let most = problem.most_blocks(index);
                assert!(most <= width, "{}: {most} in round {index}", problem.name);
            }
        }
    }
}

/// Whether a plan stores what it receives, and names a block alike on all processes.
fn stores(plan: &AnyPlan) -> bool {
    matches!(
        plan,
        AnyPlan::Broadcast(_)
            | AnyPlan::PipelinedAllgather(_)
            | AnyPlan::Allgather(_)
            | AnyPlan::Gather(_)
            | AnyPlan::Scatter(_)
            | AnyPlan::Direct(_)
            | AnyPlan::Exchange(_)
            | AnyPlan::TreeBroadcast(_)
            | AnyPlan::AcrossBroadcast(_)
            | AnyPlan::AcrossAllgather(_)
            | AnyPlan::AcrossPipelinedAllgather(_)
            | AnyPlan::LeadersBroadcast(_)
            | AnyPlan::LeadersAllgather(_)
            | AnyPlan::LeadersPipelinedAllgather(_)
            | AnyPlan::LanesBroadcast(_)
            | AnyPlan::LanesAllgather(_)
    )
}

/// What a process has received is sent on from the result, and what it has not from the input.
#[test]
fn a_block_is_sent_from_where_it_is() {
    let mut seen = [0; 2];
    visit_all(|problem| {
        if !stores(problem.plans[0]) {
            return;
        }
        let at_once = problem.plans[0].shape().at_once;
        for (rank, rounds) in problem.rounds.iter().enumerate() {
            let mut received = HashMap::<Block, usize>::new();
            for (index, round) in rounds.iter().enumerate() {
                let step = index / at_once;
                for sent in &round.sends {
                    let is_received = received.get(&sent.block).is_some_and(|&at| at < step);
                    let source = if is_received {
                        Source::Result
                    } else {
                        Source::Input
                    };
                    assert_eq!(sent.source, source, "{}: process {rank}", problem.name);
                    seen[usize::from(is_received)] += 1;
                }
                for arrived in &round.receives {
                    received.entry(arrived.block).or_insert(step);
                }
            }
        }
    });
    assert!(seen.iter().all(|&count| count > 10_000), "{seen:?}");
}

/// The rounds from the first in which a block of a reduction arrives to the last in which it
/// arrives or is sent: by block.
fn lives(rounds: &[Round]) -> HashMap<Block, (usize, usize)> {
    let mut lives = HashMap::new();
    for (index, round) in rounds.iter().enumerate() {
        for arrived in &round.receives {
            lives.entry(arrived.block).or_insert((index, index)).1 = index;
        }
        for sent in &round.sends {
            lives.entry(sent.block).and_modify(|life| life.1 = index);
        }
    }
    lives
}

/// A partial result is neither sent nor combined later than the plan says. Those of a message that
/// are needed in a round have numbers that are no further apart.
#[test]
fn partial_results_are_needed_no_longer_than_plans_say() {
    visit_all(|problem| {
        let shape = problem.plans[0].shape();
        if shape.scratch != ScratchUse::Partials {
            return;
        }
        let (span, kept) = (shape.span, shape.blocks_kept());
        for (rank, rounds) in problem.rounds.iter().enumerate() {
            let lives = lives(rounds);
            let messages = 1 + lives.keys().map(|block| block.message).max().unwrap_or(0);
            // The lowest and the highest of each message, by round.
            let mut needed = vec![None; messages * rounds.len()];
            for (block, (first, last)) in lives {
                let name = || format!("{}: {block:?} at process {rank}", problem.name);
                assert!(last - first <= span, "{}: {first} to {last}", name());
                let of_message = &mut needed[block.message * rounds.len()..][first..=last];
                for blocks in of_message {
                    let (low, high) = blocks.unwrap_or((block.index, block.index));
                    let (low, high) = (low.min(block.index), high.max(block.index));
                    assert!(high - low < kept, "{}: {low} to {high}", name());
                    *blocks = Some((low, high));
                }
            }
        }
    });
}
