//! Broadcast, reduction, allgather, reduce-scatter and allreduce on nodes with several processes,
//! by a leader of each: see [`Leaders`]. Or, of what has parts, by the heads of several lanes: then
//! lane i carries part i of each message.
//!
//! An allgather first gathers the messages of each node at its leader, in k - 1 rounds for a node
//! of k processes. A reduce-scatter ends with the reverse: it scatters them from the leader. The
//! leader of a node is the process with the longest message, so that this message need not be sent
//! to a leader first. The heads of further lanes are the processes after it.

use super::{Span, Stages, View, across, broadcast};
use crate::nodes::Nodes;
use crate::plan::{
    Across, AnyPlan, Broadcast, Concurrent, Direct, Doubling, Heads, Leaders, PipelinedAllgather,
    Plan, Reversed, block_range, minus, plus,
};
use crate::select::Cut;
use crate::team::{Machine, Team};
use std::ops::Range;

/// The parts of messages that go by `lanes` lanes: first those of lane 0, by rank, then of lane 1.
pub fn shares(messages: &[Span], lanes: usize) -> Vec<Span> {
    let of_lane = |lane: usize| {
        messages.iter().map(move |span| {
            let part = block_range(span.length, lanes, lane);
            Span {
                input: span.input + part.start,
                result: span.result + part.start,
                length: part.len(),
            }
        })
    };
    (0..lanes).flat_map(of_lane).collect()
}

/// The lane of which this process is the head, where messages have these shares: it gathers what
/// its node has of the lane, or scatters it.
pub fn lane_of(machine: &Machine, shares: &[Span]) -> Option<usize> {
    let (nodes, own) = (&machine.nodes, machine.place);
    let ranks = nodes.ranks(nodes.node(own));
    let lanes = shares.len() / nodes.processes();
    let after = minus(
        nodes.place(own),
        longest(nodes, nodes.node(own), shares),
        ranks.len(),
    );
    Some(after).filter(|&lane| lane < lanes)
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

    /// Message j from rank j to all, for all j, by the lanes of these [shares]: no more than the
    /// smallest node has processes. Steps are of about so many units.
    pub fn allgather_by_leaders(
        &mut self,
        (team, machine): (&Team, &Machine),
        shares: &[Span],
        cut: Cut,
    ) {
        let heads = heads(&machine.nodes, shares);
        let (node, own) = (&machine.node, heads_of_own(machine, &heads));
        self.add(node, true, of_node(machine, shares), |_| {
            let gather = |&head| Direct::gather(node.size(), node.place(), head);
            Concurrent::new(own.iter().map(gather).collect())
        });
        let shares = shares.iter().copied();
        self.add(team, true, shares, |view| match cut {
            Cut::Blocks(blocks) => AnyPlan::from(pipelined(machine, heads, view, blocks)),
            Cut::Segments(segment) => doubling(machine, heads, view, segment).into(),
        });
    }

    /// Message j combined at rank j, for all j, by the lanes of these [shares]. Steps are of about
    /// so many units. The results of all messages of a node have room at its leader, or those of a
    /// lane at its head.
    pub fn reduce_scatter_by_leaders(
        &mut self,
        (team, machine): (&Team, &Machine),
        shares: &[Span],
        cut: Cut,
        in_place: bool,
    ) {
        let heads = heads(&machine.nodes, shares);
        let own = heads_of_own(machine, &heads);
        self.add(team, in_place, shares.iter().copied(), |view| match cut {
            Cut::Blocks(blocks) => AnyPlan::from(Reversed(pipelined(machine, heads, view, blocks))),
            Cut::Segments(segment) => Reversed(doubling(machine, heads, view, segment)).into(),
        });
        let of_node = of_node(machine, shares).map(|span| Span {
            input: span.result,
            ..span
        });
        let node = &machine.node;
        self.add(node, true, of_node, |_| {
            let scatter = |&head| Direct::scatter(node.size(), node.place(), head);
            Concurrent::new(own.iter().map(scatter).collect())
        });
    }

    /// `range`, combined at all processes, by so many lanes. Each head of a node combines an even
    /// part of it. The heads are the lowest ranks.
    pub fn allreduce_by_leaders(
        &mut self,
        (team, machine): (&Team, &Machine),
        range: Range<usize>,
        (segment, lanes): (usize, usize),
        in_place: bool,
    ) {
        let nodes = &machine.nodes;
        let nothing = Span::at(range.start..range.start);
        let mut messages = vec![nothing; lanes * nodes.processes()];
        let parts = super::even(range, lanes * nodes.count());
        for (index, part) in parts.enumerate() {
            let (node, lane) = (index / lanes, index % lanes);
            messages[lane * nodes.processes() + nodes.ranks(node)[lane]] = part;
        }
        let heads: Vec<_> = (0..lanes).map(|lane| heads_at(nodes, |_| lane)).collect();
        self.add(team, in_place, messages.iter().copied(), |view| {
            Reversed(doubling(machine, heads.clone(), view, segment))
        });
        self.add(team, true, messages, |view| {
            doubling(machine, heads, view, segment)
        });
    }
}

/// The place of the rank of a node with the longest message, the lowest of several.
fn longest(nodes: &Nodes, node: usize, shares: &[Span]) -> usize {
    let of_rank = |rank: usize| shares.iter().skip(rank).step_by(nodes.processes());
    let length = |rank: usize| of_rank(rank).map(|span| span.length).sum::<usize>();
    let places = nodes.ranks(node).iter().enumerate();
    let longest = places.rev().max_by_key(|&(_, &rank)| length(rank));
    longest.map_or(0, |(place, _)| place)
}

/// The heads of each lane: of lane 0 the rank with the longest message leads its node, the lowest
/// of several; of lane i the process that is i places after it.
fn heads(nodes: &Nodes, shares: &[Span]) -> Vec<Heads> {
    let longest: Vec<_> = (0..nodes.count())
        .map(|node| longest(nodes, node, shares))
        .collect();
    let of_lane = |lane| {
        heads_at(nodes, |node| {
            plus(longest[node], lane, nodes.ranks(node).len())
        })
    };
    let lanes = shares.len() / nodes.processes().max(1);
    (0..lanes).map(of_lane).collect()
}

/// The heads that are at these places of their nodes.
fn heads_at(nodes: &Nodes, place: impl Fn(usize) -> usize) -> Heads {
    if (0..nodes.count()).all(|node| place(node) == 0) {
        return Heads::Lowest;
    }
    let head = |node: usize| nodes.ranks(node)[place(node)];
    Heads::Listed((0..nodes.count()).map(head).collect())
}

/// The shares of the ranks of this node.
fn of_node<'a>(machine: &'a Machine, shares: &'a [Span]) -> impl Iterator<Item = Span> + 'a {
    let ranks = machine.nodes.ranks(machine.nodes.node(machine.place));
    let of_lane = |lane: &'a [Span]| ranks.iter().map(|&rank| lane[rank]);
    shares.chunks(machine.nodes.processes()).flat_map(of_lane)
}

/// The place of the leader in this node.
fn head_of_own(machine: &Machine, heads: &Heads) -> usize {
    let nodes = &machine.nodes;
    nodes.place(heads.of(nodes.node(machine.place), nodes))
}

/// The places of the heads in this node.
fn heads_of_own(machine: &Machine, heads: &[Heads]) -> Vec<usize> {
    let heads = heads.iter();
    heads.map(|heads| head_of_own(machine, heads)).collect()
}

fn from_root(machine: &Machine, root: usize, blocks: usize) -> Leaders<Broadcast> {
    lead(machine, across::from_root(machine, root, blocks))
}

/// What comes across goes on within the node.
fn lead<P: Plan>(machine: &Machine, across: Across<P>) -> Leaders<P> {
    let head = machine.nodes.place(across.leader());
    let within = broadcast(&machine.node, head, across.shape().rounds);
    Leaders::new(across, within)
}

/// By lanes, of whose messages the view has first those of lane 0, by rank.
fn pipelined(
    machine: &Machine,
    heads: Vec<Heads>,
    view: &View,
    blocks: usize,
) -> Concurrent<Leaders<PipelinedAllgather>> {
    let lanes = view.messages.chunks(machine.nodes.processes());
    let of_lane =
        |(heads, messages)| lead(machine, across::pipelined(machine, heads, messages, blocks));
    Concurrent::new(heads.into_iter().zip(lanes).map(of_lane).collect())
}

/// The same in one block. All lanes have as many steps.
fn doubling(
    machine: &Machine,
    heads: Vec<Heads>,
    view: &View,
    segment: usize,
) -> Concurrent<Leaders<Doubling>> {
    let of_lane = |heads| {
        let across = across::doubling(machine, heads, &view.messages, segment);
        lead(machine, across)
    };
    Concurrent::new(heads.into_iter().map(of_lane).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
            let is_head = |machine: &&Machine| lane_of(machine, &messages) == Some(0);
            let leaders = machines.iter().filter(is_head);
            let leaders: Vec<_> = leaders.map(|machine| machine.place).collect();
            assert_eq!(leaders, expected, "{lengths:?}");
        }
    }

    /// The processes after the leader have the further lanes: each one at most.
    #[test]
    fn a_lane_has_one_head_on_each_node() {
        let messages: Vec<_> = crate::stage::consecutive([1, 2, 9, 7, 6, 5, 0, 4, 0]).collect();
        for lanes in 1..=3 {
            let shares = shares(&messages, lanes);
            let nodes = Nodes::of_size(9, 3, Placement::Cyclic);
            let heads = heads(&nodes, &shares);
            assert_eq!(heads.len(), lanes);
            for machine in machines(nodes) {
                let node = machine.nodes.node(machine.place);
                let is_head = |heads: &Heads| heads.of(node, &machine.nodes) == machine.place;
                let led: Vec<_> = (0..lanes).filter(|&lane| is_head(&heads[lane])).collect();
                let lane = lane_of(&machine, &shares);
                assert_eq!(led, Vec::from_iter(lane), "{lanes} {}", machine.place);
            }
            let total = shares.iter().map(|span| span.length).sum::<usize>();
            assert_eq!(total, 34);
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
