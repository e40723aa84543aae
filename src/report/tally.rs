//! Counters by operation and size class: how many calls, how long they took, who ran them.
//!
//! They are counted where calls are timed: for a report or a trace.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use strum::{EnumCount, VariantNames};

use super::outcome::{Outcome, Work};
use crate::select::{Algorithm, Operation};

/// Size classes: by log2 of the bytes.
pub(super) const CLASSES: usize = 64;

/// Kinds of calls: an operation and a size class.
pub(super) const KINDS: usize = Operation::COUNT * CLASSES;

/// Who may run a call: the MPI library, then each of circulant's algorithms.
pub(super) const RUNNERS: usize = 1 + Algorithm::VARIANTS.len();

/// Where a call comes from, as far as it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The processes of the communicator, of both groups of an inter-communicator.
    pub processes: usize,
    /// The nodes that they are on, if that is known.
    pub nodes: Option<usize>,
    /// Whether this process is the one that counts the call for all of them.
    pub is_first: bool,
}

/// The calls of a kind that one runner ran: how many, of how many of them this process was the
/// first, and the time of all.
struct Counter {
    calls: AtomicU64,
    first: AtomicU64,
    nanoseconds: AtomicU64,
}

/// The calls of a kind.
struct Counters {
    /// Of the calls of which this process was the first.
    bytes: AtomicU64,
    most_processes: AtomicU64,
    /// The complement of the fewest, so that nothing is 0.
    fewest_processes: AtomicU64,
    nodes: AtomicU64,
    ran: [Counter; RUNNERS],
}

impl Counter {
    const fn new() -> Counter {
        Counter {
            calls: AtomicU64::new(0),
            first: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
        }
    }

    fn ran(&self) -> Ran {
        Ran {
            calls: self.calls.load(Relaxed),
            first: self.first.load(Relaxed),
            nanoseconds: self.nanoseconds.load(Relaxed),
        }
    }
}

impl Counters {
    const fn new() -> Counters {
        Counters {
            bytes: AtomicU64::new(0),
            most_processes: AtomicU64::new(0),
            fewest_processes: AtomicU64::new(0),
            nodes: AtomicU64::new(0),
            ran: [const { Counter::new() }; RUNNERS],
        }
    }

    fn add(&self, outcome: Outcome, work: &Work, origin: Origin) {
        let counter = &self.ran[runner(outcome, work.algorithm)];
        counter.calls.fetch_add(1, Relaxed);
        counter.nanoseconds.fetch_add(work.nanoseconds, Relaxed);
        if origin.is_first {
            counter.first.fetch_add(1, Relaxed);
            self.bytes.fetch_add(work.bytes, Relaxed);
        }
        let processes = origin.processes as u64;
        self.most_processes.fetch_max(processes, Relaxed);
        self.fewest_processes.fetch_max(!processes, Relaxed);
        self.nodes
            .fetch_max(origin.nodes.unwrap_or(0) as u64, Relaxed);
    }

    fn tally(&self) -> Tally {
        Tally {
            bytes: self.bytes.load(Relaxed),
            processes: [
                !self.fewest_processes.load(Relaxed),
                self.most_processes.load(Relaxed),
            ],
            nodes: self.nodes.load(Relaxed),
            ran: self.ran.each_ref().map(Counter::ran),
        }
    }
}

static COUNTERS: [Counters; KINDS] = [const { Counters::new() }; KINDS];

/// The place of a kind among all. Of circulant's own operations the size is not known before they
/// have run, so their calls are in one class.
pub(super) fn kind(operation: Operation, bytes: u64) -> usize {
    let is_sized = (operation as usize) < Operation::OF_MPI;
    let class = bytes.checked_ilog2().filter(|_| is_sized).unwrap_or(0);
    operation as usize * CLASSES + class as usize
}

/// The place of a runner among all. A call of circulant's that names no algorithm is counted with
/// those that circulant is named after.
fn runner(outcome: Outcome, algorithm: Option<Algorithm>) -> usize {
    match outcome {
        Outcome::Native(_) => 0,
        Outcome::Circulant => 1 + algorithm.map_or(0, Algorithm::index),
    }
}

/// The name of a runner.
pub(super) fn runner_name(runner: usize) -> &'static str {
    let algorithm = runner.checked_sub(1);
    let name = algorithm.and_then(|index| Algorithm::VARIANTS.get(index));
    name.copied().unwrap_or(Outcome::NATIVE)
}

/// Counts one call of this process by its size.
pub fn count_by_size(operation: Operation, outcome: Outcome, work: &Work, origin: Origin) {
    if let Some(counters) = COUNTERS.get(kind(operation, work.bytes)) {
        counters.add(outcome, work, origin);
    }
}

/// The calls of one process of one kind.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    /// The sum of m, of the calls of which the process was the first.
    pub bytes: u64,
    /// The fewest processes of a communicator, and the most.
    pub processes: [u64; 2],
    /// The most nodes, or 0, if they are not known.
    pub nodes: u64,
    /// By runner.
    pub ran: [Ran; RUNNERS],
}

/// The calls that one runner ran.
#[derive(Clone, Copy, Default, Debug)]
pub struct Ran {
    /// How many.
    pub calls: u64,
    /// Of how many of them this process was the first.
    pub first: u64,
    /// Their time.
    pub nanoseconds: u64,
}

impl Ran {
    /// The calls of both.
    pub fn and(self, other: Ran) -> Ran {
        Ran {
            calls: self.calls + other.calls,
            first: self.first + other.first,
            nanoseconds: self.nanoseconds + other.nanoseconds,
        }
    }
}

impl Tally {
    /// The calls of all runners.
    pub fn all(&self) -> Ran {
        self.ran.into_iter().fold(Ran::default(), Ran::and)
    }

    /// Those of the MPI library, and those of circulant.
    pub fn by_owner(&self) -> [Ran; 2] {
        let [native, ours @ ..] = self.ran;
        [native, ours.into_iter().fold(Ran::default(), Ran::and)]
    }
}

/// The calls of this process of a kind. (Those of all kinds at once would be more than there is
/// memory for where that is short.)
pub(super) fn tally(kind: usize) -> Tally {
    COUNTERS.get(kind).map(Counters::tally).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::Reason;

    #[test]
    fn a_kind_is_an_operation_and_a_power_of_two() {
        let first = Operation::Reduce as usize * CLASSES;
        for (bytes, class) in [(0, 0), (1, 0), (2, 1), (3, 1), (4096, 12), (u64::MAX, 63)] {
            assert_eq!(kind(Operation::Reduce, bytes), first + class);
        }
        let own = Operation::AllreduceV as usize * CLASSES;
        assert_eq!(kind(Operation::AllreduceV, 4096), own);
        assert!(own < KINDS);
    }

    #[test]
    fn calls_are_counted_by_runner_and_once_by_the_first_of_their_processes() {
        let counters = Counters::new();
        let work = |algorithm| Work {
            bytes: 100,
            nanoseconds: 7,
            algorithm,
            ..Work::default()
        };
        let origin = |processes, nodes, is_first| Origin {
            processes,
            nodes,
            is_first,
        };
        let native = Outcome::Native(Reason::Small);
        counters.add(native, &work(None), origin(5, None, true));
        counters.add(native, &work(None), origin(3, Some(2), false));
        let tree = Some(Algorithm::Tree);
        counters.add(Outcome::Circulant, &work(tree), origin(4, Some(1), true));
        let tally = counters.tally();
        assert_eq!(
            (tally.bytes, tally.processes, tally.nodes),
            (200, [3, 5], 2)
        );
        let counts = |ran: Ran| (ran.calls, ran.first, ran.nanoseconds);
        assert_eq!(counts(tally.ran[0]), (2, 1, 14));
        assert_eq!(
            counts(tally.ran[runner(Outcome::Circulant, tree)]),
            (1, 1, 7)
        );
        assert_eq!(tally.by_owner().map(counts), [(2, 1, 14), (1, 1, 7)]);
        assert_eq!(counts(tally.all()), (3, 2, 21));
    }

    #[test]
    fn runners_have_the_names_of_the_report() {
        assert_eq!(runner_name(0), "native");
        let tree = runner(Outcome::Circulant, Some(Algorithm::Tree));
        assert_eq!(runner_name(tree), "tree");
        assert_eq!(runner_name(runner(Outcome::Circulant, None)), "circulant");
    }
}
