//! Arguments of a function with large counts, for the plain function: for MPIs that have no other.
//! circulant exports both whatever the MPI has, so a program may find the former and call it.

use std::ffi::{c_int, c_void};

use super::arguments::{Counts, Entry};
use super::library::native;
use super::sys::{MPI_Datatype, MPI_Op};
use super::{Communicator, Error};

/// An argument of a function with large counts.
pub trait Plain {
    /// Its type in the plain function.
    type Plain;
    /// What the plain function gets.
    fn plain(&self) -> Self::Plain;
}

/// A count. What no `int` holds becomes -1. MPI raises its error for that where it reads the count;
/// of some calls it reads none, on some processes, and the program may have passed anything.
impl Plain for i64 {
    type Plain = c_int;

    fn plain(&self) -> c_int {
        c_int::try_from(*self).unwrap_or(-1)
    }
}

macro_rules! as_they_are {
    ($($type:ty),*) => {$(
        impl Plain for $type {
            type Plain = $type;

            fn plain(&self) -> $type {
                *self
            }
        }
    )*};
}

as_they_are!(*const c_void, *mut c_void, c_int, MPI_Datatype, MPI_Op);

/// The counts or displacements of all ranks, as `int`s; none where the program passed no array.
pub struct PlainArray(Option<Vec<c_int>>);

impl PlainArray {
    /// Of so many ranks.
    ///
    /// # Errors
    /// The code of an error that was raised: of MPI's, or MPI_ERR_COUNT where an entry fits into no
    /// `int`. (No displacement is one that MPI has an error for.)
    ///
    /// # Safety
    /// As for [`Counts::array`], where there are so many ranks.
    pub unsafe fn new<T: Entry>(
        array: *const T,
        communicator: Communicator,
        ranks: Result<usize, Error>,
    ) -> Result<PlainArray, c_int> {
        let ranks = ranks.map_err(|raised| raised.0)?;
        if array.is_null() {
            return Ok(PlainArray(None));
        }
        // SAFETY: by this function's contract.
        let entries = unsafe { Counts::array(array, ranks) };
        let entries: Result<Vec<_>, _> = entries.all().map(c_int::try_from).collect();
        match entries {
            Ok(entries) => Ok(PlainArray(Some(entries))),
            Err(_) => Err(communicator.raise(Error(native().constants.err_count.0))),
        }
    }
}

impl Plain for PlainArray {
    type Plain = *const c_int;

    fn plain(&self) -> *const c_int {
        let entries = self.0.as_ref();
        entries.map_or(std::ptr::null(), |entries| entries.as_ptr())
    }
}
