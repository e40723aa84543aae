//! MPI_Gather and MPI_Scatter.
//!
//! The forms with counts are left to the MPI library: counts are known at the root only, and a
//! process in the middle of the tree would have to be told how much it passes on.

use std::ffi::c_int;

use super::{count, is_moved_in_place, product, somewhere, somewhere_by_rank, valid};
use crate::call::{Collective, GatherScatter, Problem};
use crate::communicator::{State, Stop};
use crate::mpi::{Passed, PassedByRank};
use crate::report::Work;
use crate::select::{Facts, Operation, Reason};

/// The arguments.
pub struct Gather {
    /// MPI_Gather, or MPI_Scatter.
    pub operation: Operation,
    /// The elements of one process: sendbuf, sendcount, sendtype of MPI_Gather, else recvbuf, ...
    pub part: Passed,
    /// Those of all, which are significant at the root only; there the part may be in place.
    pub whole: PassedByRank,
    /// root
    pub root: c_int,
}

impl Collective for Gather {
    fn facts(&self, state: &State, work: &mut Work) -> Result<Facts, Stop> {
        state.intra()?;
        let length = self.length(state)?;
        let bytes = product(length, state.size())?;
        work.bytes = bytes as u64;
        state.pass_small(self.operation, bytes)?;
        Ok(Facts {
            bytes: bytes as u64,
            largest: length as u64,
            ..Facts::new(self.operation, state.size())
        })
    }

    fn problem(&self, state: &State) -> Result<Problem, Stop> {
        let root = state.root(self.root)?;
        let (is_root, in_place) = (state.rank() == root, self.is_part_in_place(state)?);
        let whole = if is_root {
            Some(somewhere_by_rank(&self.whole)?)
        } else {
            None
        };
        let part = if in_place {
            None
        } else {
            Some(somewhere(self.part.array())?)
        };
        let in_place = match (whole, part) {
            (Some(whole), Some(part)) => is_moved_in_place(&part, &whole.of(root))?,
            _ => in_place,
        };
        Ok(Problem::GatherScatter(GatherScatter {
            root,
            gathers: self.operation == Operation::Gather,
            whole,
            part: part.filter(|_| !in_place),
            length: self.length(state)?,
        }))
    }
}

impl Gather {
    fn is_part_in_place(&self, state: &State) -> Result<bool, Stop> {
        let is_root = state.rank() == state.root(self.root)?;
        Ok(is_root && self.part.buffer().is_in_place())
    }

    /// Bytes of one process.
    fn length(&self, state: &State) -> Result<usize, Stop> {
        let is_root = state.rank() == state.root(self.root)?;
        let part = || product(count(self.part.count())?, valid(self.part.unit())?);
        if !is_root {
            return part();
        }
        let each = count(self.whole.counts().at(state.rank()))?;
        let whole = product(each, valid(self.whole.unit())?)?;
        if !self.is_part_in_place(state)? && part()? != whole {
            return Err(Stop::Native(Reason::Arguments));
        }
        Ok(whole)
    }
}
