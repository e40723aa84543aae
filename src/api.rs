//! circulant's own C functions, the only ones in `include/circulant.h`: here those that say what it
//! is and has done; each operation that MPI does not have is in [`extensions`](crate::extensions).

pub use crate::extensions::growing::{
    circulant_allgather_merge, circulant_allreduce_v, circulant_combine, circulant_compare,
};
pub use crate::extensions::successive::{
    circulant_step, circulant_successive_bcast, circulant_successive_owner,
};

use std::ffi::{CStr, c_char, c_ulonglong};

use strum::VariantArray;

use crate::report::{Outcome, calls};
use crate::select::Operation;

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
pub unsafe extern "C" fn circulant_calls(operation: *const c_char) -> c_ulonglong {
    if operation.is_null() {
        return 0;
    }
    // SAFETY: by this function's contract.
    let name = unsafe { CStr::from_ptr(operation) };
    let mut all = Operation::VARIANTS.iter();
    let found = all.find(|known| known.name().as_bytes() == name.to_bytes());
    found.map_or(0, |&operation| calls(operation, Outcome::Circulant))
}
