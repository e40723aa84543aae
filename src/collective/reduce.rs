//! MPI_Reduce: what all processes know of a call, and what this one brings.

use std::ffi::c_int;

use super::{combinable, is_in_place, somewhere, valid, whole_operand};
use crate::call::{Collective, Combination, Problem, Target};
use crate::communicator::{State, Stop};
use crate::mpi::{Alias, Operands};
use crate::report::Work;
use crate::select::{Facts, Operation, Reason};

/// The arguments.
pub struct Reduce {
    /// sendbuf, recvbuf, count, datatype, op
    pub operands: Operands,
    /// root
    pub root: c_int,
}

impl Collective for Reduce {
    fn facts(&self, state: &State, work: &mut Work) -> Result<Facts, Stop> {
        state.intra()?;
        state.root(self.root)?;
        whole_operand(Operation::Reduce, &self.operands, state, work)
    }

    /// MPI_IN_PLACE is for the root only; elsewhere recvbuf is not looked at.
    fn problem(&self, state: &State) -> Result<Problem, Stop> {
        let root = state.root(self.root)?;
        let is_root = state.rank() == root;
        if !is_root && self.operands.send().is_in_place() {
            return Err(Stop::Native(Reason::Arguments));
        }
        let in_place = is_root && is_in_place(&self.operands, Alias::Reduced)?;
        let input = combinable(self.operands.input())?;
        Ok(Problem::Combination(Combination {
            input,
            result: if is_root {
                somewhere(self.operands.result(0))?
            } else {
                input.part(0..0)
            },
            in_place,
            operator: valid(self.operands.operator())?,
            target: Target::Root(root),
        }))
    }
}
