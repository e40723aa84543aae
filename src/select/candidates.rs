//! Which algorithms can run a call, each with its parameters and its predicted time.

use super::{Algorithm, BcastOrder, Facts, Operation, Order, Settings, blocks, cost};

/// An algorithm that can run a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Candidate {
    /// The algorithm, with its parameters.
    pub algorithm: Algorithm,
    /// Its predicted time.
    pub seconds: f64,
}

/// The largest broadcast that goes along the tree of successive broadcasts, in bytes: larger ones
/// gain from being cut.
const GRAY_MAX: u64 = 64 << 10;

/// Whether an algorithm can run a call of MPI's. None reduces to one root in the order of the ranks.
pub(super) fn exist(facts: &Facts) -> bool {
    facts.operation != Operation::Reduce || facts.order != Order::Ranks
}

/// The candidates for a call of MPI's.
///
/// - A broadcast whose root follows the one before goes along the tree, if that was asked for.
/// - A reduction, an allgather and a reduce-scatter are pipelined where one block would move more
///   bytes than several ([`blocks`]).
/// - An allreduce of few bytes for which the order makes no difference is a census.
pub fn candidates(facts: &Facts, settings: &Settings) -> impl Iterator<Item = Candidate> {
    let segment = usize::try_from(settings.segment).unwrap_or(usize::MAX);
    let pipelined_or_not = || match blocks(facts, settings) {
        1 => Algorithm::Doubling { segment },
        blocks => Algorithm::Circulant { blocks },
    };
    let keeps_order = facts.order == Order::Ranks;
    let algorithm = match facts.operation {
        Operation::Bcast if is_gray(facts, settings) => Some(Algorithm::Gray),
        Operation::Bcast => Some(Algorithm::Circulant {
            blocks: blocks(facts, settings),
        }),
        _ if !exist(facts) => None,
        Operation::Reduce => Some(Algorithm::Circulant {
            blocks: blocks(facts, settings),
        }),
        Operation::Allgather | Operation::Allgatherv if facts.smaller_group > 0 => {
            Some(Algorithm::Exchange { segment })
        }
        Operation::Allgather | Operation::Allgatherv => Some(pipelined_or_not()),
        Operation::ReduceScatter | Operation::ReduceScatterBlock | Operation::Allreduce
            if keeps_order =>
        {
            Some(Algorithm::Ordered { segment })
        }
        Operation::ReduceScatter | Operation::ReduceScatterBlock => Some(pipelined_or_not()),
        Operation::Allreduce if facts.order == Order::Any && facts.bytes <= settings.census_max => {
            Some(Algorithm::Census)
        }
        Operation::Allreduce => Some(Algorithm::Doubling { segment }),
        Operation::Alltoall => Some(Algorithm::Combining),
        Operation::Gather | Operation::Scatter => Some(Algorithm::Tree),
        Operation::SuccessiveBcast | Operation::AllgatherMerge | Operation::AllreduceV => None,
    };
    let facts = *facts;
    algorithm.into_iter().map(move |algorithm| Candidate {
        algorithm,
        seconds: cost::circulant(&facts, algorithm),
    })
}

/// Whether a call goes along the tree of successive broadcasts, also where it is small.
pub(super) fn is_gray(facts: &Facts, settings: &Settings) -> bool {
    settings.bcast_order == BcastOrder::Gray
        && facts.operation == Operation::Bcast
        && facts.follows
        && (1..=GRAY_MAX).contains(&facts.bytes)
}
