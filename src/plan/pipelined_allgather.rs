//! The n-block allgather of one process: p broadcasts at once, in n - 1 + q rounds.
//!
//! Träff, *Optimal Broadcast Schedules in Logarithmic Time*, Algorithm 7 (the paper's
//! all-broadcast):
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
//! Cost: n - 1 + q rounds. Each process receives every block of every other process once, so
//! exactly m - m_r bytes arrive. O(p) work a round.
//!
//! Deviations:
//! 1. The receive schedules of all processes are one [`Table`] per team, computed at once, instead
//!    of p schedules per call.
//! 2. sendblocks is not stored. What r sends to t is what t receives (Condition 2), which is entry
//!    k of process (t - j) mod p in that same table.
//! 3. Messages without data are skipped, as the paper asks for irregular problems.
//! 4. Rounds are in closed form, see [`Broadcast`](super::Broadcast).

use std::sync::Arc;

use super::broadcast::Phases;
use super::{Arrival, Block, Plan, Round, Shape, Source, minus, plus};
use crate::schedule::{Skips, Table};

/// Algorithm 7 for process `rank`.
#[derive(Clone, Debug)]
pub struct PipelinedAllgather {
    skips: Arc<Skips>,
    table: Arc<Table>,
    /// The messages that have data, ascending.
    messages: Arc<Vec<usize>>,
    rank: usize,
    phases: Phases,
}

impl PipelinedAllgather {
    /// `messages` lists, ascending, the processes whose message is not empty. Each message is cut
    /// into `blocks >= 1` blocks.
    pub fn new(
        skips: Arc<Skips>,
        table: Arc<Table>,
        messages: Arc<Vec<usize>>,
        rank: usize,
        blocks: usize,
    ) -> PipelinedAllgather {
        let phases = Phases::new(skips.q(), blocks);
        PipelinedAllgather {
            skips,
            table,
            messages,
            rank,
            phases,
        }
    }

    /// The blocks that process `receiver` receives in round `index`: of every message but its own.
    fn arriving_at(&self, receiver: usize, index: usize) -> impl Iterator<Item = Block> {
        let column = self.table.column(self.phases.skip_index(index));
        let shift = self.phases.shift(index);
        let others = self.messages.iter().copied();
        others
            .filter(move |&root| root != receiver)
            .filter_map(move |root| {
                let entry = column[minus(receiver, root, column.len())];
                Some(Block {
                    message: root,
                    index: self.phases.block(entry, shift)?,
                    of: self.phases.blocks(),
                })
            })
    }
}

impl Plan for PipelinedAllgather {
    fn shape(&self) -> Shape {
        self.phases.shape(self.skips.processes())
    }

    fn fill(&self, index: usize, round: &mut Round) {
        let p = self.skips.processes();
        let skip = self.skips.skip(self.phases.skip_index(index));
        round.to = plus(self.rank, skip, p);
        round.from = minus(self.rank, skip, p);
        for block in self.arriving_at(round.to, index) {
            let is_own = block.message == self.rank;
            let source = if is_own {
                Source::Input
            } else {
                Source::Result
            };
            round.send(block, source);
        }
        for block in self.arriving_at(self.rank, index) {
            round.receive(block, Arrival::Store);
        }
    }

    fn width(&self, _index: usize) -> usize {
        self.messages.len()
    }
}
