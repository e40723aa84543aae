//! A plan read backward: a broadcast becomes a reduction, an allgather a reduce-scatter.
//!
//! Träff, *Optimal Broadcast Schedules in Logarithmic Time*, Observation 1.3 and 1.4:
//!
//! ```text
//! for i = n+q-2+x, ..., x: what was received is sent, what was sent is received and combined
//! ```
//!
//! So are Algorithms 1 and 2 of his *Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms*
//! to each other.
//!
//! Cost: the rounds and the bytes of the plan that is reversed; each process but the root sends
//! every partial result once, because forward it received every block once. The operator must be
//! commutative: partial results meet in the order of the rounds, not of the ranks (unless the plan
//! [keeps that](Plan::keeps_order)).

use super::{Piece, Plan};

/// The reversal of `P`.
#[derive(Clone, Copy, Debug)]
pub struct Reversed<P>(pub P);

impl<P: Plan> Reversed<P> {
    fn forward(&self, round: usize) -> usize {
        self.0.rounds() - 1 - round
    }
}

impl<P: Plan> Plan for Reversed<P> {
    fn processes(&self) -> usize {
        self.0.processes()
    }

    fn messages(&self) -> usize {
        self.0.messages()
    }

    fn blocks(&self) -> usize {
        self.0.blocks()
    }

    fn rounds(&self) -> usize {
        self.0.rounds()
    }

    fn combining(&self) -> usize {
        self.rounds()
    }

    fn is_root(&self, message: usize) -> bool {
        self.0.is_root(message)
    }

    fn send(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        self.0.receive(self.forward(round), pieces)
    }

    fn receive(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        self.0.send(self.forward(round), pieces)
    }

    fn width(&self, round: usize) -> usize {
        self.0.width(self.forward(round))
    }

    fn holding(&self) -> usize {
        self.0.holding()
    }

    fn keeps_order(&self) -> bool {
        self.0.keeps_order()
    }
}
