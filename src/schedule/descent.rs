//! Segments of the processes, and the schedule entry that a process's place in its segment gives.
//!
//! At level k the processes fall into segments: those that agree on the skips of index above k in
//! their canonical skip sequences. At level q-1 all p processes are one segment; a segment of level
//! k falls into its lower half, the first skip[k] processes, and its upper half, the rest (at most
//! skip[k], and possibly none): the segments of level k-1. This is Algorithm 6's invariant seen
//! from the segment: r' is the offset of r in its segment, e the length of the segment, c its head.
//!
//! The head of a segment is the smallest skip index of its first process: k for the upper half of a
//! level-k segment, inherited by a lower half, and q for segments that start at the root.

use super::skips::Skips;

/// Consecutive processes that share their skips of index above the current level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub len: usize,
    /// Baseblock of the segment's first process.
    pub head: usize,
}

/// One process's walk from level q-1 down to level 0.
pub(super) struct Descent {
    /// Place of the process in its segment.
    offset: usize,
    own: Segment,
    /// The segment that ends where `own` starts, cyclically.
    before: Segment,
    /// The segment that starts where `own` ends, cyclically.
    after: Segment,
}

/// The block that goes from one process to the one skip[k] further on in round k, or how to find
/// it.
pub(super) enum Entry {
    /// This block.
    Block(usize),
    /// The largest block below `limit` that the receiver does not hold, or the head of the
    /// sender's segment where it holds them all.
    Contested { limit: usize },
    /// Where segments are so short that the rules do not apply: found by [`super::search`].
    Crowded,
}

impl Descent {
    #[inline]
    pub fn new(skips: &Skips, r: usize) -> Self {
        let all = Segment {
            len: skips.processes(),
            head: skips.q(),
        };
        Self {
            offset: r,
            own: all,
            before: all,
            after: all,
        }
    }

    /// Of the process from which this one receives over `skip = skip[k]`: the segment, and how far
    /// this process is from that segment's start.
    #[inline]
    pub fn receives_from(&self, skip: usize) -> (Segment, usize) {
        if self.offset >= skip {
            (self.own, self.offset)
        } else {
            (self.before, self.before.len + self.offset)
        }
    }

    /// This process's own segment, and how far the process that it sends to over `skip` is from
    /// the segment's start.
    #[inline]
    pub fn sends_to(&self, skip: usize) -> (Segment, usize) {
        (self.own, self.offset + skip)
    }

    /// From level k to level k-1, where `skip = skip[k]`.
    #[inline]
    pub fn step(&mut self, k: usize, skip: usize) {
        if self.offset >= skip {
            self.before = Segment {
                len: skip,
                head: self.own.head,
            };
            self.after = self.after.first_half(skip);
            self.own = Segment {
                len: self.own.len - skip,
                head: k,
            };
            self.offset -= skip;
        } else {
            self.before = self.before.last_half(k, skip);
            self.after = if self.own.len > skip {
                self.own.last_half(k, skip)
            } else {
                self.after.first_half(skip)
            };
            self.own = self.own.first_half(skip);
        }
    }

    /// The level-k descent of the process `distance` from the start of this process's segment,
    /// if it is in the next segment.
    #[inline]
    pub fn at(&self, distance: usize) -> Option<Self> {
        let offset = distance.checked_sub(self.own.len)?;
        // That process receives, it does not send: what comes after its segment is not needed.
        let descent = Self {
            offset,
            own: self.after,
            before: self.own,
            after: self.after,
        };
        (offset < self.after.len).then_some(descent)
    }

    /// The baseblock, when level 0 has been passed.
    #[inline]
    pub fn baseblock(&self) -> usize {
        self.own.head
    }
}

impl Segment {
    /// The lower half of this level-k segment.
    #[inline]
    fn first_half(self, skip: usize) -> Self {
        Self {
            len: self.len.min(skip),
            head: self.head,
        }
    }

    /// The half in which this level-k segment ends.
    #[inline]
    pub fn last_half(self, k: usize, skip: usize) -> Self {
        if self.len > skip {
            Self {
                len: self.len - skip,
                head: k,
            }
        } else {
            self
        }
    }

    /// The block that goes over skip[k] = `skip` to the process `receiver` places after the start
    /// of this level-k segment, wherever [`Segment::is_edge`] does not hold (Algorithm 6): the
    /// lower half passes on its head to the upper half, and the upper half its own head, k, to
    /// the next segment.
    #[inline]
    pub fn interior(self, k: usize, receiver: usize) -> usize {
        if receiver < self.len { self.head } else { k }
    }

    /// Whether sender and receiver are so near the end of the segment that, the segment being
    /// shorter than two skips, [`Segment::interior`] does not decide.
    #[inline]
    pub fn is_edge(self, skip: usize, receiver: usize) -> bool {
        (receiver >= self.len) & (receiver <= 2 * skip) & (self.len < 2 * skip)
    }

    /// The entry where [`Segment::is_edge`] holds.
    ///
    /// By Lemma 4 the receiver, `receiver` places after the start of this segment, gets the largest
    /// baseblock that it has not got before among the processes from `receiver - skip[k+1]` to
    /// `receiver - skip[k]`, the sender. All but at most one of them, at the far end, are in this
    /// segment's lower half, with the sender as the last but for few, or as the first of the upper
    /// half.
    ///
    /// 1. The segment is shorter than skip[k]: the interval may reach back over several segments,
    ///    and is searched, except where Algorithm 6 knows that the receiver lacks the head.
    /// 2. The segment's first process is inside the interval: its baseblock, the head, exceeds
    ///    those of the others, and the receiver lacks it.
    /// 3. The first process is the far end of the interval, or beyond. A far end is left to the
    ///    next round if there is another choice (Algorithm 4 accepts e only after trying to go on
    ///    from there): that is any index below k, or at most k if the sender starts the upper half.
    #[inline]
    pub fn edge(self, skips: &Skips, k: usize, receiver: usize) -> Entry {
        let (skip, next) = (skips.skip(k), skips.skip(k + 1));
        if self.len < skip {
            let lacks_head = k == 1 || self.len < skips.skip(k - 1);
            if receiver >= skip && lacks_head {
                Entry::Block(self.head)
            } else {
                Entry::Crowded
            }
        } else if receiver < next {
            Entry::Block(self.head)
        } else if receiver < 2 * skip {
            Entry::Contested { limit: k }
        } else if k <= 1 {
            Entry::Block(k)
        } else {
            Entry::Contested { limit: k + 1 }
        }
    }
}
