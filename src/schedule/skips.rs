//! Skips of the circulant graph and baseblocks (paper: Algorithms 2 and 3, Lemma 3).
//!
//! ```text
//! skip[q] = p;  skip[k-1] = ceil(skip[k] / 2)  for k = q, ..., 1        (Algorithm 2)
//!
//! baseblock(r): walk down k = q-1, ..., 0, subtracting skip[k] whenever it fits;
//!               the index of the last skip subtracted is the baseblock   (Algorithm 3)
//! ```
//!
//! Cost: O(log p) for the skips and for one baseblock, O(p) for the list of all baseblocks.

/// Largest q that is supported: p up to 2^62, so that no sum of two skips overflows and a set of
/// skip indices, q included, fits one 64-bit word.
pub const MAX_Q: usize = if usize::BITS == 64 { 62 } else { 30 };

/// The skips of the circulant graph on p processes.
///
/// In round k, process r sends to r + skip(k) and receives from r - skip(k), modulo p.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skips {
    skip: [usize; MAX_Q + 1],
    q: usize,
}

impl Skips {
    /// The skips for `p` processes, `1 <= p <= 2^62` (Algorithm 2).
    ///
    /// `p = 1` gives q = 0: no rounds, empty schedules. A `p` outside the range, which no
    /// communicator has, is taken as the nearest inside.
    #[must_use]
    pub fn new(p: usize) -> Self {
        let p = p.clamp(1, 1 << MAX_Q);
        let q = p.next_power_of_two().trailing_zeros() as usize;
        let mut skip = [0; MAX_Q + 1];
        skip[q] = p;
        for k in (0..q).rev() {
            skip[k] = skip[k + 1].div_ceil(2);
        }
        Self { skip, q }
    }

    /// Number of processes.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.skip[self.q]
    }

    /// Number of rounds in a phase, ceil(log2 p).
    #[must_use]
    #[inline]
    pub fn q(&self) -> usize {
        self.q
    }

    /// The skip of round `k`, `0 <= k < q`; `skip(q)` is p.
    ///
    /// # Panics
    /// If `k > q`.
    #[must_use]
    #[inline]
    pub fn skip(&self, k: usize) -> usize {
        self.as_slice()[k]
    }

    /// All skips, `skip(0)` to `skip(q)`.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[usize] {
        &self.skip[..=self.q]
    }

    /// The process that `r < p` sends to in round `k`.
    #[must_use]
    #[inline]
    pub fn to(&self, r: usize, k: usize) -> usize {
        let t = r + self.skip(k);
        if t < self.processes() {
            t
        } else {
            t - self.processes()
        }
    }

    /// The process that `r < p` receives from in round `k`.
    #[must_use]
    #[inline]
    pub fn from(&self, r: usize, k: usize) -> usize {
        let s = self.skip(k);
        if r >= s {
            r - s
        } else {
            r + self.processes() - s
        }
    }

    /// The baseblock of process `r < p`: the smallest index in its canonical skip sequence, q for
    /// the root `r = 0` (Algorithm 3).
    #[must_use]
    pub fn baseblock(&self, r: usize) -> usize {
        let (mut rest, mut smallest) = (r, self.q);
        for (k, &skip) in self.as_slice()[..self.q].iter().enumerate().rev() {
            if rest >= skip {
                rest -= skip;
                smallest = k;
            }
        }
        smallest
    }

    /// The baseblocks of all p processes, in O(p) (proof of Lemma 3).
    ///
    /// The processes skip(k) to skip(k+1) repeat the skip sequences of 0 to skip(k+1) - skip(k)
    /// with index k added, which is the smallest only where the sequence was empty.
    #[must_use]
    pub fn baseblocks(&self) -> Vec<i8> {
        let mut list = Vec::with_capacity(self.processes());
        list.push(self.q as i8);
        for k in 0..self.q {
            list.extend_from_within(..self.skip(k + 1) - self.skip(k));
            list[self.skip(k)] = k as i8;
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_halve_with_rounding_up() {
        assert_eq!(Skips::new(1).as_slice(), [1]);
        assert_eq!(Skips::new(2).as_slice(), [1, 2]);
        assert_eq!(Skips::new(17).as_slice(), [1, 2, 3, 5, 9, 17]);
        assert_eq!(Skips::new(11).as_slice(), [1, 2, 3, 6, 11]);
        let largest = Skips::new(1 << MAX_Q);
        assert_eq!((largest.q(), largest.skip(0)), (MAX_Q, 1));
    }

    #[test]
    fn baseblocks_are_listed_as_they_are_found() {
        for p in 1..600 {
            let skips = Skips::new(p);
            let found: Vec<i8> = (0..p).map(|r| skips.baseblock(r) as i8).collect();
            assert_eq!(skips.baseblocks(), found, "p = {p}");
        }
    }

    #[test]
    fn neighbours_are_inverse() {
        let skips = Skips::new(23);
        for k in 0..skips.q() {
            for r in 0..23 {
                assert_eq!(skips.from(skips.to(r, k), k), r);
            }
        }
    }
}
