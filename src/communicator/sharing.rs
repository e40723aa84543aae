//! Memory that the processes of one node share: made at the first call that runs in it, together.
//!
//! Rank 0 makes it and tells the others where it is; then all tell each other whether they have it.
//! If one has not, no call of the communicator runs in shared memory.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::members::Members;
use crate::message::say;
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
        .map_or(0, |error| encode(place, error))];
    members.take_largest(&mut problem)?;
    if problem == [0] {
        return Ok(memory.ok());
    }
    if place == 0 {
        complain(problem[0]);
    }
    Ok(None)
}

/// A rank's error as a word that is not 0: of several the lowest rank's is the largest.
fn encode(rank: usize, error: &io::Error) -> u64 {
    let number = error.raw_os_error().unwrap_or(libc::ENOENT);
    let before_last = u32::MAX - rank as u32;
    u64::from(before_last) << 32 | u64::from(number.unsigned_abs())
}

/// The rank and the error of a word.
fn decode(word: u64) -> (u32, io::Error) {
    let number = i32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
    let rank = u32::MAX - (word >> 32) as u32;
    (rank, io::Error::from_raw_os_error(number))
}

/// Says once that there is no memory to share.
fn complain(problem: u64) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if IS_SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    let (rank, error) = decode(problem);
    say(&format!(
        "circulant: the processes of a node cannot share memory (rank {rank}: {error}): the MPI \
         library runs the calls that would have; CIRCULANT_SHARED_MAX=0 says so without this line"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_rank_that_has_a_problem_is_named() {
        let of = |rank, number| encode(rank, &io::Error::from_raw_os_error(number));
        let all = [of(7, 12), of(3, 1), of(5, libc::ENOSYS)];
        let named = all.into_iter().max().map(decode);
        let named = named.map(|(rank, error)| (rank, error.raw_os_error()));
        assert_eq!(named, Some((3, Some(1))));
        assert_ne!(of(0, 0), 0);
    }
}
