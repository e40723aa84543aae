//! The largest of everybody's words, over the private communicator: how processes agree between
//! calls, in the rounds of `team/agreement.rs`.
//!
//! Collective operations of the MPI library would do. But on a new communicator it first makes what
//! these need: with Open MPI 5 on several nodes of several processes that took 20 ms, beside 0.5 ms
//! for the operation. And it opens connections that circulant's algorithms do not use.

use super::Service;
use crate::mpi::{Communicator, Error};
use crate::team::{Machine, Round, agreement};

/// Takes the largest of everybody's words, place by place. All have as many. Collective.
///
/// # Errors
/// MPI's.
pub(super) fn take(service: &Service, machine: &Machine, words: &mut [u64]) -> Result<(), Error> {
    let communicator = service.communicator();
    let mut received = vec![0; words.len()];
    for round in agreement(machine) {
        run(communicator, round, words, &mut received)?;
        if round.from.is_some() {
            let pairs = words.iter_mut().zip(&received);
            pairs.for_each(|(own, other)| *own = (*own).max(*other));
        }
    }
    Ok(())
}

fn run(
    communicator: Communicator,
    round: Round,
    words: &[u64],
    received: &mut [u64],
) -> Result<(), Error> {
    match (round.to, round.from) {
        (Some(to), Some(from)) => communicator.exchange_words(words, to, received, from),
        (Some(to), None) => communicator.send_words(words, to),
        (None, Some(from)) => communicator.receive_words(received, from),
        (None, None) => Ok(()),
    }
}
