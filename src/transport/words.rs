//! Memory in units of bytes for an allgather of circulant's own: one word of each process.

use std::ffi::c_int;

use super::point_to_point::Memory;
use super::{Place, Space};
use crate::mpi::{Buffer, Error, MPI_Datatype, Region};

/// Words, and scratch for the engine behind them.
pub struct Words {
    words: Vec<u64>,
    /// The same memory.
    bytes: Region,
    /// Bytes of the words.
    result: usize,
}

impl Words {
    /// Bytes of a word.
    pub const LENGTH: usize = size_of::<u64>();

    /// For the words of `processes` processes, of which that of process `place` is `own`, with
    /// `scratch` bytes of scratch.
    pub fn new(processes: usize, place: usize, own: u64, scratch: usize) -> Words {
        let mut words = vec![0; processes + scratch.div_ceil(Words::LENGTH)];
        words[place] = own;
        let start = Buffer::new(words.as_mut_ptr().cast());
        // SAFETY: the region is used as long as the words, which are not moved meanwhile.
        let bytes = unsafe { Region::new(start, size_of_val(&words[..])) };
        Words {
            words,
            bytes,
            result: processes * Words::LENGTH,
        }
    }

    /// The words, in the order of the processes.
    pub fn into_words(self) -> Vec<u64> {
        let mut words = self.words;
        words.truncate(self.result / Words::LENGTH);
        words
    }

    fn region(&self, place: Place, length: usize) -> Region {
        let start = match place.space {
            Space::Input | Space::Result => place.offset,
            Space::Scratch => self.result + place.offset,
        };
        self.bytes.part(start..start + length)
    }
}

impl Memory for Words {
    fn stretch(&self, place: Place, length: usize) -> (Buffer, c_int, MPI_Datatype) {
        self.region(place, length).typed()
    }

    fn unit(&self) -> usize {
        1
    }

    fn is_one_piece(&self, _place: Place, _length: usize) -> bool {
        true
    }

    fn copy(&mut self, from: Place, to: Place, length: usize) -> Result<(), Error> {
        self.region(to, length).copy_from(self.region(from, length));
        Ok(())
    }

    /// Words are never combined.
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
