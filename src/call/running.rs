//! Calls in progress.

use super::Done;
use crate::communicator::{Service, Stop};
use crate::engine::Call;
use crate::mpi::{Allocation, Error};
use crate::pool::Lease;
use crate::stage::Stages;
use crate::transport::{
    Bytes, Elements, Lengths, Memory, Mismatch, PointToPoint, Progress, wait_for_one,
};

/// A call in progress: it owns its stages, its memory, its lease on scratch and its tag.
pub struct Running<M> {
    call: Call<PointToPoint<M>>,
    /// Which lease it has. None where it uses that of another call.
    lease: Option<usize>,
    done: Done,
}

impl<M: Memory> Running<M> {
    /// Prepares a call of `stages` in `memory`, whose allocation is on this lease.
    /// Calls in progress at once have different tags.
    pub fn prepare(
        service: &mut Service,
        stages: Stages,
        tag: usize,
        lease: Option<usize>,
        memory: M,
    ) -> Running<M> {
        let done = Done {
            rounds: stages.rounds() as u64,
            blocks: stages.blocks() as u64,
        };
        let engine = service.spare.engine(service.pacing);
        let transport = PointToPoint::new(service.communicator(), tag, Lengths::Exact, memory);
        Running {
            call: Call::new(stages, engine, transport),
            lease,
            done,
        }
    }

    /// Runs until the end, or until a transfer has to be waited for.
    fn advance(&mut self) -> Result<Progress, Error> {
        self.call.advance()
    }
}

/// A memory that holds a call's allocation.
pub trait Owner: Memory {
    /// What is left to do when all stages are done.
    ///
    /// # Errors
    /// MPI's.
    fn finish(&mut self) -> Result<(), Error>;

    /// Leaves its lists to other calls; returns the allocation.
    fn leave(self, service: &mut Service) -> Allocation;
}

impl Owner for Bytes {
    fn finish(&mut self) -> Result<(), Error> {
        Bytes::finish(self)
    }

    fn leave(self, service: &mut Service) -> Allocation {
        let (allocation, lists) = self.into_parts();
        service.spare.keep_lists(lists);
        allocation
    }
}

impl Owner for Elements {
    fn finish(&mut self) -> Result<(), Error> {
        Elements::finish(self)
    }

    fn leave(self, service: &mut Service) -> Allocation {
        let (allocation, packed) = self.into_parts();
        service.spare.keep_packed(packed);
        allocation
    }
}

impl<M: Memory> Running<M> {
    /// The memory of a call whose stages are done, how it ran, and whether all messages were as long
    /// as expected.
    pub fn end(self, service: &mut Service) -> (M, Done, Result<(), Mismatch>) {
        let (stages, engine, transport) = self.call.finish();
        service.spare.keep(stages, engine);
        let lengths = transport.check_lengths();
        (transport.memory, self.done, lengths)
    }
}

impl<M: Owner> Running<M> {
    /// Finishes a call whose stages are done.
    ///
    /// # Errors
    /// MPI's; or that processes disagree on the size of the data.
    pub fn finish(self, service: &mut Service) -> Result<Done, Stop> {
        let lease = self.lease;
        let (mut memory, done, lengths) = self.end(service);
        if lengths.is_ok() {
            memory.finish()?;
        }
        let memory = memory.leave(service);
        if let Some(slot) = lease {
            service.pool.give_back(Lease { slot, memory });
        }
        lengths?;
        Ok(done)
    }
}

/// Runs a call of `stages` in `memory`, whose allocation is on this lease, from beginning to end.
///
/// # Errors
/// MPI's; or that processes disagree on the size of the data.
pub fn run<M: Owner>(
    service: &mut Service,
    stages: Stages,
    lease: usize,
    memory: M,
) -> Result<Done, Stop> {
    let call = Running::prepare(service, stages, 0, Some(lease), memory);
    let [call] = complete([call])?;
    call.finish(service)
}

/// Runs calls, in progress at once, until the end of all.
///
/// # Errors
/// MPI's, of any of them. All are then over, and their memory is never used again, since sends may
/// still be reading it.
pub fn complete<M: Memory, C: AsMut<[Running<M>]>>(mut calls: C) -> Result<C, Stop> {
    match advance_all(calls.as_mut()) {
        Ok(()) => Ok(calls),
        Err(error) => {
            for call in calls.as_mut() {
                call.call.transport.give_up();
            }
            std::mem::forget(calls);
            Err(Stop::Failed(error))
        }
    }
}

fn advance_all<M: Memory>(calls: &mut [Running<M>]) -> Result<(), Error> {
    let is_alone = calls.len() == 1;
    for call in calls.iter_mut() {
        // Where there is nothing else to do, MPI waits best.
        call.call.transport.set_waits(is_alone);
    }
    loop {
        let mut waiting = Vec::new();
        for call in calls.iter_mut() {
            if call.advance()? == Progress::Pending {
                waiting.push(&mut call.call.transport);
            }
        }
        if waiting.is_empty() {
            return Ok(());
        }
        wait_for_one(waiting.into_iter())?;
    }
}
