//! Memory in units of elements, for blocks that are combined.
//!
//! Reductions cut at element boundaries, and combine elements of the program's own datatype with
//! the program's own operator; so elements keep their layout also in scratch and on the way there,
//! and the MPI library packs what has gaps.

use super::sys::MPI_Datatype;

use super::transport::Memory;
use super::{Buffer, Datatype, Error, Operator, Private};
use crate::transport::Place;

/// Where each message starts and how long it is, in elements.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    /// Elements from the start of the input.
    pub start: usize,
    /// Elements.
    pub length: usize,
}

/// The memory of a reduction (one message), or a reduce-scatter or an allreduce (one a process).
pub struct Elements<'a> {
    /// The messages.
    pub messages: &'a [Layout],
    /// Of the elements.
    pub datatype: Datatype,
    /// What combines them.
    pub operator: Operator,
    /// This process' own contribution, all messages.
    pub input: Buffer,
    /// Where the result goes: the message that is rooted here, or all of them.
    pub result: Buffer,
    /// Whether it is all of them, as in the input.
    pub gathered: bool,
    /// Whether that is where its input is.
    pub in_place: bool,
    /// Scratch for the engine.
    pub scratch: Buffer,
    /// For copies of elements that have gaps.
    pub packed: &'a mut Vec<u8>,
    /// For packing.
    pub communicator: &'a Private,
}

impl Elements<'_> {
    /// Copies the input of the only message to `aside`, where it is from now on.
    pub fn keep_input(&mut self, aside: Buffer) -> Result<(), Error> {
        let length = self.messages[0].length;
        self.datatype
            .copy(self.input, aside, length, self.packed, self.communicator)?;
        self.input = aside;
        Ok(())
    }

    /// Copies message `message` from where its result was made to where it belongs, if that is
    /// elsewhere.
    pub fn copy_result(&mut self, message: usize, to: Buffer) -> Result<(), Error> {
        let length = self.messages[message].length;
        if to == self.result {
            return Ok(());
        }
        self.datatype
            .copy(self.result, to, length, self.packed, self.communicator)
    }
}

impl Memory for Elements<'_> {
    fn length(&self, message: usize) -> usize {
        self.messages[message].length
    }

    fn in_place(&self) -> bool {
        self.in_place
    }

    fn address(&self, place: Place) -> Buffer {
        match place {
            Place::Result { message, offset } => {
                let start = if self.gathered {
                    self.messages[message].start
                } else {
                    0
                };
                self.datatype
                    .element(self.result, (start + offset) as isize)
            }
            Place::Input { message, offset } => {
                let index = self.messages[message].start + offset;
                self.datatype.element(self.input, index as isize)
            }
            Place::Scratch { offset } => self.datatype.element_in(self.scratch, offset),
        }
    }

    fn end(&self, start: Buffer, length: usize) -> Buffer {
        self.datatype.element(start, length as isize)
    }

    fn unit(&self) -> MPI_Datatype {
        self.datatype.handle()
    }

    fn unit_size(&self) -> usize {
        self.datatype.size()
    }

    fn copy(&mut self, from: Place, to: Place, length: usize) -> Result<(), Error> {
        let (from, to) = (self.address(from), self.address(to));
        self.datatype
            .copy(from, to, length, self.packed, self.communicator)
    }

    fn combine(&mut self, from: Place, into: Place, length: usize) -> Result<(), Error> {
        let (from, into) = (self.address(from), self.address(into));
        self.operator.reduce(from, into, length, &self.datatype)
    }
}
