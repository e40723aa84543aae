//! MPI_Bcast: what all processes know of a call, and what this one brings.

use std::ffi::c_int;

use super::{count, product, somewhere, valid};
use crate::call::{Broadcast, BroadcastBetween, Collective, Problem, Task};
use crate::communicator::{State, Stop};
use crate::mpi::{Passed, Root};
use crate::report::Work;
use crate::select::{Facts, Operation, Reason, Unknown};
use crate::stage::Groups;

/// The arguments.
pub struct Bcast {
    /// buffer, count, datatype
    pub data: Passed,
    /// root
    pub root: c_int,
}

impl Collective for Bcast {
    fn facts(&self, state: &State, work: &mut Work) -> Result<Facts, Stop> {
        if let Some(groups) = state.groups()? {
            if Root::new(self.root) != Root::Neighbour {
                work.bytes = self.bytes().unwrap_or(0) as u64;
            }
            // The root and the other group: of either, and of any size.
            let most = 1 + groups.sizes[0].max(groups.sizes[1]);
            return Ok(Facts {
                unknown: Unknown::Processes,
                ..BroadcastBetween::facts(usize::MAX, most)
            });
        }
        let root = state.root(self.root)?;
        let bytes = self.bytes()?;
        work.bytes = bytes as u64;
        state.pass_small(Operation::Bcast, bytes)?;
        Ok(Facts {
            bytes: bytes as u64,
            largest: bytes as u64,
            units: bytes as u64,
            follows: state.follows(root),
            ..Facts::new(Operation::Bcast, state.size())
        })
    }

    fn problem(&self, state: &State) -> Result<Problem, Stop> {
        if let Some(groups) = state.groups()? {
            let task = self.task(&groups);
            return Ok(Problem::BroadcastBetween(BroadcastBetween { groups, task }));
        }
        Ok(Problem::Broadcast(Broadcast {
            elements: somewhere(self.data.array())?,
            root: state.root(self.root)?,
            chunks: state.settings().chunks,
        }))
    }
}

impl Bcast {
    fn bytes(&self) -> Result<usize, Stop> {
        product(count(self.data.count())?, valid(self.data.unit())?)
    }

    /// What this process does between groups: nothing as a neighbour of the root, and where there
    /// is nothing to transfer.
    fn task(&self, groups: &Groups) -> Result<Task, Stop> {
        let root = match Root::new(self.root) {
            Root::Neighbour => return Err(Stop::Native(Reason::Empty)),
            Root::Here => (groups.own, groups.rank),
            Root::Rank(root) if root < groups.sizes[groups.other()] => (groups.other(), root),
            _ => return Err(Stop::Native(Reason::Arguments)),
        };
        if self.bytes()? == 0 {
            return Err(Stop::Native(Reason::Empty));
        }
        let elements = somewhere(self.data.array())?;
        Ok(Task { elements, root })
    }
}
