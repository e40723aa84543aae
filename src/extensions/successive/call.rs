//! One call of circulant_successive_bcast.
//!
//! Without circulant it is a loop of MPI_Bcast from the same owners with the same callbacks. A
//! header goes before each value, so it ends like circulant's where a callback returns an error.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use super::faults::Faults;
use super::flow::Flow;
use super::turns::Successive;
use super::values::{Callbacks, OneValue, Values, decoded, encoded};
use crate::collective::{count, product};
use crate::communicator::{Service, State, Stop};
use crate::mpi::{Communicator, Error, SUCCESS};
use crate::plan::Succession;
use crate::pool::{Lease, Need};
use crate::report::Work;
use crate::select::{self, Algorithm, Facts, Operation, Reason};

/// The arguments, without the communicator.
#[derive(Clone, Copy)]
pub struct SuccessiveBcast {
    /// n
    pub steps: c_int,
    /// produce, store and context; count and datatype
    pub callbacks: Callbacks,
}

/// Tries the operation. Returns the code of the first fault, on all processes.
pub fn successive_bcast(
    state: &State,
    call: SuccessiveBcast,
    work: &mut Work,
) -> Result<c_int, Stop> {
    state.intra()?;
    let (elements, datatype) = call.callbacks.value();
    let steps = count(call.steps.into())?;
    let bytes = product(elements, datatype.size())?;
    let all = bytes.saturating_mul(steps) as u64;
    work.bytes = all;
    let facts = Facts {
        bytes: all,
        largest: all,
        ..Facts::new(Operation::SuccessiveBcast, state.size())
    };
    let settings = state.settings();
    let stride = Values::stride(bytes);
    let algorithm = select::successive(&facts, settings, steps, stride)?;
    state.serve([None, None], |service| {
        if !datatype.is_committed(service.communicator()) {
            return Err(Stop::Native(Reason::Arguments));
        }
        let synchronous = service.pacing.synchronous;
        let flows = Flows {
            algorithm,
            trees: Flow::trees(stride, synchronous),
            relay: Flow::relay(stride, settings.relayed, synchronous),
        };
        let mut broadcasts = Broadcasts::new(service, flows, call.callbacks)?;
        if let Err(error) = broadcasts.run(steps, flows) {
            broadcasts.values.give_up();
            return Err(Stop::Failed(error));
        }
        let code = agree(broadcasts.communicator, broadcasts.values.known_faults())?;
        work.record(algorithm, broadcasts.rounds as u64, broadcasts.done as u64);
        let (memory, lists) = broadcasts.values.into_memory().into_parts();
        service.spare.keep_lists(lists);
        let slot = broadcasts.slot;
        service.pool.give_back(Lease { slot, memory });
        Ok(code)
    })
}

/// The ways that values may be sent.
#[derive(Clone, Copy)]
struct Flows {
    algorithm: Algorithm,
    trees: Flow,
    relay: Flow,
}

impl Flows {
    /// The values that each process has places for.
    fn places(&self, processes: usize) -> usize {
        let [trees, relay] = [self.trees, self.relay].map(|flow| flow.places(processes));
        match self.algorithm {
            Algorithm::Trees => trees,
            Algorithm::Relay => relay,
            _ => trees.max(relay),
        }
    }
}

/// One operation, whose steps may go by several flows, one after the other.
struct Broadcasts {
    order: Succession,
    rank: usize,
    communicator: Communicator,
    values: Values,
    /// The lease of the values' memory.
    slot: usize,
    /// Steps that were run, and their time in the port model.
    done: usize,
    rounds: usize,
}

impl Broadcasts {
    fn new(service: &mut Service, flows: Flows, callbacks: Callbacks) -> Result<Broadcasts, Stop> {
        let (rank, order) = (service.team.place(), Succession::new(service.team.size()));
        let (elements, datatype) = callbacks.value();
        let bytes = elements * datatype.size();
        // A size that overflows is refused as too large.
        let scratch = flows
            .places(order.processes())
            .saturating_mul(Values::stride(bytes));
        let Lease { slot, memory } = service.lease(Need::always(scratch))?;
        let values = Values::new(service, (memory, scratch), callbacks, Faults::new(rank));
        Ok(Broadcasts {
            order,
            rank,
            communicator: service.communicator(),
            values,
            slot,
            done: 0,
            rounds: 0,
        })
    }

    /// Runs all steps, by one of the flows or by the faster one.
    fn run(&mut self, steps: usize, flows: Flows) -> Result<(), Error> {
        let flow = match flows.algorithm {
            Algorithm::Relay => flows.relay,
            Algorithm::Measured => self.faster(steps, flows)?,
            _ => flows.trees,
        };
        self.advance(steps, flow)
    }

    /// Runs some steps by trees and, unless callbacks take long, some by relay. Returns the faster
    /// flow: relay, if it took less time on all processes.
    fn faster(&mut self, steps: usize, Flows { trees, relay, .. }: Flows) -> Result<Flow, Error> {
        let (by_trees, in_callbacks) = self.timed(steps, trees)?;
        let may_try = select::tries_relay(by_trees, in_callbacks);
        if self.is_over(steps) || !self.communicator.all_agree(may_try)? {
            return Ok(trees);
        }
        let (by_relay, _) = self.timed(steps, relay)?;
        if self.is_over(steps) {
            return Ok(trees);
        }
        let is_relay = select::faster_way(by_trees, by_relay) == Algorithm::Relay;
        let is_relay = self.communicator.all_agree(is_relay)?;
        Ok(if is_relay { relay } else { trees })
    }

    fn is_over(&self, steps: usize) -> bool {
        self.done == steps || self.values.known_faults().have_ended()
    }

    /// How long p steps take on this process, and how much of that its callbacks take. p steps that
    /// may have to make connections go before them.
    fn timed(&mut self, steps: usize, flow: Flow) -> Result<(Duration, Duration), Error> {
        let p = self.order.processes();
        self.advance(steps.min(self.done + p), flow)?;
        let (start, before) = (Instant::now(), self.values.in_callbacks());
        self.advance(steps.min(self.done + p), flow)?;
        Ok((start.elapsed(), self.values.in_callbacks() - before))
    }

    /// Runs the steps before `end` by `flow`, unless the operation has ended.
    fn advance(&mut self, end: usize, flow: Flow) -> Result<(), Error> {
        if !self.values.known_faults().have_ended() {
            let steps = self.done..end;
            let mut run = Successive::new(self.order, self.rank, steps, flow, &mut self.values);
            run.advance()?;
            let done = run.done();
            self.rounds += flow.time(self.order, done - self.done);
            self.done = done;
        }
        Ok(())
    }
}

/// The code of the first fault on any process, or 0. Collective.
fn agree(communicator: Communicator, faults: &Faults) -> Result<c_int, Error> {
    if communicator.all_agree(faults.are_none())? {
        return Ok(SUCCESS);
    }
    let [key, code] = faults.first();
    let keys = communicator.gather_all(key)?.into_iter();
    let codes = communicator.gather_all(code)?;
    Ok(Faults::agreed(keys.zip(codes).map(<[u64; 2]>::from)))
}

/// The operation by MPI's own collectives, on the program's communicator. Returns MPI's error code,
/// or the code of the first fault.
pub fn successive_bcast_natively(communicator: Communicator, call: SuccessiveBcast) -> c_int {
    natively(communicator, call).unwrap_or_else(|error| error.0)
}

fn natively(communicator: Communicator, call: SuccessiveBcast) -> Result<c_int, Error> {
    let (rank, order) = (communicator.rank()?, Succession::new(communicator.size()?));
    let mut faults = Faults::new(rank);
    let one = OneValue::new(call.callbacks, &mut faults);
    // A process without memory for values cannot take part in broadcasts of them.
    let code = agree(communicator, &faults)?;
    if code != SUCCESS {
        return Ok(code);
    }
    for step in 0..usize::try_from(call.steps).unwrap_or(0) {
        let owner = order.owner(step);
        if owner == rank && faults.are_none() {
            faults.note(step, one.produce(step));
        }
        let own = if owner == rank {
            faults.own_header()
        } else {
            faults.first()
        };
        let mut header = encoded(own);
        communicator.share_bytes(&mut header, owner)?;
        if owner != rank {
            faults.merge(decoded(header));
        }
        if faults.have_ended() {
            break;
        }
        one.share(communicator, owner)?;
        if faults.are_none() {
            faults.note(step, one.store(step));
        }
    }
    agree(communicator, &faults)
}
