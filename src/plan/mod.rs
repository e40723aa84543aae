//! Plans: per collective, the sequence of rounds that one process goes through.
//!
//! A plan is data. In round `i` it says which blocks go to which process and which blocks come
//! from which; it knows nothing of buffers, datatypes or MPI. The [engine](crate::engine)
//! executes it over a [transport](crate::transport).
//!
//! A problem has one or more *messages*, each with a root, and every message is cut into the same
//! number `n` of blocks. Broadcast and reduction have one message; all-broadcast and all-reduction
//! have `p`, message `j` being rooted at process `j`.
//!
//! | plan | collective | source |
//! | --- | --- | --- |
//! | [`Broadcast`] | MPI_Bcast | Träff, *Optimal Broadcast Schedules in Logarithmic Time*, Algorithm 1 |
//! | [`AllBroadcast`] | MPI_Allgather(v) | there, Algorithm 7 |
//! | [`Reversed`]`<Broadcast>` | MPI_Reduce | there, Observation 1.3 |
//! | [`Reversed`]`<AllBroadcast>` | MPI_Reduce_scatter(_block) | there, Observation 1.4 |

#![forbid(unsafe_code)]

mod all_broadcast;
mod broadcast;
mod phases;
mod reversed;

pub use all_broadcast::AllBroadcast;
pub use broadcast::{Broadcast, Schedules};
pub use reversed::Reversed;

use std::ops::Range;

/// One block of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The message, `0 <= message <` [`Plan::messages`].
    pub message: usize,
    /// The block, `0 <= block <` [`Plan::blocks`].
    pub block: usize,
}

/// What a process does with a block that it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is the block's final value, stored where the result belongs.
    Store,
    /// It is a partial result, combined with the process' own contribution.
    Combine,
}

/// The rounds of one process.
///
/// Rounds are numbered `0..rounds()`. Within a round at most one message leaves and at most one
/// arrives (one-ported). A block is sent only if it was there at the start, or was received in an
/// earlier round.
pub trait Plan {
    /// Number of processes, p.
    fn processes(&self) -> usize;
    /// Number of messages: 1, or p.
    fn messages(&self) -> usize;
    /// Number of blocks per message, n.
    fn blocks(&self) -> usize;
    /// Number of rounds: n - 1 + q, and 0 for a single process.
    fn rounds(&self) -> usize;
    /// Whether received blocks are stored or combined.
    fn arrival(&self) -> Arrival;
    /// Whether this process is where the result of `message` (or its data) lives: its root.
    fn is_root(&self, message: usize) -> bool;
    /// Appends the blocks that are sent in `round`, in wire order; returns the receiver.
    /// Nothing is sent where nothing is appended.
    fn send(&self, round: usize, pieces: &mut Vec<Piece>) -> usize;
    /// Appends the blocks that are received in `round`, in wire order; returns the sender.
    fn receive(&self, round: usize, pieces: &mut Vec<Piece>) -> usize;
    /// For how many rounds after its arrival a received block may still have to be sent, or be
    /// received again; and how many blocks of a message, following each other, can be so at once.
    ///
    /// 2q for both. In phase f, of q rounds, entry s of a schedule stands for block s - x + q f,
    /// and -q <= s < q: so block b is met in two phases, c = floor((b + x) / q) and c + 1, and the
    /// blocks that were met and will be again, c = f - 1 or f, are 2q in a row. (Only in the last
    /// phase, where q f = n - 1 + x, are larger numbers block n - 1.)
    fn holding(&self) -> usize;
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
