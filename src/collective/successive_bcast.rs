//! circulant_successive_bcast: n dependent broadcasts in order, with callbacks between them.
//!
//! Natively, a loop of MPI_Bcast from the same owners with the same callbacks, which ends as ours does where one
//! returns an error: a header goes before each value.

use std::ffi::c_int;

use super::{count, product, size};
use crate::communicator::{Need, Service, State, Stop, Unit};
use crate::engine::{Course, Faults, HEADER};
use crate::mpi::{
    Buffer, Callbacks, Communicator, Datatype, Error, MPI_Datatype, SUCCESS, Scratch, Source,
    Values, native,
};
use crate::plan::Order;
use crate::report::Work;
use crate::select::{Operation, Reason};

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
        let done = run(
            state.order(),
            service,
            call,
            (steps, elements, bytes, datatype),
        )?;
        work.rounds = state.order().time(done.0) as u64;
        work.blocks = done.0 as u64;
        Ok(done.1)
    })
}

/// Runs `steps` steps of `elements` elements, which are `bytes` bytes; returns how many were run, and the code.
fn run(
    order: Order,
    service: &mut Service,
    call: SuccessiveBcast,
    (steps, elements, bytes, datatype): (usize, usize, usize, Datatype),
) -> Result<(usize, i32), Stop> {
    let Service {
        rank,
        private,
        pool,
        run,
        lists,
        ..
    } = service;
    let flow = run.flow(Values::stride(bytes));
    // What does not fit into any memory does not fit into scratch.
    let ring = flow.stretches().saturating_mul(Values::stride(bytes));
    let contiguous = datatype.is_contiguous(private, &mut lists.packed);
    let need = Need {
        unit: Unit::Byte,
        always: ring,
        possible: 0,
        happens: false,
    };
    let scratch = pool.reserve(private, need)?;
    let (mut apart, mut faults) = (Scratch::default(), Faults::new(*rank));
    let elements_apart = (!contiguous).then(|| Source {
        elements: one_value(&mut apart, datatype, elements, &mut faults),
        datatype,
        contiguous: false,
    });
    let values = Values {
        bytes,
        count: elements,
        elements: elements_apart,
        ring: scratch,
        callbacks: call.callbacks,
        faults,
        communicator: private,
    };
    let (values, done) = run.succeed((order, *rank), (0, steps), flow, private, values)?;
    let code = agree(private.communicator(), &values.faults)?;
    Ok((done, code))
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
