//! Stages: an algorithm is a list of plans, each on a team and on a view of the data.
//!
//! A plan moves and combines numbered messages. A [`View`] says where these are: each message is a
//! stretch of the input, and a stretch of the result. The stages of a call run one after the other,
//! and each finds its input where the one before has left it.

#![forbid(unsafe_code)]

mod across;
mod between_groups;
mod cutting;
mod lanes;
mod leaders;

pub use across::lengths_of_nodes;
pub use between_groups::Groups;
pub use cutting::Cutting;
pub use lanes::Lanes;
pub use leaders::{lane_of, shares};

use std::ops::Range;

use crate::plan::{
    AllToAll, AnyPlan, Block, Broadcast, Census, Doubling, Gather, Ordered, Pairwise,
    PipelinedAllgather, Plan, Reversed, Scatter, Segments, Succession, TreeBroadcast, block_range,
};
use crate::team::Team;
use crate::transport::{Place, Space};

/// Where one message, or one block of it, is, in units: bytes of packed data where blocks are
/// stored, elements where they are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Where it starts in the input.
    pub input: usize,
    /// Where it starts in the result.
    pub result: usize,
    /// Its units, the same on every process.
    pub length: usize,
}

impl Span {
    /// The same stretch of input and result.
    pub fn at(range: Range<usize>) -> Span {
        Span {
            input: range.start,
            result: range.start,
            length: range.len(),
        }
    }
}

/// `range`, cut evenly into `parts` messages.
pub fn even(range: Range<usize>, parts: usize) -> impl Iterator<Item = Span> {
    (0..parts).map(move |index| {
        let part = block_range(range.len(), parts, index);
        Span::at(range.start + part.start..range.start + part.end)
    })
}

/// Messages of `lengths` units, one after the other.
pub fn consecutive(lengths: impl IntoIterator<Item = usize>) -> impl Iterator<Item = Span> {
    let mut end = 0;
    lengths.into_iter().map(move |length| {
        end += length;
        Span::at(end - length..end)
    })
}

/// Where the messages of a plan are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The messages.
    pub messages: Vec<Span>,
    /// Whether the input is where the result goes.
    pub in_place: bool,
    /// How the messages are cut into blocks.
    pub cutting: Cutting,
}

impl View {
    /// Where a block is.
    #[inline(always)]
    pub fn span(&self, block: Block) -> Span {
        let message = self.messages[block.message];
        let range = self.cutting.range(block, message.length);
        Span {
            input: message.input + range.start,
            result: message.result + range.start,
            length: range.len(),
        }
    }

    /// Where a block is in the input.
    pub fn input(&self, span: Span) -> Place {
        let space = if self.in_place {
            Space::Result
        } else {
            Space::Input
        };
        Place {
            space,
            offset: span.input,
        }
    }

    /// Where a block is in the result.
    pub fn result(&self, span: Span) -> Place {
        Place {
            space: Space::Result,
            offset: span.result,
        }
    }

    /// The units of each message.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        self.messages.iter().map(|span| span.length)
    }

    /// The units of the longest message.
    pub fn longest(&self) -> usize {
        self.lengths().max().unwrap_or(0)
    }
}

/// One plan of a call.
pub struct Stage {
    /// The rounds.
    pub plan: AnyPlan,
    /// Which ranks its processes are.
    pub team: Team,
    /// Where its messages are.
    pub view: View,
}

/// The stages of a call. The list keeps its memory, so that one that is filled again and again
/// allocates nothing.
#[derive(Default)]
pub struct Stages {
    stages: Vec<Stage>,
    used: usize,
}

impl Stages {
    /// Forgets the stages.
    pub fn clear(&mut self) {
        for stage in &mut self.stages[..self.used] {
            stage.plan = AnyPlan::Nothing;
        }
        self.used = 0;
    }

    /// Appends a stage on `team` with these messages, and a plan made from its view.
    pub fn add<P: Into<AnyPlan>>(
        &mut self,
        team: &Team,
        in_place: bool,
        messages: impl IntoIterator<Item = Span>,
        plan: impl FnOnce(&View) -> P,
    ) {
        if self.used == self.stages.len() {
            self.stages.push(Stage {
                plan: AnyPlan::Nothing,
                team: team.clone(),
                view: View::default(),
            });
        }
        let stage = &mut self.stages[self.used];
        self.used += 1;
        stage.team.clone_from(team);
        stage.view.in_place = in_place;
        stage.view.cutting = Cutting::Even;
        stage.view.messages.clear();
        stage.view.messages.extend(messages);
        stage.plan = plan(&stage.view).into();
    }

    /// The stages, in order.
    pub fn as_slice(&self) -> &[Stage] {
        &self.stages[..self.used]
    }

    /// The rounds of all stages. Rounds that are run at once count as one.
    pub fn rounds(&self) -> usize {
        let shapes = self.as_slice().iter().map(|stage| stage.plan.shape());
        shapes.map(|shape| shape.rounds / shape.at_once).sum()
    }

    /// The most blocks of any message, without those that are always empty.
    pub fn blocks(&self) -> usize {
        let of = |stage: &Stage| stage.view.cutting.with_data(stage.plan.shape().blocks);
        self.as_slice().iter().map(of).max().unwrap_or(0)
    }
}

impl Stages {
    /// `range` from `root` to all, in `blocks` blocks.
    pub fn broadcast(&mut self, team: &Team, root: usize, blocks: usize, range: Range<usize>) {
        self.add(team, true, [Span::at(range)], |_| {
            broadcast(team, root, blocks)
        });
    }

    /// `range` from `root` to all, along the tree of successive broadcasts.
    pub fn tree_broadcast(&mut self, team: &Team, root: usize, range: Range<usize>) {
        self.add(team, true, [Span::at(range)], |_| {
            TreeBroadcast::new(Succession::new(team.size()).tree_from(root), team.place())
        });
    }

    /// `range`, combined at `root`, in n blocks that are cut so.
    pub fn reduction(
        &mut self,
        team: &Team,
        root: usize,
        (n, cutting): (usize, Cutting),
        range: Range<usize>,
        in_place: bool,
    ) {
        self.add(team, in_place, [Span::at(range)], |_| {
            Reversed(broadcast(team, root, cutting.blocks_of_plan(n)))
        });
        self.cut(cutting);
    }

    /// Cuts the messages of the last stage into blocks.
    fn cut(&mut self, cutting: Cutting) {
        self.stages[self.used - 1].view.cutting = cutting;
    }

    /// A message of `length` units from each process to `root`. They are in the result in the order
    /// in which they are sent on.
    pub fn gather(&mut self, team: &Team, root: usize, length: usize) {
        let plan = Gather::new(team.sequence(), team.place(), root);
        self.add(team, true, [], |_| plan);
        self.lay_out(team, root, length);
    }

    /// A message of `length` units from `root` to each process, laid out as in a gather.
    pub fn scatter(&mut self, team: &Team, root: usize, length: usize) {
        let plan = Gather::new(team.sequence(), team.place(), root);
        self.add(team, true, [], |_| Scatter(plan));
        self.lay_out(team, root, length);
    }

    /// Puts the messages of the last stage in the order of a gather. Messages that never come to
    /// this process are given the place of the first one.
    fn lay_out(&mut self, team: &Team, root: usize, length: usize) {
        let messages = &mut self.stages[self.used - 1].view.messages;
        messages.resize(team.size(), Span::at(0..length));
        let mut start = 0;
        let plan = Gather::new(team.sequence(), team.place(), root);
        plan.visit_messages(&mut |message| {
            messages[message] = Span::at(start..start + length);
            start += length;
        });
    }
}

fn broadcast(team: &Team, root: usize, blocks: usize) -> Broadcast {
    Broadcast::new(team.skips(), team.schedules(root), team.place(), blocks)
}

impl Stages {
    /// Message j from process j to all, for all j, in one block, in steps of about `segment` units.
    pub fn allgather(
        &mut self,
        team: &Team,
        messages: impl IntoIterator<Item = Span>,
        segment: usize,
    ) {
        self.add(team, true, messages, |view| {
            doubling(team, view.longest(), segment)
        });
    }

    /// Message j combined at process j, for all j, in one block, in steps of about `segment` units.
    pub fn reduce_scatter(
        &mut self,
        team: &Team,
        messages: impl IntoIterator<Item = Span>,
        segment: usize,
        in_place: bool,
    ) {
        self.add(team, in_place, messages, |view| {
            Reversed(doubling(team, view.longest(), segment))
        });
    }

    /// Message j from process j to all, for all j, in `blocks` blocks.
    pub fn pipelined_allgather(
        &mut self,
        team: &Team,
        messages: impl IntoIterator<Item = Span>,
        blocks: usize,
    ) {
        self.add(team, true, messages, |view| {
            pipelined(team, view.lengths(), blocks)
        });
    }

    /// Message j combined at process j, for all j, in n blocks that are cut so.
    pub fn pipelined_reduce_scatter(
        &mut self,
        team: &Team,
        messages: impl IntoIterator<Item = Span>,
        (n, cutting): (usize, Cutting),
        in_place: bool,
    ) {
        self.add(team, in_place, messages, |view| {
            Reversed(pipelined(team, view.lengths(), cutting.blocks_of_plan(n)))
        });
        self.cut(cutting);
    }

    /// Message j combined at process j in the order of the ranks, for all j, in steps of about
    /// `segment` units.
    pub fn ordered_reduce_scatter(
        &mut self,
        team: &Team,
        messages: impl IntoIterator<Item = Span>,
        segment: usize,
        in_place: bool,
    ) {
        self.add(team, in_place, messages, |view| {
            let blocks = Segments::new(view.longest(), segment).blocks();
            Ordered::new(team.size(), team.place(), blocks)
        });
    }

    /// `range`, combined at all processes, in steps of about `segment` units: a reduce-scatter, and
    /// an allgather of its results.
    pub fn allreduce(&mut self, team: &Team, range: Range<usize>, segment: usize, in_place: bool) {
        let parts = || even(range.clone(), team.size());
        self.reduce_scatter(team, parts(), segment, in_place);
        self.allgather(team, parts(), segment);
    }

    /// The same in the order of the ranks.
    pub fn ordered_allreduce(
        &mut self,
        team: &Team,
        range: Range<usize>,
        segment: usize,
        in_place: bool,
    ) {
        let parts = || even(range.clone(), team.size());
        self.ordered_reduce_scatter(team, parts(), segment, in_place);
        self.allgather(team, parts(), segment);
    }

    /// `range`, combined at all processes, as a whole in each round. The input is not in place.
    pub fn census(&mut self, team: &Team, range: Range<usize>) {
        self.add(team, false, [Span::at(range)], |_| {
            Census::new(team.skips(), team.place())
        });
    }

    /// Message e, of `length` units, from each process to the e-th after it, for all e.
    pub fn all_to_all(&mut self, team: &Team, length: usize) {
        let messages = consecutive(std::iter::repeat_n(length, team.size()));
        self.add(team, true, messages, |_| {
            AllToAll::new(team.sequence(), team.routes(), team.place())
        });
    }

    /// Message e, of the input, from each process to the e-th after it, for all e, straight and in
    /// steps of about `segment` units. What arrives is message e of the result.
    pub fn pairwise(
        &mut self,
        team: &Team,
        messages: impl IntoIterator<Item = Span>,
        segment: usize,
    ) {
        self.add(team, false, messages, |view| {
            let segments = Segments::new(view.longest(), segment);
            Pairwise::new(team.size(), team.place(), segments)
        });
    }
}

/// For messages of at most `longest` units.
fn doubling(team: &Team, longest: usize, segment: usize) -> Doubling {
    let segments = Segments::new(longest, segment);
    Doubling::new(team.sequence(), team.place(), segments)
}

/// For messages of `lengths` units.
fn pipelined(
    team: &Team,
    lengths: impl Iterator<Item = usize>,
    blocks: usize,
) -> PipelinedAllgather {
    let filled = team.filled(lengths);
    PipelinedAllgather::new(team.skips(), team.table(), filled, team.place(), blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Rule;

    /// Those of the stage that has the most. The last of a reduction in strips has no data.
    #[test]
    fn blocks_are_those_with_data() {
        let team = Team::whole(9, 0, Rule::default());
        let mut stages = Stages::default();
        assert_eq!(stages.blocks(), 0);
        stages.census(&team, 0..100);
        assert_eq!(stages.blocks(), 1);
        stages.reduction(&team, 0, (8, Cutting::in_strips(8, 4)), 0..100, false);
        assert_eq!(stages.blocks(), 8);
        stages.broadcast(&team, 0, 5, 0..100);
        assert_eq!(stages.blocks(), 8);
        stages.broadcast(&team, 0, 13, 0..100);
        assert_eq!(stages.blocks(), 13);
        stages.clear();
        assert_eq!(stages.blocks(), 0);
    }
}
