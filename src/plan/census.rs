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
//! After round k, W holds the operands of processes r + 1, ..., r + s[k+1] - 1, each once: with e = 0
//! the operands of r + s[k], ..., r + 2 s[k] - 1 are added to those of r + 1, ..., r + s[k] - 1;
//! with e = 1 those of r + s[k], ..., r + 2 s[k] - 2.
//!
//! Cost: q rounds of the whole operand; the operand is combined once a round but the first, once
//! more in each round of the third kind, and once at the end.
//!
//! **Each process adds in an order of its own**, from its own rank on. So this is for operators for
//! which no order makes a difference, not even in the last bit: selection allows integers only.
//!
//! **An operand that grows** ([`Growing`]) is what the paper has these rounds for: then W is the s[k] - 1
//! blocks of the processes r + 1, ..., r + s[k] - 1, combined, and p - 1 blocks are sent in all: s[k] in
//! round k where e = 0, else s[k] - 1, which is s[k+1] - s[k].

use super::broadcast::{minus, plus};
use super::growing::{Content, Growing, Step};
use super::{Operand, Piece, Plan};
use crate::schedule::Skips;

/// Algorithm 2 for process `rank`.
#[derive(Clone, Copy, Debug)]
pub struct Census<'a> {
    skips: &'a Skips,
    rank: usize,
}

impl<'a> Census<'a> {
    /// For process `rank`.
    pub fn new(skips: &'a Skips, rank: usize) -> Self {
        Census { skips, rank }
    }

    /// 1 where the own operand is left out, else 0.
    fn without_own(&self, round: usize) -> usize {
        self.skips.skip(round + 1) % 2
    }

    fn distance(&self, round: usize) -> usize {
        self.skips.skip(round) - self.without_own(round)
    }

    fn receiver(&self, round: usize) -> usize {
        minus(self.rank, self.distance(round), self.processes())
    }

    fn sender(&self, round: usize) -> usize {
        plus(self.rank, self.distance(round), self.processes())
    }

    fn processes(&self) -> usize {
        self.skips.processes()
    }
}

const WHOLE: Piece = Piece {
    message: 0,
    block: 0,
};

impl Plan for Census<'_> {
    fn processes(&self) -> usize {
        self.processes()
    }

    fn messages(&self) -> usize {
        1
    }

    fn rounds(&self) -> usize {
        self.skips.q()
    }

    fn combining(&self) -> usize {
        self.skips.q()
    }

    fn is_root(&self, _message: usize) -> bool {
        true
    }

    fn send(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        pieces.push(WHOLE);
        self.receiver(round)
    }

    fn receive(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        pieces.push(WHOLE);
        self.sender(round)
    }

    fn width(&self, _round: usize) -> usize {
        1
    }

    fn holding(&self) -> usize {
        1
    }

    fn operand(&self, round: usize) -> Operand {
        if round == 0 {
            Operand::Own
        } else if self.without_own(round) == 1 {
            Operand::Others
        } else {
            Operand::Both
        }
    }
}

impl Growing for Census<'_> {
    fn processes(&self) -> usize {
        self.processes()
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn rounds(&self) -> usize {
        self.skips.q()
    }

    fn step(&self, round: usize) -> Step {
        Step {
            to: self.receiver(round),
            from: self.sender(round),
            content: match self.operand(round) {
                Operand::Own => Content::Own,
                Operand::Others => Content::Others,
                Operand::Both | Operand::Accumulated => Content::Both,
            },
        }
    }

    fn keeps_own_apart(&self) -> bool {
        true
    }
}
