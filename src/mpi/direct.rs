//! Memory in units of packed bytes, for messages that are where they belong: nothing is packed on the
//! way.

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
