//! The one-block allgather on nodes with equal numbers of processes, all of which use the port.
//! Each runs the rounds of an allgather with its counterparts on the other nodes, its lane. What it
//! receives in a round goes on to the processes of its node while the next rounds are run.
//!
//! Lanes are Träff and Hunold's decomposition of collectives (*Decomposing MPI Collectives for
//! Exploiting Multi-lane Communication*). There one phase follows the other. Here they overlap, as
//! those of [`Leaders`](super::Leaders) do. For N nodes of k processes, process j of node x is on
//! lane j. With B rounds of [`Doubling`] across, and the skips k = s[0] > ... > s[q'] = 1 of the
//! same algorithm on k processes:
//!
//! ```text
//! A[j] = what process j of this node received in a round across; in round t also block t of its
//!     own message, if there is one
//! step t = 0, ..., B - 1 + q', at once:
//!     across: round t of the allgather of the lane (if t < B)
//!     within, for i = 0, ..., q' - 1: of round t - 1 - i across (if there is one),
//!         s', s = s[q'-1-i], s[q'-i]
//!         Send(A[j .. j+s'-s-1], j - s)  ||  Recv(A[j+s .. j+s'-1], j + s)      (all mod k)
//! ```
//!
//! **Cost.** B + q' steps, each of one message across and up to q' within. Each process receives
//! the messages of all others once: those of its lane across, all others within. So a port carries
//! N - 1 nodes' messages, as if each node were one process. The bytes, and what is combined in a
//! reduce-scatter, are divided evenly among the processes of a node if its messages are as long.
//!
//! **Reversed**, this is a reduce-scatter: A[j] is combined within the node on the way to process
//! j, and the lanes combine that.
//!
//! Deviations, and why:
//! 1. For each round across there is an allgather within. Its rounds are one step apart: in one
//!    step, one after the other, they would add q' start-ups and all their bytes to it.
//! 2. Messages are not divided among the lanes: lane j carries those of the processes j. So nothing
//!    is exchanged within a node first. Where one process of each node has all, a lane is what a
//!    leader is.
//! 3. All lanes of a node have the same schedule, so a process computes what the others receive
//!    from its own rounds.

use std::sync::Arc;

use super::{Arrival, Block, Doubling, Outgoing, Plan, Round, Shape, Source, minus, plus};
use crate::nodes::Nodes;
use crate::schedule::Sequence;

/// The rounds of one process: those across nodes and those within, in turn.
#[derive(Clone, Debug)]
pub struct AllgatherLanes {
    /// Its rounds on its lane, by node.
    across: Doubling,
    /// The skips within a node.
    within: Arc<Sequence>,
    nodes: Arc<Nodes>,
    node: usize,
    /// Its place on its node.
    lane: usize,
}

/// What a round of the plan is.
enum Part {
    /// This round across.
    Across(usize),
    /// Round `index` within, of what came in round `arrived` across.
    Within { arrived: usize, index: usize },
    /// Nothing: the rounds across are over, or have not come so far.
    Nothing,
}

impl AllgatherLanes {
    /// For process `rank`. `across` are its rounds on its lane, with one message from each node;
    /// `within` are the skips for the processes of a node.
    pub fn new(
        across: Doubling,
        within: Arc<Sequence>,
        (nodes, rank): (Arc<Nodes>, usize),
    ) -> AllgatherLanes {
        AllgatherLanes {
            across,
            within,
            node: nodes.node(rank),
            lane: nodes.place(rank),
            nodes,
        }
    }

    /// What round `index` of the plan is.
    fn part(&self, index: usize) -> Part {
        let (step, part) = (index / self.at_once(), index % self.at_once());
        let rounds = self.across.shape().rounds;
        match (step.checked_sub(part), part) {
            (Some(round), 0) if round < rounds => Part::Across(round),
            (Some(arrived), 1..) if arrived < rounds => Part::Within {
                arrived,
                index: part - 1,
            },
            _ => Part::Nothing,
        }
    }

    fn at_once(&self) -> usize {
        1 + self.within.rounds()
    }

    /// s' and s of round `index` within.
    fn skips(&self, index: usize) -> (usize, usize) {
        self.within.step(self.within.rounds() - 1 - index)
    }

    /// A block of a lane as one of the message of its rank.
    fn of_rank(&self, block: Block, lane: usize) -> Block {
        let message = self.nodes.ranks(block.message)[lane];
        Block { message, ..block }
    }

    fn fill_across(&self, index: usize, round: &mut Round) {
        self.across.fill(index, round);
        let of_rank = |node: usize| self.nodes.ranks(node)[self.lane];
        (round.to, round.from) = (of_rank(round.to), of_rank(round.from));
        for outgoing in &mut round.sends {
            outgoing.block = self.of_rank(outgoing.block, self.lane);
        }
        for incoming in &mut round.receives {
            incoming.block = self.of_rank(incoming.block, self.lane);
        }
    }

    fn fill_within(&self, arrived: usize, index: usize, round: &mut Round) {
        let k = self.within.processes();
        let (before, skip) = self.skips(index);
        self.across.fill(arrived, round);
        round.sends.clear();
        let blocks = self.across.shape().blocks;
        if arrived < blocks {
            let own = Block {
                message: self.node,
                index: arrived,
                of: blocks,
            };
            round.receive(own, Arrival::Store);
        }
        let ranks = self.nodes.ranks(self.node);
        round.to = ranks[minus(self.lane, skip, k)];
        round.from = ranks[plus(self.lane, skip, k)];
        let all = round.receives.len();
        for index in 0..all {
            let block = round.receives[index].block;
            for lane in (0..before - skip).map(|lane| plus(self.lane, lane, k)) {
                let is_own = lane == self.lane && block.message == self.node;
                let source = if is_own {
                    Source::Input
                } else {
                    Source::Result
                };
                let block = self.of_rank(block, lane);
                round.sends.push(Outgoing { block, source });
            }
            for lane in (skip..before).map(|lane| plus(self.lane, lane, k)) {
                round.receive(self.of_rank(block, lane), Arrival::Store);
            }
        }
        round.receives.drain(..all);
    }
}

impl Plan for AllgatherLanes {
    fn shape(&self) -> Shape {
        let across = self.across.shape();
        let rounds = self.at_once() * (across.rounds + self.within.rounds());
        Shape {
            messages: self.nodes.processes(),
            rounds,
            at_once: self.at_once(),
            // Across, a block may be sent to the end.
            span: rounds,
            ..across
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        match self.part(index) {
            Part::Across(index) => self.fill_across(index, round),
            Part::Within { arrived, index } => self.fill_within(arrived, index, round),
            Part::Nothing => {}
        }
    }

    fn width(&self, index: usize) -> usize {
        match self.part(index) {
            Part::Across(index) => self.across.width(index),
            Part::Within { arrived, index } => {
                let (before, skip) = self.skips(index);
                let own = usize::from(arrived < self.across.shape().blocks);
                let of_lane = self.across.width(arrived).saturating_add(own);
                of_lane.saturating_mul(before - skip)
            }
            Part::Nothing => 0,
        }
    }
}
