//! An algorithm on nodes with several processes, as far as it crosses nodes: one process of each
//! node, its leader, runs the rounds of a plan with the leaders of the other nodes.
//!
//! ```text
//! round t: if this process leads its node: round t of the plan of the leaders
//! ```
//!
//! **Cost.** The rounds and the bytes of the plan on the nodes. What goes on within them is another
//! matter: [`Leaders`](super::Leaders) passes it on in messages, [`Shared`](super::Shared) in
//! memory.
//!
//! A message across may stand for those of all ranks of its node, which the leader has. They need
//! not be next to each other, so any placement of ranks will do.

use std::sync::Arc;

use super::{Block, Outgoing, Plan, Round, Shape};
use crate::nodes::Nodes;

/// The rounds of plan `P` of one process, if it leads its node.
pub struct Across<P> {
    /// What the leader of this process's node does.
    pub(super) plan: P,
    pub(super) nodes: Arc<Nodes>,
    pub(super) rank: usize,
    pub(super) heads: Heads,
    pub(super) messages: Messages,
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

impl<P: Plan> Across<P> {
    /// For process `rank`. `plan` has the rounds of the leader of its node.
    pub fn new(
        plan: P,
        (nodes, rank): (Arc<Nodes>, usize),
        heads: Heads,
        messages: Messages,
    ) -> Across<P> {
        Across {
            plan,
            nodes,
            rank,
            heads,
            messages,
        }
    }

    /// The rank that leads this process's node.
    pub fn leader(&self) -> usize {
        self.heads.of(self.nodes.node(self.rank), &self.nodes)
    }

    /// Whether this process does.
    pub(super) fn leads(&self) -> bool {
        self.leader() == self.rank
    }

    /// Calls `visit` with the blocks that a block across stands for.
    pub(super) fn visit_blocks(&self, block: Block, mut visit: impl FnMut(Block)) {
        match self.messages {
            Messages::Whole => visit(block),
            Messages::OfRanks => {
                let ranks = self.nodes.ranks(block.message).iter();
                ranks.for_each(|&message| visit(Block { message, ..block }));
            }
        }
    }

    /// The most messages that a message across stands for.
    pub(super) fn together(&self) -> usize {
        match self.messages {
            Messages::Whole => 1,
            Messages::OfRanks => self.nodes.largest(),
        }
    }
}

impl<P: Plan> Plan for Across<P> {
    fn shape(&self) -> Shape {
        Shape {
            messages: match self.messages {
                Messages::Whole => 1,
                Messages::OfRanks => self.nodes.processes(),
            },
            ..self.plan.shape()
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        if !self.leads() {
            return;
        }
        self.plan.fill(index, round);
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

    fn width(&self, index: usize) -> usize {
        self.plan.width(index).saturating_mul(self.together())
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
