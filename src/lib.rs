//! circulant: round-optimal collective communication on circulant graphs, under existing MPI
//! programs. This page is the map; `ARCHITECTURE.md` follows one call through it.
//!
//! A module imports only from those below it, and files import in no circles (`tests/modules.rs`).
//!
//! | module | what it holds | MPI? | unsafe? |
//! | --- | --- | --- | --- |
//! | `api` | circulant's own C functions | yes | yes |
//! | [`extensions`] | the operations that MPI does not have, each as a whole | yes | yes |
//! | `interpose` | the exported symbols, and the panic boundary | yes | yes |
//! | `collective` | one file per MPI operation: from arguments to facts and problem | yes | no |
//! | `call` | a call in progress: prepare, advance, finish | yes | no |
//! | `communicator` | what is kept for a communicator, behind a keyval attribute | yes | no |
//! | [`store`] | what processes tell each other through the launcher | no | yes |
//! | [`engine`] | runs the stages of a call over a transport | no | forbidden |
//! | [`stage`] | algorithms: lists of plans, each on a team and a view | no | forbidden |
//! | [`team`] | lists of ranks, and what is computed once for their number | no | forbidden |
//! | [`transport`] | messages and memory, by name; over MPI's point-to-point calls | yes | yes |
//! | [`plan`] | per algorithm, the rounds of one process, as data | no | forbidden |
//! | [`report`] | counters, trace line, report at the end of the run | no | forbidden |
//! | [`pool`] | scratch, on lease to calls | no | forbidden |
//! | [`select`] | settings; which algorithm runs a call, with what parameters | no | forbidden |
//! | [`schedule`] | skips, baseblocks, receive and send schedules | no | forbidden |
//! | [`nodes`] | which rank is on which node | no | forbidden |
//! | [`rounding`] | whether floating-point results differ by more than rounding | no | forbidden |
//! | `mpi` | bindings of the MPI library | yes | yes |
//! | `linker` | the dynamic linker: objects of the process, and their symbols | no | yes |
//! | [`message`] | lines for the owner of the job | no | forbidden |
//! | [`launcher`] | what the job's launcher tells its processes | no | forbidden |
//! | [`files`] | files that settings name | no | forbidden |
//! | [`abi`] | the ABIs of MPI, and the names of the builds for them | no | forbidden |
//! | [`allocator`] | a reserve for small allocations that the system refuses | no | yes |
//! | [`signals`] | signals that the system sends to who writes, held back | no | yes |

pub mod abi;
pub mod allocator;
pub mod engine;
pub mod extensions;
pub mod files;
pub mod launcher;
pub mod message;
pub mod nodes;
pub mod plan;
pub mod pool;
pub mod report;
pub mod rounding;
pub mod schedule;
pub mod select;
pub mod signals;
pub mod stage;
pub mod store;
pub mod team;
pub mod transport;

#[cfg(any(feature = "mpi", feature = "bindings"))]
pub mod api;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod call;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod collective;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod communicator;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod interpose;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod linker;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod mpi;

/// Of the preloaded library only: a Rust program has an allocator of its own.
#[cfg(feature = "reserve")]
#[global_allocator]
static ALLOCATOR: allocator::Backed = allocator::Backed;
