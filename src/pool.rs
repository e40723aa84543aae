//! Scratch of one communicator: bounded, and reserved by all its processes together.
//!
//! A process that finds no memory in the middle of a call cannot go native alone. So memory is
//! reserved before a call starts, by all processes at once: when a call may need more than all are
//! known to have, each reserves what any of them may need, and they agree. Reserved memory costs
//! address space until it is used, and calls in a steady state agree on nothing.
//!
//! A call has its scratch on lease. Calls that are in progress at once have different leases. All
//! processes take leases and give them back in the same order, so they agree on which is which.

#![forbid(unsafe_code)]

use crate::message::say;
use crate::select::Reason;

/// The least that is agreed on, in bytes, unless the bound is less.
const LEAST: usize = 16 << 10;

/// What one call needs; the same on all processes but for `happens` and what elements take here.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// For the engine, everywhere.
    pub always: Amount,
    /// That, and what some processes may need besides, depending on what only they know.
    pub possible: Amount,
    /// Whether this process does.
    pub happens: bool,
}

impl Need {
    /// Bytes that all processes need.
    pub fn always(bytes: usize) -> Need {
        Need::sometimes(bytes, 0, false)
    }

    /// `always` bytes, and `possible` more on a process where `happens` says so.
    pub fn sometimes(always: usize, possible: usize, happens: bool) -> Need {
        Need {
            always: Amount::bytes(always),
            possible: Amount::bytes(always.saturating_add(possible)),
            happens,
        }
    }
}

/// An amount of memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Bytes of data: the same on all processes.
    pub data: usize,
    /// What they take here, with the gaps of elements.
    pub here: usize,
}

impl Amount {
    /// So many bytes.
    pub fn bytes(bytes: usize) -> Amount {
        Amount {
            data: bytes,
            here: bytes,
        }
    }
}

/// Memory that can be had in advance.
pub trait Reserve: Default {
    /// Makes it hold `bytes`, and says whether it does. What it held before is lost.
    fn reserve(&mut self, bytes: usize) -> bool;
}

/// What the processes of a communicator agree on.
pub trait Agreement {
    /// Why a call does not go on.
    type Stop: From<Reason>;

    /// Whether all say yes. Collective.
    ///
    /// # Errors
    /// Where they cannot be asked.
    fn all_agree(&self, yes: bool) -> Result<bool, Self::Stop>;

    /// Ends the job.
    fn abort(&self);
}

/// The scratch of one communicator.
pub struct Pool<M> {
    rank: usize,
    /// The bound on what all processes reserve, in bytes.
    most: usize,
    slots: Vec<Slot<M>>,
}

/// Memory for one lease.
struct Slot<M> {
    /// None while it is on lease.
    memory: Option<M>,
    /// Bytes that all processes have.
    agreed: usize,
}

/// Scratch of one call.
pub struct Lease<M> {
    /// Which one it is.
    pub slot: usize,
    /// The memory. It holds what was asked for.
    pub memory: M,
}

impl<M: Reserve> Pool<M> {
    /// For a process of this rank, with at most so many bytes.
    pub fn new(rank: usize, most: u64) -> Pool<M> {
        Pool {
            rank,
            most: usize::try_from(most).unwrap_or(usize::MAX),
            slots: Vec::new(),
        }
    }

    /// Whether so many bytes of data may be reserved where no call is in progress: the same answer
    /// on all processes.
    pub fn allows(&self, data: usize) -> bool {
        data <= self.most
    }

    /// Bytes that all processes are known to have.
    pub fn agreed(&self) -> usize {
        self.slots.iter().map(|slot| slot.agreed).sum()
    }

    /// Scratch for one call. May be collective.
    ///
    /// # Errors
    /// Native, on all processes, if the bound would be passed or memory is short.
    pub fn lease<A: Agreement>(&mut self, processes: &A, need: Need) -> Result<Lease<M>, A::Stop> {
        let (slot, most) = self.free_slot();
        if need.always.data > most {
            return Err(Reason::Scratch.into());
        }
        let common = if need.possible.data <= most {
            need.possible
        } else if processes.all_agree(!need.happens)? {
            // Too much for all, but no process needs it.
            need.always
        } else {
            return Err(Reason::Scratch.into());
        };
        let here = if need.happens {
            need.possible
        } else {
            need.always
        };
        self.take(slot, processes, most, (common.data, here.here))
    }

    /// Scratch of `need` bytes for a call in which not all processes take part, so that they cannot
    /// agree.
    ///
    /// # Errors
    /// Native, on all that know of the call, where `bytes`, the same value there, pass the bound.
    /// Where memory is short, the job ends.
    pub fn lease_alone<A: Agreement>(
        &mut self,
        processes: &A,
        bytes: usize,
        need: usize,
    ) -> Result<Lease<M>, A::Stop> {
        let (slot, most) = self.free_slot();
        if bytes > most {
            return Err(Reason::Scratch.into());
        }
        self.take(slot, processes, most, (0, need))
    }

    /// The end of a lease.
    pub fn give_back(&mut self, lease: Lease<M>) {
        self.slots[lease.slot].memory = Some(lease.memory);
    }

    /// The first slot that is not on lease, and how much it may hold beside those that are.
    fn free_slot(&mut self) -> (usize, usize) {
        let is_free = |slot: &Slot<M>| slot.memory.is_some();
        let slot = match self.slots.iter().position(is_free) {
            Some(slot) => slot,
            None => {
                self.slots.push(Slot {
                    memory: Some(M::default()),
                    agreed: 0,
                });
                self.slots.len() - 1
            }
        };
        let on_lease = self.slots.iter().filter(|slot| !is_free(slot));
        let taken: usize = on_lease.map(|slot| slot.agreed).sum();
        (slot, self.most.saturating_sub(taken))
    }

    /// Leases slot `index`. Its memory has at least `need` bytes on this process. On every process
    /// it has at least `common` bytes, a value that is the same on all of them.
    fn take<A: Agreement>(
        &mut self,
        index: usize,
        processes: &A,
        most: usize,
        (common, need): (usize, usize),
    ) -> Result<Lease<M>, A::Stop> {
        let slot = &mut self.slots[index];
        let mut memory = slot.memory.take().unwrap_or_default();
        if common > slot.agreed {
            // Doubling, so that slowly growing messages do not agree every time; and enough for
            // small messages, since processes that disagree on how much is sent would not agree
            // together.
            let ahead = common.checked_next_power_of_two().unwrap_or(common);
            let ahead = ahead.max(LEAST);
            let target = ahead.min(most).max(common);
            let is_reserved = memory.reserve(target.max(need));
            if !processes.all_agree(is_reserved)? {
                // What was there before may be gone, here or elsewhere.
                slot.agreed = 0;
                slot.memory = Some(memory);
                return Err(Reason::Memory.into());
            }
            slot.agreed = target;
        }
        // Only elements with larger gaps than those before them come to this: what was agreed on is
        // bytes of data.
        if !memory.reserve(need) {
            let rank = self.rank;
            say(&format!(
                "circulant: rank {rank}: no memory for {need} bytes of scratch"
            ));
            // Others may have started, so native is no way out any more.
            processes.abort();
        }
        Ok(Lease {
            slot: index,
            memory,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Processes that say what they are told to, and remember what they were asked.
    #[derive(Default)]
    struct Processes {
        say_no: bool,
        asked: RefCell<Vec<bool>>,
    }

    impl Agreement for Processes {
        type Stop = Reason;

        fn all_agree(&self, yes: bool) -> Result<bool, Reason> {
            self.asked.borrow_mut().push(yes);
            Ok(yes && !self.say_no)
        }

        fn abort(&self) {
            panic!("the job ends");
        }
    }

    /// Memory of a machine that has little of it.
    #[derive(Debug, Default)]
    struct Memory(usize);

    impl Reserve for Memory {
        fn reserve(&mut self, bytes: usize) -> bool {
            self.0 = self.0.max(bytes.min(1_000_000));
            self.0 >= bytes
        }
    }

    fn pool(most: u64) -> Pool<Memory> {
        Pool::new(0, most)
    }

    fn refused(lease: Result<Lease<Memory>, Reason>) -> Option<Reason> {
        lease.err()
    }

    #[test]
    fn a_steady_state_agrees_on_nothing() {
        let (mut pool, processes) = (pool(1 << 20), Processes::default());
        for round in 0..20 {
            for size in [100, 20_000, 5_000] {
                let need = Need::sometimes(size, size, round % 2 == 0);
                let lease = pool.lease(&processes, need).unwrap();
                assert!(lease.memory.0 >= size);
                pool.give_back(lease);
            }
        }
        // 16 KiB, then 40,000 rounded up.
        assert_eq!(*processes.asked.borrow(), [true, true]);
    }

    #[test]
    fn leases_at_once_keep_one_bound_together() {
        let (mut pool, processes) = (pool(100_000), Processes::default());
        let one = pool
            .lease(&processes, Need::sometimes(40_000, 0, false))
            .unwrap();
        let other = pool
            .lease(&processes, Need::sometimes(30_000, 0, false))
            .unwrap();
        assert_eq!((one.slot, other.slot), (0, 1));
        // 65,536 and 32,768 were agreed on.
        let third = pool.lease(&processes, Need::sometimes(2_000, 0, false));
        assert_eq!(refused(third), Some(Reason::Scratch));
        pool.give_back(one);
        let third = pool
            .lease(&processes, Need::sometimes(2_000, 0, false))
            .unwrap();
        assert_eq!(third.slot, 0, "the first that is free");
        pool.give_back(other);
        pool.give_back(third);
        assert!(
            pool.lease(&processes, Need::sometimes(100_000, 0, false))
                .is_ok()
        );
    }

    #[test]
    fn the_bound_is_kept_unless_no_process_needs_more() {
        let (mut pool, processes) = (pool(50_000), Processes::default());
        let too_much = pool.lease(&processes, Need::sometimes(50_001, 0, false));
        assert_eq!(refused(too_much), Some(Reason::Scratch));
        assert!(processes.asked.borrow().is_empty());
        let needed = pool.lease(&processes, Need::sometimes(10, 50_000, true));
        assert_eq!(refused(needed), Some(Reason::Scratch));
        let lease = pool
            .lease(&processes, Need::sometimes(10, 50_000, false))
            .unwrap();
        pool.give_back(lease);
        assert!(pool.allows(50_000) && !pool.allows(50_001));
        let alone = pool.lease_alone(&processes, 50_001, 0);
        assert_eq!(refused(alone), Some(Reason::Scratch));
        assert!(pool.lease_alone(&processes, 50_000, 7).is_ok());
    }

    #[test]
    fn memory_that_one_process_lacks_is_lacking_everywhere() {
        let mut pool = pool(1 << 30);
        let others_lack = Processes {
            say_no: true,
            ..Processes::default()
        };
        let lease = pool.lease(&others_lack, Need::sometimes(1_000, 0, false));
        assert_eq!(refused(lease), Some(Reason::Memory));
        // The next call asks again, and the slot can be leased.
        let processes = Processes::default();
        let lease = pool
            .lease(&processes, Need::sometimes(1_000, 0, false))
            .unwrap();
        assert_eq!((lease.slot, processes.asked.borrow().len()), (0, 1));
        pool.give_back(lease);
        let lease = pool.lease(&processes, Need::sometimes(2_000_000, 0, false));
        assert_eq!(refused(lease), Some(Reason::Memory));
        assert_eq!(processes.asked.borrow().last(), Some(&false));
    }

    /// Elements take more here than elsewhere.
    #[test]
    fn gaps_are_this_process_s_own_affair() {
        let (mut pool, processes) = (pool(1 << 20), Processes::default());
        let amount = |data, here| Amount { data, here };
        let need = |here| Need {
            always: amount(1_000, here),
            possible: amount(1_000, here),
            happens: false,
        };
        for here in [1_000, 16_384, 90_000, 500_000] {
            let lease = pool.lease(&processes, need(here)).unwrap();
            assert!(lease.memory.0 >= here);
            pool.give_back(lease);
        }
        assert_eq!(processes.asked.borrow().len(), 1);
    }
}
