//! The exported symbols: one table, and the boundary that no panic crosses.
//!
//! Each exported function does three things: it names the MPI library's own function with the
//! arguments as they came, describes the call to [`collective`](crate::collective), and returns
//! what that says.

mod boundary;
mod table;
