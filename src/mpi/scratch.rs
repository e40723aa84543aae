//! Memory that is kept between calls: aligned for any datatype, reserved ahead, never shrunk.

use super::Buffer;

/// What allocations are aligned to: a cache line, and more than any C type needs.
const ALIGNMENT: usize = 64;

/// A stretch of memory of a communicator's own.
#[derive(Debug, Default)]
pub struct Scratch {
    memory: Vec<u8>,
}

impl Scratch {
    /// Bytes that it holds.
    pub fn capacity(&self) -> usize {
        self.memory.capacity().saturating_sub(ALIGNMENT)
    }

    /// Makes it hold `bytes`, and says whether it does. What it held before is lost. The memory is
    /// not touched, so the system provides it only where it is used.
    pub fn reserve(&mut self, bytes: usize) -> bool {
        if self.capacity() >= bytes {
            return true;
        }
        self.memory = Vec::new();
        self.memory
            .try_reserve_exact(bytes.saturating_add(ALIGNMENT))
            .is_ok()
    }

    /// Its start, aligned.
    pub fn start(&mut self) -> Buffer {
        let start = self.memory.as_mut_ptr();
        Buffer(start.wrapping_add(start.align_offset(ALIGNMENT)))
    }
}
