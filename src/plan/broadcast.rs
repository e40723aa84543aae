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
//! Cost: n - 1 + q rounds. Each process but the root receives every block once (Theorem 1), so at
//! most m bytes arrive and at most n - 1 + q blocks leave. With one block these are q rounds, in
//! which each process but the root receives once. No tree has fewer rounds, so one block needs no
//! plan of its own.
//!
//! Deviations:
//! 1. Processes are renumbered so that the root is 0 (the paper says how, below Algorithm 1).
//! 2. Rounds are in closed form, see [`phases`](super::phases).

use std::sync::Arc;

use super::phases::Phases;
use super::{Arrival, Block, Plan, Round, ScratchUse, Shape, Source, minus, plus};
use crate::schedule::{Skips, receive_schedule, send_schedule};

/// The receive and send schedule of one process for one root: q entries each.
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
#[derive(Clone, Debug)]
pub struct Broadcast {
    skips: Arc<Skips>,
    schedules: Arc<Schedules>,
    rank: usize,
    phases: Phases,
}

impl Broadcast {
    /// `schedules` are those of `rank`. The message is cut into `blocks >= 1` blocks.
    pub fn new(
        skips: Arc<Skips>,
        schedules: Arc<Schedules>,
        rank: usize,
        blocks: usize,
    ) -> Broadcast {
        let phases = Phases::new(skips.q(), blocks);
        Broadcast {
            skips,
            schedules,
            rank,
            phases,
        }
    }

    fn block(&self, entry: i8, round: usize) -> Option<Block> {
        let index = self.phases.block(entry, self.phases.shift(round))?;
        Some(Block {
            message: 0,
            index,
            of: self.phases.blocks(),
        })
    }
}

impl Plan for Broadcast {
    fn shape(&self) -> Shape {
        Shape {
            processes: self.skips.processes(),
            messages: 1,
            blocks: self.phases.blocks(),
            rounds: self.phases.rounds(),
            span: self.phases.span(),
            scratch: ScratchUse::Packing,
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        let (p, root) = (self.skips.processes(), self.schedules.root);
        let k = self.phases.skip_index(index);
        round.to = plus(self.rank, self.skips.skip(k), p);
        round.from = minus(self.rank, self.skips.skip(k), p);
        let is_root = self.rank == root;
        if round.to != root {
            if let Some(block) = self.block(self.schedules.send[k], index) {
                let source = if is_root {
                    Source::Input
                } else {
                    Source::Result
                };
                round.send(block, source);
            }
        }
        if !is_root {
            if let Some(block) = self.block(self.schedules.receive[k], index) {
                round.receive(block, Arrival::Store);
            }
        }
    }

    fn width(&self, _index: usize) -> usize {
        1
    }
}
