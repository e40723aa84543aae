//! circulant_allgather_merge and circulant_allreduce_v: reductions whose operand grows.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `api` | the C functions: arguments are checked, errors raised |
//! | `call` | one call: by circulant, or by MPI's allgather |
//! | `operands` | memory and messages |
//! | `combination` | how two operands are combined |
//! | `rounds` | what is sent in each round: Algorithm 2 |
//! | `dissemination` | the same by Algorithm 1 |
//! | `growth` | the executor |
//! | `stores` | memory for operands, by number |
//! | `merge` | the merge of two sorted sequences of numbers |
//! | `simulate` | the same in memory |

mod dissemination;
mod growth;
pub mod merge;
mod rounds;
mod simulate;
mod stores;

#[cfg(any(feature = "mpi", feature = "bindings"))]
mod api;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod call;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod combination;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod operands;

#[cfg(any(feature = "mpi", feature = "bindings"))]
pub use api::{
    circulant_allgather_merge, circulant_allreduce_v, circulant_combine, circulant_compare,
};
pub use dissemination::Dissemination;
pub use growth::{Growth, Header, Links, Rules};
pub use rounds::{Content, Growing, Step};
pub use simulate::{Combine, Grown, Pattern, Places, simulate_growing, simulate_pairwise};
pub use stores::{Limit, Outcome, Room, STORES, Stores, Stretch, Target, pairwise};
