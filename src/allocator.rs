//! The allocator of the preloaded library: where the system has no memory, a reserve has some.
//!
//! What a call needs much of is reserved by all its processes together, who go native where one of
//! them has none ([`pool`](crate::pool)). The rest is small: some kilobytes for each communicator.
//! Rust ends a process that does not get it, and a process that went native alone would be waited
//! for. So small allocations that the system refuses come from a [reserve](RESERVE) in the
//! library's own data, which costs address space only until then. Once that is used up, too, the
//! process ends.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of the reserve.
pub const RESERVE: usize = CELL * CELLS;

/// What the reserve is given out in: bytes, and the largest alignment that it has.
const CELL: usize = 64;
const CELLS: usize = 8192;

/// The most cells that one allocation gets, so that one does not take what many need.
const MOST: usize = 1024;

/// The system's allocator, and the reserve behind it.
pub struct Backed;

#[repr(align(64))]
struct Memory(UnsafeCell<[u8; RESERVE]>);

// SAFETY: only parts of it are used, each by whom it was given to; who gives them out is locked.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; RESERVE]));
static CELLS_TAKEN: Mutex<Cells> = Mutex::new(Cells([false; CELLS]));
static SERVED: AtomicUsize = AtomicUsize::new(0);

/// Bytes that a profile or a report needs at most, but for very large ones.
pub const PLENTY: usize = 4 << 20;

/// Whether the system has so many bytes left. What can be left out and needs much memory in small
/// pieces is left out where there is not, so that the reserve is there for the rest.
///
/// # Errors
/// That it has not, in words.
pub fn check_left(bytes: usize) -> Result<(), String> {
    // Without the hint the compiler may leave out what is never used.
    let reserved = black_box(Vec::<u8>::new()).try_reserve_exact(bytes);
    reserved.map_err(|_| {
        format!(
            "less than {} MiB of memory are left",
            bytes.div_ceil(1 << 20)
        )
    })
}

/// How many allocations the reserve has served.
pub fn served() -> usize {
    SERVED.load(Relaxed)
}

/// Which cells are taken.
struct Cells([bool; CELLS]);

impl Cells {
    /// The first of `count` cells in a row, which are taken now.
    fn take(&mut self, count: usize) -> Option<usize> {
        let mut rows = self.0.windows(count);
        let start = rows.position(|row| !row.contains(&true))?;
        self.0[start..start + count].fill(true);
        Some(start)
    }

    fn give_back(&mut self, cells: Range<usize>) {
        self.0[cells].fill(false);
    }
}

fn cells() -> MutexGuard<'static, Cells> {
    CELLS_TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of the reserve, or null.
fn take(layout: Layout) -> *mut u8 {
    let count = layout.size().div_ceil(CELL).max(1);
    if layout.align() > CELL || count > MOST {
        return ptr::null_mut();
    }
    let Some(start) = cells().take(count) else {
        return ptr::null_mut();
    };
    SERVED.fetch_add(1, Relaxed);
    MEMORY.0.get().cast::<u8>().wrapping_add(start * CELL)
}

/// Where in the reserve an address is, if it is there.
fn offset(address: *mut u8) -> Option<usize> {
    let offset = address.addr().wrapping_sub(MEMORY.0.get().addr());
    (offset < RESERVE).then_some(offset)
}

fn give_back(offset: usize, layout: Layout) {
    let start = offset / CELL;
    cells().give_back(start..start + layout.size().div_ceil(CELL).max(1));
}

// SAFETY: memory is the system's, or cells that nobody else has, which hold the size and are
// aligned to 64. What comes back is told apart by its address.
unsafe impl GlobalAlloc for Backed {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by this function's contract.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() {
            take(layout)
        } else {
            memory
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by this function's contract.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if !memory.is_null() {
            return memory;
        }
        let memory = take(layout);
        if !memory.is_null() {
            // SAFETY: it holds the size.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        match offset(memory) {
            Some(offset) => give_back(offset, layout),
            // SAFETY: not of the reserve, so of the system; the rest by this function's contract.
            None => unsafe { System.dealloc(memory, layout) },
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if offset(memory).is_none() {
            // SAFETY: not of the reserve, so of the system; the rest by this function's contract.
            let grown = unsafe { System.realloc(memory, layout, size) };
            if !grown.is_null() {
                return grown;
            }
        }
        // SAFETY: a size that this function's contract allows, with an alignment that was valid.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the size is not 0, by this function's contract.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: both hold the lesser of the sizes, and are different allocations.
            unsafe { ptr::copy_nonoverlapping(memory, moved, layout.size().min(size)) };
            // SAFETY: allocated with this layout, and not used any more.
            unsafe { self.dealloc(memory, layout) };
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_taken_once_and_given_back() {
        let mut cells = Cells([false; CELLS]);
        let (one, two) = (cells.take(3), cells.take(2));
        assert_eq!((one, two), (Some(0), Some(3)));
        cells.give_back(0..3);
        assert_eq!(cells.take(4), Some(5), "three are free before it");
        assert_eq!(cells.take(3), Some(0));
        assert_eq!(cells.take(CELLS - 9), Some(9));
        assert_eq!(cells.take(1), None);
    }

    #[test]
    fn memory_of_the_reserve_is_grown_moved_and_given_back() {
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        let before = cells().0.iter().filter(|taken| **taken).count();
        let memory = take(layout(100));
        assert!(offset(memory).is_some());
        // SAFETY: it holds 100 bytes.
        unsafe { memory.write_bytes(7, 100) };
        // SAFETY: of this allocator, with this layout.
        let moved = unsafe { Backed.realloc(memory, layout(100), 1000) };
        // SAFETY: it holds 1000 bytes, of which 100 were copied.
        let copied = unsafe { std::slice::from_raw_parts(moved, 100) };
        assert_eq!(copied, [7; 100]);
        // SAFETY: of this allocator, with this layout.
        unsafe { Backed.dealloc(moved, layout(1000)) };
        assert_eq!(cells().0.iter().filter(|taken| **taken).count(), before);
        assert!(served() > 0);
    }

    #[test]
    fn what_is_too_large_or_aligned_to_more_is_refused() {
        let refused = |size, align| take(Layout::from_size_align(size, align).unwrap()).is_null();
        assert!(refused(MOST * CELL + 1, 8));
        assert!(refused(8, 128));
    }
}
