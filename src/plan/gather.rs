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
//! So the tree is the one that Algorithm 1 builds implicitly (the paper's Figure 1): i + s hangs on i
//! in the round of skip s. A message holds the blocks of a subtree, depth first, in the order in
//! which they were appended.

use super::broadcast::{minus, plus};
use super::{Piece, Plan};
use crate::schedule::Sequence;

/// The gather for process `rank`.
#[derive(Clone, Copy, Debug)]
pub struct Gather<'a> {
    sequence: &'a Sequence,
    rank: usize,
    root: usize,
}

impl<'a> Gather<'a> {
    /// To `root`.
    pub fn new(sequence: &'a Sequence, rank: usize, root: usize) -> Self {
        Gather {
            sequence,
            rank,
            root,
        }
    }

    /// This process' distance to the root.
    fn node(&self) -> usize {
        minus(self.root, self.rank, self.processes())
    }

    /// Appends what process `node` before the root has at the start of `round`.
    fn append_subtree(&self, node: usize, round: usize, pieces: &mut Vec<Piece>) {
        pieces.push(Piece {
            message: minus(self.root, node, self.processes()),
            block: 0,
        });
        for earlier in 0..round {
            let (before, skip) = self.sequence.step(earlier);
            if node < before - skip {
                self.append_subtree(node + skip, earlier, pieces);
            }
        }
    }

    /// Fills `pieces` with all that this process ever has, in the order in which it sends it, and
    /// `offsets` with the place of each message among them: then nothing has to be packed.
    pub fn lay_out(&self, pieces: &mut Vec<Piece>, offsets: &mut Vec<usize>) {
        let node = self.node();
        let sends = |&round: &usize| node >= self.sequence.step(round).1;
        let end = (0..self.rounds()).find(sends).unwrap_or(self.rounds());
        pieces.clear();
        self.append_subtree(node, end, pieces);
        offsets.clear();
        offsets.resize(self.processes(), 0);
        for (offset, piece) in pieces.iter().enumerate() {
            offsets[piece.message] = offset;
        }
    }
}

impl Plan for Gather<'_> {
    fn processes(&self) -> usize {
        self.sequence.processes()
    }

    fn messages(&self) -> usize {
        self.processes()
    }

    fn rounds(&self) -> usize {
        self.sequence.rounds()
    }

    fn is_root(&self, message: usize) -> bool {
        self.rank == message
    }

    fn send(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        let (before, skip) = self.sequence.step(round);
        let node = self.node();
        if (skip..before).contains(&node) {
            self.append_subtree(node, round, pieces);
        }
        plus(self.rank, skip, self.processes())
    }

    fn receive(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        let (before, skip) = self.sequence.step(round);
        let node = self.node();
        if node < before - skip {
            self.append_subtree(node + skip, round, pieces);
        }
        minus(self.rank, skip, self.processes())
    }

    /// Each round at most doubles what a process has.
    fn width(&self, round: usize) -> usize {
        let most = self.processes() - 1;
        1usize
            .checked_shl(round as u32)
            .map_or(most, |width| width.min(most))
    }

    fn holding(&self) -> usize {
        1
    }
}

/// The scatter for one process.
#[derive(Clone, Copy, Debug)]
pub struct Scatter<'a>(pub Gather<'a>);

impl Scatter<'_> {
    fn backward(&self, round: usize) -> usize {
        self.0.rounds() - 1 - round
    }
}

impl Plan for Scatter<'_> {
    fn processes(&self) -> usize {
        self.0.processes()
    }

    fn messages(&self) -> usize {
        self.0.messages()
    }

    fn rounds(&self) -> usize {
        self.0.rounds()
    }

    fn is_root(&self, _message: usize) -> bool {
        self.0.rank == self.0.root
    }

    fn send(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        self.0.receive(self.backward(round), pieces)
    }

    fn receive(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        self.0.send(self.backward(round), pieces)
    }

    fn width(&self, round: usize) -> usize {
        self.0.width(self.backward(round))
    }

    fn holding(&self) -> usize {
        self.0.holding()
    }
}
