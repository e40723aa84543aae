//! How two operands that grow are combined: by a merge of numbers, by a merge with the program's
//! comparison function, or by a function of the program.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use super::merge::{self, Number};
use crate::mpi::{Array, Datatype, NumberKind, Region, int, native};

/// Elements whose gaps may be read and written, as they may themselves: either the gaps are in the
/// same memory, as in a store, or there are none.
#[derive(Clone, Copy)]
pub struct Whole(Array);

impl Whole {
    /// As many elements, with their gaps and margins, as fit into `region`.
    ///
    /// # Panics
    /// If fewer than `count` fit.
    pub fn inside(region: Region, count: usize, datatype: Datatype) -> Whole {
        Whole(Array::inside(region, count, datatype))
    }

    /// Elements anywhere. None if they have gaps.
    pub fn dense(elements: Array) -> Option<Whole> {
        elements.datatype().is_dense().then_some(Whole(elements))
    }

    /// The elements.
    pub fn elements(&self) -> Array {
        self.0
    }

    /// A part of them.
    ///
    /// # Panics
    /// If `range` is not inside it.
    pub fn part(&self, range: Range<usize>) -> Whole {
        Whole(self.0.part(range))
    }

    fn address(&self) -> *mut c_void {
        self.0.first().as_ptr()
    }

    /// Copies the memory of the elements of `from`, which are as many and of the same datatype.
    fn copy_from(&self, from: &Whole) {
        // SAFETY: the gaps of both may be read and written.
        unsafe { self.0.copy_with_gaps(&from.0) };
    }
}

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
pub struct Combination(Method);

#[derive(Clone, Copy)]
enum Method {
    Numbers {
        merge: MergeNumbers,
        alignment: usize,
        is_total: bool,
    },
    Compared(Compare, *mut c_void),
    Combined(Combine, *mut c_void),
}

type MergeNumbers = fn(&Whole, &Whole, &Whole);

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
        Some(Combination(Method::Numbers {
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
        Combination(Method::Compared(compare, context))
    }

    /// The combination by a function of the program.
    ///
    /// # Safety
    /// As for `by_comparison`. `combine` writes as many elements at `out` as it says, and no more
    /// than both operands have.
    pub unsafe fn by_function(combine: Combine, context: *mut c_void) -> Combination {
        Combination(Method::Combined(combine, context))
    }

    /// Whether the order of operands can change the result. For integers it cannot: equal ones are
    /// the same.
    pub fn is_ordered(&self) -> bool {
        !matches!(self.0, Method::Numbers { is_total: true, .. })
    }

    /// Whether a combination has as many elements as its operands together.
    pub fn is_merge(&self) -> bool {
        !matches!(self.0, Method::Combined(..))
    }

    /// The alignment that elements need.
    pub fn alignment(&self) -> usize {
        match self.0 {
            Method::Numbers { alignment, .. } => alignment,
            _ => 1,
        }
    }

    /// Combines elements at `to`. Returns how many elements the combination has, or a code.
    ///
    /// # Panics
    /// If `to` has no room for both operands.
    pub fn apply(&self, left: &Whole, right: &Whole, to: &Whole) -> Result<usize, c_int> {
        let all = left.0.count() + right.0.count();
        assert!(all <= to.0.count());
        match self.0 {
            Method::Numbers { merge, .. } => {
                merge(left, right, to);
                Ok(all)
            }
            Method::Compared(compare, context) => {
                let before = |a: &Whole, b: &Whole| {
                    // SAFETY: by the contract of `by_comparison`. Both are addresses of elements.
                    unsafe { compare(a.address(), b.address(), context) < 0 }
                };
                merge_by(before, left, right, to);
                Ok(all)
            }
            Method::Combined(combine, context) => call((combine, context), left, right, to),
        }
    }
}

fn call(
    (combine, context): (Combine, *mut c_void),
    left: &Whole,
    right: &Whole,
    to: &Whole,
) -> Result<usize, c_int> {
    let (of_left, of_right) = (left.0.count(), right.0.count());
    let mut count: c_int = -1;
    // SAFETY: by the contract of `by_function`. Longer operands than 2^31 - 1 elements were
    // refused.
    let code = unsafe {
        combine(
            left.address(),
            int(of_left),
            right.address(),
            int(of_right),
            to.address(),
            &mut count,
            context,
        )
    };
    match usize::try_from(count) {
        _ if code != 0 => Err(code),
        Ok(count) if count <= of_left + of_right => Ok(count),
        _ => Err(native().constants.err_count.0),
    }
}

/// A number of which any bytes are a value.
///
/// # Safety
/// They are.
unsafe trait Plain: Number {}

macro_rules! plain {
    ($($type:ty)*) => {$(
        // SAFETY: an integer, or a structure of integers.
        unsafe impl Plain for $type {}
    )*};
}

plain! { i8 u8 i16 u16 i32 u32 i64 u64 merge::Float32 merge::Float64 }
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
plain! { merge::Extended }

fn merge_of<T: Plain>() -> (MergeNumbers, usize) {
    (merge_numbers::<T>, align_of::<T>())
}

/// Merges numbers of type `T`.
///
/// # Panics
/// If the operands or the result are not numbers of this size, aligned for `T` and without gaps; if
/// `to` has no room for both operands, or overlaps one.
fn merge_numbers<T: Plain>(left: &Whole, right: &Whole, to: &Whole) {
    let start_of = |Whole(numbers): &Whole| {
        let start = numbers.first().as_ptr().cast::<T>();
        let is_dense = numbers.datatype().is_dense();
        assert!(is_dense && numbers.size() == numbers.count() * size_of::<T>());
        assert!(start.is_aligned());
        start
    };
    let of = |run: &Whole| {
        // SAFETY: as many numbers of this size follow each other there, aligned. Any bytes are a
        // value.
        unsafe { std::slice::from_raw_parts(start_of(run), run.0.count()) }
    };
    let all = left.0.count() + right.0.count();
    assert!(all <= to.0.count() && !to.0.overlaps(&left.0) && !to.0.overlaps(&right.0));
    // SAFETY: as above. Neither operand is there, and elements may be written.
    let out = unsafe { std::slice::from_raw_parts_mut(start_of(to), all) };
    merge::merge(of(left), of(right), out);
}

/// Merges elements by a function that says whether one comes before another. Of equal elements,
/// those of the left come first. Elements that follow each other on one side are moved at once.
fn merge_by(before: impl Fn(&Whole, &Whole) -> bool, left: &Whole, right: &Whole, to: &Whole) {
    let is_before =
        |a: &Whole, i: usize, b: &Whole, j: usize| before(&a.part(i..i + 1), &b.part(j..j + 1));
    let mut written = 0;
    let mut move_all = |run: &Whole, from: usize, end: usize| {
        let next = written + (end - from);
        to.part(written..next).copy_from(&run.part(from..end));
        written = next;
    };
    let (of_left, of_right) = (left.0.count(), right.0.count());
    let (mut i, mut j) = (0, 0);
    while i < of_left && j < of_right {
        let (from_left, from_right) = (i, j);
        while j < of_right && is_before(right, j, left, i) {
            j += 1;
        }
        move_all(right, from_right, j);
        if j < of_right {
            i += 1;
            while i < of_left && !is_before(right, j, left, i) {
                i += 1;
            }
        }
        move_all(left, from_left, i);
    }
    move_all(left, i, of_left);
    move_all(right, j, of_right);
}
