//! Broadcast, reduction, allgather, reduce-scatter and allreduce between the leaders of nodes, each
//! of which has what its node brings, and gets what its node needs: see [`Across`]. Within a node
//! that goes in memory that its processes share.
//!
//! The lowest rank of a node leads it, but a root its own node. Reductions are in place: what a
//! node brings was combined where the result goes.

use std::ops::Range;
use std::sync::Arc;

use super::{Span, Stages, broadcast};
use crate::nodes::Nodes;
use crate::plan::{
    Across, AnyPlan, Broadcast, Doubling, Heads, Messages, PipelinedAllgather, Plan, Reversed,
};
use crate::select::Cut;
use crate::team::{Machine, Team};

impl Stages {
    /// `range` from `root`, in `blocks` blocks, on a team of all of the machine's processes.
    pub fn broadcast_across(
        &mut self,
        (team, machine): (&Team, &Machine),
        root: usize,
        blocks: usize,
        range: Range<usize>,
    ) {
        self.add(team, true, [Span::at(range)], |_| {
            from_root(machine, root, blocks)
        });
    }

    /// `range`, combined at `root`, in `blocks` blocks.
    pub fn reduction_across(
        &mut self,
        (team, machine): (&Team, &Machine),
        root: usize,
        blocks: usize,
        range: Range<usize>,
    ) {
        self.add(team, true, [Span::at(range)], |_| {
            Reversed(from_root(machine, root, blocks))
        });
    }

    /// The messages of each node from its leader, in steps or blocks of so many units.
    pub fn allgather_across(
        &mut self,
        (team, machine): (&Team, &Machine),
        messages: impl IntoIterator<Item = Span>,
        cut: Cut,
    ) {
        let lowest = Heads::Lowest;
        self.add(team, true, messages, |view| match cut {
            Cut::Blocks(blocks) => {
                AnyPlan::from(pipelined(machine, lowest, &view.messages, blocks))
            }
            Cut::Segments(segment) => doubling(machine, lowest, &view.messages, segment).into(),
        });
    }

    /// The messages of each node combined at its leader, in steps or blocks of so many units.
    pub fn reduce_scatter_across(
        &mut self,
        (team, machine): (&Team, &Machine),
        messages: impl IntoIterator<Item = Span>,
        cut: Cut,
    ) {
        let lowest = Heads::Lowest;
        self.add(team, true, messages, |view| match cut {
            Cut::Blocks(blocks) => {
                let forward = pipelined(machine, lowest, &view.messages, blocks);
                AnyPlan::from(Reversed(forward))
            }
            Cut::Segments(segment) => {
                Reversed(doubling(machine, lowest, &view.messages, segment)).into()
            }
        });
    }

    /// `range`, combined at all leaders, each of which combines an even part of it.
    pub fn allreduce_across(&mut self, on: (&Team, &Machine), range: Range<usize>, cut: Cut) {
        let nodes = &on.1.nodes;
        let mut parts = vec![Span::at(range.start..range.start); nodes.processes()];
        for (node, part) in super::even(range, nodes.count()).enumerate() {
            parts[nodes.ranks(node)[0]] = part;
        }
        self.reduce_scatter_across(on, parts.iter().copied(), cut);
        self.allgather_across(on, parts, cut);
    }
}

/// The rounds of a broadcast from the leader of `root`'s node, which is `root`.
pub(super) fn from_root(machine: &Machine, root: usize, blocks: usize) -> Across<Broadcast> {
    let plan = broadcast(&machine.leaders, machine.nodes.node(root), blocks);
    across(machine, plan, Heads::Root(root), Messages::Whole)
}

/// Those of an allgather of these messages of all ranks, in blocks.
pub(super) fn pipelined(
    machine: &Machine,
    heads: Heads,
    messages: &[Span],
    blocks: usize,
) -> Across<PipelinedAllgather> {
    let lengths = lengths_of_nodes(&machine.nodes, messages);
    let plan = super::pipelined(&machine.leaders, lengths, blocks);
    across(machine, plan, heads, Messages::OfRanks)
}

/// The same in one block; in as many steps as suit the messages of several lanes, each of all
/// ranks.
pub(super) fn doubling(
    machine: &Machine,
    heads: Heads,
    messages: &[Span],
    segment: usize,
) -> Across<Doubling> {
    let lanes = messages.chunks(machine.nodes.processes());
    let lengths = lanes.flat_map(|messages| lengths_of_nodes(&machine.nodes, messages));
    let longest = lengths.max().unwrap_or(0);
    let plan = super::doubling(&machine.leaders, longest, segment);
    across(machine, plan, heads, Messages::OfRanks)
}

fn across<P: Plan>(machine: &Machine, plan: P, heads: Heads, messages: Messages) -> Across<P> {
    let place = (Arc::clone(&machine.nodes), machine.place);
    Across::new(plan, place, heads, messages)
}

/// By node, the units of all messages of its ranks.
pub fn lengths_of_nodes<'a>(
    nodes: &'a Nodes,
    messages: &'a [Span],
) -> impl Iterator<Item = usize> + 'a {
    (0..nodes.count()).map(|node| {
        let ranks = nodes.ranks(node).iter();
        ranks.map(|&rank| messages[rank].length).sum()
    })
}
