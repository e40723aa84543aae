//! The n-block broadcast of one process, in n - 1 + q rounds.
//!
//! Träff, *Optimal Broadcast Schedules in Logarithmic Time*, Algorithm 1:
//!
//! ```text
//! for i = x, ..., n+q-2+x:
//!     k = i mod q
//!     Send(buf[sendblock[k]], r + skip[k])  ||  Recv(buf[recvblock[k]], r - skip[k])
//!     sendblock[k] += q; recvblock[k] += q
//! ```
//!
//! Cost: n - 1 + q rounds; each process but the root receives every block once (Theorem 1), so at
//! most m bytes arrive and at most n - 1 + q blocks leave. With one block these are q rounds, in which
//! each process but the root receives once: as few as the tree has that Algorithm 1 of the paper on
//! non-pipelined algorithms makes where only one block is not empty (its Corollary 3), so that needs no
//! plan of its own for broadcasts and reductions.
//!
//! Deviations:
//! 1. Processes are renumbered so that the root is 0 (the paper says how, below Algorithm 1).
//! 2. Rounds in closed form, see [`phases`](super::phases).

use super::phases::Phases;
use super::{Piece, Plan};
use crate::schedule::{Skips, receive_schedule, send_schedule};

/// The receive and send schedule of one process relative to one root: q entries each.
#[derive(Clone, Debug)]
pub struct Schedules {
    root: usize,
    receive: Box<[i8]>,
    send: Box<[i8]>,
}

impl Schedules {
    /// For process `rank` when `root` broadcasts; O(log p) time and space.
    pub fn new(skips: &Skips, rank: usize, root: usize) -> Schedules {
        let virtual_rank = minus(rank, root, skips.processes());
        let mut receive = vec![0; skips.q()].into_boxed_slice();
        let mut send = receive.clone();
        receive_schedule(skips, virtual_rank, &mut receive);
        send_schedule(skips, virtual_rank, &mut send);
        Schedules {
            root,
            receive,
            send,
        }
    }

    /// The root that these schedules are for.
    pub fn root(&self) -> usize {
        self.root
    }
}

/// Algorithm 1 for process `rank`.
#[derive(Clone, Copy, Debug)]
pub struct Broadcast<'a> {
    skips: &'a Skips,
    schedules: &'a Schedules,
    rank: usize,
    phases: Phases,
}

impl<'a> Broadcast<'a> {
    /// `schedules` must be those of `rank`; the message is cut into `blocks >= 1` blocks.
    pub fn new(skips: &'a Skips, schedules: &'a Schedules, rank: usize, blocks: usize) -> Self {
        Broadcast {
            skips,
            schedules,
            rank,
            phases: Phases::new(skips.q(), blocks),
        }
    }

    fn append(&self, entry: i8, round: usize, pieces: &mut Vec<Piece>) {
        let block = self.phases.block(entry, self.phases.shift(round));
        pieces.extend(block.map(|block| Piece { message: 0, block }));
    }
}

impl Plan for Broadcast<'_> {
    fn processes(&self) -> usize {
        self.skips.processes()
    }

    fn messages(&self) -> usize {
        1
    }

    fn blocks(&self) -> usize {
        self.phases.blocks()
    }

    fn rounds(&self) -> usize {
        self.phases.rounds()
    }

    fn is_root(&self, _message: usize) -> bool {
        self.rank == self.schedules.root
    }

    fn send(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        let k = self.phases.skip_index(round);
        let to = plus(self.rank, self.skips.skip(k), self.processes());
        if to != self.schedules.root {
            self.append(self.schedules.send[k], round, pieces);
        }
        to
    }

    fn receive(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        let k = self.phases.skip_index(round);
        if self.rank != self.schedules.root {
            self.append(self.schedules.receive[k], round, pieces);
        }
        minus(self.rank, self.skips.skip(k), self.processes())
    }

    fn width(&self, _round: usize) -> usize {
        1
    }

    fn holding(&self) -> usize {
        2 * self.skips.q()
    }
}

/// (a + b) mod p for a, b < p (or b = p).
pub(super) fn plus(a: usize, b: usize, p: usize) -> usize {
    let sum = a + b;
    if sum >= p { sum - p } else { sum }
}

/// (a - b) mod p for a, b < p.
pub(super) fn minus(a: usize, b: usize, p: usize) -> usize {
    if a >= b { a - b } else { a + p - b }
}
