//! The engine's transport over the MPI library's point-to-point calls, on a private communicator.
//!
//! All messages have one tag: two processes exchange at most one message a round, and MPI keeps
//! their order, whatever the mode of the sends.

use std::ffi::c_int;
use std::mem::{MaybeUninit, discriminant};

use super::sys::{MPI_Datatype, MPI_Request, MPI_Status};

use super::datatype::copy_bytes;
use super::native::{Native, native};
use super::{Buffer, Error, Private, check};
use crate::transport::{BLOCKING_MAX, Place, Progress, SendMode, Transport};

/// Where places are, and what a unit is: a byte of packed data that is stored, unless a memory says
/// otherwise.
pub trait Memory {
    /// Units of message `message`.
    fn length(&self, message: usize) -> usize;
    /// Whether the input is where the result goes.
    fn in_place(&self) -> bool {
        false
    }
    /// The address of a place.
    fn address(&self, place: Place) -> Buffer;
    /// The address of the unit `length` units after the one at `start`.
    fn end(&self, start: Buffer, length: usize) -> Buffer {
        start.offset(length as isize)
    }
    /// The datatype of one unit.
    fn unit(&self) -> MPI_Datatype {
        native().constants.byte
    }
    /// Whether messages may be shorter than their receives.
    fn varies(&self) -> bool {
        false
    }
    /// Bytes of data in one unit.
    fn unit_size(&self) -> usize {
        1
    }
    /// See [`Transport::copy`].
    fn copy(&mut self, from: Place, to: Place, length: usize) -> Result<(), Error> {
        copy_bytes(self.address(from), self.address(to), length);
        Ok(())
    }
    /// See [`Transport::combine`].
    fn combine(&mut self, _from: Place, _into: Place, _length: usize) -> Result<(), Error> {
        Ok(())
    }
    /// See [`Transport::about_to_send`].
    fn about_to_send(&mut self, _: usize, _: usize, _: usize) -> Result<(), Error> {
        Ok(())
    }
    /// See [`Transport::arrived`].
    fn arrived(&mut self, _: usize, _: usize, _: usize) -> Result<(), Error> {
        Ok(())
    }
}

/// The most sends, and the most receives, that can be outstanding.
pub const SLOTS: usize = 64;

pub(super) const TAG: c_int = 0;

/// The ranks of a plan's processes on a private communicator.
#[derive(Clone, Copy, Debug)]
pub enum Peers {
    /// Process 0 is this one, and the others follow.
    From(usize),
    /// Process 0 is a root that the others do not follow.
    Root {
        /// Process 0.
        root: usize,
        /// Process 1, which the others follow.
        first: usize,
    },
}

impl Peers {
    fn rank(self, process: usize) -> c_int {
        int(match (self, process.checked_sub(1)) {
            (Peers::From(first), _) => first + process,
            (Peers::Root { root, .. }, None) => root,
            (Peers::Root { first, .. }, Some(index)) => first + index,
        })
    }
}

/// The transport of one call.
pub struct PointToPoint<'a, M> {
    native: &'static Native,
    communicator: &'a Private,
    peers: Peers,
    /// Where blocks are.
    pub memory: M,
    sends: [MPI_Request; SLOTS],
    receives: [MPI_Request; SLOTS],
    /// The units that each receive is for.
    expected: [c_int; SLOTS],
    /// What the first message of another length is to be reported as.
    mismatch: Option<Error>,
}

/// A message was longer or shorter than this process expected, so processes disagree on the size of the
/// data; all transfers have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch(pub Error);

impl<'a, M: Memory> PointToPoint<'a, M> {
    /// Over `communicator`, between `peers`.
    pub fn new(communicator: &'a Private, peers: Peers, memory: M) -> Self {
        let native = native();
        let none = [native.constants.request_null; SLOTS];
        PointToPoint {
            native,
            communicator,
            peers,
            memory,
            sends: none,
            receives: none,
            expected: [0; SLOTS],
            mismatch: None,
        }
    }

    /// Whether every message so far was as long as expected.
    pub fn lengths(&self) -> Result<(), Mismatch> {
        self.mismatch.map_or(Ok(()), |error| Err(Mismatch(error)))
    }

    /// After an error: gives up the receives that are outstanding. Sends cannot be taken back; MPI
    /// keeps reading their memory, which is why scratch is then not used again.
    pub fn give_up(&mut self) {
        let functions = &self.native.functions;
        let (null, status) = (self.native.constants.request_null, ignored_status());
        for request in self.receives.iter_mut().filter(|request| **request != null) {
            // SAFETY: an outstanding receive of this transport.
            unsafe {
                (functions.PMPI_Cancel)(request);
                (functions.PMPI_Wait)(request, status);
            }
        }
    }

    fn wait(&self, mut request: MPI_Request) -> Result<Progress, Error> {
        // SAFETY: a request that this transport started, or MPI_REQUEST_NULL.
        check(unsafe { (self.native.functions.PMPI_Wait)(&mut request, ignored_status()) })?;
        Ok(Progress::Ready)
    }

    /// Looks whether a receive that has ended, with this code and status, brought what it was for. If not,
    /// others are not left waiting, but hear of it by messages that are too short.
    fn compare(&mut self, code: c_int, status: &MPI_Status, expected: c_int) -> Result<(), Error> {
        let (functions, constants) = (&self.native.functions, &self.native.constants);
        let too_long = Error(constants.err_truncate.0);
        let mut received = 0;
        let error = match check(code) {
            Ok(()) => {
                let unit = self.memory.unit();
                // SAFETY: the status of a receive that has ended, of these units.
                check(unsafe { (functions.PMPI_Get_count)(status, unit, &mut received) })?;
                (received != expected).then_some(too_long)
            }
            Err(error) if error.class() == too_long => Some(error),
            Err(error) => return Err(error),
        };
        self.mismatch = self.mismatch.or(error);
        Ok(())
    }
}

/// MPI_STATUS_IGNORE.
pub(super) fn ignored_status() -> *mut MPI_Status {
    std::ptr::without_provenance_mut(native().constants.status_ignore.0)
}

/// A rank or a number of units, which selection and the bound on scratch keep below 2^31.
pub(super) fn int(value: usize) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

impl<M: Memory> Transport for PointToPoint<'_, M> {
    type Error = Error;

    fn length(&self, message: usize) -> usize {
        self.memory.length(message)
    }

    fn in_place(&self) -> bool {
        self.memory.in_place()
    }

    fn follows(&self, place: Place, length: usize, next: Place) -> bool {
        discriminant(&place) == discriminant(&next)
            && self.memory.end(self.memory.address(place), length) == self.memory.address(next)
    }

    fn start_send(
        &mut self,
        slot: usize,
        to: usize,
        place: Place,
        length: usize,
        mode: SendMode,
    ) -> Result<(), Error> {
        let functions = &self.native.functions;
        let start = self.memory.address(place).read();
        let (unit, comm) = (
            self.memory.unit(),
            self.communicator.communicator().handle(),
        );
        let to = self.peers.rank(to);
        let length = if self.mismatch.is_none() { length } else { 0 };
        if mode == SendMode::Standard && length * self.memory.unit_size() <= BLOCKING_MAX {
            // Every process has posted the receive of a round before it sends, so this one waits at
            // most for its receiver to come to the round, which waits for no later round of ours. (Of
            // successive broadcasts, engine/trees.rs and engine/turns.rs say why that holds for steps.)
            // SAFETY: `length` units are at the place's address.
            return check(unsafe {
                (functions.PMPI_Send)(start, int(length), unit, to, TAG, comm)
            });
        }
        let send = match mode {
            SendMode::Standard => functions.PMPI_Isend,
            SendMode::Synchronous => functions.PMPI_Issend,
        };
        let request = &mut self.sends[slot];
        // SAFETY: `length` units are at the place's address, and stay there until the send is
        // finished.
        check(unsafe { send(start, int(length), unit, to, TAG, comm, request) })
    }

    fn start_receive(
        &mut self,
        slot: usize,
        from: usize,
        place: Place,
        length: usize,
    ) -> Result<(), Error> {
        self.expected[slot] = int(length);
        // SAFETY: `length` units fit at the place's address, and nobody else uses them until the
        // receive is finished.
        check(unsafe {
            (self.native.functions.PMPI_Irecv)(
                self.memory.address(place).write(),
                int(length),
                self.memory.unit(),
                self.peers.rank(from),
                TAG,
                self.communicator.communicator().handle(),
                &mut self.receives[slot],
            )
        })
    }

    fn finish_send(&mut self, slot: usize) -> Result<Progress, Error> {
        let request = std::mem::replace(&mut self.sends[slot], self.native.constants.request_null);
        self.wait(request)
    }

    fn finish_receive(&mut self, slot: usize) -> Result<Progress, Error> {
        let null = self.native.constants.request_null;
        let mut request = std::mem::replace(&mut self.receives[slot], null);
        if request == null || self.memory.varies() {
            return self.wait(request);
        }
        let mut status = MaybeUninit::<MPI_Status>::zeroed();
        let wait = self.native.functions.PMPI_Wait;
        // SAFETY: a receive that this transport started; the status is written.
        let code = unsafe { wait(&mut request, status.as_mut_ptr()) };
        // SAFETY: all its fields are integers, which were zero.
        let status = unsafe { status.assume_init_ref() };
        self.compare(code, status, self.expected[slot])?;
        Ok(Progress::Ready)
    }

    fn copy(&mut self, from: Place, to: Place, length: usize) -> Result<(), Error> {
        self.memory.copy(from, to, length)
    }

    fn combine(&mut self, from: Place, into: Place, length: usize) -> Result<(), Error> {
        self.memory.combine(from, into, length)
    }

    fn about_to_send(&mut self, message: usize, offset: usize, length: usize) -> Result<(), Error> {
        self.memory.about_to_send(message, offset, length)
    }

    fn arrived(&mut self, message: usize, offset: usize, length: usize) -> Result<(), Error> {
        self.memory.arrived(message, offset, length)
    }
}
