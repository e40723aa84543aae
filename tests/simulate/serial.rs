//! What calls of stages on teams have to leave, by a serial computation; and whether the engine leaves
//! that in the simulator. Who draws the calls is not known here: `drawn` does, and the targets of
//! coverage-guided fuzzing.

#![allow(clippy::unwrap_used)] // Values that are said, as was looked at before.

use std::ops::Range;
use std::sync::Arc;

use circulant::engine::Pacing;
use circulant::nodes::Nodes;
use circulant::schedule::Rule;
use circulant::select::Cut;
use circulant::stage::{Cutting, Span, Stages, consecutive, even, shares};
use circulant::team::{Graph, Machine, Ranks, Team};

use crate::simulator::{
    Chance, Conditions, Memory, Operator, contribution, execute, in_order, sum,
};

/// What a stage is for.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
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
    BroadcastByLanes,
    ReductionByLanes,
    AllgatherByLanes,
    ReduceScatterByLanes,
    AllreduceByLanes,
}

pub const KINDS: [Kind; 25] = [
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
    Kind::BroadcastByLanes,
    Kind::ReductionByLanes,
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
                | Kind::ReductionByLanes
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
        self.is_by_equal_lanes() || matches!(self, Kind::BroadcastByLanes | Kind::ReductionByLanes)
    }

    /// Whether all processes of a node have lanes, and nodes as many.
    fn is_by_equal_lanes(self) -> bool {
        matches!(
            self,
            Kind::AllgatherByLanes | Kind::ReduceScatterByLanes | Kind::AllreduceByLanes
        )
    }
}

#[derive(Clone, Debug)]
pub struct DrawnStage {
    pub kind: Kind,
    /// The root, or as many times the team's processes more.
    pub root: usize,
    pub blocks: usize,
    pub segment: usize,
    pub in_place: bool,
    /// The weights by which the units are divided among the messages; evenly if none.
    pub weights: Option<Vec<usize>>,
}

#[derive(Clone, Debug)]
pub struct DrawnCall {
    /// The ranks, in the order of the team.
    pub ranks: Vec<usize>,
    pub rule: Rule,
    /// The nodes of the processes, again and again.
    pub nodes: Vec<u64>,
    /// Units of the stretch that is this call's own.
    pub length: usize,
    pub stages: Vec<DrawnStage>,
}

#[derive(Clone, Debug)]
pub struct Drawn {
    pub processes: usize,
    pub calls: Vec<DrawnCall>,
    pub pacing: Pacing,
    pub keeps_order: bool,
    pub chance: Option<Chance>,
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
    fn compare(&self, memories: &[Memory]) -> Result<(), String> {
        for (rank, memory) in memories.iter().enumerate() {
            let (input, result) = (&self.input[rank], &self.result[rank]);
            if &memory.input != input {
                return Err(format!("the input of rank {rank} has changed"));
            }
            for (unit, (&found, &said)) in memory.result.iter().zip(result).enumerate() {
                if said.is_some_and(|said| said != found) {
                    return Err(format!(
                        "rank {rank}, unit {unit}: {found:x}, not {said:x?}"
                    ));
                }
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
        let nodes = match stage.kind.is_by_equal_lanes() {
            true => equal_nodes(nodes.collect()),
            false => nodes.collect(),
        };
        OnTeam {
            stage,
            call,
            parts: messages(stage, &range, p),
            range,
            nodes: Arc::new(Nodes::of_keys(&nodes)),
            root: stage.root % p,
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
            && (!(kind.is_by_leaders() || kind.is_by_lanes()) || self.nodes.count() > 1)
            && (!kind.is_by_equal_lanes() || self.nodes.are_equal())
    }

    /// What the stage has to leave; None if it starts from what is not said.
    fn outcome(&self, serial: &Serial) -> Option<Outcome> {
        let (ranks, kind) = (&self.call.ranks, self.stage.kind);
        match kind {
            Kind::Broadcast
            | Kind::TreeBroadcast
            | Kind::BroadcastByLeaders
            | Kind::BroadcastByLanes => {
                let units = serial.said(ranks[self.root], self.range.clone());
                units.map(Outcome::Everywhere)
            }
            Kind::Reduction | Kind::ReductionByLeaders | Kind::ReductionByLanes => {
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
        let smallest = (0..self.nodes.count()).map(|node| self.nodes.ranks(node).len());
        let lanes = 1 + segment % smallest.min().unwrap_or(1);
        match self.stage.kind {
            Kind::BroadcastByLanes => {
                stages.broadcast_by_lanes(on, root, (blocks, lanes), range);
            }
            Kind::ReductionByLanes => {
                stages.reduction_by_lanes(on, root, (blocks, lanes), range, in_place);
            }
            Kind::BroadcastByLeaders => stages.broadcast_by_leaders(on, root, blocks, range),
            Kind::ReductionByLeaders => {
                stages.reduction_by_leaders(on, root, blocks, range, in_place);
            }
            Kind::AllgatherByLeaders => {
                stages.allgather_by_leaders(on, &shares(messages, lanes), cut);
            }
            Kind::ReduceScatterByLeaders => {
                stages.reduce_scatter_by_leaders(on, &shares(messages, lanes), cut, in_place);
            }
            Kind::AllreduceByLeaders => {
                stages.allreduce_by_leaders(on, range, (segment, lanes), in_place);
            }
            Kind::AllgatherByLanes => {
                let cut = (Cut::Segments(segment), self.nodes.largest());
                stages.allgather_by_lanes(on, messages, cut);
            }
            Kind::ReduceScatterByLanes => {
                let messages = messages.iter().copied();
                stages.reduce_scatter_by_all_lanes(on, messages, segment, in_place);
            }
            Kind::AllreduceByLanes => {
                let cut = (segment, self.nodes.largest());
                stages.allreduce_by_lanes(on, range, cut, in_place);
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
pub fn check(drawn: &Drawn) -> Result<(), String> {
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
        chance: drawn.chance.clone(),
    };
    let executed = execute(memories, calls, conditions);
    let executed = executed.map_err(|failure| format!("{failure:?}"))?;
    serial.compare(&executed.memories)
}
