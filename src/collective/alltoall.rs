//! MPI_Alltoall: the exchange in few rounds, from and to the program's buffers through slots.

use super::{count, done, layout, moved_overlay, product, size, source};
use crate::communicator::{Lists, Need, Service, State, Stop, Unit};
use crate::engine::scratch_units;
use crate::mpi::{Buffer, MPI_Datatype, Slots};
use crate::plan::{AllToAll, Routes};
use crate::report::Work;
use crate::select::{Operation, Reason};

/// The arguments.
#[derive(Clone, Copy)]
pub struct Alltoall {
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
}

/// Tries an MPI_Alltoall.
pub fn alltoall(state: &State, call: Alltoall, work: &mut Work) -> Result<(), Stop> {
    state.intra()?;
    let length = product(count(call.receive_count)?, size(call.receive_type)?)?;
    let bytes = product(length, state.size())?;
    work.bytes = bytes as u64;
    state.blocks(Operation::Alltoall, bytes, length)?;
    let receive_type = layout(call.receive_type, call.receive)?;
    let (send, send_type) = if call.send.is_in_place() {
        (call.receive, receive_type)
    } else {
        let fits = product(count(call.send_count)?, size(call.send_type)?)? == length;
        let send_type = layout(call.send_type, call.send)?;
        if !fits {
            return Err(Stop::Native(Reason::Arguments));
        }
        if moved_overlay((call.send, send_type), (call.receive, receive_type))? {
            (call.receive, receive_type)
        } else {
            (call.send, send_type)
        }
    };
    let data = [(send, send_type), (call.receive, receive_type)];
    state.serve(&data, |service| {
        let Service {
            rank,
            private,
            sequence,
            routes,
            pool,
            run,
            lists,
            ..
        } = service;
        let Lists {
            offsets, packed, ..
        } = lists;
        let from = source(send, send_type, private, packed);
        let to = source(call.receive, receive_type, private, packed);
        let p = sequence.processes();
        let routes = routes.get_or_insert_with(|| Routes::new(sequence));
        let plan = AllToAll::new(sequence, routes, *rank);
        let units = scratch_units(&plan, std::iter::repeat_n(length, p), run.pacing);
        let need = Need {
            unit: Unit::Byte,
            always: units.saturating_add(bytes),
            possible: 0,
            happens: false,
        };
        let scratch = pool.reserve(private, need)?;
        offsets.clear();
        offsets.extend(0..p);
        let slots = Slots {
            offsets,
            length,
            scratch,
            staging: scratch.offset(units as isize),
            communicator: private,
        };
        // Message e is for process rank + e, and in the end from process rank - e.
        for message in 0..p {
            slots.put(message, &from, (*rank + message) % p)?;
        }
        let slots = run.execute(&plan, private, slots)?;
        for message in 0..p {
            slots.take(message, &to, (*rank + p - message) % p)?;
        }
        done(work, &plan);
        Ok(())
    })
}
