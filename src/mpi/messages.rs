//! Messages of bytes, one at a time, whose receiver learns from MPI how long they are.
//!
//! A message is looked at before it is received, which is safe where threads are only if nobody
//! else receives from the same process meanwhile.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use super::library::native;
use super::sys::{MPI_Request, MPI_Status};
use super::{Communicator, Error, Region, check, ignored_status, int};

/// The tag of all of them.
const OPERAND_TAG: c_int = 0;

/// A send in progress.
#[must_use]
pub struct Sending(MPI_Request);

impl Sending {
    /// Waits for its end.
    ///
    /// # Errors
    /// MPI's.
    pub fn finish(mut self) -> Result<(), Error> {
        // SAFETY: the request of a send that was started.
        check(unsafe { (native().functions.PMPI_Wait)(&mut self.0, ignored_status()) })
    }
}

impl Communicator {
    /// Starts to send bytes.
    ///
    /// # Errors
    /// MPI's.
    ///
    /// # Safety
    /// The bytes stay there until the send is finished. (What is written to them before may be what
    /// arrives.)
    pub unsafe fn start_send(self, to: usize, bytes: Region) -> Result<Sending, Error> {
        let (start, count, byte) = bytes.typed();
        let mut sending = Sending(native().constants.request_null);
        // SAFETY: `count` bytes are at `start`, and stay there by this function's contract.
        check(unsafe {
            (native().functions.PMPI_Isend)(
                start.as_ptr(),
                count,
                byte,
                int(to),
                OPERAND_TAG,
                self.handle(),
                &mut sending.0,
            )
        })?;
        Ok(sending)
    }

    /// Receives as many bytes as the next message has.
    ///
    /// # Errors
    /// MPI's.
    pub fn receive(self, from: usize, bytes: Region) -> Result<(), Error> {
        let (start, count, byte) = bytes.typed();
        // SAFETY: `count` bytes fit at `start`.
        check(unsafe {
            (native().functions.PMPI_Recv)(
                start.as_ptr(),
                count,
                byte,
                int(from),
                OPERAND_TAG,
                self.handle(),
                ignored_status(),
            )
        })
    }

    /// The bytes of the next message, once it is there.
    ///
    /// # Errors
    /// MPI's.
    pub fn next_message(self, from: usize) -> Result<usize, Error> {
        let functions = &native().functions;
        let mut status = MaybeUninit::<MPI_Status>::uninit();
        // SAFETY: writes the status.
        check(unsafe {
            (functions.PMPI_Probe)(int(from), OPERAND_TAG, self.handle(), status.as_mut_ptr())
        })?;
        let mut bytes: c_int = 0;
        // SAFETY: the status was written by the successful call.
        check(unsafe {
            (functions.PMPI_Get_count)(status.as_ptr(), native().constants.byte, &mut bytes)
        })?;
        Ok(usize::try_from(bytes).unwrap_or(0))
    }
}
