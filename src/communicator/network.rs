//! What messages take between the nodes of a communicator, or inside the only one.
//!
//! One process of each node sends, all at the same time. Each sends to the one as far away as the
//! longest skip of a circulant graph. So a message has the port of its node to itself, and no two
//! senders share a processor. When all processes of a node sent, a short message took up to ten
//! times as long on processors that were shared. A pipeline between leaders does not see that.

use super::Service;
use crate::mpi::{Error, Moment};
use crate::nodes::Nodes;
use crate::select::{LARGE, Network, SMALL};
use crate::team::Machine;

/// Measures it: the same on all processes. Collective.
///
/// # Errors
/// MPI's.
pub(super) fn measure(service: &Service, machine: &Machine) -> Result<Network, Error> {
    // All begin at about the same time.
    service.members.take_largest(&mut [0])?;
    let ends = ends(&machine.nodes);
    let mut times = vec![0; 2 * ends.len()];
    if let Some(end) = ends.iter().position(|&rank| rank == machine.place) {
        times[2 * end] = median_of(service, &ends, end, SMALL)?;
        times[2 * end + 1] = median_of(service, &ends, end, LARGE)?;
    }
    // Of each time, others have 0.
    service.members.take_largest(&mut times)?;
    // A short message that had to wait for a processor is no measure of the network. A long one is:
    // bytes take what they take where they take the longest.
    let short = median(times.iter().copied().step_by(2).collect());
    let long = times.iter().copied().skip(1).step_by(2).max().unwrap_or(0);
    let of_end = Network::measured((SMALL.0, short), (LARGE.0, long));
    let ends_of_a_node = ends.len() / machine.nodes.count().max(1);
    Ok(of_end.of_node(ends_of_a_node))
}

/// The ranks that send: the first of each node, or all of the only one.
fn ends(nodes: &Nodes) -> Vec<usize> {
    match nodes.count() {
        1 => nodes.ranks(0).to_vec(),
        several => (0..several).map(|node| nodes.ranks(node)[0]).collect(),
    }
}

/// Nanoseconds that a message of so many bytes takes from one of the ends: the median of so many
/// repetitions, since a port may let some bytes pass faster after a pause.
fn median_of(
    service: &Service,
    ends: &[usize],
    end: usize,
    (bytes, repetitions): (usize, usize),
) -> Result<u64, Error> {
    let communicator = service.communicator();
    let (count, skip) = (ends.len(), ends.len().div_ceil(2));
    let (to, from) = (
        ends[(end + skip) % count],
        ends[(end + count - skip) % count],
    );
    let words = bytes / size_of::<u64>();
    let (sent, mut received) = (vec![1; words], vec![0; words]);
    communicator.exchange_words(&sent, to, &mut received, from)?;
    let mut times = Vec::with_capacity(repetitions);
    for _ in 0..repetitions {
        let start = Moment::now();
        communicator.exchange_words(&sent, to, &mut received, from)?;
        times.push(start.elapsed());
    }
    Ok(median(times))
}

/// The median. Of an even number of times, the larger of the two in the middle; of none, 0.
fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}
