//! What the launcher of a job tells its processes in their environment, before MPI can be asked, or
//! where it cannot be.

#![forbid(unsafe_code)]

use std::env;

/// The status of a process that ends for not being as it is required to be, as env(1) and its like
/// have it.
pub const REFUSED: u8 = 125;

/// The variables with a process's rank: of Open MPI, PMIx, PMI (MPICH, Intel MPI), Hydra with
/// `-pmi-port`, Cray's PALS and Slurm.
const RANKS: [&str; 6] = [
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "PMI_ID",
    "PALS_RANKID",
    "SLURM_PROCID",
];

/// The variable with the number of a job's processes on this node that only Hydra, MPICH's or
/// Intel's, gives to its processes on all hosts.
pub const HYDRA: &str = "MPI_LOCALNRANKS";

/// How many processes of the job are on this node, as Hydra tells those of MPICH, and launchers
/// those of Open MPI; none where none does.
pub fn processes_here(is_mpich: bool) -> Option<usize> {
    number(match is_mpich {
        true => HYDRA,
        false => "OMPI_COMM_WORLD_LOCAL_SIZE",
    })
}

/// The rank that this process has in its job; none where no launcher says so.
pub fn rank() -> Option<usize> {
    RANKS.iter().find_map(|name| number(name))
}

fn number(name: &str) -> Option<usize> {
    env::var(name).ok()?.parse().ok()
}

/// Whether this process speaks for its job: rank 0, or a process without a launcher.
pub fn is_first() -> bool {
    rank().is_none_or(|rank| rank == 0)
}
