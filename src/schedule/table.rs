//! The receive schedules of all p processes at once.
//!
//! ```text
//! for k = 0, ..., q-1:                                                 column k, first segment:
//!     processes 0 to skip[k]:             k
//!     processes skip[k] to skip[k+1]:     their baseblocks                             (Lemma 3)
//! for l = 0, ..., q:                       processes skip[l] to skip[l+1]; for l = q, process 0
//!     for k = 0, ..., l-1:
//!         processes skip[l] + j, j >= skip[k+1]:   as process j
//!         j < skip[k]:                             k, except at the segment's edge    (descent.rs)
//!         skip[k] <= j < skip[k+1]:                l
//! ```
//!
//! The copy is what Observation 2 is for twice as many processes, and holds for any p because
//! recvblock[k] of a process depends only on the skip[k+1] processes before it (Lemma 4), which are
//! the copies of those before process j if there are that many in the segment.
//!
//! Cost: each of the p q entries is written about once, by a fill or a copy of a contiguous range,
//! plus O(q^3) single entries at edges, each O(q).

use super::descent::{Entry, Segment};
use super::search;
use super::skips::{MAX_Q, Skips};

/// The receive schedules of all processes for root 0: entry (r, k) is
/// [`receive_schedule`](super::receive_schedule)'s `recv[k]` of process r. For another root,
/// processes are counted from that root: it is the entry of (r - root) mod p.
///
/// p q bytes, stored by rounds: [`Table::column`] is contiguous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    p: usize,
    q: usize,
    entries: Vec<i8>,
}

impl Table {
    /// The table for all processes of `skips`, in O(p log p).
    #[must_use]
    pub fn new(skips: &Skips) -> Self {
        let (p, q) = (skips.processes(), skips.q());
        let baseblocks = skips.baseblocks();
        let mut table = Self {
            p,
            q,
            entries: vec![0; p * q],
        };
        for k in 0..q {
            table.first_segment(skips, k, &baseblocks);
        }
        let mut before = [Segment { len: p, head: q }; MAX_Q];
        for l in 1..=q {
            last_segments(skips, l, &mut before);
            for (k, &segment) in before[..l].iter().enumerate() {
                if l < q {
                    table.copy_segments(skips, l, k);
                }
                table.edge(skips, skips.skip(l) % p, k, segment, &baseblocks);
            }
        }
        table
    }

    /// Number of processes.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.p
    }

    /// Number of rounds in a phase.
    #[must_use]
    pub fn q(&self) -> usize {
        self.q
    }

    /// The block that process `r` receives in round `k`.
    ///
    /// # Panics
    /// If `r >= p` or `k >= q`.
    #[must_use]
    #[inline]
    pub fn receive(&self, r: usize, k: usize) -> i8 {
        self.column(k)[r]
    }

    /// The blocks that the p processes receive in round `k`.
    ///
    /// # Panics
    /// If `k >= q`.
    #[must_use]
    #[inline]
    pub fn column(&self, k: usize) -> &[i8] {
        &self.entries[k * self.p..(k + 1) * self.p]
    }

    fn column_mut(&mut self, k: usize) -> &mut [i8] {
        &mut self.entries[k * self.p..(k + 1) * self.p]
    }

    /// Processes 0 to skip[k+1] of column k, their edge apart.
    fn first_segment(&mut self, skips: &Skips, k: usize, baseblocks: &[i8]) {
        let (half, whole) = (skips.skip(k), skips.skip(k + 1));
        let inherited = k as i8 - self.q as i8;
        let column = self.column_mut(k);
        column[..half].fill(inherited);
        column[half..whole].copy_from_slice(&baseblocks[half..whole]);
    }

    /// Processes skip[l] to skip[l+1] of column k < l, their edge apart.
    fn copy_segments(&mut self, skips: &Skips, l: usize, k: usize) {
        let (half, whole) = (skips.skip(k), skips.skip(k + 1));
        let (start, end) = (skips.skip(l), skips.skip(l + 1));
        let q = self.q as i8;
        let column = self.column_mut(k);
        column[start..start + half].fill(k as i8 - q);
        let upper = end.min(start + whole);
        column[start + half..upper].fill(l as i8 - q);
        column.copy_within(upper - start..end - start, upper);
    }

    /// The entries of column k just after process `start`, where the level-k segment `before` ends.
    fn edge(&mut self, skips: &Skips, start: usize, k: usize, before: Segment, baseblocks: &[i8]) {
        let skip = skips.skip(k);
        if before.len >= 2 * skip {
            return;
        }
        for offset in 0..skip.min(2 * skip - before.len + 1) {
            let r = start + offset;
            let block = match before.edge(skips, k, before.len + offset) {
                Entry::Block(known) => known,
                Entry::Contested { limit } => {
                    let free = !self.held(r, k, baseblocks) & ((1 << limit) - 1);
                    free.checked_ilog2()
                        .map_or(before.head, |block| block as usize)
                }
                Entry::Crowded => search::entry(skips, r, k, self.held(r, k, baseblocks)),
            };
            let entry = block as i8 - self.q as i8;
            self.column_mut(k)[r] = entry;
        }
    }

    /// The blocks that process r holds before round k; bit q for a baseblock of this phase.
    fn held(&self, r: usize, k: usize, baseblocks: &[i8]) -> u64 {
        let baseblock = 1 << baseblocks[r];
        let q = self.q as i8;
        (0..k).fold(baseblock, |held, j| {
            held | 1 << (self.receive(r, j).min(0) + q)
        })
    }
}

/// Sets `last[k]`, for each level k < l, to the last level-k segment of the processes 0 to skip[l].
fn last_segments(skips: &Skips, l: usize, last: &mut [Segment; MAX_Q]) {
    let mut segment = Segment {
        len: skips.skip(l),
        head: skips.q(),
    };
    for k in (0..l).rev() {
        last[k] = segment;
        segment = segment.last_half(k, skips.skip(k));
    }
}
