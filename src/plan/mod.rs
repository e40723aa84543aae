//! Plans: the rounds of one process, per algorithm.
//!
//! A plan is data. It has a [`Shape`], and fills in each [`Round`]: which blocks go to which
//! process, which come from which, and what is done with them. It knows nothing of buffers,
//! datatypes or MPI. The [engine](crate::engine) runs it over a [transport](crate::transport).
//!
//! A problem has one or more *messages*, each cut into *blocks*. A broadcast and a reduction have
//! one message. The others have one for each process (but an [`Exchange`] has one for each part).
//!
//! | plan | used for | source |
//! | --- | --- | --- |
//! | [`Broadcast`] | MPI_Bcast | 1, Algorithm 1 |
//! | [`PipelinedAllgather`] | MPI_Allgather(v) | 1, Algorithm 7 |
//! | [`Reversed`]`<Broadcast>` | MPI_Reduce | 1, Observation 1.3 |
//! | [`Reversed`]`<PipelinedAllgather>` | MPI_Reduce_scatter(_block) | 1, Observation 1.4 |
//! | [`Doubling`] | MPI_Allgather(v), MPI_Allreduce | 2, Algorithm 2 |
//! | [`Reversed`]`<Doubling>` | MPI_Reduce_scatter(_block), MPI_Allreduce | 2, Algorithm 1 |
//! | [`Ordered`] | the same, operator does not commute | 2, Corollary 2, skips p - 1, ..., 1 |
//! | [`AllToAll`] | MPI_Alltoall of small blocks | 2, section 4 |
//! | [`Pairwise`] | MPI_Alltoall of large blocks | 2, section 4, all skips |
//! | [`Gather`], [`Scatter`] | MPI_Gather, MPI_Scatter | 2, section 4 |
//! | [`Census`] | MPI_Allreduce of few integers | 3, Algorithm 2 |
//! | [`Exchange`] | MPI_Allgather(v) on inter-communicators | 4, Algorithms 1 and 2 |
//! | [`Across`]`<P>` | the first two and doubling, between leaders of nodes | future work of 1 |
//! | [`Leaders`]`<P>` | the first two and doubling, by node | future work of 1 |
//! | [`Reversed`]`<Leaders<P>>` | reductions and reduce-scatters, by node | future work of 1 |
//! | [`BroadcastLanes`] | MPI_Bcast, by several of a node | future work of 1 |
//! | [`Reversed`]`<BroadcastLanes>` | MPI_Reduce, by several of a node | future work of 1 |
//! | [`AllgatherLanes`] | doubling, by all of a node | 2, by node |
//! | [`Reversed`]`<AllgatherLanes>` | reduce-scatter, by all of a node | 2, by node |
//! | [`Direct`] | gather and scatter within a node, for the above | |
//! | [`Concurrent`]`<P>` | several of the above by leaders, each of a lane | |
//! | [`TreeBroadcast`] | MPI_Bcast whose root follows the one before | 5, section 3 |
//! | [`Shared`] | all of these, within a node, by memory that its processes share | |
//!
//! The papers:
//!
//! 1. Träff, *Optimal Broadcast Schedules in Logarithmic Time with Applications to Broadcast,
//!    All-Broadcast, Reduction and All-Reduction*
//! 2. Träff, *Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms*
//! 3. Lang, *Modified Bruck/Dissemination Algorithm for Commutative Reduction in MPI*
//! 4. Kang, Träff et al., *Scalable Algorithms for MPI Intergroup Allgather and Allgatherv*
//! 5. Desprez, Fraigniaud and Tourancheau, *Successive Broadcasts on Hypercube*
//!
//! [`Succession`] and its [`Tree`]s are what [`TreeBroadcast`] and the
//! [successive broadcasts](crate::extensions::successive) share.

#![forbid(unsafe_code)]

mod across;
mod all_to_all;
mod allgather_lanes;
mod broadcast;
mod broadcast_lanes;
mod census;
mod concurrent;
mod direct;
mod doubling;
mod exchange;
mod gather;
mod leaders;
mod ordered;
mod pairwise;
mod pipelined_allgather;
mod reversed;
mod shared;
mod successive;
mod tree_broadcast;

pub use across::{Across, Heads, Messages};
pub use all_to_all::{AllToAll, Routes};
pub use allgather_lanes::AllgatherLanes;
pub use broadcast::{Broadcast, Schedules};
pub use broadcast_lanes::BroadcastLanes;
pub use census::{Census, Sent};
pub use concurrent::Concurrent;
pub use direct::Direct;
pub use doubling::{Doubling, Segments};
pub use exchange::{Division, Exchange, Part, Parts, Stream, numbered_through};
pub use gather::{Gather, Scatter};
pub use leaders::Leaders;
pub use ordered::Ordered;
pub use pairwise::Pairwise;
pub use pipelined_allgather::PipelinedAllgather;
pub use reversed::Reversed;
pub use shared::{Copied, Folded, Pattern, Shared, Step};
pub use successive::{Succession, Tree};
pub use tree_broadcast::TreeBroadcast;

use std::ops::Range;

/// The rounds of one process.
pub trait Plan: Send {
    /// What does not depend on the round.
    fn shape(&self) -> Shape;

    /// Fills in round `index`, `0 <= index <` [`Shape::rounds`]. `round` is empty.
    ///
    /// A block is sent only if it was there at the start, or was received in an earlier round.
    fn fill(&self, index: usize, round: &mut Round);

    /// The most blocks that any process sends or receives in round `index`. The same on every
    /// process.
    fn width(&self, index: usize) -> usize;
}

/// What does not depend on the round. The same on every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The messages.
    pub messages: usize,
    /// n: the blocks of each message, or the most of any message.
    pub blocks: usize,
    /// The rounds; 0 for a single process.
    pub rounds: usize,
    /// How many consecutive rounds run concurrently. 1 where a process sends and receives one
    /// message at a time. What arrives in one of these rounds is sent only after all of them have
    /// ended. It divides the number of rounds.
    pub at_once: usize,
    /// How many lanes have messages of their own, as many each, first those of lane 0. Round i has
    /// blocks of lane i mod lanes only. It divides `at_once`. 1 where any round may have any block.
    pub lanes: usize,
    /// For how many rounds after its arrival a block may still be sent, or arrive once more. In any
    /// round, the blocks of a message of which that holds lie within ceil(span / at_once)
    /// consecutive ones.
    pub span: usize,
    /// What scratch is used for.
    pub scratch: ScratchUse,
}

impl Shape {
    /// How many consecutive blocks of a message there are at most of which some may still be sent,
    /// or arrive once more.
    pub fn blocks_kept(&self) -> usize {
        self.span.div_ceil(self.at_once).min(self.blocks)
    }
}

/// What a plan uses scratch for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScratchUse {
    /// Nothing: the blocks of each message are next to each other, where they belong.
    Nothing,
    /// Messages of several blocks are packed there, if the blocks are not next to each other.
    Packing,
    /// Every message is copied there before it is sent, and received there.
    Copies,
    /// Messages are received there, and stay for the [`span`](Shape::span) of their blocks.
    Partials,
}

/// (a + b) mod p for a < p and b <= p.
pub(crate) fn plus(a: usize, b: usize, p: usize) -> usize {
    let sum = a + b;
    if sum >= p { sum - p } else { sum }
}

/// (a - b) mod p for a, b < p.
pub(crate) fn minus(a: usize, b: usize, p: usize) -> usize {
    if a >= b { a - b } else { a + p - b }
}

/// Block `index` of the `of` blocks that message `message` is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// The message, `0 <= message <` [`Shape::messages`](Shape::messages).
    pub message: usize,
    /// The block, `0 <= index < of`.
    pub index: usize,
    /// The number of blocks of this message, at least 1.
    pub of: usize,
}

impl Block {
    /// The only block of a message.
    pub fn whole(message: usize) -> Block {
        Block {
            message,
            index: 0,
            of: 1,
        }
    }

    /// Its units, in a message of `length` units.
    pub fn range(self, length: usize) -> Range<usize> {
        block_range(length, self.of, self.index)
    }
}

/// Where a block that is sent comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The input: what this process brought to the call.
    Input,
    /// The result, where the block has its final value.
    Result,
    /// The partial result: the input combined with all that has arrived for this block.
    Partial,
    /// The result as it is now. It changes later, so a copy is sent.
    Snapshot,
    /// A snapshot, combined with the input.
    SnapshotAndInput,
}

/// What is done with a block that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is final, and stored in the result.
    Store,
    /// The same, but it takes the place of a block that is sent in this round or later.
    Replace,
    /// It is a partial result, and combined with this process's own.
    Combine,
    /// The same, at the root: the block's partial result is made in the result.
    Reduce,
    /// It is combined with what is in the result.
    Add,
    /// It stays where it was received, under this number, for the folds of a later round.
    Hold(usize),
}

/// A block that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Which block.
    pub block: Block,
    /// Where it comes from.
    pub source: Source,
}

/// A block that is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Which block.
    pub block: Block,
    /// What is done with it.
    pub arrival: Arrival,
}

/// One operand of a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The block in the input.
    Input,
    /// The block in the result.
    Result,
    /// What was held under this number.
    Held(usize),
}

/// What a fold does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `into = from`.
    Copy,
    /// `into = from op into`.
    Combine,
}

/// A local operation on a block, after the transfers of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    /// What is done.
    pub action: Action,
    /// Which block.
    pub block: Block,
    /// The operand that is read.
    pub from: Operand,
    /// The operand that is written.
    pub into: Operand,
}

/// One round of one process.
///
/// At most one message leaves and at most one arrives (one-ported). The blocks of a message are in
/// wire order, and both of its ends list the same blocks. Nothing is sent where `sends` is empty,
/// nothing is received where `receives` is.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// The process that is sent to.
    pub to: usize,
    /// The process that is received from.
    pub from: usize,
    /// The blocks of the message that leaves.
    pub sends: Vec<Outgoing>,
    /// The blocks of the message that arrives.
    pub receives: Vec<Incoming>,
    /// What is done when the message has arrived, in this order.
    pub folds: Vec<Fold>,
}

impl Round {
    /// Empties it, and keeps its memory.
    pub fn clear(&mut self) {
        self.sends.clear();
        self.receives.clear();
        self.folds.clear();
    }

    /// Appends a block to the message that leaves.
    pub fn send(&mut self, block: Block, source: Source) {
        self.sends.push(Outgoing { block, source });
    }

    /// Appends a block to the message that arrives.
    pub fn receive(&mut self, block: Block, arrival: Arrival) {
        self.receives.push(Incoming { block, arrival });
    }

    /// Appends a fold.
    pub fn fold(&mut self, action: Action, block: Block, from: Operand, into: Operand) {
        self.folds.push(Fold {
            action,
            block,
            from,
            into,
        });
    }
}

/// The units of block `block` of a message of `length` units cut into `blocks` blocks.
///
/// Block sizes differ by at most one unit, and every process computes the same cut from the same
/// `length`. Empty when there are more blocks than units and this block got none.
pub fn block_range(length: usize, blocks: usize, block: usize) -> Range<usize> {
    if blocks == 1 {
        // Usual where there are many messages; it saves the divisions.
        return 0..length;
    }
    cut(length, blocks, block)..cut(length, blocks, block + 1)
}

/// Where block `block` starts. In 128 bits where the product does not fit into 64.
fn cut(length: usize, blocks: usize, block: usize) -> usize {
    match length.checked_mul(block) {
        Some(product) => product / blocks,
        None => (length as u128 * block as u128 / blocks as u128) as usize,
    }
}

macro_rules! plans {
    ($($name:ident($plan:ty),)*) => {
        /// A plan.
        pub enum AnyPlan {
            $(
                #[allow(missing_docs)]
                $name($plan),
            )*
            /// A plan that is not among these.
            Other(Box<dyn Plan>),
            /// No rounds.
            Nothing,
        }

        $(
            impl From<$plan> for AnyPlan {
                fn from(plan: $plan) -> AnyPlan {
                    AnyPlan::$name(plan)
                }
            }
        )*

        impl Plan for AnyPlan {
            fn shape(&self) -> Shape {
                match self {
                    $(AnyPlan::$name(plan) => plan.shape(),)*
                    AnyPlan::Other(plan) => plan.shape(),
                    AnyPlan::Nothing => NOTHING,
                }
            }

            fn fill(&self, index: usize, round: &mut Round) {
                match self {
                    $(AnyPlan::$name(plan) => plan.fill(index, round),)*
                    AnyPlan::Other(plan) => plan.fill(index, round),
                    AnyPlan::Nothing => {}
                }
            }

            fn width(&self, index: usize) -> usize {
                match self {
                    $(AnyPlan::$name(plan) => plan.width(index),)*
                    AnyPlan::Other(plan) => plan.width(index),
                    AnyPlan::Nothing => 0,
                }
            }
        }
    };
}

plans! {
    Broadcast(Broadcast),
    Reduction(Reversed<Broadcast>),
    PipelinedAllgather(PipelinedAllgather),
    PipelinedReduceScatter(Reversed<PipelinedAllgather>),
    Allgather(Doubling),
    ReduceScatter(Reversed<Doubling>),
    Ordered(Ordered),
    Census(Census),
    AllToAll(AllToAll),
    Pairwise(Pairwise),
    Gather(Gather),
    Scatter(Scatter),
    Direct(Concurrent<Direct>),
    Exchange(Exchange),
    TreeBroadcast(TreeBroadcast),
    LeadersBroadcast(Leaders<Broadcast>),
    LeadersReduction(Reversed<Leaders<Broadcast>>),
    LeadersAllgather(Concurrent<Leaders<Doubling>>),
    LeadersReduceScatter(Reversed<Concurrent<Leaders<Doubling>>>),
    LeadersPipelinedAllgather(Concurrent<Leaders<PipelinedAllgather>>),
    LeadersPipelinedReduceScatter(Reversed<Concurrent<Leaders<PipelinedAllgather>>>),
    AcrossBroadcast(Across<Broadcast>),
    AcrossReduction(Reversed<Across<Broadcast>>),
    AcrossAllgather(Across<Doubling>),
    AcrossReduceScatter(Reversed<Across<Doubling>>),
    AcrossPipelinedAllgather(Across<PipelinedAllgather>),
    AcrossPipelinedReduceScatter(Reversed<Across<PipelinedAllgather>>),
    LanesBroadcast(BroadcastLanes),
    LanesReduction(Reversed<BroadcastLanes>),
    LanesAllgather(AllgatherLanes),
    LanesReduceScatter(Reversed<AllgatherLanes>),
}

const NOTHING: Shape = Shape {
    messages: 0,
    blocks: 1,
    rounds: 0,
    at_once: 1,
    lanes: 1,
    span: 0,
    scratch: ScratchUse::Nothing,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks follow each other, end where the message ends, and differ by at most one unit.
    #[test]
    fn blocks_are_a_partition() {
        let huge = usize::MAX / 3;
        for length in [0, 1, 2, 7, 100, 4_000_001, huge] {
            for blocks in [1, 2, 3, 7, 64, 1000] {
                let mut end = 0;
                for index in 0..blocks {
                    let range = block_range(length, blocks, index);
                    assert_eq!(range.start, end);
                    let sizes = length / blocks..=length.div_ceil(blocks);
                    assert!(sizes.contains(&range.len()), "{length} {blocks} {index}");
                    end = range.end;
                }
                assert_eq!(end, length);
            }
        }
    }
}
