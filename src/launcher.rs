//! What the launcher of a job tells its processes in their environment, before MPI can be asked, or
//! where it cannot be.

#![forbid(unsafe_code)]

use std::env;

/// The variables with a process's rank: of Open MPI, PMIx, PMI (MPICH, Intel MPI) and Slurm.
const RANKS: [&str; 4] = [
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
];

/// The rank that this process has in its job; none where no launcher says so.
pub fn rank() -> Option<usize> {
    let read = |name: &&str| env::var(name).ok()?.parse().ok();
    RANKS.iter().find_map(read)
}

/// Whether this process speaks for its job: rank 0, or a process without a launcher.
pub fn is_first() -> bool {
    rank().is_none_or(|rank| rank == 0)
}
