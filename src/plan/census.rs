//! The allreduce of one process in exactly q = ceil(log2 p) rounds, for every p.
//!
//! Lang, *Modified Bruck/Dissemination Algorithm for Commutative Reduction in MPI*, Algorithm 2,
//! with an operand of fixed size (known as census: Bar-Noy, Kipnis and Schieber):
//!
//! ```text
//! s[q] = p, s[k] = ceil(s[k+1] / 2);  V is the own operand, W the sum of others', empty at first
//! for k = 0, ..., q-1:
//!     e = s[k+1] mod 2;  t, f = r - s[k] + e, r + s[k] - e
//!     e = 1:         Send(W, t)      ||  Recv(T, f)
//!     e = 0, k = 0:  Send(V, t)      ||  Recv(T, f)
//!     e = 0, k > 0:  Send(W + V, t)  ||  Recv(T, f)
//!     W = W + T
//! result: W + V
//! ```
//!
//! After round k, W holds the operands of processes r + 1, ..., r + s[k+1] - 1, each once. With e =
//! 0 the operands of r + s[k], ..., r + 2 s[k] - 1 are added to those of r + 1, ..., r + s[k] - 1;
//! with e = 1 those of r + s[k], ..., r + 2 s[k] - 2.
//!
//! Cost: q rounds of the whole operand. It is combined once in each round but the first, once more
//! in each round of the third kind, and once at the end.
//!
//! **Each process adds in an order of its own**, from its own rank on. So this is for operators for
//! which no order makes a difference, not even in the last bit: selection allows integers only.

use std::sync::Arc;

use super::{Action, Arrival, Block, Operand, Plan, Round, ScratchUse, Shape, Source, minus, plus};
use crate::schedule::Skips;

/// Algorithm 2 for process `rank`. W is in the result.
#[derive(Clone, Debug)]
pub struct Census {
    skips: Arc<Skips>,
    rank: usize,
}

/// What is sent in a round, the same on all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// V.
    Own,
    /// W.
    Others,
    /// W + V.
    Both,
}

impl Census {
    /// For process `rank`.
    pub fn new(skips: Arc<Skips>, rank: usize) -> Census {
        Census { skips, rank }
    }

    /// r.
    pub fn place(&self) -> usize {
        self.rank
    }

    /// The process that is sent to in round `index`, and the one that is received from.
    pub fn neighbours(&self, index: usize) -> (usize, usize) {
        let (p, odd) = (self.skips.processes(), self.skips.skip(index + 1) % 2);
        let distance = self.skips.skip(index) - odd;
        (minus(self.rank, distance, p), plus(self.rank, distance, p))
    }

    /// What is sent in round `index`.
    pub fn content(&self, index: usize) -> Sent {
        if index == 0 {
            Sent::Own
        } else if self.skips.skip(index + 1) % 2 == 1 {
            Sent::Others
        } else {
            Sent::Both
        }
    }
}

impl Plan for Census {
    fn shape(&self) -> Shape {
        Shape {
            messages: 1,
            blocks: 1,
            rounds: self.skips.q(),
            at_once: 1,
            lanes: 1,
            span: 0,
            scratch: ScratchUse::Copies,
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        let operand = Block::whole(0);
        (round.to, round.from) = self.neighbours(index);
        let source = match self.content(index) {
            Sent::Own => Source::Input,
            Sent::Others => Source::Snapshot,
            Sent::Both => Source::SnapshotAndInput,
        };
        round.send(operand, source);
        let is_first = index == 0;
        round.receive(
            operand,
            if is_first {
                Arrival::Store
            } else {
                Arrival::Add
            },
        );
        if index + 1 == self.skips.q() {
            round.fold(Action::Combine, operand, Operand::Input, Operand::Result);
        }
    }

    fn width(&self, _index: usize) -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each process knows its place, and with whom it exchanges words.
    #[test]
    fn neighbours_are_each_others() {
        for p in [2, 3, 5, 7, 9, 16, 17, 31, 33] {
            let skips = Arc::new(Skips::new(p));
            for rank in 0..p {
                let census = Census::new(skips.clone(), rank);
                assert_eq!(census.place(), rank);
                for round in 0..skips.q() {
                    let (to, _) = census.neighbours(round);
                    let (_, from) = Census::new(skips.clone(), to).neighbours(round);
                    assert_eq!(from, rank, "p={p} round {round}");
                }
            }
        }
    }
}
