//! The algorithms with one block on nodes with equal numbers of processes, all of which use the
//! port: see [`Lanes`].

use std::ops::Range;
use std::sync::Arc;

use super::{Span, Stages, View, doubling, even};
use crate::plan::{Lanes, Reversed};
use crate::team::{Machine, Team};

impl Stages {
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

fn lanes(machine: &Machine, view: &View, segment: usize) -> Lanes {
    let across = doubling(&machine.leaders, view.longest(), segment);
    let place = (Arc::clone(&machine.nodes), machine.place);
    Lanes::new(across, machine.node.sequence(), place)
}
