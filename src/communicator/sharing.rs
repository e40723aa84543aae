//! Memory that the processes of each node share: made at the first call that runs in it, together.
//!
//! The first process of each node makes it and tells the others where it is; then all tell each
//! other whether they have it. If one has not, no call of the communicator runs in shared memory.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::members::Members;
use crate::message::{error_of, error_word, say};
use crate::mpi::Error;
use crate::select::slot_bytes;
use crate::team::Team;
use crate::transport::{Layout, SharedMemory, Ticket};

/// The nodes whose processes share memory.
#[derive(Clone, Copy)]
pub(super) struct Sharing<'a> {
    /// The processes of this node.
    pub node: &'a Team,
    /// Its number.
    pub number: usize,
    /// How many nodes there are.
    pub nodes: usize,
    /// The most processes of a node: all have slots of the same size.
    pub most: usize,
    /// The rank of this process, for messages.
    pub rank: usize,
}

/// Words in which a ticket is told.
const TICKET: usize = 3;

/// Makes it, with at most so many bytes on a node. None if a process could not. Collective.
///
/// # Errors
/// MPI's.
pub(super) fn share(
    members: &Members,
    sharing: Sharing<'_>,
    most: u64,
) -> Result<Option<SharedMemory>, Error> {
    let Sharing { node, rank, .. } = sharing;
    let layout = slot_bytes(most, sharing.most).map(|room| Layout {
        processes: node.size(),
        place: node.place(),
        room,
    });
    let Some(layout) = layout else {
        return Ok(None);
    };
    let made = (node.place() == 0).then(|| SharedMemory::make(layout));
    // All others have 0.
    let mut words = vec![0; TICKET * sharing.nodes];
    let of_node = TICKET * sharing.number..TICKET * (sharing.number + 1);
    if let Some(Ok((_, ticket))) = &made {
        let told = [ticket.process, ticket.descriptor, ticket.token];
        words[of_node.clone()].copy_from_slice(&told);
    }
    members.take_largest(&mut words)?;
    let ticket = match words[of_node] {
        [process, descriptor, token] => Ticket {
            process,
            descriptor,
            token,
        },
        _ => Ticket::default(),
    };
    let memory = match made {
        Some(made) => made.map(|(memory, _)| memory),
        // The first process of the node has none.
        None if ticket.token == 0 => Err(io::ErrorKind::NotFound.into()),
        None => SharedMemory::join(layout, ticket),
    };
    let mut problem = [memory
        .as_ref()
        .err()
        .map_or(0, |error| error_word(rank, error))];
    members.take_largest(&mut problem)?;
    if problem == [0] {
        return Ok(memory.ok());
    }
    if rank == 0 {
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
