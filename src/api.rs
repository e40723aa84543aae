//! circulant's own C functions, the only ones in `include/circulant.h`: here those that say what it
//! is and has done; each operation that MPI does not have is in [`extensions`](crate::extensions).

pub use crate::extensions::growing::{
    circulant_allgather_merge, circulant_allreduce_v, circulant_combine, circulant_compare,
};
pub use crate::extensions::successive::{
    circulant_step, circulant_successive_bcast, circulant_successive_owner,
};
pub use crate::interpose::{CommWord, DatatypeWord};

use std::ffi::{CStr, c_char, c_int, c_ulonglong};

use strum::VariantArray;

use crate::communicator::choice;
use crate::interpose::{Boundary, pass_on};
use crate::report::{Outcome, calls};
use crate::select::{Kind, Operation};

/// The version of circulant, such as "0.1.0". A static string.
#[unsafe(no_mangle)]
pub extern "C" fn circulant_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// How many calls of an operation this process has run as circulant so far. The operation is named
/// as in reports: "bcast", "reduce", "allgather", "allgatherv", "reduce_scatter_block",
/// "reduce_scatter", "allreduce", "alltoall", "gather", "scatter", "successive_bcast",
/// "allgather_merge" or "allreduce_v"; any other name, or a null pointer, gives 0.
///
/// # Safety
/// `operation` is null or points to a string that ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn circulant_calls(operation: *const c_char) -> c_ulonglong {
    let _boundary = Boundary::new("circulant_calls");
    pass_on!(of_opened circulant_calls(operation));
    // SAFETY: by this function's contract.
    let found = unsafe { named(operation) };
    found.map_or(0, |operation| calls(operation, Outcome::Circulant))
}

/// Who runs an operation's calls of so many bytes on communicators of so many processes, once this
/// process has measured it, as a number:
///
/// - -1: that is not known yet.
/// - 0: the MPI library.
/// - 1: circulant, by an algorithm with one block.
/// - 2, 3, 4: circulant, in n, n/2 or 2n blocks.
/// - 5, 6, 7, 8: the same four, run by one process of each node.
/// - 9: circulant, in memory that the processes of one node share.
/// - 10: circulant, by several or all processes of each node: in one block, or in n.
///
/// `irregularity` is the largest part over the mean: 1, unless a process has more than the others.
/// `is_exact` says whether the result is the same whatever the order of combination. Operations are
/// named as for circulant_calls.
///
/// # Safety
/// `operation` is null or points to a string that ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn circulant_choice(
    operation: *const c_char,
    bytes: c_ulonglong,
    irregularity: c_ulonglong,
    is_exact: c_int,
    processes: c_int,
) -> c_int {
    let _boundary = Boundary::new("circulant_choice");
    pass_on!(of_opened circulant_choice(
        operation,
        bytes,
        irregularity,
        is_exact,
        processes
    ));
    // SAFETY: by this function's contract.
    let operation = unsafe { named(operation) };
    let [size, irregularity] = [bytes, irregularity].map(|number| number.max(1).ilog2());
    let is_such = |kind: &Kind| {
        Some(kind.operation) == operation
            && (kind.size, kind.irregularity) == (size, irregularity)
            && kind.is_exact() == (is_exact != 0)
    };
    let found = choice(is_such, usize::try_from(processes).unwrap_or(0));
    found.map_or(-1, |candidate| c_int::try_from(candidate).unwrap_or(-1))
}

/// The operation of this name, if there is one.
///
/// # Safety
/// `name` is null or points to a string that ends in NUL.
unsafe fn named(name: *const c_char) -> Option<Operation> {
    if name.is_null() {
        return None;
    }
    // SAFETY: by this function's contract.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let mut all = Operation::VARIANTS.iter().copied();
    all.find(|known| known.name().as_bytes() == name)
}
