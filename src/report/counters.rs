//! Counters by operation and outcome, and the rows of the report that they are.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use strum::{EnumCount, VariantArray, VariantNames};

use super::outcome::{Outcome, Work};
use crate::select::{Algorithm, Operation};

/// The sums over the calls of one operation with one outcome.
struct Counter {
    calls: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
    rounds: AtomicU64,
    blocks: AtomicU64,
}

impl Counter {
    const fn new() -> Self {
        Counter {
            calls: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
        }
    }

    /// Counts one call. What is zero is not added: a native call has no rounds, and its time may
    /// not have been taken.
    fn add(&self, work: &Work) {
        for (sum, part) in [
            (&self.bytes, work.bytes),
            (&self.nanoseconds, work.nanoseconds),
            (&self.rounds, work.rounds),
            (&self.blocks, work.blocks),
        ] {
            if part != 0 {
                sum.fetch_add(part, Relaxed);
            }
        }
        self.calls.fetch_add(1, Relaxed);
    }

    fn work(&self) -> Work {
        Work {
            bytes: self.bytes.load(Relaxed),
            nanoseconds: self.nanoseconds.load(Relaxed),
            rounds: self.rounds.load(Relaxed),
            blocks: self.blocks.load(Relaxed),
            algorithm: None,
        }
    }
}

/// One [`Counter`] for each operation and outcome; how often each operation ran by each algorithm;
/// and how many of its calls were checked, and had another result than the MPI library's.
pub(super) struct Counters {
    by_outcome: [[Counter; Outcome::COUNT]; Operation::COUNT],
    by_algorithm: [[AtomicU64; Algorithm::VARIANTS.len()]; Operation::COUNT],
    checks: [[AtomicU64; 2]; Operation::COUNT],
}

/// The counters of this process.
static COUNTERS: Counters = Counters::new();

impl Counters {
    pub(super) const fn new() -> Self {
        Counters {
            by_outcome: [const { [const { Counter::new() }; Outcome::COUNT] }; Operation::COUNT],
            by_algorithm: [const { [const { AtomicU64::new(0) }; Algorithm::VARIANTS.len()] };
                Operation::COUNT],
            checks: [const { [const { AtomicU64::new(0) }; 2] }; Operation::COUNT],
        }
    }

    fn of(&self, operation: Operation, outcome: Outcome) -> &Counter {
        &self.by_outcome[operation as usize][outcome.index()]
    }

    pub(super) fn add(&self, operation: Operation, outcome: Outcome, work: &Work) {
        self.of(operation, outcome).add(work);
        if let Some(algorithm) = work.algorithm {
            self.by_algorithm[operation as usize][algorithm.index()].fetch_add(1, Relaxed);
        }
    }

    /// The algorithms by which an operation ran, and how often.
    fn algorithms(&self, operation: Operation) -> Vec<(&'static str, u64)> {
        let counts = self.by_algorithm[operation as usize].iter();
        let counts = counts.map(|count| count.load(Relaxed));
        let named = Algorithm::VARIANTS.iter().copied().zip(counts);
        named.filter(|&(_, count)| count > 0).collect()
    }

    pub(super) fn add_check(&self, operation: Operation, differs: bool) {
        let [checked, differed] = &self.checks[operation as usize];
        checked.fetch_add(1, Relaxed);
        differed.fetch_add(u64::from(differs), Relaxed);
    }

    fn checks_of(&self, operation: Operation) -> [u64; 2] {
        let [checked, differed] = &self.checks[operation as usize];
        [checked.load(Relaxed), differed.load(Relaxed)]
    }

    /// The rows of the report: every operation and outcome that was met.
    pub(super) fn rows(&self) -> Vec<Row> {
        Operation::VARIANTS
            .iter()
            .flat_map(|&operation| Outcome::all().map(move |outcome| (operation, outcome)))
            .map(|(operation, outcome)| {
                let counter = self.of(operation, outcome);
                let calls = counter.calls.load(Relaxed);
                Row {
                    operation,
                    outcome,
                    calls,
                    work: counter.work(),
                    algorithms: match outcome {
                        Outcome::Circulant => self.algorithms(operation),
                        Outcome::Native(_) => Vec::new(),
                    },
                    checks: match outcome {
                        Outcome::Circulant => self.checks_of(operation),
                        Outcome::Native(_) => [0; 2],
                    },
                }
            })
            .filter(|row| row.calls > 0)
            .collect()
    }
}

/// The rows of this process so far.
pub(super) fn rows() -> Vec<Row> {
    COUNTERS.rows()
}

/// Counts one call of this process.
pub fn count(operation: Operation, outcome: Outcome, work: &Work) {
    COUNTERS.add(operation, outcome, work);
}

/// Counts a call that was checked, and whether it had another result than the MPI library's.
pub fn count_check(operation: Operation, differs: bool) {
    COUNTERS.add_check(operation, differs);
}

/// How many calls of `operation` were counted so far, whoever ran them.
pub fn total_calls(operation: Operation) -> u64 {
    Outcome::all()
        .map(|outcome| calls(operation, outcome))
        .sum()
}

/// The calls of this process that were counted so far.
pub fn calls(operation: Operation, outcome: Outcome) -> u64 {
    COUNTERS.of(operation, outcome).calls.load(Relaxed)
}

/// One line of the report.
pub(super) struct Row {
    pub(super) operation: Operation,
    pub(super) outcome: Outcome,
    pub(super) calls: u64,
    pub(super) work: Work,
    /// By which of circulant's algorithms, and how often.
    pub(super) algorithms: Vec<(&'static str, u64)>,
    /// How many of the calls were checked, and had another result than the MPI library's.
    pub(super) checks: [u64; 2],
}

#[cfg(test)]
mod tests {
    use super::super::outcome::CALL;
    use super::*;

    #[test]
    fn every_outcome_has_its_own_counter() {
        let indices: Vec<_> = Outcome::all().map(Outcome::index).collect();
        assert_eq!(indices, (0..Outcome::COUNT).collect::<Vec<_>>());
    }

    #[test]
    fn counting_from_many_threads_loses_nothing() {
        let counters = Counters::new();
        let counter = counters.of(Operation::Reduce, Outcome::Circulant);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1000).for_each(|_| counter.add(&CALL)));
            }
        });
        assert_eq!(counter.calls.load(Relaxed), 8000);
        assert_eq!(counter.work().bytes, 8000 * CALL.bytes);
        assert_eq!(counter.work().rounds, 8000 * CALL.rounds);
    }
}
