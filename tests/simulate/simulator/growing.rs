//! Reductions whose operand grows, among p ranks in memory.
//!
//! What is sent is read from its sender's memory only when it is received. A process that waits in
//! vain is a failure. The caller brings the elements and the operator, and checks the results.
//! Counts are in elements, without headers.

use std::cell::RefCell;

use circulant::extensions::growing::growth::{Growth, Rules};
use circulant::extensions::growing::rounds::Rounds;
use circulant::extensions::growing::stores::{
    Combined, Header, Limit, Places, STORES, Stores, Stretch, Target, pairwise,
};
use circulant::schedule::Skips;
use circulant::transport::Progress;

use super::Failure;

/// Which of the paper's algorithms is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Algorithm 1.
    Dissemination,
    /// Algorithm 2.
    Circulant,
}

/// What one process did, and what it has.
#[derive(Clone, Debug)]
pub struct Grown<E> {
    /// Rounds of the algorithm.
    pub rounds: usize,
    /// Messages sent.
    pub messages: usize,
    /// Elements sent.
    pub sent: usize,
    /// Elements received.
    pub received: usize,
    /// Elements combined: a + b for each combination of a and b elements.
    pub combined: usize,
    /// Elements of memory: the sum over all stores of the most that each had room for.
    pub memory: usize,
    /// How it ended.
    pub outcome: Combined,
    /// The result.
    pub result: Vec<E>,
}

/// The program's operator: the combination of two operands on process `rank`, or a code if it
/// fails.
pub type Combine<'a, E> = &'a dyn Fn(usize, &[E], &[E]) -> Result<Vec<E>, i32>;

/// Combines `blocks`, one of each process, on all processes.
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
    let rounds = |rank| match pattern {
        Pattern::Dissemination => Rounds::dissemination(processes, rank),
        Pattern::Circulant => Rounds::circulant(skips.clone(), rank),
    };
    let rounds: Vec<_> = (0..processes).map(rounds).collect();
    let network = RefCell::new(Network::new(blocks));
    let rank = |rank| Rank::new(rank, &network, combine);
    let mut ranks: Vec<_> = (0..processes).map(rank).collect();
    let calls = ranks.iter_mut().zip(&rounds).zip(blocks);
    let mut calls: Vec<_> = calls
        .map(|((rank, rounds), block)| Growth::new(rounds, rank, block.len(), (rules, places)))
        .collect();
    let mut outcomes = vec![None; processes];
    while let Some(rank) = outcomes.iter().position(Option::is_none) {
        let before = network.borrow().events;
        for (call, outcome) in calls.iter_mut().zip(&mut outcomes) {
            if outcome.is_none() {
                *outcome = call.advance()?;
                network.borrow_mut().events += usize::from(outcome.is_some());
            }
        }
        if before == network.borrow().events {
            return Err(Failure::Deadlock { rank });
        }
    }
    drop(calls);
    let ended = ranks.into_iter().zip(&rounds);
    let ended = ended.zip(outcomes.into_iter().flatten());
    Ok(ended
        .map(|((rank, rounds), outcome)| rank.end(rounds.steps.len(), outcome))
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
    let network = RefCell::new(Network::new(&[blocks.concat()]));
    let mut rank = Rank::new(0, &network, combine);
    let outcome = pairwise(&mut rank, blocks.iter().map(Vec::len), places, limit)?;
    Ok(rank.end(0, outcome))
}

/// A message that its receiver has not taken yet. Its elements are still in the sender's store.
#[derive(Clone, Copy)]
struct Flight {
    to: usize,
    header: Option<Header>,
    elements: Stretch,
}

struct Network<E> {
    /// The message that each process sends.
    sent: Vec<Option<Flight>>,
    /// The stores of each process. `None` is an element that was never written.
    memories: Vec<[Vec<Option<E>>; STORES]>,
    /// Which stores of each process were reserved. Only these have room for a header in front.
    reserved: Vec<[bool; STORES]>,
    /// Counts everything that happened, to find a deadlock.
    events: usize,
}

impl<E: Clone> Network<E> {
    fn new(blocks: &[Vec<E>]) -> Network<E> {
        let memory = |block: &Vec<E>| {
            let mut stores = [const { Vec::new() }; STORES];
            stores[0] = block.iter().cloned().map(Some).collect();
            stores
        };
        Network {
            sent: vec![None; blocks.len()],
            memories: blocks.iter().map(memory).collect(),
            reserved: vec![std::array::from_fn(|store| store == 0); blocks.len()],
            events: 0,
        }
    }

    fn read(&self, rank: usize, stretch: Stretch) -> Vec<E> {
        let store = &self.memories[rank][stretch.store];
        let elements = &store[stretch.start..stretch.start + stretch.count];
        elements.iter().flatten().cloned().collect()
    }
}

/// One process.
struct Rank<'a, E> {
    rank: usize,
    network: &'a RefCell<Network<E>>,
    combine: Combine<'a, E>,
    grown: Grown<E>,
}

impl<'a, E: Clone> Rank<'a, E> {
    fn new(rank: usize, network: &'a RefCell<Network<E>>, combine: Combine<'a, E>) -> Self {
        let grown = Grown {
            rounds: 0,
            messages: 0,
            sent: 0,
            received: 0,
            combined: 0,
            memory: 0,
            outcome: Combined::default(),
            result: Vec::new(),
        };
        Rank {
            rank,
            network,
            combine,
            grown,
        }
    }

    fn end(self, rounds: usize, outcome: Combined) -> Grown<E> {
        let stores = &self.network.borrow().memories[self.rank];
        Grown {
            rounds,
            outcome,
            memory: stores.iter().map(Vec::len).sum(),
            ..self.grown
        }
    }

    /// The message from `from`, if it is there. Its sender has then sent it.
    fn take(&mut self, from: usize) -> Option<(Option<Header>, Vec<E>)> {
        let mut network = self.network.borrow_mut();
        let flight = network.sent[from].take_if(|flight| flight.to == self.rank)?;
        network.events += 1;
        self.grown.received += flight.elements.count;
        Some((flight.header, network.read(from, flight.elements)))
    }

    fn put(&mut self, to: Target, elements: Vec<E>) {
        match to {
            Target::Store(store, start) => {
                let store = &mut self.network.borrow_mut().memories[self.rank][store];
                let places = store[start..start + elements.len()].iter_mut();
                places
                    .zip(elements)
                    .for_each(|(place, element)| *place = Some(element));
            }
            Target::Result => self.grown.result = elements,
        }
    }
}

impl<E: Clone> Stores for Rank<'_, E> {
    type Error = Failure;

    fn reserve(&mut self, store: usize, elements: usize, kept: usize) {
        let mut network = self.network.borrow_mut();
        network.reserved[self.rank][store] = true;
        let store = &mut network.memories[self.rank][store];
        let room = store.len().max(elements);
        store.truncate(kept);
        store.resize(room, None);
    }

    fn copy(&mut self, from: Stretch, to: Target) -> Result<(), Failure> {
        let elements = self.network.borrow().read(self.rank, from);
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

    fn start_send(
        &mut self,
        to: usize,
        header: Option<&Header>,
        elements: Stretch,
    ) -> Result<(), Failure> {
        self.grown.messages += 1;
        self.grown.sent += elements.count;
        let mut network = self.network.borrow_mut();
        if header.is_some() && !network.reserved[self.rank][elements.store] {
            return Err(Failure::Unreserved { rank: self.rank });
        }
        let flight = Flight {
            to,
            header: header.copied(),
            elements,
        };
        if network.sent[self.rank].replace(flight).is_some() {
            return Err(Failure::Unreceived);
        }
        network.events += 1;
        Ok(())
    }

    fn finish_send(&mut self) -> Result<Progress, Failure> {
        Ok(match self.network.borrow().sent[self.rank] {
            Some(_) => Progress::Pending,
            None => Progress::Ready,
        })
    }

    fn receive_first(&mut self, from: usize, store: usize) -> Result<Option<Header>, Failure> {
        let Some((header, elements)) = self.take(from) else {
            return Ok(None);
        };
        let length = Failure::Length {
            rank: self.rank,
            sent: elements.len(),
            expected: 0,
        };
        self.reserve(store, elements.len(), 0);
        self.put(Target::Store(store, 0), elements);
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
