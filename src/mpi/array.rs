//! Elements of a datatype in memory: packed, copied, combined.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

use super::library::native;
use super::probe::probe;
use super::sys::{MPI_Comm, MPI_Datatype};
use super::{
    Buffer, Communicator, Datatype, Error, Operator, Region, TAG_TO_SELF, check, ignored_status,
    int,
};

/// Bytes that an `int` can count.
const COUNTABLE: usize = 1 << 30;

/// How many tags messages to this process take in turn. Every MPI has tags up to 2^15 - 1.
const TAGS: c_int = 1 << 13;
static NEXT: AtomicU16 = AtomicU16::new(0);

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
        assert!(
            datatype.span(count) <= region.length(),
            "elements do not fit"
        );
        Array {
            first: datatype.first_in(region.start(), count),
            count,
            datatype,
        }
    }

    /// The same where `region` is aligned, with the elements aligned, too.
    ///
    /// # Panics
    /// If fewer than `count` fit.
    pub fn aligned_inside(region: Region, count: usize, datatype: Datatype) -> Array {
        let room = datatype.room(count);
        let start = room - datatype.span(count);
        Array::inside(region.part(start..room), count, datatype)
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

    /// Whether MPI accepts its datatype in communication, as far as it can be asked now.
    pub fn may_be_sent(&self) -> bool {
        self.datatype.may_be_committed()
    }

    /// Its memory, if its elements follow each other without gaps.
    pub fn bytes(&self) -> Option<Region> {
        // SAFETY: the bytes of elements without gaps are theirs, by the contract of `new`.
        let region = || unsafe { Region::new(self.first, self.size()) };
        self.datatype.is_dense().then(region)
    }

    /// Packs its elements to `to`, which holds their data.
    ///
    /// # Errors
    /// MPI's.
    pub fn pack(&self, to: Region, communicator: Communicator) -> Result<(), Error> {
        assert_eq!(to.length(), self.size());
        self.in_steps(COUNTABLE, |elements, bytes| {
            let to = to.part(bytes);
            if elements.first.is_bottom() {
                return send_to_self(elements.typed(), to.typed(), communicator);
            }
            let mut position = 0;
            let (from, count, handle) = elements.typed();
            // SAFETY: `count` elements are at `from`, and their packed bytes fit at `to`.
            check(unsafe {
                (native().functions.PMPI_Pack)(
                    from.as_ptr(),
                    count,
                    handle,
                    to.start().as_ptr(),
                    int(to.length()),
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
        assert_eq!(from.length(), self.size());
        self.in_steps(COUNTABLE, |elements, bytes| {
            let from = from.part(bytes);
            if elements.first.is_bottom() {
                return send_to_self(from.typed(), elements.typed(), communicator);
            }
            let mut position = 0;
            let (to, count, handle) = elements.typed();
            // SAFETY: as in `pack`, the other way round.
            check(unsafe {
                (native().functions.PMPI_Unpack)(
                    from.start().as_ptr(),
                    int(from.length()),
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
    /// memory for those that have gaps: a little, since a call under way cannot fail for want of
    /// it. MPI moves those that are larger.
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
        if self.datatype.is_in_one_piece() {
            self.copy_each(from);
            return Ok(());
        }
        /// Bytes that are packed at once.
        const STEP: usize = 32 << 10;
        from.in_steps(STEP, |elements, range| {
            let first = range.start / self.datatype.size().max(1);
            let to = self.part(first..first + elements.count);
            if range.len() > STEP {
                return send_to_self(elements.typed(), to.typed(), communicator);
            }
            packed.resize(packed.len().max(range.len()), 0);
            let middle = Buffer::new(packed.as_mut_ptr().cast());
            // SAFETY: the first bytes of `packed`, which is not resized before the end of the
            // closure.
            let middle = unsafe { Region::new(middle, range.len()) };
            elements.pack(middle, communicator)?;
            to.unpack(middle, communicator)
        })
    }

    /// Copies elements of which each is in one piece, one after the other.
    fn copy_each(&self, from: &Array) {
        let piece = |array: &Array, index: usize| {
            let start = array.part(index..index + 1).data();
            // SAFETY: the data of an element, by the contract of `new`.
            unsafe { Region::new(start, array.datatype.size()) }
        };
        for index in 0..self.count {
            piece(self, index).copy_from(piece(from, index));
        }
    }

    /// Copies the elements of `from` to circulant's own memory, with what lies in their gaps, if
    /// that can be read: elements of which the data of two neighbours are less than a page apart.
    /// Then every gap is on a page with data. Says whether it has.
    ///
    /// # Safety
    /// The gaps of these elements may be written as the elements may.
    ///
    /// # Panics
    /// If they are not as many.
    pub unsafe fn overwrite(&self, from: &Array) -> bool {
        /// Bytes of the smallest page.
        const PAGE: usize = 4096;
        let span = match self.datatype.stride() {
            Some(stride) if stride <= PAGE && self.datatype == from.datatype => {
                self.count.saturating_sub(1) * stride + self.datatype.true_extent()
            }
            _ => return false,
        };
        assert_eq!(self.count, from.count);
        if self.count > 0 {
            // SAFETY: the data of both may be used, by the contract of `new`, and the gaps of
            // `self` be written, by this function's. Those of `from` are only read. Each is shorter
            // than a page, with data on both sides, so every page that it is on has data, too.
            let memory = |array: &Array| unsafe { Region::new(array.data(), span) };
            memory(self).copy_from(memory(from));
        }
        true
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
        let memory = |array: &Array| {
            let start = array.first.offset(array.datatype.lower());
            // SAFETY: elements and gaps, by the contract of `new` and of this function.
            unsafe { Region::new(start, array.datatype.span(array.count)) }
        };
        memory(self).copy_from(memory(from));
    }

    /// `self = from op self`, element by element, for as many of the same datatype.
    ///
    /// # Errors
    /// MPI's.
    pub fn combine(&self, operator: Operator, from: &Array) -> Result<(), Error> {
        assert!(self.count == from.count && self.datatype == from.datatype);
        let largest = c_int::MAX as usize;
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
            check(unsafe {
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
    pub fn typed(&self) -> (Buffer, c_int, MPI_Datatype) {
        (self.first, int(self.count), self.datatype.handle())
    }

    /// Cuts it into steps of at most so many bytes, or of one element; `action` gets each, and
    /// where its data is among the packed bytes.
    fn in_steps(
        &self,
        most: usize,
        mut action: impl FnMut(Array, Range<usize>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let size = self.datatype.size();
        let largest = (most / size.max(1)).max(1);
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

/// Moves typed data by a message to this process. Where the address is MPI_BOTTOM, MPICH's MPI_Pack
/// and MPI_Unpack take it for a null pointer; messages may use it everywhere. The message goes over
/// the probe, since `communicator` may be one of the program's, which may receive anything there;
/// where there is no probe, over that. Threads that do so at once have tags of their own: MPI makes
/// progress, and may call the program, so no lock is held.
fn send_to_self(
    from: (Buffer, c_int, MPI_Datatype),
    to: (Buffer, c_int, MPI_Datatype),
    communicator: Communicator,
) -> Result<(), Error> {
    let tag = TAG_TO_SELF + 2 + c_int::from(NEXT.fetch_add(1, Ordering::Relaxed)) % TAGS;
    // SAFETY: both are elements, or one is as many bytes as their data, so MPI touches nothing
    // else. They do not overlap, unless both are the program's and it passed memory that overlaps:
    // then what arrives is wrong, as it is without circulant.
    let send = |over: MPI_Comm, rank: c_int| unsafe {
        (native().functions.PMPI_Sendrecv)(
            from.0.as_ptr(),
            from.1,
            from.2,
            rank,
            tag,
            to.0.as_ptr(),
            to.1,
            to.2,
            rank,
            tag,
            over,
            ignored_status(),
        )
    };
    check(match probe() {
        Some(probe) => send(probe.handle(), 0),
        None => send(communicator.handle(), int(communicator.rank()?)),
    })
}
