//! circulant_successive_bcast: n dependent broadcasts in order, with callbacks between them.
//!
//! Natively, a loop of MPI_Bcast from the same owners with the same callbacks, which ends as ours does where one
//! returns an error: a header goes before each value.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use super::faults::{Course, Faults};
use super::flow::{Flow, Successive};
use super::values::{Callbacks, OneValue, Values};
use crate::collective::check::{count, product, valid};
use crate::communicator::{Service, State, Stop};
use crate::mpi::{Communicator, Datatype, Error, MPI_Datatype, SUCCESS, native};
use crate::plan::Succession;
use crate::pool::{Lease, Need};
use crate::report::Work;
use crate::select::{self, Algorithm, Facts, Operation, Reason};
use crate::transport::{Lengths, PointToPoint};

/// The arguments, but for the communicator.
#[derive(Clone, Copy)]
pub struct SuccessiveBcast {
    /// n
    pub steps: c_int,
    /// count
    pub count: c_int,
    /// datatype
    pub datatype: MPI_Datatype,
    /// produce, store and context
    pub callbacks: Callbacks,
}

/// Tries the operation; returns the code of the first callback that returned one, on all processes.
pub fn successive_bcast(
    state: &State,
    call: SuccessiveBcast,
    work: &mut Work,
) -> Result<i32, Stop> {
    state.intra()?;
    let (steps, elements) = (count(call.steps.into())?, count(call.count.into())?);
    let datatype = valid(Datatype::of(call.datatype))?;
    let bytes = product(elements, datatype.size())?;
    let all = bytes.saturating_mul(steps);
    work.bytes = all as u64;
    let facts = Facts {
        bytes: all as u64,
        largest: all as u64,
        ..Facts::new(Operation::SuccessiveBcast, state.size())
    };
    let stride = Values::stride(bytes);
    let algorithm = select::successive(&facts, state.settings(), steps, stride)?;
    state.serve([None, None], |service| {
        if !{ datatype }.is_committed(service.communicator()) {
            return Err(Stop::Native(Reason::Arguments));
        }
        let synchronous = service.pacing.synchronous;
        let trees = Flow::trees(stride, synchronous);
        let relay = Flow::relay(stride, state.settings().relayed, synchronous);
        let by = (algorithm, trees, relay);
        let (code, done, rounds) = run(service, by, (steps, elements, datatype), call.callbacks)?;
        work.record(algorithm, rounds as u64, done as u64);
        Ok(code)
    })
}

/// Runs `steps` steps of `elements` elements. Returns the code, how many were run, and their time in
/// the port model.
fn run(
    service: &mut Service,
    by: (Algorithm, Flow, Flow),
    (steps, elements, datatype): (usize, usize, Datatype),
    callbacks: Callbacks,
) -> Result<(i32, usize, usize), Stop> {
    let (rank, order) = (service.team.place(), Succession::new(service.team.size()));
    let bytes = elements * datatype.size();
    let (algorithm, trees, relay) = by;
    let [in_trees, in_relay] = [trees, relay].map(|flow| flow.stretches(order.processes()));
    let stretches = match algorithm {
        Algorithm::Trees => in_trees,
        Algorithm::Relay => in_relay,
        _ => in_trees.max(in_relay),
    };
    // What does not fit into any memory does not fit into scratch.
    let need = Need::always(stretches.saturating_mul(Values::stride(bytes)));
    let lease = service.pool.lease(&service.private, need)?;
    let mut faults = Faults::new(rank);
    let one = one_value(elements, datatype, &mut faults);
    let packing = service.packing(one.elements);
    let memory = (one, packing, bytes);
    let values = Values::new(lease.memory, stretches, memory, callbacks, faults);
    let communicator = service.communicator();
    let broadcasts = Broadcasts {
        order,
        rank,
        communicator,
        values,
        steps,
        done: 0,
        rounds: 0,
    };
    let broadcasts = broadcasts.all(algorithm, trees, relay)?;
    let code = agree(communicator, &broadcasts.values.faults)?;
    let (done, rounds) = (broadcasts.done, broadcasts.rounds);
    service.pool.give_back(Lease {
        slot: lease.slot,
        memory: broadcasts.values.into_allocation(),
    });
    Ok((code, done, rounds))
}

/// One operation, of which some steps go one way and then others another.
struct Broadcasts {
    order: Succession,
    rank: usize,
    communicator: Communicator,
    values: Values,
    /// n, or less once it is known that the operation ends early.
    steps: usize,
    /// Steps that were run, and their time in the port model.
    done: usize,
    rounds: usize,
}

impl Broadcasts {
    /// Runs all steps, by one of two flows, or by the faster of them.
    fn all(self, algorithm: Algorithm, trees: Flow, relay: Flow) -> Result<Self, Stop> {
        let (broadcasts, flow) = match algorithm {
            Algorithm::Relay => (self, relay),
            Algorithm::Measured => self.faster(trees, relay)?,
            _ => (self, trees),
        };
        let left = broadcasts.steps - broadcasts.done;
        broadcasts.some(left, flow)
    }

    /// Runs some steps by trees and, unless callbacks take long, some by relay. Returns what is faster:
    /// relay, if it took less time on all processes.
    fn faster(self, trees: Flow, relay: Flow) -> Result<(Self, Flow), Stop> {
        let (broadcasts, by_trees, in_callbacks) = self.timed(trees)?;
        let may_try = select::tries_relay(by_trees, in_callbacks);
        if broadcasts.is_over() || !broadcasts.communicator.all_agree(may_try)? {
            return Ok((broadcasts, trees));
        }
        let (broadcasts, by_relay, _) = broadcasts.timed(relay)?;
        if broadcasts.is_over() {
            return Ok((broadcasts, trees));
        }
        let is_relay = select::faster_way(by_trees, by_relay) == Algorithm::Relay;
        let is_relay = broadcasts.communicator.all_agree(is_relay)?;
        Ok((broadcasts, if is_relay { relay } else { trees }))
    }

    fn is_over(&self) -> bool {
        self.done == self.steps
    }

    /// How long p steps take on this process, and in them its callbacks; after p that may have
    /// connections to make.
    fn timed(self, flow: Flow) -> Result<(Self, Duration, Duration), Stop> {
        let p = self.order.processes();
        let broadcasts = self.some(p, flow)?;
        let (start, before) = (Instant::now(), broadcasts.values.in_callbacks);
        let broadcasts = broadcasts.some(p, flow)?;
        let in_callbacks = broadcasts.values.in_callbacks - before;
        Ok((broadcasts, start.elapsed(), in_callbacks))
    }

    /// Runs `more` steps by `flow`, or as many as there are.
    fn some(self, more: usize, flow: Flow) -> Result<Self, Stop> {
        let (order, rank, end) = (self.order, self.rank, self.steps.min(self.done + more));
        // Values may be fewer than there is room for.
        let lengths = Lengths::AtMost;
        let mut transport = PointToPoint::new(self.communicator, 0, lengths, self.values);
        let mut steps = Successive::new(order, rank, self.done..end, flow, &mut transport);
        let result = steps.advance();
        let done = steps.done();
        if let Err(error) = result {
            transport.give_up();
            // Sends may still be reading from it.
            std::mem::forget(transport);
            return Err(Stop::Failed(error));
        }
        let values = transport.memory;
        let ran = done - self.done;
        Ok(Broadcasts {
            steps: if values.faults.have_ended() {
                done
            } else {
                self.steps
            },
            values,
            done,
            rounds: self.rounds + flow.time(order, ran),
            ..self
        })
    }
}

/// Memory for the elements of one value. Where there is none, that is this process's fault in step 0,
/// which ends the operation on all.
fn one_value(elements: usize, datatype: Datatype, faults: &mut Faults) -> OneValue {
    OneValue::new(elements, datatype).unwrap_or_else(|| {
        faults.note(0, native().constants.err_no_mem.0);
        OneValue::none(datatype)
    })
}

/// The code of the first fault on any process, or 0. Collective.
fn agree(communicator: Communicator, faults: &Faults) -> Result<i32, Error> {
    if communicator.all_agree(faults.are_none())? {
        return Ok(SUCCESS);
    }
    let [key, code] = faults.words();
    let keys = communicator.gather_all(key)?;
    let codes = communicator.gather_all(code)?;
    let words = keys.into_iter().zip(codes);
    Ok(Faults::agreed(words.map(|(key, code)| [key, code])))
}

/// The operation by MPI's own collectives, on the program's communicator. Returns MPI's error code, or that of the
/// first callback that returned one.
pub fn successive_bcast_natively(communicator: Communicator, call: SuccessiveBcast) -> c_int {
    natively(communicator, call).unwrap_or_else(|error| error.0)
}

fn natively(communicator: Communicator, call: SuccessiveBcast) -> Result<i32, Error> {
    let Some(datatype) = Datatype::of(call.datatype) else {
        let class = Error(native().constants.err_type.0);
        return Err(Error(communicator.raise(class)));
    };
    let (rank, size) = (communicator.rank()?, communicator.size()?);
    let count = usize::try_from(call.count).unwrap_or(0);
    let mut faults = Faults::new(rank);
    let one = one_value(count, datatype, &mut faults);
    let elements = one.elements;
    // Nobody can be sent values without memory for them.
    let code = agree(communicator, &faults)?;
    if code != SUCCESS {
        return Ok(code);
    }
    let order = Succession::new(size);
    for step in 0..usize::try_from(call.steps).unwrap_or(0) {
        let owner = order.owner(step);
        if owner == rank && faults.are_none() {
            faults.note(step, call.callbacks.produce(step, &elements));
        }
        let (mut header, mut course) = faults.own_header();
        communicator.share_bytes(&mut header, owner)?;
        if owner != rank {
            (_, course) = faults.merge(header);
        }
        if course == Course::Ends {
            break;
        }
        communicator.share_elements(&elements, owner)?;
        if faults.are_none() {
            faults.note(step, call.callbacks.store(step, &elements));
        }
    }
    agree(communicator, &faults)
}
