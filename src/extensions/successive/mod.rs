//! circulant_successive_bcast: n broadcasts in order, each of which depends on those before it.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `api` | the C functions: they check arguments and raise errors |
//! | `call` | one call, by circulant or by MPI's broadcasts |
//! | `values` | the packed values, and the program's callbacks |
//! | `flow` | the two ways of sending values, and their parameters |
//! | `relay` | the messages from owner to owner |
//! | `turns` | the executor, for both ways |
//! | `faults` | errors of callbacks |
//!
//! `tests/simulate/simulator/successive.rs` runs it on p ranks in memory, with a clock.

pub mod faults;
pub mod flow;
mod relay;
pub mod turns;

#[cfg(any(feature = "mpi", feature = "bindings"))]
mod api;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod call;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod values;

#[cfg(any(feature = "mpi", feature = "bindings"))]
pub use api::{circulant_step, circulant_successive_bcast, circulant_successive_owner};
pub use flow::{Flow, Way};
pub use relay::{Parcel, Relay};
