//! The exported symbols: one table, and the boundary that no panic crosses.
//!
//! Each function is exported as `MPI_X`, which lets another tool see the call, and as `PMPI_X`,
//! which does three things: it names the MPI library's own function with the arguments as they
//! came, describes the call to [`collective`](crate::collective), and returns what that says.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `table` | the exported functions |
//! | `boundary` | what no panic crosses; the way past circulant |
//! | `builds` | the build for another MPI than this one is for |
//!
//! Under Miri, `stubbed` calls the exported functions.

mod boundary;
mod builds;
#[cfg(all(test, miri))]
mod stubbed;
mod table;

pub use boundary::{Boundary, CommWord, DatatypeWord, of_type, typed};
pub(crate) use boundary::{inferred, pass_on};
pub use builds::{of_opened, required};
