//! An algorithm on nodes with several processes: one process of each node, its leader, runs the
//! rounds of a plan with the leaders of the other nodes. What a leader receives in a round goes on
//! to the processes of its node while the next rounds are run.
//!
//! The paper on broadcast schedules (Träff, *Optimal Broadcast Schedules in Logarithmic Time*)
//! names circulant graphs on nodes with several processes as future work. For a node of k
//! processes, q' = ceil(log2 k), and for B rounds across:
//!
//! ```text
//! step t = 0, ..., B - 1 + q', at once:
//!     across: if this process leads its node: round t of the plan of the leaders (if t < B)
//!     within: round t - 1 of Algorithm 1 on the node, from the leader, of B blocks:
//!             block b is what the leader received in round b across
//! ```
//!
//! **Cost.** B + q' steps, each of one message across and one within, for the largest node's q'. A
//! broadcast of n blocks on N nodes has B = n - 1 + ceil(log2 N). With k processes on every node,
//! that is at most one step more than the n - 1 + ceil(log2 N k) rounds of a flat circulant graph:
//! one more for N = 3 and k = 5, none more if N or k is a power of two. Each
//! byte comes into a node once, and what leaves a node is what a process of the plan across sends.
//! Within, each process receives every byte once; of an allgather also its own message, unless it
//! leads.
//!
//! **Reversed**, this is a reduction or a reduce-scatter: the contributions of a node are combined
//! on the way to its leader, and the leaders combine those.
//!
//! Deviations, and why:
//! 1. A block within is a round across, not a block of the message. So the order in which blocks
//!    arrive at a leader does not matter, and any plan will do. A round in which a leader receives
//!    nothing is a block without data, of which nothing is sent.
//! 2. Processes compute the rounds of their leader, so nothing is said of what a message within
//!    holds.
//! 3. What the leader has from the start does not arrive. It sends block b of that within as if it
//!    had come in round b.
//! 4. A message across may stand for those of all ranks of its node, which the leader has gathered.
//!    They need not be next to each other, so any placement of ranks will do.

use std::sync::Arc;

use super::{Arrival, Block, Broadcast, Outgoing, Plan, Round, Shape, Source};
use crate::nodes::Nodes;

/// The rounds of one process: those across nodes, of plan `P`, and those within, in turn.
pub struct Leaders<P> {
    /// What the leader of this process's node does.
    across: P,
    /// The broadcast of what it receives, round by round.
    within: Broadcast,
    nodes: Arc<Nodes>,
    rank: usize,
    heads: Heads,
    messages: Messages,
}

/// Which rank leads each node.
#[derive(Clone, Debug)]
pub enum Heads {
    /// The lowest.
    Lowest,
    /// This one its own node, the lowest the others.
    Root(usize),
    /// By node, these.
    Listed(Arc<[usize]>),
}

impl Heads {
    /// The rank that leads `node`.
    pub fn of(&self, node: usize, nodes: &Nodes) -> usize {
        match self {
            Heads::Root(root) if nodes.node(*root) == node => *root,
            Heads::Listed(ranks) => ranks[node],
            _ => nodes.ranks(node)[0],
        }
    }
}

/// What a message across stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Messages {
    /// Itself. It is that of the root.
    Whole,
    /// Those of the ranks of the node that has its number.
    OfRanks,
}

/// A step is a round across and a round within.
const ROUNDS_OF_STEP: usize = 2;

impl<P: Plan> Leaders<P> {
    /// For process `rank`. `across` are the rounds of the leader of its node, `within` is the
    /// broadcast on its node from there, of as many blocks as `across` has rounds.
    pub fn new(
        across: P,
        within: Broadcast,
        (nodes, rank): (Arc<Nodes>, usize),
        heads: Heads,
        messages: Messages,
    ) -> Leaders<P> {
        Leaders {
            across,
            within,
            nodes,
            rank,
            heads,
            messages,
        }
    }

    fn leads(&self) -> bool {
        self.heads.of(self.nodes.node(self.rank), &self.nodes) == self.rank
    }

    /// The number across of the message that this node's leader has from the start, if it has one.
    fn own_message(&self) -> Option<usize> {
        let node = self.nodes.node(self.rank);
        match (self.messages, &self.heads) {
            (Messages::OfRanks, _) => Some(node),
            (Messages::Whole, Heads::Root(root)) if self.nodes.node(*root) == node => Some(0),
            (Messages::Whole, _) => None,
        }
    }

    fn fill_across(&self, index: usize, round: &mut Round) {
        self.across.fill(index, round);
        round.to = self.heads.of(round.to, &self.nodes);
        round.from = self.heads.of(round.from, &self.nodes);
        let (sends, receives) = (round.sends.len(), round.receives.len());
        for index in 0..sends {
            let Outgoing { block, source } = round.sends[index];
            self.visit_blocks(block, |block| round.send(block, source));
        }
        round.sends.drain(..sends);
        for index in 0..receives {
            let incoming = round.receives[index];
            self.visit_blocks(incoming.block, |block| {
                round.receive(block, incoming.arrival);
            });
        }
        round.receives.drain(..receives);
    }

    /// Calls `visit` with the blocks that a block across stands for.
    fn visit_blocks(&self, block: Block, mut visit: impl FnMut(Block)) {
        match self.messages {
            Messages::Whole => visit(block),
            Messages::OfRanks => {
                let ranks = self.nodes.ranks(block.message).iter();
                ranks.for_each(|&message| visit(Block { message, ..block }));
            }
        }
    }

    fn fill_within(&self, index: usize, round: &mut Round) {
        self.within.fill(index, round);
        let ranks = self.nodes.ranks(self.nodes.node(self.rank));
        (round.to, round.from) = (ranks[round.to], ranks[round.from]);
        let sent = round.sends.pop().map(|sent| sent.block.index);
        let received = round.receives.pop().map(|received| received.block.index);
        if let Some(index) = sent {
            let leads = self.leads();
            self.visit_arrived(index, round, &mut |round, block, is_own| {
                let source = if is_own && leads {
                    Source::Input
                } else {
                    Source::Result
                };
                round.send(block, source);
            });
        }
        if let Some(index) = received {
            self.visit_arrived(index, round, &mut |round, block, _| {
                round.receive(block, Arrival::Store);
            });
        }
    }

    /// Calls `visit` with the blocks that the leader has after round `index` across and not before,
    /// and with whether it had them from the start: one block of those a round.
    fn visit_arrived(
        &self,
        index: usize,
        round: &mut Round,
        visit: &mut impl FnMut(&mut Round, Block, bool),
    ) {
        let of = self.across.shape().blocks;
        if let Some(message) = self.own_message().filter(|_| index < of) {
            let block = Block { message, index, of };
            self.visit_blocks(block, |block| visit(round, block, true));
        }
        let (to, from) = (round.to, round.from);
        let (sends, first) = (round.sends.len(), round.receives.len());
        self.across.fill(index, round);
        (round.to, round.from) = (to, from);
        // What the leader sends in that round is dropped. What it receives is visited, and taken
        // out.
        round.sends.truncate(sends);
        let end = round.receives.len();
        for index in first..end {
            let block = round.receives[index].block;
            self.visit_blocks(block, |block| visit(round, block, false));
        }
        round.receives.drain(first..end);
    }

    /// The most messages that a message across stands for.
    fn together(&self) -> usize {
        match self.messages {
            Messages::Whole => 1,
            Messages::OfRanks => self.nodes.largest(),
        }
    }
}

impl<P: Plan> Plan for Leaders<P> {
    fn shape(&self) -> Shape {
        let (across, depth) = (self.across.shape(), self.nodes.depth());
        // A block arrives within up to 2 q' steps after it has arrived at the leader.
        let span = across.span + 2 * depth + 2;
        Shape {
            messages: match self.messages {
                Messages::Whole => 1,
                Messages::OfRanks => self.nodes.processes(),
            },
            rounds: ROUNDS_OF_STEP * (across.rounds + depth),
            at_once: ROUNDS_OF_STEP,
            span: ROUNDS_OF_STEP * span,
            ..across
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        let (step, is_within) = (index / ROUNDS_OF_STEP, index % ROUNDS_OF_STEP == 1);
        if !is_within {
            if step < self.across.shape().rounds && self.leads() {
                self.fill_across(step, round);
            }
        } else if (1..=self.within.shape().rounds).contains(&step) {
            self.fill_within(step - 1, round);
        }
    }

    fn width(&self, index: usize) -> usize {
        let (step, is_within) = (index / ROUNDS_OF_STEP, index % ROUNDS_OF_STEP == 1);
        let rounds = self.across.shape().rounds;
        let together = self.together();
        let of = |round| self.across.width(round).saturating_mul(together);
        if !is_within {
            return if step < rounds { of(step) } else { 0 };
        }
        // In round t of Algorithm 1 on p processes, only blocks t - 2q + 1 to t are sent.
        let first = step.saturating_sub(2 * self.nodes.depth());
        let widths = (first..step.min(rounds)).map(of);
        let own = usize::from(self.messages == Messages::OfRanks) * together;
        widths.max().map_or(0, |width| width.saturating_add(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::Placement;

    /// Three nodes, of the ranks 0, 3, 6; 1, 4, 7; and 2, 5.
    #[test]
    fn nodes_are_led_by_whom_heads_say() {
        let nodes = Nodes::of_size(8, 3, Placement::Cyclic);
        let of = |heads: Heads| [0, 1, 2].map(|node| heads.of(node, &nodes));
        assert_eq!(of(Heads::Lowest), [0, 1, 2]);
        assert_eq!(of(Heads::Root(4)), [0, 4, 2]);
        assert_eq!(of(Heads::Root(5)), [0, 1, 5]);
        assert_eq!(of(Heads::Listed([6, 1, 5].into())), [6, 1, 5]);
        assert_eq!(of(Heads::Listed([3, 7, 2].into())), [3, 7, 2]);
    }
}
