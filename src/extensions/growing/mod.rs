//! circulant_allgather_merge and circulant_allreduce_v: reductions whose operand grows.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `api` | the C functions: they check arguments and raise errors |
//! | `call` | one call, by circulant or by MPI's allgather |
//! | `operands` | memory and messages over MPI |
//! | `combination` | how two operands are combined |
//! | `rounds` | what is sent in each round: Algorithms 1 and 2 |
//! | `growth` | the executor |
//! | `stores` | memory for operands, by number; Algorithm 0 |
//! | `merge` | the merge of two sorted sequences of numbers |
//!
//! `tests/simulate/simulator/growing.rs` runs it on p ranks in memory.

pub mod growth;
pub mod merge;
pub mod rounds;
pub mod stores;

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
pub use growth::Rules;
pub use stores::{Combined, Limit, Places};
