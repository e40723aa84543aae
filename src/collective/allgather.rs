//! MPI_Allgather: an MPI_Allgatherv of equal counts, in rank order.

use super::allgatherv::{Allgatherv, gather};
use crate::communicator::{State, Stop};
use crate::mpi::{Buffer, Counts, MPI_Datatype};
use crate::report::Work;
use crate::select::Operation;

/// The arguments.
#[derive(Clone, Copy)]
pub struct Allgather {
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

/// Tries an MPI_Allgather.
pub fn allgather(state: &State, call: Allgather, work: &mut Work) -> Result<(), Stop> {
    let call = Allgatherv {
        send: call.send,
        send_count: call.send_count,
        send_type: call.send_type,
        receive: call.receive,
        counts: Counts::Equal(call.receive_count),
        displacements: Counts::Steps(call.receive_count),
        receive_type: call.receive_type,
    };
    gather(state, Operation::Allgather, &call, work)
}
