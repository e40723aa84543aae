//! Stages of the operations with a root.
//!
//! Where messages are stored, a process's own is where the result belongs, from the start.

use std::ops::Range;

use super::{Span, Stages};
use crate::plan::{Broadcast, Gather, Reversed, Scatter, Succession, TreeBroadcast};
use crate::team::Team;

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

    /// `range`, combined at `root`, in `blocks` blocks.
    pub fn reduction(
        &mut self,
        team: &Team,
        root: usize,
        blocks: usize,
        range: Range<usize>,
        in_place: bool,
    ) {
        self.add(team, in_place, [Span::at(range)], |_| {
            Reversed(broadcast(team, root, blocks))
        });
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

    /// Puts the messages of the last stage in the order of a gather. Those that are never here are
    /// where the first one is.
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
