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
//! | [`Broadcast`] | MPI_Bcast | Träff, *Optimal Broadcast Schedules in Logarithmic Time*, Algorithm 1 |
//! | [`PipelinedAllgather`] | MPI_Allgather(v) | there, Algorithm 7 |
//! | [`Reversed`]`<Broadcast>` | MPI_Reduce | there, Observation 1.3 |
//! | [`Reversed`]`<PipelinedAllgather>` | MPI_Reduce_scatter(_block) | there, Observation 1.4 |
//! | [`Doubling`] | MPI_Allgather(v), MPI_Allreduce | Träff, *Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms*, Algorithm 2 |
//! | [`Reversed`]`<Doubling>` | MPI_Reduce_scatter(_block), MPI_Allreduce | there, Algorithm 1 |
//! | [`Ordered`] | the same, for operators that do not commute | there, Corollary 2, with the skips p - 1, ..., 1 |
//! | [`AllToAll`] | MPI_Alltoall | there, section 4 |
//! | [`Gather`], [`Scatter`] | MPI_Gather, MPI_Scatter | there, section 4 |
//! | [`Census`] | MPI_Allreduce of few integers | Lang, *Modified Bruck/Dissemination Algorithm*, Algorithm 2 |
//! | [`Exchange`] | MPI_Allgather(v) on inter-communicators | Kang, Träff et al., *Scalable Algorithms for MPI Intergroup Allgather and Allgatherv*, Algorithms 1 and 2 |
//! | [`TreeBroadcast`] | MPI_Bcast whose root follows the one before | Desprez, Fraigniaud and Tourancheau, *Successive Broadcasts on Hypercube*, section 3 |
//!
//! [`Succession`] and its [`Tree`]s are what [`TreeBroadcast`] and the
//! [successive broadcasts](crate::extensions::successive) share.

#![forbid(unsafe_code)]

mod all_to_all;
mod any;
mod broadcast;
mod census;
mod doubling;
mod exchange;
mod gather;
mod ordered;
mod phases;
mod pipelined_allgather;
mod reversed;
mod round;
mod successive;
mod tree_broadcast;

pub use all_to_all::{AllToAll, Routes};
pub use any::AnyPlan;
pub use broadcast::{Broadcast, Schedules};
pub use census::{Census, Sent};
pub use doubling::{Doubling, Segments};
pub use exchange::{Division, Exchange, Part, Parts, Stream, numbered_through};
pub use gather::{Gather, Scatter};
pub use ordered::Ordered;
pub use pipelined_allgather::PipelinedAllgather;
pub use reversed::Reversed;
pub use round::{
    Action, Arrival, Block, Fold, Incoming, Operand, Outgoing, Round, Source, block_range,
};
pub use successive::{Succession, Tree};
pub use tree_broadcast::TreeBroadcast;

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
    /// p: the processes.
    pub processes: usize,
    /// The messages.
    pub messages: usize,
    /// n: the blocks of each message, or the most of any message.
    pub blocks: usize,
    /// The rounds; 0 for a single process.
    pub rounds: usize,
    /// For how many rounds after its arrival a block may still be sent, or arrive once more. Also
    /// the most blocks of a message, one after the other, for which that holds at once.
    pub span: usize,
    /// What scratch is used for.
    pub scratch: ScratchUse,
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
