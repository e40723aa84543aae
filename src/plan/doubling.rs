//! The non-pipelined allgather of one process: few rounds, of consecutive blocks.
//!
//! Träff, *Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms*, Algorithm 2, its second
//! phase, for any [`Sequence`] p = s[0] > ... > s[q] = 1:
//!
//! ```text
//! R[i] = block (r + i) mod p; R[0] is there
//! for k = q-1, ..., 0:
//!     s', s = s[k], s[k+1]
//!     Send(R[0 .. s'-s-1], r - s)  ||  Recv(R[s .. s'-1], r + s)
//! ```
//!
//! Cost: q rounds; each process sends and receives exactly p - 1 blocks. [`Reversed`](super::Reversed)
//! it is Algorithm 1, the reduce-scatter, of the same cost and p - 1 blocks combined (Theorem 1).
//!
//! Deviations:
//! 1. R is not a rotated copy. Blocks are named by their process, and the engine moves those that lie
//!    next to each other at once; only where a sequence wraps around from process p - 1 to 0, it is
//!    packed. In Algorithm 1 a block that was not received yet is sent from the input. With halving no
//!    sequence is longer than ceil(p/2), so what was received first serves as R ever after, and
//!    Algorithm 1's first copy of p - 1 blocks shrinks to what is packed: floor(p/2) in the first
//!    round, at most, and where p is odd half as much in the next (the paper's section 3).
//! 2. Rounds can be visited in any order, so that the skips need no stack.

use super::broadcast::{minus, plus};
use super::{Piece, Plan};
use crate::schedule::Sequence;

/// Algorithm 2's allgather for process `rank`.
#[derive(Clone, Copy, Debug)]
pub struct Doubling<'a> {
    sequence: &'a Sequence,
    rank: usize,
    ordered: bool,
}

impl<'a> Doubling<'a> {
    /// One block from each of the sequence's processes.
    pub fn new(sequence: &'a Sequence, rank: usize) -> Self {
        Doubling {
            sequence,
            rank,
            ordered: false,
        }
    }

    /// The same, by a sequence that is [linear](crate::schedule::Rule::Linear): reversed, every process
    /// has the others' contributions to its block side by side, and can combine them in the order of
    /// the ranks.
    pub fn ordered(sequence: &'a Sequence, rank: usize) -> Self {
        Doubling {
            ordered: true,
            ..Doubling::new(sequence, rank)
        }
    }

    /// s' and s.
    fn step(&self, round: usize) -> (usize, usize) {
        self.sequence.step(self.rounds() - 1 - round)
    }

    /// R[first], ..., R[end - 1].
    fn append(&self, first: usize, end: usize, pieces: &mut Vec<Piece>) {
        let p = self.processes();
        let message = |distance| plus(self.rank, distance, p);
        pieces.extend((first..end).map(|distance| Piece {
            message: message(distance),
            block: 0,
        }));
    }
}

impl Plan for Doubling<'_> {
    fn processes(&self) -> usize {
        self.sequence.processes()
    }

    fn messages(&self) -> usize {
        self.processes()
    }

    fn blocks(&self) -> usize {
        1
    }

    fn rounds(&self) -> usize {
        self.sequence.rounds()
    }

    fn combining(&self) -> usize {
        0
    }

    fn is_root(&self, message: usize) -> bool {
        self.rank == message
    }

    fn send(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        let (before, skip) = self.step(round);
        self.append(0, before - skip, pieces);
        minus(self.rank, skip, self.processes())
    }

    fn receive(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        let (before, skip) = self.step(round);
        self.append(skip, before, pieces);
        plus(self.rank, skip, self.processes())
    }

    fn width(&self, round: usize) -> usize {
        let (before, skip) = self.step(round);
        before - skip
    }

    fn holding(&self) -> usize {
        self.rounds()
    }

    fn keeps_order(&self) -> bool {
        self.ordered
    }
}
