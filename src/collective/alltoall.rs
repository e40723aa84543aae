//! MPI_Alltoall: what all processes know of a call, and what this one brings.

use super::{is_moved_in_place, product, sizes, somewhere_by_rank, valid};
use crate::call::{AllToAll, Collective, Problem};
use crate::communicator::{State, Stop};
use crate::mpi::PassedByRank;
use crate::report::Work;
use crate::select::{Facts, Operation, Reason};

/// The arguments.
pub struct Alltoall {
    /// sendbuf, sendcount, sendtype
    pub send: PassedByRank,
    /// recvbuf, recvcount, recvtype
    pub receive: PassedByRank,
}

impl Collective for Alltoall {
    fn facts(&self, state: &State, work: &mut Work) -> Result<Facts, Stop> {
        state.intra()?;
        let (bytes, largest) = self.received()?;
        work.bytes = bytes as u64;
        state.pass_small(Operation::Alltoall, bytes)?;
        Ok(Facts {
            bytes: bytes as u64,
            largest: largest as u64,
            ..Facts::new(Operation::Alltoall, state.size())
        })
    }

    fn problem(&self, _state: &State) -> Result<Problem, Stop> {
        let receive = somewhere_by_rank(&self.receive)?;
        let in_place = Problem::AllToAll(AllToAll {
            send: receive,
            receive,
        });
        if self.send.buffer().is_in_place() {
            return Ok(in_place);
        }
        let unit = valid(self.send.unit())?;
        let sent = product(valid(self.send.counts().sum())?, unit)?;
        let send = somewhere_by_rank(&self.send)?;
        if sent != self.received()?.0 {
            return Err(Stop::Native(Reason::Arguments));
        }
        if is_moved_in_place(&send.of(0), &receive.of(0))? {
            return Ok(in_place);
        }
        Ok(Problem::AllToAll(AllToAll { send, receive }))
    }
}

impl Alltoall {
    /// Bytes that are received, and from each process.
    fn received(&self) -> Result<(usize, usize), Stop> {
        sizes(self.receive.counts(), valid(self.receive.unit())?)
    }
}
