//! The ABIs of MPI, and the names of the builds for them.
//!
//! A build of circulant is for one ABI, and serves all MPI libraries that have it. Installed builds
//! lie together, each in a folder that is named after its ABI, so that any of them finds the
//! others:
//!
//! ```text
//! lib/libcirculant.so                     a link to one of the others
//! lib/circulant/openmpi/libcirculant.so
//! lib/circulant/mpich/libcirculant.so
//! lib/circulant/mpiabi/libcirculant.so
//! ```

#![forbid(unsafe_code)]

use std::fmt;

/// The name of the library in each folder.
pub const LIBRARY: &str = "libcirculant.so";

/// What an mpi.h lays down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Abi {
    /// Open MPI 3, 4 and 5, and what is built from them.
    OpenMpi,
    /// MPICH 3.2 and later, and what is built from it: Intel MPI, Cray MPICH, MVAPICH.
    Mpich,
    /// The one that the MPI standard defines since its version 5.
    Standard,
    /// SimGrid's SMPI.
    Smpi,
}

impl Abi {
    /// All of them.
    pub const ALL: [Abi; 4] = [Abi::OpenMpi, Abi::Mpich, Abi::Standard, Abi::Smpi];

    /// The folder of its build.
    pub fn folder(self) -> &'static str {
        match self {
            Abi::OpenMpi => "openmpi",
            Abi::Mpich => "mpich",
            Abi::Standard => "mpiabi",
            Abi::Smpi => "smpi",
        }
    }
}

impl fmt::Display for Abi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Abi::OpenMpi => "Open MPI",
            Abi::Mpich => "MPICH",
            Abi::Standard => "the standard ABI of MPI",
            Abi::Smpi => "SMPI",
        })
    }
}
