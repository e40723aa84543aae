//! Calls that move elements: broadcast, allgather, all-to-all, gather and scatter.
//!
//! They run on the packed bytes of the elements, which are in the program's buffers where these are
//! contiguous, and else in a staging buffer.

use std::ops::Range;
use std::sync::Arc;

use super::check::Touched;
use super::shared::OnNodes;
use super::{Done, Running, complete, run_to_end, shared};
use crate::communicator::{Service, Stop};
use crate::engine::scratch_units;
use crate::mpi::{Allocation, Array, Arrays};
use crate::plan::{Pattern, block_range};
use crate::pool::{Lease, Need};
use crate::select::{Algorithm, Cut};
use crate::stage::{Span, Stages, consecutive, shares};
use crate::team::Team;
use crate::transport::{Bytes, Packing, Unpacking};

/// The elements of the root, to all.
pub struct Broadcast {
    /// This process's elements.
    pub elements: Array,
    /// The root.
    pub root: usize,
    /// Into how many calls, in progress at once, it is cut.
    pub chunks: usize,
}

impl Broadcast {
    /// What the root sends is its result, too: it must not have changed.
    pub(super) fn touched(&self, rank: usize) -> Touched {
        let sent = (rank == self.root).then_some(self.elements);
        Touched::moved(vec![self.elements], sent.into_iter().collect())
    }

    pub(super) fn run(self, algorithm: Algorithm, service: &mut Service) -> Result<Done, Stop> {
        let packing = service.packing(self.elements);
        let need = Need::sometimes(0, self.elements.size(), packing.bytes().is_none());
        let lease = service.lease(need)?;
        let team = service.team.clone();
        self.run_on(&team, algorithm, service, packing, lease)
    }

    /// Runs it on `team`, with scratch for staging.
    pub(super) fn run_on(
        &self,
        team: &Team,
        algorithm: Algorithm,
        service: &mut Service,
        packing: Packing,
        lease: Lease<Arc<Allocation>>,
    ) -> Result<Done, Stop> {
        let memory = self.laid_out(service, team.place() == self.root, packing, lease.memory)?;
        if let Algorithm::Shared { across } = algorithm {
            return self.run_shared(across, service, lease.slot, memory);
        }
        if self.chunks == 1 {
            let stages = self.stages(team, algorithm, service, 0);
            return run_to_end(service, stages, lease.slot, memory);
        }
        let mut calls = Vec::new();
        for chunk in 1..self.chunks {
            let memory = memory.share(service.spare.lists());
            let stages = self.stages(team, algorithm, service, chunk);
            calls.push(Running::prepare(service, stages, chunk, None, memory));
        }
        let stages = self.stages(team, algorithm, service, 0);
        calls.push(Running::prepare(
            service,
            stages,
            0,
            Some(lease.slot),
            memory,
        ));
        // All are finished, also after one whose messages had another length than expected.
        let calls = complete(calls)?.into_iter();
        let ended: Vec<_> = calls.map(|call| call.finish(service)).collect();
        ended
            .into_iter()
            .try_fold(Done::default(), |done, of| Ok(done.and(of?)))
    }

    fn run_shared(
        &self,
        across: Option<Cut>,
        service: &mut Service,
        lease: usize,
        memory: Bytes,
    ) -> Result<Done, Stop> {
        let range = 0..self.elements.size();
        let from = |root: usize, processes: usize| {
            let mut messages = vec![0..0; processes];
            messages[root] = range.clone();
            Pattern::Moved(messages)
        };
        let Some(cut) = across else {
            let pattern = from(self.root, service.team.size());
            return shared::run(service, pattern, 1, lease, memory);
        };
        let mut stages = service.spare.stages();
        let machine = service.machine()?;
        let blocks = cut.blocks();
        stages.broadcast_across((&service.team, machine), self.root, blocks, range.clone());
        let head = machine.head(self.root);
        let call = OnNodes {
            inward: None,
            across: stages,
            leads: machine.node.place() == head,
            outward: Some(from(head, machine.node.size())),
            receives: machine.place != self.root,
        };
        shared::run_on_nodes(service, call, 1, lease, memory)
    }

    fn laid_out(
        &self,
        service: &mut Service,
        is_root: bool,
        packing: Packing,
        allocation: Arc<Allocation>,
    ) -> Result<Bytes, Stop> {
        let bytes = self.elements.size();
        if let Some(home) = packing.bytes() {
            let mut memory = service.bytes(allocation, 0, 0);
            memory.add_home(home);
            return Ok(memory);
        }
        let mut memory = service.bytes(allocation, 0, bytes);
        memory.add_staged(bytes);
        if !is_root {
            memory.unpack_to(0..bytes, packing);
        } else if self.chunks == 1 {
            memory.pack_from(0..bytes, packing);
        } else {
            memory.pack_now(0..bytes, &packing)?;
        }
        Ok(memory)
    }

    fn stages(
        &self,
        team: &Team,
        algorithm: Algorithm,
        service: &mut Service,
        chunk: usize,
    ) -> Stages {
        let mut stages = service.spare.stages();
        let range = block_range(self.elements.size(), self.chunks, chunk);
        match algorithm {
            Algorithm::Gray => stages.tree_broadcast(team, self.root, range),
            _ => {
                let blocks = algorithm.blocks().div_ceil(self.chunks);
                match (algorithm, service.machine_of(algorithm)) {
                    (Algorithm::Lanes { lanes, .. }, Some(machine)) => {
                        let cut = (blocks, lanes);
                        stages.broadcast_by_lanes((team, machine), self.root, cut, range);
                    }
                    (_, Some(machine)) => {
                        stages.broadcast_by_leaders((team, machine), self.root, blocks, range);
                    }
                    (_, None) => stages.broadcast(team, self.root, blocks, range),
                }
            }
        }
        stages
    }
}

/// The elements of each process, to all.
pub struct Allgather {
    /// This process's elements; none where they are in their place in the result.
    pub own: Option<Array>,
    /// Where they go.
    pub result: Arrays,
}

impl Allgather {
    pub(super) fn touched(&self, rank: usize) -> Touched {
        let in_place = self.own.is_none().then(|| self.result.of(rank));
        Touched::moved(self.result.all().collect(), in_place.into_iter().collect())
    }

    pub(super) fn run(self, algorithm: Algorithm, service: &mut Service) -> Result<Done, Stop> {
        let result = service.packing(self.result.first());
        let own = self.own.map(|own| {
            let is_alike = own.datatype() == self.result.first().datatype();
            if is_alike {
                result.of(own)
            } else {
                service.packing(own)
            }
        });
        let lengths = || self.result.all().map(|array| array.size());
        let (bytes, staged) = (lengths().sum(), result.bytes().is_none());
        let mut stages = service.spare.stages();
        let (team, messages) = (&service.team, consecutive(lengths()));
        let machine = service.machine_of(algorithm);
        match (algorithm, machine) {
            (Algorithm::Leaders { cut }, Some(machine)) => {
                let messages: Vec<_> = messages.collect();
                stages.allgather_by_leaders((team, machine), &shares(&messages, 1), cut);
            }
            (Algorithm::Lanes { cut, lanes }, Some(machine)) => {
                let messages: Vec<_> = messages.collect();
                stages.allgather_by_lanes((team, machine), &messages, (cut, lanes));
            }
            (Algorithm::Shared { across: Some(cut) }, Some(machine)) => {
                stages.allgather_across((team, machine), messages, cut);
            }
            (Algorithm::Doubling { segment }, _) => stages.allgather(team, messages, segment),
            (Algorithm::Shared { .. }, _) => {}
            _ => stages.pipelined_allgather(team, messages, algorithm.blocks()),
        }
        let is_packed_first = machine.is_some();
        let scratch = scratch_units(&stages, service.pacing);
        // What cannot be packed is larger than any bound on scratch, so this is agreed on.
        let is_packable = own.is_none_or(|own| own.is_possible());
        let need = Need::sometimes(scratch, bytes, staged || !is_packable);
        let lease = service.lease(need)?;
        let memory = service.bytes(lease.memory, scratch, if staged { bytes } else { 0 });
        let place = (service.team.place(), is_packed_first);
        let memory = self.laid_out(memory, own, result, place)?;
        if let Algorithm::Shared { across } = algorithm {
            let messages =
                consecutive(lengths()).map(|span| span.result..span.result + span.length);
            let messages: Vec<_> = messages.collect();
            if across.is_some() {
                return run_shared_on_nodes(service, stages, messages, lease.slot, memory);
            }
            service.spare.keep_stages(stages);
            return shared::run(service, Pattern::Moved(messages), 1, lease.slot, memory);
        }
        run_to_end(service, stages, lease.slot, memory)
    }

    /// Lays the messages out in rank order; process `place` has `own` elements. These are packed
    /// first, or before they are sent.
    fn laid_out(
        &self,
        mut memory: Bytes,
        own: Option<Packing>,
        result: Packing,
        (place, is_packed_first): (usize, bool),
    ) -> Result<Bytes, Stop> {
        let pack = |memory: &mut Bytes, range: Range<usize>, from: Packing| {
            if is_packed_first {
                memory.pack_now(range, &from)
            } else {
                memory.pack_from(range, from);
                Ok(())
            }
        };

        let mut end = 0;
        for (rank, elements) in self.result.all().enumerate() {
            let to = result.of(elements);
            let range = end..end + elements.size();
            end = range.end;
            if rank != place {
                memory.add(to, Unpacking::Arriving);
                continue;
            }
            match own {
                Some(own) => {
                    memory.add(to, Unpacking::AtEnd);
                    pack(&mut memory, range, own)?;
                }
                None => {
                    memory.add(to, Unpacking::Never);
                    if to.bytes().is_none() {
                        pack(&mut memory, range, to)?;
                    }
                }
            }
        }
        Ok(memory)
    }
}

/// Runs an allgather of these messages, in the order of the ranks, on several nodes. Each process
/// of a node takes what the others bring, and then what has come to its leader.
fn run_shared_on_nodes(
    service: &mut Service,
    across: Stages,
    mut messages: Vec<Range<usize>>,
    lease: usize,
    memory: Bytes,
) -> Result<Done, Stop> {
    let machine = service.machine()?;
    let own = machine.nodes.ranks(machine.leaders.place());
    let of_node = own.iter().map(|&rank| std::mem::take(&mut messages[rank]));
    let inward = Pattern::Moved(of_node.collect());
    messages.retain(|message| !message.is_empty());
    let call = OnNodes {
        inward: Some(inward),
        across,
        leads: machine.node.place() == 0,
        outward: Some(Pattern::Spread(0, messages)),
        receives: true,
    };
    shared::run_on_nodes(service, call, 1, lease, memory)
}

/// As many elements of each process to each.
pub struct AllToAll {
    /// What this process sends.
    pub send: Arrays,
    /// What it receives.
    pub receive: Arrays,
}

impl AllToAll {
    pub(super) fn touched(&self) -> Touched {
        let results: Vec<_> = self.receive.all().collect();
        let kept = if self.is_in_place() {
            results.clone()
        } else {
            Vec::new()
        };
        Touched::moved(results, kept)
    }

    pub(super) fn run(self, algorithm: Algorithm, service: &mut Service) -> Result<Done, Stop> {
        let packings = [self.send, self.receive].map(|arrays| service.packing(arrays.of(0)));
        match algorithm {
            Algorithm::Pairwise { segment } => self.send_straight(segment, service, packings),
            Algorithm::Shared { .. } => {
                let (mut memory, lease) = self.straight(service, 0, packings)?;
                let length = self.receive.of(0).size();
                let own = service.team.place() * length;
                memory.keep((own, own), length);
                shared::run(service, Pattern::Exchanged(length), 1, lease, memory)
            }
            _ => self.combine_messages(service, packings),
        }
    }

    fn is_in_place(&self) -> bool {
        self.send.of(0).first() == self.receive.of(0).first()
    }

    fn send_straight(
        self,
        segment: usize,
        service: &mut Service,
        packings: [Packing; 2],
    ) -> Result<Done, Stop> {
        let (place, p) = (service.team.place(), service.team.size());
        let length = self.receive.of(0).size();
        let mut stages = service.spare.stages();
        // Message e is for process place + e, and comes from process place - e.
        let span = |e| Span {
            input: (place + e) % p * length,
            result: (place + p - e) % p * length,
            length,
        };
        stages.pairwise(&service.team, (0..p).map(span), segment);
        let scratch = scratch_units(&stages, service.pacing);
        let (memory, lease) = self.straight(service, scratch, packings)?;
        run_to_end(service, stages, lease, memory)
    }

    /// The memory of a call in which each message leaves from the program's buffer and arrives
    /// there, if its bytes are packed there and both buffers differ; otherwise from and to a
    /// staging buffer. And its lease.
    fn straight(
        &self,
        service: &mut Service,
        scratch: usize,
        [from, to]: [Packing; 2],
    ) -> Result<(Bytes, usize), Stop> {
        let (place, p) = (service.team.place(), service.team.size());
        let length = self.receive.of(0).size();
        let input = from
            .bytes_of_all(&self.send)
            .filter(|_| !self.is_in_place());
        let staged = [input.is_none(), to.bytes().is_none()].map(usize::from);
        let staging = staged.iter().sum::<usize>() * length * p;
        let need = Need::sometimes(scratch, 2 * length * p, staging > 0);
        let lease = service.lease(need)?;
        let mut memory = service.bytes(lease.memory, scratch, staging);
        match input {
            Some(input) => memory.set_input(input),
            None => memory.stage_input(self.send.all().map(|elements| from.of(elements)))?,
        }
        for (rank, elements) in self.receive.all().enumerate() {
            let arrives = rank != place;
            memory.add(to.of(elements), unpacking(arrives));
        }
        Ok((memory, lease.slot))
    }

    fn combine_messages(
        self,
        service: &mut Service,
        [from, to]: [Packing; 2],
    ) -> Result<Done, Stop> {
        let (place, p) = (service.team.place(), service.team.size());
        let length = self.receive.of(0).size();
        let mut stages = service.spare.stages();
        stages.all_to_all(&service.team, length);
        let (mut memory, slot) = staged(service, &stages, length * p)?;
        // Message e is for process place + e, and in the end from process place - e.
        for message in 0..p {
            let range = message * length..(message + 1) * length;
            let (receiver, sender) = ((place + message) % p, (place + p - message) % p);
            memory.pack_now(range.clone(), &from.of(self.send.of(receiver)))?;
            memory.unpack_at_end(range, to.of(self.receive.of(sender)));
        }
        run_to_end(service, stages, slot, memory)
    }
}

/// As many elements of each process to the root, or back.
pub struct GatherScatter {
    /// The root.
    pub root: usize,
    /// Whether it is to the root.
    pub gathers: bool,
    /// At the root, the elements of all.
    pub whole: Option<Arrays>,
    /// This process's own, unless they are in their place at the root.
    pub part: Option<Array>,
    /// Bytes of each.
    pub length: usize,
}

impl GatherScatter {
    pub(super) fn touched(&self, rank: usize) -> Touched {
        if !self.gathers {
            return Touched::moved(self.part.into_iter().collect(), Vec::new());
        }
        let in_place = self.whole.filter(|_| self.part.is_none());
        let whole = self.whole.iter().flat_map(Arrays::all);
        let in_place = in_place.map(|whole| whole.of(rank));
        Touched::moved(whole.collect(), in_place.into_iter().collect())
    }

    pub(super) fn run(self, algorithm: Algorithm, service: &mut Service) -> Result<Done, Stop> {
        match algorithm {
            Algorithm::Shared { .. } => self.run_shared(service),
            _ => self.pass_on(service),
        }
    }

    /// In shared memory, from the program's buffers and to them where their bytes are packed there.
    fn run_shared(self, service: &mut Service) -> Result<Done, Stop> {
        let (root, length) = (self.root, self.length);
        let (mut memory, lease) = self.straight(service)?;
        let (pattern, own) = match self.gathers {
            true => (Pattern::Gathered(root, length), (0, root * length)),
            false => (Pattern::Dealt(root, length), (root * length, 0)),
        };
        if self.whole.is_some() && self.part.is_some() {
            memory.keep(own, length);
        }
        shared::run(service, pattern, 1, lease, memory)
    }

    /// The memory of such a call, and its lease. In place, the root has its own part.
    fn straight(&self, service: &mut Service) -> Result<(Bytes, usize), Stop> {
        let (root, length) = (self.root, self.length);
        let is_root = service.team.place() == root;
        let packed = |array: Array, service: &mut Service| service.packing(array);
        let part: Vec<Packing> = self
            .part
            .map(|part| packed(part, service))
            .into_iter()
            .collect();
        let whole: Vec<Packing> = self.whole.as_ref().map_or_else(Vec::new, |whole| {
            let first = packed(whole.first(), service);
            whole.all().map(|elements| first.of(elements)).collect()
        });
        let (from, to) = match (self.gathers, is_root) {
            (true, _) => (part, whole),
            (false, true) => (whole, part),
            (false, false) => (Vec::new(), part),
        };
        let input = Packing::joined(from.iter().copied());
        let is_staged = |packing: &&Packing| packing.bytes().is_none();
        let copies = if input.is_some() { 0 } else { from.len() };
        let staging = (copies + to.iter().filter(is_staged).count()) * length;
        let most = (service.team.size() + 1) * length;
        let need = Need::sometimes(0, most, staging > 0);
        let lease = service.lease(need)?;
        let mut memory = service.bytes(lease.memory, 0, staging);
        match input {
            Some(input) => memory.set_input(input),
            None => memory.stage_input(from)?,
        }
        for (index, to) in to.into_iter().enumerate() {
            let arrives = if self.gathers {
                index != root
            } else {
                !is_root
            };
            let is_in_place = !arrives && self.part.is_none();
            let unpacking = match is_in_place {
                true => Unpacking::Never,
                false => unpacking(arrives),
            };
            memory.add(to, unpacking);
        }
        Ok((memory, lease.slot))
    }

    /// Along a tree.
    fn pass_on(self, service: &mut Service) -> Result<Done, Stop> {
        let (place, p) = (service.team.place(), service.team.size());
        let (root, length) = (self.root, self.length);
        let mut stages = service.spare.stages();
        if self.gathers {
            stages.gather(&service.team, root, length);
        } else {
            stages.scatter(&service.team, root, length);
        }
        let (mut memory, slot) = staged(service, &stages, length * p)?;
        let range = |rank: usize| {
            let start = stages.as_slice()[0].view.messages[rank].result;
            start..start + length
        };
        if let Some(part) = self.part {
            let part = service.packing(part);
            if self.gathers {
                memory.pack_now(range(place), &part)?;
            } else {
                memory.unpack_at_end(range(place), part);
            }
        }
        if let Some(whole) = self.whole {
            let first = service.packing(whole.first());
            for rank in (0..p).filter(|&rank| rank != place || self.part.is_some()) {
                let elements = first.of(whole.of(rank));
                if self.gathers {
                    memory.unpack_at_end(range(rank), elements);
                } else {
                    memory.pack_now(range(rank), &elements)?;
                }
            }
        }
        run_to_end(service, stages, slot, memory)
    }
}

/// What a process has for itself does not arrive.
fn unpacking(arrives: bool) -> Unpacking {
    match arrives {
        true => Unpacking::Arriving,
        false => Unpacking::AtEnd,
    }
}

/// Memory on lease for a call of `stages` whose result, `length` bytes, is staged on all processes.
fn staged(service: &mut Service, stages: &Stages, length: usize) -> Result<(Bytes, usize), Stop> {
    let scratch = scratch_units(stages, service.pacing);
    let need = Need::always(scratch.saturating_add(length));
    let lease = service.lease(need)?;
    let mut memory = service.bytes(lease.memory, scratch, length);
    memory.add_staged(length);
    Ok((memory, lease.slot))
}
