//! How two operands that grow are combined: a merge of numbers, a merge by a comparison function of the
//! program, or a function of the program.

use std::ffi::{c_int, c_void};

use super::merge::{self, Number};
use crate::mpi::{Array, Datatype, NumberKind, int, native};

/// `compare(a, b, context)` of the program: below 0, 0 or above 0.
pub type Compare = unsafe extern "C" fn(*const c_void, *const c_void, *mut c_void) -> c_int;

/// `combine(left, leftcount, right, rightcount, out, outcount, context)` of the program: 0, or a code.
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
    /// The merge of numbers; none where `datatype` is not one of MPI's datatypes of numbers.
    pub fn of_numbers(datatype: &Datatype) -> Option<Combination> {
        use NumberKind::{Extended, Floating, Logical, Signed, Unsigned};
        let (merge, alignment): (MergeNumbers, usize) = match (datatype.numbers()?, datatype.size())
        {
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
        let kind = datatype.numbers()?;
        Some(Combination(Kind::Numbers {
            merge,
            alignment,
            is_total: matches!(kind, Signed | Unsigned | Logical),
        }))
    }

    /// The merge by a comparison function.
    ///
    /// # Safety
    /// `compare` may be called, on this thread, with `context` and addresses of elements, until the call
    /// that it was an argument of returns.
    pub unsafe fn by_comparison(compare: Compare, context: *mut c_void) -> Combination {
        Combination(Kind::Compared(compare, context))
    }

    /// By a function of the program.
    ///
    /// # Safety
    /// `combine` may be called so; it writes as many elements at `out` as it says, no more than it was
    /// given.
    pub unsafe fn by_function(combine: Combine, context: *mut c_void) -> Combination {
        Combination(Kind::Combined(combine, context))
    }

    /// Whether the order of operands can make a difference to the result. Integers that are equal are the
    /// same.
    pub fn is_ordered(&self) -> bool {
        !matches!(self.0, Kind::Numbers { is_total: true, .. })
    }

    /// Whether combinations have as many elements as their operands together.
    pub fn is_merge(&self) -> bool {
        !matches!(self.0, Kind::Combined(..))
    }

    /// What addresses of elements have to be a multiple of.
    pub fn alignment(&self) -> usize {
        match self.0 {
            Kind::Numbers { alignment, .. } => alignment,
            _ => 1,
        }
    }

    /// Combines elements; `to` has room for both. How many there are then, or a code.
    ///
    /// # Panics
    /// If it has not.
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
                    // SAFETY: by the contract of `by_comparison`; both are addresses of elements.
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
    // SAFETY: by the contract of `by_function`. Counts are below 2^31: longer operands are refused
    // before.
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

/// Merges numbers of type `T`, at addresses that are aligned for it.
fn merge_numbers<T: Number>(left: &Array, right: &Array, to: &Array) {
    let of = |run: &Array| {
        let start = run.first().as_ptr().cast::<T>().cast_const();
        // SAFETY: so many elements of the datatype that `T` was chosen for are there; every pattern of
        // bits is a number. Whoever made the runs has looked at the alignment.
        unsafe { std::slice::from_raw_parts(start, run.count()) }
    };
    let start = to.first().as_ptr().cast::<T>();
    // SAFETY: as above, and nothing else is there: no operand, and the memory was given to the call to
    // be written to, or is a store's.
    let out = unsafe { std::slice::from_raw_parts_mut(start, left.count() + right.count()) };
    merge::merge(of(left), of(right), out);
}

/// Merges elements by a function that says whether one comes before another: equal elements of the left
/// first. Elements are moved with their gaps, as many at once as come from one side.
fn merge_by(before: impl Fn(&Array, &Array) -> bool, left: &Array, right: &Array, to: &Array) {
    let is_before =
        |a: &Array, i: usize, b: &Array, j: usize| before(&a.part(i..i + 1), &b.part(j..j + 1));
    let mut written = 0;
    let mut move_all = |run: &Array, from: usize, end: usize| {
        let next = written + (end - from);
        // SAFETY: operands are in stores; and so is the result, if elements have gaps (`Operands::room`).
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
