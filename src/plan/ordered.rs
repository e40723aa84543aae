//! The reduce-scatter of one process in the order of the ranks, for operators that do not commute.
//!
//! Träff, *Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms*, Algorithm 1 with the
//! skips p - 1, ..., 1 (Corollary 2), by which every process talks to every other:
//!
//! ```text
//! for s = p-1, ..., 1:
//!     Send(the own contribution to message r + s, r + s)  ||  Recv(T[r - s], r - s)
//! result: T[0] op T[1] op ... op T[p-1], where T[r] is the own contribution
//! ```
//!
//! Cost: p - 1 rounds. Each process sends and receives exactly p - 1 blocks and combines p - 1, all
//! of them at the end; they take p - 1 blocks of scratch.
//!
//! Deviation:
//! 1. A message may be cut into several blocks, one round each, for the reason that
//!    [`Segments`](super::Segments) gives.

use super::{Action, Arrival, Block, Operand, Plan, Round, ScratchUse, Shape, Source, minus, plus};

/// The reduce-scatter for process `rank` of `processes`.
#[derive(Clone, Copy, Debug)]
pub struct Ordered {
    processes: usize,
    rank: usize,
    blocks: usize,
}

impl Ordered {
    /// Each message is cut into `blocks >= 1` blocks.
    pub fn new(processes: usize, rank: usize, blocks: usize) -> Ordered {
        Ordered {
            processes,
            rank,
            blocks: blocks.max(1),
        }
    }

    fn rounds(&self) -> usize {
        (self.processes - 1) * self.blocks
    }

    fn block(&self, message: usize, index: usize) -> Block {
        Block {
            message,
            index,
            of: self.blocks,
        }
    }

    /// What process `process` contributed to block `index` of the own message.
    fn operand(&self, process: usize, index: usize) -> Operand {
        if process == self.rank {
            Operand::Input
        } else {
            Operand::Held(process * self.blocks + index)
        }
    }

    /// Combines the contributions to a block from the last rank's to the first's. Each combination
    /// has the operand of the lower rank on the left.
    fn combine(&self, index: usize, round: &mut Round) {
        let block = self.block(self.rank, index);
        let last = self.operand(self.processes - 1, index);
        // The input must not be written to, and a held block can be.
        let sum = if last == Operand::Input {
            round.fold(Action::Copy, block, last, Operand::Result);
            Operand::Result
        } else {
            last
        };
        for process in (0..self.processes - 1).rev() {
            let next = self.operand(process, index);
            round.fold(Action::Combine, block, next, sum);
        }
        if sum != Operand::Result {
            round.fold(Action::Copy, block, sum, Operand::Result);
        }
    }
}

impl Plan for Ordered {
    fn shape(&self) -> Shape {
        Shape {
            messages: self.processes,
            blocks: self.blocks,
            rounds: self.rounds(),
            at_once: 1,
            lanes: 1,
            span: self.rounds(),
            scratch: ScratchUse::Partials,
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        let (skip, block) = (
            self.processes - 1 - index / self.blocks,
            index % self.blocks,
        );
        round.to = plus(self.rank, skip, self.processes);
        round.from = minus(self.rank, skip, self.processes);
        round.send(self.block(round.to, block), Source::Input);
        let held = Arrival::Hold(round.from * self.blocks + block);
        round.receive(self.block(self.rank, block), held);
        if index + 1 == self.rounds() {
            for block in 0..self.blocks {
                self.combine(block, round);
            }
        }
    }

    fn width(&self, _index: usize) -> usize {
        1
    }
}
