//! MPI_Reduce: the n-block broadcast reversed (Observation 1.3), straight from the input.

use std::ffi::c_int;

use super::{combined_input, combined_layout, count, done, layout, operator, product, size};
use crate::communicator::{Lists, Need, Service, State, Stop, Unit};
use crate::engine::scratch_units;
use crate::mpi::{Buffer, Elements, Layout, MPI_Datatype, MPI_Op, Overlay};
use crate::plan::{Broadcast, Reversed};
use crate::report::Work;
use crate::select::{Operation, Reason};

/// The arguments.
#[derive(Clone, Copy)]
pub struct Reduce {
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
    /// root
    pub root: c_int,
}

/// Tries an MPI_Reduce.
pub fn reduce(state: &State, call: Reduce, work: &mut Work) -> Result<(), Stop> {
    state.intra()?;
    let root = state.root(call.root)?;
    let count = count(call.count)?;
    let bytes = product(count, size(call.datatype)?)?;
    work.bytes = bytes as u64;
    let operator = operator(call.op)?;
    let blocks = state.blocks(Operation::Reduce, bytes, bytes)?.min(count);
    let (input, in_place) = input(&call, state.rank() == root)?;
    let datatype = combined_layout(call.datatype, input)?;
    let result = if state.rank() == root {
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
            roots,
            pool,
            run,
            lists,
            ..
        } = service;
        let schedules = roots.schedules(skips, *rank, root);
        let plan = Reversed(Broadcast::new(skips, schedules, *rank, blocks));
        let units = scratch_units(&plan, std::iter::once(count), run.pacing);
        let unit = Unit::Element(datatype);
        let need = Need {
            unit,
            always: units,
            possible: 0,
            happens: false,
        };
        let scratch = pool.reserve(private, need)?;
        let Lists { packed, .. } = lists;
        let memory = Elements {
            messages: &[Layout {
                start: 0,
                length: count,
            }],
            datatype,
            operator,
            input,
            result: call.receive,
            gathered: false,
            in_place,
            scratch,
            packed,
            communicator: private,
        };
        run.execute(&plan, private, memory)?;
        done(work, &plan);
        Ok(())
    })
}

/// Where the input is, and whether that is where the result goes. MPI_IN_PLACE is for the root only;
/// elsewhere recvbuf is not looked at.
fn input(call: &Reduce, is_root: bool) -> Result<(Buffer, bool), Stop> {
    if is_root {
        combined_input(call.send, call.receive, Overlay::Reduced)
    } else if call.send.is_in_place() {
        Err(Stop::Native(Reason::Arguments))
    } else {
        Ok((call.send, false))
    }
}
