//! What messages take between the processes of a communicator.
//!
//! All send at once, each to the process as far away as the longest skip of a circulant graph. So
//! messages go between nodes where there are several, and processes of one node share its port, as
//! they do in a round.

use std::time::Instant;

use super::Service;
use crate::mpi::Error;
use crate::select::Network;

/// Bytes of a small message, and of a large one, which MPI libraries still send eagerly.
const SIZES: [usize; 2] = [8, 32 << 10];
/// How often each is sent, after a first time that opens connections. The median counts: a port may
/// let some bytes pass faster after a pause.
const REPETITIONS: usize = 8;

/// Measures it: the same on all processes. Collective.
///
/// # Errors
/// MPI's.
pub(super) fn measure(service: &Service) -> Result<Network, Error> {
    let [small, large] = SIZES;
    let (short, long) = (slowest(service, small)?, slowest(service, large)?);
    Ok(Network::measured((small, short), (large, long)))
}

/// Nanoseconds that a message of so many bytes takes, where it takes the longest.
fn slowest(service: &Service, bytes: usize) -> Result<u64, Error> {
    let (communicator, team) = (service.communicator(), &service.team);
    let (p, rank) = (team.size(), team.place());
    let skip = p.div_ceil(2);
    let (to, from) = ((rank + skip) % p, (rank + p - skip) % p);
    let (sent, mut received) = (vec![1; bytes], vec![0; bytes]);
    communicator.all_agree(true)?;
    let mut times = [0; 1 + REPETITIONS];
    for time in &mut times {
        let start = Instant::now();
        communicator.exchange(&sent, to, &mut received, from)?;
        *time = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    }
    times[1..].sort_unstable();
    let median = times[1 + REPETITIONS / 2];
    let all = communicator.gather_all(median)?;
    Ok(all.into_iter().max().unwrap_or(median))
}
