//! Counting what a schedule computation does, on the path that is used in production.

/// Told of each step whose number the paper bounds. The unit type counts nothing and costs nothing.
pub trait Probe {
    /// One level of a descent.
    fn level(&mut self) {}
    /// A receive entry that depends on the blocks which the process receives in earlier rounds.
    fn contested(&mut self) {}
    /// A receive entry for which skip sequences are searched, the paper's ALLBLOCKS (Theorem 2).
    fn search(&mut self) {}
    /// A send entry that is taken from the receiver's schedule (Theorem 3).
    fn violation(&mut self) {}
}

impl Probe for () {}

/// Counts of one schedule computation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// See [`Probe::level`].
    pub levels: usize,
    /// See [`Probe::contested`].
    pub contested: usize,
    /// See [`Probe::search`].
    pub searches: usize,
    /// See [`Probe::violation`].
    pub violations: usize,
}

impl Counts {
    /// The larger of each count.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            levels: self.levels.max(other.levels),
            contested: self.contested.max(other.contested),
            searches: self.searches.max(other.searches),
            violations: self.violations.max(other.violations),
        }
    }
}

impl Probe for Counts {
    fn level(&mut self) {
        self.levels += 1;
    }

    fn contested(&mut self) {
        self.contested += 1;
    }

    fn search(&mut self) {
        self.searches += 1;
    }

    fn violation(&mut self) {
        self.violations += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many steps of each kind.
    fn counted([levels, contested, searches, violations]: [usize; 4]) -> Counts {
        let mut counts = Counts::default();
        (0..levels).for_each(|_| counts.level());
        (0..contested).for_each(|_| counts.contested());
        (0..searches).for_each(|_| counts.search());
        (0..violations).for_each(|_| counts.violation());
        counts
    }

    #[test]
    fn each_kind_of_step_is_counted_for_itself() {
        let expected = Counts {
            levels: 7,
            contested: 2,
            searches: 5,
            violations: 3,
        };
        assert_eq!(counted([7, 2, 5, 3]), expected);
        assert_eq!(counted([0; 4]), Counts::default());
    }

    #[test]
    fn the_larger_of_each_count_is_taken() {
        let (one, other) = (counted([7, 2, 5, 3]), counted([4, 6, 1, 8]));
        assert_eq!(one.max(other), counted([7, 6, 5, 8]));
        assert_eq!(other.max(one), counted([7, 6, 5, 8]));
    }
}
