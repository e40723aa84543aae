//! The all-to-all exchange of one process in few rounds, for small blocks.
//!
//! Träff, *Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms*, section 4: Algorithm 1
//! with concatenation as its operator.
//!
//! ```text
//! R[i] = (the block for process r + i), for all i
//! for k = 0, ..., q-1:  s', s = s[k], s[k+1]
//!     Send(R[s .. s'-1], r + s)  ||  Recv(T[0 .. s'-s-1], r - s)
//!     R[i] = R[i] with T[i] appended, for i < s'-s
//! R[0] is all that is for process r
//! ```
//!
//! Cost: q rounds. A block for process r + e travels over the skips into which e is decomposed by
//! subtracting each skip that fits, from the largest on: for every e, as many blocks leave each
//! process as e has such skips; about p q / 2 in all.
//!
//! Deviation:
//! 1. No lists are kept. Where a process sends the blocks that have e - s to go of e, it receives
//!    as many of the same kind. So a process has one place for each e, 0 <= e < p. *Message e* is
//!    at first its block for r + e, and in the end the block from r - e. Which messages travel in a
//!    round is the same on all processes, and is computed once ([`Routes`]).

use std::sync::Arc;

use super::{Arrival, Block, Plan, Round, ScratchUse, Shape, Source, minus, plus};
use crate::schedule::Sequence;

/// Which messages travel in which round, on every process.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Messages, round after round, ascending in each.
    travelling: Box<[u32]>,
    /// Where each round's start, and the end.
    starts: Box<[usize]>,
}

impl Routes {
    /// The routes of `sequence`: O(p q) time and space.
    pub fn new(sequence: &Sequence) -> Routes {
        let p = sequence.processes();
        let mut to_go: Vec<usize> = (0..p).collect();
        let (mut travelling, mut starts) = (Vec::new(), vec![0]);
        for round in 0..sequence.rounds() {
            let (_, skip) = sequence.step(round);
            for (message, to_go) in (0u32..).zip(&mut to_go) {
                if *to_go >= skip {
                    *to_go -= skip;
                    travelling.push(message);
                }
            }
            starts.push(travelling.len());
        }
        Routes {
            travelling: travelling.into_boxed_slice(),
            starts: starts.into_boxed_slice(),
        }
    }

    fn in_round(&self, round: usize) -> &[u32] {
        &self.travelling[self.starts[round]..self.starts[round + 1]]
    }
}

/// The exchange for process `rank`.
#[derive(Clone, Debug)]
pub struct AllToAll {
    sequence: Arc<Sequence>,
    routes: Arc<Routes>,
    rank: usize,
}

impl AllToAll {
    /// `routes` are those of `sequence`.
    pub fn new(sequence: Arc<Sequence>, routes: Arc<Routes>, rank: usize) -> AllToAll {
        AllToAll {
            sequence,
            routes,
            rank,
        }
    }
}

impl Plan for AllToAll {
    fn shape(&self) -> Shape {
        Shape {
            messages: self.sequence.processes(),
            blocks: 1,
            rounds: self.sequence.rounds(),
            at_once: 1,
            lanes: 1,
            span: 0,
            scratch: ScratchUse::Copies,
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        let (p, (_, skip)) = (self.sequence.processes(), self.sequence.step(index));
        round.to = plus(self.rank, skip, p);
        round.from = minus(self.rank, skip, p);
        for &message in self.routes.in_round(index) {
            let block = Block::whole(message as usize);
            round.send(block, Source::Snapshot);
            round.receive(block, Arrival::Replace);
        }
    }

    fn width(&self, index: usize) -> usize {
        self.routes.in_round(index).len()
    }
}
