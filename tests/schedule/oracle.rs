//! What the schedules are checked against. Nothing here uses the library.
//!
//! * [`violation`]: the four correctness conditions, by their definition, on whole schedules.
//! * [`violation_of`]: the same, on those of one process and of its neighbours.
//! * [`Paper`]: Algorithms 2 to 6 of the paper word for word, with the counts of Theorems 2 and 3.
//! * [`doubled`]: Observation 2, the receive schedules of 2p processes from those of p.
//! * [`broadcast`]: Algorithm 1, run with sets of blocks.

use std::collections::BTreeSet;

/// No p up to here is known where Algorithm 6, as the paper has it, violates a condition
/// (docs/research/schedules.md).
pub const ALGORITHM_6_HOLDS: usize = 1 << 36;

/// Schedules of all processes: `[r][k]`.
pub type Whole = Vec<Vec<i64>>;

/// The first of the four conditions that schedules violate, with the process and the round.
pub fn violation(skip: &[usize], recv: &Whole, send: &Whole) -> Option<(usize, usize, usize)> {
    (0..recv.len()).find_map(|r| {
        let (received, sent) = (
            |r: usize, k: usize| recv[r][k],
            |r: usize, k: usize| send[r][k],
        );
        let violated = violation_of(r, skip, (&recv[r], &send[r]), (received, sent));
        violated.map(|(condition, k)| (condition, r, k))
    })
}

/// The first of the four conditions that process r violates, with the round. `recv` and `send` are
/// its schedules, `received` and `sent` say what any process receives and sends in a round.
pub fn violation_of(
    r: usize,
    skip: &[usize],
    (recv, send): (&[i64], &[i64]),
    (received, sent): (impl Fn(usize, usize) -> i64, impl Fn(usize, usize) -> i64),
) -> Option<(usize, usize)> {
    let q = skip.len() - 1;
    let p = skip[q];
    let baseblock = recv.iter().copied().find(|&block| block >= 0);
    for k in 0..q {
        let (from, to) = ((r + p - skip[k]) % p, (r + skip[k]) % p);
        if recv[k] != sent(from, k) {
            return Some((1, k));
        }
        if send[k] != received(to, k) {
            return Some((2, k));
        }
        // The root has every block.
        let has = r == 0
            || baseblock.is_some_and(|b| send[k] == b - q as i64)
            || recv[..k].contains(&send[k]);
        if !has {
            return Some((4, k));
        }
    }
    let all: BTreeSet<i64> = recv.iter().copied().collect();
    let mut expected: BTreeSet<i64> = (1..=q as i64).map(|block| -block).collect();
    if let (Some(b), true) = (baseblock, r > 0) {
        expected.remove(&(b - q as i64));
        expected.insert(b);
    }
    if all != expected || (r > 0 && baseblock.is_none()) {
        return Some((3, q));
    }
    None
}

/// Algorithms 2 to 6.
pub struct Paper {
    pub skip: Vec<usize>,
    pub q: usize,
    /// Recursive calls of ALLBLOCKS in the last receive schedule.
    pub calls: usize,
    /// Violations in the last send schedule.
    pub violations: usize,
    next: Vec<usize>,
    prev: Vec<usize>,
}

impl Paper {
    /// Algorithm 2.
    pub fn new(p: usize) -> Self {
        let mut skip = vec![p];
        while skip[0] > 1 {
            skip.insert(0, skip[0] - skip[0] / 2);
        }
        let q = skip.len() - 1;
        let lists = vec![0; q + 2];
        Self {
            skip,
            q,
            calls: 0,
            violations: 0,
            next: lists.clone(),
            prev: lists,
        }
    }

    /// Algorithm 3.
    pub fn baseblock(&self, r: usize) -> usize {
        let mut reached = 0;
        for k in (0..self.q).rev() {
            if reached + self.skip[k] == r {
                return k;
            } else if reached + self.skip[k] < r {
                reached += self.skip[k];
            }
        }
        self.q
    }

    /// Algorithm 5. The lists are shifted by one: element 0 is the paper's -1.
    pub fn receive(&mut self, r: usize) -> Vec<i64> {
        let (p, q) = (self.skip[self.q], self.q);
        for e in 1..=q + 1 {
            self.next[e] = e - 1;
            self.prev[e] = e + 1;
        }
        self.prev[q + 1] = 0;
        self.next[0] = q + 1;
        self.prev[0] = 1;
        let b = self.baseblock(r);
        self.unlink(b + 1);
        self.calls = 0;
        let mut blocks = vec![0; q];
        self.allblocks(p + r, 0, 2 * p, q + 1, 0, &mut blocks);
        let entry = |e: usize| {
            if e == q {
                b as i64
            } else {
                e as i64 - q as i64
            }
        };
        blocks.into_iter().map(entry).collect()
    }

    /// Algorithm 4; `reached` is r', `last` is s. That the search ends at k = q is implicit there.
    fn allblocks(
        &mut self,
        r: usize,
        reached: usize,
        mut last: usize,
        mut e: usize,
        mut k: usize,
        blocks: &mut [usize],
    ) -> usize {
        while e != 0 && k < self.q {
            let there = reached + self.skip[e - 1];
            if there + self.skip[k] <= r && there < last {
                if there + self.skip[k + 1] <= r {
                    self.calls += 1;
                    k = self.allblocks(r, there, last, e, k, blocks);
                }
                if k == self.q || reached + self.skip[k + 1] > r {
                    return k;
                }
                last = there;
                blocks[k] = e - 1;
                k += 1;
                self.unlink(e);
            }
            e = self.next[e];
        }
        k
    }

    fn unlink(&mut self, e: usize) {
        let (next, prev) = (self.next[e], self.prev[e]);
        self.next[prev] = next;
        self.prev[next] = prev;
    }

    /// Algorithm 6.
    pub fn send(&mut self, r: usize) -> Vec<i64> {
        let (skip, q) = (self.skip.clone(), self.q);
        self.violations = 0;
        if r == 0 {
            return (0..q as i64).collect();
        }
        let b = self.baseblock(r);
        let (mut place, mut c, mut e) = (r, b as i64, skip[q]);
        let mut send = vec![b as i64 - q as i64; q];
        for k in (1..q).rev() {
            if place < skip[k] {
                send[k] = if place + skip[k] < e || e < skip[k - 1] || (k == 1 && b > 0) {
                    c
                } else {
                    self.of_receiver(r, k)
                };
                e = e.min(skip[k]);
            } else {
                c = k as i64 - q as i64;
                let above = k == 1 || place > skip[k] || e - skip[k] < skip[k - 1];
                send[k] = if !above && place + skip[k] > e {
                    self.of_receiver(r, k)
                } else {
                    c
                };
                place -= skip[k];
                e -= skip[k];
            }
        }
        send
    }

    fn of_receiver(&mut self, r: usize, k: usize) -> i64 {
        self.violations += 1;
        self.receive((r + self.skip[k]) % self.skip[self.q])[k]
    }
}

/// Observation 2.
pub fn doubled(recv: &Whole) -> Whole {
    let p = recv.len();
    let q = recv[0].len() as i64;
    (0..2 * p)
        .map(|r| {
            let lowered = |&block: &i64| if block < 0 { block - 1 } else { block };
            let mut new: Vec<i64> = recv[r % p].iter().map(lowered).collect();
            let last = match new.iter_mut().find(|block| **block >= 0) {
                _ if r == p => q,
                Some(base) if r > p => std::mem::replace(base, -1),
                _ => -1,
            };
            new.push(last);
            new
        })
        .collect()
}

/// Algorithm 1 for `n` blocks from process 0. True if in each of the n - 1 + q rounds each process
/// sent what it had and the receiver expected, and in the end all have all blocks.
pub fn broadcast(skip: &[usize], recv: &Whole, send: &Whole, n: usize) -> bool {
    let (p, q) = (recv.len(), skip.len() - 1);
    let x = (q - (n - 1) % q) % q;
    let block = |schedule: &Whole, r: usize, i: usize| {
        let block = schedule[r][i % q] - x as i64 + (i / q * q) as i64;
        (block >= 0).then_some(block.min(n as i64 - 1))
    };
    let mut has = vec![BTreeSet::new(); p];
    has[0].extend(0..n as i64);
    for i in x..n - 1 + q + x {
        let before = has.clone();
        for (r, had) in before.iter().enumerate() {
            let to = (r + skip[i % q]) % p;
            if to == 0 {
                continue;
            }
            let sent = block(send, r, i);
            if sent != block(recv, to, i) || sent.is_some_and(|b| !had.contains(&b)) {
                return false;
            }
            has[to].extend(sent);
        }
    }
    has.iter().all(|blocks| blocks.len() == n)
}
