//! The values of successive broadcasts on one process: packed behind headers, in the transport's
//! scratch, and as elements for the program's callbacks.
//!
//! A value is stored from memory of its own: the packed value may still be on its way to others,
//! and the program may write to its buffer. A value is produced where it is sent from, if elements
//! are their packed form. Otherwise it is produced in the same memory of its own, and packed.

use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use super::faults::{Faults, Header};
use super::turns::Steps;
use crate::mpi::{Allocation, Array, Datatype, Error, Region, int, native};
use crate::transport::{Bytes, Packing, Place, PointToPoint};

/// A callback: gets the step, the value and the program's context; returns 0 or an error code.
pub type Step = unsafe extern "C" fn(c_int, *mut c_void, *mut c_void) -> c_int;

/// The program's callbacks.
#[derive(Clone, Copy)]
pub struct Callbacks {
    produce: Step,
    store: Step,
    context: *mut c_void,
}

impl Callbacks {
    /// # Safety
    /// During the operation both callbacks may be called with the number of a step, the address of
    /// one value, and `context`.
    pub unsafe fn new(produce: Step, store: Step, context: *mut c_void) -> Callbacks {
        Callbacks {
            produce,
            store,
            context,
        }
    }

    /// Produces the value of `step` in these elements. Returns the callback's code.
    pub fn produce(&self, step: usize, value: &Array) -> i32 {
        // SAFETY: by the contract of `new`.
        unsafe { (self.produce)(int(step), value.first().as_ptr(), self.context) }
    }

    /// Stores the value of `step`, which is these elements. Returns the callback's code.
    pub fn store(&self, step: usize, value: &Array) -> i32 {
        // SAFETY: by the contract of `new`.
        unsafe { (self.store)(int(step), value.first().as_ptr(), self.context) }
    }
}

/// The elements of one value, in memory of their own.
pub struct OneValue {
    /// The elements.
    pub elements: Array,
    _memory: Allocation,
}

impl OneValue {
    /// `count` elements of `datatype`. Without memory for them there are none, which is a fault in
    /// step 0: it ends the operation on all processes.
    pub fn new(count: usize, datatype: Datatype, faults: &mut Faults) -> OneValue {
        /// The alignment that callbacks are promised.
        const ALIGNMENT: usize = 16;
        let (before, span) = (datatype.shift(ALIGNMENT), datatype.span(count));
        let mut memory = Allocation::default();
        let has_memory = memory.reserve(span.saturating_add(before));
        // SAFETY: the elements are used as long as this value, which owns the memory.
        let region = unsafe { memory.region() };
        let elements = if has_memory {
            Array::inside(region.part(before..before + span), count, datatype)
        } else {
            faults.note(0, native().constants.err_no_mem.0);
            Array::inside(Region::empty(), 0, datatype)
        };
        OneValue {
            elements,
            _memory: memory,
        }
    }
}

/// Bytes of a header.
const HEADER: usize = size_of::<Header>();

/// A header on the wire.
pub fn encoded([key, code]: Header) -> [u8; HEADER] {
    (u128::from(code) << 64 | u128::from(key)).to_le_bytes()
}

/// The header that was sent as these bytes.
pub fn decoded(bytes: [u8; HEADER]) -> Header {
    let both = u128::from_le_bytes(bytes);
    [both as u64, (both >> 64) as u64]
}

/// The values of one operation on one process.
pub struct Values {
    /// The transport, which owns the memory of the packed values.
    pub transport: PointToPoint<Bytes>,
    /// That memory.
    pub packed: Region,
    /// Packed bytes of a value.
    pub bytes: usize,
    /// The elements of one value.
    pub one: OneValue,
    /// How they are packed.
    pub packing: Packing,
    /// The program's callbacks.
    pub callbacks: Callbacks,
    /// The faults that this process knows of.
    pub faults: Faults,
    /// The time in callbacks until now.
    pub in_callbacks: Duration,
}

impl Values {
    /// Bytes from one value of `bytes` bytes to the next. Values are aligned for any C type.
    pub fn stride(bytes: usize) -> usize {
        const LINE: usize = 64;
        let both = bytes.saturating_add(HEADER);
        both.checked_next_multiple_of(LINE).unwrap_or(usize::MAX)
    }

    fn header_at(&self, place: Place) -> Region {
        self.packed.part(place.offset..place.offset + HEADER)
    }

    fn value_at(&self, place: Place) -> Region {
        let start = place.offset + HEADER;
        self.packed.part(start..start + self.bytes)
    }

    fn timed(&mut self, callback: impl FnOnce(Callbacks) -> i32) -> i32 {
        let start = Instant::now();
        let code = callback(self.callbacks);
        self.in_callbacks += start.elapsed();
        code
    }
}

impl Steps for Values {
    type Error = Error;
    type Link = PointToPoint<Bytes>;

    fn link(&mut self) -> &mut PointToPoint<Bytes> {
        &mut self.transport
    }

    fn length(&self) -> usize {
        HEADER + self.bytes
    }

    fn stride(&self) -> usize {
        Values::stride(self.bytes)
    }

    fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    fn header(&self, place: Place) -> Header {
        decoded(self.header_at(place).read())
    }

    fn set_header(&mut self, place: Place, header: Header) {
        self.header_at(place).write(encoded(header));
    }

    fn produce(&mut self, step: usize, place: Place) -> Result<c_int, Error> {
        let (elements, value) = (self.one.elements, self.value_at(place));
        if self.packing.bytes().is_some() {
            let made = Array::inside(value, elements.count(), *elements.datatype());
            return Ok(self.timed(|callbacks| callbacks.produce(step, &made)));
        }
        let code = self.timed(|callbacks| callbacks.produce(step, &elements));
        if code == 0 {
            self.packing.pack_all(value)?;
        }
        Ok(code)
    }

    fn store(&mut self, step: usize, place: Place) -> Result<c_int, Error> {
        let elements = self.one.elements;
        self.packing.unpack_all(self.value_at(place))?;
        Ok(self.timed(|callbacks| callbacks.store(step, &elements)))
    }

    fn withdraw(&mut self) {
        self.transport.give_up();
    }
}
