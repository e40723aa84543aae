//! Receive and send schedule of one process (paper: Algorithms 5 and 6).
//!
//! ```text
//! for k = q-1, ..., 0, where r is the r'-th process of a level-k segment of e:    (descent.rs)
//!     recvblock[k] = the segment's head  if r' >= skip[k]  else  k
//!     sendblock[k] = the segment's head  if r' <  skip[k]  else  k
//!     where sender and receiver are on either side of a segment's edge:
//!         recvblock[k] is settled when the earlier rounds are known, k = 0, ..., q-1
//!         sendblock[k] is the receiver's recvblock[k] (the paper's violation)
//!     go down to the half that holds r
//! blocks are shifted by -q; head q is the first segment's, and stands for r's baseblock itself
//! ```
//!
//! Cost: O(log p) time and space; no communication, no allocation.
//!
//! Deviations from the paper:
//! 1. Receive schedules come from the descent too, not from a search. By Condition 1 a receive
//!    entry is the sender's send entry. In round k the sender, skip[k] processes before, is in the
//!    same segment if r is in the upper half, and else in the upper half of the segment before, or
//!    near its middle: so Algorithm 6 can be read at the receiver.
//! 2. A violation does not take a whole receive schedule. What the search of Algorithm 4 finds
//!    there is known, see [`Segment::edge`]: it depends on the receiver's rounds before k alone,
//!    which are the last k levels of its descent.
//! 3. Only where a segment is shorter than skip[k], which happens for very small k, is there
//!    a search.
//! 4. The two schedules share one descent ([`schedules`]).
//! 5. One more send entry is a violation. Where r' = skip[k] and the upper half is shorter than
//!    skip[k-1], Algorithm 6 sends k, since the receiver lacks it. It does if it is in the segment
//!    that comes next. But that segment may be as short, and lie before the receiver: so it is from
//!    p = 2^36 + 1 on (`docs/research/schedules.md`).
//!
//! That this gives the paper's schedules was derived from Algorithms 4 and 6 and is not proved here
//! beyond the reasons given at [`Segment::edge`]; it was checked entry by entry for the p listed in
//! `docs/research/schedules.md`.
//!
//! [`Segment::edge`]: super::descent::Segment::edge

use super::descent::{Descent, Entry};
use super::probe::Probe;
use super::search;
use super::skips::{MAX_Q, Skips};

/// The receive schedule of process `r < p` for root 0: in round k of the first phase, r receives
/// block `recv[k]` from r - skip(k) (Algorithm 5).
///
/// Of the q entries one is r's baseblock, in 0..q; the others, in -q..0, are blocks of the phase
/// before. Each later phase adds q. The root's entries are all negative.
///
/// # Panics
/// If `recv` has fewer than q elements.
pub fn receive_schedule(skips: &Skips, r: usize, recv: &mut [i8]) {
    receive_schedule_with(skips, r, recv, &mut ());
}

/// [`receive_schedule`], with its steps counted.
///
/// # Panics
/// As [`receive_schedule`].
pub fn receive_schedule_with(skips: &Skips, r: usize, recv: &mut [i8], probe: &mut impl Probe) {
    let recv = &mut recv[..skips.q()];
    let mut receiver = Receiver::new(skips);
    let baseblock = descend(skips, Descent::new(skips, r), recv.len(), |k, descent| {
        receiver.level(k, descent, recv, probe);
    });
    receiver.settle(r, baseblock, recv, probe);
    set_first_baseblock(skips, r, baseblock, recv);
}

/// The send schedule of process `r < p` for root 0: in round k of the first phase, r sends block
/// `send[k]` to r + skip(k) (Algorithm 6).
///
/// The q entries are in -q..q, as in [`receive_schedule`]. The root sends 0 to q-1.
///
/// # Panics
/// If `send` has fewer than q elements.
pub fn send_schedule(skips: &Skips, r: usize, send: &mut [i8]) {
    send_schedule_with(skips, r, send, &mut ());
}

/// [`send_schedule`], with its steps counted.
///
/// # Panics
/// As [`send_schedule`].
pub fn send_schedule_with(skips: &Skips, r: usize, send: &mut [i8], probe: &mut impl Probe) {
    let send = &mut send[..skips.q()];
    let baseblock = descend(skips, Descent::new(skips, r), send.len(), |k, descent| {
        send_level(skips, r, k, descent, send, probe);
    });
    set_baseblock_sent(r, baseblock, send);
}

/// Both schedules of process `r < p`, in one descent: cheaper than one after the other.
///
/// # Panics
/// As [`receive_schedule`] and [`send_schedule`].
pub fn schedules(skips: &Skips, r: usize, recv: &mut [i8], send: &mut [i8]) {
    let (recv, send) = (&mut recv[..skips.q()], &mut send[..skips.q()]);
    let mut receiver = Receiver::new(skips);
    let baseblock = descend(skips, Descent::new(skips, r), skips.q(), |k, descent| {
        receiver.level(k, descent, recv, &mut ());
        send_level(skips, r, k, descent, send, &mut ());
    });
    receiver.settle(r, baseblock, recv, &mut ());
    set_first_baseblock(skips, r, baseblock, recv);
    set_baseblock_sent(r, baseblock, send);
}

/// Visits levels `levels - 1` to 0, and returns the baseblock.
#[inline(always)]
fn descend(
    skips: &Skips,
    mut descent: Descent,
    levels: usize,
    mut visit: impl FnMut(usize, &Descent),
) -> usize {
    for (k, &skip) in skips.as_slice()[..levels].iter().enumerate().rev() {
        visit(k, &descent);
        descent.step(k, skip);
    }
    descent.baseblock()
}

/// A receive schedule in the making.
///
/// Until [`set_first_baseblock`], the entry of a baseblock received in this phase is 0, block q
/// shifted; all other entries are negative.
struct Receiver<'a> {
    skips: &'a Skips,
    /// Bit e: block e is the baseblock or among the entries that are settled.
    held: u64,
    /// Bit k: round k is not settled. It is contested, with limit k, unless the next two say other.
    open: u64,
    limit_above: u64,
    crowded: u64,
}

impl<'a> Receiver<'a> {
    fn new(skips: &'a Skips) -> Self {
        Self {
            skips,
            held: 0,
            open: 0,
            limit_above: 0,
            crowded: 0,
        }
    }

    #[inline(always)]
    fn level(&mut self, k: usize, descent: &Descent, recv: &mut [i8], probe: &mut impl Probe) {
        probe.level();
        let skip = self.skips.skip(k);
        let (segment, distance) = descent.receives_from(skip);
        let mut block = segment.interior(k, distance);
        if segment.is_edge(skip, distance) {
            match segment.edge(self.skips, k, distance) {
                Entry::Block(known) => {
                    block = known;
                    self.held |= 1 << block;
                }
                Entry::Contested { limit } => {
                    block = segment.head;
                    self.open |= 1 << k;
                    self.limit_above |= u64::from(limit > k) << k;
                }
                Entry::Crowded => {
                    self.open |= 1 << k;
                    self.crowded |= 1 << k;
                }
            }
        } else {
            self.held |= 1 << block;
        }
        recv[k] = shifted(block, self.skips.q());
    }

    /// Settles the rounds left open; returns the blocks held in the end.
    ///
    /// `held` has blocks of later rounds than the one being settled, too. They do not mislead it:
    /// what round j > k gets without contest is block j or a head above j, never below k + 1.
    #[inline(always)]
    fn settle(
        mut self,
        r: usize,
        baseblock: usize,
        recv: &mut [i8],
        probe: &mut impl Probe,
    ) -> u64 {
        let q = self.skips.q();
        self.held |= 1 << baseblock;
        while self.open != 0 {
            let k = self.open.trailing_zeros() as usize;
            self.open &= self.open - 1;
            let block = if self.crowded >> k & 1 == 0 {
                probe.contested();
                let limit = k + (self.limit_above >> k & 1) as usize;
                largest_free(self.held, limit).unwrap_or(unshifted(recv[k], q))
            } else {
                probe.search();
                let held = recv[..k].iter().map(|&block| 1 << unshifted(block, q));
                search::entry(
                    self.skips,
                    r,
                    k,
                    held.fold(1 << baseblock, |all, one| all | one),
                )
            };
            self.held |= 1 << block;
            recv[k] = shifted(block, q);
        }
        self.held
    }
}

#[inline(always)]
fn send_level(
    skips: &Skips,
    r: usize,
    k: usize,
    descent: &Descent,
    send: &mut [i8],
    probe: &mut impl Probe,
) {
    probe.level();
    let skip = skips.skip(k);
    let (segment, distance) = descent.sends_to(skip);
    let block = if segment.is_edge(skip, distance) {
        match segment.edge(skips, k, distance) {
            Entry::Block(known) => known,
            Entry::Contested { limit } => contested(skips, r, k, limit, descent, probe),
            Entry::Crowded => of_receiver(skips, r, k, probe),
        }
    } else {
        segment.interior(k, distance)
    };
    send[k] = shifted(block, skips.q());
}

/// A contested send entry: what the receiver lacks, from the last k levels of its descent.
#[inline(never)]
fn contested(
    skips: &Skips,
    r: usize,
    k: usize,
    limit: usize,
    sender: &Descent,
    probe: &mut impl Probe,
) -> usize {
    let skip = skips.skip(k);
    let (segment, distance) = sender.sends_to(skip);
    let Some(mut descent) = sender.at(distance) else {
        return of_receiver(skips, r, k, probe);
    };
    probe.violation();
    descent.step(k, skip);
    let mut entries = [0; MAX_Q + 1];
    let recv = &mut entries[..k];
    let mut receiver = Receiver::new(skips);
    let baseblock = descend(skips, descent, k, |j, descent| {
        receiver.level(j, descent, recv, probe);
    });
    let held = receiver.settle(skips.to(r, k), baseblock, recv, probe);
    largest_free(held, limit).unwrap_or(segment.head)
}

/// Any send entry: the receiver's receive entry (Condition 2).
#[cold]
fn of_receiver(skips: &Skips, r: usize, k: usize, probe: &mut impl Probe) -> usize {
    probe.violation();
    let mut recv = [0; MAX_Q + 1];
    receive_schedule_with(skips, skips.to(r, k), &mut recv, probe);
    unshifted(recv[k], skips.q())
}

/// The largest block below `limit` that is not in `held`.
#[inline]
fn largest_free(held: u64, limit: usize) -> Option<usize> {
    (!held & ((1 << limit) - 1))
        .checked_ilog2()
        .map(|block| block as usize)
}

/// The entry for block `block <= q`; 0 for q.
#[inline]
fn shifted(block: usize, q: usize) -> i8 {
    block as i8 - q as i8
}

/// The block of an entry, q for any that is not negative.
#[inline]
fn unshifted(entry: i8, q: usize) -> usize {
    (entry.min(0) + q as i8) as usize
}

/// A process receives its baseblock in this phase over the largest skip of its skip sequence.
#[inline(always)]
fn set_first_baseblock(skips: &Skips, r: usize, baseblock: usize, recv: &mut [i8]) {
    if let Some(k) = (0..recv.len()).rev().find(|&k| skips.skip(k) <= r) {
        recv[k] = baseblock as i8;
    }
}

/// A process sends its baseblock, of this phase, over all skips above its skip sequence.
#[inline(always)]
fn set_baseblock_sent(r: usize, baseblock: usize, send: &mut [i8]) {
    if r == 0 {
        (0..).zip(send).for_each(|(k, entry)| *entry = k);
    } else {
        send.iter_mut()
            .rev()
            .take_while(|e| **e == 0)
            .for_each(|e| *e = baseblock as i8);
    }
}
