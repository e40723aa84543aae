//! Gather and scatter of one process, for one root: q rounds, each process sends (receives) once.
//!
//! Träff, *Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms*, section 4: Algorithm 1
//! with concatenation as its operator, where only the root's block is not empty. Process i before
//! the root (i = root - r mod p) has something for R[i] only:
//!
//! ```text
//! L = (the own block);  for k = 0, ..., q-1:  s', s = s[k], s[k+1]
//!     s <= i < s':    Send(L, r + s), and be done
//!     i < s' - s:     Recv(T, r - s), append T to L
//! ```
//!
//! Cost: q rounds; each process but the root sends once, and the root receives p - 1 blocks in q
//! messages, of at most 2^k blocks in round k. The scatter is the same rounds backward.
//!
//! So the tree is the one that Algorithm 1 builds implicitly (the paper's Figure 1): i + s is a
//! child of i in the round of skip s. A message holds the blocks of a subtree, depth first, in the
//! order in which they were appended. Messages that lie in the order of [`Gather::visit_messages`]
//! need not be packed.

use std::sync::Arc;

use super::{
    Arrival, Block, Incoming, Outgoing, Plan, Round, ScratchUse, Shape, Source, minus, plus,
};
use crate::schedule::Sequence;

/// The gather for process `rank`.
#[derive(Clone, Debug)]
pub struct Gather {
    sequence: Arc<Sequence>,
    rank: usize,
    root: usize,
}

impl Gather {
    /// To `root`.
    pub fn new(sequence: Arc<Sequence>, rank: usize, root: usize) -> Gather {
        Gather {
            sequence,
            rank,
            root,
        }
    }

    /// This process's distance to the root.
    fn node(&self) -> usize {
        minus(self.root, self.rank, self.sequence.processes())
    }

    /// Calls `visit` with each message that process `node` before the root has at the start of
    /// `round`, in wire order.
    fn visit_subtree(&self, node: usize, round: usize, visit: &mut impl FnMut(usize)) {
        visit(minus(self.root, node, self.sequence.processes()));
        for earlier in 0..round {
            let (before, skip) = self.sequence.step(earlier);
            if node < before - skip {
                self.visit_subtree(node + skip, earlier, visit);
            }
        }
    }

    /// Calls `visit` with each message that this process ever has. In this order the blocks of each
    /// message on the wire are next to each other.
    pub fn visit_messages(&self, visit: &mut impl FnMut(usize)) {
        let (node, rounds) = (self.node(), self.sequence.rounds());
        let sends = |&round: &usize| node >= self.sequence.step(round).1;
        let end = (0..rounds).find(sends).unwrap_or(rounds);
        self.visit_subtree(node, end, visit);
    }
}

impl Plan for Gather {
    fn shape(&self) -> Shape {
        Shape {
            messages: self.sequence.processes(),
            blocks: 1,
            rounds: self.sequence.rounds(),
            at_once: 1,
            lanes: 1,
            span: 0,
            scratch: ScratchUse::Nothing,
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        let p = self.sequence.processes();
        let ((before, skip), node) = (self.sequence.step(index), self.node());
        round.to = plus(self.rank, skip, p);
        round.from = minus(self.rank, skip, p);
        if (skip..before).contains(&node) {
            self.visit_subtree(node, index, &mut |message| {
                let is_own = message == self.rank;
                let source = if is_own {
                    Source::Input
                } else {
                    Source::Result
                };
                round.send(Block::whole(message), source);
            });
        }
        if node < before - skip {
            self.visit_subtree(node + skip, index, &mut |message| {
                round.receive(Block::whole(message), Arrival::Store);
            });
        }
    }

    /// Each round at most doubles what a process has.
    fn width(&self, index: usize) -> usize {
        let most = self.sequence.processes() - 1;
        let doubled = 1usize.checked_shl(index as u32);
        doubled.map_or(most, |width| width.min(most))
    }
}

/// The scatter for one process: the gather backward.
#[derive(Clone, Debug)]
pub struct Scatter(pub Gather);

impl Scatter {
    fn backward(&self, index: usize) -> usize {
        self.0.sequence.rounds() - 1 - index
    }
}

impl Plan for Scatter {
    fn shape(&self) -> Shape {
        self.0.shape()
    }

    fn fill(&self, index: usize, round: &mut Round) {
        self.0.fill(self.backward(index), round);
        std::mem::swap(&mut round.to, &mut round.from);
        let is_root = self.0.rank == self.0.root;
        let source = if is_root {
            Source::Input
        } else {
            Source::Result
        };
        let arrived = round.receives.len();
        let left = round.sends.drain(..).map(|outgoing| Incoming {
            block: outgoing.block,
            arrival: Arrival::Store,
        });
        round.receives.extend(left);
        let arrived = round.receives.drain(..arrived).map(|incoming| Outgoing {
            block: incoming.block,
            source,
        });
        round.sends.extend(arrived);
    }

    fn width(&self, index: usize) -> usize {
        self.0.width(self.backward(index))
    }
}
