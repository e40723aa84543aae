//! A datatype: sizes, layout, packing.

use std::ffi::c_int;

use super::sys::{MPI_Aint, MPI_Count, MPI_Datatype};

use super::communicator::judge;
use super::native::{NumberKind, native};
use super::{Buffer, Communicator, Error, Private, check};

/// A datatype of the program, with the layout of one element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Datatype {
    handle: MPI_Datatype,
    /// Bytes of data in one element.
    size: usize,
    /// Bytes from one element to the next.
    extent: isize,
    /// Bytes from an element's address to its first byte of data.
    true_lower: isize,
    /// Bytes from an element's first byte of data to behind its last.
    true_extent: usize,
    /// Bytes of an element before its first byte of data, and behind its last.
    margins: (usize, usize),
}

/// What a datatype's constructor is asked for: with large counts where the MPI has them, since the
/// other form is an error for a datatype that was made with large counts.
#[cfg(large_count)]
type Quantity = MPI_Count;
#[cfg(not(large_count))]
type Quantity = c_int;

/// How many arguments of each kind a datatype's constructor took.
struct Arguments {
    /// Integers and large counts.
    numbers: [Quantity; 2],
    addresses: Quantity,
    datatypes: Quantity,
}

/// The datatype that another one repeats: a reference that MPI gave to us, unless it is predefined.
struct Repeated(Datatype);

impl Drop for Repeated {
    fn drop(&mut self) {
        if !self.0.is_predefined() {
            // SAFETY: MPI_Type_get_contents made this handle for us to free.
            unsafe { (native().functions.PMPI_Type_free)(&mut self.0.handle) };
        }
    }
}

/// Whether MPI takes `handle` for a datatype that can be used: of a communicator of ours, which the
/// program's error handlers do not hear of, it wants to know how much memory none of it takes.
fn is_usable(handle: MPI_Datatype) -> bool {
    if handle == native().constants.datatype_null {
        return false;
    }
    let Some(judge) = judge() else {
        return true;
    };
    let mut bytes: c_int = 0;
    // SAFETY: a communicator of ours; writes one integer.
    let code =
        unsafe { (native().functions.PMPI_Pack_size)(0, handle, judge.handle(), &mut bytes) };
    code == super::SUCCESS
}

impl Datatype {
    /// Bytes of data in one element of `handle`: what a choice may depend on, since it is the same
    /// wherever the signature is. None for a datatype that MPI has to judge.
    pub fn size_of(handle: MPI_Datatype) -> Option<usize> {
        is_usable(handle).then(|| Datatype::size_of_usable(handle))?
    }

    fn size_of_usable(handle: MPI_Datatype) -> Option<usize> {
        let mut size: MPI_Count = -1;
        // SAFETY: writes one integer.
        check(unsafe { (native().functions.PMPI_Type_size_x)(handle, &mut size) }).ok()?;
        usize::try_from(size).ok()
    }

    /// The layout of `handle`. None for a datatype that MPI has to judge.
    pub fn new(handle: MPI_Datatype) -> Option<Datatype> {
        is_usable(handle).then(|| Datatype::of_usable(handle))?
    }

    /// The layout of a datatype, which need not be committed.
    #[allow(clippy::unnecessary_cast)] // MPI_Aint is not the same Rust type in every MPI.
    fn of_usable(handle: MPI_Datatype) -> Option<Datatype> {
        let size = Datatype::size_of_usable(handle)?;
        let functions = &native().functions;
        let (mut lower, mut extent): (MPI_Aint, MPI_Aint) = (0, 0);
        // SAFETY: writes two integers.
        check(unsafe { (functions.PMPI_Type_get_extent)(handle, &mut lower, &mut extent) }).ok()?;
        let (mut true_lower, mut true_extent): (MPI_Aint, MPI_Aint) = (0, 0);
        // SAFETY: writes two integers.
        check(unsafe {
            (functions.PMPI_Type_get_true_extent)(handle, &mut true_lower, &mut true_extent)
        })
        .ok()?;
        let (lower, upper) = (lower as isize, lower.wrapping_add(extent) as isize);
        let (true_lower, true_extent) = (true_lower as isize, usize::try_from(true_extent).ok()?);
        let true_upper = true_lower.wrapping_add_unsigned(true_extent);
        // A margin larger than an element is none: then the datatype holds an address.
        let margin = |from: isize, to: isize| {
            let margin = usize::try_from(to.wrapping_sub(from)).unwrap_or(0);
            if margin <= extent.unsigned_abs() as usize {
                margin
            } else {
                0
            }
        };
        Some(Datatype {
            handle,
            size,
            extent: extent as isize,
            true_lower,
            true_extent,
            margins: (margin(lower, true_lower), margin(true_upper, upper)),
        })
    }

    /// What it is a number of, if it is one of MPI's datatypes of numbers.
    pub fn numbers(&self) -> Option<NumberKind> {
        let mut numbers = native().numbers.iter();
        numbers
            .find(|(handle, _)| *handle == self.handle)
            .map(|&(_, kind)| kind)
    }

    /// MPI's handle.
    pub fn handle(&self) -> MPI_Datatype {
        self.handle
    }

    /// Bytes of data in one element.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes from an element's address to its first byte of data.
    pub fn true_lower(&self) -> isize {
        self.true_lower
    }

    /// Bytes that `count` elements take in scratch, their margins included: an operator may assign
    /// whole elements.
    pub fn span(&self, count: usize) -> usize {
        match count.checked_sub(1) {
            None => 0,
            Some(steps) => {
                let stride = self.extent.unsigned_abs();
                steps
                    .saturating_mul(stride)
                    .saturating_add(self.margins.0)
                    .saturating_add(self.true_extent)
                    .saturating_add(self.margins.1)
            }
        }
    }

    /// Whether MPI can pack an element: it counts packed bytes in an `int`.
    pub fn is_packable(&self) -> bool {
        c_int::try_from(self.size).is_ok()
    }

    /// Whether elements follow each other without gaps: any number of them can be copied as bytes.
    pub fn is_dense(&self) -> bool {
        self.true_lower == 0 && self.true_extent == self.size && self.extent == self.size as isize
    }

    /// Whether the packed form of any number of elements is the memory itself: dense, and in the
    /// order of the signature. (An indexed type may visit a dense stretch in another order, and a
    /// process that describes the same signature otherwise would then see it permuted.) `bytes` is
    /// memory to try it in.
    pub fn is_contiguous(&self, communicator: &Private, bytes: &mut Vec<u8>) -> bool {
        self.is_dense() && (self.is_predefined() || self.packs_in_order(communicator, bytes))
    }

    /// Whether elements that follow each other may lie in each other's gaps, or before each other:
    /// then the memories of different elements cannot be told apart by their bounds.
    pub fn interleaves(&self) -> bool {
        !usize::try_from(self.extent).is_ok_and(|extent| extent >= self.true_extent)
    }

    /// Whether it is one of MPI's own datatypes. Every constructor takes a datatype (or, for
    /// Fortran's sized kinds, makes a predefined one).
    pub fn is_predefined(&self) -> bool {
        self.constructed_from()
            .is_some_and(|from| from.datatypes == 0)
    }

    /// How many arguments of each kind its constructor took. None where MPI does not say.
    fn constructed_from(&self) -> Option<Arguments> {
        let functions = &native().functions;
        let (mut integers, mut addresses, mut datatypes, mut combiner) = (0, 0, 0, 0);
        #[cfg(not(large_count))]
        let large = 0;
        #[cfg(large_count)]
        let mut large = 0;
        #[cfg(large_count)]
        // SAFETY: writes five integers.
        let code = unsafe {
            (functions.PMPI_Type_get_envelope_c)(
                self.handle,
                &mut integers,
                &mut addresses,
                &mut large,
                &mut datatypes,
                &mut combiner,
            )
        };
        #[cfg(not(large_count))]
        // SAFETY: writes four integers.
        let code = unsafe {
            (functions.PMPI_Type_get_envelope)(
                self.handle,
                &mut integers,
                &mut addresses,
                &mut datatypes,
                &mut combiner,
            )
        };
        (code == super::SUCCESS).then_some(Arguments {
            numbers: [integers, large],
            addresses,
            datatypes,
        })
    }

    /// Of a repetition or a duplicate of another datatype, that datatype, if it is dense.
    fn repeated(&self) -> Option<Repeated> {
        let from = self.constructed_from()?;
        // Nothing else of a size takes so few arguments.
        let [integers, large] = from.numbers;
        let is_repetition = integers + large <= 1 && from.addresses == 0 && from.datatypes == 1;
        if !is_repetition {
            return None;
        }
        let functions = &native().functions;
        let (mut count, mut address, mut inner): (c_int, MPI_Aint, _) = (0, 0, self.handle);
        #[cfg(large_count)]
        // SAFETY: writes at most one number, no address and one datatype.
        let code = unsafe {
            let mut large_count: MPI_Count = 0;
            (functions.PMPI_Type_get_contents_c)(
                self.handle,
                integers,
                0,
                large,
                1,
                &mut count,
                &mut address,
                &mut large_count,
                &mut inner,
            )
        };
        #[cfg(not(large_count))]
        // SAFETY: writes at most one integer, no address and one datatype.
        let code = unsafe {
            (functions.PMPI_Type_get_contents)(
                self.handle,
                integers,
                0,
                1,
                &mut count,
                &mut address,
                &mut inner,
            )
        };
        check(code).ok()?;
        let inner = Repeated(Datatype::of_usable(inner)?);
        inner.0.is_dense().then_some(inner)
    }

    /// Whether MPI accepts it in communication: committed, if it is a derived one. MPI cannot be
    /// asked, but it checks the datatype of a message to nobody (of one element: MPICH does not look
    /// at the datatype of none).
    pub fn is_committed(&self, communicator: &Private) -> bool {
        let nobody = native().constants.proc_null.0;
        let communicator = communicator.communicator().handle();
        // Never read, but null would be an error of its own.
        let element = std::ptr::from_ref(self).cast();
        // SAFETY: nothing is sent to nobody; errors are returned on a private communicator.
        let send = || unsafe {
            (native().functions.PMPI_Send)(
                element,
                1,
                self.handle,
                nobody,
                super::transport::TAG,
                communicator,
            )
        };
        self.is_predefined() || send() == super::SUCCESS
    }

    /// Packs one element of bytes that know their position, and looks whether they moved. Of a
    /// large repetition, only what is repeated is looked at; other large elements are staged, which
    /// is cheaper than to find out at every call.
    fn packs_in_order(&self, communicator: &Private, bytes: &mut Vec<u8>) -> bool {
        const LARGEST: usize = 64 << 10;
        if self.size > LARGEST {
            let repeated = self.repeated();
            return repeated.is_some_and(|inner| inner.0.is_contiguous(communicator, bytes));
        }
        bytes.clear();
        bytes.resize(2 * self.size, 0);
        let (pattern, packed) = bytes.split_at_mut(self.size);
        // Two bytes tell the positions of at most 2^16 apart; the first is enough for 2^8.
        let shifts: &[u32] = if self.size > 1 << 8 { &[0, 8] } else { &[0] };
        shifts.iter().all(|shift| {
            for (position, byte) in pattern.iter_mut().enumerate() {
                *byte = (position >> shift) as u8;
            }
            let (from, to) = (Buffer(pattern.as_mut_ptr()), Buffer(packed.as_mut_ptr()));
            self.pack(from, 1, to, communicator).is_ok() && packed == pattern
        })
    }

    /// Packs `count` elements at `from` to `count * size` bytes at `to`.
    pub(super) fn pack(
        &self,
        from: Buffer,
        count: usize,
        to: Buffer,
        communicator: &Private,
    ) -> Result<(), Error> {
        self.in_steps(count, |done, step| {
            let (from, to) = self.at(from, to, done);
            if from.is_bottom() {
                let (bytes, byte) = (self.bytes(step), native().constants.byte);
                return send_to_self((from, step, self.handle), (to, bytes, byte), communicator);
            }
            self.pack_step(from, step, to, communicator.communicator())
        })
    }

    /// `communicator` is one of whose processes the packed data is for.
    fn pack_step(
        &self,
        from: Buffer,
        count: c_int,
        to: Buffer,
        communicator: Communicator,
    ) -> Result<(), Error> {
        let mut position: c_int = 0;
        // SAFETY: `count` elements are at `from`, by the call's contract, and their packed form of
        // `count * size` bytes fits at `to`.
        check(unsafe {
            (native().functions.PMPI_Pack)(
                from.read(),
                count,
                self.handle,
                to.write(),
                self.bytes(count),
                &mut position,
                communicator.handle(),
            )
        })
    }

    /// Unpacks `count` elements from `count * size` bytes at `from` to `to`.
    pub(super) fn unpack(
        &self,
        from: Buffer,
        to: Buffer,
        count: usize,
        communicator: &Private,
    ) -> Result<(), Error> {
        self.in_steps(count, |done, step| {
            let (to, from) = self.at(to, from, done);
            if to.is_bottom() {
                let (bytes, byte) = (self.bytes(step), native().constants.byte);
                return send_to_self((from, bytes, byte), (to, step, self.handle), communicator);
            }
            self.unpack_step(from, to, step, communicator.communicator())
        })
    }

    fn unpack_step(
        &self,
        from: Buffer,
        to: Buffer,
        count: c_int,
        communicator: Communicator,
    ) -> Result<(), Error> {
        let mut position: c_int = 0;
        // SAFETY: as in `pack_step`, the other way round.
        check(unsafe {
            (native().functions.PMPI_Unpack)(
                from.read(),
                self.bytes(count),
                &mut position,
                to.write(),
                count,
                self.handle,
                communicator.handle(),
            )
        })
    }

    /// The address of element `index` of those at `base`.
    pub fn element(&self, base: Buffer, index: isize) -> Buffer {
        base.offset(index.wrapping_mul(self.extent))
    }

    /// The address of element `index` in scratch that starts at `base`: there the first byte of data
    /// and the margins, not the element's address, are what has to be inside.
    pub fn element_in(&self, base: Buffer, index: usize) -> Buffer {
        self.element(base.offset(self.lower().wrapping_neg()), index as isize)
    }

    /// Bytes to leave at the start of aligned scratch, so that [`element_in`](Datatype::element_in) it element 0
    /// is at a multiple of `alignment`.
    pub fn shift(&self, alignment: usize) -> usize {
        self.lower().rem_euclid(alignment as isize).unsigned_abs()
    }

    /// Bytes from an element's address to where its memory in scratch begins.
    pub(super) fn lower(&self) -> isize {
        self.true_lower.wrapping_sub_unsigned(self.margins.0)
    }

    /// Where element `index` is, at an address of elements and at one of packed bytes.
    fn at(&self, elements: Buffer, packed: Buffer, index: usize) -> (Buffer, Buffer) {
        let index = index as isize;
        (
            self.element(elements, index),
            packed.offset(index.wrapping_mul(self.size as isize)),
        )
    }

    fn bytes(&self, elements: c_int) -> c_int {
        c_int::try_from(elements as usize * self.size).unwrap_or(c_int::MAX)
    }

    /// Cuts `count` elements into steps whose bytes an `int` can count.
    fn in_steps(
        &self,
        count: usize,
        mut action: impl FnMut(usize, c_int) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let largest = ((1 << 30) / self.size.max(1)).max(1);
        let mut done = 0;
        while done < count {
            let step = largest.min(count - done);
            action(done, c_int::try_from(step).unwrap_or(c_int::MAX))?;
            done += step;
        }
        Ok(())
    }

    /// Copies `count` elements; the memories do not overlap.
    pub(super) fn copy(
        &self,
        from: Buffer,
        to: Buffer,
        count: usize,
        packed: &mut Vec<u8>,
        communicator: &Private,
    ) -> Result<(), Error> {
        if self.is_dense() {
            copy_bytes(from, to, count * self.size);
            return Ok(());
        }
        packed.resize(count * self.size, 0);
        let middle = Buffer(packed.as_mut_ptr());
        self.pack(from, count, middle, communicator)?;
        self.unpack(middle, to, count, communicator)
    }
}

/// Elements that are copied without a private communicator.
impl Datatype {
    /// Copies `count` elements between memories that do not overlap, neither of them at MPI_BOTTOM;
    /// nothing is sent over `communicator`.
    pub(super) fn copy_by(
        &self,
        from: Buffer,
        to: Buffer,
        count: usize,
        packed: &mut Vec<u8>,
        communicator: Communicator,
    ) -> Result<(), Error> {
        if self.is_dense() {
            copy_bytes(from, to, count * self.size);
            return Ok(());
        }
        self.in_steps(count, |done, step| {
            packed.resize(packed.len().max(step as usize * self.size), 0);
            let (from, to) = (
                self.element(from, done as isize),
                self.element(to, done as isize),
            );
            let middle = Buffer(packed.as_mut_ptr());
            self.pack_step(from, step, middle, communicator)?;
            self.unpack_step(middle, to, step, communicator)
        })
    }
}

/// Moves typed data by a message to this process. Where the address is MPI_BOTTOM, MPICH's MPI_Pack
/// and MPI_Unpack take it for a null pointer; messages may use it everywhere.
fn send_to_self(
    from: (Buffer, c_int, MPI_Datatype),
    to: (Buffer, c_int, MPI_Datatype),
    communicator: &Private,
) -> Result<(), Error> {
    /// Not the engine's tag, whose messages may be under way.
    const TAG: c_int = super::transport::TAG + 1;
    let communicator = communicator.communicator();
    let rank = c_int::try_from(communicator.rank()?).unwrap_or(0);
    // SAFETY: `from` and `to` hold as much data of one signature, and do not overlap.
    check(unsafe {
        (native().functions.PMPI_Sendrecv)(
            from.0.read(),
            from.1,
            from.2,
            rank,
            TAG,
            to.0.write(),
            to.1,
            to.2,
            rank,
            TAG,
            communicator.handle(),
            super::transport::ignored_status(),
        )
    })
}

/// Copies bytes. (Programs pass the same memory twice, though they must not.)
pub(super) fn copy_bytes(from: Buffer, to: Buffer, bytes: usize) {
    // SAFETY: both are stretches of the call's buffers or of scratch, at least `bytes` long.
    unsafe { std::ptr::copy(from.0, to.0, bytes) };
}
