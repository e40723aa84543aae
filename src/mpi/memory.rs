//! Memory that the program passed to a call, or that is circulant's own: as an address, and as
//! bytes. As elements of a datatype it is an [`Array`](super::Array).
//!
//! **What makes it safe.** A [`Buffer`] is an address that is compared and moved, never followed.
//! Only a [`Region`] and an `Array` are read and written through, always inside their bounds, and
//! both are made by unsafe code, which answers for those bounds: at the exported functions, where
//! MPI's contract binds the program to pass valid arguments, and where circulant allocates.
//!
//! Both are copied freely, like addresses. So unsafe code that makes one also answers for where its
//! copies go. Those of the program's memory go anywhere in the call that the memory was passed to.
//! Those of circulant's own memory stay in private fields of a value that keeps the memory, and
//! only its bytes come out.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_int;
use std::ops::Range;
use std::ptr::NonNull;

use super::int;
use super::library::native;
use super::sys::MPI_Datatype;

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer(*mut u8);

// SAFETY: an address may be compared and moved on any thread. Unsafe code that makes a `Region` or
// an `Array` of it, which are read and written through, answers for the threads that use those.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// An address that the program passed, which may be anything.
    pub fn new(address: *const std::ffi::c_void) -> Buffer {
        Buffer(address.cast_mut().cast())
    }

    /// Whether it is MPI_IN_PLACE.
    pub fn is_in_place(self) -> bool {
        self.0.addr() == native().constants.in_place.0
    }

    /// Whether it is a null pointer.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Whether it is MPI_BOTTOM: a null pointer in every MPI here but SMPI.
    pub fn is_bottom(self) -> bool {
        self.0.addr() == native().constants.bottom.0
    }

    /// The address `bytes` further on. The arithmetic wraps, as it must from MPI_BOTTOM.
    pub fn offset(self, bytes: isize) -> Buffer {
        Buffer(self.0.wrapping_offset(bytes))
    }

    /// The number of the address.
    pub fn address(self) -> usize {
        self.0.addr()
    }

    /// For MPI.
    pub fn as_ptr(self) -> *mut std::ffi::c_void {
        self.0.cast()
    }
}

/// Bytes that may be read and written.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    start: Buffer,
    length: usize,
}

impl Region {
    /// # Safety
    /// The `length` bytes from `start` on may be read and written as long as the region, or a part
    /// or a copy of it, is used.
    pub unsafe fn new(start: Buffer, length: usize) -> Region {
        Region { start, length }
    }

    /// No bytes, at an address that is aligned as those of [`Allocation`] are.
    pub fn empty() -> Region {
        Region {
            start: Buffer(std::ptr::without_provenance_mut(ALIGNMENT)),
            length: 0,
        }
    }

    /// Where it starts.
    pub fn start(self) -> Buffer {
        self.start
    }

    /// Its bytes.
    pub fn length(self) -> usize {
        self.length
    }

    /// A part of it.
    ///
    /// # Panics
    /// If `range` is not inside it.
    pub fn part(self, range: Range<usize>) -> Region {
        assert!(
            range.start <= range.end && range.end <= self.length,
            "outside of a region"
        );
        Region {
            start: self.start.offset(range.start as isize),
            length: range.len(),
        }
    }

    /// This region and `next` as one, if `next` begins where this one ends.
    pub fn joined(self, next: Region) -> Option<Region> {
        let end = self.start.offset(self.length as isize);
        (end == next.start).then_some(Region {
            start: self.start,
            length: self.length + next.length,
        })
    }

    /// Copies the bytes of `from`, which are as many. (Programs pass the same memory twice, though
    /// they must not.)
    ///
    /// # Panics
    /// If they are not as many.
    pub fn copy_from(self, from: Region) {
        assert_eq!(self.length, from.length);
        // SAFETY: both are valid for `length` bytes, by the contract of `new`.
        unsafe { std::ptr::copy(from.start.0, self.start.0, self.length) };
    }

    /// Its bytes, which are N.
    ///
    /// # Panics
    /// If they are not as many.
    pub fn read<const N: usize>(self) -> [u8; N] {
        assert_eq!(self.length, N);
        // SAFETY: valid for N bytes, by the contract of `new`; bytes need no alignment.
        unsafe { self.start.0.cast::<[u8; N]>().read() }
    }

    /// Sets its bytes, which are N.
    ///
    /// # Panics
    /// If they are not as many.
    pub fn write<const N: usize>(self, bytes: [u8; N]) {
        assert_eq!(self.length, N);
        // SAFETY: as in `read`.
        unsafe { self.start.0.cast::<[u8; N]>().write(bytes) };
    }
}

impl Region {
    /// As arguments for MPI.
    pub fn typed(self) -> (Buffer, c_int, MPI_Datatype) {
        (self.start, int(self.length), native().constants.byte)
    }
}

/// What allocations are aligned to: a cache line, and more than any C type needs.
pub const ALIGNMENT: usize = 64;

/// What the allocator aligns to. (To more than this it would write the zeros itself.)
const ALLOCATED: usize = 16;

/// A stretch of memory, or none. It comes from the system, not from the
/// [reserve](crate::allocator): who gets none can go on without, and the reserve is for those who
/// cannot.
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
        let start = NonNull::new(unsafe { System.alloc_zeroed(layout) });
        self.0 = start.map(|start| (start, layout));
        self.0.is_some()
    }

    /// Its bytes, from an aligned address on.
    ///
    /// # Safety
    /// Neither the region nor a part or a copy of it is used after the allocation is dropped or
    /// [reserved](Allocation::reserve) anew.
    pub unsafe fn region(&self) -> Region {
        let Some((start, _)) = self.0 else {
            return Region::empty();
        };
        let start = start.as_ptr();
        let start = start.wrapping_add(start.align_offset(ALIGNMENT));
        // SAFETY: the alignment was allocated besides the capacity, and the memory is there as long
        // as the region by this function's contract.
        unsafe { Region::new(Buffer::new(start.cast()), self.capacity()) }
    }

    fn free(&mut self) {
        if let Some((start, layout)) = self.0.take() {
            // SAFETY: allocated with this layout, and given up here.
            unsafe { System.dealloc(start.as_ptr(), layout) };
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.free();
    }
}
