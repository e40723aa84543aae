//! MPI_Allreduce: what all processes know of a call, and what this one brings.

use super::{combinable, is_in_place, somewhere, valid, whole_operand};
use crate::call::{Collective, Combination, Problem, Target};
use crate::communicator::{State, Stop};
use crate::mpi::{Alias, Operands};
use crate::report::Work;
use crate::select::{Facts, Operation};

/// The arguments.
pub struct Allreduce {
    /// sendbuf, recvbuf, count, datatype, op
    pub operands: Operands,
}

impl Collective for Allreduce {
    fn facts(&self, state: &State, work: &mut Work) -> Result<Facts, Stop> {
        state.intra()?;
        whole_operand(Operation::Allreduce, &self.operands, state, work)
    }

    fn problem(&self, _state: &State) -> Result<Problem, Stop> {
        let alias = if self.operands.counts().sum() == Some(1) {
            Alias::AllreducedOne
        } else {
            Alias::AllreducedSeveral
        };
        Ok(Problem::Combination(Combination {
            in_place: is_in_place(&self.operands, alias)?,
            input: combinable(self.operands.input())?,
            result: somewhere(self.operands.result(0))?,
            operator: valid(self.operands.operator())?,
            target: Target::All,
        }))
    }
}
