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
//! 2. Rounds are in closed form instead of counters that are increased by q. With
//!    x = (q - (n-1) mod q) mod q virtual rounds, and for real round i and I = i + x:
//!
//!    ```text
//!    k     = I mod q
//!    block = schedule[k] - x + q * floor(I / q)     none if negative, n-1 if larger than n-1
//!    ```
//!
//!    The paper starts an entry k < x at schedule[k] - x + q because its first use is in phase 1;
//!    with floor(I / q) that is the same value. So rounds can be visited in any order, and a
//!    reversal needs no second derivation.

use std::sync::Arc;

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

    /// The process that is sent to in round `index`, and the one that is received from.
    pub(super) fn neighbours(&self, index: usize) -> [usize; 2] {
        let (p, skip) = (self.skips.processes(), self.skip(index));
        [plus(self.rank, skip, p), minus(self.rank, skip, p)]
    }

    /// The block that leaves in round `index`, if one does.
    pub(super) fn sent(&self, index: usize) -> Option<usize> {
        let [to, _] = self.neighbours(index);
        self.block(&self.schedules.send, index)
            .filter(|_| to != self.schedules.root)
    }

    /// The block that arrives in round `index`, if one does.
    pub(super) fn received(&self, index: usize) -> Option<usize> {
        self.block(&self.schedules.receive, index)
            .filter(|_| self.rank != self.schedules.root)
    }

    /// What the root does in round `index`, on every process: it sends this block to that process.
    pub(super) fn sent_by_root(&self, index: usize) -> (usize, usize) {
        let to = plus(
            self.schedules.root,
            self.skip(index),
            self.skips.processes(),
        );
        (index.min(self.phases.blocks() - 1), to)
    }

    fn block(&self, schedule: &[i8], index: usize) -> Option<usize> {
        let entry = schedule[self.phases.skip_index(index)];
        self.phases.block(entry, self.phases.shift(index))
    }

    fn skip(&self, index: usize) -> usize {
        self.skips.skip(self.phases.skip_index(index))
    }
}

impl Plan for Broadcast {
    fn shape(&self) -> Shape {
        self.phases.shape(1)
    }

    fn fill(&self, index: usize, round: &mut Round) {
        let of = self.phases.blocks();
        let block = |index| Block {
            message: 0,
            index,
            of,
        };
        [round.to, round.from] = self.neighbours(index);
        if let Some(index) = self.sent(index) {
            let source = if self.rank == self.schedules.root {
                Source::Input
            } else {
                Source::Result
            };
            round.send(block(index), source);
        }
        if let Some(index) = self.received(index) {
            round.receive(block(index), Arrival::Store);
        }
    }

    fn width(&self, _index: usize) -> usize {
        1
    }
}

/// The number of blocks and the rounds of a pipelined schedule: the arithmetic that Algorithm 1 and
/// Algorithm 7 share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phases {
    q: usize,
    blocks: usize,
    /// x, the virtual rounds before the first real one.
    skipped: usize,
}

impl Phases {
    /// For `blocks >= 1` blocks and q skips.
    pub(super) fn new(q: usize, blocks: usize) -> Phases {
        let blocks = blocks.max(1);
        let skipped = if q == 0 {
            0
        } else {
            (q - (blocks - 1) % q) % q
        };
        Phases { q, blocks, skipped }
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// That of a plan with so many messages.
    pub(super) fn shape(&self, messages: usize) -> Shape {
        Shape {
            messages,
            blocks: self.blocks,
            rounds: self.rounds(),
            at_once: 1,
            lanes: 1,
            span: self.span(),
            scratch: ScratchUse::Packing,
        }
    }

    /// n - 1 + q, or none at all where there is nobody to talk to.
    pub(super) fn rounds(&self) -> usize {
        if self.q == 0 {
            0
        } else {
            self.blocks - 1 + self.q
        }
    }

    /// 2q: in phase f entry s of a schedule stands for block s - x + q f, and -q <= s < q. So block
    /// b is met in two phases, c = floor((b + x) / q) and c + 1, which are fewer than 2q rounds.
    /// The blocks that were met and will be again, of the phases f - 1 and f, are 2q in a row.
    /// (Only in the last phase, where q f = n - 1 + x, larger numbers stand for block n - 1.)
    pub(super) fn span(&self) -> usize {
        2 * self.q
    }

    /// Which skip round `round` uses.
    pub(super) fn skip_index(&self, round: usize) -> usize {
        (round + self.skipped) % self.q
    }

    /// What is added to a schedule entry in `round` to give a block number.
    pub(super) fn shift(&self, round: usize) -> isize {
        let phase = (round + self.skipped) / self.q;
        (self.q * phase) as isize - self.skipped as isize
    }

    /// The block that schedule entry `entry` stands for where entries are shifted by `shift`.
    pub(super) fn block(&self, entry: i8, shift: isize) -> Option<usize> {
        let block = isize::from(entry) + shift;
        usize::try_from(block)
            .ok()
            .map(|block| block.min(self.blocks - 1))
    }
}
