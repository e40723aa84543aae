//! Memory of successive broadcasts: packed values, each behind a header, and the program's callbacks
//! between them.
//!
//! What its stretches are for is the executors' to say (`trees.rs`, `turns.rs`).
//!
//! A value that is stored is given to the callback as elements in memory of its own, since it may
//! still be on its way to others, and the program may write there. One that is produced is made where
//! it is sent from, if elements are packed as they are; else in that memory, too, and packed.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::time::{Duration, Instant};

use super::faults::{Course, Faults, HEADER};
use super::flow::Steps;
use crate::mpi::{Allocation, Array, Buffer, Datatype, Error, MPI_Datatype, Region, int};
use crate::transport::{Memory, Packing, Place, PointToPoint};

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
    /// During the call of the operation, both may be called with the number of a step, the address of
    /// one value and `context`.
    pub unsafe fn new(produce: Step, store: Step, context: *mut c_void) -> Callbacks {
        Callbacks {
            produce,
            store,
            context,
        }
    }

    /// Makes the value of `step`, which is these elements; the callback's code.
    pub fn produce(&self, step: usize, value: &Array) -> i32 {
        // SAFETY: by the contract of `new`.
        unsafe { (self.produce)(int(step), value.first().as_ptr(), self.context) }
    }

    /// Stores the value of `step`, which is these elements; the callback's code.
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

/// What the address of a value is a multiple of, as callbacks are promised.
const ALIGNMENT: usize = 16;

impl OneValue {
    /// `count` elements of `datatype`; none if there is no memory.
    pub fn new(count: usize, datatype: Datatype) -> Option<OneValue> {
        let (before, span) = (datatype.shift(ALIGNMENT), datatype.span(count));
        let mut memory = Allocation::default();
        if !memory.reserve(span.saturating_add(before)) {
            return None;
        }
        // SAFETY: the elements are used as long as this, which owns the memory.
        let region = unsafe { memory.region() };
        Some(OneValue {
            elements: Array::inside(region.part(before..before + span), count, datatype),
            _memory: memory,
        })
    }

    /// No elements.
    pub fn none(datatype: Datatype) -> OneValue {
        OneValue {
            elements: Array::inside(Region::empty(), 0, datatype),
            _memory: Allocation::default(),
        }
    }
}

/// The values of one operation on one process.
pub struct Values {
    /// Packed bytes of a value.
    bytes: usize,
    /// The elements of one value, which `one` owns.
    packing: Packing,
    one: OneValue,
    /// Packed values behind headers, [`Values::stride`] apart.
    values: Region,
    allocation: Allocation,
    callbacks: Callbacks,
    /// What has gone wrong.
    pub faults: Faults,
    /// The time in callbacks until now.
    pub in_callbacks: Duration,
}

impl Values {
    /// With `stretches` stretches for values of `bytes` bytes in `allocation`; `packing` is that of
    /// the elements of `one`.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn new(
        allocation: Allocation,
        stretches: usize,
        (one, packing, bytes): (OneValue, Packing, usize),
        callbacks: Callbacks,
        faults: Faults,
    ) -> Values {
        // SAFETY: the region is used as long as this, which owns the allocation.
        let region = unsafe { allocation.region() };
        Values {
            bytes,
            packing,
            one,
            values: region.part(0..stretches * Values::stride(bytes)),
            allocation,
            callbacks,
            faults,
            in_callbacks: Duration::ZERO,
        }
    }

    /// Bytes from one value of `bytes` bytes to the next: values begin where any C type may.
    pub fn stride(bytes: usize) -> usize {
        const LINE: usize = 64;
        let both = bytes.saturating_add(HEADER);
        both.checked_next_multiple_of(LINE).unwrap_or(usize::MAX)
    }

    /// Its memory, for another call.
    pub fn into_allocation(self) -> Allocation {
        self.allocation
    }

    fn header(&self, place: Place) -> Region {
        self.part(place, 0..HEADER)
    }

    fn packed(&self, place: Place) -> Region {
        self.part(place, HEADER..HEADER + self.bytes)
    }

    fn part(&self, place: Place, range: Range<usize>) -> Region {
        self.values
            .part(place.offset + range.start..place.offset + range.end)
    }

    fn produce(&mut self, step: usize, place: Place) -> Result<Course, Error> {
        let is_contiguous = self.packing.bytes().is_some();
        if self.faults.are_none() {
            let elements = self.one.elements;
            let made = if is_contiguous {
                Array::inside(self.packed(place), elements.count(), *elements.datatype())
            } else {
                elements
            };
            let code = self.timed(|callbacks| callbacks.produce(step, &made));
            self.faults.note(step, code);
        }
        let (header, course) = self.faults.own_header();
        self.header(place).write(header);
        if course == Course::GoesOn && !is_contiguous {
            self.packing.pack_all(self.packed(place))?;
        }
        Ok(course)
    }

    fn received(&mut self, place: Place) -> Course {
        let (header, course) = self.faults.merge(self.header(place).read());
        self.header(place).write(header);
        course
    }

    fn store(&mut self, step: usize, place: Place) -> Result<(), Error> {
        if !self.faults.are_none() {
            return Ok(());
        }
        self.packing.unpack_all(self.packed(place))?;
        let elements = self.one.elements;
        let code = self.timed(|callbacks| callbacks.store(step, &elements));
        self.faults.note(step, code);
        Ok(())
    }

    fn timed(&mut self, callback: impl FnOnce(Callbacks) -> i32) -> i32 {
        let start = Instant::now();
        let code = callback(self.callbacks);
        self.in_callbacks += start.elapsed();
        code
    }
}

impl Memory for Values {
    fn stretch(&self, place: Place, length: usize) -> (Buffer, c_int, MPI_Datatype) {
        self.part(place, 0..length).typed()
    }

    fn unit(&self) -> usize {
        1
    }

    fn is_one_piece(&self, _place: Place, _length: usize) -> bool {
        true
    }

    fn copy(&mut self, from: Place, to: Place, length: usize) -> Result<(), Error> {
        self.part(to, 0..length)
            .copy_from(self.part(from, 0..length));
        Ok(())
    }

    /// Values are never combined.
    fn combine(&mut self, _from: Place, _into: Place, _length: usize) -> Result<(), Error> {
        Ok(())
    }

    fn pack(&mut self, _place: Place, _length: usize) -> Result<(), Error> {
        Ok(())
    }

    fn unpack(&mut self, _place: Place, _length: usize) -> Result<(), Error> {
        Ok(())
    }
}

impl Steps for PointToPoint<Values> {
    fn place(&self, index: usize) -> Place {
        Place::scratch(index * self.stride())
    }

    fn length(&self) -> usize {
        HEADER + self.memory.bytes
    }

    fn stride(&self) -> usize {
        Values::stride(self.memory.bytes)
    }

    fn produce(&mut self, step: usize, place: Place) -> Result<Course, Error> {
        self.memory.produce(step, place)
    }

    fn received(&mut self, _step: usize, place: Place) -> Result<Course, Error> {
        Ok(self.memory.received(place))
    }

    fn store(&mut self, step: usize, place: Place) -> Result<(), Error> {
        self.memory.store(step, place)
    }

    fn withdraw(&mut self) -> Result<(), Error> {
        self.give_up();
        Ok(())
    }
}
