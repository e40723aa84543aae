//! The transport over the MPI library's point-to-point calls, on a private communicator.
//!
//! All messages of a call have one tag, and calls that are in progress at once have different ones.
//! Within a call two processes exchange at most one message a round, and MPI keeps their order,
//! whatever the mode of the sends.
//!
//! Where the MPI library survives failures, waiting is testing. Once the communicator is revoked,
//! sends are waited for only for some time. Open MPI 5.0.11 has two faults there:
//!
//! 1. After an error MPI_Waitany frees all requests of its list that the revocation concerns, also
//!    those that have not ended. It ends the job when such a send ends.
//! 2. MPI_Send and MPI_Wait may wait for ever.

use std::ffi::c_int;
use std::iter;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::shared::Slots;
use super::transfers::Transfers;
use super::{BLOCKING_MAX, Place, Progress, SLOTS, SendMode, Transport};
use crate::mpi::{
    Buffer, Communicator, Error, MPI_Datatype, MPI_Request, MPI_Status, Native, check,
    ignored_status, int, native, survives,
};

/// How long a transfer is waited for, by one who has seen that the communicator is revoked; and
/// then its sends, as they are given up.
const PATIENCE: Duration = Duration::from_millis(200);

/// Bounds a wait on a communicator, should that be revoked.
struct Patience {
    communicator: Communicator,
    end: Option<Instant>,
}

/// What a unit is, and where places are.
///
/// # Safety
/// What [`stretch`](Memory::stretch) returns may be read and written by MPI: what is circulant's
/// own as long as this value lives, also after it was moved; what is the program's as long as the
/// call that it was passed to. No reference to it is ever made: whoever else reads or writes it
/// while a transfer is outstanding gets wrong data, as from MPI itself.
pub unsafe trait Memory {
    /// `length` units at `place`, as arguments for MPI.
    fn stretch(&self, place: Place, length: usize) -> (Buffer, c_int, MPI_Datatype);
    /// Bytes of data in one unit.
    fn unit(&self) -> usize;
    /// See [`Transport::is_one_piece`].
    fn is_one_piece(&self, place: Place, length: usize) -> bool;
    /// See [`Transport::copy`].
    ///
    /// # Errors
    /// MPI's.
    fn copy(&mut self, from: Place, to: Place, length: usize) -> Result<(), Error>;
    /// See [`Transport::combine`].
    ///
    /// # Errors
    /// MPI's.
    fn combine(&mut self, from: Place, into: Place, length: usize) -> Result<(), Error>;
    /// See [`Transport::pack`].
    ///
    /// # Errors
    /// MPI's.
    fn pack(&mut self, place: Place, length: usize) -> Result<(), Error>;
    /// See [`Transport::unpack`].
    ///
    /// # Errors
    /// MPI's.
    fn unpack(&mut self, place: Place, length: usize) -> Result<(), Error>;
    /// The shared space is these slots.
    fn set_slots(&mut self, slots: &Slots);
    /// When the result has been made: what is left to do.
    ///
    /// # Errors
    /// MPI's.
    fn finish(&mut self) -> Result<(), Error>;
}

/// Which lengths a message may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// That of its receive. Another is a [mismatch](Mismatch).
    Exact,
    /// That of its receive, or less.
    AtMost,
}

/// A message was longer or shorter than this process expected, so processes disagree on the size of
/// the data. All transfers have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch(pub Error);

/// A transfer that was asked for in vain.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    Send(usize),
    Receive(usize),
}

/// The transport of one call. Memory that MPI may still use is never freed.
pub struct PointToPoint<M> {
    native: &'static Native,
    communicator: Communicator,
    tag: c_int,
    lengths: Lengths,
    /// Where places are.
    memory: ManuallyDrop<M>,
    sends: Transfers<MPI_Request>,
    receives: Transfers<MPI_Request>,
    /// The units that each receive is for.
    expected: [c_int; SLOTS],
    /// What the first message of another length is to be reported as.
    mismatch: Option<Error>,
    /// Whether it waits for what is not finished, rather than answer `Pending`.
    waits: bool,
    /// Whether the MPI library survives failures.
    survives: bool,
    /// The transfer that `Pending` was answered for.
    awaited: Option<Awaited>,
}

impl<M: Memory> PointToPoint<M> {
    /// Over `communicator`, which returns errors, with messages of this tag.
    pub fn new(communicator: Communicator, tag: usize, lengths: Lengths, memory: M) -> Self {
        let native = native();
        let none = native.constants.request_null;
        PointToPoint {
            native,
            communicator,
            tag: int(tag),
            lengths,
            memory: ManuallyDrop::new(memory),
            sends: Transfers::new(none),
            receives: Transfers::new(none),
            expected: [0; SLOTS],
            mismatch: None,
            waits: true,
            survives: survives(),
            awaited: None,
        }
    }

    /// Its memory, when all transfers are finished.
    ///
    /// # Panics
    /// If one is not.
    pub fn into_memory(self) -> M {
        assert!(self.is_idle(), "a transfer is outstanding");
        let mut transport = ManuallyDrop::new(self);
        // SAFETY: the memory is taken once, since the transport is not dropped.
        unsafe { ManuallyDrop::take(&mut transport.memory) }
    }

    /// From now on it waits for what is not finished; or answers `Pending`.
    pub fn set_waits(&mut self, waits: bool) {
        self.waits = waits;
    }

    /// Whether every message so far was as long as expected.
    ///
    /// # Errors
    /// If one was not.
    pub fn check_lengths(&self) -> Result<(), Mismatch> {
        self.mismatch.map_or(Ok(()), |error| Err(Mismatch(error)))
    }

    /// Takes back the receives that are outstanding. (Sends cannot be taken back.)
    pub fn withdraw_receives(&mut self) {
        self.cancel_receives();
        self.end_cancelled();
    }

    fn cancel_receives(&mut self) {
        for request in self.receives.all() {
            // SAFETY: an outstanding receive of this transport.
            unsafe { (self.native.functions.PMPI_Cancel)(request) };
        }
    }

    /// Receives are always waited for: MPI may be writing to the program's memory.
    fn end_cancelled(&mut self) {
        let functions = &self.native.functions;
        while !self.receives.is_idle() {
            for request in self.receives.all() {
                let mut flag = 0;
                // SAFETY: an outstanding receive of this transport, which was cancelled; writes an
                // integer.
                unsafe {
                    match self.survives {
                        true => (functions.PMPI_Test)(request, &mut flag, ignored_status()),
                        false => (functions.PMPI_Wait)(request, ignored_status()),
                    }
                };
            }
        }
    }

    /// Whether its sends have ended, with an error or without.
    fn has_ended_sends(&mut self) -> bool {
        for request in self.sends.all() {
            let mut flag = 0;
            // SAFETY: an outstanding send of this transport; writes an integer.
            unsafe { (self.native.functions.PMPI_Test)(request, &mut flag, ignored_status()) };
        }
        self.sends.is_idle()
    }

    /// Ends a transfer: its code and status, or none if it is not finished yet.
    ///
    /// # Errors
    /// MPI's, where the transfer has not ended: that the communicator was revoked, say.
    fn ended(&self, request: &mut MPI_Request) -> Result<Option<(c_int, MPI_Status)>, Error> {
        if !self.waits {
            return self.tested(request);
        }
        if !self.survives {
            return Ok(Some(self.waited(request)));
        }
        let mut patience = Patience::on(self.communicator);
        loop {
            if let Some(ended) = self.tested(request)? {
                return Ok(Some(ended));
            }
            patience.spend()?;
        }
    }

    fn waited(&self, request: &mut MPI_Request) -> (c_int, MPI_Status) {
        let mut status = MaybeUninit::<MPI_Status>::zeroed();
        // SAFETY: a transfer that this transport started; the status is written.
        let code = unsafe { (self.native.functions.PMPI_Wait)(request, status.as_mut_ptr()) };
        // SAFETY: all its fields are integers, which were zero.
        (code, unsafe { status.assume_init() })
    }

    fn tested(&self, request: &mut MPI_Request) -> Result<Option<(c_int, MPI_Status)>, Error> {
        let (mut status, mut flag) = (MaybeUninit::<MPI_Status>::zeroed(), 0);
        let test = self.native.functions.PMPI_Test;
        // SAFETY: as in `waited`; writes an integer, too.
        let code = unsafe { test(request, &mut flag, status.as_mut_ptr()) };
        if flag == 0 && *request != self.native.constants.request_null {
            return check(code).map(|()| None);
        }
        // SAFETY: as in `waited`.
        Ok(Some((code, unsafe { status.assume_init() })))
    }

    fn outstanding(&self, awaited: Awaited) -> Option<MPI_Request> {
        match awaited {
            Awaited::Send(slot) => self.sends.outstanding(slot),
            Awaited::Receive(slot) => self.receives.outstanding(slot),
        }
    }

    /// A transfer has ended with this code and status.
    fn end(&mut self, awaited: Awaited, code: c_int, status: &MPI_Status) -> Result<(), Error> {
        match awaited {
            Awaited::Send(slot) => {
                self.sends.end(slot);
                check(code)
            }
            Awaited::Receive(slot) => {
                self.receives.end(slot);
                self.compare(slot, code, status)
            }
        }
    }

    /// Looks whether a receive that has ended brought what it was for. If not, others are not left
    /// waiting, but hear of it by messages that are too short.
    fn compare(&mut self, slot: usize, code: c_int, status: &MPI_Status) -> Result<(), Error> {
        if self.lengths == Lengths::AtMost {
            return check(code);
        }
        let (functions, constants) = (&self.native.functions, &self.native.constants);
        let too_long = Error(constants.err_truncate.0);
        let mut received = 0;
        let error = match check(code) {
            Ok(()) => {
                let (.., unit) = self.memory.stretch(Place::scratch(0), 0);
                // SAFETY: the status of a receive that has ended, of these units.
                check(unsafe { (functions.PMPI_Get_count)(status, unit, &mut received) })?;
                (self.expected.get(slot) != Some(&received)).then_some(too_long)
            }
            Err(error) if error.class() == too_long => Some(error),
            Err(error) => return Err(error),
        };
        self.mismatch = self.mismatch.or(error);
        Ok(())
    }
}

impl<M> PointToPoint<M> {
    /// Whether no transfer is outstanding.
    fn is_idle(&self) -> bool {
        self.sends.is_idle() && self.receives.is_idle()
    }
}

impl<M> Drop for PointToPoint<M> {
    fn drop(&mut self) {
        if self.is_idle() {
            // SAFETY: the memory is dropped once, and MPI does not use it any more.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

impl<M: Memory> Transport for PointToPoint<M> {
    type Error = Error;

    fn is_one_piece(&self, place: Place, length: usize) -> bool {
        self.memory.is_one_piece(place, length)
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
        let (start, mut count, unit) = self.memory.stretch(place, length);
        let (to, comm) = (int(to), self.communicator.handle());
        if self.mismatch.is_some() {
            count = 0;
        }
        let bytes = count as usize * self.memory.unit();
        // Of calls in progress at once, none may wait for another.
        let may_wait = self.waits && !self.survives;
        if may_wait && mode == SendMode::Standard && bytes <= BLOCKING_MAX {
            // Every process has posted the receive of a round before it sends, so this one waits at
            // most for its receiver to come to the round, which waits for no later round of ours.
            // (Of successive broadcasts, their executors say why that holds for steps.) SAFETY:
            // `count` units are at `start`.
            return check(unsafe {
                (functions.PMPI_Send)(start.as_ptr(), count, unit, to, self.tag, comm)
            });
        }
        let send = match mode {
            SendMode::Standard => functions.PMPI_Isend,
            SendMode::Synchronous => functions.PMPI_Issend,
        };
        let busy = Error(self.native.constants.err_arg.0);
        let request = self.sends.free(slot).ok_or(busy)?;
        // SAFETY: `count` units are at `start` until the send is finished, by the contract of
        // `Memory`: the memory is not dropped while the request is in its slot, where no other
        // takes its place.
        check(unsafe { send(start.as_ptr(), count, unit, to, self.tag, comm, request) })
    }

    fn start_receive(
        &mut self,
        slot: usize,
        from: usize,
        place: Place,
        length: usize,
    ) -> Result<(), Error> {
        let (start, count, unit) = self.memory.stretch(place, length);
        let busy = Error(self.native.constants.err_arg.0);
        let request = self.receives.free(slot).ok_or(busy)?;
        if let Some(expected) = self.expected.get_mut(slot) {
            *expected = count;
        }
        // SAFETY: as in `start_send`.
        check(unsafe {
            (self.native.functions.PMPI_Irecv)(
                start.as_ptr(),
                count,
                unit,
                int(from),
                self.tag,
                self.communicator.handle(),
                request,
            )
        })
    }

    fn finish_send(&mut self, slot: usize) -> Result<Progress, Error> {
        let Some(mut request) = self.sends.outstanding(slot) else {
            return Ok(Progress::Ready);
        };
        let Some((code, status)) = self.ended(&mut request)? else {
            self.awaited = Some(Awaited::Send(slot));
            return Ok(Progress::Pending);
        };
        self.end(Awaited::Send(slot), code, &status)?;
        Ok(Progress::Ready)
    }

    fn finish_receive(&mut self, slot: usize) -> Result<Progress, Error> {
        let Some(mut request) = self.receives.outstanding(slot) else {
            return Ok(Progress::Ready);
        };
        let Some((code, status)) = self.ended(&mut request)? else {
            self.awaited = Some(Awaited::Receive(slot));
            return Ok(Progress::Pending);
        };
        self.end(Awaited::Receive(slot), code, &status)?;
        Ok(Progress::Ready)
    }

    fn copy(&mut self, from: Place, to: Place, length: usize) -> Result<(), Error> {
        self.memory.copy(from, to, length)
    }

    fn combine(&mut self, from: Place, into: Place, length: usize) -> Result<(), Error> {
        self.memory.combine(from, into, length)
    }

    fn pack(&mut self, place: Place, length: usize) -> Result<(), Error> {
        self.memory.pack(place, length)
    }

    fn unpack(&mut self, place: Place, length: usize) -> Result<(), Error> {
        self.memory.unpack(place, length)
    }
}

impl Patience {
    fn on(communicator: Communicator) -> Patience {
        let end = None;
        Patience { communicator, end }
    }

    /// # Errors
    /// MPI's, that the communicator was revoked, when this was first seen [`PATIENCE`] ago.
    fn spend(&mut self) -> Result<(), Error> {
        if !self.communicator.is_revoked() {
            return Ok(());
        }
        let end = *self.end.get_or_insert_with(|| Instant::now() + PATIENCE);
        match Instant::now() < end {
            true => Ok(()),
            false => self.communicator.progress(),
        }
    }
}

/// Gives up the outstanding transfers of these transports, after an error of MPI. Receives are
/// taken back. On a revoked communicator sends end, too, and are waited for; but a receiver that
/// makes no call of MPI may hold them up. MPI goes on reading the memory of a send that has not
/// ended: circulant's own is then never freed.
pub fn give_up<'a, M: Memory + 'a>(transports: impl Iterator<Item = &'a mut PointToPoint<M>>) {
    let mut transports: Vec<_> = transports.collect();
    for transport in &mut transports {
        transport.cancel_receives();
    }
    transports.retain_mut(|transport| {
        let is_revoked = transport.communicator.revoke_if_lost();
        transport.end_cancelled();
        is_revoked
    });
    let end = Instant::now() + PATIENCE;
    loop {
        transports.retain_mut(|transport| !transport.has_ended_sends());
        if transports.is_empty() || Instant::now() >= end {
            break;
        }
        sleep(Duration::from_millis(1));
    }
}

/// Waits until one of the transfers that `Pending` was answered for is finished.
///
/// # Errors
/// MPI's, of any transfer that it has ended.
pub fn wait_for_one<'a, M: Memory + 'a>(
    transports: impl Iterator<Item = &'a mut PointToPoint<M>>,
) -> Result<(), Error> {
    let mut awaited: Vec<_> = transports
        .filter_map(|transport| transport.awaited.take().map(|awaited| (transport, awaited)))
        .collect();
    if survives() {
        return poll_for_one(&mut awaited);
    }
    let (native, mut index) = (native(), 0);
    let mut requests: Vec<MPI_Request> = awaited
        .iter()
        .map(|(transport, awaited)| {
            let request = transport.outstanding(*awaited);
            request.unwrap_or(native.constants.request_null)
        })
        .collect();
    let mut status = MaybeUninit::<MPI_Status>::zeroed();
    // SAFETY: outstanding transfers of these transports; writes an index and a status.
    let code = unsafe {
        (native.functions.PMPI_Waitany)(
            int(requests.len()),
            requests.as_mut_ptr(),
            &mut index,
            status.as_mut_ptr(),
        )
    };
    // SAFETY: all its fields are integers, which were zero.
    let status = unsafe { status.assume_init() };
    // Where one has failed, the MPI library may have ended others that failed, too: Open MPI does.
    let ended: Vec<_> = iter::zip(&mut awaited, &requests)
        .filter(|(_, request)| **request == native.constants.request_null)
        .map(|((transport, awaited), _)| transport.end(*awaited, code, &status))
        .collect();
    match ended.is_empty() {
        true => check(code),
        false => ended.into_iter().collect(),
    }
}

/// As [`wait_for_one`], where the MPI library survives failures.
fn poll_for_one<M: Memory>(awaited: &mut [(&mut PointToPoint<M>, Awaited)]) -> Result<(), Error> {
    let Some((first, _)) = awaited.first() else {
        return Ok(());
    };
    let mut patience = Patience::on(first.communicator);
    loop {
        for (transport, awaited) in awaited.iter_mut() {
            let Some(mut request) = transport.outstanding(*awaited) else {
                return Ok(());
            };
            if let Some((code, status)) = transport.tested(&mut request)? {
                return transport.end(*awaited, code, &status);
            }
        }
        patience.spend()?;
    }
}
