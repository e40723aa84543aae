//! MPI_Gather: along the tree of Algorithm 1, from the parts to the root's whole.

use super::tree::{Rooted, pass};
use crate::communicator::{State, Stop};
use crate::report::Work;
use crate::select::Operation;

/// Tries an MPI_Gather.
pub fn gather(state: &State, call: Rooted, work: &mut Work) -> Result<(), Stop> {
    let sides = (call.received(), call.sent());
    pass(state, Operation::Gather, call.root, sides, work)
}
