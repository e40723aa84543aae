//! Sequences of skips for the algorithms whose rounds move many blocks.
//!
//! Träff, *Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms*, Algorithm 1 and
//! Corollary 2:
//!
//! ```text
//! p = s[0] > s[1] > ... > s[q] = 1
//! halving  s[k+1] = ceil(s[k] / 2)                                     q = ceil(log2 p)
//! power2   s[k+1] = the largest power of two smaller than s[k]         q = ceil(log2 p)
//! sqrt     s[k] = p - k ceil(sqrt p) while larger than ceil(sqrt p),   q < sqrt p + log2(p)/2 + 2
//!          then halving
//! linear   s[k] = p - k                                                q = p - 1
//! ```
//!
//! Corollary 2 asks that every i, 0 < i < p, be a sum of different skips. Algorithm 1 goes further:
//! in round k it subtracts s[k+1] from exactly those i that are not smaller, and what is left of
//! them must be smaller than s[k+1]. That is s[k] <= 2 s[k+1] for all k, which implies the
//! corollary's condition: i reaches 0 by subtracting each skip at most once. [`Sequence::new`]
//! checks it.

use strum::{FromRepr, VariantArray, VariantNames};

/// A rule for the skips.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromRepr, VariantArray, VariantNames)]
#[strum(serialize_all = "lowercase")]
#[repr(u64)]
pub enum Rule {
    /// Roughly halving: the skips of all other schedules here.
    #[default]
    Halving,
    /// Powers of two, as Bruck et al. have them.
    Power2,
    /// About sqrt(p) rounds of at most ceil(sqrt p) blocks.
    Sqrt,
    /// Every process talks to every other.
    Linear,
}

impl Rule {
    /// The skip after `skip > 1` for p processes.
    fn next(self, skip: usize, p: usize) -> usize {
        let root = ceil_sqrt(p);
        match self {
            Rule::Power2 => skip.next_power_of_two() / 2,
            Rule::Linear => skip - 1,
            Rule::Sqrt if skip > 2 * root => skip - root,
            Rule::Sqrt | Rule::Halving => skip.div_ceil(2),
        }
    }
}

fn ceil_sqrt(p: usize) -> usize {
    let floor = p.isqrt();
    if floor * floor == p { floor } else { floor + 1 }
}

/// A descending sequence of skips on p processes that Algorithm 1 can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// From p to 1; for p = 1 just that.
    skips: Box<[usize]>,
}

impl Sequence {
    /// The sequence of `rule` on `p >= 1` processes.
    #[must_use]
    pub fn of_rule(rule: Rule, p: usize) -> Sequence {
        let mut skips = vec![p.max(1)];
        while let Some(&skip) = skips.last().filter(|&&skip| skip > 1) {
            skips.push(rule.next(skip, p));
        }
        let skips = skips.into_boxed_slice();
        debug_assert!(is_valid(&skips));
        Sequence { skips }
    }

    /// `skips`, from p down to 1; none if Algorithm 1 would not be correct with them.
    #[must_use]
    pub fn new(skips: &[usize]) -> Option<Sequence> {
        is_valid(skips).then(|| Sequence {
            skips: skips.into(),
        })
    }

    /// p.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.skips[0]
    }

    /// q.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.skips.len() - 1
    }

    /// The skip before round `round` of Algorithm 1 and the one in it: s' and s.
    #[must_use]
    pub fn step(&self, round: usize) -> (usize, usize) {
        (self.skips[round], self.skips[round + 1])
    }
}

/// Whether Algorithm 1 is correct with these skips: strictly descending to 1, and none larger than
/// twice the next.
fn is_valid(skips: &[usize]) -> bool {
    skips.last() == Some(&1)
        && skips
            .windows(2)
            .all(|pair| pair[1] < pair[0] && pair[0].div_ceil(2) <= pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skips(rule: Rule, p: usize) -> Vec<usize> {
        Sequence::of_rule(rule, p).skips.to_vec()
    }

    #[test]
    fn examples_of_the_paper() {
        assert_eq!(skips(Rule::Halving, 22), [22, 11, 6, 3, 2, 1]);
        assert_eq!(skips(Rule::Power2, 22), [22, 16, 8, 4, 2, 1]);
        assert_eq!(skips(Rule::Sqrt, 22), [22, 17, 12, 7, 4, 2, 1]);
        assert_eq!(skips(Rule::Sqrt, 16), [16, 12, 8, 4, 2, 1]);
        assert_eq!(skips(Rule::Linear, 5), [5, 4, 3, 2, 1]);
        for &rule in <Rule as VariantArray>::VARIANTS {
            assert_eq!(skips(rule, 1), [1]);
            assert_eq!(skips(rule, 2), [2, 1]);
        }
    }

    /// Corollary 2's condition, by brute force: the set of all sums of different skips.
    #[test]
    fn every_distance_is_a_sum_of_different_skips() {
        for p in 1..=300 {
            for &rule in <Rule as VariantArray>::VARIANTS {
                let sequence = Sequence::of_rule(rule, p);
                assert!(is_valid(&sequence.skips), "{rule:?} p={p}");
                let mut reached = vec![false; p];
                reached[0] = true;
                for &skip in &sequence.skips[1..] {
                    for sum in (skip..p).rev() {
                        reached[sum] |= reached[sum - skip];
                    }
                }
                assert!(reached.iter().all(|&is| is), "{rule:?} p={p}");
            }
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a bound in a test")]
    fn rounds_are_as_promised() {
        for p in 1..=2000usize {
            let q = p.next_power_of_two().trailing_zeros() as usize;
            let rounds = |rule| Sequence::of_rule(rule, p).rounds();
            assert_eq!((rounds(Rule::Halving), rounds(Rule::Power2)), (q, q));
            assert_eq!(rounds(Rule::Linear), p - 1);
            let most = (p as f64).sqrt() + (p as f64).log2() / 2.0 + 2.0;
            assert!((rounds(Rule::Sqrt) as f64) < most, "p={p}");
        }
    }

    #[test]
    fn invalid_sequences_are_refused() {
        assert!(Sequence::new(&[7, 4, 2, 1]).is_some());
        for wrong in [
            &[][..],
            &[7, 4, 2],       // does not end in 1
            &[7, 3, 2, 1],    // every i is a sum, but 6 would be 3 after subtracting 3
            &[7, 4, 4, 2, 1], // not strictly descending
            &[7, 4, 1],
            &[0],
        ] {
            assert_eq!(Sequence::new(wrong), None, "{wrong:?}");
        }
    }
}
