//! Memory of successive broadcasts: packed values, each behind a header, and the program's
//! callbacks between them.
//!
//! What the stretches of it are for is the executors' to say (`engine/trees.rs`, `engine/turns.rs`).
//!
//! A value that is stored is given to the callback as elements in memory of its own, since it may still be on its way to
//! others, and the program may write there. One that is produced is made where it is sent from, if elements are
//! packed as they are; else in that memory, too, and packed.

use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use super::datatype::copy_bytes;
use super::packed::{Packed, Source};
use super::transport::{Memory, PointToPoint, int};
use super::{Buffer, Error, Private};
use crate::engine::{Course, Faults, HEADER, Steps};
use crate::transport::Place;

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
    /// During the call of the operation, both may be called with the number of a step, the address of one value
    /// and `context`.
    pub unsafe fn new(produce: Step, store: Step, context: *mut c_void) -> Callbacks {
        Callbacks {
            produce,
            store,
            context,
        }
    }

    /// Makes the value of `step` at `elements`; the callback's code.
    pub fn produce(&self, step: usize, elements: Buffer) -> i32 {
        // SAFETY: by the contract of `new`.
        unsafe { (self.produce)(int(step), elements.write(), self.context) }
    }

    /// Stores the value of `step` at `elements`; the callback's code.
    pub fn store(&self, step: usize, elements: Buffer) -> i32 {
        // SAFETY: by the contract of `new`.
        unsafe { (self.store)(int(step), elements.write(), self.context) }
    }
}

/// The values of one operation on one process.
pub struct Values<'a> {
    /// Packed bytes of a value, and elements.
    pub bytes: usize,
    /// How many elements those are.
    pub count: usize,
    /// The memory of the elements of one value.
    pub elements: Source,
    /// Packed values behind headers, [`Values::stride`] apart.
    pub values: Buffer,
    /// The program's.
    pub callbacks: Callbacks,
    /// What has gone wrong.
    pub faults: Faults,
    /// The time in callbacks until now.
    pub in_callbacks: Duration,
    /// For packing.
    pub communicator: &'a Private,
}

impl Values<'_> {
    /// Bytes from one value of `bytes` bytes to the next: values begin where any C type may.
    pub fn stride(bytes: usize) -> usize {
        const LINE: usize = 64;
        let both = bytes.saturating_add(HEADER);
        both.checked_next_multiple_of(LINE).unwrap_or(usize::MAX)
    }

    fn packed(&self, place: Place) -> Buffer {
        self.address(place).offset(HEADER as isize)
    }

    fn produce(&mut self, step: usize, place: Place) -> Result<Course, Error> {
        let packed = self.packed(place);
        if self.faults.are_none() {
            let (callbacks, source) = (self.callbacks, self.elements);
            let made = if source.contiguous {
                packed
            } else {
                source.elements
            };
            let code = self.timed(|| callbacks.produce(step, made));
            self.faults.note(step, code);
        }
        let (header, course) = self.faults.own_header();
        self.set_header(place, header);
        if course == Course::GoesOn && !self.elements.contiguous {
            self.elements
                .pack(0, self.count, packed, self.communicator)?;
        }
        Ok(course)
    }

    fn received(&mut self, place: Place) -> Course {
        let (header, course) = self.faults.merge(self.header(place));
        self.set_header(place, header);
        course
    }

    fn header(&self, place: Place) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        copy_bytes(self.address(place), Buffer(header.as_mut_ptr()), HEADER);
        header
    }

    fn set_header(&self, place: Place, mut header: [u8; HEADER]) {
        copy_bytes(Buffer(header.as_mut_ptr()), self.address(place), HEADER);
    }

    fn store(&mut self, step: usize, place: Place) -> Result<(), Error> {
        if !self.faults.are_none() {
            return Ok(());
        }
        let (callbacks, source, packed) = (self.callbacks, self.elements, self.packed(place));
        source.unpack(self.count, packed, self.communicator)?;
        let code = self.timed(|| callbacks.store(step, source.elements));
        self.faults.note(step, code);
        Ok(())
    }

    fn timed(&mut self, callback: impl FnOnce() -> i32) -> i32 {
        let start = Instant::now();
        let code = callback();
        self.in_callbacks += start.elapsed();
        code
    }
}

impl Memory for Values<'_> {
    fn length(&self, _message: usize) -> usize {
        HEADER + self.bytes
    }

    fn varies(&self) -> bool {
        true
    }

    fn address(&self, place: Place) -> Buffer {
        match place {
            Place::Result { offset, .. }
            | Place::Input { offset, .. }
            | Place::Scratch { offset } => self.values.offset(offset as isize),
        }
    }
}

impl Steps for PointToPoint<'_, Values<'_>> {
    fn place(&self, index: usize) -> Place {
        Place::Scratch {
            offset: index * self.stride(),
        }
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

/// A broadcast of one message that is one step of a succession: there are no callbacks, and no errors of theirs.
impl Steps for PointToPoint<'_, Packed<'_>> {
    fn place(&self, _index: usize) -> Place {
        Place::Result {
            message: 0,
            offset: 0,
        }
    }

    fn stride(&self) -> usize {
        self.memory.length(0)
    }

    fn produce(&mut self, _step: usize, _place: Place) -> Result<Course, Error> {
        let length = self.memory.length(0);
        self.memory.about_to_send(0, 0, length)?;
        Ok(Course::GoesOn)
    }

    fn received(&mut self, _step: usize, _place: Place) -> Result<Course, Error> {
        Ok(Course::GoesOn)
    }

    fn store(&mut self, _step: usize, _place: Place) -> Result<(), Error> {
        if self.memory.own.is_some() {
            return Ok(());
        }
        let length = self.memory.length(0);
        self.memory.arrived(0, 0, length)
    }

    fn withdraw(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
