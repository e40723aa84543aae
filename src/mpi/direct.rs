//! Memory in units of packed bytes, for messages that are where they belong: nothing is packed on the
//! way.

use std::marker::PhantomData;

use super::{Buffer, Memory};
use crate::transport::Place;

/// One message.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Where its bytes are; of no importance on a process that neither sends nor receives it.
    pub start: Buffer,
    /// Packed bytes.
    pub length: usize,
}

/// The memory of an exchange, or of an allgather.
pub struct Direct<'a> {
    /// The messages.
    pub messages: &'a [Span],
    /// Scratch for the engine.
    pub scratch: Buffer,
}

impl Memory for Direct<'_> {
    fn length(&self, message: usize) -> usize {
        self.messages[message].length
    }

    fn address(&self, place: Place) -> Buffer {
        match place {
            Place::Result { message, offset } | Place::Input { message, offset } => {
                self.messages[message].start.offset(offset as isize)
            }
            Place::Scratch { offset } => self.scratch.offset(offset as isize),
        }
    }
}

/// The memory of an allgather of one word a process: the words, and scratch for the engine.
pub struct Words<'a> {
    start: Buffer,
    scratch: Buffer,
    memory: PhantomData<&'a mut [u64]>,
}

impl<'a> Words<'a> {
    /// Bytes of a word.
    pub const LENGTH: usize = size_of::<u64>();

    /// The first `processes` of `memory` are the words; the rest is scratch.
    pub fn new(memory: &'a mut [u64], processes: usize) -> Words<'a> {
        let start = Buffer(memory.as_mut_ptr().cast());
        Words {
            start,
            scratch: start.offset((processes * Self::LENGTH) as isize),
            memory: PhantomData,
        }
    }
}

impl Memory for Words<'_> {
    fn length(&self, _message: usize) -> usize {
        Self::LENGTH
    }

    fn address(&self, place: Place) -> Buffer {
        match place {
            Place::Result { message, offset } | Place::Input { message, offset } => self
                .start
                .offset((message * Self::LENGTH + offset) as isize),
            Place::Scratch { offset } => self.scratch.offset(offset as isize),
        }
    }
}
