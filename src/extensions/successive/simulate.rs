//! Successive broadcasts in memory, by the executor that runs them over MPI, with a clock.
//!
//! The clock is the paper's port model: a message takes one unit of time, in which it occupies its sender
//! and its receiver; a process sends to all its children at once, and does not send and receive
//! at the same time. Along trees, the owner of step i starts at 2i or, if it has not got all values by then, when it has; whoever
//! receives a value sends it on in the next unit. From owner to owner, who has all values of a turn sends in the next
//! unit. Where that would have a process do two things in one unit, it is
//! counted as a conflict; nobody waits for the other to end, so there are none to be hidden.
//!
//! As in the other simulations a message is read from its sender's memory only when the receiver finishes
//! it, or has to wait for another. A value depends on all values before it in their order, as its owner has stored them.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::faults::{Course, Faults, HEADER};
use super::flow::{Flow, Steps, Successive, Way};
use crate::plan::Succession;
use crate::simulate::{Failure, NOTHING, contribution};
use crate::transport::{Place, Progress, SendMode, Transport};

/// Successive broadcasts to simulate.
#[derive(Clone, Debug)]
pub struct SuccessiveProblem {
    /// p.
    pub processes: usize,
    /// n.
    pub steps: usize,
    /// The number of the first.
    pub first: usize,
    /// Units of a value.
    pub length: usize,
    /// How values go.
    pub flow: Flow,
    /// Callbacks that return an error.
    pub broken: Vec<Broken>,
}

/// A callback that returns an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// On this process.
    pub rank: usize,
    /// In this step.
    pub step: usize,
    /// The one that produces, of the owner; else the one that stores.
    pub produces: bool,
    /// What it returns.
    pub code: i32,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Units of time until the last value is everywhere.
    pub time: usize,
    /// How often a process did two things in one unit.
    pub conflicts: usize,
    /// Steps that were run, on every process.
    pub steps: usize,
    /// What all processes return.
    pub code: i32,
    /// Messages that each process sent.
    pub sent: Vec<usize>,
    /// Values that each process sent.
    pub values: Vec<usize>,
    /// Values that each process stored.
    pub stored: Vec<usize>,
}

/// Runs `problem` on all its processes, and checks what each of them stores, and when.
///
/// # Errors
/// See [`Failure`]. [`Failure::Wrong`] is a value that is not the serial computation's, or not the next.
pub fn simulate_successive(problem: &SuccessiveProblem) -> Result<Outcome, Failure> {
    let values = serial(problem);
    let network = RefCell::new(Network::new(problem.processes));
    let order = Succession::new(problem.processes);
    let mut ranks: Vec<_> = (0..problem.processes)
        .map(|rank| Rank::new(problem, rank, &values, &network))
        .collect();
    let mut engines: Vec<_> = ranks
        .iter_mut()
        .enumerate()
        .map(|(rank, transport)| {
            let steps = problem.first..problem.first + problem.steps;
            Successive::new(order, rank, steps, problem.flow, transport)
        })
        .collect();
    run(&mut engines, &network)?;
    let steps: Vec<_> = engines
        .iter()
        .map(|engine| engine.done() - problem.first)
        .collect();
    drop(engines);
    outcome(&ranks, &steps, &network)
}

/// Advances whoever may have something to do, until all are done.
fn run(
    engines: &mut [Successive<'_, Rank<'_>>],
    network: &RefCell<Network>,
) -> Result<(), Failure> {
    let mut is_done = vec![false; engines.len()];
    loop {
        let next = network.borrow_mut().next();
        let Some(rank) = next else { break };
        is_done[rank] = engines[rank].advance()? == Progress::Ready;
    }
    match is_done.iter().position(|&done| !done) {
        Some(rank) => Err(Failure::Deadlock { rank }),
        None => Ok(()),
    }
}

fn outcome(
    ranks: &[Rank<'_>],
    steps: &[usize],
    network: &RefCell<Network>,
) -> Result<Outcome, Failure> {
    let is_left = network.borrow().inboxes.iter().any(Inbox::is_filled);
    if is_left || ranks.iter().any(|rank| !rank.receives.is_empty()) {
        return Err(Failure::Unreceived);
    }
    // Who ran fewer or more steps than others would have left messages, too.
    if let Some(rank) = steps.iter().position(|&done| done != steps[0]) {
        return Err(Failure::Deadlock { rank });
    }
    Ok(Outcome {
        time: ranks.iter().map(|rank| rank.end).max().unwrap_or(0),
        conflicts: ranks.iter().map(|rank| rank.conflicts).sum(),
        steps: steps.first().copied().unwrap_or(0),
        code: Faults::agreed(ranks.iter().map(|rank| rank.faults.words())),
        sent: ranks.iter().map(|rank| rank.sent).collect(),
        values: ranks.iter().map(|rank| rank.values_sent).collect(),
        stored: ranks.iter().map(|rank| rank.stored).collect(),
    })
}

/// The values of a serial computation: each unit of a value depends on all values before.
fn serial(problem: &SuccessiveProblem) -> Vec<u64> {
    let mut past = 0;
    let mut values = Vec::with_capacity(problem.steps * problem.length);
    for step in problem.first..problem.first + problem.steps {
        let value: Vec<_> = (0..problem.length)
            .map(|unit| computed(past, step, unit))
            .collect();
        past = value.iter().fold(past, |past, &unit| with(past, unit));
        values.extend(value);
    }
    values
}

fn computed(past: u64, step: usize, unit: usize) -> u64 {
    contribution(step, unit, 0) ^ past
}

/// The past, one unit longer.
fn with(past: u64, unit: u64) -> u64 {
    (past.rotate_left(5) ^ unit).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A message that was sent: where it still is, and when it leaves.
struct Flight {
    slot: usize,
    offset: usize,
    length: usize,
    time: usize,
}

/// The messages to one process, by their senders.
#[derive(Default)]
struct Inbox(Vec<(usize, VecDeque<Flight>)>);

impl Inbox {
    fn from(&mut self, sender: usize) -> &mut VecDeque<Flight> {
        let known = self.0.iter().position(|(known, _)| *known == sender);
        let index = known.unwrap_or_else(|| {
            self.0.push((sender, VecDeque::new()));
            self.0.len() - 1
        });
        &mut self.0[index].1
    }

    fn is_filled(&self) -> bool {
        self.0.iter().any(|(_, flights)| !flights.is_empty())
    }
}

struct Network {
    inboxes: Vec<Inbox>,
    memories: Vec<Vec<u64>>,
    /// Slots of sends that are not finished, a bit each.
    unfinished: Vec<u64>,
    /// Processes that may have something to do, and whether each is among them.
    awake: VecDeque<usize>,
    is_awake: Vec<bool>,
}

impl Network {
    fn new(processes: usize) -> Network {
        Network {
            inboxes: (0..processes).map(|_| Inbox::default()).collect(),
            memories: vec![Vec::new(); processes],
            unfinished: vec![0; processes],
            awake: (0..processes).collect(),
            is_awake: vec![true; processes],
        }
    }

    fn wake(&mut self, rank: usize) {
        if !std::mem::replace(&mut self.is_awake[rank], true) {
            self.awake.push_back(rank);
        }
    }

    fn next(&mut self) -> Option<usize> {
        let rank = self.awake.pop_front()?;
        self.is_awake[rank] = false;
        Some(rank)
    }
}

/// A receive that was posted and is not finished.
struct Receive {
    slot: usize,
    from: usize,
    offset: usize,
    length: usize,
    /// When its message left, once that is here.
    arrived: Option<usize>,
}

/// Process `rank`'s side.
struct Rank<'a> {
    problem: &'a SuccessiveProblem,
    rank: usize,
    /// What a serial computation gives.
    values: &'a [u64],
    network: &'a RefCell<Network>,
    /// In the order in which they were posted.
    receives: Vec<Receive>,
    faults: Faults,
    /// Of the values that were stored.
    past: u64,
    stored: usize,
    sent: usize,
    values_sent: usize,
    /// When the current value may be sent on, and whether that unit of time is taken.
    now: usize,
    sends: bool,
    /// When everything so far is over.
    end: usize,
    /// Units of time in which something was done, a bit each.
    busy: Vec<u64>,
    conflicts: usize,
}

impl<'a> Rank<'a> {
    fn new(
        problem: &'a SuccessiveProblem,
        rank: usize,
        values: &'a [u64],
        network: &'a RefCell<Network>,
    ) -> Self {
        let units = problem.flow.stretches(problem.processes) * (HEADER_UNITS + problem.length);
        network.borrow_mut().memories[rank] = vec![NOTHING; units];
        Rank {
            problem,
            rank,
            values,
            network,
            receives: Vec::new(),
            faults: Faults::new(rank),
            past: 0,
            stored: 0,
            sent: 0,
            values_sent: 0,
            now: 0,
            sends: false,
            end: 0,
            busy: Vec::new(),
            conflicts: 0,
        }
    }

    /// Takes the message for a receive out of its sender's memory, if it was sent.
    fn deliver(&mut self, index: usize) -> Result<(), Failure> {
        let Receive {
            from,
            offset,
            length,
            arrived: None,
            ..
        } = self.receives[index]
        else {
            return Ok(());
        };
        // Receives from one process match its messages in the order in which they were posted.
        let is_earlier = |receive: &&Receive| receive.from == from && receive.arrived.is_none();
        let earlier = self.receives[..index].iter().filter(is_earlier).count();
        let mut network = self.network.borrow_mut();
        let Some(flight) = network.inboxes[self.rank].from(from).remove(earlier) else {
            return Ok(());
        };
        // From owner to owner, there may be fewer values than there is room for.
        if flight.length > length || flight.length < self.length() {
            return Err(Failure::Length {
                rank: self.rank,
                sent: flight.length,
                expected: length,
            });
        }
        for unit in 0..flight.length {
            network.memories[self.rank][offset + unit] =
                network.memories[from][flight.offset + unit];
        }
        network.unfinished[from] &= !(1 << flight.slot);
        network.wake(from);
        self.receives[index].arrived = Some(flight.time);
        Ok(())
    }

    /// Who waits gets everything that was sent to it.
    fn deliver_all(&mut self) -> Result<(), Failure> {
        (0..self.receives.len()).try_for_each(|index| self.deliver(index))
    }

    /// Something is done in unit `time`.
    fn occupy(&mut self, time: usize) {
        let (word, bit) = (time / 64, 1 << (time % 64));
        if self.busy.len() <= word {
            self.busy.resize(word + 1, 0);
        }
        self.conflicts += usize::from(self.busy[word] & bit != 0);
        self.busy[word] |= bit;
        self.end = self.end.max(time + 1);
    }

    fn broken(&self, step: usize, produces: bool) -> i32 {
        let broken = self.problem.broken.iter().find(|broken| {
            (broken.rank, broken.step, broken.produces) == (self.rank, step, produces)
        });
        broken.map_or(0, |broken| broken.code)
    }

    fn header(&self, offset: usize) -> [u8; HEADER] {
        let memory = &self.network.borrow().memories[self.rank];
        let mut header = [0; HEADER];
        for (bytes, word) in header.chunks_mut(8).zip(&memory[offset..]) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        header
    }

    fn set_header(&mut self, offset: usize, header: [u8; HEADER]) {
        let memory = &mut self.network.borrow_mut().memories[self.rank];
        for (bytes, word) in header.chunks(8).zip(&mut memory[offset..]) {
            let mut whole = [0; 8];
            whole.copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
    }
}

const HEADER_UNITS: usize = HEADER / 8;

impl Steps for Rank<'_> {
    fn place(&self, index: usize) -> Place {
        Place::scratch(index * self.stride())
    }

    fn length(&self) -> usize {
        HEADER_UNITS + self.problem.length
    }

    fn stride(&self) -> usize {
        self.length()
    }

    fn produce(&mut self, step: usize, place: Place) -> Result<Course, Failure> {
        let offset = place.offset;
        if self.faults.are_none() {
            self.faults.note(step, self.broken(step, true));
        }
        let (header, course) = self.faults.own_header();
        self.set_header(offset, header);
        let memory = &mut self.network.borrow_mut().memories[self.rank];
        let value = &mut memory[offset + HEADER_UNITS..][..self.problem.length];
        for (unit, word) in value.iter_mut().enumerate() {
            *word = computed(self.past, step, unit);
        }
        let earliest = match self.problem.flow.way {
            Way::Trees { .. } => 2 * (step - self.problem.first),
            Way::Relay { .. } => 0,
        };
        self.now = self.end.max(earliest);
        self.sends = false;
        Ok(course)
    }

    fn received(&mut self, _step: usize, place: Place) -> Result<Course, Failure> {
        let (header, course) = self.faults.merge(self.header(place.offset));
        self.set_header(place.offset, header);
        Ok(course)
    }

    fn store(&mut self, step: usize, place: Place) -> Result<(), Failure> {
        if !self.faults.are_none() {
            return Ok(());
        }
        if step != self.problem.first + self.stored {
            return Err(Failure::Wrong {
                rank: self.rank,
                message: step,
                unit: 0,
            });
        }
        let start = place.offset + HEADER_UNITS;
        let length = self.problem.length;
        for unit in 0..length {
            let found = self.network.borrow().memories[self.rank][start + unit];
            if found != self.values[self.stored * length + unit] {
                return Err(Failure::Wrong {
                    rank: self.rank,
                    message: step,
                    unit,
                });
            }
            self.past = with(self.past, found);
        }
        self.stored += 1;
        self.faults.note(step, self.broken(step, false));
        Ok(())
    }

    fn withdraw(&mut self) -> Result<(), Failure> {
        self.receives.clear();
        Ok(())
    }
}

impl Transport for Rank<'_> {
    type Error = Failure;

    fn is_one_piece(&self, _place: Place, _length: usize) -> bool {
        true
    }

    fn start_send(
        &mut self,
        slot: usize,
        to: usize,
        place: Place,
        length: usize,
        _mode: SendMode,
    ) -> Result<(), Failure> {
        if !std::mem::replace(&mut self.sends, true) {
            self.occupy(self.now);
        }
        self.sent += 1;
        self.values_sent += length / self.stride();
        let mut network = self.network.borrow_mut();
        network.unfinished[self.rank] |= 1 << slot;
        network.inboxes[to].from(self.rank).push_back(Flight {
            slot,
            offset: place.offset,
            length,
            time: self.now,
        });
        network.wake(to);
        Ok(())
    }

    fn start_receive(
        &mut self,
        slot: usize,
        from: usize,
        place: Place,
        length: usize,
    ) -> Result<(), Failure> {
        self.receives.push(Receive {
            slot,
            from,
            offset: place.offset,
            length,
            arrived: None,
        });
        Ok(())
    }

    fn finish_send(&mut self, slot: usize) -> Result<Progress, Failure> {
        if self.network.borrow().unfinished[self.rank] >> slot & 1 == 0 {
            return Ok(Progress::Ready);
        }
        self.deliver_all()?;
        Ok(Progress::Pending)
    }

    fn finish_receive(&mut self, slot: usize) -> Result<Progress, Failure> {
        let posted = self
            .receives
            .iter()
            .position(|receive| receive.slot == slot);
        let Some(index) = posted else {
            return Ok(Progress::Ready);
        };
        self.deliver(index)?;
        let Some(time) = self.receives[index].arrived else {
            self.deliver_all()?;
            return Ok(Progress::Pending);
        };
        self.receives.remove(index);
        self.occupy(time);
        self.now = time + 1;
        self.sends = false;
        Ok(Progress::Ready)
    }

    fn copy(&mut self, from: Place, to: Place, length: usize) -> Result<(), Failure> {
        let (from, to) = (from.offset, to.offset);
        let memory = &mut self.network.borrow_mut().memories[self.rank];
        memory.copy_within(from..from + length, to);
        Ok(())
    }

    fn combine(&mut self, _from: Place, _into: Place, _length: usize) -> Result<(), Failure> {
        Ok(())
    }

    fn pack(&mut self, _place: Place, _length: usize) -> Result<(), Failure> {
        Ok(())
    }

    fn unpack(&mut self, _place: Place, _length: usize) -> Result<(), Failure> {
        Ok(())
    }
}
