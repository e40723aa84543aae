//! Memory of circulant's own: aligned for any datatype, kept between calls, never shrunk.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use super::{Buffer, Region};

/// What allocations are aligned to: a cache line, and more than any C type needs.
pub const ALIGNMENT: usize = 64;

/// What the allocator aligns to. (To more than this it would write the zeros itself.)
const ALLOCATED: usize = 16;

/// A stretch of memory, or none.
#[derive(Debug, Default)]
pub struct Allocation(Option<(NonNull<u8>, Layout)>);

// SAFETY: the memory is this allocation's alone.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// Bytes that it holds.
    pub fn capacity(&self) -> usize {
        self.0.map_or(0, |(_, layout)| layout.size() - ALIGNMENT)
    }

    /// Makes it hold `bytes`, and says whether it does. What it held before is lost. The memory is
    /// zeros that are not touched, so the system provides it only where it is used.
    pub fn reserve(&mut self, bytes: usize) -> bool {
        if self.capacity() >= bytes {
            return true;
        }
        self.free();
        let size = bytes.saturating_add(ALIGNMENT);
        let Ok(layout) = Layout::from_size_align(size, ALLOCATED) else {
            return false;
        };
        // SAFETY: the size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        self.0 = start.map(|start| (start, layout));
        self.0.is_some()
    }

    /// Its bytes, from an aligned address on.
    ///
    /// # Safety
    /// The region is not used after the allocation is dropped or [reserved](Allocation::reserve)
    /// anew.
    pub unsafe fn region(&self) -> Region {
        let Some((start, _)) = self.0 else {
            return Region::empty();
        };
        let start = start.as_ptr();
        let start = start.wrapping_add(start.align_offset(ALIGNMENT));
        // SAFETY: the alignment was allocated besides the capacity, and the memory is there as long as
        // the region by this function's contract.
        unsafe { Region::new(Buffer::new(start.cast()), self.capacity()) }
    }

    fn free(&mut self) {
        if let Some((start, layout)) = self.0.take() {
            // SAFETY: allocated with this layout, and given up here.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.free();
    }
}
