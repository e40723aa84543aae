//! MPI_Allgatherv: the n-block all-broadcast (Algorithm 7), each process the root of its message; or,
//! with one block, an allgather in as few rounds, of consecutive blocks.

use super::intergroup::gather_across;
use super::{count, done, layout, layout_from, moved_overlay, product, size};
use crate::communicator::{Lists, Need, Service, State, Stop, Unit};
use crate::engine::scratch_units;
use crate::mpi::{Buffer, Counts, Datatype, MPI_Datatype, Message, Own, Packed, Source};
use crate::plan::{AllBroadcast, Doubling, Plan, Segments};
use crate::report::Work;
use crate::schedule::Table;
use crate::select::{Operation, Reason};

/// The arguments.
#[derive(Clone, Copy)]
pub struct Allgatherv {
    /// sendbuf
    pub send: Buffer,
    /// sendcount
    pub send_count: i64,
    /// sendtype
    pub send_type: MPI_Datatype,
    /// recvbuf
    pub receive: Buffer,
    /// recvcounts
    pub counts: Counts,
    /// displs
    pub displacements: Counts,
    /// recvtype
    pub receive_type: MPI_Datatype,
}

impl Allgatherv {
    /// The first element of the blocks of `processes` processes that has data, and its layout: with
    /// displacements, it need not be at the buffer.
    pub(super) fn received(&self, processes: usize) -> Result<(Buffer, Datatype), Stop> {
        let first = (0..processes).find(|&rank| self.counts.at(rank) > 0);
        let first = first.map_or(0, |rank| self.displacements.at(rank) as isize);
        let datatype = layout_from(self.receive_type, self.receive, first)?;
        Ok((datatype.element(self.receive, first), datatype))
    }
}

/// Tries an MPI_Allgatherv.
pub fn allgatherv(state: &State, call: Allgatherv, work: &mut Work) -> Result<(), Stop> {
    gather(state, Operation::Allgatherv, &call, work)
}

/// Gathers every process' elements on all processes.
pub(super) fn gather(
    state: &State,
    operation: Operation,
    call: &Allgatherv,
    work: &mut Work,
) -> Result<(), Stop> {
    if let Some(remote) = state.remote()? {
        return gather_across(state, remote, operation, call, work);
    }
    let unit = size(call.receive_type)?;
    let (mut bytes, mut largest) = (0usize, 0);
    for rank in 0..state.size() {
        let length = product(count(call.counts.at(rank))?, unit)?;
        bytes = bytes
            .checked_add(length)
            .ok_or(Stop::Native(Reason::Arguments))?;
        largest = largest.max(length);
    }
    work.bytes = bytes as u64;
    let blocks = state.blocks(operation, bytes, largest)?.min(largest);
    let received = call.received(state.size())?;
    let receive_type = received.1;
    let own_length = product(count(call.counts.at(state.rank()))?, unit)?;
    let source = source(call, own_length)?;
    let home = call.displacements.at(state.rank()) as isize;
    let home = (receive_type.element(call.receive, home), receive_type);
    let source = match source {
        Some(source) if moved_overlay(source, home)? => None,
        source => source,
    };
    let data = [received, source.unwrap_or(received)];
    state.serve(&data, |service| {
        let Service {
            rank,
            private,
            skips,
            table,
            sequence,
            pool,
            run,
            lists,
            ..
        } = service;
        let Lists {
            messages,
            filled,
            packed,
            ..
        } = lists;
        let staged = !receive_type.is_contiguous(private, packed);
        let source = source.map(|(elements, datatype)| Source {
            elements,
            datatype,
            // Of the receive type it is known.
            contiguous: if datatype == receive_type {
                !staged
            } else {
                datatype.is_contiguous(private, packed)
            },
        });
        messages.clear();
        filled.clear();
        let mut offset = 0;
        for rank in 0..skips.processes() {
            let length = count(call.counts.at(rank))? * unit;
            let displacement = call.displacements.at(rank) as isize;
            let elements = receive_type.element(call.receive, displacement);
            messages.push(Message {
                length,
                elements,
                staged: staged.then_some(offset),
            });
            offset += length;
            filled.extend((length > 0).then_some(rank));
        }
        let (one, several);
        let plan: &dyn Plan = if blocks == 1 {
            let segments = Segments::new(largest, state.segment());
            one = Doubling::new(sequence, *rank, segments);
            &one
        } else {
            let table = table.get_or_insert_with(|| Table::new(skips));
            several = AllBroadcast::new(skips, table, filled, *rank, blocks);
            &several
        };
        let lengths = messages.iter().map(|message| message.length);
        let ring = scratch_units(plan, lengths, run.pacing);
        // What cannot be packed is larger than any bound on scratch, so this is agreed on.
        let packable = |source: &Source| source.contiguous || source.datatype.is_packable();
        let need = Need {
            unit: Unit::Byte,
            always: ring,
            possible: bytes,
            happens: staged || !source.as_ref().is_none_or(packable),
        };
        let scratch = pool.reserve(private, need)?;
        let home = messages[*rank].elements;
        let memory = Packed {
            messages,
            datatype: receive_type,
            own: Some(own(*rank, source, (home, receive_type, staged))),
            blocks: plan.blocks(),
            scratch,
            staging: ring,
            communicator: private,
        };
        run.execute(plan, private, memory)?.finish()?;
        done(work, plan);
        Ok(())
    })
}

/// Where this process' elements come from: none with MPI_IN_PLACE, nor where there are none, whose
/// address may then be anything. What does not match the bytes that the others expect is the MPI
/// library's to judge.
fn source(call: &Allgatherv, expected: usize) -> Result<Option<(Buffer, Datatype)>, Stop> {
    if call.send.is_in_place() {
        return Ok(None);
    }
    if product(count(call.send_count)?, size(call.send_type)?)? != expected {
        return Err(Stop::Native(Reason::Arguments));
    }
    if expected == 0 {
        return Ok(None);
    }
    Ok(Some((call.send, layout(call.send_type, call.send)?)))
}

/// This process' message: packed from sendbuf, or from its place in recvbuf unless it is contiguous
/// there.
fn own(
    message: usize,
    source: Option<Source>,
    (home, receive_type, staged): (Buffer, Datatype, bool),
) -> Own {
    let unpacked_at_end = source.is_some() && staged;
    let in_place = staged.then_some(Source {
        elements: home,
        datatype: receive_type,
        contiguous: false,
    });
    Own {
        message,
        source: source.or(in_place),
        packed: 0,
        unpacked_at_end,
    }
}
