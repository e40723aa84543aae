//! The same algorithms on nodes of whose processes several use the port. A broadcast and a
//! reduction have any number of lanes: see [`BroadcastLanes`]. The algorithms with one block have
//! as many as each node has processes: see [`AllgatherLanes`].

use std::ops::Range;
use std::sync::Arc;

use super::{Cutting, Span, Stages, View, broadcast, doubling, even};
use crate::plan::{AllgatherLanes, BroadcastLanes, Plan, Reversed};
use crate::team::{Machine, Team};

impl Stages {
    /// `range` from `root` to all, in `blocks` blocks, by so many lanes: no more than the smallest
    /// node has processes.
    pub fn broadcast_by_lanes(
        &mut self,
        (team, machine): (&Team, &Machine),
        root: usize,
        (blocks, lanes): (usize, usize),
        range: Range<usize>,
    ) {
        self.add(team, true, parts(range, lanes), |_| {
            from_root(machine, root, blocks, lanes)
        });
        self.cut(Cutting::Parts(lanes));
    }

    /// `range`, combined at `root`, in `blocks` blocks, by so many lanes.
    pub fn reduction_by_lanes(
        &mut self,
        (team, machine): (&Team, &Machine),
        root: usize,
        (blocks, lanes): (usize, usize),
        range: Range<usize>,
        in_place: bool,
    ) {
        self.add(team, in_place, parts(range, lanes), |_| {
            Reversed(from_root(machine, root, blocks, lanes))
        });
        self.cut(Cutting::Parts(lanes));
    }

    /// Message j from rank j to all, for all j, in steps of about `segment` units.
    pub fn allgather_by_lanes(
        &mut self,
        (team, machine): (&Team, &Machine),
        messages: impl IntoIterator<Item = Span>,
        segment: usize,
    ) {
        self.add(team, true, messages, |view| lanes(machine, view, segment));
    }

    /// Message j combined at rank j, for all j, in steps of about `segment` units.
    pub fn reduce_scatter_by_lanes(
        &mut self,
        (team, machine): (&Team, &Machine),
        messages: impl IntoIterator<Item = Span>,
        segment: usize,
        in_place: bool,
    ) {
        self.add(team, in_place, messages, |view| {
            Reversed(lanes(machine, view, segment))
        });
    }

    /// `range`, combined at all processes, in steps of about `segment` units. Each process combines
    /// an even part of it. Those of a node are next to each other.
    pub fn allreduce_by_lanes(
        &mut self,
        on: (&Team, &Machine),
        range: Range<usize>,
        segment: usize,
        in_place: bool,
    ) {
        let nodes = &on.1.nodes;
        let mut parts = vec![Span::default(); nodes.processes()];
        let ranks = (0..nodes.count()).flat_map(|node| nodes.ranks(node));
        for (&rank, part) in ranks.zip(even(range, nodes.processes())) {
            parts[rank] = part;
        }
        self.reduce_scatter_by_lanes(on, parts.iter().copied(), segment, in_place);
        self.allgather_by_lanes(on, parts, segment);
    }
}

/// Where one process has, or gets, all messages: its rank, and where they are.
pub fn only_message(messages: impl Iterator<Item = Span>) -> (usize, Range<usize>) {
    let only = messages.enumerate().max_by_key(|(_, span)| span.length);
    let (rank, span) = only.unwrap_or_default();
    (rank, span.result..span.result + span.length)
}

/// The messages of which each is a part of every block of `range`.
fn parts(range: Range<usize>, lanes: usize) -> impl Iterator<Item = Span> {
    std::iter::repeat_n(Span::at(range), lanes)
}

fn from_root(machine: &Machine, root: usize, blocks: usize, lanes: usize) -> BroadcastLanes {
    let (nodes, place) = (&machine.nodes, machine.place);
    let across = broadcast(&machine.leaders, nodes.node(root), blocks);
    let head = BroadcastLanes::first_head(nodes, nodes.node(place), root);
    let within = broadcast(&machine.node, head, across.shape().rounds);
    BroadcastLanes::new(across, within, lanes, (Arc::clone(nodes), place), root)
}

fn lanes(machine: &Machine, view: &View, segment: usize) -> AllgatherLanes {
    let across = doubling(&machine.leaders, view.longest(), segment);
    let place = (Arc::clone(&machine.nodes), machine.place);
    AllgatherLanes::new(across, machine.node.sequence(), place)
}
