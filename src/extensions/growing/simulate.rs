//! Reductions whose operand grows, with p processes in memory.
//!
//! As unkind as the rest: what is sent is read when it is received, and a message that nobody receives,
//! or waits for in vain, is a failure. Elements are the caller's, and so is the operator; so is the check
//! of the results. What is counted is in elements; headers are not counted.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};

use super::dissemination::Dissemination;
use super::growth::{Growth, Header, Links, Rules};
use super::rounds::Growing;
use super::stores::{Limit, Outcome, Room, STORES, Stores, Stretch, Target, pairwise};
use crate::plan::Census;
use crate::schedule::Skips;
use crate::simulate::Failure;
use crate::transport::Progress;

/// Which of the paper's algorithms is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Algorithm 1.
    Dissemination,
    /// Algorithm 2.
    Circulant,
}

/// What one process did, and has.
#[derive(Clone, Debug)]
pub struct Grown<E> {
    /// Rounds of the plan.
    pub rounds: usize,
    /// Messages sent.
    pub messages: usize,
    /// Elements sent.
    pub sent: usize,
    /// Elements received.
    pub received: usize,
    /// Elements that were combined, each combination of a and b elements counting a + b.
    pub combined: usize,
    /// Elements copied.
    pub copied: usize,
    /// The elements that all its stores have had room for, the most of each.
    pub memory: usize,
    /// How it ended.
    pub outcome: Outcome,
    /// The result.
    pub result: Vec<E>,
}

/// A user's operator: the combination of two operands on process `rank`, or the code that it fails with.
pub type Combine<'a, E> = &'a dyn Fn(usize, &[E], &[E]) -> Result<Vec<E>, i32>;

/// What can be done with the results.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// How many elements fit.
    pub capacity: usize,
    /// Whether they can be combined there.
    pub direct: bool,
    /// Whether a combination has as many elements as its operands together.
    pub exact: bool,
}

/// Combines `blocks`, one a process, on all processes.
///
/// # Errors
/// See [`Failure`].
pub fn simulate_growing<E: Clone>(
    pattern: Pattern,
    blocks: &[Vec<E>],
    rules: Rules,
    places: Places,
    combine: Combine<'_, E>,
) -> Result<Vec<Grown<E>>, Failure> {
    let processes = blocks.len();
    let skips = std::sync::Arc::new(Skips::new(processes));
    let plan = |rank| -> Box<dyn Growing + '_> {
        match pattern {
            Pattern::Dissemination => Box::new(Dissemination::new(processes, rank)),
            Pattern::Circulant => Box::new(Census::new(skips.clone(), rank)),
        }
    };
    let plans: Vec<_> = (0..processes).map(plan).collect();
    let network = RefCell::new(Network::new(blocks));
    let mut ranks: Vec<_> = (0..processes)
        .map(|rank| Rank::new(rank, plans[rank].rounds(), &network, places, combine))
        .collect();
    let mut calls: Vec<_> = ranks
        .iter_mut()
        .zip(&plans)
        .map(|(stores, plan)| {
            let elements = blocks[stores.rank].len();
            Growth::new(plan.as_ref(), stores, elements, rules)
        })
        .collect();
    let outcomes = finish_all(&mut calls, &network)?;
    drop(calls);
    if network.borrow().in_flight.values().any(|q| !q.is_empty()) {
        return Err(Failure::Unreceived);
    }
    let finished = ranks.into_iter().zip(outcomes);
    Ok(finished
        .map(|(rank, outcome)| Grown {
            outcome,
            ..rank.grown()
        })
        .collect())
}

/// The second half of Algorithm 0 on one process, which has all `blocks`.
///
/// # Errors
/// See [`Failure`].
pub fn simulate_pairwise<E: Clone>(
    blocks: &[Vec<E>],
    limit: Limit,
    places: Places,
    combine: Combine<'_, E>,
) -> Result<Grown<E>, Failure> {
    let mut start = 0;
    let runs = blocks.iter().map(|block| {
        start += block.len();
        Stretch {
            store: 0,
            start: start - block.len(),
            count: block.len(),
        }
    });
    let runs = runs.collect();
    let network = RefCell::new(Network::new(&[blocks.concat()]));
    let mut rank = Rank::new(0, 0, &network, places, combine);
    let outcome = pairwise(&mut rank, runs, limit)?;
    Ok(Grown {
        outcome,
        ..rank.grown()
    })
}

/// Advances each process in turn until all are done, or none can go on.
fn finish_all<E: Clone>(
    calls: &mut [Growth<'_, Rank<'_, E>>],
    network: &RefCell<Network<E>>,
) -> Result<Vec<Outcome>, Failure> {
    let mut outcomes: Vec<Option<Outcome>> = vec![None; calls.len()];
    while let Some(rank) = outcomes.iter().position(Option::is_none) {
        let before = network.borrow().steps;
        for (call, outcome) in calls.iter_mut().zip(&mut outcomes) {
            if outcome.is_none() {
                *outcome = call.advance()?;
                network.borrow_mut().steps += usize::from(outcome.is_some());
            }
        }
        if before == network.borrow().steps {
            return Err(Failure::Deadlock { rank });
        }
    }
    Ok(outcomes.into_iter().flatten().collect())
}

/// A send that its receiver has not taken yet: where the elements still are.
#[derive(Clone, Copy)]
struct Flight {
    header: Option<Header>,
    elements: Stretch,
}

struct Network<E> {
    /// The messages under way from one process to another, oldest first.
    in_flight: HashMap<(usize, usize), VecDeque<Flight>>,
    /// The stores of each process. No element where none was put.
    memories: Vec<[Vec<Option<E>>; STORES]>,
    /// Whether a store of each process has been reserved: then there is room for a header in front.
    reserved: Vec<[bool; STORES]>,
    /// Whether each process' send has not been received.
    unfinished: Vec<bool>,
    /// Counts everything that happened, to tell a deadlock.
    steps: usize,
}

impl<E: Clone> Network<E> {
    fn new(blocks: &[Vec<E>]) -> Network<E> {
        let memory = |block: &Vec<E>| {
            let mut stores = [const { Vec::new() }; STORES];
            stores[0] = block.iter().cloned().map(Some).collect();
            stores
        };
        Network {
            in_flight: HashMap::new(),
            memories: blocks.iter().map(memory).collect(),
            reserved: vec![std::array::from_fn(|store| store == 0); blocks.len()],
            unfinished: vec![false; blocks.len()],
            steps: 0,
        }
    }

    fn read(&self, rank: usize, stretch: Stretch) -> Vec<E> {
        let store = &self.memories[rank][stretch.store];
        let elements = &store[stretch.start..stretch.start + stretch.count];
        elements.iter().flatten().cloned().collect()
    }

    fn write(&mut self, rank: usize, (store, start): (usize, usize), elements: Vec<E>) {
        let store = &mut self.memories[rank][store];
        for (place, element) in store[start..start + elements.len()]
            .iter_mut()
            .zip(elements)
        {
            *place = Some(element);
        }
    }

    /// Makes room, and forgets what was there but for the first `kept`.
    fn reserve(&mut self, rank: usize, store: usize, elements: usize, kept: usize) {
        self.reserved[rank][store] = true;
        let store = &mut self.memories[rank][store];
        let room = store.len().max(elements);
        store.truncate(kept);
        store.resize(room, None);
    }
}

/// Process `rank`'s side.
struct Rank<'a, E> {
    rank: usize,
    network: &'a RefCell<Network<E>>,
    places: Places,
    combine: Combine<'a, E>,
    grown: Grown<E>,
}

impl<'a, E: Clone> Rank<'a, E> {
    fn new(
        rank: usize,
        rounds: usize,
        network: &'a RefCell<Network<E>>,
        places: Places,
        combine: Combine<'a, E>,
    ) -> Self {
        let grown = Grown {
            rounds,
            messages: 0,
            sent: 0,
            received: 0,
            combined: 0,
            copied: 0,
            memory: 0,
            outcome: Outcome::default(),
            result: Vec::new(),
        };
        Rank {
            rank,
            network,
            places,
            combine,
            grown,
        }
    }

    fn grown(self) -> Grown<E> {
        let stores = &self.network.borrow().memories[self.rank];
        Grown {
            memory: stores.iter().map(Vec::len).sum(),
            ..self.grown
        }
    }

    /// The oldest message from `from`, which its sender has then sent.
    fn take(&mut self, from: usize) -> Option<(Option<Header>, Vec<E>)> {
        let mut network = self.network.borrow_mut();
        let flight = network.in_flight.get_mut(&(from, self.rank))?.pop_front()?;
        let elements = network.read(from, flight.elements);
        network.unfinished[from] = false;
        network.steps += 1;
        self.grown.received += elements.len();
        Some((flight.header, elements))
    }

    fn put(&mut self, to: Target, elements: Vec<E>) {
        match to {
            Target::Store(store, start) => {
                let mut network = self.network.borrow_mut();
                network.write(self.rank, (store, start), elements);
            }
            Target::Result => self.grown.result = elements,
        }
    }
}

impl<E: Clone> Stores for Rank<'_, E> {
    type Error = Failure;

    fn reserve(&mut self, store: usize, elements: usize, kept: usize) {
        let mut network = self.network.borrow_mut();
        network.reserve(self.rank, store, elements, kept);
    }

    fn copy(&mut self, from: Stretch, to: Target) -> Result<(), Failure> {
        let elements = self.network.borrow().read(self.rank, from);
        self.grown.copied += elements.len();
        self.put(to, elements);
        Ok(())
    }

    fn combine(
        &mut self,
        left: Stretch,
        right: Stretch,
        to: Target,
    ) -> Result<Result<usize, i32>, Failure> {
        let read = |stretch| self.network.borrow().read(self.rank, stretch);
        let (left, right) = (read(left), read(right));
        self.grown.combined += left.len() + right.len();
        Ok((self.combine)(self.rank, &left, &right).map(|elements| {
            let count = elements.len();
            self.put(to, elements);
            count
        }))
    }

    fn room(&self, elements: usize) -> Room {
        if elements > self.places.capacity && self.places.exact {
            Room::Nowhere
        } else if elements > self.places.capacity || !self.places.direct {
            Room::Apart
        } else {
            Room::Direct
        }
    }

    fn deliver(&mut self, result: Stretch) -> Result<(), Failure> {
        if result.count <= self.places.capacity {
            self.copy(result, Target::Result)?;
        }
        Ok(())
    }
}

impl<E: Clone> Links for Rank<'_, E> {
    type Error = Failure;
    type Stores = Self;

    fn stores(&mut self) -> &mut Self {
        self
    }

    fn start_send(
        &mut self,
        to: usize,
        header: Option<&Header>,
        elements: Stretch,
    ) -> Result<(), Failure> {
        self.grown.messages += 1;
        self.grown.sent += elements.count;
        let flight = Flight {
            header: header.copied(),
            elements,
        };
        let mut network = self.network.borrow_mut();
        if header.is_some() && !network.reserved[self.rank][elements.store] {
            return Err(Failure::Unreserved { rank: self.rank });
        }
        let key = (self.rank, to);
        network.in_flight.entry(key).or_default().push_back(flight);
        network.unfinished[self.rank] = true;
        network.steps += 1;
        Ok(())
    }

    fn finish_send(&mut self) -> Result<Progress, Failure> {
        Ok(if self.network.borrow().unfinished[self.rank] {
            Progress::Pending
        } else {
            Progress::Ready
        })
    }

    fn receive_first(&mut self, from: usize, store: usize) -> Result<Option<Header>, Failure> {
        let Some((header, elements)) = self.take(from) else {
            return Ok(None);
        };
        self.reserve(store, elements.len(), 0);
        let count = elements.len();
        self.put(Target::Store(store, 0), elements);
        let length = Failure::Length {
            rank: self.rank,
            sent: count,
            expected: 0,
        };
        header.map(Some).ok_or(length)
    }

    fn receive(&mut self, from: usize, into: Stretch) -> Result<Progress, Failure> {
        let Some((header, elements)) = self.take(from) else {
            return Ok(Progress::Pending);
        };
        if header.is_some() || elements.len() != into.count {
            return Err(Failure::Length {
                rank: self.rank,
                sent: elements.len(),
                expected: into.count,
            });
        }
        self.put(Target::Store(into.store, into.start), elements);
        Ok(Progress::Ready)
    }
}
