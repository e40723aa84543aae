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
//! 3. A round's sequence may go in several steps, one after the other ([`Segments`]). It makes no
//!    difference to the one-ported model, but to a network: two processes that send each other
//!    megabytes at once over one connection each way take up to twice the time of the bytes (measured
//!    over TCP: acknowledgements queue behind data), while short messages keep each other in step.
//!    Where all fits into one step each, these are the paper's q rounds.

use super::broadcast::{minus, plus};
use super::{Piece, Plan};
use crate::schedule::Sequence;

/// How the blocks of a round are cut into steps.
#[derive(Clone, Copy, Debug)]
pub struct Segments {
    /// Blocks of each message.
    blocks: usize,
    /// Blocks that go in one step. 1 if there are several blocks a message.
    together: usize,
}

impl Segments {
    /// All in one step.
    pub const WHOLE: Segments = Segments {
        blocks: 1,
        together: usize::MAX,
    };

    /// Steps of about `segment` units and at least one, for messages of at most `largest` units.
    pub fn new(largest: usize, segment: usize) -> Segments {
        let (largest, segment) = (largest.max(1), segment.max(1));
        Segments {
            blocks: largest.div_ceil(segment),
            together: (segment / largest).max(1),
        }
    }
}

/// Algorithm 2's allgather for process `rank`.
#[derive(Clone, Copy, Debug)]
pub struct Doubling<'a> {
    sequence: &'a Sequence,
    rank: usize,
    segments: Segments,
    ordered: bool,
}

/// A step: a part of a round.
struct Step {
    /// s.
    skip: usize,
    /// The blocks in it, counted from the first of R[0] or of R[s].
    blocks: std::ops::Range<usize>,
}

impl<'a> Doubling<'a> {
    /// One message from each of the sequence's processes.
    pub fn new(sequence: &'a Sequence, rank: usize, segments: Segments) -> Self {
        Doubling {
            sequence,
            rank,
            segments,
            ordered: false,
        }
    }

    /// The same, by a sequence that is [linear](crate::schedule::Rule::Linear): reversed, every process
    /// has the others' contributions to its block side by side, and can combine them in the order of
    /// the ranks.
    pub fn ordered(sequence: &'a Sequence, rank: usize) -> Self {
        Doubling {
            ordered: true,
            ..Doubling::new(sequence, rank, Segments::WHOLE)
        }
    }

    /// Blocks that are sent in the round from s' to s.
    fn blocks_of(&self, (before, skip): (usize, usize)) -> usize {
        (before - skip) * self.segments.blocks
    }

    fn steps_of(&self, round: (usize, usize)) -> usize {
        self.blocks_of(round).div_ceil(self.segments.together)
    }

    fn step(&self, mut step: usize) -> Step {
        let mut round = (1, 1);
        for next in (0..self.sequence.rounds()).rev() {
            round = self.sequence.step(next);
            match step.checked_sub(self.steps_of(round)) {
                Some(later) => step = later,
                None => break,
            }
        }
        let (all, together) = (self.blocks_of(round), self.segments.together);
        let first = step.saturating_mul(together).min(all);
        Step {
            skip: round.1,
            blocks: first..first.saturating_add(together).min(all),
        }
    }

    /// The blocks of `step`, from R[first] on.
    fn append(&self, first: usize, step: &Step, pieces: &mut Vec<Piece>) {
        let (p, n) = (self.processes(), self.segments.blocks);
        pieces.extend(step.blocks.clone().map(|index| Piece {
            message: plus(self.rank, first + index / n, p),
            block: index % n,
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
        self.segments.blocks
    }

    fn rounds(&self) -> usize {
        let rounds = (0..self.sequence.rounds()).map(|round| self.sequence.step(round));
        rounds.map(|round| self.steps_of(round)).sum()
    }

    fn is_root(&self, message: usize) -> bool {
        self.rank == message
    }

    fn send(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        let step = self.step(round);
        self.append(0, &step, pieces);
        minus(self.rank, step.skip, self.processes())
    }

    fn receive(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        let step = self.step(round);
        self.append(step.skip, &step, pieces);
        plus(self.rank, step.skip, self.processes())
    }

    fn width(&self, round: usize) -> usize {
        self.step(round).blocks.len()
    }

    fn holding(&self) -> usize {
        self.rounds()
    }

    fn keeps_order(&self) -> bool {
        self.ordered
    }
}
