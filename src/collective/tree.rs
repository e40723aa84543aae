//! What MPI_Gather and MPI_Scatter have in common: along the tree of Algorithm 1, every process'
//! elements through slots.
//!
//! The forms with counts are left to the MPI library: counts are known at the root only, and a process
//! in the middle of the tree would have to be told how much it passes on.

use std::ffi::c_int;

use super::{count, done, layout, moved_overlay, product, size, source};
use crate::communicator::{Lists, Need, Service, State, Stop, Unit};
use crate::engine::scratch_units;
use crate::mpi::{Buffer, MPI_Datatype, Slots};
use crate::plan::{Gather, Plan, Scatter};
use crate::report::Work;
use crate::select::{Operation, Reason};

/// The arguments of both.
#[derive(Clone, Copy)]
pub struct Rooted {
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

/// One side of a call: the elements of one process at the root, or those of this process.
#[derive(Clone, Copy)]
pub(super) struct Elements {
    buffer: Buffer,
    count: i64,
    datatype: MPI_Datatype,
}

impl Rooted {
    pub(super) fn sent(&self) -> Elements {
        Elements {
            buffer: self.send,
            count: self.send_count,
            datatype: self.send_type,
        }
    }

    pub(super) fn received(&self) -> Elements {
        Elements {
            buffer: self.receive,
            count: self.receive_count,
            datatype: self.receive_type,
        }
    }
}

impl Elements {
    fn bytes(&self) -> Result<usize, Stop> {
        product(count(self.count)?, size(self.datatype)?)
    }
}

/// Moves every process' `part` to or from the `whole`, which is significant at the root only; there
/// the part may be in place.
pub(super) fn pass(
    state: &State,
    operation: Operation,
    root: c_int,
    (whole, part): (Elements, Elements),
    work: &mut Work,
) -> Result<(), Stop> {
    state.intra()?;
    let root = state.root(root)?;
    let is_root = state.rank() == root;
    let in_place = is_root && part.buffer.is_in_place();
    let whole = is_root.then_some(whole);
    let part = (!in_place).then_some(part);
    let length = match (&whole, &part) {
        (Some(whole), Some(part)) if whole.bytes()? != part.bytes()? => {
            return Err(Stop::Native(Reason::Arguments));
        }
        (Some(elements), _) | (None, Some(elements)) => elements.bytes()?,
        // A process that is not the root has a part.
        (None, None) => return Err(Stop::Native(Reason::Arguments)),
    };
    let bytes = product(length, state.size())?;
    work.bytes = bytes as u64;
    state.blocks(operation, bytes, length)?;
    let laid_out = |elements: Option<Elements>| match elements {
        Some(elements) => layout(elements.datatype, elements.buffer)
            .map(|datatype| Some((elements.buffer, datatype))),
        None => Ok(None),
    };
    let (whole, part) = (laid_out(whole)?, laid_out(part)?);
    let in_place = match (whole, part) {
        (Some((buffer, datatype)), Some(part)) => {
            let first = (root * length / datatype.size().max(1)) as isize;
            moved_overlay(part, (datatype.element(buffer, first), datatype))?
        }
        _ => in_place,
    };
    let part = part.filter(|_| !in_place);
    let one = whole.or(part).ok_or(Stop::Native(Reason::Arguments))?;
    state.serve(&[one, part.unwrap_or(one)], |service| {
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
        let whole = whole.map(|(buffer, datatype)| source(buffer, datatype, private, packed));
        let part = part.map(|(buffer, datatype)| source(buffer, datatype, private, packed));
        let up = Gather::new(sequence, *rank, root);
        let down = Scatter(up);
        let gathers = operation == Operation::Gather;
        let plan: &dyn Plan = if gathers { &up } else { &down };
        let p = sequence.processes();
        let units = scratch_units(plan, std::iter::repeat_n(length, p), run.pacing);
        let need = Need {
            unit: Unit::Byte,
            always: units.saturating_add(bytes),
            possible: 0,
            happens: false,
        };
        let scratch = pool.reserve(private, need)?;
        up.lay_out(pieces, offsets);
        let slots = Slots {
            offsets,
            length,
            scratch,
            staging: scratch.offset(units as isize),
            communicator: private,
        };
        let all = || (0..p).filter(|&process| process != *rank || !in_place);
        match (&part, &whole) {
            (Some(part), _) if gathers => slots.put(*rank, part, 0)?,
            (_, Some(whole)) if !gathers => {
                all().try_for_each(|process| slots.put(process, whole, process))?;
            }
            _ => (),
        }
        let slots = run.execute(plan, private, slots)?;
        match (&part, &whole) {
            (_, Some(whole)) if gathers => {
                all().try_for_each(|process| slots.take(process, whole, process))?;
            }
            (Some(part), _) if !gathers => slots.take(*rank, part, 0)?,
            _ => (),
        }
        done(work, plan);
        Ok(())
    })
}
