//! Memory that the program passed to a call, or that is circulant's own: as an address, as bytes,
//! and as elements of a datatype.
//!
//! **What makes it safe.** A [`Buffer`] is an address that is compared and moved, never followed.
//! Only a [`Region`] and an [`Array`] are read and written through, always inside their bounds, and
//! both are made by unsafe code, which answers for those bounds: at the exported functions, where
//! MPI's contract binds the program to pass valid arguments, and where circulant allocates.
//!
//! Both are copied freely, like addresses. So unsafe code that makes one also answers for where its
//! copies go. Those of the program's memory go anywhere in the call that the memory was passed to.
//! Those of circulant's own memory stay in private fields of a value that keeps the memory, and
//! only its bytes come out.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr::NonNull;

use super::library::native;
use super::sys::MPI_Datatype;
use super::{Communicator, Datatype, Error, Operator};

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer(*mut u8);

// SAFETY: only compared and moved, unless unsafe code answers for more.
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

/// Elements of a datatype that may be read and written during the call.
#[derive(Clone, Copy, Debug)]
pub struct Array {
    first: Buffer,
    count: usize,
    datatype: Datatype,
}

impl Array {
    /// # Safety
    /// `count` elements of `datatype`, the first of them at `first`, may be read and written as
    /// long as the array, or a part or a copy of it, is used.
    pub unsafe fn new(first: Buffer, count: usize, datatype: Datatype) -> Array {
        Array {
            first,
            count,
            datatype,
        }
    }

    /// As many elements, with their gaps and margins, as fit into `region`.
    ///
    /// # Panics
    /// If fewer than `count` fit.
    pub fn inside(region: Region, count: usize, datatype: Datatype) -> Array {
        assert!(datatype.span(count) <= region.length, "elements do not fit");
        Array {
            first: datatype.first_in(region.start, count),
            count,
            datatype,
        }
    }

    /// The address of its first element.
    pub fn first(&self) -> Buffer {
        self.first
    }

    /// Its elements.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What they are.
    pub fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    /// A part of it.
    ///
    /// # Panics
    /// If `range` is not inside it.
    pub fn part(&self, range: Range<usize>) -> Array {
        assert!(
            range.start <= range.end && range.end <= self.count,
            "outside of an array"
        );
        Array {
            first: self.datatype.element(self.first, range.start as isize),
            count: range.len(),
            datatype: self.datatype,
        }
    }

    /// The address of its first byte of data.
    pub fn data(&self) -> Buffer {
        self.first.offset(self.datatype.true_lower())
    }

    /// Whether it has memory in common with `other`, gaps and margins included.
    pub fn overlaps(&self, other: &Array) -> bool {
        let ends = |array: &Array| {
            let start = array.first.offset(array.datatype.lower()).address();
            (start, start.wrapping_add(array.datatype.span(array.count)))
        };
        let ((start, end), (others_start, others_end)) = (ends(self), ends(other));
        start < others_end && others_start < end
    }

    /// Bytes of data.
    pub fn size(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// Its memory, if its elements follow each other without gaps.
    pub fn bytes(&self) -> Option<Region> {
        self.datatype.is_dense().then(|| Region {
            start: self.first,
            length: self.size(),
        })
    }

    /// Packs its elements to `to`, which holds their data.
    ///
    /// # Errors
    /// MPI's.
    pub fn pack(&self, to: Region, communicator: Communicator) -> Result<(), Error> {
        assert_eq!(to.length, self.size());
        self.in_steps(|elements, bytes| {
            let to = to.part(bytes);
            if elements.first.is_bottom() {
                return send_to_self(elements.typed(), to.typed(), communicator);
            }
            let mut position = 0;
            let (from, count, handle) = elements.typed();
            // SAFETY: `count` elements are at `from`, and their packed bytes fit at `to`.
            super::check(unsafe {
                (native().functions.PMPI_Pack)(
                    from.as_ptr(),
                    count,
                    handle,
                    to.start.as_ptr(),
                    super::int(to.length),
                    &mut position,
                    communicator.handle(),
                )
            })
        })
    }

    /// Unpacks its elements from `from`, which holds their data.
    ///
    /// # Errors
    /// MPI's.
    pub fn unpack(&self, from: Region, communicator: Communicator) -> Result<(), Error> {
        assert_eq!(from.length, self.size());
        self.in_steps(|elements, bytes| {
            let from = from.part(bytes);
            if elements.first.is_bottom() {
                return send_to_self(from.typed(), elements.typed(), communicator);
            }
            let mut position = 0;
            let (to, count, handle) = elements.typed();
            // SAFETY: as in `pack`, the other way round.
            super::check(unsafe {
                (native().functions.PMPI_Unpack)(
                    from.start.as_ptr(),
                    super::int(from.length),
                    &mut position,
                    to.as_ptr(),
                    count,
                    handle,
                    communicator.handle(),
                )
            })
        })
    }

    /// Copies the elements of `from`, which are as many and of the same datatype. `packed` is
    /// memory for those that have gaps.
    ///
    /// # Errors
    /// MPI's.
    pub fn copy_from(
        &self,
        from: &Array,
        packed: &mut Vec<u8>,
        communicator: Communicator,
    ) -> Result<(), Error> {
        assert_eq!(self.count, from.count);
        if let (Some(to), Some(from)) = (self.bytes(), from.bytes()) {
            to.copy_from(from);
            return Ok(());
        }
        from.in_steps(|elements, range| {
            packed.resize(packed.len().max(range.len()), 0);
            // SAFETY: the first bytes of `packed`, which is not resized before the end of the
            // closure.
            let middle = unsafe { Region::new(Buffer(packed.as_mut_ptr()), range.len()) };
            elements.pack(middle, communicator)?;
            let first = range.start / self.datatype.size().max(1);
            self.part(first..first + elements.count)
                .unpack(middle, communicator)
        })
    }

    /// Copies the memory of the elements of `from`, which are as many and of the same datatype,
    /// with their gaps.
    ///
    /// # Safety
    /// The gaps between the elements of both may be read and written as the elements may.
    ///
    /// # Panics
    /// If they are not as many.
    pub unsafe fn copy_with_gaps(&self, from: &Array) {
        assert_eq!(self.count, from.count);
        let memory = |array: &Array| Region {
            start: array.first.offset(array.datatype.lower()),
            length: array.datatype.span(array.count),
        };
        memory(self).copy_from(memory(from));
    }

    /// `self = from op self`, element by element, for as many of the same datatype.
    ///
    /// # Errors
    /// MPI's.
    pub fn combine(&self, operator: Operator, from: &Array) -> Result<(), Error> {
        assert!(self.count == from.count && self.datatype == from.datatype);
        let largest = std::ffi::c_int::MAX as usize;
        let mut done = 0;
        while done < self.count {
            let range = done..self.count.min(done + largest);
            done = range.end;
            let ((from, count, handle), (into, ..)) =
                (from.part(range.clone()).typed(), self.part(range).typed());
            // SAFETY: `count` elements are at both addresses, and no others are touched. If they
            // overlap, which MPI forbids, the program has passed memory that overlaps: then the
            // results in it are wrong, as they are without circulant. circulant's own memory never
            // overlaps with that, and its places are told apart by the plan.
            super::check(unsafe {
                (native().functions.PMPI_Reduce_local)(
                    from.as_ptr(),
                    into.as_ptr(),
                    count,
                    handle,
                    operator.handle(),
                )
            })?;
        }
        Ok(())
    }

    /// As arguments for MPI.
    pub fn typed(&self) -> (Buffer, std::ffi::c_int, MPI_Datatype) {
        (self.first, super::int(self.count), self.datatype.handle())
    }

    /// Cuts it into steps whose bytes an `int` can count; `action` gets each, and where its data is
    /// among the packed bytes.
    fn in_steps(
        &self,
        mut action: impl FnMut(Array, Range<usize>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let size = self.datatype.size();
        let largest = ((1 << 30) / size.max(1)).max(1);
        let mut done = 0;
        while done < self.count {
            let range = done..self.count.min(done + largest);
            done = range.end;
            action(
                self.part(range.clone()),
                range.start * size..range.end * size,
            )?;
        }
        Ok(())
    }
}

impl Region {
    /// As arguments for MPI.
    pub fn typed(self) -> (Buffer, std::ffi::c_int, MPI_Datatype) {
        (self.start, super::int(self.length), native().constants.byte)
    }
}

/// Moves typed data by a message to this process. Where the address is MPI_BOTTOM, MPICH's MPI_Pack
/// and MPI_Unpack take it for a null pointer; messages may use it everywhere.
fn send_to_self(
    from: (Buffer, std::ffi::c_int, MPI_Datatype),
    to: (Buffer, std::ffi::c_int, MPI_Datatype),
    communicator: Communicator,
) -> Result<(), Error> {
    let rank = super::int(communicator.rank()?);
    // SAFETY: one is elements of the program's, the other as many bytes as their data, so MPI
    // touches nothing else. They do not overlap, unless both are the program's and it passed memory
    // that overlaps: then what arrives is wrong, as it is without circulant.
    super::check(unsafe {
        (native().functions.PMPI_Sendrecv)(
            from.0.as_ptr(),
            from.1,
            from.2,
            rank,
            super::TAG_TO_SELF,
            to.0.as_ptr(),
            to.1,
            to.2,
            rank,
            super::TAG_TO_SELF,
            communicator.handle(),
            super::ignored_status(),
        )
    })
}

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
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.free();
    }
}
