//! Memory in units of packed bytes, for messages of one size that pass through a process.
//!
//! Every message that is ever here has a slot in a staging area in scratch. The program's elements are
//! packed into slots before the first round, and unpacked after the last: the messages are small.

use super::datatype::copy_bytes;
use super::packed::Source;
use super::transport::Memory;
use super::{Buffer, Error, Private};
use crate::transport::Place;

/// The memory of an all-to-all exchange, a gather or a scatter.
pub struct Slots<'a> {
    /// Where each message is in the staging area, in slots.
    pub offsets: &'a [usize],
    /// Packed bytes of each message.
    pub length: usize,
    /// Scratch for the engine.
    pub scratch: Buffer,
    /// The staging area.
    pub staging: Buffer,
    /// For packing.
    pub communicator: &'a Private,
}

impl Slots<'_> {
    fn slot(&self, message: usize) -> Buffer {
        self.staging
            .offset((self.offsets[message] * self.length) as isize)
    }

    /// How many elements of a datatype of so many bytes a message is made of.
    fn count(&self, elements: &Source) -> usize {
        self.length / elements.datatype.size().max(1)
    }

    /// Packs message `message` from the program's elements for (or from) process `process`.
    pub fn put(&self, message: usize, elements: &Source, process: usize) -> Result<(), Error> {
        let (count, slot) = (self.count(elements), self.slot(message));
        let first = elements
            .datatype
            .element(elements.elements, (process * count) as isize);
        if elements.contiguous {
            copy_bytes(first, slot, self.length);
            return Ok(());
        }
        let datatype = elements.datatype;
        datatype.pack(first, count, slot, self.communicator)
    }

    /// Unpacks message `message` to the program's elements for (or from) process `process`.
    pub fn take(&self, message: usize, elements: &Source, process: usize) -> Result<(), Error> {
        let (count, slot) = (self.count(elements), self.slot(message));
        let first = elements
            .datatype
            .element(elements.elements, (process * count) as isize);
        if elements.contiguous {
            copy_bytes(slot, first, self.length);
            return Ok(());
        }
        let datatype = elements.datatype;
        datatype.unpack(slot, first, count, self.communicator)
    }
}

impl Memory for Slots<'_> {
    fn length(&self, _message: usize) -> usize {
        self.length
    }

    fn address(&self, place: Place) -> Buffer {
        match place {
            Place::Result { message, offset } | Place::Input { message, offset } => {
                self.slot(message).offset(offset as isize)
            }
            Place::Scratch { offset } => self.scratch.offset(offset as isize),
        }
    }
}
