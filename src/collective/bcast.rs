//! MPI_Bcast: the n-block broadcast (Algorithm 1), from and to the program's buffer, or through a
//! staging area where its datatype is not contiguous.

use std::ffi::c_int;

use super::{count, done, layout, product, size};
use crate::communicator::{Need, Service, State, Stop, Unit};
use crate::mpi::{Buffer, Datatype, MPI_Datatype, Message, Own, Packed, Source};
use crate::plan::{Broadcast, Plan};
use crate::report::Work;
use crate::select::Operation;

/// The arguments.
#[derive(Clone, Copy)]
pub struct Bcast {
    /// buffer
    pub buffer: Buffer,
    /// count
    pub count: i64,
    /// datatype
    pub datatype: MPI_Datatype,
    /// root
    pub root: c_int,
}

/// Tries an MPI_Bcast.
pub fn bcast(state: &State, call: Bcast, work: &mut Work) -> Result<(), Stop> {
    state.intra()?;
    let root = state.root(call.root)?;
    let bytes = product(count(call.count)?, size(call.datatype)?)?;
    work.bytes = bytes as u64;
    let blocks = state.blocks(Operation::Bcast, bytes, bytes)?.min(bytes);
    let datatype = layout(call.datatype, call.buffer)?;
    state.serve(&[(call.buffer, datatype)], |service| {
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
        let plan = Broadcast::new(skips, roots.schedules(skips, *rank, root), *rank, blocks);
        let staged = !datatype.is_contiguous(private, &mut lists.packed);
        let need = Need {
            unit: Unit::Byte,
            always: 0,
            possible: bytes,
            happens: staged,
        };
        let scratch = pool.reserve(private, need)?;
        let memory = Packed {
            messages: &[Message {
                length: bytes,
                elements: call.buffer,
                staged: staged.then_some(0),
            }],
            datatype,
            own: plan.is_root(0).then(|| own(call.buffer, datatype, staged)),
            blocks,
            scratch,
            staging: 0,
            communicator: private,
        };
        run.execute(&plan, private, memory)?.finish()?;
        done(work, &plan);
        Ok(())
    })
}

/// The root's message: at home already, or to be packed.
fn own(buffer: Buffer, datatype: Datatype, staged: bool) -> Own {
    let source = staged.then_some(Source {
        elements: buffer,
        datatype,
        contiguous: false,
    });
    Own {
        message: 0,
        source,
        packed: 0,
        unpacked_at_end: false,
    }
}
