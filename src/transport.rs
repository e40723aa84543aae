//! The trait that a plan is executed over: messages between processes, and memory by name.
//!
//! The engine never sees a pointer. It names memory as a [`Place`] and leaves it to the transport
//! to know where that is; so the engine is safe code, and runs over MPI and over the
//! [simulator](crate::simulate) alike. Lengths and offsets are in *units*: bytes of packed data
//! where blocks are stored, elements of the user's datatype where they are combined (a reduction
//! may be cut only between elements).

#![forbid(unsafe_code)]

/// A stretch of memory, by name. Offsets in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Inside message `message` of the result (for a broadcast: of the user's buffer).
    Result {
        /// The message.
        message: usize,
        /// Units from the start of that message.
        offset: usize,
    },
    /// Inside this process' own contribution to message `message` of a reduction; never written,
    /// except where it is the same memory as the result ([`Transport::in_place`]).
    Input {
        /// The message.
        message: usize,
        /// Units from the start of that message.
        offset: usize,
    },
    /// Inside the scratch of [`crate::engine::scratch_units`] units.
    Scratch {
        /// Units from the start of the scratch.
        offset: usize,
    },
}

/// Whether something that was waited for has happened.
///
/// A transport that blocks (MPI) always answers `Ready`; one that many ranks share in one thread
/// (the simulator) answers `Pending`, and the engine is advanced again later.
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

/// When a send is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// Whenever its memory may be written again, which may be at once.
    Standard,
    /// Not before its receive has begun.
    Synchronous,
}

/// Point-to-point transfers and local memory, for one collective call on one process.
///
/// Sends and receives are numbered by *slot*; a slot holds one outstanding transfer, and the
/// engine finishes it before it uses the slot again. Between two processes, messages arrive in the
/// order in which they were started.
pub trait Transport {
    /// What can go wrong.
    type Error;

    /// Units of message `message`; the same on every process.
    fn length(&self, message: usize) -> usize;

    /// Whether `Place::Input` of a message that is rooted here is the same memory as its
    /// `Place::Result` (MPI_IN_PLACE).
    fn in_place(&self) -> bool;

    /// Whether `next` is of the same kind as `place`, and where the `length` units there end: then
    /// both can be sent, copied or combined at once.
    fn follows(&self, place: Place, length: usize, next: Place) -> bool;

    /// Starts to send `length > 0` units at `place` to process `to`. The memory is not written
    /// until the send is finished.
    fn start_send(
        &mut self,
        slot: usize,
        to: usize,
        place: Place,
        length: usize,
        mode: SendMode,
    ) -> Result<(), Self::Error>;

    /// Starts to receive `length > 0` units from process `from` into `place`.
    fn start_receive(
        &mut self,
        slot: usize,
        from: usize,
        place: Place,
        length: usize,
    ) -> Result<(), Self::Error>;

    /// Waits for the send in `slot`. Ready where none is outstanding.
    fn finish_send(&mut self, slot: usize) -> Result<Progress, Self::Error>;

    /// Waits for the receive in `slot`. Ready where none is outstanding.
    fn finish_receive(&mut self, slot: usize) -> Result<Progress, Self::Error>;

    /// Copies `length` units; the places do not overlap.
    fn copy(&mut self, from: Place, to: Place, length: usize) -> Result<(), Self::Error>;

    /// `into = from op into`, for `length` units; the places do not overlap.
    fn combine(&mut self, from: Place, into: Place, length: usize) -> Result<(), Self::Error>;

    /// Called before units `offset..offset + length` of message `message`, of which this process
    /// is the root, are sent for the first time: a transport that packs does so here.
    fn about_to_send(
        &mut self,
        message: usize,
        offset: usize,
        length: usize,
    ) -> Result<(), Self::Error>;

    /// Called when units `offset..offset + length` of message `message` have their final value
    /// here: a transport that unpacks does so here.
    fn arrived(&mut self, message: usize, offset: usize, length: usize) -> Result<(), Self::Error>;
}
