//! MPI_Allgather and MPI_Allgatherv on inter-communicators: the exchange of the two groups (Kang,
//! Träff et al., Algorithms 1 and 2), then an allgather inside each.
//!
//! Both run on one private communicator of both groups. MPI_Allgather's sizes are known to all from the
//! arguments. For MPI_Allgatherv each group gathers its own first: one word a process, from which everybody
//! has the sum and the prefix that the paper gets by an Allreduce and an Exscan.
//!
//! Where blocks are longer than a segment, MPI_Allgather's are divided evenly, too: where neither group
//! size divides the other, Algorithm 1's segments differ by up to a factor of two, and the longest take
//! the longest; where one does, both divisions are the same.

use std::ops::Range;

use super::allgatherv::Allgatherv;
use super::{count, layout, product, size, source};
use crate::communicator::{Lists, Need, Remote, Service, State, Stop, Unit};
use crate::engine::scratch_units;
use crate::mpi::{Buffer, Datatype, Direct, Peers, Private, Source, Span, Words};
use crate::plan::{Division, Doubling, Exchange, Plan, Segments, Stream, numbered_through};
use crate::report::Work;
use crate::schedule::Sequence;
use crate::select::{Call, Operation, Reason};

/// A call, as this process sees it.
struct Across<'a> {
    operation: Operation,
    arguments: &'a Allgatherv,
    groups: Groups,
    /// Bytes that this process sends.
    own: usize,
    /// Bytes of one element that is received.
    unit: usize,
    /// What is sent, if that is anything.
    send: Option<(Buffer, Datatype)>,
    /// What is received, from the first process on that sends anything.
    receive: Option<(Buffer, Datatype)>,
}

/// The two groups, numbered through: the one that leads, and the other.
struct Groups {
    sizes: [usize; 2],
    /// This process' rank in its group.
    rank: usize,
    /// Its group, and the other.
    own: usize,
    other: usize,
}

impl Groups {
    fn new(state: &State, remote: Remote) -> Groups {
        let own = usize::from(!remote.leads);
        let mut sizes = [remote.size; 2];
        sizes[own] = state.size();
        Groups {
            sizes,
            rank: state.rank(),
            own,
            other: 1 - own,
        }
    }

    fn all(&self) -> usize {
        self.sizes[0] + self.sizes[1]
    }

    /// The processes of a group, numbered through.
    fn of(&self, group: usize) -> Range<usize> {
        numbered_through(self.sizes, group)
    }
}

/// Gathers the elements of each group on all processes of the other.
pub(super) fn gather_across(
    state: &State,
    remote: Remote,
    operation: Operation,
    arguments: &Allgatherv,
    work: &mut Work,
) -> Result<(), Stop> {
    let call = Across::new(state, remote, operation, arguments)?;
    if operation == Operation::Allgather {
        let groups = [product(state.size(), call.own)?, call.received()?];
        let bytes = groups[0].max(groups[1]);
        work.bytes = bytes as u64;
        let largest = call.own.max(call.from(0)?);
        state.choose(&call.described(bytes, largest, call.groups.all()))?;
    } else {
        // What is known to all before the sizes are exchanged: whether no size is ours.
        state.choose(&call.described(usize::MAX, 0, call.groups.all()))?;
    }
    let some = call.receive.or(call.send);
    let data = some.map(|some| [call.receive.unwrap_or(some), call.send.unwrap_or(some)]);
    let data = data.as_ref().map_or(&[][..], |data| &data[..]);
    state.serve(data, |service| {
        call.divide(state, service)?;
        let streams = &service.lists.streams;
        let bytes = streams[0].length().max(streams[1].length());
        let largest = streams[0].longest_block().max(streams[1].longest_block());
        work.bytes = bytes as u64;
        state.choose(&call.described(bytes, largest, service.nodes))?;
        (work.rounds, work.blocks) = call.run(state, service)?;
        Ok(())
    })
}

impl<'a> Across<'a> {
    fn new(
        state: &State,
        remote: Remote,
        operation: Operation,
        arguments: &'a Allgatherv,
    ) -> Result<Across<'a>, Stop> {
        if arguments.send.is_in_place() {
            return Err(Stop::Native(Reason::Arguments));
        }
        let mut call = Across {
            operation,
            arguments,
            groups: Groups::new(state, remote),
            own: product(count(arguments.send_count)?, size(arguments.send_type)?)?,
            unit: size(arguments.receive_type)?,
            send: None,
            receive: None,
        };
        // Where nothing is sent or received, the address may be anything.
        if call.own > 0 {
            call.send = Some((arguments.send, layout(arguments.send_type, arguments.send)?));
        }
        if call.received()? > 0 {
            call.receive = Some(arguments.received(remote.size)?);
        }
        Ok(call)
    }

    /// Bytes from process `rank` of the other group.
    fn from(&self, rank: usize) -> Result<usize, Stop> {
        product(count(self.arguments.counts.at(rank))?, self.unit)
    }

    /// Bytes from all of them.
    fn received(&self) -> Result<usize, Stop> {
        let mut others = 0..self.groups.sizes[self.groups.other];
        others.try_fold(0usize, |sum, rank| {
            let sum = sum.checked_add(self.from(rank)?);
            sum.ok_or(Stop::Native(Reason::Arguments))
        })
    }

    /// Where the elements from process `rank` of the other group belong.
    fn element(&self, datatype: &Datatype, rank: usize) -> Buffer {
        let displacement = self.arguments.displacements.at(rank) as isize;
        datatype.element(self.arguments.receive, displacement)
    }

    fn described(&self, bytes: usize, largest: usize, nodes: usize) -> Call {
        let sizes = self.groups.sizes;
        Call {
            operation: self.operation,
            bytes: bytes as u64,
            largest: largest as u64,
            processes: self.groups.all(),
            smaller_group: sizes[0].min(sizes[1]),
            nodes,
        }
    }

    /// Sets the streams of both groups. Collective for MPI_Allgatherv.
    fn divide(&self, state: &State, service: &mut Service) -> Result<(), Stop> {
        let sizes = self.groups.sizes;
        let streams = &mut service.lists.streams;
        if self.operation == Operation::Allgather {
            let mut each = [self.from(0)?; 2];
            each[self.groups.own] = self.own;
            let division = Division::of_equal_blocks(each[0].max(each[1]), state.segment());
            for group in [0, 1] {
                let lengths = std::iter::repeat_n(each[group], sizes[group]);
                streams[group].set(lengths, sizes[1 - group], division);
            }
            return Ok(());
        }
        self.gather_own_sizes(state, service)?;
        let Lists { streams, words, .. } = &mut service.lists;
        let (own, other) = (self.groups.own, self.groups.other);
        let lengths = words[..sizes[own]].iter().map(|&word| word as usize);
        streams[own].set(lengths, sizes[other], Division::Evenly);
        // `received` has found all of them to be counts.
        let lengths = (0..sizes[other]).map(|rank| self.from(rank).unwrap_or(0));
        streams[other].set(lengths, sizes[own], Division::Evenly);
        Ok(())
    }

    /// Fills the list of words with the bytes that each process of the own group sends.
    fn gather_own_sizes(&self, state: &State, service: &mut Service) -> Result<(), Stop> {
        let group = self.groups.of(self.groups.own);
        let (sequence, run) = (&service.sequence, &mut service.run);
        let plan = Doubling::new(
            sequence,
            self.groups.rank,
            Segments::new(Words::LENGTH, state.segment()),
        );
        let lengths = std::iter::repeat_n(Words::LENGTH, group.len());
        let scratch = scratch_units(&plan, lengths, run.pacing);
        let words = &mut service.lists.words;
        words.clear();
        words.resize(group.len() + scratch.div_ceil(Words::LENGTH), 0);
        words[self.groups.rank] = self.own as u64;
        let memory = Words::new(words, group.len());
        run.execute_between(Peers::From(group.start), &plan, &service.private, memory)?;
        Ok(())
    }

    /// Runs the exchange and the allgather; returns their rounds, and the most blocks of a message.
    fn run(&self, state: &State, service: &mut Service) -> Result<(u64, u64), Stop> {
        service.lists.set_parts(state.segment());
        let memory = self.reserve(state, service)?;
        let Service {
            private,
            sequence,
            run,
            lists,
            ..
        } = service;
        let Lists {
            spans,
            streams,
            parts,
            ..
        } = lists;
        let (block, stream) = (self.block(streams), &streams[self.groups.other]);
        memory.pack(block.len(), private)?;
        let own = self.groups.of(self.groups.own);
        let exchange = Exchange::new(parts, self.groups.sizes, own.start + self.groups.rank);
        spans.clear();
        spans.extend(parts.iter().enumerate().map(|(message, part)| Span {
            start: if usize::from(parts.is_of_second(message)) == self.groups.own {
                let offset = part.start.wrapping_sub(block.start);
                memory.outgoing.offset(offset as isize)
            } else {
                memory.incoming.offset(part.start as isize)
            },
            length: part.length,
        }));
        run.execute(&exchange, private, memory.of(spans))?;
        let gather = gather(sequence, self.groups.rank, stream, state);
        spans.clear();
        spans.extend(segments(stream).map(|segment| Span {
            start: memory.incoming.offset(segment.start as isize),
            length: segment.len(),
        }));
        run.execute_between(Peers::From(own.start), &gather, private, memory.of(spans))?;
        self.unpack(stream, &memory, private)?;
        let rounds = exchange.rounds() + gather.rounds();
        let blocks = exchange.blocks().max(gather.blocks());
        Ok((rounds as u64, blocks as u64))
    }

    /// Where the bytes that this process sends are in its group's stream.
    fn block(&self, streams: &[Stream; 2]) -> Range<usize> {
        streams[self.groups.own].block(self.groups.rank)
    }

    /// The memory of the call. May be collective.
    fn reserve(&self, state: &State, service: &mut Service) -> Result<Ends, Stop> {
        let (private, run, lists) = (&service.private, &service.run, &mut service.lists);
        let packed = &mut lists.packed;
        let mut elements = |(elements, datatype)| source(elements, datatype, private, packed);
        let send = self.send.map(&mut elements);
        let receive = self.receive.map(&mut elements);
        let stream = &lists.streams[self.groups.other];
        let staged_send = send.filter(|send| !send.contiguous);
        let in_order = |receive: &Source| receive.contiguous && self.is_in_order(stream, receive);
        let staged_receive = receive.filter(|receive| !in_order(receive));
        let exchange = Exchange::new(&lists.parts, self.groups.sizes, 0);
        let lengths = lists.parts.iter().map(|part| part.length);
        let mut ring = scratch_units(&exchange, lengths, run.pacing);
        let mut possible = 0;
        for group in [0, 1] {
            // What any process of this group needs, in either group.
            let stream = &lists.streams[1 - group];
            let sequence = Sequence::of_rule(state.skips(), self.groups.sizes[group]);
            let gather = gather(&sequence, 0, stream, state);
            let lengths = segments(stream).map(|segment| segment.len());
            ring = ring.max(scratch_units(&gather, lengths, run.pacing));
            let longest = lists.streams[group].longest_block();
            possible = possible.max(stream.length().saturating_add(longest));
        }
        let need = Need {
            unit: Unit::Byte,
            always: ring,
            possible,
            happens: staged_send.is_some() || staged_receive.is_some(),
        };
        let scratch = service.pool.reserve(private, need)?;
        let staging = scratch.offset(ring as isize);
        let behind = staging.offset(self.own as isize);
        let place = |elements: Option<Source>, staged: Option<Source>, staging| match elements {
            Some(elements) if staged.is_none() => elements.elements,
            _ => staging,
        };
        Ok(Ends {
            outgoing: place(send, staged_send, staging),
            incoming: place(receive, staged_receive, behind),
            scratch,
            staged_send,
            staged_receive,
        })
    }

    /// Whether the elements of all processes of the other group belong next to each other, in order.
    fn is_in_order(&self, stream: &Stream, receive: &Source) -> bool {
        let mut others = (0..stream.senders()).map(|rank| (rank, stream.block(rank)));
        others.all(|(rank, block)| {
            let place = receive.elements.offset(block.start as isize);
            block.is_empty() || place == self.element(&receive.datatype, rank)
        })
    }

    /// Unpacks what was received, unless it is where it belongs.
    fn unpack(&self, stream: &Stream, memory: &Ends, private: &Private) -> Result<(), Stop> {
        let Some(receive) = memory.staged_receive else {
            return Ok(());
        };
        for rank in 0..stream.senders() {
            let block = stream.block(rank);
            let elements = self.element(&receive.datatype, rank);
            let from = memory.incoming.offset(block.start as isize);
            let elements = Source {
                elements,
                ..receive
            };
            elements.unpack(block.len() / self.unit.max(1), from, private)?;
        }
        Ok(())
    }
}

/// Where the packed bytes of a call are: in the program's buffers, or staged.
struct Ends {
    /// The own block.
    outgoing: Buffer,
    /// The other group's stream.
    incoming: Buffer,
    /// For the engine.
    scratch: Buffer,
    /// The elements, where they are not the packed bytes.
    staged_send: Option<Source>,
    staged_receive: Option<Source>,
}

impl Ends {
    /// Packs the own block of `length` bytes, unless the elements are as they are packed.
    fn pack(&self, length: usize, private: &Private) -> Result<(), Stop> {
        if let Some(send) = &self.staged_send {
            let count = length / send.datatype.size().max(1);
            send.pack(0, count, self.outgoing, private)?;
        }
        Ok(())
    }

    fn of<'a>(&self, messages: &'a [Span]) -> Direct<'a> {
        Direct {
            messages,
            scratch: self.scratch,
        }
    }
}

/// The allgather of a stream's segments, for process `rank` of those that receive it.
fn gather<'a>(sequence: &'a Sequence, rank: usize, stream: &Stream, state: &State) -> Doubling<'a> {
    let steps = Segments::new(stream.longest_segment(), state.segment());
    Doubling::new(sequence, rank, steps)
}

fn segments(stream: &Stream) -> impl Iterator<Item = Range<usize>> {
    (0..stream.receivers()).map(|receiver| stream.segment(receiver))
}
