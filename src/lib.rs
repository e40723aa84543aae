//! circulant: round-optimal collective communication on circulant graphs, under existing MPI
//! programs. This page is the map; `ARCHITECTURE.md` follows one call through the house.
//!
//! | module | what it holds | MPI? | unsafe? |
//! | --- | --- | --- | --- |
//! | [`schedule`] | skips, baseblocks, receive and send schedules | no | forbidden |
//! | [`plan`] | per collective, the sequence of rounds | no | forbidden |
//! | [`transport`] | the trait that a plan is executed over | no | forbidden |
//! | [`engine`] | the one executor of plans, and those of successive broadcasts and of operands that grow | no | forbidden |
//! | [`merge`] | the merge of two sorted sequences of numbers | no | forbidden |
//! | [`simulate`] | a transport with p ranks in memory, for checks and counts | no | forbidden |
//! | [`select`] | settings, and the choice of algorithm and block count | no | forbidden |
//! | [`launcher`] | what a job's launcher says in the environment | no | forbidden |
//! | [`report`] | counters, trace line, report at the end of the run | no | forbidden |
//! | `mpi` | the only place that calls `PMPI_*` | yes | yes |
//! | `communicator` | per-communicator state behind a keyval attribute | yes | no |
//! | `collective` | one file per MPI operation: arguments to plan to engine, or native | yes | no |
//! | `interpose` | the exported symbols, and the panic boundary | yes | yes |
//! | `api` | our own C functions, the only ones in `include/circulant.h` | no | yes |

pub mod engine;
pub mod launcher;
pub mod merge;
pub mod plan;
pub mod report;
pub mod schedule;
pub mod select;
pub mod simulate;
pub mod transport;

#[cfg(any(feature = "mpi", feature = "bindings"))]
pub mod api;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod collective;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod communicator;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod interpose;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod mpi;
