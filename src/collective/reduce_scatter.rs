//! MPI_Reduce_scatter and MPI_Reduce_scatter_block, which is one of equal counts.

use super::{combinable, is_in_place, operator, sizes, somewhere, valid};
use crate::call::{Collective, Combination, Problem, Target};
use crate::communicator::{State, Stop};
use crate::mpi::{Alias, Operands};
use crate::report::Work;
use crate::select::{Facts, Operation};

/// The arguments.
pub struct ReduceScatter {
    /// Which of the two.
    pub operation: Operation,
    /// sendbuf, recvbuf, recvcounts or recvcount, datatype, op
    pub operands: Operands,
}

impl Collective for ReduceScatter {
    fn facts(&self, state: &State, work: &mut Work) -> Result<Facts, Stop> {
        state.intra()?;
        let (operands, unit) = (&self.operands, valid(self.operands.unit())?);
        let (bytes, largest) = sizes(operands.counts(), unit)?;
        work.bytes = bytes as u64;
        state.pass_small(self.operation, bytes)?;
        Ok(Facts {
            bytes: bytes as u64,
            largest: largest as u64,
            units: valid(operands.counts().largest())? as u64,
            order: operator(operands)?.1,
            ..Facts::new(self.operation, state.size())
        })
    }

    /// A receive buffer without elements overlaps nothing, and may be anywhere.
    fn problem(&self, state: &State) -> Result<Problem, Stop> {
        let operands = &self.operands;
        let receives = operands.counts().at(state.rank()) > 0;
        let in_place = if receives || operands.send().is_in_place() {
            is_in_place(operands, Alias::Scattered)?
        } else {
            false
        };
        let input = combinable(operands.input())?;
        Ok(Problem::Combination(Combination {
            input,
            result: if receives {
                somewhere(operands.result(state.rank()))?
            } else {
                input.part(0..0)
            },
            in_place,
            operator: valid(operands.operator())?,
            target: Target::Parts(operands.counts()),
        }))
    }
}
