//! A call that runs in memory which all its processes share: the interpreter of
//! [`plan::Shared`](Shared).
//!
//! The first meeting of a call agrees on three more things. Whether all mean the same lengths:
//! otherwise no process goes on, and the call ends; with an error where something would have come
//! from others, as it would if messages had other lengths than expected. Whether a unit has the
//! same layout on all: otherwise the MPI library runs the call, with nothing touched. And how large
//! the slots are, where they are to grow; then that meeting is one of its own, before the first
//! step.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Done, Owner};
use crate::communicator::{Service, Stop};
use crate::mpi::{Communicator, Error, native};
use crate::plan::{Copied, Folded, Pattern, Shared, Step};
use crate::pool::Lease;
use crate::select::Reason;
use crate::transport::{Memory, Mismatch, Place, SharedMemory, Space, WORDS};

/// Bytes that are combined at once, so that partial results stay in the processor's first cache.
const FOLDED: usize = 8 << 10;

/// The units of scratch that a call needs whose units take so many bytes.
pub(super) fn scratch(unit: usize) -> usize {
    (FOLDED / unit.max(1)).max(1)
}

/// The most bytes of data in that scratch, if a unit has so many. The gaps of units, and so their
/// number, may be others on other processes.
pub(super) fn scratch_data(size: usize) -> usize {
    FOLDED.max(size)
}

/// Runs a call in `memory`, whose allocation is on this lease, with [so much](scratch) scratch. In
/// a slot a unit takes `unit` bytes; 0, if its layout may be another on other processes.
///
/// # Errors
/// Native, if it cannot run here; MPI's; or that processes disagree on the size of the data.
pub(super) fn run<M: Owner>(
    service: &mut Service,
    pattern: Pattern,
    unit: usize,
    lease: usize,
    mut memory: M,
) -> Result<Done, Stop> {
    let (communicator, place) = (service.communicator(), service.team.place());
    let processes = service.team.size();
    let shared = service.shared.as_mut().ok_or(Reason::SharedMemory)?;
    let mut run = Run {
        shared,
        communicator,
        unit,
        place,
        processes,
    };
    let done = run.call(pattern, &mut memory);
    if done.is_ok() {
        memory.finish()?;
    }
    let memory = memory.leave(service);
    service.pool.give_back(Lease {
        slot: lease,
        memory,
    });
    done
}

/// A call in progress.
struct Run<'a> {
    shared: &'a mut SharedMemory,
    communicator: Communicator,
    /// Bytes of a unit in a slot.
    unit: usize,
    place: usize,
    processes: usize,
}

impl Run<'_> {
    fn call<M: Owner>(&mut self, pattern: Pattern, memory: &mut M) -> Result<Done, Stop> {
        let receives = Shared::receives(&pattern, self.place);
        match self.steps(pattern, memory) {
            // Nobody tells a process that only sends, either.
            Err(Stop::Mismatched(_)) if !receives => Ok(Done::default()),
            done => done,
        }
    }

    fn steps<M: Owner>(&mut self, pattern: Pattern, memory: &mut M) -> Result<Done, Stop> {
        let lengths = fingerprint(&pattern);
        let mut has_met = self.grow(&pattern, lengths)?;
        memory.set_slots(self.shared.slots());
        let room = self.shared.slots().room(self.unit);
        let plan = Shared::new(pattern, (self.processes, self.place), room);
        let Some(plan) = plan.filter(|_| self.unit > 0) else {
            if !has_met {
                self.agree(0, lengths)?;
            }
            return Err(Stop::Native(Reason::SharedMemory));
        };
        let (mut step, mut rounds) = (Step::default(), 0);
        for index in 0..plan.steps() {
            step.clear();
            plan.fill(index, &mut step);
            let number = self.shared.next_step();
            self.put(&plan, &step, number, memory)?;
            if has_met {
                self.meet()?;
            } else {
                self.agree(0, lengths)?;
                has_met = true;
            }
            self.shared.count_step();
            self.finish_step(&step, number, memory)?;
            rounds += 1 + u64::from(step.meets_again);
        }
        Ok(Done {
            rounds,
            blocks: plan.steps() as u64,
        })
    }

    /// Has the slots grow, if that saves the call steps. Returns whether all have met for that.
    fn grow(&mut self, pattern: &Pattern, lengths: u64) -> Result<bool, Stop> {
        let wanted = Shared::wanted(pattern, self.processes).saturating_mul(self.unit);
        let grows = self.shared.may_grow(wanted);
        if grows {
            let provided = self.shared.provide(wanted);
            let least = self.agree(provided, lengths)?;
            self.shared.grow(least);
        }
        Ok(grows)
    }

    /// Meets the others for the first time in a call, with so many bytes provided of a slot, and a
    /// word that stands for its lengths. Returns the least bytes of all.
    fn agree(&mut self, provided: usize, lengths: u64) -> Result<usize, Stop> {
        // The complement of a word, to learn the most.
        let (provided, unit) = (provided as u64, self.unit as u64);
        let words = [provided, lengths, !lengths, unit, !unit];
        let [least, lengths, most_lengths, unit, most_unit] =
            self.shared.meet(words, self.communicator)?;
        if unit == 0 || unit != !most_unit {
            return Err(Stop::Native(Reason::SharedMemory));
        }
        if lengths != !most_lengths {
            let error = Error(native().constants.err_truncate.0);
            return Err(Mismatch(error).into());
        }
        Ok(usize::try_from(least).unwrap_or(0))
    }

    fn meet(&mut self) -> Result<(), Error> {
        let words = [u64::MAX; WORDS];
        self.shared.meet(words, self.communicator).map(drop)
    }

    fn put<M: Memory>(
        &self,
        plan: &Shared,
        step: &Step,
        number: u64,
        memory: &mut M,
    ) -> Result<(), Error> {
        let space = match plan.puts_input() {
            true => Space::Input,
            false => Space::Result,
        };
        for &put in &step.puts {
            let from = Place {
                space,
                offset: put.own,
            };
            memory.pack(from, put.length)?;
            memory.copy(from, self.in_slot(put, number), put.length)?;
        }
        Ok(())
    }

    /// What comes after all have put.
    fn finish_step<M: Memory>(
        &mut self,
        step: &Step,
        number: u64,
        memory: &mut M,
    ) -> Result<(), Error> {
        if let Some(fold) = step.fold {
            self.fold(fold, number, memory)?;
        }
        if step.meets_again {
            self.meet()?;
        }
        for &take in &step.takes {
            let (from, to) = (self.in_slot(take, number), result(take.own));
            memory.copy(from, to, take.length)?;
            memory.unpack(to, take.length)?;
        }
        Ok(())
    }

    /// Combines a share, by stretches: the last process's is copied, and the others are combined
    /// into it one after the other.
    fn fold<M: Memory>(&self, fold: Folded, number: u64, memory: &mut M) -> Result<(), Error> {
        let most = scratch(self.unit);
        let mut done = 0;
        while done < fold.length {
            let length = most.min(fold.length - done);
            let at = |slot| Place {
                space: Space::Shared,
                offset: self.shared.slots().start(slot, number, self.unit) + fold.at + done,
            };
            let into = match fold.result {
                Some(offset) => result(offset + done),
                None => Place::scratch(0),
            };
            memory.copy(at(self.processes - 1), into, length)?;
            for slot in (0..self.processes - 1).rev() {
                memory.combine(at(slot), into, length)?;
            }
            if fold.is_put {
                memory.copy(into, at(self.place), length)?;
            }
            done += length;
        }
        Ok(())
    }

    fn in_slot(&self, copied: Copied, number: u64) -> Place {
        Place {
            space: Space::Shared,
            offset: self.shared.slots().start(copied.slot, number, self.unit) + copied.at,
        }
    }
}

fn result(offset: usize) -> Place {
    Place {
        space: Space::Result,
        offset,
    }
}

/// A word for all lengths of a call.
fn fingerprint(pattern: &Pattern) -> u64 {
    let mut hasher = DefaultHasher::new();
    pattern.hash(&mut hasher);
    hasher.finish()
}
