//! Calls that nobody thought of: teams, plans, stages, lengths, pacing and delivery are drawn, and
//! the engine's results are compared with a serial computation of what each stage is for.
//!
//! `PROPTEST_CASES=100000 cargo test --release ... --test simulate drawn` draws more.

#![allow(clippy::unwrap_used)] // Values that are said, as was looked at before.

use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use strum::VariantArray;

use circulant::engine::{Pacing, Synchronous};
use circulant::nodes::Nodes;
use circulant::plan::Division;
use circulant::schedule::Rule;
use circulant::select::Cut;
use circulant::stage::{Cutting, Span, Stages, consecutive, even};
use circulant::team::{Graph, Machine, Ranks, Team};

use crate::simulator::{
    Conditions, Intergroup, Memory, Operator, contribution, execute, in_order, simulate_intergroup,
    sum,
};

/// What a stage is for.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Broadcast,
    TreeBroadcast,
    Reduction,
    Allgather,
    PipelinedAllgather,
    ReduceScatter,
    PipelinedReduceScatter,
    OrderedReduceScatter,
    Allreduce,
    OrderedAllreduce,
    Census,
    AllToAll,
    Pairwise,
    Gather,
    Scatter,
    BroadcastByLeaders,
    ReductionByLeaders,
    AllgatherByLeaders,
    ReduceScatterByLeaders,
    AllreduceByLeaders,
    AllgatherByLanes,
    ReduceScatterByLanes,
    AllreduceByLanes,
}

const KINDS: [Kind; 23] = [
    Kind::Broadcast,
    Kind::TreeBroadcast,
    Kind::Reduction,
    Kind::Allgather,
    Kind::PipelinedAllgather,
    Kind::ReduceScatter,
    Kind::PipelinedReduceScatter,
    Kind::OrderedReduceScatter,
    Kind::Allreduce,
    Kind::OrderedAllreduce,
    Kind::Census,
    Kind::AllToAll,
    Kind::Pairwise,
    Kind::Gather,
    Kind::Scatter,
    Kind::BroadcastByLeaders,
    Kind::ReductionByLeaders,
    Kind::AllgatherByLeaders,
    Kind::ReduceScatterByLeaders,
    Kind::AllreduceByLeaders,
    Kind::AllgatherByLanes,
    Kind::ReduceScatterByLanes,
    Kind::AllreduceByLanes,
];

impl Kind {
    fn combines(self) -> bool {
        matches!(
            self,
            Kind::Reduction
                | Kind::ReduceScatter
                | Kind::PipelinedReduceScatter
                | Kind::OrderedReduceScatter
                | Kind::Allreduce
                | Kind::OrderedAllreduce
                | Kind::Census
                | Kind::ReductionByLeaders
                | Kind::ReduceScatterByLeaders
                | Kind::AllreduceByLeaders
                | Kind::ReduceScatterByLanes
                | Kind::AllreduceByLanes
        )
    }

    fn keeps_order(self) -> bool {
        matches!(self, Kind::OrderedReduceScatter | Kind::OrderedAllreduce)
    }

    /// Whether its messages start at the start of the result.
    fn is_at_start(self) -> bool {
        matches!(
            self,
            Kind::AllToAll | Kind::Pairwise | Kind::Gather | Kind::Scatter
        )
    }

    fn is_by_leaders(self) -> bool {
        matches!(
            self,
            Kind::BroadcastByLeaders
                | Kind::ReductionByLeaders
                | Kind::AllgatherByLeaders
                | Kind::ReduceScatterByLeaders
                | Kind::AllreduceByLeaders
        )
    }

    fn is_by_lanes(self) -> bool {
        matches!(
            self,
            Kind::AllgatherByLanes | Kind::ReduceScatterByLanes | Kind::AllreduceByLanes
        )
    }
}

#[derive(Clone, Debug)]
struct DrawnStage {
    kind: Kind,
    root: Index,
    blocks: usize,
    segment: usize,
    in_place: bool,
    /// The weights by which the units are divided among the messages; evenly if none.
    weights: Option<Vec<usize>>,
}

#[derive(Clone, Debug)]
struct DrawnCall {
    /// The ranks, in the order of the team.
    ranks: Vec<usize>,
    rule: Rule,
    /// The nodes of the processes, again and again.
    nodes: Vec<u64>,
    /// Units of the stretch that is this call's own.
    length: usize,
    stages: Vec<DrawnStage>,
}

#[derive(Clone, Debug)]
struct Drawn {
    processes: usize,
    calls: Vec<DrawnCall>,
    pacing: Pacing,
    keeps_order: bool,
    seed: Option<u64>,
}

/// Mostly a few rounds, and up to the most that the settings accept.
fn pacings() -> impl Strategy<Value = Pacing> {
    let modes = [Synchronous::None, Synchronous::Unpaced, Synchronous::All];
    let ahead = || prop_oneof![2 => 1..9usize, 1 => 1..65usize];
    (ahead(), ahead(), prop::sample::select(modes.to_vec())).prop_map(
        |(window, sends, synchronous)| Pacing {
            window,
            sends,
            synchronous,
        },
    )
}

fn stages() -> impl Strategy<Value = DrawnStage> {
    let weights = prop::option::of(prop::collection::vec(0..5usize, 1..50));
    let kinds = prop::sample::select(KINDS.to_vec());
    let numbers = (1..20usize, 1..40usize);
    (kinds, any::<Index>(), numbers, any::<bool>(), weights).prop_map(
        |(kind, root, (blocks, segment), in_place, weights)| DrawnStage {
            kind,
            root,
            blocks,
            segment,
            in_place,
            weights,
        },
    )
}

/// Ranks of a communicator of `processes`: a stretch, a stride, or any, in any order.
fn teams(processes: usize) -> impl Strategy<Value = Vec<usize>> {
    let strided =
        (0..processes, 1..4usize, 1..=processes).prop_map(move |(first, stride, count)| {
            (first..processes)
                .step_by(stride)
                .take(count)
                .collect::<Vec<_>>()
        });
    let any = Just((0..processes).collect::<Vec<_>>())
        .prop_shuffle()
        .prop_flat_map(|ranks| prop::sample::subsequence(ranks.clone(), 1..=ranks.len()));
    prop_oneof![Just((0..processes).collect()), strided, any]
}

fn calls(processes: usize) -> impl Strategy<Value = DrawnCall> {
    let rules = prop::sample::select(<Rule as VariantArray>::VARIANTS.to_vec());
    let stages = prop::collection::vec(stages(), 1..4);
    let nodes = prop::collection::vec(0..9u64, 1..30);
    let team = (teams(processes), rules, nodes);
    (team, 0..120usize, stages).prop_map(|((ranks, rule, nodes), length, stages)| DrawnCall {
        ranks,
        rule,
        nodes,
        length,
        stages,
    })
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let processes = prop_oneof![1..10usize, 1..41usize];
    processes.prop_flat_map(|processes| {
        let calls = prop::collection::vec(calls(processes), 1..4);
        let seed = prop::option::weighted(0.9, any::<u64>());
        (calls, pacings(), any::<bool>(), seed).prop_map(
            move |(calls, pacing, keeps_order, seed)| Drawn {
                processes,
                calls,
                pacing,
                keeps_order,
                seed,
            },
        )
    })
}

/// The memories of all ranks as a serial computation has them; None where it is not said.
struct Serial {
    input: Vec<Vec<u64>>,
    result: Vec<Vec<Option<u64>>>,
    operator: Operator,
}

impl Serial {
    fn new(memories: &[Memory], operator: Operator) -> Serial {
        let said = |memory: &Memory| memory.result.iter().copied().map(Some).collect();
        Serial {
            input: memories.iter().map(|memory| memory.input.clone()).collect(),
            result: memories.iter().map(said).collect(),
            operator,
        }
    }

    /// Fails where a process has something else.
    fn compare(&self, memories: &[Memory]) -> Result<(), TestCaseError> {
        for (rank, memory) in memories.iter().enumerate() {
            let (input, result) = (&self.input[rank], &self.result[rank]);
            prop_assert_eq!(&memory.input, input, "the input of rank {}", rank);
            for (unit, (&found, &said)) in memory.result.iter().zip(result).enumerate() {
                prop_assert_eq!(said.unwrap_or(found), found, "rank {}, unit {}", rank, unit);
            }
        }
        Ok(())
    }

    /// `range` of all of `team`, combined; None if it is not said for one of them.
    fn combined(&self, team: &[usize], range: &Range<usize>, in_place: bool) -> Option<Vec<u64>> {
        let unit = |rank: usize, unit: usize| {
            if in_place {
                self.result[rank][unit]
            } else {
                Some(self.input[rank][unit])
            }
        };
        range
            .clone()
            .map(|index| {
                let mut units = team.iter().map(|&rank| unit(rank, index));
                let first = units.next()??;
                units.try_fold(first, |left, right| Some((self.operator)(left, right?)))
            })
            .collect()
    }

    fn said(&self, rank: usize, range: Range<usize>) -> Option<Vec<u64>> {
        self.result[rank][range].iter().copied().collect()
    }

    fn set(&mut self, rank: usize, start: usize, units: &[u64]) {
        for (place, &unit) in self.result[rank][start..].iter_mut().zip(units) {
            *place = Some(unit);
        }
    }

    fn set_all(&mut self, ranks: &[usize], start: usize, units: &[u64]) {
        let ranks = ranks.iter();
        ranks.for_each(|&rank| self.set(rank, start, units));
    }

    fn forget(&mut self, rank: usize, range: Range<usize>) {
        self.result[rank][range].fill(None);
    }

    fn forget_all(&mut self, ranks: &[usize], range: &Range<usize>) {
        let ranks = ranks.iter();
        ranks.for_each(|&rank| self.forget(rank, range.clone()));
    }
}

/// The messages of a stage.
fn messages(stage: &DrawnStage, range: &Range<usize>, size: usize) -> Vec<Span> {
    let Some(weights) = &stage.weights else {
        return even(range.clone(), size).collect();
    };
    let weight = |index: usize| weights[index % weights.len()];
    let unit = range.len() / (0..size).map(weight).sum::<usize>().max(1);
    let mut end = range.start;
    (0..size)
        .map(|index| {
            end += unit * weight(index);
            Span::at(end - unit * weight(index)..end)
        })
        .collect()
}

/// One stage of a call on all processes of the call's team.
struct OnTeam<'a> {
    stage: &'a DrawnStage,
    call: &'a DrawnCall,
    /// The stretch of the result that is the call's own.
    range: Range<usize>,
    /// The messages of the stage.
    parts: Vec<Span>,
    nodes: Arc<Nodes>,
    root: usize,
    in_place: bool,
}

/// What a stage has to leave, by kind of stage.
enum Outcome {
    /// These units of the range, at all processes.
    Everywhere(Vec<u64>),
    /// These units of the range, at the root; what others have of it is not said.
    AtRoot(Vec<u64>),
    /// These messages, at all processes.
    Gathered(Vec<Vec<u64>>),
    /// Each of these messages at its process; what others have of it is not said.
    Scattered(Vec<Vec<u64>>),
    /// The messages that each process starts from.
    Exchanged(Vec<Vec<u64>>),
    /// Messages to the root, or from there.
    Moved,
}

/// The nodes of processes that are on these, and of as many on each: in the same order, of as few
/// processes as there are of the first, or the next number that divides all.
fn equal_nodes(nodes: Vec<u64>) -> Vec<u64> {
    let p = nodes.len();
    let least = nodes.iter().filter(|&node| node == &nodes[0]).count();
    let size = (least..=p).find(|size| p % size == 0).unwrap_or(p);
    let mut processes: Vec<_> = (0..p).collect();
    processes.sort_by_key(|&process| nodes[process]);
    let mut equal = vec![0; p];
    for (place, process) in processes.into_iter().enumerate() {
        equal[process] = (place / size) as u64;
    }
    equal
}

fn result(span: &Span) -> Range<usize> {
    span.result..span.result + span.length
}

impl<'a> OnTeam<'a> {
    fn new(stage: &'a DrawnStage, call: &'a DrawnCall, range: Range<usize>) -> OnTeam<'a> {
        let p = call.ranks.len();
        let nodes = call.nodes.iter().copied().cycle().take(p);
        let nodes = match stage.kind.is_by_lanes() {
            true => equal_nodes(nodes.collect()),
            false => nodes.collect(),
        };
        OnTeam {
            stage,
            call,
            parts: messages(stage, &range, p),
            range,
            nodes: Arc::new(Nodes::of_keys(&nodes)),
            root: stage.root.index(p),
            in_place: stage.in_place && !matches!(stage.kind, Kind::Census),
        }
    }

    /// The units of a message where all are as long.
    fn each(&self) -> usize {
        self.range.len() / self.call.ranks.len()
    }

    /// Whether the kind has a meaning here.
    fn is_possible(&self) -> bool {
        let kind = self.stage.kind;
        (self.range.start == 0 || !kind.is_at_start())
            && (!kind.is_by_leaders() || self.nodes.count() > 1)
            && (!kind.is_by_lanes() || self.nodes.count() > 1 && self.nodes.are_equal())
    }

    /// What the stage has to leave; None if it starts from what is not said.
    fn outcome(&self, serial: &Serial) -> Option<Outcome> {
        let (ranks, kind) = (&self.call.ranks, self.stage.kind);
        match kind {
            Kind::Broadcast | Kind::TreeBroadcast | Kind::BroadcastByLeaders => {
                let units = serial.said(ranks[self.root], self.range.clone());
                units.map(Outcome::Everywhere)
            }
            Kind::Reduction | Kind::ReductionByLeaders => {
                let whole = serial.combined(ranks, &self.range, self.in_place);
                whole.map(Outcome::AtRoot)
            }
            Kind::Allreduce
            | Kind::OrderedAllreduce
            | Kind::Census
            | Kind::AllreduceByLeaders
            | Kind::AllreduceByLanes => {
                let whole = serial.combined(ranks, &self.range, self.in_place);
                whole.map(Outcome::Everywhere)
            }
            Kind::Allgather
            | Kind::PipelinedAllgather
            | Kind::AllgatherByLeaders
            | Kind::AllgatherByLanes => {
                let own = ranks.iter().zip(&self.parts);
                let units = own.map(|(&rank, part)| serial.said(rank, result(part)));
                units.collect::<Option<_>>().map(Outcome::Gathered)
            }
            Kind::ReduceScatter
            | Kind::PipelinedReduceScatter
            | Kind::OrderedReduceScatter
            | Kind::ReduceScatterByLeaders
            | Kind::ReduceScatterByLanes => {
                let parts = self.parts.iter();
                let combined =
                    parts.map(|part| serial.combined(ranks, &result(part), self.in_place));
                combined.collect::<Option<_>>().map(Outcome::Scattered)
            }
            Kind::Pairwise => {
                let end = self.each() * ranks.len();
                let before = ranks.iter().map(|&rank| serial.input[rank][..end].to_vec());
                Some(Outcome::Exchanged(before.collect()))
            }
            Kind::AllToAll | Kind::Gather | Kind::Scatter => {
                let end = self.each() * ranks.len();
                let before = ranks.iter().map(|&rank| serial.said(rank, 0..end));
                let before: Vec<_> = before.collect::<Option<_>>()?;
                Some(match kind {
                    Kind::AllToAll => Outcome::Exchanged(before),
                    _ => Outcome::Moved,
                })
            }
        }
    }

    /// Appends the stage of one process of the team.
    fn append(&self, team: &Team, stages: &mut Stages) {
        if self.stage.kind.is_by_leaders() || self.stage.kind.is_by_lanes() {
            return self.append_on_nodes(team, stages);
        }
        let DrawnStage {
            blocks, segment, ..
        } = *self.stage;
        let (root, in_place, each) = (self.root, self.in_place, self.each());
        let (range, messages) = (self.range.clone(), self.parts.iter().copied());
        let cutting = Cutting::in_strips(blocks, team.skips().q());
        match self.stage.kind {
            Kind::Broadcast => stages.broadcast(team, root, blocks, range),
            Kind::TreeBroadcast => stages.tree_broadcast(team, root, range),
            Kind::Reduction => stages.reduction(team, root, (blocks, cutting), range, in_place),
            Kind::Allgather => stages.allgather(team, messages, segment),
            Kind::PipelinedAllgather => stages.pipelined_allgather(team, messages, blocks),
            Kind::ReduceScatter => stages.reduce_scatter(team, messages, segment, in_place),
            Kind::PipelinedReduceScatter => {
                stages.pipelined_reduce_scatter(team, messages, (blocks, cutting), in_place);
            }
            Kind::OrderedReduceScatter => {
                stages.ordered_reduce_scatter(team, messages, segment, in_place);
            }
            Kind::Allreduce => stages.allreduce(team, range, segment, in_place),
            Kind::OrderedAllreduce => stages.ordered_allreduce(team, range, segment, in_place),
            Kind::Census => stages.census(team, range),
            Kind::AllToAll => stages.all_to_all(team, each),
            Kind::Pairwise => {
                let messages = consecutive(std::iter::repeat_n(each, team.size()));
                stages.pairwise(team, messages, segment);
            }
            Kind::Gather => stages.gather(team, root, each),
            Kind::Scatter => stages.scatter(team, root, each),
            kind => unreachable!("{kind:?} is on nodes"),
        }
    }

    fn append_on_nodes(&self, team: &Team, stages: &mut Stages) {
        let DrawnStage {
            blocks, segment, ..
        } = *self.stage;
        let DrawnCall { ranks, rule, .. } = self.call;
        let machine = Machine::new(self.nodes.clone(), ranks, team.place(), *rule);
        let (on, root, in_place) = ((team, &machine), self.root, self.in_place);
        let (range, messages) = (self.range.clone(), &self.parts);
        let cut = match blocks % 2 {
            0 => Cut::Blocks(blocks),
            _ => Cut::Segments(segment),
        };
        match self.stage.kind {
            Kind::BroadcastByLeaders => stages.broadcast_by_leaders(on, root, blocks, range),
            Kind::ReductionByLeaders => {
                stages.reduction_by_leaders(on, root, blocks, range, in_place);
            }
            Kind::AllgatherByLeaders => stages.allgather_by_leaders(on, messages, cut),
            Kind::ReduceScatterByLeaders => {
                stages.reduce_scatter_by_leaders(on, messages, cut, in_place);
            }
            Kind::AllreduceByLeaders => {
                stages.allreduce_by_leaders(on, range, segment, in_place);
            }
            Kind::AllgatherByLanes => {
                stages.allgather_by_lanes(on, messages.iter().copied(), segment);
            }
            Kind::ReduceScatterByLanes => {
                let messages = messages.iter().copied();
                stages.reduce_scatter_by_lanes(on, messages, segment, in_place);
            }
            Kind::AllreduceByLanes => {
                stages.allreduce_by_lanes(on, range, segment, in_place);
            }
            kind => unreachable!("{kind:?} is not on nodes"),
        }
    }

    /// Does serially what the stage is for. `stages` are those of the team's processes, this one
    /// the last of each.
    fn follow(&self, outcome: Outcome, stages: &[Stages], serial: &mut Serial) {
        let (ranks, start) = (&self.call.ranks, self.range.start);
        match outcome {
            Outcome::Everywhere(units) => serial.set_all(ranks, start, &units),
            Outcome::AtRoot(units) => {
                serial.forget_all(ranks, &self.range);
                serial.set(ranks[self.root], start, &units);
            }
            Outcome::Gathered(all) => {
                for (part, units) in self.parts.iter().zip(all) {
                    serial.set_all(ranks, part.result, &units);
                }
            }
            Outcome::Scattered(all) => {
                let parts = self.parts.iter();
                parts.for_each(|part| serial.forget_all(ranks, &result(part)));
                for ((&rank, part), units) in ranks.iter().zip(&self.parts).zip(all) {
                    serial.set(rank, part.result, &units);
                }
            }
            Outcome::Exchanged(before) => self.exchange(&before, serial),
            Outcome::Moved => self.move_messages(stages, serial),
        }
    }

    /// Message e of each process, to the e-th after it.
    fn exchange(&self, before: &[Vec<u64>], serial: &mut Serial) {
        let (ranks, each, p) = (&self.call.ranks, self.each(), self.call.ranks.len());
        for (place, &rank) in ranks.iter().enumerate() {
            for message in 0..p {
                let sent = &before[(place + p - message) % p];
                let range = message * each..(message + 1) * each;
                serial.set(rank, range.start, &sent[range]);
            }
        }
    }

    /// A gather, or a scatter. Where messages are differs from process to process.
    fn move_messages(&self, stages: &[Stages], serial: &mut Serial) {
        let (ranks, each, root) = (&self.call.ranks, self.each(), self.root);
        let place_of = |process: usize, message: usize| {
            let start = stages[process].as_slice().last().unwrap().view.messages[message].result;
            start..start + each
        };
        let ends = |message| match self.stage.kind {
            Kind::Gather => (message, root),
            _ => (root, message),
        };
        let read = |message| {
            let (source, _) = ends(message);
            let place = place_of(source, message);
            serial.said(ranks[source], place).unwrap()
        };
        let moved: Vec<_> = (0..ranks.len()).map(read).collect();
        let others = ranks.iter().enumerate().filter(|&(place, _)| place != root);
        others.for_each(|(_, &rank)| serial.forget(rank, 0..each * ranks.len()));
        for (message, units) in moved.iter().enumerate() {
            let (_, target) = ends(message);
            serial.set(ranks[target], place_of(target, message).start, units);
        }
    }
}

/// The stages of a call on all processes; and what they are for is done serially. A stage that has
/// no meaning after those before it is left out.
fn prepare(
    call: &DrawnCall,
    range: Range<usize>,
    drawn: &Drawn,
    serial: &mut Serial,
) -> Vec<Stages> {
    let graph = Arc::new(Graph::new(call.ranks.len(), call.rule));
    let ranks = Ranks::of(&call.ranks);
    let teams: Vec<_> = (0..call.ranks.len())
        .map(|place| Team::new(graph.clone(), ranks.clone(), place))
        .collect();
    let mut stages: Vec<_> = teams.iter().map(|_| Stages::default()).collect();
    for stage in &call.stages {
        let on_team = OnTeam::new(stage, call, range.clone());
        let is_refused = drawn.keeps_order && stage.kind.combines() && !stage.kind.keeps_order();
        if is_refused || !on_team.is_possible() {
            continue;
        }
        if let Some(outcome) = on_team.outcome(serial) {
            let all = teams.iter().zip(&mut stages);
            all.for_each(|(team, stages)| on_team.append(team, stages));
            on_team.follow(outcome, &stages, serial);
        }
    }
    let mut by_rank: Vec<_> = (0..drawn.processes).map(|_| Stages::default()).collect();
    for (&rank, stages) in call.ranks.iter().zip(stages) {
        by_rank[rank] = stages;
    }
    by_rank
}

/// The memory of a process of which all units differ.
fn distinct(rank: usize, length: usize) -> Memory {
    let units = |kind| (0..length).map(move |unit| contribution(rank, kind, unit));
    Memory {
        input: units(0).collect(),
        result: units(1).collect(),
    }
}

/// Runs what was drawn, and compares what every process has with the serial computation.
fn check(drawn: &Drawn) -> Result<(), TestCaseError> {
    let total: usize = drawn.calls.iter().map(|call| call.length).sum();
    let memories: Vec<_> = (0..drawn.processes)
        .map(|rank| distinct(rank, total))
        .collect();
    let operator = if drawn.keeps_order { in_order } else { sum };
    let mut serial = Serial::new(&memories, operator);
    let mut end = 0;
    let calls = drawn.calls.iter().map(|call| {
        end += call.length;
        prepare(call, end - call.length..end, drawn, &mut serial)
    });
    let calls = calls.collect();
    let conditions = Conditions {
        pacing: drawn.pacing,
        operator,
        seed: drawn.seed,
    };
    let executed = execute(memories, calls, conditions);
    let executed = executed.map_err(|failure| TestCaseError::fail(format!("{failure:?}")))?;
    serial.compare(&executed.memories)
}

fn intergroups() -> impl Strategy<Value = Intergroup> {
    let lengths = || prop::collection::vec(0..30usize, 1..16);
    let divisions = prop::sample::select(vec![Division::Evenly, Division::ByBlocks]);
    let rules = prop::sample::select(<Rule as VariantArray>::VARIANTS.to_vec());
    let seeds = prop::option::weighted(0.9, any::<u64>());
    let how = (divisions, 1..40usize, rules, pacings(), seeds);
    ([lengths(), lengths()], how).prop_map(
        |(mut lengths, (division, segment, rule, pacing, seed))| {
            if division == Division::ByBlocks {
                for group in &mut lengths {
                    let first = group[0];
                    group.fill(first);
                }
            }
            Intergroup {
                lengths,
                division,
                segment,
                rule,
                pacing,
                seed,
            }
        },
    )
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(ProptestConfig::default().cases.max(4096))
    }
}

proptest! {
    #![proptest_config(config())]

    /// Several calls at once, each of several stages on a team of its own.
    #[test]
    fn stages_do_what_they_are_for(drawn in drawn()) {
        check(&drawn)?;
    }

    #[test]
    fn groups_gather_each_other_s_elements(problem in intergroups()) {
        let outcome = simulate_intergroup(&problem);
        prop_assert!(outcome.is_ok(), "{:?}", outcome);
    }
}
