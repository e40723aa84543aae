//! The one-block allgather of one process: few rounds, of consecutive blocks.
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
//! Cost: q rounds. Each process sends and receives exactly p - 1 blocks.
//! [`Reversed`](super::Reversed) it is Algorithm 1, the reduce-scatter, of the same cost, with p -
//! 1 blocks combined (Theorem 1). One after the other they are Algorithm 2, the allreduce (Theorem
//! 2): each block of the result is computed once, by one process, and copied, so all processes get
//! the same bits.
//!
//! Deviations:
//! 1. R is not a rotated copy. Blocks are named by their process, and the engine moves those that
//!    lie next to each other at once. Only where a sequence wraps around from process p - 1 to 0 it
//!    is packed. In Algorithm 1 a block that was not received yet is sent from the input. With
//!    halving no sequence is longer than ceil(p/2), so what was received first serves as R ever
//!    after, and Algorithm 1's first copy of p - 1 blocks shrinks to what is packed: at most
//!    floor(p/2) in the first round, and where p is odd half as much in the next (the paper's
//!    section 3).
//! 2. Rounds can be filled in in any order, so the skips need no stack.
//! 3. A round's sequence may go in several steps, one after the other ([`Segments`]). The
//!    one-ported model does not ask for that, but networks do: two processes that send each other
//!    megabytes at once over one connection each way take up to twice the time of the bytes
//!    (measured over TCP: acknowledgements queue behind data). Short messages keep each other in
//!    step. Where all fits into one step each, these are the paper's q rounds.

use std::ops::Range;
use std::sync::Arc;

use super::{Arrival, Block, Plan, Round, ScratchUse, Shape, Source, minus, plus};
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

    /// Blocks of each message.
    pub fn blocks(&self) -> usize {
        self.blocks
    }
}

/// Algorithm 2's allgather for process `rank`.
#[derive(Clone, Debug)]
pub struct Doubling {
    sequence: Arc<Sequence>,
    rank: usize,
    segments: Segments,
}

/// A step: a part of a round of the paper.
struct Step {
    /// s.
    skip: usize,
    /// The blocks in it, counted from the first of R[0] or of R[s].
    blocks: Range<usize>,
}

impl Doubling {
    /// One message from each of the sequence's processes.
    pub fn new(sequence: Arc<Sequence>, rank: usize, segments: Segments) -> Doubling {
        Doubling {
            sequence,
            rank,
            segments,
        }
    }

    /// Blocks that are sent in the paper's round from s' to s.
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
    fn blocks(&self, first: usize, step: &Step) -> impl Iterator<Item = Block> {
        let (p, n, rank) = (self.sequence.processes(), self.segments.blocks, self.rank);
        step.blocks.clone().map(move |index| Block {
            message: plus(rank, first + index / n, p),
            index: index % n,
            of: n,
        })
    }
}

impl Plan for Doubling {
    fn shape(&self) -> Shape {
        let rounds = (0..self.sequence.rounds()).map(|round| self.sequence.step(round));
        let rounds = rounds.map(|round| self.steps_of(round)).sum();
        Shape {
            messages: self.sequence.processes(),
            blocks: self.segments.blocks,
            rounds,
            at_once: 1,
            lanes: 1,
            span: rounds,
            scratch: ScratchUse::Packing,
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        let (p, step) = (self.sequence.processes(), self.step(index));
        round.to = minus(self.rank, step.skip, p);
        round.from = plus(self.rank, step.skip, p);
        for block in self.blocks(0, &step) {
            let is_own = block.message == self.rank;
            round.send(
                block,
                if is_own {
                    Source::Input
                } else {
                    Source::Result
                },
            );
        }
        for block in self.blocks(step.skip, &step) {
            round.receive(block, Arrival::Store);
        }
    }

    fn width(&self, index: usize) -> usize {
        self.step(index).blocks.len()
    }
}
