//! Stages of the operations in which each process has a message.
//!
//! Where messages are stored, a process's own is where the result belongs, from the start.

use std::ops::Range;

use super::{Span, Stages, View, consecutive, even};
use crate::plan::{AllToAll, Census, Doubling, Ordered, PipelinedAllgather, Reversed, Segments};
use crate::team::Team;

impl Stages {
    /// Message j from process j to all, for all j, in one block, in steps of about `segment` units.
    pub fn allgather(
        &mut self,
        team: &Team,
        messages: impl IntoIterator<Item = Span>,
        segment: usize,
    ) {
        self.add(team, true, messages, |view| doubling(team, view, segment));
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
            Reversed(doubling(team, view, segment))
        });
    }

    /// Message j from process j to all, for all j, in `blocks` blocks.
    pub fn pipelined_allgather(
        &mut self,
        team: &Team,
        messages: impl IntoIterator<Item = Span>,
        blocks: usize,
    ) {
        self.add(team, true, messages, |view| pipelined(team, view, blocks));
    }

    /// Message j combined at process j, for all j, in `blocks` blocks.
    pub fn pipelined_reduce_scatter(
        &mut self,
        team: &Team,
        messages: impl IntoIterator<Item = Span>,
        blocks: usize,
        in_place: bool,
    ) {
        self.add(team, in_place, messages, |view| {
            Reversed(pipelined(team, view, blocks))
        });
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
}

fn doubling(team: &Team, view: &View, segment: usize) -> Doubling {
    let segments = Segments::new(view.longest(), segment);
    Doubling::new(team.sequence(), team.place(), segments)
}

fn pipelined(team: &Team, view: &View, blocks: usize) -> PipelinedAllgather {
    let filled = team.filled(view.lengths());
    PipelinedAllgather::new(team.skips(), team.table(), filled, team.place(), blocks)
}
