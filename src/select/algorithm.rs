//! The algorithms by name, each with its parameters.

use strum::{IntoStaticStr, VariantNames};

/// How a call runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
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
    /// The all-to-all that combines messages: for small ones.
    Combining,
    /// The gather and the scatter along a tree.
    Tree,
    /// The broadcast along the tree of successive broadcasts.
    Gray,
    /// The allgather between the groups of an inter-communicator, in steps.
    Exchange {
        /// Bytes of a step.
        segment: usize,
        /// Whether what each process sends to the other group is cut where blocks are (Kang et al.,
        /// Algorithm 1), or evenly (Algorithm 2).
        by_blocks: bool,
    },
    /// The same as `Circulant` or, in steps, `Doubling`: between one process of each node, and from
    /// there within the nodes.
    Leaders {
        /// How messages between nodes are cut.
        cut: Cut,
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
    /// The all-to-all without others in between, in steps: for large messages.
    Pairwise {
        /// Bytes of a step.
        segment: usize,
    },
    /// In memory that the processes of a node share; and between several nodes the same as
    /// `Circulant` or, in steps, `Doubling`, by a leader of each.
    Shared {
        /// How messages between nodes are cut. None on one node.
        across: Option<Cut>,
    },
    /// The same as `Circulant` or, in steps, `Doubling`: processes of each node, each with its
    /// counterparts on the other nodes, and from there within the nodes.
    Lanes {
        /// How messages between nodes are cut.
        cut: Cut,
        /// How many processes of each node.
        lanes: usize,
    },
}

/// How messages are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// Into so many blocks, that are pipelined.
    Blocks(usize),
    /// In one block, in steps of about so many bytes.
    Segments(usize),
}

impl Cut {
    /// Blocks of a message.
    pub fn blocks(self) -> usize {
        match self {
            Cut::Blocks(blocks) => blocks,
            Cut::Segments(_) => 1,
        }
    }
}

impl Algorithm {
    /// Its place among the names.
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
            Algorithm::Leaders { .. } => 8,
            Algorithm::Trees => 9,
            Algorithm::Relay => 10,
            Algorithm::Measured => 11,
            Algorithm::Dissemination { .. } => 12,
            Algorithm::Growing { .. } => 13,
            Algorithm::Pairwise { .. } => 14,
            Algorithm::Shared { .. } => 15,
            Algorithm::Lanes { .. } => 16,
        }
    }

    /// Whether it takes notice of several nodes.
    pub const fn is_of_nodes(self) -> bool {
        matches!(
            self,
            Algorithm::Leaders { .. }
                | Algorithm::Lanes { .. }
                | Algorithm::Shared { across: Some(_) }
        )
    }

    /// The name in reports and trace lines.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The bytes of a step that were chosen, for one that goes in steps.
    pub fn segment(self) -> usize {
        match self {
            Algorithm::Doubling { segment }
            | Algorithm::Ordered { segment }
            | Algorithm::Exchange { segment, .. }
            | Algorithm::Leaders {
                cut: Cut::Segments(segment),
            }
            | Algorithm::Shared {
                across: Some(Cut::Segments(segment)),
            }
            | Algorithm::Dissemination { segment }
            | Algorithm::Growing { segment }
            | Algorithm::Pairwise { segment }
            | Algorithm::Lanes {
                cut: Cut::Segments(segment),
                ..
            } => segment,
            _ => usize::MAX,
        }
    }

    /// The number of blocks that was chosen, for one that has several.
    pub fn blocks(self) -> usize {
        match self {
            Algorithm::Circulant { blocks } => blocks,
            Algorithm::Leaders { cut }
            | Algorithm::Lanes { cut, .. }
            | Algorithm::Shared { across: Some(cut) } => cut.blocks(),
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_is_at_the_place_of_its_name() {
        let segment = 1;
        let all = [
            Algorithm::Circulant { blocks: 1 },
            Algorithm::Doubling { segment },
            Algorithm::Ordered { segment },
            Algorithm::Census,
            Algorithm::Combining,
            Algorithm::Tree,
            Algorithm::Gray,
            Algorithm::Exchange {
                segment,
                by_blocks: true,
            },
            Algorithm::Leaders {
                cut: Cut::Segments(segment),
            },
            Algorithm::Trees,
            Algorithm::Relay,
            Algorithm::Measured,
            Algorithm::Dissemination { segment },
            Algorithm::Growing { segment },
            Algorithm::Pairwise { segment },
            Algorithm::Shared { across: None },
            Algorithm::Lanes {
                cut: Cut::Segments(segment),
                lanes: 1,
            },
        ];
        assert_eq!(all.len(), Algorithm::VARIANTS.len());
        for algorithm in all {
            let name = Algorithm::VARIANTS[algorithm.index()];
            assert_eq!(name, algorithm.name());
        }
    }
}
