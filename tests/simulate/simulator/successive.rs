//! Successive broadcasts among p ranks in memory, by the executor that runs them over MPI, with a
//! clock.
//!
//! The clock is the paper's port model. A message takes one unit of time, in which it occupies its
//! sender and its receiver. A process sends to all its children at once, and does not send and
//! receive at the same time. Along trees the owner of step i starts at time 2i, or later if it gets
//! a value later; a process that receives a value sends it on in the next unit. From owner to
//! owner, a process that has all values of a turn sends in the next unit. If a process did two
//! things in one unit, that is counted as a conflict. Nobody waits for a conflict to end, so none
//! is hidden.
//!
//! As in the other simulations, a message is read from its sender's memory only when its receiver
//! finishes it or has to wait for another message. Each unit of a value depends on all values
//! before, in the order in which its owner stored them. So a rank knows by induction what it has to
//! store.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

use circulant::extensions::successive::faults::{Faults, Header};
use circulant::extensions::successive::flow::{Flow, Way};
use circulant::extensions::successive::turns::{Steps, Successive};
use circulant::plan::Succession;
use circulant::transport::{Place, Progress, SendMode, Transport};

use super::call::NOTHING;
use super::{Failure, contribution, mixed};

/// Successive broadcasts to simulate.
#[derive(Clone, Debug)]
pub struct SuccessiveProblem {
    /// p.
    pub processes: usize,
    /// n.
    pub steps: usize,
    /// The number of the first step.
    pub first: usize,
    /// Units of a value.
    pub length: usize,
    /// How values are sent.
    pub flow: Flow,
    /// Callbacks that return an error.
    pub broken: Vec<Broken>,
}

/// A callback that returns an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The process.
    pub rank: usize,
    /// The step.
    pub step: usize,
    /// Whether it is the callback that produces, and not the one that stores.
    pub produces: bool,
    /// What it returns.
    pub code: i32,
}

/// The result of a simulation.
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
/// See [`Failure`]. [`Failure::Wrong`] is a value that differs from the serial computation's, or
/// that is not the next one.
pub fn simulate_successive(problem: &SuccessiveProblem) -> Result<Outcome, Failure> {
    let p = problem.processes;
    let units = problem.flow.places(p) * (HEADER + problem.length);
    let network = RefCell::new(Network {
        inboxes: (0..p).map(|_| VecDeque::new()).collect(),
        memories: vec![vec![NOTHING; units]; p],
        unfinished: vec![0; p],
        awake: (0..p).collect(),
    });
    let rank = |rank| Rank {
        problem,
        rank,
        network: &network,
        receives: Vec::new(),
        faults: Faults::new(rank),
        past: 0,
        stored: 0,
        sent: 0,
        values_sent: 0,
        clock: Clock::default(),
    };
    let mut ranks: Vec<_> = (0..p).map(rank).collect();
    let (order, steps) = (
        Succession::new(p),
        problem.first..problem.first + problem.steps,
    );
    let run = |(rank, values)| Successive::new(order, rank, steps.clone(), problem.flow, values);
    let mut runs: Vec<_> = ranks.iter_mut().enumerate().map(run).collect();
    let mut is_done = vec![false; p];
    loop {
        let next = network.borrow_mut().awake.pop_first();
        let Some(rank) = next else { break };
        is_done[rank] = runs[rank].advance()? == Progress::Ready;
    }
    // A process that ran other steps than process 0 waited, or left messages to others.
    let ends: Vec<_> = runs.iter().map(Successive::done).collect();
    if let Some(rank) = (0..p).find(|&rank| !is_done[rank] || ends[rank] != ends[0]) {
        return Err(Failure::Deadlock { rank });
    }
    let is_left = network
        .borrow()
        .inboxes
        .iter()
        .any(|inbox| !inbox.is_empty());
    if is_left || ranks.iter().any(|rank| !rank.receives.is_empty()) {
        return Err(Failure::Unreceived);
    }
    Ok(Outcome {
        time: ranks.iter().map(|rank| rank.clock.end).max().unwrap_or(0),
        conflicts: ranks.iter().map(|rank| rank.clock.conflicts).sum(),
        steps: ends.first().map_or(0, |end| end - problem.first),
        code: Faults::agreed(ranks.iter().map(|rank| rank.faults.first())),
        sent: ranks.iter().map(|rank| rank.sent).collect(),
        values: ranks.iter().map(|rank| rank.values_sent).collect(),
        stored: ranks.iter().map(|rank| rank.stored).collect(),
    })
}

/// A unit of the value of `step`, which depends on the values before.
fn computed(past: u64, step: usize, unit: usize) -> u64 {
    contribution(step, unit, 0) ^ past
}

/// The past, one unit longer.
fn with(past: u64, unit: u64) -> u64 {
    mixed(past.rotate_left(5) ^ unit)
}

/// A message that was sent: where its sender has it, and when it left.
struct Flight {
    from: usize,
    slot: usize,
    offset: usize,
    length: usize,
    time: usize,
}

struct Network {
    /// The messages to each process that were not received, oldest first.
    inboxes: Vec<VecDeque<Flight>>,
    memories: Vec<Vec<u64>>,
    /// Slots of sends that are not finished, a bit each.
    unfinished: Vec<u64>,
    /// Processes that may have something to do.
    awake: BTreeSet<usize>,
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

/// The time on one process.
#[derive(Default)]
struct Clock {
    /// When the current value may be sent on, and whether that unit is taken by a send.
    now: usize,
    sends: bool,
    /// When everything so far is over.
    end: usize,
    /// Units in which something was done, a bit each.
    busy: Vec<u64>,
    conflicts: usize,
}

impl Clock {
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
}

/// One process.
struct Rank<'a> {
    problem: &'a SuccessiveProblem,
    rank: usize,
    network: &'a RefCell<Network>,
    /// In the order in which they were posted.
    receives: Vec<Receive>,
    faults: Faults,
    /// Of the values that were stored.
    past: u64,
    stored: usize,
    sent: usize,
    values_sent: usize,
    clock: Clock,
}

impl Rank<'_> {
    /// Takes the oldest message from `from` out of its sender's memory, if there is one. As in MPI
    /// it goes to the receive from there that was posted first.
    fn deliver(&mut self, from: usize) -> Result<bool, Failure> {
        let mut network = self.network.borrow_mut();
        let inbox = &mut network.inboxes[self.rank];
        let oldest = inbox.iter().position(|flight| flight.from == from);
        let is_first = |receive: &&mut Receive| receive.from == from && receive.arrived.is_none();
        let receive = self.receives.iter_mut().find(is_first);
        let (Some(oldest), Some(receive)) = (oldest, receive) else {
            return Ok(false);
        };
        let Some(flight) = inbox.remove(oldest) else {
            return Ok(false);
        };
        // From owner to owner, there may be fewer values than there are places for.
        if flight.length > receive.length || flight.length < HEADER + self.problem.length {
            return Err(Failure::Length {
                rank: self.rank,
                sent: flight.length,
                expected: receive.length,
            });
        }
        for unit in 0..flight.length {
            network.memories[self.rank][receive.offset + unit] =
                network.memories[from][flight.offset + unit];
        }
        network.unfinished[from] &= !(1 << flight.slot);
        network.awake.insert(from);
        receive.arrived = Some(flight.time);
        Ok(true)
    }

    /// A process that waits gets everything that was sent to it.
    fn wait(&mut self) -> Result<Progress, Failure> {
        for index in 0..self.receives.len() {
            self.deliver(self.receives[index].from)?;
        }
        Ok(Progress::Pending)
    }

    /// What the callback returns.
    fn code(&self, step: usize, produces: bool) -> i32 {
        let callback = (self.rank, step, produces);
        let mut broken = self.problem.broken.iter();
        let broken = broken.find(|b| (b.rank, b.step, b.produces) == callback);
        broken.map_or(0, |broken| broken.code)
    }
}

/// Units of a header.
const HEADER: usize = 2;

impl<'a> Steps for Rank<'a> {
    type Error = Failure;
    type Link = Self;

    fn link(&mut self) -> &mut Rank<'a> {
        self
    }

    fn length(&self) -> usize {
        HEADER + self.problem.length
    }

    fn stride(&self) -> usize {
        HEADER + self.problem.length
    }

    fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    fn header(&self, place: Place) -> Header {
        let memory = &self.network.borrow().memories[self.rank];
        [memory[place.offset], memory[place.offset + 1]]
    }

    fn set_header(&mut self, place: Place, header: Header) {
        let memory = &mut self.network.borrow_mut().memories[self.rank];
        memory[place.offset..place.offset + HEADER].copy_from_slice(&header);
    }

    fn produce(&mut self, step: usize, place: Place) -> Result<i32, Failure> {
        let memory = &mut self.network.borrow_mut().memories[self.rank];
        for unit in 0..self.problem.length {
            memory[place.offset + HEADER + unit] = computed(self.past, step, unit);
        }
        let earliest = match self.problem.flow.way {
            Way::Trees { .. } => 2 * (step - self.problem.first),
            Way::Relay { .. } => 0,
        };
        self.clock.now = self.clock.end.max(earliest);
        self.clock.sends = false;
        Ok(self.code(step, true))
    }

    fn store(&mut self, step: usize, place: Place) -> Result<i32, Failure> {
        let wrong = |unit| Failure::Wrong {
            rank: self.rank,
            message: step,
            unit,
        };
        if step != self.problem.first + self.stored {
            return Err(wrong(0));
        }
        let before = self.past;
        for unit in 0..self.problem.length {
            let found = self.network.borrow().memories[self.rank][place.offset + HEADER + unit];
            if found != computed(before, step, unit) {
                return Err(wrong(unit));
            }
            self.past = with(self.past, found);
        }
        self.stored += 1;
        Ok(self.code(step, false))
    }

    fn withdraw(&mut self) {
        self.receives.clear();
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
        let time = self.clock.now;
        if !std::mem::replace(&mut self.clock.sends, true) {
            self.clock.occupy(time);
        }
        self.sent += 1;
        self.values_sent += length / self.stride();
        let mut network = self.network.borrow_mut();
        network.unfinished[self.rank] |= 1 << slot;
        network.inboxes[to].push_back(Flight {
            from: self.rank,
            slot,
            offset: place.offset,
            length,
            time,
        });
        network.awake.insert(to);
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
        self.wait()
    }

    fn finish_receive(&mut self, slot: usize) -> Result<Progress, Failure> {
        let posted = self
            .receives
            .iter()
            .position(|receive| receive.slot == slot);
        let Some(index) = posted else {
            return Ok(Progress::Ready);
        };
        let from = self.receives[index].from;
        let time = loop {
            let arrived = self.receives[index].arrived;
            match arrived {
                Some(time) => break time,
                None if self.deliver(from)? => {}
                None => return self.wait(),
            }
        };
        self.receives.remove(index);
        self.clock.occupy(time);
        self.clock.now = time + 1;
        self.clock.sends = false;
        Ok(Progress::Ready)
    }

    // Values are neither moved nor combined, and are not packed here.

    fn copy(&mut self, _from: Place, _to: Place, _length: usize) -> Result<(), Failure> {
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
