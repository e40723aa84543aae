//! circulant_successive_bcast: n dependent broadcasts in order, with callbacks between them.
//!
//! Natively, a loop of MPI_Bcast from the same owners with the same callbacks, which ends as ours does where one
//! returns an error: a header goes before each value.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use super::{count, product, size};
use crate::communicator::{Need, Run, Service, State, Stop, Unit};
use crate::engine::{Course, Faults, Flow, HEADER};
use crate::mpi::{
    Buffer, Callbacks, Communicator, Datatype, Error, MPI_Datatype, Private, SUCCESS, Scratch,
    Source, Values, native,
};
use crate::plan::Order;
use crate::report::Work;
use crate::select::{Operation, Reason, Succession};

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
    let bytes = product(elements, size(call.datatype)?)?;
    let all = bytes.saturating_mul(steps);
    work.bytes = all as u64;
    state.blocks(Operation::SuccessiveBcast, all, all)?;
    let datatype = Datatype::new(call.datatype).ok_or(Stop::Native(Reason::Arguments))?;
    state.serve(&[], |service| {
        if !datatype.is_committed(&service.private) {
            return Err(Stop::Native(Reason::Arguments));
        }
        let by = state.succession(steps, Values::stride(bytes));
        let value = (elements, bytes, datatype);
        let (code, done, rounds) = run(state.order(), service, by, (steps, value), call)?;
        work.rounds = rounds as u64;
        work.blocks = done as u64;
        Ok(code)
    })
}

/// Runs `steps` steps of `elements` elements, which are `bytes` bytes. Returns the code, how many were run, and their
/// time in the port model.
fn run(
    order: Order,
    service: &mut Service,
    by: Succession,
    (steps, (elements, bytes, datatype)): (usize, (usize, usize, Datatype)),
    call: SuccessiveBcast,
) -> Result<(i32, usize, usize), Stop> {
    let Service {
        rank,
        private,
        pool,
        run,
        lists,
        ..
    } = service;
    let stride = Values::stride(bytes);
    let flows = [run.trees(stride), run.relay(stride)];
    let stretches = flows.map(|flow| flow.stretches(order.processes()));
    let stretches = match by {
        Succession::Trees => stretches[0],
        Succession::Relay => stretches[1],
        Succession::Auto => stretches[0].max(stretches[1]),
    };
    let contiguous = datatype.is_contiguous(private, &mut lists.packed);
    let need = Need {
        unit: Unit::Byte,
        // What does not fit into any memory does not fit into scratch.
        always: stretches.saturating_mul(stride),
        possible: 0,
        happens: false,
    };
    let scratch = pool.reserve(private, need)?;
    let (mut apart, mut faults) = (Scratch::default(), Faults::new(*rank));
    let source = Source {
        elements: one_value(&mut apart, datatype, elements, &mut faults),
        datatype,
        contiguous,
    };
    let values = Values {
        bytes,
        count: elements,
        elements: source,
        values: scratch,
        callbacks: call.callbacks,
        faults,
        in_callbacks: Duration::ZERO,
        communicator: private,
    };
    let stages = Stages {
        order,
        rank: *rank,
        run,
        private,
        values,
        steps,
        done: 0,
        rounds: 0,
    };
    let stages = stages.all(by, flows)?;
    let code = agree(private.communicator(), &stages.values.faults)?;
    Ok((code, stages.done, stages.rounds))
}

/// Callbacks are short where they take one of so many parts of the time.
const CALLBACKS_SHARE: u32 = 4;

/// One operation, of which some steps go one way and then others another.
struct Stages<'a> {
    order: Order,
    rank: usize,
    run: &'a Run,
    private: &'a Private,
    values: Values<'a>,
    /// n, or less once it is known that the operation ends early.
    steps: usize,
    /// Steps that were run, and their time in the port model.
    done: usize,
    rounds: usize,
}

impl Stages<'_> {
    /// Runs all steps, `by` one of two flows; by [`Succession::Auto`], by the faster of them.
    fn all(self, by: Succession, [trees, relay]: [Flow; 2]) -> Result<Self, Stop> {
        let (stages, flow) = match by {
            Succession::Trees => (self, trees),
            Succession::Relay => (self, relay),
            Succession::Auto => self.faster(trees, relay)?,
        };
        let left = stages.steps - stages.done;
        stages.some(left, flow)
    }

    /// Runs some steps by trees and, unless callbacks take long, some by relay. Returns what is faster: relay, if it took
    /// less time on all processes.
    ///
    /// Where storing takes long, it is better spread over all steps, as trees do; and callbacks that wait for
    /// those of other processes, as a relay's must not, take longer than a message.
    fn faster(self, trees: Flow, relay: Flow) -> Result<(Self, Flow), Stop> {
        let (stages, by_trees, in_callbacks) = self.timed(trees)?;
        let are_short = CALLBACKS_SHARE * in_callbacks <= by_trees;
        if stages.is_over() || !stages.agrees(are_short)? {
            return Ok((stages, trees));
        }
        let (stages, by_relay, _) = stages.timed(relay)?;
        if stages.is_over() {
            return Ok((stages, trees));
        }
        let is_relay = stages.agrees(by_relay < by_trees)?;
        Ok((stages, if is_relay { relay } else { trees }))
    }

    /// Whether all processes say so. Collective.
    fn agrees(&self, here: bool) -> Result<bool, Error> {
        self.private.communicator().all_agree(here)
    }

    fn is_over(&self) -> bool {
        self.done == self.steps
    }

    /// How long p steps take on this process, and in them its callbacks; after p that may have connections to make.
    fn timed(self, flow: Flow) -> Result<(Self, Duration, Duration), Stop> {
        let p = self.order.processes();
        let stages = self.some(p, flow)?;
        let (start, before) = (Instant::now(), stages.values.in_callbacks);
        let stages = stages.some(p, flow)?;
        let in_callbacks = stages.values.in_callbacks - before;
        Ok((stages, start.elapsed(), in_callbacks))
    }

    /// Runs `more` steps by `flow`, or as many as there are.
    fn some(self, more: usize, flow: Flow) -> Result<Self, Stop> {
        let (order, rank, end) = (self.order, self.rank, self.steps.min(self.done + more));
        let steps = self.done..end;
        let run = self.run;
        let (values, done) = run.succeed((order, rank), steps, flow, self.private, self.values)?;
        let ran = done - self.done;
        Ok(Stages {
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

/// What the address of a value is a multiple of, as callbacks are promised.
const VALUE_ALIGNMENT: usize = 16;

/// Memory for the elements of one value. Where there is none, that is this process' fault in step 0, which ends the
/// operation on all.
fn one_value(
    memory: &mut Scratch,
    datatype: Datatype,
    elements: usize,
    faults: &mut Faults,
) -> Buffer {
    let (before, span) = (datatype.shift(VALUE_ALIGNMENT), datatype.span(elements));
    if !memory.reserve(span.saturating_add(before)) {
        faults.note(0, native().constants.err_no_mem.0);
    }
    datatype.element_in(memory.start().offset(before as isize), 0)
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
    let Some(datatype) = Datatype::new(call.datatype) else {
        let class = Error(native().constants.err_type.0);
        return Err(Error(communicator.raise(class)));
    };
    let (rank, size) = (communicator.rank()?, communicator.size()?);
    let count = usize::try_from(call.count).unwrap_or(0);
    let (mut memory, mut faults) = (Scratch::default(), Faults::new(rank));
    let elements = one_value(&mut memory, datatype, count, &mut faults);
    // Nobody can be sent values without memory for them.
    let code = agree(communicator, &faults)?;
    if code != SUCCESS {
        return Ok(code);
    }
    let order = Order::new(size);
    for step in 0..usize::try_from(call.steps).unwrap_or(0) {
        let owner = order.owner(step);
        if owner == rank && faults.are_none() {
            faults.note(step, call.callbacks.produce(step, elements));
        }
        let (mut header, mut course) = faults.own_header();
        communicator.share_bytes(&mut header, owner)?;
        if owner != rank {
            course = merge(&mut faults, header);
        }
        if course == Course::Ends {
            break;
        }
        communicator.share_elements(elements, count, call.datatype, owner)?;
        if faults.are_none() {
            faults.note(step, call.callbacks.store(step, elements));
        }
    }
    agree(communicator, &faults)
}

fn merge(faults: &mut Faults, header: [u8; HEADER]) -> Course {
    faults.merge(header).1
}
