//! MPI_Allgatherv and MPI_Allgather, which is one of equal counts, in rank order.

use super::{count, is_moved_in_place, product, sizes, somewhere, somewhere_by_rank, valid};
use crate::call::{self, AllgatherBetween, Collective, Problem};
use crate::communicator::{State, Stop};
use crate::mpi::{Array, Arrays, Passed, PassedByRank};
use crate::report::Work;
use crate::select::{Facts, Operation, Reason, Unknown};
use crate::stage::Groups;

/// The arguments.
pub struct Allgather {
    /// Which of the two.
    pub operation: Operation,
    /// sendbuf, sendcount, sendtype
    pub send: Passed,
    /// recvbuf, recvcounts and displs or recvcount, recvtype
    pub receive: PassedByRank,
}

impl Collective for Allgather {
    fn facts(&self, state: &State, work: &mut Work) -> Result<Facts, Stop> {
        if let Some(groups) = state.groups()? {
            return self.facts_between(&groups, work);
        }
        let (bytes, largest) = self.received()?;
        work.bytes = bytes as u64;
        state.pass_small(self.operation, bytes)?;
        Ok(Facts {
            bytes: bytes as u64,
            largest: largest as u64,
            units: largest as u64,
            ..Facts::new(self.operation, state.size())
        })
    }

    fn problem(&self, state: &State) -> Result<Problem, Stop> {
        if let Some(groups) = state.groups()? {
            return self.problem_between(groups);
        }
        let result = somewhere_by_rank(&self.receive)?;
        let own = self.own(&result, state.rank())?;
        Ok(Problem::Allgather(call::Allgather { own, result }))
    }
}

impl Allgather {
    /// Bytes that are received, and the most from one process.
    fn received(&self) -> Result<(usize, usize), Stop> {
        sizes(self.receive.counts(), valid(self.receive.unit())?)
    }

    /// Bytes that are sent.
    fn sent(&self) -> Result<usize, Stop> {
        product(count(self.send.count())?, valid(self.send.unit())?)
    }

    /// Where this process's elements come from: none with MPI_IN_PLACE, nor where there are none,
    /// whose address may then be anything. What does not match the bytes that the others expect is
    /// the MPI library's to judge.
    fn own(&self, result: &Arrays, rank: usize) -> Result<Option<Array>, Stop> {
        if self.send.buffer().is_in_place() {
            return Ok(None);
        }
        let home = result.of(rank);
        if self.sent()? != home.size() {
            return Err(Stop::Native(Reason::Arguments));
        }
        if home.size() == 0 {
            return Ok(None);
        }
        let own = somewhere(self.send.array())?;
        Ok(if is_moved_in_place(&own, &home)? {
            None
        } else {
            Some(own)
        })
    }

    /// The nodes are not known before there is a service, nor the sizes of an MPI_Allgatherv before
    /// they are exchanged.
    fn facts_between(&self, groups: &Groups, work: &mut Work) -> Result<Facts, Stop> {
        if self.send.buffer().is_in_place() {
            return Err(Stop::Native(Reason::Arguments));
        }
        let (sent, (received, from_each)) = (self.sent()?, self.received()?);
        if self.operation == Operation::Allgatherv {
            // Until all is known.
            work.bytes = received as u64;
            return Ok(Facts {
                unknown: Unknown::Sizes,
                ..AllgatherBetween::facts(self.operation, groups, usize::MAX, 0)
            });
        }
        let bytes = received.max(product(groups.sizes[groups.own], sent)?);
        work.bytes = bytes as u64;
        let largest = sent.max(from_each);
        Ok(Facts {
            unknown: Unknown::Nodes,
            ..AllgatherBetween::facts(self.operation, groups, bytes, largest)
        })
    }

    /// Where nothing is sent or received, the address may be anything.
    fn problem_between(&self, groups: Groups) -> Result<Problem, Stop> {
        let send = if self.sent()? > 0 {
            Some(somewhere(self.send.array())?)
        } else {
            None
        };
        let receive = if self.received()?.0 > 0 {
            Some(somewhere_by_rank(&self.receive)?)
        } else {
            None
        };
        Ok(Problem::AllgatherBetween(AllgatherBetween {
            are_equal: self.operation == Operation::Allgather,
            groups,
            send,
            receive,
        }))
    }
}
