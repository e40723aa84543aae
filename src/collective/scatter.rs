//! MPI_Scatter: along the tree of Algorithm 1, every process' elements through slots.
//!
//! MPI_Scatterv is left to the MPI library, as [MPI_Gatherv](super::gather) is.

use std::ffi::c_int;

use super::{count, done, layout, product, size, source};
use crate::communicator::{Lists, Need, Service, State, Stop, Unit};
use crate::engine::scratch_units;
use crate::mpi::{Buffer, MPI_Datatype, Slots};
use crate::plan::{Gather, Scatter as Tree};
use crate::report::Work;
use crate::select::{Operation, Reason};

/// The arguments.
#[derive(Clone, Copy)]
pub struct Scatter {
    /// sendbuf
    pub send: Buffer,
    /// sendcount
    pub send_count: i64,
    /// sendtype
    pub send_type: MPI_Datatype,
    /// recvbuf
    pub receive: Buffer,
    /// recvcount
    pub receive_count: i64,
    /// recvtype
    pub receive_type: MPI_Datatype,
    /// root
    pub root: c_int,
}

/// Tries an MPI_Scatter.
pub fn scatter(state: &State, call: Scatter, work: &mut Work) -> Result<(), Stop> {
    state.intra()?;
    let root = state.root(call.root)?;
    let is_root = state.rank() == root;
    let in_place = is_root && call.receive.is_in_place();
    let sent = || product(count(call.send_count)?, size(call.send_type)?);
    let received = || product(count(call.receive_count)?, size(call.receive_type)?);
    let length = if in_place { sent()? } else { received()? };
    if is_root && sent()? != length {
        return Err(Stop::Native(Reason::Arguments));
    }
    let bytes = product(length, state.size())?;
    work.bytes = bytes as u64;
    state.blocks(Operation::Scatter, bytes, length)?;
    let from = if is_root {
        Some(layout(call.send_type, call.send)?)
    } else {
        None
    };
    let to = if in_place {
        None
    } else {
        Some(layout(call.receive_type, call.receive)?)
    };
    state.serve(|service| {
        from.iter()
            .chain(&to)
            .try_for_each(|datatype| service.check(datatype))?;
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
            offsets,
            pieces,
            packed,
            ..
        } = lists;
        let from = from.map(|datatype| source(call.send, datatype, private, packed));
        let to = to.map(|datatype| source(call.receive, datatype, private, packed));
        let tree = Gather::new(sequence, *rank, root);
        let plan = Tree(tree);
        let p = sequence.processes();
        let units = scratch_units(&plan, std::iter::repeat_n(length, p), run.pacing);
        let need = Need {
            unit: Unit::Byte,
            always: units.saturating_add(bytes),
            possible: 0,
            happens: false,
        };
        let scratch = pool.reserve(private, need)?;
        tree.lay_out(pieces, offsets);
        let slots = Slots {
            offsets,
            length,
            scratch,
            staging: scratch.offset(units as isize),
            communicator: private,
        };
        if let Some(from) = from {
            (0..p)
                .filter(|&process| process != *rank || !in_place)
                .try_for_each(|process| slots.put(process, &from, process))?;
        }
        let slots = run.execute(&plan, private, slots)?;
        if let Some(to) = to {
            slots.take(*rank, &to, 0)?;
        }
        done(work, &plan);
        Ok(())
    })
}
