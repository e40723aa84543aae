//! MPI_Scatter: along the tree of Algorithm 1, backward, from the root's whole to the parts.

use super::tree::{Rooted, pass};
use crate::communicator::{State, Stop};
use crate::report::Work;
use crate::select::Operation;

/// Tries an MPI_Scatter.
pub fn scatter(state: &State, call: Rooted, work: &mut Work) -> Result<(), Stop> {
    let sides = (call.sent(), call.received());
    pass(state, Operation::Scatter, call.root, sides, work)
}
