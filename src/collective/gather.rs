//! MPI_Gather: along the tree of Algorithm 1, every process' elements through slots.
//!
//! MPI_Gatherv is left to the MPI library: its counts are known at the root only, and a process in the
//! middle of the tree would have to be told how much it passes on.

use std::ffi::c_int;

use super::{count, done, layout, product, size, source};
use crate::communicator::{Lists, Need, Service, State, Stop, Unit};
use crate::engine::scratch_units;
use crate::mpi::{Buffer, MPI_Datatype, Slots};
use crate::plan::Gather as Tree;
use crate::report::Work;
use crate::select::{Operation, Reason};

/// The arguments.
#[derive(Clone, Copy)]
pub struct Gather {
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

/// Tries an MPI_Gather.
pub fn gather(state: &State, call: Gather, work: &mut Work) -> Result<(), Stop> {
    state.intra()?;
    let root = state.root(call.root)?;
    let is_root = state.rank() == root;
    let in_place = is_root && call.send.is_in_place();
    let sent = || product(count(call.send_count)?, size(call.send_type)?);
    let received = || product(count(call.receive_count)?, size(call.receive_type)?);
    let length = if in_place { received()? } else { sent()? };
    if is_root && received()? != length {
        return Err(Stop::Native(Reason::Arguments));
    }
    let bytes = product(length, state.size())?;
    work.bytes = bytes as u64;
    state.blocks(Operation::Gather, bytes, length)?;
    let from = if in_place {
        None
    } else {
        Some(layout(call.send_type, call.send)?)
    };
    let to = if is_root {
        Some(layout(call.receive_type, call.receive)?)
    } else {
        None
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
        let plan = Tree::new(sequence, *rank, root);
        let p = sequence.processes();
        let units = scratch_units(&plan, std::iter::repeat_n(length, p), run.pacing);
        let need = Need {
            unit: Unit::Byte,
            always: units.saturating_add(bytes),
            possible: 0,
            happens: false,
        };
        let scratch = pool.reserve(private, need)?;
        plan.lay_out(pieces, offsets);
        let slots = Slots {
            offsets,
            length,
            scratch,
            staging: scratch.offset(units as isize),
            communicator: private,
        };
        if let Some(from) = from {
            slots.put(*rank, &from, 0)?;
        }
        let slots = run.execute(&plan, private, slots)?;
        if let Some(to) = to {
            (0..p)
                .filter(|&process| process != *rank || !in_place)
                .try_for_each(|process| slots.take(process, &to, process))?;
        }
        done(work, &plan);
        Ok(())
    })
}
