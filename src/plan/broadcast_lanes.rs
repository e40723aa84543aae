//! The pipelined broadcast on nodes of whose processes several use the port, where one cannot fill
//! it. Each block is cut into L parts. Of each node, L processes, its heads, exchange with their
//! counterparts on the other nodes: heads j are lane j, which carries part j of every block.
//!
//! Träff and Hunold (*Decomposing MPI Collectives for Exploiting Multi-lane Communication*) divide
//! the data among lanes in phases, one after the other. Here they overlap, as those of
//! [`Leaders`](super::Leaders) do, of which this is the form for L > 1. The root is head 0 of its
//! node. With the B = n - 1 + ceil(log2 N) rounds of Algorithm 1 on N nodes, and q' = ceil(log2 k)
//! of the largest node, of k processes:
//!
//! ```text
//! step t = 0, ..., B + q', at once:
//!     feed:      the root sends head j of its node part j of block t, for j = 1, ..., L - 1
//!     across:    head j: round t - 1 of Algorithm 1 on lane j, from the root's node
//!     exchange:  head j sends part j of what arrived in round t - 2 across to the other heads
//!     within:    round t - 2 of Algorithm 1 on the node, from head 0, of B blocks: block b is
//!                what arrived in round b across. What head 0 sends all heads do, each its part.
//!                Nothing goes to a head
//! ```
//!
//! **Cost.** B + q' + 1 steps (B + 2 where all processes are heads). In a step a head sends a part
//! of 1/L of a block across, L parts to other heads and another process, and may pass on a block.
//! Each byte comes into a node once, and to each process once, directly where it belongs: nothing
//! is packed.
//!
//! **Reversed**, this is a reduction: a head combines the operands of its part of the other heads,
//! and of one process besides.
//!
//! Deviations, and why:
//! 1. What is sent within a node is as by leaders: a block within is a round across, and processes
//!    compute the rounds of their heads. All lanes have the same schedule.
//! 2. Heads have a block sooner than Algorithm 1 within the node says, by exchange. So they pass it
//!    on as it says, and receive nothing by it. Its first transfer, from head 0, is divided among
//!    the heads: each has its part, and head 0 need not wait for the others'.
//! 3. An allgather of the heads would have fewer messages than they exchange. But these would be
//!    of parts that are not next to each other, and would have to be packed.
//! 4. The root has everything: nothing is sent to it.

use std::sync::Arc;

use super::{Arrival, Block, Broadcast, Plan, Round, ScratchUse, Shape, Source, minus, plus};
use crate::nodes::Nodes;

/// The rounds of one process. Message j of the problem is part j of all blocks.
#[derive(Clone, Debug)]
pub struct BroadcastLanes {
    /// What the heads of this node do, each on its lane.
    across: Broadcast,
    /// The broadcast from head 0 of what they receive, round by round.
    within: Broadcast,
    /// L: no more than the smallest node has processes.
    lanes: usize,
    nodes: Arc<Nodes>,
    rank: usize,
    root: usize,
}

/// What a round of the plan is, and of which step.
enum Part {
    Across,
    /// What head 0 sends, or all others send within; or of lane j > 0 the part of that, and of
    /// what the root sends to head j.
    Within(usize),
    /// Between each head and the head that is so many lanes further.
    Exchange(usize),
}

/// How many steps after a round of the feed a round across is, and one within.
const ACROSS: usize = 1;
const WITHIN: usize = 2;

impl BroadcastLanes {
    /// For process `rank`. `across` are the rounds of a head of its node on its lane, `within` is
    /// the broadcast on its node from [head 0](BroadcastLanes::first_head), of as many blocks as
    /// `across` has rounds.
    pub fn new(
        across: Broadcast,
        within: Broadcast,
        lanes: usize,
        (nodes, rank): (Arc<Nodes>, usize),
        root: usize,
    ) -> BroadcastLanes {
        BroadcastLanes {
            across,
            within,
            lanes,
            nodes,
            rank,
            root,
        }
    }

    /// The place of head 0 in a node: that of the root, or the lowest.
    pub fn first_head(nodes: &Nodes, node: usize, root: usize) -> usize {
        match nodes.node(root) == node {
            true => nodes.place(root),
            false => 0,
        }
    }

    /// The rank of the process of a node that is so many places after head 0.
    fn rank_at(&self, node: usize, after: usize) -> usize {
        let ranks = self.nodes.ranks(node);
        let first = BroadcastLanes::first_head(&self.nodes, node, self.root);
        ranks[plus(first, after, ranks.len())]
    }

    fn node(&self) -> usize {
        self.nodes.node(self.rank)
    }

    /// How many places a process of this node, at this place, is after head 0. Those below L are
    /// the lanes of heads.
    fn after_head(&self, place: usize) -> usize {
        let node = self.node();
        let first = BroadcastLanes::first_head(&self.nodes, node, self.root);
        minus(place, first, self.nodes.ranks(node).len())
    }

    fn is_head(&self, place: usize) -> bool {
        self.after_head(place) < self.lanes
    }

    fn own(&self) -> usize {
        self.after_head(self.nodes.place(self.rank))
    }

    /// The lane of this process, if it is a head.
    fn lane(&self) -> Option<usize> {
        Some(self.own()).filter(|&lane| lane < self.lanes)
    }

    fn is_at_root(&self) -> bool {
        self.node() == self.nodes.node(self.root)
    }

    fn part(&self, lane: usize, index: usize) -> Block {
        Block {
            message: lane,
            index,
            of: self.across.shape().blocks,
        }
    }

    fn send(&self, round: &mut Round, lane: usize, index: usize) {
        let source = match self.rank == self.root {
            true => Source::Input,
            false => Source::Result,
        };
        round.send(self.part(lane, index), source);
    }

    fn receive(&self, round: &mut Round, lane: usize, index: usize) {
        round.receive(self.part(lane, index), Arrival::Store);
    }

    /// The block of which the heads of this node have their parts after round `index` across, and
    /// not before, if there is one.
    fn arrived(&self, index: usize) -> Option<usize> {
        let of = self.across.shape().blocks;
        match self.is_at_root() {
            true => Some(index).filter(|&index| index < of),
            false => self.across.received(index),
        }
    }

    fn fill_across(&self, index: usize, round: &mut Round) {
        let Some(lane) = self.lane() else {
            return;
        };
        let [to, from] = self.across.neighbours(index);
        [round.to, round.from] = [to, from].map(|node| self.rank_at(node, lane));
        if let Some(index) = self.across.sent(index) {
            self.send(round, lane, index);
        }
        if let Some(index) = self.across.received(index) {
            self.receive(round, lane, index);
        }
    }

    /// Block `index` from the root to head `lane` of its node.
    fn feed(&self, index: usize, lane: usize, round: &mut Round) {
        if !self.is_at_root() || index >= self.across.shape().blocks {
            return;
        }
        if self.rank == self.root {
            round.to = self.rank_at(self.node(), lane);
            self.send(round, lane, index);
        } else if self.own() == lane {
            round.from = self.root;
            self.receive(round, lane, index);
        }
    }

    /// Round `index` of the broadcast within: what head `lane` sends, its part; and with lane 0
    /// what the others send, whole blocks.
    fn fill_within(&self, index: usize, lane: usize, round: &mut Round) {
        if self.own() == lane {
            self.send_part(index, lane, round);
        } else if lane == 0 {
            self.send_whole(index, round);
        }
        if self.lane().is_none() {
            self.receive_within(index, lane, round);
        }
    }

    /// What head 0 sends in round `index` within, as far as it is this lane's.
    fn send_part(&self, index: usize, lane: usize, round: &mut Round) {
        let (arrived, to) = self.within.sent_by_root(index);
        if let Some(index) = self.arrived(arrived).filter(|_| !self.is_head(to)) {
            round.to = self.nodes.ranks(self.node())[to];
            self.send(round, lane, index);
        }
    }

    fn send_whole(&self, index: usize, round: &mut Round) {
        let [to, _] = self.within.neighbours(index);
        let sent = self.within.sent(index).filter(|_| !self.is_head(to));
        if let Some(index) = sent.and_then(|arrived| self.arrived(arrived)) {
            round.to = self.nodes.ranks(self.node())[to];
            (0..self.lanes).for_each(|lane| self.send(round, lane, index));
        }
    }

    /// A block comes whole with lane 0; or from the heads, a part with each lane.
    fn receive_within(&self, index: usize, lane: usize, round: &mut Round) {
        let [_, from] = self.within.neighbours(index);
        let received = self.within.received(index);
        let Some(index) = received.and_then(|arrived| self.arrived(arrived)) else {
            return;
        };
        if self.after_head(from) == 0 {
            round.from = self.rank_at(self.node(), lane);
            self.receive(round, lane, index);
        } else if lane == 0 {
            round.from = self.nodes.ranks(self.node())[from];
            (0..self.lanes).for_each(|lane| self.receive(round, lane, index));
        }
    }

    /// What arrived in round `index` across, between heads that are so many lanes apart.
    fn exchange(&self, index: usize, apart: usize, round: &mut Round) {
        let (Some(lane), Some(index)) = (self.lane(), self.arrived(index)) else {
            return;
        };
        let (node, lanes) = (self.node(), self.lanes);
        let (to, from) = (plus(lane, apart, lanes), minus(lane, apart, lanes));
        (round.to, round.from) = (self.rank_at(node, to), self.rank_at(node, from));
        if round.to != self.root {
            self.send(round, lane, index);
        }
        if self.rank != self.root {
            self.receive(round, from, index);
        }
    }

    /// The step of a round of the plan, and what it is there.
    fn step(&self, index: usize) -> (usize, Part) {
        let (step, part) = (index / self.at_once(), index % self.at_once());
        // What crosses the port takes longest, so it is started first.
        let part = match part {
            0 => Part::Across,
            _ if part <= self.lanes => Part::Within(part - 1),
            _ => Part::Exchange(part - self.lanes),
        };
        (step, part)
    }

    fn at_once(&self) -> usize {
        2 * self.lanes
    }

    /// q' of the largest node; 1 for the exchange where all processes are heads.
    fn depth(&self) -> usize {
        match self.nodes.largest() <= self.lanes {
            true => 1,
            false => self.nodes.depth(),
        }
    }
}

impl Plan for BroadcastLanes {
    fn shape(&self) -> Shape {
        let (across, depth) = (self.across.shape(), self.depth());
        // From its feed to its last transfer within.
        let span = across.span + 2 * depth + WITHIN + 2;
        Shape {
            messages: self.lanes,
            rounds: self.at_once() * (across.rounds + depth + ACROSS),
            at_once: self.at_once(),
            span: self.at_once() * span,
            scratch: ScratchUse::Nothing,
            ..across
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        let (step, part) = self.step(index);
        let rounds = self.across.shape().rounds;
        let arrived = step.checked_sub(WITHIN);
        match part {
            Part::Across => {
                if let Some(index) = step.checked_sub(ACROSS).filter(|&index| index < rounds) {
                    self.fill_across(index, round);
                }
            }
            Part::Within(lane) => {
                if let Some(index) = arrived.filter(|&index| index < self.within.shape().rounds) {
                    self.fill_within(index, lane, round);
                }
                if lane > 0 {
                    self.feed(step, lane, round);
                }
            }
            Part::Exchange(apart) => {
                if let Some(index) = arrived.filter(|&index| index < rounds) {
                    self.exchange(index, apart, round);
                }
            }
        }
    }

    fn width(&self, index: usize) -> usize {
        match self.step(index) {
            (_, Part::Within(0)) if self.nodes.largest() > self.lanes => self.lanes,
            _ => 1,
        }
    }
}
