//! Memory in units of packed bytes, for blocks that are stored.
//!
//! Block boundaries are byte offsets in the packed data, because processes may describe the same
//! signature with different datatypes. Each message has a *home* where its packed bytes are: the
//! program's buffer itself where that is contiguous, else a staging area in scratch. Data goes
//!
//! ```text
//! source --about_to_send--> home (--network--> home) --arrived--> sink
//! ```
//!
//! block by block, so that packing and unpacking overlap with the transfers. Elements that a block
//! boundary cuts cannot be unpacked before both blocks are there; they are unpacked at the end.

use super::datatype::copy_bytes;
use super::transport::Memory;
use super::{Buffer, Datatype, Error, Private};
use crate::plan::block_range;
use crate::transport::Place;

/// One message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Packed bytes.
    pub length: usize,
    /// Where the program has, or wants, its elements.
    pub elements: Buffer,
    /// Where its packed bytes are: at `elements`, or at this offset in the staging area.
    pub staged: Option<usize>,
}

/// The memory of a broadcast (one message) or an allgather (one a process).
pub struct Packed<'a> {
    /// The messages.
    pub messages: &'a [Message],
    /// How `elements` are laid out, in every message.
    pub datatype: Datatype,
    /// The message that this process is the root of, if any, and where its data comes from.
    pub own: Option<Own>,
    /// n.
    pub blocks: usize,
    /// Scratch for the engine, and behind it the staging area.
    pub scratch: Buffer,
    /// Where the staging area starts in scratch, in bytes.
    pub staging: usize,
    /// For packing.
    pub communicator: &'a Private,
}

/// Elements of the program that are to be packed or unpacked.
#[derive(Clone, Copy)]
pub struct Source {
    /// Where they are.
    pub elements: Buffer,
    /// What they are.
    pub datatype: Datatype,
    /// Whether they are packed as they are.
    pub contiguous: bool,
}

impl Source {
    /// Packs `count` of them, from the `first` on, to `to`.
    pub fn pack(
        &self,
        first: usize,
        count: usize,
        to: Buffer,
        communicator: &Private,
    ) -> Result<(), Error> {
        let from = self.datatype.element(self.elements, first as isize);
        if self.contiguous {
            copy_bytes(from, to, count * self.datatype.size());
            return Ok(());
        }
        self.datatype.pack(from, count, to, communicator)
    }

    /// Unpacks `count` of them, from the first on, from `from`.
    pub fn unpack(&self, count: usize, from: Buffer, communicator: &Private) -> Result<(), Error> {
        if self.contiguous {
            copy_bytes(from, self.elements, count * self.datatype.size());
            return Ok(());
        }
        self.datatype
            .unpack(from, self.elements, count, communicator)
    }
}

/// A message that starts here.
pub struct Own {
    /// Which message.
    pub message: usize,
    /// The program's elements: `None` if they are at home already.
    pub source: Option<Source>,
    /// Bytes that are at home.
    pub packed: usize,
    /// Whether the message is to be unpacked to its `elements` as if it had been received.
    pub unpacked_at_end: bool,
}

impl Packed<'_> {
    fn home(&self, message: &Message) -> Buffer {
        match message.staged {
            None => message.elements,
            Some(offset) => self.scratch.offset((self.staging + offset) as isize),
        }
    }

    /// Brings the first `end` bytes of the own message home.
    fn bring_home(&mut self, end: usize) -> Result<(), Error> {
        let Some(own) = &self.own else { return Ok(()) };
        let Some(source) = own.source else {
            return Ok(());
        };
        if own.packed >= end {
            return Ok(());
        }
        let size = source.datatype.size();
        let first = own.packed / size;
        let count = end.div_ceil(size) - first;
        let home = self
            .home(&self.messages[own.message])
            .offset((first * size) as isize);
        if let Some(own) = &mut self.own {
            own.packed = (first + count) * size;
        }
        source.pack(first, count, home, self.communicator)
    }

    /// Unpacks elements `first..end` of message `message`.
    fn unpack(&self, message: usize, first: usize, end: usize) -> Result<(), Error> {
        let message = &self.messages[message];
        if message.staged.is_none() || first >= end {
            return Ok(());
        }
        let from = self
            .home(message)
            .offset((first * self.datatype.size()) as isize);
        let to = self.datatype.element(message.elements, first as isize);
        self.datatype
            .unpack(from, to, end - first, self.communicator)
    }

    /// When all blocks are there: unpacks the elements that boundaries cut, and the own message.
    pub fn finish(&mut self) -> Result<(), Error> {
        for message in 0..self.messages.len() {
            if self.own.as_ref().is_some_and(|own| own.message == message) {
                self.finish_own(message)?;
            } else if self.messages[message].staged.is_some() {
                self.unpack_cut_elements(message)?;
            }
        }
        Ok(())
    }

    fn finish_own(&mut self, message: usize) -> Result<(), Error> {
        let length = self.messages[message].length;
        self.bring_home(length)?;
        match &self.own {
            Some(own) if own.unpacked_at_end => {
                self.unpack(message, 0, length / self.datatype.size().max(1))
            }
            _ => Ok(()),
        }
    }

    fn unpack_cut_elements(&self, message: usize) -> Result<(), Error> {
        let (length, size) = (self.messages[message].length, self.datatype.size());
        let mut next = 0;
        for block in 1..self.blocks {
            let cut = block_range(length, self.blocks, block).start;
            let element = cut / size;
            if cut % size != 0 && element >= next {
                self.unpack(message, element, element + 1)?;
                next = element + 1;
            }
        }
        Ok(())
    }
}

impl Memory for Packed<'_> {
    fn length(&self, message: usize) -> usize {
        self.messages[message].length
    }

    fn address(&self, place: Place) -> Buffer {
        match place {
            Place::Result { message, offset } | Place::Input { message, offset } => {
                self.home(&self.messages[message]).offset(offset as isize)
            }
            Place::Scratch { offset } => self.scratch.offset(offset as isize),
        }
    }

    fn about_to_send(&mut self, message: usize, offset: usize, length: usize) -> Result<(), Error> {
        debug_assert!(self.own.as_ref().is_some_and(|own| own.message == message));
        self.bring_home(offset + length)
    }

    fn arrived(&mut self, message: usize, offset: usize, length: usize) -> Result<(), Error> {
        if self.messages[message].staged.is_none() {
            return Ok(());
        }
        let size = self.datatype.size();
        self.unpack(message, offset.div_ceil(size), (offset + length) / size)
    }
}
