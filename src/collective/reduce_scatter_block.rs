//! MPI_Reduce_scatter_block: an MPI_Reduce_scatter of equal counts.

use super::reduce_scatter::{ReduceScatter, scatter};
use crate::communicator::{State, Stop};
use crate::mpi::{Buffer, Counts, MPI_Datatype, MPI_Op};
use crate::report::Work;
use crate::select::Operation;

/// The arguments.
#[derive(Clone, Copy)]
pub struct ReduceScatterBlock {
    /// sendbuf
    pub send: Buffer,
    /// recvbuf
    pub receive: Buffer,
    /// recvcount
    pub count: i64,
    /// datatype
    pub datatype: MPI_Datatype,
    /// op
    pub op: MPI_Op,
}

/// Tries an MPI_Reduce_scatter_block.
pub fn reduce_scatter_block(
    state: &State,
    call: ReduceScatterBlock,
    work: &mut Work,
) -> Result<(), Stop> {
    let call = ReduceScatter {
        send: call.send,
        receive: call.receive,
        counts: Counts::Equal(call.count),
        datatype: call.datatype,
        op: call.op,
    };
    scatter(state, Operation::ReduceScatterBlock, &call, work)
}
