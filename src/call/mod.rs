//! A call of a collective operation, from what is known of it to its end.
//!
//! ```text
//! facts -> algorithm (select/) -> problem -> prepare: stages, scratch, memory -> advance -> finish
//! ```
//!
//! | file | what it holds |
//! | --- | --- |
//! | `problem` | what a process brings to a call |
//! | `movement` | broadcast, allgather, all-to-all, gather, scatter |
//! | `combination` | reduce, reduce-scatter, allreduce |
//! | `between_groups` | broadcast and allgather on inter-communicators |
//! | `running` | calls in progress: prepare, advance, finish |

#![forbid(unsafe_code)]

mod between_groups;
mod combination;
mod movement;
mod problem;
mod running;

pub use between_groups::{AllgatherBetween, BroadcastBetween};
pub use combination::{Combination, Target};
pub use movement::{AllToAll, Allgather, Broadcast, Passage};
pub use problem::{Done, Problem};

use crate::communicator::{State, Stop};
use crate::report::Work;
use crate::select::Facts;

/// A call, as the program made it.
pub trait Collective {
    /// What of it is the same on all processes. Sets the bytes of its work as soon as they are known.
    ///
    /// # Errors
    /// Native, if the arguments are not usual enough, or nothing is to be chosen.
    fn facts(&self, state: &State, work: &mut Work) -> Result<Facts, Stop>;

    /// The problem of this process.
    ///
    /// # Errors
    /// Native, if the arguments are not usual enough.
    fn problem(&self, state: &State) -> Result<Problem, Stop>;
}

/// Tries a call.
///
/// # Errors
/// Why it is not, or no longer, ours.
pub fn attempt(state: &State, call: &impl Collective, work: &mut Work) -> Result<(), Stop> {
    let facts = call.facts(state, work)?;
    let algorithm = state.choose(facts)?;
    let problem = call.problem(state)?;
    let done = state.serve(problem.data(), |service| {
        problem.run(algorithm, state, service, work)
    })?;
    work.record(algorithm, done.rounds, done.blocks);
    Ok(())
}
