//! circulant_successive_bcast: n dependent broadcasts in order, with the program's callbacks between
//! them.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `api` | the C functions: arguments are checked, errors raised |
//! | `call` | one call: by circulant, or by MPI's broadcasts |
//! | `values` | packed values, and the program's callbacks |
//! | `flow` | the two ways that values go |
//! | `trees` | each along a tree of its own |
//! | `turns` | from owner to owner, several in a message |
//! | `relay` | which values those messages have |
//! | `faults` | errors of callbacks |
//! | `simulate` | the same in memory, with a clock |

mod faults;
mod flow;
mod relay;
mod simulate;
mod trees;
mod turns;

#[cfg(any(feature = "mpi", feature = "bindings"))]
mod api;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod call;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod values;

#[cfg(any(feature = "mpi", feature = "bindings"))]
pub use api::{circulant_step, circulant_successive_bcast, circulant_successive_owner};
pub use faults::{Course, Fault, Faults, HEADER};
pub use flow::{Flow, Steps, Successive, Way};
pub use relay::{Parcel, Relay};
pub use simulate::{Broken, Outcome, SuccessiveProblem, simulate_successive};
