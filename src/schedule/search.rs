//! One receive entry by search for a canonical skip sequence (paper: Algorithm 4, Lemma 4).
//!
//! recvblock[k] is the last skip index of a path, taken greedily from the largest index down over
//! the indices that earlier rounds have not used, from process 0 into the interval from
//! p + r - skip[k+1] to p + r - skip[k]:
//!
//! ```text
//! r' = 0
//! for e = q, ..., 0 not in used:
//!     if r' + skip[e] <= p + r - skip[k] and r' + skip[e] != (the process found in round k-1):
//!         r', found = r' + skip[e], e
//!         if r' > p + r - skip[k+1]: stop
//! ```
//!
//! Cost: O(q) for the one entry.
//!
//! Deviations from Algorithm 4:
//! 1. Each search starts afresh at process 0 instead of backtracking from the previous one: the
//!    prefix that backtracking keeps is the one that a fresh search takes again. Only the few
//!    entries that the segments do not give are searched, each alone.
//! 2. The process found in round k-1 is not remembered. It matters only where it is the far end
//!    p + r - skip[k] of the interval, and then that process's baseblock has been used.
//! 3. The used indices are a bit set in place of the doubly linked list.

use super::skips::Skips;

/// The raw entry (a skip index; q for the baseblock received for the first time) of round `k` of
/// process `r`, where `used` has a bit for the baseblock of r and for each raw entry before round
/// k.
pub(super) fn entry(skips: &Skips, r: usize, k: usize, used: u64) -> usize {
    let (p, q) = (skips.processes(), skips.q());
    let sender = skips.baseblock(skips.from(r, k));
    let last = p + r - skips.skip(k) - (used >> sender & 1) as usize;
    let first = p + r - skips.skip(k + 1);
    let (mut reached, mut found) = (0, q);
    for e in (0..=q).rev().filter(|e| used >> e & 1 == 0) {
        if reached + skips.skip(e) <= last {
            reached += skips.skip(e);
            found = e;
            if reached > first {
                break;
            }
        }
    }
    found
}
