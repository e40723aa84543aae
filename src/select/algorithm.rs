//! The algorithms by name, with their parameters.

use std::fmt;

/// How a call runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// The pipelined algorithms on circulant graphs, of n blocks: a broadcast, a reduction, an
    /// allgather or a reduce-scatter.
    Circulant {
        /// n. The number of units is an upper bound on it.
        blocks: usize,
    },
    /// The algorithms with one block, in steps: an allgather, a reduce-scatter, or both for an
    /// allreduce.
    Doubling {
        /// Bytes of a step.
        segment: usize,
    },
    /// The reduce-scatter, or the allreduce, that keeps the order of the ranks, in steps.
    Ordered {
        /// Bytes of a step.
        segment: usize,
    },
    /// The allreduce of the whole operand in each round.
    Census,
    /// The all-to-all that combines messages.
    Combining,
    /// The gather and the scatter along a tree.
    Tree,
    /// The broadcast along the tree of successive broadcasts.
    Gray,
    /// The allgather between the groups of an inter-communicator, in steps.
    Exchange {
        /// Bytes of a step.
        segment: usize,
    },
    /// Successive broadcasts, each along a tree of its own.
    Trees,
    /// Successive broadcasts from owner to owner, several values in a message.
    Relay,
    /// Successive broadcasts one way and the other; those that are left go the faster way.
    Measured,
    /// The reduction of growing operands by dissemination.
    Dissemination {
        /// Bytes of the largest message.
        segment: usize,
    },
    /// The reduction of growing operands on a circulant graph.
    Growing {
        /// Bytes of the largest message.
        segment: usize,
    },
}

impl Algorithm {
    /// The names, in reports and trace lines, of all algorithms.
    pub const NAMES: [&'static str; 13] = [
        "circulant",
        "doubling",
        "ordered",
        "census",
        "combining",
        "tree",
        "gray",
        "exchange",
        "trees",
        "relay",
        "measured",
        "dissemination",
        "growing",
    ];

    /// Its place among the [names](Algorithm::NAMES).
    pub const fn index(self) -> usize {
        match self {
            Algorithm::Circulant { .. } => 0,
            Algorithm::Doubling { .. } => 1,
            Algorithm::Ordered { .. } => 2,
            Algorithm::Census => 3,
            Algorithm::Combining => 4,
            Algorithm::Tree => 5,
            Algorithm::Gray => 6,
            Algorithm::Exchange { .. } => 7,
            Algorithm::Trees => 8,
            Algorithm::Relay => 9,
            Algorithm::Measured => 10,
            Algorithm::Dissemination { .. } => 11,
            Algorithm::Growing { .. } => 12,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        Algorithm::NAMES[self.index()]
    }

    /// The bytes of a step that were chosen, for one that goes in steps.
    pub fn segment(self) -> usize {
        match self {
            Algorithm::Doubling { segment }
            | Algorithm::Ordered { segment }
            | Algorithm::Exchange { segment }
            | Algorithm::Dissemination { segment }
            | Algorithm::Growing { segment } => segment,
            _ => usize::MAX,
        }
    }

    /// The number of blocks that was chosen, for one that has several.
    pub fn blocks(self) -> usize {
        match self {
            Algorithm::Circulant { blocks } => blocks,
            _ => 1,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
