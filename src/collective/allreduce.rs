//! MPI_Allreduce: small and of integers, in q rounds of the whole operand (census); else a
//! reduce-scatter and an allgather of one block a process (Algorithm 2), piece by piece where scratch
//! is short.
//!
//! All processes get the same result to the last bit: by Algorithm 2 because each block is computed
//! on one process only; by the census because it is used only where no order makes a difference
//! ([`Operator::is_exact_on`]).

use super::{
    combined_input, combined_layout, count, done, layout, ordered_operator, product, rounds, size,
};
use crate::communicator::{Lists, Need, Service, State, Stop, Unit};
use crate::engine::scratch_units;
use crate::mpi::{Buffer, Datatype, Elements, Layout, MPI_Datatype, MPI_Op, Operator, Overlay};
use crate::plan::{self, Census, Segments, block_range};
use crate::report::Work;
use crate::select::{MESSAGE_MAX, Operation, Reason};

/// The arguments.
#[derive(Clone, Copy)]
pub struct Allreduce {
    /// sendbuf
    pub send: Buffer,
    /// recvbuf
    pub receive: Buffer,
    /// count
    pub count: i64,
    /// datatype
    pub datatype: MPI_Datatype,
    /// op
    pub op: MPI_Op,
}

/// A call that is ours, if its datatype and operator are usual enough.
struct Combination {
    input: Buffer,
    result: Buffer,
    in_place: bool,
    count: usize,
    datatype: Datatype,
    operator: Operator,
    commutative: bool,
}

/// Tries an MPI_Allreduce.
pub fn allreduce(state: &State, call: Allreduce, work: &mut Work) -> Result<(), Stop> {
    state.intra()?;
    let count = count(call.count)?;
    let bytes = product(count, size(call.datatype)?)?;
    work.bytes = bytes as u64;
    let (operator, commutative) = ordered_operator(state, call.op)?;
    state.blocks(Operation::Allreduce, bytes, bytes)?;
    let overlay = if count == 1 {
        Overlay::AllreducedOne
    } else {
        Overlay::AllreducedSeveral
    };
    let (input, in_place) = combined_input(call.send, call.receive, overlay)?;
    let datatype = combined_layout(call.datatype, input)?;
    layout(call.datatype, call.receive)?;
    let combination = Combination {
        input,
        result: call.receive,
        in_place,
        count,
        datatype,
        operator,
        commutative,
    };
    let is_small = bytes <= state.census_max() && operator.is_exact_on(&datatype);
    let data = [(input, datatype), (call.receive, datatype)];
    state.serve(&data, |service| {
        service
            .judgements
            .check(operator, &datatype, &service.private)?;
        if is_small {
            whole(service, &combination, work)
        } else {
            in_parts(service, &combination, state.segment(), work)
        }
    })
}

/// The operand as a whole in each round.
fn whole(service: &mut Service, call: &Combination, work: &mut Work) -> Result<(), Stop> {
    let Service {
        rank,
        private,
        skips,
        pool,
        run,
        lists,
        ..
    } = service;
    let plan = Census::new(skips, *rank);
    let units = scratch_units(&plan, std::iter::once(call.count), run.pacing);
    let need = Need {
        unit: Unit::Element(call.datatype),
        always: units,
        possible: call.count,
        happens: call.in_place,
    };
    let scratch = pool.reserve(private, need)?;
    let mut memory = Elements {
        messages: &[Layout {
            start: 0,
            length: call.count,
        }],
        datatype: call.datatype,
        operator: call.operator,
        input: call.input,
        result: call.result,
        gathered: true,
        in_place: false,
        scratch,
        packed: &mut lists.packed,
        communicator: private,
    };
    if call.in_place {
        // What others contributed is combined in the result, where the input is.
        memory.keep_input(call.datatype.element_in(scratch, units))?;
    }
    run.execute(&plan, private, memory)?;
    done(work, &plan);
    Ok(())
}

/// One message a process, in steps of about `segment` bytes.
fn in_parts(
    service: &mut Service,
    call: &Combination,
    segment: usize,
    work: &mut Work,
) -> Result<(), Stop> {
    let Service {
        rank,
        private,
        sequence,
        pool,
        run,
        lists,
        ..
    } = service;
    let Lists {
        layouts, packed, ..
    } = lists;
    let p = sequence.processes();
    let segment = segment / call.datatype.size().max(1);
    let plan_for = |largest: usize| {
        let segments = Segments::new(largest.div_ceil(p), segment);
        plan::Allreduce::new(rounds(sequence, *rank, segments, call.commutative))
    };
    let unit = Unit::Element(call.datatype);
    let units_for = |count: usize| {
        let lengths = (0..p).map(|part| block_range(count, p, part).len());
        scratch_units(&plan_for(count), lengths, run.pacing)
    };
    let fits = |pieces: usize| {
        let largest = call.count.div_ceil(pieces);
        let is_short = (largest * call.datatype.size()) as u64 <= MESSAGE_MAX;
        is_short && pool.allows(&unit, units_for(largest))
    };
    let mut pieces = 1;
    while !fits(pieces) {
        if pieces >= call.count {
            return Err(Stop::Native(Reason::Scratch));
        }
        pieces *= 2;
    }
    // The same plan for all pieces: one for a smaller piece might put more blocks into a step, and
    // need more scratch.
    let largest = call.count.div_ceil(pieces);
    let plan = plan_for(largest);
    let need = Need {
        unit,
        always: units_for(largest),
        possible: 0,
        happens: false,
    };
    let scratch = pool.reserve(private, need)?;
    for piece in 0..pieces {
        let piece = block_range(call.count, pieces, piece);
        let first = piece.start as isize;
        layouts.clear();
        layouts.extend((0..p).map(|part| {
            let part = block_range(piece.len(), p, part);
            Layout {
                start: part.start,
                length: part.len(),
            }
        }));
        let memory = Elements {
            messages: layouts,
            datatype: call.datatype,
            operator: call.operator,
            input: call.datatype.element(call.input, first),
            result: call.datatype.element(call.result, first),
            gathered: true,
            in_place: call.in_place,
            scratch,
            packed,
            communicator: private,
        };
        run.execute(&plan, private, memory)?;
    }
    done(work, &plan);
    work.rounds *= pieces as u64;
    Ok(())
}
