//! A plan read backward: a broadcast becomes a reduction, an allgather a reduce-scatter.
//!
//! Träff, *Optimal Broadcast Schedules in Logarithmic Time*, Observation 1.3 and 1.4:
//!
//! ```text
//! for i = n+q-2+x, ..., x: what was received is sent, what was sent is received and combined
//! ```
//!
//! Algorithms 1 and 2 of his *Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms* are
//! each other's reversal, too.
//!
//! Cost: the rounds and the bytes of the plan that is reversed. Each process but the root sends
//! every partial result once, because forward it received every block once. The operator must be
//! commutative: partial results meet in the order of the rounds, not of the ranks.

use super::{Arrival, Incoming, Outgoing, Plan, Round, ScratchUse, Shape, Source};

/// The reversal of `P`, which stores what it receives.
#[derive(Clone, Copy, Debug)]
pub struct Reversed<P>(pub P);

impl<P: Plan> Plan for Reversed<P> {
    fn shape(&self) -> Shape {
        Shape {
            scratch: ScratchUse::Partials,
            ..self.0.shape()
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        self.0.fill(self.forward(index), round);
        std::mem::swap(&mut round.to, &mut round.from);
        let arrived = round.receives.len();
        round
            .receives
            .extend(round.sends.drain(..).map(reversed_send));
        round
            .sends
            .extend(round.receives.drain(..arrived).map(reversed_receive));
    }

    fn width(&self, index: usize) -> usize {
        self.0.width(self.forward(index))
    }
}

impl<P: Plan> Reversed<P> {
    /// Rounds that are run at once keep their order, in which their sends are started.
    fn forward(&self, index: usize) -> usize {
        let Shape {
            rounds, at_once, ..
        } = self.0.shape();
        let step = index / at_once;
        rounds - (step + 1) * at_once + index % at_once
    }
}

fn reversed_send(outgoing: Outgoing) -> Incoming {
    Incoming {
        block: outgoing.block,
        // Where a block starts is its root.
        arrival: match outgoing.source {
            Source::Input => Arrival::Reduce,
            _ => Arrival::Combine,
        },
    }
}

fn reversed_receive(incoming: Incoming) -> Outgoing {
    Outgoing {
        block: incoming.block,
        source: Source::Partial,
    }
}
