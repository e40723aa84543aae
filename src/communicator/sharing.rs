//! Memory that the processes of one node share: made at the first call that runs in it, together.
//!
//! Rank 0 makes it and tells the others where it is; then all tell each other whether they have it.
//! If one has not, no call of the communicator runs in shared memory.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::message::say;
use crate::mpi::{Communicator, Error};
use crate::select::slot_bytes;
use crate::transport::{Layout, SharedMemory, Ticket};

/// Makes it, as process `place` of all `processes` of a communicator, with at most so many bytes.
/// None if a process could not. Collective.
///
/// # Errors
/// MPI's.
pub(super) fn share(
    communicator: Communicator,
    (processes, place): (usize, usize),
    most: u64,
) -> Result<Option<SharedMemory>, Error> {
    let layout = slot_bytes(most, processes).map(|room| Layout {
        processes,
        place,
        room,
    });
    let Some(layout) = layout else {
        return Ok(None);
    };
    let made = (place == 0).then(|| SharedMemory::make(layout));
    let ticket = match &made {
        Some(Ok((_, ticket))) => Some(*ticket),
        _ => None,
    };
    let mut words = ticket.map_or([0; 3], |ticket| {
        [ticket.process, ticket.descriptor, ticket.token]
    });
    communicator.share(&mut words)?;
    let [process, descriptor, token] = words;
    let ticket = Ticket {
        process,
        descriptor,
        token,
    };
    let memory = match made {
        Some(made) => made.map(|(memory, _)| memory),
        // Rank 0 has none.
        None if token == 0 => Err(io::ErrorKind::NotFound.into()),
        None => SharedMemory::join(layout, ticket),
    };
    let problem = memory.as_ref().err().map_or(0, number);
    let problems = communicator.gather_all(problem)?;
    match problems.iter().position(|&problem| problem != 0) {
        None => Ok(memory.ok()),
        Some(rank) => {
            if place == 0 {
                complain(rank, problems[rank]);
            }
            Ok(None)
        }
    }
}

/// An error as a word, for other processes: not 0.
fn number(error: &io::Error) -> u64 {
    let number = error.raw_os_error().unwrap_or(libc::ENOENT);
    number.unsigned_abs().into()
}

/// Says once that there is no memory to share.
fn complain(rank: usize, problem: u64) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if IS_SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    let error = io::Error::from_raw_os_error(i32::try_from(problem).unwrap_or(0));
    say(&format!(
        "circulant: the processes of a node cannot share memory (rank {rank}: {error}): the MPI \
         library runs the calls that would have; CIRCULANT_SHARED_MAX=0 says so without this line"
    ));
}
