//! Buffer arguments, together with the counts and datatypes that the program passed with them.
//!
//! They can be made only by the unsafe code at the exported functions. MPI's contract binds the
//! program: the memory that counts and datatype describe is valid during the call.

use std::ffi::c_int;

use once_cell::unsync::OnceCell;

use super::sys::{MPI_Datatype, MPI_Op};
use super::{Array, Buffer, Datatype, Operator};

/// A buffer, a count and a datatype.
pub struct Passed {
    buffer: Buffer,
    count: i64,
    datatype: Typed,
}

impl Passed {
    /// # Safety
    /// Arguments of a collective call in progress that belong together. If they are valid, `count`
    /// elements of `datatype` at `buffer` may be read during the call, and written where the call
    /// writes.
    pub unsafe fn new(buffer: Buffer, count: i64, datatype: MPI_Datatype) -> Passed {
        Passed {
            buffer,
            count,
            // SAFETY: by this function's contract.
            datatype: unsafe { Typed::new(datatype) },
        }
    }

    /// The buffer.
    pub fn buffer(&self) -> Buffer {
        self.buffer
    }

    /// The count, which may be invalid.
    pub fn count(&self) -> i64 {
        self.count
    }

    /// The datatype, if it is one that can be used.
    pub fn datatype(&self) -> Option<Datatype> {
        self.datatype.get()
    }

    /// Bytes of data in one element, if the datatype can be used.
    pub fn unit(&self) -> Option<usize> {
        self.datatype.size()
    }

    /// Bytes of data, if count and datatype are valid.
    pub fn bytes(&self) -> Option<usize> {
        usize::try_from(self.count).ok()?.checked_mul(self.unit()?)
    }

    /// The elements, if count and datatype are valid.
    pub fn array(&self) -> Option<Array> {
        let count = usize::try_from(self.count).ok()?;
        // SAFETY: by the contract of `new`.
        Some(unsafe { Array::new(self.buffer, count, self.datatype()?) })
    }
}

/// A buffer with elements for every rank.
pub struct PassedByRank {
    buffer: Buffer,
    counts: Counts,
    displacements: Counts,
    datatype: Typed,
}

impl PassedByRank {
    /// # Safety
    /// As for [`Passed::new`]: of each rank, as many elements as `counts` says, so many extents
    /// after `buffer` as `displacements`, which are for as many ranks, says.
    pub unsafe fn new(
        buffer: Buffer,
        counts: Counts,
        displacements: Counts,
        datatype: MPI_Datatype,
    ) -> PassedByRank {
        PassedByRank {
            buffer,
            counts,
            displacements,
            // SAFETY: by this function's contract.
            datatype: unsafe { Typed::new(datatype) },
        }
    }

    /// The buffer.
    pub fn buffer(&self) -> Buffer {
        self.buffer
    }

    /// The counts, which may be invalid.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The datatype, if it is one that can be used.
    pub fn datatype(&self) -> Option<Datatype> {
        self.datatype.get()
    }

    /// Bytes of data in one element, if the datatype can be used.
    pub fn unit(&self) -> Option<usize> {
        self.datatype.size()
    }

    /// The elements, if the datatype is valid and there are counts and displacements.
    pub fn arrays(&self) -> Option<Arrays> {
        if self.counts.are_missing() || self.displacements.are_missing() {
            return None;
        }
        Some(Arrays {
            buffer: self.buffer,
            counts: self.counts,
            displacements: self.displacements,
            datatype: self.datatype()?,
        })
    }
}

/// Elements for every rank, of a datatype that has been found valid. A count that is not counts as
/// 0.
#[derive(Clone, Copy)]
pub struct Arrays {
    buffer: Buffer,
    counts: Counts,
    displacements: Counts,
    datatype: Datatype,
}

impl Arrays {
    /// The elements of a rank.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn of(&self, rank: usize) -> Array {
        let displacement = self.displacements.at(rank) as isize;
        let first = self.datatype.element(self.buffer, displacement);
        let count = usize::try_from(self.counts.at(rank)).unwrap_or(0);
        // SAFETY: by the contract of `PassedByRank::new`.
        unsafe { Array::new(first, count, self.datatype) }
    }

    /// Of all ranks, in order.
    pub fn all(&self) -> impl Iterator<Item = Array> {
        (0..self.counts.ranks()).map(|rank| self.of(rank))
    }

    /// The elements of the first rank that has some; or none, of the first.
    pub fn first(&self) -> Array {
        let mut filled = self.all().filter(|array| array.count() > 0);
        filled.next().unwrap_or_else(|| self.of(0))
    }
}

/// Elements to be combined, what combines them, and where the result goes: the elements for one
/// part after those for the one before.
pub struct Operands {
    send: Buffer,
    receive: Buffer,
    counts: Counts,
    datatype: Typed,
    operator: MPI_Op,
}

impl Operands {
    /// # Safety
    /// Arguments of a collective call in progress that belong together. If they are valid, as many
    /// elements of `datatype` as all `counts` together may be read at `send`, or at `receive` where
    /// `send` is MPI_IN_PLACE; and at `receive`, as many as this process gets of the result may be
    /// written where the call writes.
    pub unsafe fn new(
        send: Buffer,
        receive: Buffer,
        counts: Counts,
        datatype: MPI_Datatype,
        operator: MPI_Op,
    ) -> Operands {
        Operands {
            operator,
            send,
            receive,
            counts,
            // SAFETY: by this function's contract.
            datatype: unsafe { Typed::new(datatype) },
        }
    }

    /// sendbuf
    pub fn send(&self) -> Buffer {
        self.send
    }

    /// recvbuf
    pub fn receive(&self) -> Buffer {
        self.receive
    }

    /// The elements of each part of the result, which may be invalid.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The datatype, if it is one that can be used.
    pub fn datatype(&self) -> Option<Datatype> {
        self.datatype.get()
    }

    /// Bytes of data in one element, if the datatype can be used.
    pub fn unit(&self) -> Option<usize> {
        self.datatype.size()
    }

    /// The operator, if it is one that can be used.
    pub fn operator(&self) -> Option<Operator> {
        // SAFETY: an argument of the call in progress, by the contract of `new`.
        unsafe { Operator::new(self.operator) }
    }

    /// The elements of all parts, if counts and datatype are valid.
    pub fn input(&self) -> Option<Array> {
        let count = self.counts.sum()?;
        let first = if self.send.is_in_place() {
            self.receive
        } else {
            self.send
        };
        // SAFETY: by the contract of `new`.
        Some(unsafe { Array::new(first, count, self.datatype()?) })
    }

    /// Where the result of part `part` goes, which is this process's, if count and datatype are
    /// valid.
    pub fn result(&self, part: usize) -> Option<Array> {
        let count = usize::try_from(self.counts.at(part)).ok()?;
        // SAFETY: by the contract of `new`.
        Some(unsafe { Array::new(self.receive, count, self.datatype()?) })
    }
}

/// A datatype argument: MPI is asked about it once.
struct Typed {
    handle: MPI_Datatype,
    found: OnceCell<Option<Datatype>>,
}

impl Typed {
    /// # Safety
    /// A datatype argument of a call in progress, during which this is used.
    unsafe fn new(handle: MPI_Datatype) -> Typed {
        Typed {
            handle,
            found: OnceCell::new(),
        }
    }

    fn get(&self) -> Option<Datatype> {
        // SAFETY: by the contract of `new`.
        let find = || unsafe { Datatype::of(self.handle) };
        *self.found.get_or_init(find)
    }

    /// Of a datatype that is known without asking MPI, only this is looked up: many calls end here.
    fn size(&self) -> Option<usize> {
        match Datatype::predefined(self.handle) {
            Some(datatype) => Some(datatype.size()),
            None => self.get().map(|datatype| datatype.size()),
        }
    }
}

/// A count or displacement for every rank.
#[derive(Clone, Copy)]
pub struct Counts {
    entries: Entries,
    ranks: usize,
}

#[derive(Clone, Copy)]
pub enum Entries {
    /// The program's array of `int`; or null.
    Narrow(*const c_int),
    /// The program's array of `MPI_Count` or `MPI_Aint`; or null.
    Wide(*const i64),
    /// The same for all.
    Equal(i64),
    /// A multiple of the rank.
    Steps(i64),
}

/// What counts and displacements are passed as.
pub trait Entry {
    /// An array of them.
    fn entries(array: *const Self) -> Entries;
}

impl Entry for c_int {
    fn entries(array: *const c_int) -> Entries {
        Entries::Narrow(array)
    }
}

impl Entry for i64 {
    fn entries(array: *const i64) -> Entries {
        Entries::Wide(array)
    }
}

impl Entry for isize {
    fn entries(array: *const isize) -> Entries {
        const { assert!(size_of::<isize>() == size_of::<i64>()) };
        Entries::Wide(array.cast())
    }
}

impl Counts {
    /// The program's array.
    ///
    /// # Safety
    /// It is null, or has as many entries as there are ranks, during the call.
    pub unsafe fn array<T: Entry>(array: *const T, ranks: usize) -> Counts {
        let entries = T::entries(array);
        Counts { entries, ranks }
    }

    /// The same count for all.
    pub fn equal(count: impl Into<i64>, ranks: usize) -> Counts {
        let entries = Entries::Equal(count.into());
        Counts { entries, ranks }
    }

    /// Elements of all, one after the other: `count` times the rank.
    pub fn steps(count: i64, ranks: usize) -> Counts {
        let entries = Entries::Steps(count);
        Counts { entries, ranks }
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Whether the program passed no array.
    fn are_missing(&self) -> bool {
        match self.entries {
            Entries::Narrow(array) => array.is_null(),
            Entries::Wide(array) => array.is_null(),
            Entries::Equal(_) | Entries::Steps(_) => false,
        }
    }

    /// The entry of a rank; -1, which no count can be, where the program passed no array.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn at(&self, rank: usize) -> i64 {
        assert!(rank < self.ranks, "no such rank");
        match self.entries {
            Entries::Narrow(array) if array.is_null() => -1,
            // SAFETY: by the contract of `array` there is an entry for every rank.
            Entries::Narrow(array) => i64::from(unsafe { *array.add(rank) }),
            Entries::Wide(array) if array.is_null() => -1,
            // SAFETY: as above.
            Entries::Wide(array) => unsafe { *array.add(rank) },
            Entries::Equal(count) => count,
            Entries::Steps(count) => count.saturating_mul(i64::try_from(rank).unwrap_or(i64::MAX)),
        }
    }

    /// All of them together, if they are counts.
    #[inline]
    pub fn sum(&self) -> Option<usize> {
        if let Entries::Equal(count) = self.entries {
            return usize::try_from(count).ok()?.checked_mul(self.ranks);
        }
        self.sum_of_entries()
    }

    fn sum_of_entries(&self) -> Option<usize> {
        let mut counts = self.all();
        counts.try_fold(0usize, |sum, count| {
            sum.checked_add(usize::try_from(count).ok()?)
        })
    }

    /// The largest, if they are counts.
    pub fn largest(&self) -> Option<usize> {
        if let Entries::Equal(count) = self.entries {
            return usize::try_from(count).ok();
        }
        let mut counts = self.all();
        counts.try_fold(0, |largest, count| {
            Some(usize::try_from(count).ok()?.max(largest))
        })
    }

    /// The entries of all ranks, in order.
    pub fn all(&self) -> impl Iterator<Item = i64> {
        (0..self.ranks).map(|rank| self.at(rank))
    }
}
