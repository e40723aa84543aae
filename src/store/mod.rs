//! The launcher's store: what processes tell each other before any of them may send a message.
//!
//! A process puts keys and values into it before MPI_Init's barrier, and reads those of the others
//! after it. So a process that has come out of MPI_Init, and finds no entry of another, knows that
//! the other never made one. MPI libraries exchange addresses in this way.
//!
//! | file | store | of |
//! | --- | --- | --- |
//! | `pmix` | PMIx, by the functions that the MPI library itself calls | Open MPI |
//! | `pmi` | PMI-1, on the connection to the launcher | Hydra: MPICH, Intel MPI |
//!
//! An entry is a short text without spaces. Its key has the rank in it, since PMI's keys are the
//! job's.

mod pmi;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod pmix;

pub use pmi::{Pmi, end_job};
#[cfg(any(feature = "mpi", feature = "bindings"))]
pub use pmix::{Library, OF_OPEN_MPI_3, OF_OPEN_MPI_4, PMIX, Pmix};

/// The key of the entry of a rank.
fn key(rank: usize) -> String {
    format!("circulant-{rank}")
}
