//! A call that runs in memory which the processes of a node share: the interpreter of
//! [`plan::Shared`](Shared).
//!
//! On several nodes a call has three parts, one after the other ([`OnNodes`]): what the processes
//! of each node bring goes to its leader, the leaders exchange it by messages, and what comes goes
//! to the processes of the node. A process that does not lead meets the leader when it is back.
//!
//! The first meeting of a part agrees on three more things. Whether all mean the same lengths:
//! otherwise no process goes on, and the part ends; with an error where something would have come
//! from others, as it would if messages had other lengths than expected. Whether a unit has the
//! same layout on all: otherwise the MPI library runs the call, with nothing touched; on several
//! nodes, whose processes would have to agree on that, it always has. And how large the slots are,
//! where they are to grow; then that meeting is one of its own, before the first step.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Done, Owner, Running, complete};
use crate::communicator::{Service, Stop};
use crate::mpi::{Communicator, Error, native, survives};
use crate::plan::{Copied, Folded, Pattern, Shared, Step};
use crate::pool::Lease;
use crate::select::Reason;
use crate::stage::Stages;
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

/// Runs a call on one node in `memory`, whose allocation is on this lease, with [so much](scratch)
/// scratch. In a slot a unit takes `unit` bytes; 0, if its layout may be another on other
/// processes.
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
    let receives = Shared::receives(&pattern, service.team.place());
    let lengths = fingerprint(&pattern);
    let done = match run_pattern(service, pattern, (unit, lengths), &mut memory) {
        // Nobody tells a process that only sends, either.
        Err(Stop::Mismatched(_)) if !receives => Ok(Done::default()),
        done => done,
    };
    if done.is_ok() {
        memory.finish()?;
    }
    leave(service, lease, memory);
    done
}

/// The parts of a call on several nodes.
pub(super) struct OnNodes {
    /// What goes to the leader of a node.
    pub inward: Option<Pattern>,
    /// What the leaders do.
    pub across: Stages,
    /// Whether this process is one.
    pub leads: bool,
    /// What goes from the leader to its node.
    pub outward: Option<Pattern>,
    /// Whether this process gets anything by the call.
    pub receives: bool,
}

/// Runs such a call in `memory`. Of one node only, nothing ends it: the others wait for its leader.
///
/// # Errors
/// MPI's; or that processes disagree on the size of the data.
pub(super) fn run_on_nodes<M: Owner>(
    service: &mut Service,
    call: OnNodes,
    unit: usize,
    lease: usize,
    mut memory: M,
) -> Result<Done, Stop> {
    let mut parts = Parts::default();
    // Also of what comes later: so all processes of the node know before the leader goes on.
    let lengths = fingerprint(&(&call.inward, &call.outward));
    if let Some(inward) = call.inward {
        parts.add(run_pattern(service, inward, (unit, lengths), &mut memory))?;
    }
    // All processes of the node know that.
    let goes_on = parts.mismatch.is_none();
    if call.leads {
        let across = Running::prepare(service, call.across, 0, None, memory);
        let [across] = match complete([across]) {
            Ok(across) => across,
            Err(stop) => {
                // Where MPI survives failures, who waits hears of it from MPI.
                if call.outward.is_some_and(|_| goes_on) && !survives() {
                    tell_failed(service, (unit, lengths));
                }
                return Err(stop);
            }
        };
        let (kept, done, lengths) = across.end(service);
        memory = kept;
        parts.add(lengths.map(|()| done).map_err(Stop::from))?;
    } else {
        service.spare.keep_stages(call.across);
    }
    if let Some(outward) = call.outward.filter(|_| goes_on) {
        // What has come to a leader is of no use to its node if it is of another length.
        let lengths = match parts.mismatch {
            None => lengths,
            Some(_) => !lengths,
        };
        parts.add(run_pattern(service, outward, (unit, lengths), &mut memory))?;
    }
    let mismatch = parts.mismatch.filter(|_| call.receives);
    if mismatch.is_none() {
        memory.finish()?;
    }
    leave(service, lease, memory);
    mismatch.map_or(Ok(parts.done), |error| Err(Stop::Mismatched(error)))
}

/// How the parts of a call have ended so far.
#[derive(Default)]
struct Parts {
    done: Done,
    /// The first that it is to be reported as, if processes disagree on the size of the data.
    mismatch: Option<Error>,
}

impl Parts {
    /// One more has ended.
    ///
    /// # Errors
    /// What ends the call.
    fn add(&mut self, part: Result<Done, Stop>) -> Result<(), Stop> {
        match part {
            Ok(done) => self.done = self.done.and(done),
            Err(Stop::Mismatched(error)) => {
                self.mismatch.get_or_insert(error);
            }
            // The layouts of units differ on a node, where datatypes are the MPI library's own.
            Err(Stop::Native(_)) => {
                self.mismatch.get_or_insert_with(|| disagreement().0);
            }
            Err(stop) => return Err(stop),
        }
        Ok(())
    }
}

/// Processes disagree on the size of the data.
fn disagreement() -> Mismatch {
    Mismatch(Error(native().constants.err_truncate.0))
}

fn leave<M: Owner>(service: &mut Service, lease: usize, memory: M) {
    let memory = memory.leave(service);
    service.pool.give_back(Lease {
        slot: lease,
        memory,
    });
}

/// Runs a pattern on this node. `lengths` is a word that stands for the lengths of the call: all
/// processes have an error if one has another.
fn run_pattern<M: Memory>(
    service: &mut Service,
    pattern: Pattern,
    (unit, lengths): (usize, u64),
    memory: &mut M,
) -> Result<Done, Stop> {
    Run::on(service, unit)?.steps(pattern, lengths, memory)
}

/// MPI has failed in a leader, which meets its node once more: all its processes have an error.
fn tell_failed(service: &mut Service, (unit, lengths): (usize, u64)) {
    if let Ok(mut run) = Run::on(service, unit) {
        // Whatever comes of it, the leader has an error already.
        let _ = run.agree(0, !lengths);
    }
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
    fn on(service: &mut Service, unit: usize) -> Result<Run<'_>, Stop> {
        let (communicator, node) = (service.communicator(), service.sharers());
        let (processes, place) = (node.size(), node.place());
        Ok(Run {
            shared: service.shared.as_mut().ok_or(Reason::SharedMemory)?,
            communicator,
            unit,
            place,
            processes,
        })
    }

    /// All meet once at least, and so learn of each other's lengths.
    fn steps<M: Memory>(
        &mut self,
        pattern: Pattern,
        lengths: u64,
        memory: &mut M,
    ) -> Result<Done, Stop> {
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
        if !has_met {
            self.agree(0, lengths)?;
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
            return Err(disagreement().into());
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
fn fingerprint(pattern: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    pattern.hash(&mut hasher);
    hasher.finish()
}
