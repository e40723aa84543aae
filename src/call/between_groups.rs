//! Calls on inter-communicators, on one private communicator of both groups.
//!
//! All that is agreed on there is agreed on by both groups. Where that is before the sizes are
//! known to all, it cannot depend on them. So these calls choose twice: first whether a call may be
//! ours, whatever is not known yet turns out to be; and for good when all is known. Only the second
//! choice says how a call moves its data.

use std::sync::Arc;

use super::movement::Broadcast;
use super::{Done, Owner, Running, complete, run_to_end};
use crate::communicator::{Service, State, Stop};
use crate::engine::scratch_units;
use crate::mpi::{Array, Arrays};
use crate::plan::{Division, Stream};
use crate::pool::{Lease, Need};
use crate::report::Work;
use crate::select::{Algorithm, Facts, Operation};
use crate::stage::{Groups, Stages, consecutive};
use crate::team::{Graph, Ranks, Team};

/// Bytes of a word that processes tell each other.
const WORD: usize = size_of::<u64>();

/// The elements of a process of one group, to all of the other.
///
/// The root's neighbours are told nothing but that they are not the root. They take part in what
/// all agree on, and go native, which does nothing there. So nothing that is agreed on may depend
/// on the call; and a process with wrong arguments takes part, too, before these go to MPI. Since
/// it may make the call again, which its neighbours would not know, nobody counts these calls.
pub struct BroadcastBetween {
    /// The two groups.
    pub groups: Groups,
    /// What this process does, or why it does nothing.
    pub task: Result<Task, Stop>,
}

/// What a process does in a broadcast between groups.
#[derive(Clone, Copy)]
pub struct Task {
    /// What it sends or receives.
    pub elements: Array,
    /// The group and the rank of the root.
    pub root: (usize, usize),
}

impl BroadcastBetween {
    /// What is known of a broadcast of `bytes` bytes on `processes` processes.
    pub fn facts(bytes: usize, processes: usize) -> Facts {
        Facts {
            bytes: bytes as u64,
            largest: bytes as u64,
            units: bytes as u64,
            smaller_group: 1,
            ..Facts::new(Operation::Bcast, processes)
        }
    }

    pub(super) fn run(
        self,
        state: &State,
        service: &mut Service,
        work: &mut Work,
    ) -> Result<Done, Stop> {
        service.uncount();
        let task = self.task?;
        let (elements, (group, root)) = (task.elements, task.root);
        let (bytes, processes) = (elements.size(), self.groups.sizes[1 - group] + 1);
        work.bytes = bytes as u64;
        let algorithm = state.choose(Facts {
            nodes: service.nodes,
            ..BroadcastBetween::facts(bytes, processes)
        })?;
        let graph = Arc::new(Graph::new(processes, state.settings().skips));
        let team = self.groups.rooted(group, root, graph);
        let packing = service.packing(elements);
        let staging = if packing.bytes().is_none() { bytes } else { 0 };
        let lease = service.lease_alone(bytes, staging)?;
        let broadcast = Broadcast {
            elements,
            root: 0,
            chunks: state.settings().chunks,
        };
        broadcast.run_on(&team, algorithm, service, packing, lease)
    }
}

/// The elements of each process, to all of the other group (Kang, Träff et al., Algorithms 1 and 2,
/// and then an allgather inside each group).
///
/// The sizes of an MPI_Allgather are known to all from the arguments. For an MPI_Allgatherv the
/// processes of a group gather a word of each, from which they have the sums and the prefixes that
/// the paper gets by an Allreduce and an Exscan.
///
/// Where blocks are longer than a segment, MPI_Allgather's are divided evenly, too. Where neither
/// group size divides the other, Algorithm 1's segments differ by up to a factor of two, and the
/// longest take the longest; where one does, both divisions are the same.
pub struct AllgatherBetween {
    /// Whether all blocks of a group have the same size.
    pub are_equal: bool,
    /// The two groups.
    pub groups: Groups,
    /// What is sent, if that is anything.
    pub send: Option<Array>,
    /// What is received, if that is anything.
    pub receive: Option<Arrays>,
}

impl AllgatherBetween {
    /// What is known of a call where the larger group's blocks have `bytes` bytes together, and the
    /// longest of all `largest`.
    pub fn facts(operation: Operation, groups: &Groups, bytes: usize, largest: usize) -> Facts {
        Facts {
            bytes: bytes as u64,
            largest: largest as u64,
            smaller_group: groups.sizes[0].min(groups.sizes[1]),
            ..Facts::new(operation, groups.all())
        }
    }

    pub(super) fn run(
        self,
        first: Algorithm,
        state: &State,
        service: &mut Service,
        work: &mut Work,
    ) -> Result<Done, Stop> {
        let lengths = self.lengths(service, first)?;
        let all = |group: usize| lengths[group].iter().copied();
        let bytes = all(0).sum::<usize>().max(all(1).sum());
        let largest = all(0).chain(all(1)).max().unwrap_or(0);
        work.bytes = bytes as u64;
        let operation = if self.are_equal {
            Operation::Allgather
        } else {
            Operation::Allgatherv
        };
        let algorithm = state.choose(Facts {
            nodes: service.nodes,
            ..AllgatherBetween::facts(operation, &self.groups, bytes, largest)
        })?;
        let (segment, division) = (algorithm.segment(), division(algorithm));
        let sizes = self.groups.sizes;
        let streams = [0, 1].map(|group| Stream::new(all(group), sizes[1 - group], division));
        let (groups, rule) = (&self.groups, state.settings().skips);
        let graph = Arc::new(Graph::new(groups.all(), rule));
        let whole = Team::new(graph, Ranks::ALL, groups.place());
        let mut stages = service.spare.stages();
        stages.allgather_between(groups, [&whole, &service.team], &streams, segment);
        // What any process needs, in either group.
        let mut theirs = Stages::default();
        let others = Team::whole(groups.sizes[groups.other()], 0, rule);
        theirs.allgather_segments(&others, &streams[groups.own], segment);
        let scratch = scratch_units(&stages, service.pacing);
        let scratch = scratch.max(scratch_units(&theirs, service.pacing));
        self.run_stages(service, stages, &streams, scratch)
    }

    fn run_stages(
        &self,
        service: &mut Service,
        stages: Stages,
        streams: &[Stream; 2],
        scratch: usize,
    ) -> Result<Done, Stop> {
        let stream = &streams[self.groups.other()];
        let send = self.send.map(|send| service.packing(send));
        let receive = self.receive.map(|receive| {
            let first = service.packing(receive.first());
            let in_order = first.bytes_of_all(&receive);
            (receive, first, in_order)
        });
        let staged_input = send.filter(|send| send.bytes().is_none());
        let is_result_staged = receive.is_some_and(|(.., in_order)| in_order.is_none());
        let input = self.send.filter(|_| staged_input.is_some());
        let result = if is_result_staged { stream.length() } else { 0 };
        let possible = [0, 1].map(|group| {
            let stream = &streams[1 - group];
            stream
                .length()
                .saturating_add(streams[group].longest_block())
        });
        let is_staged = input.is_some() || is_result_staged;
        let need = Need::sometimes(scratch, possible[0].max(possible[1]), is_staged);
        let lease = service.lease(need)?;
        let staging = input.map_or(0, |input| input.size()) + result;
        let mut memory = service.bytes(lease.memory, scratch, staging);
        match (staged_input, send.and_then(|send| send.bytes())) {
            (Some(send), _) => memory.stage_input([send])?,
            (None, Some(input)) => memory.set_input(input),
            (None, None) => {}
        }
        match receive {
            Some((_, _, Some(home))) => memory.add_home(home),
            Some((receive, first, None)) => {
                memory.add_staged(result);
                for sender in 0..stream.senders() {
                    memory.unpack_at_end(stream.block(sender), first.of(receive.of(sender)));
                }
            }
            None => {}
        }
        run_to_end(service, stages, lease.slot, memory)
    }

    /// The bytes of each block, of both groups. Collective for MPI_Allgatherv, in steps of the
    /// first choice.
    fn lengths(&self, service: &mut Service, first: Algorithm) -> Result<[Vec<usize>; 2], Stop> {
        let (groups, own) = (&self.groups, self.send.map_or(0, |send| send.size()));
        let ours = if self.are_equal {
            vec![own; groups.sizes[groups.own]]
        } else {
            let words = gather_in_group(service, own as u64, first.segment())?;
            words.into_iter().map(|word| word as usize).collect()
        };
        let block = |rank| self.receive.map_or(0, |receive| receive.of(rank).size());
        let theirs = (0..groups.sizes[groups.other()]).map(block).collect();
        Ok(if groups.own == 0 {
            [ours, theirs]
        } else {
            [theirs, ours]
        })
    }
}

/// How an algorithm divides streams.
fn division(algorithm: Algorithm) -> Division {
    match algorithm {
        Algorithm::Exchange {
            by_blocks: true, ..
        } => Division::ByBlocks,
        _ => Division::Evenly,
    }
}

/// The words of all processes of this process's group.
fn gather_in_group(service: &mut Service, own: u64, segment: usize) -> Result<Vec<u64>, Stop> {
    let word = |rank: usize| rank * WORD..(rank + 1) * WORD;
    let (size, place) = (service.team.size(), service.team.place());
    let mut stages = service.spare.stages();
    let messages = consecutive(std::iter::repeat_n(WORD, size));
    stages.allgather(&service.team, messages, segment);
    let (scratch, bytes) = (scratch_units(&stages, service.pacing), size * WORD);
    let lease = service.lease_alone(0, scratch + bytes)?;
    let mut memory = service.bytes(lease.memory, scratch, bytes);
    memory.add_staged(bytes);
    memory.write(word(place), own.to_ne_bytes());
    let [call] = complete([Running::prepare(service, stages, 0, None, memory)])?;
    let (memory, _, lengths) = call.end(service);
    let words = (0..size).map(|rank| u64::from_ne_bytes(memory.read(word(rank))));
    let words = words.collect();
    let (slot, memory) = (lease.slot, memory.leave(service));
    service.pool.give_back(Lease { slot, memory });
    lengths?;
    Ok(words)
}
