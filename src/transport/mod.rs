//! What the engine runs a plan over: messages between ranks, and memory by name.
//!
//! The engine never sees a pointer. It names memory as a [`Place`], and the transport knows where
//! that is. So the engine is safe code, and runs over MPI and over the simulator of the tests
//! (`tests/simulate/simulator/`) alike. Lengths and offsets are in *units*: bytes of packed data
//! where blocks are stored, elements of the user's datatype where they are combined (a reduction
//! may be cut only between elements).
//!
//! | file | what it holds |
//! | --- | --- |
//! | `mod` | the trait |
//! | `point_to_point` | the transport over MPI's point-to-point calls |
//! | `bytes` | memory in units of packed bytes, for blocks that are stored |
//! | `elements` | memory in units of elements, for blocks that are combined |
//! | `shared` | memory that the processes of a node share |
//! | `transfers` | the outstanding transfers of a transport |

#[cfg(any(test, feature = "mpi", feature = "bindings"))]
use std::ops::Range;

#[cfg(any(feature = "mpi", feature = "bindings"))]
mod bytes;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod elements;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod point_to_point;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod shared;
#[cfg(any(test, feature = "mpi", feature = "bindings"))]
mod transfers;

#[cfg(any(feature = "mpi", feature = "bindings"))]
pub use bytes::{Bytes, Lists, Packing, Unpacking};
#[cfg(any(feature = "mpi", feature = "bindings"))]
pub use elements::{Aside, Elements};
#[cfg(any(feature = "mpi", feature = "bindings"))]
pub use point_to_point::{Lengths, Memory, Mismatch, PointToPoint, give_up, wait_for_one};
#[cfg(any(feature = "mpi", feature = "bindings"))]
pub use shared::{Layout, PAGE, SharedMemory, Slots, Ticket, WORDS};

use crate::select::TRANSFERS_MAX;

/// One of the memories of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// What this process brings to the call. Never written.
    Input,
    /// Where the result goes.
    Result,
    /// The engine's own.
    Scratch,
    /// The slots of the memory that the processes of a node share, one after the other.
    Shared,
}

/// A stretch of memory, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which memory.
    pub space: Space,
    /// Units from its start.
    pub offset: usize,
}

impl Place {
    /// A place in scratch.
    pub fn scratch(offset: usize) -> Place {
        Place {
            space: Space::Scratch,
            offset,
        }
    }
}

/// Whether something that was waited for has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has happened.
    Ready,
    /// Not yet: come back.
    Pending,
}

/// The largest standard send that is made without a request, in bytes: MPI libraries buffer such
/// messages, and a request costs more than waiting.
pub const BLOCKING_MAX: usize = 4 << 10;

/// The slots for sends, and as many for receives, that a transport has to offer: an engine may use
/// those below this number, and has to keep its window and its sends to it.
pub const SLOTS: usize = TRANSFERS_MAX;

/// When a send is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// Whenever its memory may be written again, which may be at once.
    Standard,
    /// Not before its receive has begun.
    Synchronous,
}

/// Point-to-point transfers and local memory, for one call on one process.
///
/// Sends and receives are numbered by *slot*, each from 0 to [`SLOTS`] - 1. A slot holds one
/// outstanding transfer, and is not used again before that is finished: a transport answers a start
/// in a slot that it does not have, or that is in use, with an error, and starts nothing. Between
/// two processes, messages arrive in the order in which they were started. Until a transfer is
/// finished, its memory is not written, and where it is received into not read.
pub trait Transport {
    /// What can go wrong.
    type Error;

    /// Whether the `length` units at `place` are one stretch of memory: then they can be sent,
    /// copied or combined at once. Those of one message of a plan always are.
    fn is_one_piece(&self, place: Place, length: usize) -> bool;

    /// Starts to send `length > 0` units at `place` to rank `to`.
    ///
    /// # Errors
    /// The transport's.
    fn start_send(
        &mut self,
        slot: usize,
        to: usize,
        place: Place,
        length: usize,
        mode: SendMode,
    ) -> Result<(), Self::Error>;

    /// Starts to receive `length > 0` units from rank `from` into `place`.
    ///
    /// # Errors
    /// The transport's.
    fn start_receive(
        &mut self,
        slot: usize,
        from: usize,
        place: Place,
        length: usize,
    ) -> Result<(), Self::Error>;

    /// Whether the send in `slot` is finished. Ready where none is outstanding.
    ///
    /// # Errors
    /// The transport's.
    fn finish_send(&mut self, slot: usize) -> Result<Progress, Self::Error>;

    /// Whether the receive in `slot` is finished. Ready where none is outstanding.
    ///
    /// # Errors
    /// The transport's.
    fn finish_receive(&mut self, slot: usize) -> Result<Progress, Self::Error>;

    /// Copies `length` units. The places do not overlap.
    ///
    /// # Errors
    /// The transport's.
    fn copy(&mut self, from: Place, to: Place, length: usize) -> Result<(), Self::Error>;

    /// `into = from op into`, for `length` units. The places do not overlap.
    ///
    /// # Errors
    /// The transport's.
    fn combine(&mut self, from: Place, into: Place, length: usize) -> Result<(), Self::Error>;

    /// Called before `length` units of this process's own data at `place` are sent: a transport
    /// that packs does so here.
    ///
    /// # Errors
    /// The transport's.
    fn pack(&mut self, place: Place, length: usize) -> Result<(), Self::Error>;

    /// Called when the `length` units at `place` have their final value: a transport that unpacks
    /// does so here.
    ///
    /// # Errors
    /// The transport's.
    fn unpack(&mut self, place: Place, length: usize) -> Result<(), Self::Error>;
}

/// The elements of `size` units that lie in a stretch of a message; and the one, if any, that its
/// start cuts, which is there when all stretches are.
#[cfg(any(test, feature = "mpi", feature = "bindings"))]
fn elements_of(stretch: Range<usize>, size: usize) -> (Range<usize>, Option<usize>) {
    let first = stretch.start.div_ceil(size);
    let is_cut = stretch.start % size != 0;
    (first..stretch.end / size, is_cut.then(|| first - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::block_range;

    /// However a message is cut into blocks, each element is in one of them, or cut by one at
    /// least.
    #[test]
    fn every_element_is_whole_or_cut() {
        for (elements, size) in [(1, 1), (5, 3), (12, 8), (100, 7), (3, 64)] {
            let length = elements * size;
            for blocks in 1..=length + 2 {
                let (mut whole, mut cut) = (vec![0; elements], vec![0; elements]);
                for index in 0..blocks {
                    let stretch = block_range(length, blocks, index);
                    let (inside, at_start) = elements_of(stretch.clone(), size);
                    for element in inside {
                        let bounds = element * size..(element + 1) * size;
                        assert!(stretch.start <= bounds.start && bounds.end <= stretch.end);
                        whole[element] += 1;
                    }
                    at_start
                        .into_iter()
                        .filter(|_| !stretch.is_empty())
                        .for_each(|element| {
                            assert!(
                                (element * size + 1..(element + 1) * size).contains(&stretch.start)
                            );
                            cut[element] += 1;
                        });
                }
                for (whole, cut) in whole.into_iter().zip(cut) {
                    let is_either = whole == 1 && cut == 0 || whole == 0 && cut > 0;
                    assert!(is_either, "{elements} of {size} in {blocks}: {whole} {cut}");
                }
            }
        }
    }
}
