//! Memory that the processes of one node share: made at the first call that runs in it, together.
//!
//! Rank 0 makes it and tells the others where it is; then all tell each other whether they have it.
//! If one has not, no call of the communicator runs in shared memory.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::members::Members;
use crate::message::{error_of, error_word, say};
use crate::mpi::Error;
use crate::select::slot_bytes;
use crate::transport::{Layout, SharedMemory, Ticket};

/// Makes it, as process `place` of all `processes`, with at most so many bytes. None if a process
/// could not. Collective.
///
/// # Errors
/// MPI's.
pub(super) fn share(
    members: &Members,
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
    // The others have 0.
    members.take_largest(&mut words)?;
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
    let mut problem = [memory
        .as_ref()
        .err()
        .map_or(0, |error| error_word(place, error))];
    members.take_largest(&mut problem)?;
    if problem == [0] {
        return Ok(memory.ok());
    }
    if place == 0 {
        complain(problem[0]);
    }
    Ok(None)
}

/// Says once that there is no memory to share.
fn complain(problem: u64) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if IS_SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    let (rank, error) = error_of(problem);
    say(&format!(
        "circulant: the processes of a node cannot share memory (rank {rank}: {error}): the MPI \
         library runs the calls that would have; CIRCULANT_SHARED_MAX=0 says so without this line"
    ));
}
