//! How two operands that grow are combined: by a merge of numbers, by a merge with the program's
//! comparison function, or by a function of the program.

use std::ffi::{c_int, c_void};

use super::merge::{self, Number};
use crate::mpi::{Array, Datatype, NumberKind, int, native};

/// The program's `compare(a, b, context)`: returns a number below 0, 0, or a number above 0.
pub type Compare = unsafe extern "C" fn(*const c_void, *const c_void, *mut c_void) -> c_int;

/// The program's `combine(left, leftcount, right, rightcount, out, outcount, context)`: returns 0
/// or a code.
pub type Combine = unsafe extern "C" fn(
    *const c_void,
    c_int,
    *const c_void,
    c_int,
    *mut c_void,
    *mut c_int,
    *mut c_void,
) -> c_int;

/// How two operands are combined.
#[derive(Clone, Copy)]
pub struct Combination(Kind);

#[derive(Clone, Copy)]
enum Kind {
    Numbers {
        merge: MergeNumbers,
        alignment: usize,
        is_total: bool,
    },
    Compared(Compare, *mut c_void),
    Combined(Combine, *mut c_void),
}

type MergeNumbers = fn(&Array, &Array, &Array);

impl Combination {
    /// The merge of numbers. None if `datatype` is not one of MPI's datatypes of numbers.
    pub fn of_numbers(datatype: &Datatype) -> Option<Combination> {
        use NumberKind::{Extended, Floating, Logical, Signed, Unsigned};
        let kind = datatype.numbers()?;
        let (merge, alignment): (MergeNumbers, usize) = match (kind, datatype.size()) {
            (Signed, 1) => merge_of::<i8>(),
            (Signed, 2) => merge_of::<i16>(),
            (Signed, 4) => merge_of::<i32>(),
            (Signed, 8) => merge_of::<i64>(),
            (Unsigned | Logical, 1) => merge_of::<u8>(),
            (Unsigned, 2) => merge_of::<u16>(),
            (Unsigned, 4) => merge_of::<u32>(),
            (Unsigned, 8) => merge_of::<u64>(),
            (Floating, 4) => merge_of::<merge::Float32>(),
            (Floating | Extended, 8) => merge_of::<merge::Float64>(),
            #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
            (Extended, 16) => merge_of::<merge::Extended>(),
            _ => return None,
        };
        Some(Combination(Kind::Numbers {
            merge,
            alignment,
            is_total: matches!(kind, Signed | Unsigned | Logical),
        }))
    }

    /// The merge by a comparison function.
    ///
    /// # Safety
    /// Until the call returns that `compare` is an argument of, it may be called on this thread,
    /// with addresses of elements and `context`.
    pub unsafe fn by_comparison(compare: Compare, context: *mut c_void) -> Combination {
        Combination(Kind::Compared(compare, context))
    }

    /// The combination by a function of the program.
    ///
    /// # Safety
    /// As for `by_comparison`. `combine` writes as many elements at `out` as it says, and no more
    /// than both operands have.
    pub unsafe fn by_function(combine: Combine, context: *mut c_void) -> Combination {
        Combination(Kind::Combined(combine, context))
    }

    /// Whether the order of operands can change the result. For integers it cannot: equal ones are
    /// the same.
    pub fn is_ordered(&self) -> bool {
        !matches!(self.0, Kind::Numbers { is_total: true, .. })
    }

    /// Whether a combination has as many elements as its operands together.
    pub fn is_merge(&self) -> bool {
        !matches!(self.0, Kind::Combined(..))
    }

    /// The alignment that elements need.
    pub fn alignment(&self) -> usize {
        match self.0 {
            Kind::Numbers { alignment, .. } => alignment,
            _ => 1,
        }
    }

    /// Combines elements at `to`. Returns how many elements the combination has, or a code.
    ///
    /// # Panics
    /// If `to` has no room for both operands.
    pub fn apply(&self, left: &Array, right: &Array, to: &Array) -> Result<usize, c_int> {
        let all = left.count() + right.count();
        assert!(all <= to.count());
        match self.0 {
            Kind::Numbers { merge, .. } => {
                merge(left, right, to);
                Ok(all)
            }
            Kind::Compared(compare, context) => {
                let before = |a: &Array, b: &Array| {
                    let (a, b) = (a.first().as_ptr(), b.first().as_ptr());
                    // SAFETY: by the contract of `by_comparison`. Both are addresses of elements.
                    unsafe { compare(a, b, context) < 0 }
                };
                merge_by(before, left, right, to);
                Ok(all)
            }
            Kind::Combined(combine, context) => call((combine, context), left, right, to),
        }
    }
}

fn call(
    (combine, context): (Combine, *mut c_void),
    left: &Array,
    right: &Array,
    to: &Array,
) -> Result<usize, c_int> {
    let mut count: c_int = -1;
    // SAFETY: by the contract of `by_function`. Longer operands than 2^31 - 1 elements were
    // refused.
    let code = unsafe {
        combine(
            left.first().as_ptr(),
            int(left.count()),
            right.first().as_ptr(),
            int(right.count()),
            to.first().as_ptr(),
            &mut count,
            context,
        )
    };
    match usize::try_from(count) {
        _ if code != 0 => Err(code),
        Ok(count) if count <= left.count() + right.count() => Ok(count),
        _ => Err(native().constants.err_count.0),
    }
}

fn merge_of<T: Number>() -> (MergeNumbers, usize) {
    (merge_numbers::<T>, align_of::<T>())
}

/// Merges numbers of type `T`.
///
/// # Panics
/// If an address is not aligned for `T`, or elements are not as large, or `to` overlaps an operand.
fn merge_numbers<T: Number>(left: &Array, right: &Array, to: &Array) {
    let checked = |run: &Array| {
        let start = run.first().as_ptr().cast::<T>();
        // Stores are aligned, and so is the result (`AllreduceV::places`).
        assert!(start.is_aligned() && run.size() == run.count() * size_of::<T>());
        start
    };
    let of = |run: &Array| {
        // SAFETY: as many elements of this size are there. Every bit pattern is a number.
        unsafe { std::slice::from_raw_parts(checked(run), run.count()) }
    };
    assert!(!to.overlaps(left) && !to.overlaps(right));
    let start = checked(to);
    // SAFETY: as above: `apply` has counted them. No operand is there. The call may write there:
    // it is the program's result buffer or a store.
    let out = unsafe { std::slice::from_raw_parts_mut(start, left.count() + right.count()) };
    merge::merge(of(left), of(right), out);
}

/// Merges elements by a function that says whether one comes before another. Of equal elements,
/// those of the left come first. Elements that follow each other on one side are moved at once,
/// with their gaps.
fn merge_by(before: impl Fn(&Array, &Array) -> bool, left: &Array, right: &Array, to: &Array) {
    let is_before =
        |a: &Array, i: usize, b: &Array, j: usize| before(&a.part(i..i + 1), &b.part(j..j + 1));
    let mut written = 0;
    let mut move_all = |run: &Array, from: usize, end: usize| {
        let next = written + (end - from);
        // SAFETY: operands are in stores. If elements have gaps, so is the result
        // (`AllreduceV::places`).
        unsafe { to.part(written..next).copy_with_gaps(&run.part(from..end)) };
        written = next;
    };
    let (mut i, mut j) = (0, 0);
    while i < left.count() && j < right.count() {
        let (from_left, from_right) = (i, j);
        while j < right.count() && is_before(right, j, left, i) {
            j += 1;
        }
        move_all(right, from_right, j);
        if j < right.count() {
            i += 1;
            while i < left.count() && !is_before(right, j, left, i) {
                i += 1;
            }
        }
        move_all(left, from_left, i);
    }
    move_all(left, i, left.count());
    move_all(right, j, right.count());
}
