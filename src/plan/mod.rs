//! Plans: per collective, the sequence of rounds that one process goes through.
//!
//! A plan is data. In round `i` it says which blocks go to which process and which blocks come
//! from which; it knows nothing of buffers, datatypes or MPI. The [engine](crate::engine)
//! executes it over a [transport](crate::transport).
//!
//! A problem has one or more *messages*, each with a root, and every message is cut into the same
//! number `n` of blocks (but in an [`Exchange`]). Broadcast and reduction have one message; the others
//! have `p`, message `j` being rooted at process `j`.
//!
//! | plan | collective | source |
//! | --- | --- | --- |
//! | [`Broadcast`] | MPI_Bcast | Träff, *Optimal Broadcast Schedules in Logarithmic Time*, Algorithm 1 |
//! | [`AllBroadcast`] | MPI_Allgather(v) | there, Algorithm 7 |
//! | [`Reversed`]`<Broadcast>` | MPI_Reduce | there, Observation 1.3 |
//! | [`Reversed`]`<AllBroadcast>` | MPI_Reduce_scatter(_block) | there, Observation 1.4 |
//! | [`Doubling`] | MPI_Allgather(v), one block | Träff, *Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms*, Algorithm 2 |
//! | [`Reversed`]`<Doubling>` | MPI_Reduce_scatter(_block), one block | there, Algorithm 1 |
//! | [`Allreduce`] | MPI_Allreduce | there, Algorithm 2 |
//! | [`AllToAll`] | MPI_Alltoall | there, section 4 |
//! | [`Gather`], [`Scatter`] | MPI_Gather, MPI_Scatter | there, section 4 |
//! | [`Exchange`], then [`Doubling`] | MPI_Allgather(v) on inter-communicators | Kang, Träff et al., *Scalable Algorithms for MPI Intergroup Allgather and Allgatherv*, Algorithms 1 and 2 |
//! | [`Order`] and [`Tree`], not a plan | successive broadcasts | Desprez, Fraigniaud and Tourancheau, *Successive Broadcasts on Hypercube*, section 3 |
//! | [`Relay`], not a plan | the same, small | our own |
//! | [`Census`] | MPI_Allreduce, small | Lang, *Modified Bruck/Dissemination Algorithm*, Algorithm 2 |
//! | [`Census`], as [`Growing`] | circulant_allgather_merge, circulant_allreduce_v | there |
//! | [`Dissemination`] | the same | there, Algorithm 1 |

#![forbid(unsafe_code)]

mod all_broadcast;
mod all_to_all;
mod allreduce;
mod broadcast;
mod census;
mod dissemination;
mod doubling;
mod gather;
mod growing;
mod intergroup;
mod phases;
mod relay;
mod reversed;
mod successive;

pub use all_broadcast::AllBroadcast;
pub use all_to_all::{AllToAll, Routes};
pub use allreduce::Allreduce;
pub use broadcast::{Broadcast, Schedules};
pub use census::Census;
pub use dissemination::Dissemination;
pub use doubling::{Doubling, Segments};
pub use gather::{Gather, Scatter};
pub use growing::{Content, Growing, Step};
pub use intergroup::{Division, Exchange, Part, Parts, Stream, numbered_through};
pub use relay::{Parcel, Relay};
pub use reversed::Reversed;
pub use successive::{Order, Tree};

use std::ops::Range;

/// One block of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The message, `0 <= message <` [`Plan::messages`].
    pub message: usize,
    /// The block, `0 <= block <` [`Plan::blocks`].
    pub block: usize,
}

/// What is sent of a block that each process has its own contribution to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// All that was combined until now, with the own contribution: it is sent once, and not needed
    /// afterwards.
    Accumulated,
    /// The own contribution alone. This and the next two are for plans that combine what others
    /// contributed in the result, and the own contribution with it at the end.
    Own,
    /// What others contributed.
    Others,
    /// Both, combined.
    Both,
}

/// The rounds of one process.
///
/// Rounds are numbered `0..rounds()`. Within a round at most one message leaves and at most one
/// arrives (one-ported). A block is sent only if it was there at the start, or was received in an
/// earlier round.
pub trait Plan {
    /// Number of processes, p.
    fn processes(&self) -> usize;
    /// Number of messages: 1, or p, or the parts of an exchange.
    fn messages(&self) -> usize;
    /// Number of blocks per message, n.
    fn blocks(&self) -> usize {
        1
    }
    /// Number of blocks of one message, where they differ.
    fn blocks_of(&self, _message: usize) -> usize {
        self.blocks()
    }
    /// Number of rounds; 0 for a single process.
    fn rounds(&self) -> usize;
    /// In how many rounds, from the first on, what arrives is a partial result, which is combined
    /// with the own contribution. In the others it is final, and stored where the result belongs.
    fn combining(&self) -> usize {
        0
    }
    /// Whether this process is where the result of `message` (or its data) lives: its root.
    fn is_root(&self, message: usize) -> bool;
    /// Appends the blocks that are sent in `round`, in wire order; returns the receiver.
    /// Nothing is sent where nothing is appended.
    fn send(&self, round: usize, pieces: &mut Vec<Piece>) -> usize;
    /// Appends the blocks that are received in `round`, in wire order; returns the sender.
    fn receive(&self, round: usize, pieces: &mut Vec<Piece>) -> usize;
    /// The most blocks that are sent and received in `round`; the same on every process.
    fn width(&self, round: usize) -> usize;
    /// For how many rounds after its arrival a received block may still have to be sent, or be
    /// received again; and how many blocks of a message, following each other, can be so at once.
    ///
    /// All rounds, where one block follows the other. In a pipeline 2q for both. In phase f, of q rounds, entry s of a schedule stands for block s - x + q f,
    /// and -q <= s < q: so block b is met in two phases, c = floor((b + x) / q) and c + 1, and the
    /// blocks that were met and will be again, c = f - 1 or f, are 2q in a row. (Only in the last
    /// phase, where q f = n - 1 + x, are larger numbers block n - 1.)
    fn holding(&self) -> usize;
    /// What is sent in `round`, of the rounds that combine.
    fn operand(&self, _round: usize) -> Operand {
        Operand::Accumulated
    }
    /// Whether what arrives is combined at the end of the rounds that combine, in the order of the
    /// ranks that it came from: for operators that are not commutative. Each of those rounds then
    /// brings the own contribution of one process, to this one's message.
    fn keeps_order(&self) -> bool {
        false
    }
    /// Whether a block that arrives takes the place of one that is sent in the same round or later.
    fn replaces(&self) -> bool {
        false
    }
}

/// The units of block `block` of a message of `length` units cut into `blocks` blocks.
///
/// Block sizes differ by at most one unit, and every process computes the same cut from the same
/// `length`. Empty when there are more blocks than units and this block got none.
pub fn block_range(length: usize, blocks: usize, block: usize) -> Range<usize> {
    cut(length, blocks, block)..cut(length, blocks, block + 1)
}

/// Where block `block` starts. In 128 bits, because `length` may be many GiB.
fn cut(length: usize, blocks: usize, block: usize) -> usize {
    match length.checked_mul(block) {
        Some(product) => product / blocks,
        None => (length as u128 * block as u128 / blocks as u128) as usize,
    }
}

/// An upper bound on the units of any block of a message of `length` units.
pub fn largest_block(length: usize, blocks: usize) -> usize {
    length.div_ceil(blocks)
}
