//! Broadcast, reduction, allgather, reduce-scatter and allreduce on nodes of whose processes
//! several use the port, by any number of lanes that is no more than the smallest node has
//! processes.
//!
//! - A broadcast and a reduction: see [`BroadcastLanes`]. So is an allgather or a reduce-scatter in
//!   several blocks in which one process has, or gets, everything.
//! - What has one block and parts, by as many lanes as each node has processes: see
//!   [`AllgatherLanes`].
//! - Otherwise as by leaders, of which each node has one for each lane (`leaders`).

use std::ops::Range;
use std::sync::Arc;

use super::{Cutting, Span, Stages, View, broadcast, doubling, even, shares};
use crate::nodes::Nodes;
use crate::plan::{AllgatherLanes, BroadcastLanes, Plan, Reversed};
use crate::select::Cut;
use crate::team::{Machine, Team};

/// How what has parts goes by lanes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lanes {
    /// As a broadcast from this rank, or a reduction to it, of this range, in so many blocks.
    OfOne(usize, Range<usize>, usize),
    /// By all processes of the nodes, in steps of about so many units.
    OfAll(usize),
    /// As by leaders.
    OfHeads,
}

impl Lanes {
    /// How these messages, cut so, go by so many lanes.
    pub fn of(machine: &Machine, messages: &[Span], cut: Cut, lanes: usize) -> Lanes {
        let nodes = &machine.nodes;
        let mut with_data = messages
            .iter()
            .enumerate()
            .filter(|(_, span)| span.length > 0);
        match (cut, with_data.next(), with_data.next()) {
            (Cut::Blocks(blocks), Some((rank, span)), None) => {
                let range = span.result..span.result + span.length;
                Lanes::OfOne(rank, range, blocks)
            }
            (Cut::Segments(segment), ..) if are_all(nodes, lanes) => Lanes::OfAll(segment),
            _ => Lanes::OfHeads,
        }
    }
}

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

    /// Message j from rank j to all, for all j, by so many lanes.
    pub fn allgather_by_lanes(
        &mut self,
        on: (&Team, &Machine),
        messages: &[Span],
        (cut, lanes): (Cut, usize),
    ) {
        match Lanes::of(on.1, messages, cut, lanes) {
            Lanes::OfOne(root, range, blocks) => {
                self.broadcast_by_lanes(on, root, (blocks, lanes), range);
            }
            Lanes::OfAll(segment) => {
                self.allgather_by_all_lanes(on, messages.iter().copied(), segment);
            }
            Lanes::OfHeads => self.allgather_by_leaders(on, &shares(messages, lanes), cut),
        }
    }

    fn allgather_by_all_lanes(
        &mut self,
        (team, machine): (&Team, &Machine),
        messages: impl IntoIterator<Item = Span>,
        segment: usize,
    ) {
        self.add(team, true, messages, |view| lanes(machine, view, segment));
    }

    /// Message j combined at rank j, for all j, by all lanes, in steps of about `segment` units.
    pub fn reduce_scatter_by_all_lanes(
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

    /// `range`, combined at all processes, in steps of about `segment` units, by so many lanes.
    /// Each process that has a lane combines an even part of it. Those of a node are next to each
    /// other.
    pub fn allreduce_by_lanes(
        &mut self,
        on: (&Team, &Machine),
        range: Range<usize>,
        (segment, lanes): (usize, usize),
        in_place: bool,
    ) {
        let nodes = &on.1.nodes;
        if !are_all(nodes, lanes) {
            return self.allreduce_by_leaders(on, range, (segment, lanes), in_place);
        }
        let mut parts = vec![Span::default(); nodes.processes()];
        let ranks = (0..nodes.count()).flat_map(|node| nodes.ranks(node));
        for (&rank, part) in ranks.zip(even(range, nodes.processes())) {
            parts[rank] = part;
        }
        self.reduce_scatter_by_all_lanes(on, parts.iter().copied(), segment, in_place);
        self.allgather_by_all_lanes(on, parts, segment);
    }
}

/// Whether so many lanes are one for each process of the nodes, which have as many each.
fn are_all(nodes: &Nodes, lanes: usize) -> bool {
    nodes.are_equal() && lanes == nodes.largest()
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
