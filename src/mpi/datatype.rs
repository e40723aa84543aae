//! A datatype: sizes and layout, asked for once.
//!
//! What MPI says of a datatype is remembered, because a call would ask for it again and again: of a
//! predefined one, whose handle always means the same, in a table; of a derived one in an attribute
//! of the datatype, which goes when the datatype goes, before its handle can mean another.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::attribute::{Keyval, OfDatatypes, nearby};
use super::library::{NumberKind, native};
use super::probe::probe;
use super::sys::{MPI_Aint, MPI_Comm, MPI_Count, MPI_Datatype};
use super::{Buffer, Communicator, SUCCESS, check, int};

/// A datatype of the program, with the layout of one element.
#[derive(Clone, Copy, Debug)]
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
    is_predefined: bool,
    /// Of a derived datatype, what is remembered.
    kept: Option<NonNull<Derived>>,
}

// SAFETY: a handle of the program's, which any thread may use, numbers, and what is remembered,
// which is shared as a reference to it would be.
unsafe impl Send for Datatype {}
// SAFETY: as above.
unsafe impl Sync for Datatype {}

impl PartialEq for Datatype {
    fn eq(&self, other: &Datatype) -> bool {
        self.handle == other.handle
    }
}

/// What is remembered of a derived datatype: the value of its attribute.
struct Derived {
    datatype: Datatype,
    /// Whether it was found to be committed.
    is_committed: AtomicBool,
    /// Whether its elements are packed in the order of their bytes, once that was tried.
    is_in_order: OnceCell<bool>,
}

static KEPT: Keyval<OfDatatypes<Derived>> = Keyval::new();

/// Held while an attribute is set, which is local: of two threads, one does it. The other does not
/// wait, since it may be inside of MPI, in a callback.
static KEEPING: Mutex<()> = Mutex::new(());

/// Gives up the keyval, when MPI is about to end.
pub fn forget_datatypes() {
    KEPT.free();
}

/// The predefined datatypes that were met. Each keeps its place for ever.
static PREDEFINED: [CacheEntry; 128] = [const { CacheEntry::new() }; 128];
/// In how many places one may be.
const TRIES: usize = 8;

struct CacheEntry {
    /// The handle; 0 while the place is free.
    handle: AtomicUsize,
    datatype: OnceCell<Datatype>,
}

impl CacheEntry {
    const fn new() -> CacheEntry {
        CacheEntry {
            handle: AtomicUsize::new(0),
            datatype: OnceCell::new(),
        }
    }
}

/// How many arguments of each kind a datatype's constructor took.
#[derive(Default)]
struct Constructor {
    integers: MPI_Count,
    addresses: MPI_Count,
    large_counts: MPI_Count,
    datatypes: MPI_Count,
}

/// The datatype that another one repeats: a reference that MPI gave to us, unless it is predefined.
struct Repeated(Datatype);

impl Drop for Repeated {
    fn drop(&mut self) {
        if !self.0.is_predefined {
            // SAFETY: MPI_Type_get_contents made this handle for us to free.
            unsafe { (native().functions.PMPI_Type_free)(&mut self.0.handle) };
        }
    }
}

/// Whether MPI takes `handle` for a datatype that can be used. It is asked how much memory no
/// element takes, on the probe, whose errors the program does not hear of.
///
/// # Safety
/// As for [`Datatype::of`].
unsafe fn is_usable(handle: MPI_Datatype) -> bool {
    if handle == native().constants.datatype_null {
        return false;
    }
    let Some(probe) = probe() else {
        return true;
    };
    let mut bytes: c_int = 0;
    let size = native().functions.PMPI_Pack_size;
    // SAFETY: a handle that MPI may be asked about, a communicator of ours; writes one integer.
    let code = probe.ask(|alone| unsafe { size(0, handle, alone, &mut bytes) });
    code == SUCCESS
}

impl Datatype {
    /// What is known of `handle`. None for a datatype that MPI has to judge. Its size is the same
    /// on all processes, wherever the signature is; the rest is this process's own affair.
    ///
    /// # Safety
    /// `handle` may be passed to MPI as a datatype while this value, or a copy, is used for more
    /// than to compare it: the program passed it as one to the call in progress, or MPI gave it.
    /// (An MPI whose handles are pointers follows it.)
    pub unsafe fn of(handle: MPI_Datatype) -> Option<Datatype> {
        match Datatype::predefined(handle) {
            Some(datatype) => Some(*datatype),
            // SAFETY: by this function's contract.
            None if unsafe { is_usable(handle) } => unsafe { Datatype::of_usable(handle) },
            None => None,
        }
    }

    /// A predefined one that was met before.
    pub(super) fn predefined(handle: MPI_Datatype) -> Option<&'static Datatype> {
        for place in nearby(&PREDEFINED, handle.0 as usize, TRIES) {
            match place.handle.load(Ordering::Acquire) {
                0 => return None,
                found if found == handle.0 as usize => return place.datatype.get(),
                _ => {}
            }
        }
        None
    }

    /// # Safety
    /// As for [`Datatype::of`]; and MPI knows the datatype.
    unsafe fn of_usable(handle: MPI_Datatype) -> Option<Datatype> {
        // SAFETY: by this function's contract.
        if let Some(kept) = unsafe { kept_of(handle) } {
            // SAFETY: as in `kept`.
            let datatype = unsafe { kept.as_ref() }.datatype;
            return Some(Datatype {
                kept: Some(kept),
                ..datatype
            });
        }
        // SAFETY: by this function's contract.
        let datatype = unsafe { Datatype::examined(handle) }?;
        if datatype.is_predefined {
            datatype.enter();
            return Some(datatype);
        }
        Some(datatype.remembered())
    }

    /// Asks MPI about a datatype, which need not be committed.
    ///
    /// # Safety
    /// As for [`Datatype::of`]; and MPI knows the datatype.
    #[allow(clippy::unnecessary_cast)] // MPI_Aint is not the same Rust type in every MPI.
    unsafe fn examined(handle: MPI_Datatype) -> Option<Datatype> {
        let functions = &native().functions;
        let mut size: MPI_Count = -1;
        // SAFETY: writes one integer.
        check(unsafe { (functions.PMPI_Type_size_x)(handle, &mut size) }).ok()?;
        let size = usize::try_from(size).ok()?;
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
        let mut datatype = Datatype {
            handle,
            size,
            extent: extent as isize,
            true_lower,
            true_extent,
            margins: (0, 0),
            is_predefined: false,
            kept: None,
        };
        let margins = (margin(lower, true_lower), margin(true_upper, upper));
        // Else what is beside an element is its neighbour.
        let whole = true_extent
            .saturating_add(margins.0)
            .saturating_add(margins.1);
        if whole <= extent.unsigned_abs() as usize {
            datatype.margins = margins;
        }
        // Every constructor takes a datatype, but for a struct of nothing, whose size is 0 (and
        // Fortran's sized kinds, which are predefined).
        let constructor = datatype.constructor().filter(|_| size > 0);
        datatype.is_predefined = constructor.is_some_and(|made| made.datatypes == 0);
        Some(datatype)
    }

    /// This derived datatype, remembered in an attribute of MPI's, unless MPI has no room for that.
    fn remembered(self) -> Datatype {
        let Some(keyval) = KEPT.get_or_create() else {
            return self;
        };
        let Some(_guard) = KEEPING.try_lock() else {
            return self;
        };
        // SAFETY: a datatype that MPI knows.
        let kept = unsafe { kept_of(self.handle) }.or_else(|| self.keep(keyval));
        Datatype { kept, ..self }
    }

    /// Sets the attribute, which no other thread does now.
    fn keep(self, keyval: c_int) -> Option<NonNull<Derived>> {
        let kept = Box::into_raw(Box::new(Derived {
            datatype: self,
            is_committed: AtomicBool::new(false),
            is_in_order: OnceCell::new(),
        }));
        let set = native().functions.PMPI_Type_set_attr;
        // SAFETY: a datatype that MPI knows; the value is a box with a `Derived`.
        if check(unsafe { set(self.handle, keyval, kept.cast()) }).is_ok() {
            return NonNull::new(kept);
        }
        // SAFETY: the attribute was not set, so nobody else has the box.
        drop(unsafe { Box::from_raw(kept) });
        None
    }

    /// What is remembered of it.
    fn kept(&self) -> Option<&Derived> {
        // SAFETY: MPI drops it with the datatype. One that the program frees while its call waits
        // is freed when that has ended (`held.rs`). Values of two kinds outlive a call: those of
        // `PREDEFINED`, of which nothing is kept here, and those in lists that calls leave to the
        // next ones, which are cleared before they are read.
        self.kept.map(|kept| unsafe { kept.as_ref() })
    }

    fn enter(&self) {
        let handle = self.handle.0 as usize;
        for place in nearby(&PREDEFINED, handle, TRIES) {
            let free =
                place
                    .handle
                    .compare_exchange(0, handle, Ordering::AcqRel, Ordering::Acquire);
            if free.is_ok() || free == Err(handle) {
                place.datatype.get_or_init(|| *self);
                return;
            }
        }
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

    /// Whether the data of an element is in one piece, though there are gaps between elements.
    pub fn is_in_one_piece(&self) -> bool {
        self.true_extent == self.size
    }

    /// Bytes from the first byte of data of an element to behind its last.
    pub fn true_extent(&self) -> usize {
        self.true_extent
    }

    /// Bytes from an element to the next, if none lies in another's gaps.
    pub fn stride(&self) -> Option<usize> {
        usize::try_from(self.extent)
            .ok()
            .filter(|&stride| stride >= self.true_extent)
    }

    /// Whether elements that follow each other may lie in each other's gaps, or before each other:
    /// then the memories of different elements cannot be told apart by their bounds.
    pub fn interleaves(&self) -> bool {
        self.stride().is_none()
    }

    /// Whether it is one of MPI's own datatypes.
    pub fn is_predefined(&self) -> bool {
        self.is_predefined
    }

    /// Whether the packed form of any number of elements is the memory itself: dense, and in the
    /// order of the signature. (An indexed type may visit a dense stretch in another order, and a
    /// process that describes the same signature otherwise would then see it permuted.) `bytes` is
    /// memory to try it in.
    pub fn is_contiguous(&self, communicator: Communicator, bytes: &mut Vec<u8>) -> bool {
        if !self.is_dense() || self.is_predefined {
            return self.is_dense();
        }
        match self.kept().and_then(|kept| kept.is_in_order.get()) {
            Some(is_in_order) => *is_in_order,
            None => {
                // No lock is held while MPI packs: two threads may find out the same.
                let is_in_order = self.packs_in_order(communicator, bytes);
                self.kept().map(|kept| kept.is_in_order.set(is_in_order));
                is_in_order
            }
        }
    }

    /// Packs one element of bytes that know their position, and looks whether they moved. Of a
    /// large repetition, only what is repeated is looked at; other large elements are staged.
    fn packs_in_order(&self, communicator: Communicator, bytes: &mut Vec<u8>) -> bool {
        const LARGEST: usize = 64 << 10;
        if self.size > LARGEST {
            let repeated = self.repeated();
            return repeated.is_some_and(|inner| inner.0.is_contiguous(communicator, bytes));
        }
        bytes.clear();
        if bytes.try_reserve(2 * self.size).is_err() {
            return false;
        }
        bytes.resize(2 * self.size, 0);
        let (pattern, packed) = bytes.split_at_mut(self.size);
        // Two bytes tell the positions of at most 2^16 apart; the first is enough for 2^8.
        let shifts: &[u32] = if self.size > 1 << 8 { &[0, 8] } else { &[0] };
        shifts.iter().all(|shift| {
            for (position, byte) in pattern.iter_mut().enumerate() {
                *byte = (position >> shift) as u8;
            }
            let mut end = 0;
            // SAFETY: one dense element is at `pattern`, and its packed bytes fit at `packed`.
            let code = unsafe {
                (native().functions.PMPI_Pack)(
                    pattern.as_ptr().cast(),
                    1,
                    self.handle,
                    packed.as_mut_ptr().cast(),
                    int(packed.len()),
                    &mut end,
                    communicator.handle(),
                )
            };
            code == SUCCESS && packed == pattern
        })
    }

    /// How many arguments of each kind its constructor took. None where MPI does not say. It is
    /// asked with large counts where it has them: the other form is an error for a datatype that
    /// was made with large counts.
    fn constructor(&self) -> Option<Constructor> {
        let functions = &native().functions;
        let mut made = Constructor::default();
        let mut combiner = 0;
        let code = match functions.PMPI_Type_get_envelope_c {
            // SAFETY: writes five integers.
            Some(envelope) => unsafe {
                envelope(
                    self.handle,
                    &mut made.integers,
                    &mut made.addresses,
                    &mut made.large_counts,
                    &mut made.datatypes,
                    &mut combiner,
                )
            },
            None => {
                let mut numbers: [c_int; 3] = [0; 3];
                let [integers, addresses, datatypes] = &mut numbers;
                // SAFETY: writes four integers.
                let code = unsafe {
                    (functions.PMPI_Type_get_envelope)(
                        self.handle,
                        integers,
                        addresses,
                        datatypes,
                        &mut combiner,
                    )
                };
                [made.integers, made.addresses, made.datatypes] = numbers.map(MPI_Count::from);
                code
            }
        };
        (code == SUCCESS).then_some(made)
    }

    /// Of a repetition or a duplicate of another datatype, that datatype, if it is dense.
    fn repeated(&self) -> Option<Repeated> {
        let made = self.constructor()?;
        // Nothing else of a size takes so few arguments.
        let numbers = made.integers + made.large_counts;
        if numbers > 1 || made.addresses != 0 || made.datatypes != 1 {
            return None;
        }
        let functions = &native().functions;
        let (mut count, mut address, mut inner): (c_int, MPI_Aint, _) = (0, 0, self.handle);
        let mut large_count: MPI_Count = 0;
        let code = match functions.PMPI_Type_get_contents_c {
            // SAFETY: writes at most one number, no address and one datatype.
            Some(contents) => unsafe {
                contents(
                    self.handle,
                    made.integers,
                    0,
                    made.large_counts,
                    1,
                    &mut count,
                    &mut address,
                    &mut large_count,
                    &mut inner,
                )
            },
            // SAFETY: writes at most one integer, no address and one datatype.
            None => unsafe {
                (functions.PMPI_Type_get_contents)(
                    self.handle,
                    numbers as c_int,
                    0,
                    1,
                    &mut count,
                    &mut address,
                    &mut inner,
                )
            },
        };
        check(code).ok()?;
        // SAFETY: a datatype that MPI gave.
        let inner = Repeated(unsafe { Datatype::examined(inner) }?);
        inner.0.is_dense().then_some(inner)
    }

    /// Whether it [is committed](Datatype::is_committed), as far as MPI can be asked while there is
    /// no communicator of ours.
    pub fn may_be_committed(&self) -> bool {
        self.is_known_to_be_committed()
            || probe().is_none_or(|probe| probe.ask(|alone| self.is_committed_on(alone)))
    }

    fn is_known_to_be_committed(&self) -> bool {
        let is_known = |kept: &Derived| kept.is_committed.load(Ordering::Relaxed);
        self.is_predefined || self.kept().is_some_and(is_known)
    }

    /// Whether MPI accepts it in communication: committed, if it is a derived one. MPI cannot be
    /// asked, but it checks the datatype of a message to nobody (of one element: MPICH does not
    /// look at the datatype of none). Errors are returned on `communicator`.
    pub fn is_committed(&self, communicator: Communicator) -> bool {
        self.is_known_to_be_committed() || self.is_committed_on(communicator.handle())
    }

    fn is_committed_on(&self, communicator: MPI_Comm) -> bool {
        let nobody = native().constants.proc_null.0;
        // Never read, but null would be an error of its own.
        let element = std::ptr::from_ref(self).cast();
        // SAFETY: nothing is sent to nobody.
        let code = unsafe {
            (native().functions.PMPI_Send)(
                element,
                1,
                self.handle,
                nobody,
                super::TAG_TO_SELF,
                communicator,
            )
        };
        if let Some(kept) = self.kept().filter(|_| code == SUCCESS) {
            kept.is_committed.store(true, Ordering::Relaxed);
        }
        code == SUCCESS
    }

    /// The address of element `index` of those at `base`.
    pub fn element(&self, base: Buffer, index: isize) -> Buffer {
        base.offset(index.wrapping_mul(self.extent))
    }

    /// The address of element `index` in scratch that starts at `base`: there the first byte of
    /// data and the margins, not the element's address, are what has to be inside.
    pub fn element_in(&self, base: Buffer, index: usize) -> Buffer {
        self.element(base.offset(self.lower().wrapping_neg()), index as isize)
    }

    /// The address of the first of `count` elements in scratch that starts at `base`: the last one
    /// is there where they follow each other downwards.
    pub fn first_in(&self, base: Buffer, count: usize) -> Buffer {
        let steps = if self.extent < 0 {
            count.saturating_sub(1)
        } else {
            0
        };
        let last = self.element_in(base, 0);
        last.offset((steps as isize).wrapping_mul(self.extent).wrapping_neg())
    }

    /// Bytes that are left at the start of aligned scratch, so that by
    /// [`element_in`](Datatype::element_in) element 0 is aligned, as what the program has from
    /// `malloc` is: its functions may rely on that.
    pub fn shift(&self) -> usize {
        const ALIGNMENT: isize = 16;
        self.lower().rem_euclid(ALIGNMENT).unsigned_abs()
    }

    /// Bytes that `count` elements take in aligned scratch, with what is left at its start.
    pub fn room(&self, count: usize) -> usize {
        match count {
            0 => 0,
            _ => self.span(count).saturating_add(self.shift()),
        }
    }

    /// Bytes from an element's address to where its memory in scratch begins.
    pub fn lower(&self) -> isize {
        self.true_lower.wrapping_sub_unsigned(self.margins.0)
    }
}

/// What is remembered of a datatype.
///
/// # Safety
/// As for [`Datatype::of`]; and MPI knows the datatype.
unsafe fn kept_of(handle: MPI_Datatype) -> Option<NonNull<Derived>> {
    let keyval = KEPT.get()?;
    let (mut value, mut found): (*mut c_void, c_int) = (std::ptr::null_mut(), 0);
    // SAFETY: a datatype that MPI knows; writes a pointer and an integer.
    let code = unsafe {
        (native().functions.PMPI_Type_get_attr)(handle, keyval, (&raw mut value).cast(), &mut found)
    };
    NonNull::new(value.cast()).filter(|_| code == SUCCESS && found != 0)
}
