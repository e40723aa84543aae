//! MPI_Reduce_scatter: the n-block all-broadcast reversed (Observation 1.4), each process the root
//! of its message, straight from the input; or, with one block, Algorithm 1 of the paper on
//! non-pipelined algorithms.

use super::{
    combined_input, combined_layout, count, done, layout, ordered_operator, product, rounds, size,
};
use crate::communicator::{Lists, Need, Service, State, Stop, Unit};
use crate::engine::scratch_units;
use crate::mpi::{Buffer, Counts, Elements, Layout, MPI_Datatype, MPI_Op, Overlay};
use crate::plan::{AllBroadcast, Plan, Reversed, Segments};
use crate::report::Work;
use crate::schedule::Table;
use crate::select::{Operation, Reason};

/// The arguments.
#[derive(Clone, Copy)]
pub struct ReduceScatter {
    /// sendbuf
    pub send: Buffer,
    /// recvbuf
    pub receive: Buffer,
    /// recvcounts
    pub counts: Counts,
    /// datatype
    pub datatype: MPI_Datatype,
    /// op
    pub op: MPI_Op,
}

/// Tries an MPI_Reduce_scatter.
pub fn reduce_scatter(state: &State, call: ReduceScatter, work: &mut Work) -> Result<(), Stop> {
    scatter(state, Operation::ReduceScatter, &call, work)
}

/// Combines every process' elements on the process that they are for.
pub(super) fn scatter(
    state: &State,
    operation: Operation,
    call: &ReduceScatter,
    work: &mut Work,
) -> Result<(), Stop> {
    state.intra()?;
    let (mut elements, mut largest) = (0usize, 0);
    for rank in 0..state.size() {
        let length = count(call.counts.at(rank))?;
        elements = elements
            .checked_add(length)
            .ok_or(Stop::Native(Reason::Arguments))?;
        largest = largest.max(length);
    }
    let bytes = product(elements, size(call.datatype)?)?;
    work.bytes = bytes as u64;
    let (operator, commutative) = ordered_operator(state, call.op)?;
    let largest_bytes = product(largest, size(call.datatype)?)?;
    let blocks = state.blocks(operation, bytes, largest_bytes)?.min(largest);
    // Several blocks meet in another order.
    let blocks = if commutative { blocks } else { 1 };
    let receives = count(call.counts.at(state.rank()))? > 0;
    let (input, in_place) = if receives || call.send.is_in_place() {
        combined_input(call.send, call.receive, Overlay::Scattered)?
    } else {
        // A receive buffer without elements overlaps nothing.
        (call.send, false)
    };
    let datatype = combined_layout(call.datatype, input)?;
    let result = if receives {
        layout(call.datatype, call.receive)?;
        call.receive
    } else {
        input
    };
    let data = [(input, datatype), (result, datatype)];
    state.serve(&data, |service| {
        service
            .judgements
            .check(operator, &datatype, &service.private)?;
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
            layouts,
            filled,
            packed,
            ..
        } = lists;
        layouts.clear();
        filled.clear();
        let mut start = 0;
        for rank in 0..skips.processes() {
            let length = count(call.counts.at(rank))?;
            layouts.push(Layout { start, length });
            start += length;
            filled.extend((length > 0).then_some(rank));
        }
        let (one, several);
        let plan: &dyn Plan = if blocks == 1 {
            let segments = Segments::new(largest, state.segment() / size(call.datatype)?.max(1));
            one = Reversed(rounds(sequence, *rank, segments, commutative));
            &one
        } else {
            let table = table.get_or_insert_with(|| Table::new(skips));
            several = Reversed(AllBroadcast::new(skips, table, filled, *rank, blocks));
            &several
        };
        let lengths = layouts.iter().map(|layout| layout.length);
        let units = scratch_units(plan, lengths, run.pacing);
        let unit = Unit::Element(datatype);
        let need = Need {
            unit,
            always: units,
            possible: largest,
            happens: in_place,
        };
        let scratch = pool.reserve(private, need)?;
        // In place, the result belongs on top of input that is still to be sent, and programs rely
        // on the rest of recvbuf being left alone: the result is made behind the engine's scratch.
        let aside = datatype.element_in(scratch, units);
        let memory = Elements {
            messages: layouts,
            datatype,
            operator,
            input,
            result: if in_place { aside } else { call.receive },
            gathered: false,
            in_place: false,
            scratch,
            packed,
            communicator: private,
        };
        run.execute(plan, private, memory)?
            .copy_result(*rank, call.receive)?;
        done(work, plan);
        Ok(())
    })
}
