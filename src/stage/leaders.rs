//! The same algorithms on nodes with several processes, by a leader of each: see [`Leaders`].
//!
//! An allgather first gathers the messages of each node at its leader, in k - 1 rounds for a node
//! of k processes. A reduce-scatter ends with the reverse: it scatters them from the leader. The
//! leader of a node is the process with the longest message, so that this message need not be sent
//! to a leader first.

use std::ops::Range;
use std::sync::Arc;

use super::{Span, Stages, View, broadcast};
use crate::nodes::Nodes;
use crate::plan::{
    AnyPlan, Broadcast, Direct, Doubling, Heads, Leaders, Messages, PipelinedAllgather, Plan,
    Reversed,
};
use crate::select::Cut;
use crate::team::{Machine, Team};

/// Whether this process gathers the messages of its node, or scatters them.
pub fn leads(machine: &Machine, messages: &[Span]) -> bool {
    head_of_own(machine, &heads(&machine.nodes, messages)) == machine.node.place()
}

impl Stages {
    /// `range` from `root` to all, in `blocks` blocks, on a team of all of the machine's processes.
    pub fn broadcast_by_leaders(
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
    pub fn reduction_by_leaders(
        &mut self,
        (team, machine): (&Team, &Machine),
        root: usize,
        blocks: usize,
        range: Range<usize>,
        in_place: bool,
    ) {
        self.add(team, in_place, [Span::at(range)], |_| {
            Reversed(from_root(machine, root, blocks))
        });
    }

    /// Message j from rank j to all, for all j. Steps are of about so many units.
    pub fn allgather_by_leaders(
        &mut self,
        (team, machine): (&Team, &Machine),
        messages: &[Span],
        cut: Cut,
    ) {
        let heads = heads(&machine.nodes, messages);
        let of_node = of_node(machine, messages);
        let (node, head) = (&machine.node, head_of_own(machine, &heads));
        self.add(node, true, of_node, |_| {
            Direct::gather(node.size(), node.place(), head)
        });
        let messages = messages.iter().copied();
        self.add(team, true, messages, |view| match cut {
            Cut::Blocks(blocks) => AnyPlan::from(pipelined(machine, heads, view, blocks)),
            Cut::Segments(segment) => doubling(machine, heads, view, segment).into(),
        });
    }

    /// Message j combined at rank j, for all j. Steps are of about so many units. The results of
    /// all messages of a node have room at its leader.
    pub fn reduce_scatter_by_leaders(
        &mut self,
        (team, machine): (&Team, &Machine),
        messages: &[Span],
        cut: Cut,
        in_place: bool,
    ) {
        let heads = heads(&machine.nodes, messages);
        self.add(team, in_place, messages.iter().copied(), |view| match cut {
            Cut::Blocks(blocks) => {
                AnyPlan::from(Reversed(pipelined(machine, heads.clone(), view, blocks)))
            }
            Cut::Segments(segment) => {
                Reversed(doubling(machine, heads.clone(), view, segment)).into()
            }
        });
        let of_node = of_node(machine, messages).map(|span| Span {
            input: span.result,
            ..span
        });
        let (node, head) = (&machine.node, head_of_own(machine, &heads));
        self.add(node, true, of_node, |_| {
            Direct::scatter(node.size(), node.place(), head)
        });
    }

    /// `range`, combined at all processes. Each node combines an even part of it, at its lowest
    /// rank.
    pub fn allreduce_by_leaders(
        &mut self,
        (team, machine): (&Team, &Machine),
        range: Range<usize>,
        segment: usize,
        in_place: bool,
    ) {
        let nodes = &machine.nodes;
        let mut messages = vec![Span::at(range.start..range.start); nodes.processes()];
        for (node, part) in super::even(range, nodes.count()).enumerate() {
            messages[nodes.ranks(node)[0]] = part;
        }
        let heads = Heads::Lowest;
        self.add(team, in_place, messages.iter().copied(), |view| {
            Reversed(doubling(machine, heads.clone(), view, segment))
        });
        self.add(team, true, messages, |view| {
            doubling(machine, heads, view, segment)
        });
    }
}

/// The rank with the longest message leads its node, the lowest of several.
fn heads(nodes: &Nodes, messages: &[Span]) -> Heads {
    let head = |node: usize| {
        let ranks = nodes.ranks(node).iter().copied();
        ranks.rev().max_by_key(|&rank| messages[rank].length)
    };
    let is_lowest = |node: usize| head(node) == nodes.ranks(node).first().copied();
    if (0..nodes.count()).all(is_lowest) {
        return Heads::Lowest;
    }
    Heads::Listed((0..nodes.count()).filter_map(head).collect())
}

/// The messages of the ranks of this node.
fn of_node<'a>(machine: &'a Machine, messages: &'a [Span]) -> impl Iterator<Item = Span> + 'a {
    let ranks = machine.nodes.ranks(machine.nodes.node(machine.place));
    ranks.iter().map(|&rank| messages[rank])
}

/// The place of the leader in this node.
fn head_of_own(machine: &Machine, heads: &Heads) -> usize {
    let nodes = &machine.nodes;
    nodes.place(heads.of(nodes.node(machine.place), nodes))
}

fn from_root(machine: &Machine, root: usize, blocks: usize) -> Leaders<Broadcast> {
    let across = broadcast(&machine.leaders, machine.nodes.node(root), blocks);
    lead(machine, across, Heads::Root(root), Messages::Whole)
}

fn lead<P: Plan>(machine: &Machine, across: P, heads: Heads, messages: Messages) -> Leaders<P> {
    let head = head_of_own(machine, &heads);
    let within = broadcast(&machine.node, head, across.shape().rounds);
    let place = (Arc::clone(&machine.nodes), machine.place);
    Leaders::new(across, within, place, heads, messages)
}

fn pipelined(
    machine: &Machine,
    heads: Heads,
    view: &View,
    blocks: usize,
) -> Leaders<PipelinedAllgather> {
    let lengths = lengths_of_nodes(&machine.nodes, &view.messages);
    let across = super::pipelined(&machine.leaders, lengths, blocks);
    lead(machine, across, heads, Messages::OfRanks)
}

fn doubling(machine: &Machine, heads: Heads, view: &View, segment: usize) -> Leaders<Doubling> {
    let longest = lengths_of_nodes(&machine.nodes, &view.messages).max();
    let across = super::doubling(&machine.leaders, longest.unwrap_or(0), segment);
    lead(machine, across, heads, Messages::OfRanks)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::Placement;
    use crate::schedule::Rule;

    /// What each process has of nodes, with the lengths of the messages.
    fn machines(nodes: Nodes) -> Vec<Machine> {
        let (nodes, ranks) = (Arc::new(nodes), (0..9).collect::<Vec<_>>());
        let of = |place| Machine::new(nodes.clone(), &ranks, place, Rule::default());
        (0..9).map(of).collect()
    }

    /// Of each node the rank with the longest message leads, the lowest of several.
    #[test]
    fn the_longest_message_leads() {
        for (lengths, expected) in [
            ([5; 9], [0, 3, 6]),
            ([9, 1, 1, 7, 7, 2, 3, 2, 1], [0, 3, 6]),
            ([1, 9, 1, 2, 7, 7, 1, 2, 3], [1, 4, 8]),
            ([1, 2, 3, 7, 6, 5, 0, 0, 0], [2, 3, 6]),
            ([0, 0, 1, 0, 2, 0, 3, 0, 0], [2, 4, 6]),
        ] {
            let messages: Vec<_> = crate::stage::consecutive(lengths).collect();
            let machines = machines(Nodes::of_size(9, 3, Placement::Blocked));
            let leaders = machines.iter().filter(|machine| leads(machine, &messages));
            let leaders: Vec<_> = leaders.map(|machine| machine.place).collect();
            assert_eq!(leaders, expected, "{lengths:?}");
        }
    }

    /// A leader scatters what it has combined from where that is: the input may be elsewhere.
    #[test]
    fn a_leader_scatters_its_results() {
        let span = |rank: usize| Span {
            input: 100 + 3 * rank,
            result: 3 * (rank % 3),
            length: 3,
        };
        let messages: Vec<_> = (0..9).map(span).collect();
        for machine in machines(Nodes::of_size(9, 3, Placement::Blocked)) {
            let (team, cut) = (
                Team::whole(9, machine.place, Rule::default()),
                Cut::Blocks(2),
            );
            let mut stages = Stages::default();
            stages.reduce_scatter_by_leaders((&team, &machine), &messages, cut, false);
            let [combined, scattered] = stages.as_slice() else {
                panic!("{} stages", stages.as_slice().len());
            };
            assert_eq!(combined.view.messages, messages);
            assert!(scattered.view.in_place);
            let own = [0, 3, 6].map(|result| Span::at(result..result + 3));
            assert_eq!(scattered.view.messages, own);
        }
    }
}
