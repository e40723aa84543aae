//! From the q entries of a schedule to the block of any round: the arithmetic that Algorithm 1 and
//! Algorithm 7 share.
//!
//! The paper's loop runs from round x to round n+q-2+x, where x = (q - (n-1) mod q) mod q virtual
//! rounds are skipped so that the last round ends a phase of q rounds, and adds q to a schedule
//! entry each time it is used. In closed form, for real round i and I = i + x:
//!
//! ```text
//! k     = I mod q
//! block = schedule[k] - x + q * floor(I / q)     none if negative, n-1 if larger than n-1
//! ```
//!
//! Deviation from the paper's text:
//! 1. Closed form instead of counters that are increased by q. The paper starts an entry k < x at
//!    schedule[k] - x + q because its first use is in phase 1; with floor(I / q) that is the same
//!    value, rounds can be visited in any order, and so a reversal needs no second derivation.

/// The number of blocks and the rounds of a pipelined schedule.
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

    /// n - 1 + q, or none at all where there is nobody to talk to.
    pub(super) fn rounds(&self) -> usize {
        if self.q == 0 {
            0
        } else {
            self.blocks - 1 + self.q
        }
    }

    /// 2q: in phase f entry s of a schedule stands for block s - x + q f, and -q <= s < q. So block b is
    /// met in two phases, c = floor((b + x) / q) and c + 1, which are fewer than 2q rounds. The blocks
    /// that were met and will be again, of the phases f - 1 and f, are 2q in a row. (Only in the last
    /// phase, where q f = n - 1 + x, larger numbers stand for block n - 1.)
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
