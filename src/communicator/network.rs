//! What messages take between the processes of a communicator.
//!
//! All send at once, each to the process as far away as the longest skip of a circulant graph. So
//! messages go between nodes where there are several, and processes of one node share its port, as
//! they do in a round.

use std::time::Instant;

use super::Service;
use crate::mpi::Error;
use crate::select::{LARGE, Network, SMALL};

/// Measures it: the same on all processes. Collective.
///
/// # Errors
/// MPI's.
pub(super) fn measure(service: &Service) -> Result<Network, Error> {
    service.communicator().all_agree(true)?;
    let own = [median_of(service, SMALL)?, median_of(service, LARGE)?];
    let all = service.communicator().gather_words(own)?;
    // Where messages take the longest.
    let [short, long] = all
        .into_iter()
        .fold(own, |most, one| [most[0].max(one[0]), most[1].max(one[1])]);
    Ok(Network::measured((SMALL.0, short), (LARGE.0, long)))
}

/// Nanoseconds that a message of so many bytes takes, sent so often. The median counts: a port may let
/// some bytes pass faster after a pause.
fn median_of(service: &Service, (bytes, repetitions): (usize, usize)) -> Result<u64, Error> {
    let (communicator, team) = (service.communicator(), &service.team);
    let (p, rank) = (team.size(), team.place());
    let skip = p.div_ceil(2);
    let (to, from) = ((rank + skip) % p, (rank + p - skip) % p);
    let (sent, mut received) = (vec![1; bytes], vec![0; bytes]);
    communicator.exchange(&sent, to, &mut received, from)?;
    let mut times = Vec::with_capacity(repetitions);
    for _ in 0..repetitions {
        let start = Instant::now();
        communicator.exchange(&sent, to, &mut received, from)?;
        times.push(nanoseconds(start));
    }
    times.sort_unstable();
    Ok(times.get(repetitions / 2).copied().unwrap_or(0))
}

pub(super) fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
