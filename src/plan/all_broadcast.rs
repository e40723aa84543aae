//! The n-block all-broadcast of one process: p broadcasts at once, in n - 1 + q rounds.
//!
//! Träff, *Optimal Broadcast Schedules in Logarithmic Time*, Algorithm 7:
//!
//! ```text
//! recvblocks[j] = receive schedule of process (r - j) mod p      for all roots j
//! sendblocks[j][k] = recvblocks[(j - skip[k]) mod p][k]
//! for i = x, ..., n+q-2+x:
//!     k = i mod q; t, f = r + skip[k], r - skip[k]
//!     pack bufs[j][sendblocks[j][k]] for all j != t; Send to t || Recv from f
//!     unpack into bufs[j][recvblocks[j][k]] for all j != r
//! ```
//!
//! Cost: n - 1 + q rounds; each process receives every block of every other process once, so
//! exactly m - m_r bytes arrive; O(p) work a round.
//!
//! Deviations:
//! 1. The receive schedules of all processes are one [`Table`] per communicator, computed at once,
//!    instead of p schedules per call.
//! 2. sendblocks is not stored: what r sends to t is what t receives (Condition 2), which is entry
//!    k of process (t - j) mod p in that same table.
//! 3. Messages without data are skipped, as the paper asks for irregular problems.
//! 4. Rounds in closed form, see [`phases`](super::phases).

use super::broadcast::{minus, plus};
use super::phases::Phases;
use super::{Piece, Plan};
use crate::schedule::{Skips, Table};

/// Algorithm 7 for process `rank`.
#[derive(Clone, Copy, Debug)]
pub struct AllBroadcast<'a> {
    skips: &'a Skips,
    table: &'a Table,
    /// The messages that have data, ascending.
    messages: &'a [usize],
    rank: usize,
    phases: Phases,
}

impl<'a> AllBroadcast<'a> {
    /// `messages` lists, ascending, the processes whose message is not empty; each message is cut
    /// into `blocks >= 1` blocks.
    pub fn new(
        skips: &'a Skips,
        table: &'a Table,
        messages: &'a [usize],
        rank: usize,
        blocks: usize,
    ) -> Self {
        AllBroadcast {
            skips,
            table,
            messages,
            rank,
            phases: Phases::new(skips.q(), blocks),
        }
    }

    /// What process `receiver` receives in `round`: every message but its own.
    fn arriving_at(&self, receiver: usize, round: usize, pieces: &mut Vec<Piece>) {
        let column = self.table.column(self.phases.skip_index(round));
        let shift = self.phases.shift(round);
        pieces.extend(
            self.messages
                .iter()
                .filter(|&&root| root != receiver)
                .filter_map(|&root| {
                    let entry = column[minus(receiver, root, column.len())];
                    let block = self.phases.block(entry, shift)?;
                    Some(Piece {
                        message: root,
                        block,
                    })
                }),
        );
    }
}

impl Plan for AllBroadcast<'_> {
    fn processes(&self) -> usize {
        self.skips.processes()
    }

    fn messages(&self) -> usize {
        self.skips.processes()
    }

    fn blocks(&self) -> usize {
        self.phases.blocks()
    }

    fn rounds(&self) -> usize {
        self.phases.rounds()
    }

    fn is_root(&self, message: usize) -> bool {
        self.rank == message
    }

    fn send(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        let skip = self.skips.skip(self.phases.skip_index(round));
        let to = plus(self.rank, skip, self.processes());
        self.arriving_at(to, round, pieces);
        to
    }

    fn receive(&self, round: usize, pieces: &mut Vec<Piece>) -> usize {
        let skip = self.skips.skip(self.phases.skip_index(round));
        self.arriving_at(self.rank, round, pieces);
        minus(self.rank, skip, self.processes())
    }

    fn width(&self, _round: usize) -> usize {
        self.messages.len()
    }

    fn holding(&self) -> usize {
        2 * self.skips.q()
    }
}
