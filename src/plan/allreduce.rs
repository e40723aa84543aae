//! The non-pipelined allreduce of one process: a reduce-scatter, and an allgather of its results.
//!
//! Träff, *Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms*, Algorithm 2:
//!
//! ```text
//! Algorithm 1, so that block r is the result at process r;
//! then its rounds backward: what was sent to be combined comes back as a result
//! ```
//!
//! Cost: 2q rounds, each process sends and receives exactly 2(p - 1) blocks and combines p - 1
//! (Theorem 2), which is optimal in blocks.
//!
//! **All processes get bitwise the same result**, whatever the operator: each block of it is computed
//! once, by one process, and copied. (The process combines in an order of its own, which depends on
//! p and the skips only, so that repeated runs agree, too.)

use super::{Doubling, Piece, Plan, Reversed};

/// Algorithm 2 for process `rank`.
#[derive(Clone, Copy, Debug)]
pub struct Allreduce<'a> {
    scatter: Reversed<Doubling<'a>>,
    gather: Doubling<'a>,
}

impl<'a> Allreduce<'a> {
    /// The data is cut into one message for each of the processes of `rounds`.
    pub fn new(rounds: Doubling<'a>) -> Self {
        Allreduce {
            scatter: Reversed(rounds),
            gather: rounds,
        }
    }
}

impl Plan for Allreduce<'_> {
    fn processes(&self) -> usize {
        self.gather.processes()
    }

    fn messages(&self) -> usize {
        self.gather.messages()
    }

    fn blocks(&self) -> usize {
        self.gather.blocks()
    }

    fn rounds(&self) -> usize {
        self.scatter.rounds() + self.gather.rounds()
    }

    fn combining(&self) -> usize {
        self.scatter.rounds()
    }

    fn is_root(&self, message: usize) -> bool {
        self.gather.is_root(message)
    }

    fn send(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        match round.checked_sub(self.combining()) {
            None => self.scatter.send(round, pieces),
            Some(round) => self.gather.send(round, pieces),
        }
    }

    fn receive(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        match round.checked_sub(self.combining()) {
            None => self.scatter.receive(round, pieces),
            Some(round) => self.gather.receive(round, pieces),
        }
    }

    fn width(&self, round: usize) -> usize {
        match round.checked_sub(self.combining()) {
            None => self.scatter.width(round),
            Some(round) => self.gather.width(round),
        }
    }

    fn holding(&self) -> usize {
        self.scatter.holding()
    }

    fn keeps_order(&self) -> bool {
        self.scatter.keeps_order()
    }
}
