//! Scratch of one communicator: bounded, and reserved by all its processes together.
//!
//! A process that finds no memory in the middle of a call cannot go native alone. So memory is
//! reserved before a call starts, by all processes at once: when a call may need more than all are
//! known to have, each reserves what any of them may need, and they agree. Reserved memory costs
//! address space until it is used, and calls in a steady state agree on nothing.

use crate::mpi::{Buffer, Datatype, Private, Scratch};
use crate::report;
use crate::select::Reason;

use super::Stop;

/// The least that is agreed on, in bytes, unless the bound is less.
const LEAST: usize = 16 << 10;

/// What one call needs, in units; the same on all processes but for `happens`.
pub struct Need {
    /// What a unit is.
    pub unit: Unit,
    /// For the engine, everywhere.
    pub always: usize,
    /// What some processes may need besides, depending on what only they know.
    pub possible: usize,
    /// Whether this process does.
    pub happens: bool,
}

/// A unit of scratch.
pub enum Unit {
    /// A byte.
    Byte,
    /// An element, with its gaps.
    Element(Datatype),
}

impl Unit {
    /// Bytes of data in a unit: the same on all processes.
    fn size(&self) -> usize {
        match self {
            Unit::Byte => 1,
            Unit::Element(datatype) => datatype.size(),
        }
    }

    /// Bytes that `units` units take here.
    fn span(&self, units: usize) -> usize {
        match self {
            Unit::Byte => units,
            Unit::Element(datatype) => datatype.span(units),
        }
    }
}

/// The scratch of one communicator.
pub struct Pool {
    rank: usize,
    scratch: Scratch,
    /// The bound on what all processes reserve, in bytes.
    most: usize,
    /// Bytes that all processes have.
    agreed: usize,
}

impl Pool {
    pub(super) fn new(rank: usize, most: u64) -> Pool {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Pool {
            rank,
            scratch: Scratch::default(),
            most,
            agreed: 0,
        }
    }

    /// Whether `units` units may be reserved: the same answer on all processes.
    pub fn allows(&self, unit: &Unit, units: usize) -> bool {
        units.saturating_mul(unit.size()) <= self.most
    }

    /// Scratch for one call. May be collective.
    ///
    /// # Errors
    /// Native, on all processes, if the bound would be passed or memory is short.
    pub fn reserve(&mut self, private: &Private, need: Need) -> Result<Buffer, Stop> {
        let common = |units: usize| units.saturating_mul(need.unit.size());
        if common(need.always) > self.most {
            return Err(Stop::Native(Reason::Scratch));
        }
        let possible = need.always.saturating_add(need.possible);
        if common(possible) <= self.most {
            let here = if need.happens { possible } else { need.always };
            return self.grow(private, common(possible), need.unit.span(here));
        }
        // Too much for all, but perhaps no process needs it.
        if !private.communicator().all_agree(!need.happens)? {
            return Err(Stop::Native(Reason::Scratch));
        }
        self.grow(private, common(need.always), need.unit.span(need.always))
    }

    /// Scratch of `need` bytes for a call in which not all processes take part, so that they cannot agree.
    ///
    /// # Errors
    /// Native, on all that know of the call, where `bytes`, the same value there, pass the bound. Where
    /// memory is short, the job ends.
    pub fn reserve_alone(
        &mut self,
        private: &Private,
        bytes: usize,
        need: usize,
    ) -> Result<Buffer, Stop> {
        if bytes > self.most {
            return Err(Stop::Native(Reason::Scratch));
        }
        self.demand(private, need);
        Ok(self.scratch.start())
    }

    /// At least `need` bytes here, and `common` (the same value on all processes) everywhere.
    fn grow(&mut self, private: &Private, common: usize, need: usize) -> Result<Buffer, Stop> {
        if common > self.agreed {
            // Doubling, so that slowly growing messages do not agree every time; and enough for small
            // messages, since processes that disagree on how much is sent would not agree together.
            let ahead = common.checked_next_power_of_two().unwrap_or(common);
            let ahead = ahead.max(LEAST);
            let target = ahead.min(self.most).max(common);
            let reserved = self.scratch.reserve(target.max(need));
            if !private.communicator().all_agree(reserved)? {
                // What was there before may be gone, here or elsewhere.
                self.agreed = 0;
                return Err(Stop::Native(Reason::Memory));
            }
            self.agreed = target;
        }
        // Only elements with larger gaps than those before them come to this: what was agreed on is
        // bytes of data.
        self.demand(private, need);
        Ok(self.scratch.start())
    }

    /// Reserves `need` bytes, or ends the job: others may have started, so native is no way out any more.
    fn demand(&mut self, private: &Private, need: usize) {
        if !self.scratch.reserve(need) {
            let rank = self.rank;
            report::say(&format!(
                "circulant: rank {rank}: no memory for {need} bytes of scratch"
            ));
            private.communicator().abort();
        }
    }
}
