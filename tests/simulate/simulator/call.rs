//! Calls of p processes on one simulated communicator, several at once if so wanted.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use super::network::{Network, Route, Ticket};
use super::traffic::Traffic;
use super::{Counts, Failure, STEP, mixed};
use circulant::engine::{Call, Engine, Pacing, scratch_units};
use circulant::stage::Stages;
use circulant::transport::{Place, Progress, SLOTS, SendMode, Space, Transport};

/// Marks memory that nothing has been stored in.
pub const NOTHING: u64 = 0xDEAD_BEEF_DEAD_BEEF;

/// An operator on units.
pub type Operator = fn(u64, u64) -> u64;

/// Addition, whose operands commute.
pub fn sum(left: u64, right: u64) -> u64 {
    left.wrapping_add(right)
}

/// The composition of two maps x -> a x + b over 32 bits, `left` first: associative, and not
/// commutative. b is in the upper half, an odd a in the lower.
pub fn in_order(left: u64, right: u64) -> u64 {
    let parts = |map: u64| (map as u32 | 1, (map >> 32) as u32);
    let ((a, b), (c, d)) = (parts(left), parts(right));
    let (slope, offset) = (c.wrapping_mul(a), c.wrapping_mul(b).wrapping_add(d));
    u64::from(offset) << 32 | u64::from(slope)
}

/// How calls run.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// How far rounds may overlap.
    pub pacing: Pacing,
    /// What combines units.
    pub operator: Operator,
    /// Which process and which call advances next, how far, and when messages arrive. In turn and
    /// as late as possible if none.
    pub chance: Option<Chance>,
}

/// A sequence of choices.
#[derive(Clone, Debug)]
pub struct Chance {
    /// The first choices, the next of them last.
    pub chosen: Vec<u8>,
    /// What the others are drawn from.
    pub seed: u64,
}

/// The memory of one process. Units are 64-bit words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What it brings to the calls.
    pub input: Vec<u64>,
    /// Where the results go.
    pub result: Vec<u64>,
}

impl Memory {
    /// `length` units that hold nothing, of both.
    pub fn new(length: usize) -> Memory {
        Memory {
            input: vec![NOTHING; length],
            result: vec![NOTHING; length],
        }
    }
}

/// What came of the calls.
#[derive(Clone, Debug)]
pub struct Executed {
    /// What each process did.
    pub counts: Vec<Counts>,
    /// What each process has.
    pub memories: Vec<Memory>,
    /// What went from process to process.
    pub traffic: Traffic,
}

/// Runs several calls at once: `calls[c][r]` are the stages of call c on the process of rank r.
///
/// # Errors
/// See [`Failure`].
pub fn execute(
    memories: Vec<Memory>,
    calls: Vec<Vec<Stages>>,
    conditions: Conditions,
) -> Result<Executed, Failure> {
    let world = RefCell::new(World {
        network: Network::default(),
        traffic: Traffic::default(),
        memories: memories.into_iter().map(RankMemory::from).collect(),
        chance: conditions.chance.clone(),
    });
    let mut counts = vec![Counts::default(); world.borrow().memories.len()];
    let mut jobs = Vec::new();
    for (tag, ranks) in calls.into_iter().enumerate() {
        for (rank, stages) in ranks.into_iter().enumerate() {
            counts[rank].rounds += stages.rounds();
            jobs.push(call((rank, tag), stages, &world, &conditions));
        }
    }
    finish_all(&mut jobs, &world)?;
    for job in jobs {
        let (_, _, link) = job.finish();
        counts[link.rank] = counts[link.rank].and(link.counts);
    }
    let world = world.into_inner();
    if !world.network.is_quiet() {
        return Err(Failure::Unreceived);
    }
    let memories = world.memories.into_iter().map(|memory| memory.own);
    Ok(Executed {
        counts,
        memories: memories.collect(),
        traffic: world.traffic,
    })
}

/// One call on one process, with scratch of its own.
fn call<'a>(
    (rank, tag): (usize, usize),
    stages: Stages,
    world: &'a RefCell<World>,
    conditions: &Conditions,
) -> Call<Link<'a>> {
    let memory = &mut world.borrow_mut().memories[rank];
    let start = memory.scratch.len();
    let end = start + scratch_units(&stages, conditions.pacing);
    memory.scratch.resize(end, NOTHING);
    let link = Link {
        rank,
        tag,
        scratch: start..end,
        operator: conditions.operator,
        sends: HashMap::new(),
        receives: HashMap::new(),
        world,
        counts: Counts::default(),
    };
    Call::new(stages, Engine::new(conditions.pacing), link)
}

/// Advances calls until all are done, or none can go on.
fn finish_all(jobs: &mut [Call<Link<'_>>], world: &RefCell<World>) -> Result<(), Failure> {
    let mut waiting: Vec<usize> = (0..jobs.len()).collect();
    // By chance, all may have to wait several times, and by choice as often as there are choices; not more often.
    let patience = match &world.borrow().chance {
        Some(chance) => 64 + chance.chosen.len(),
        None => 0,
    };
    let mut idle = 0;
    while !waiting.is_empty() {
        let before = world.borrow().network.events;
        if let Some(chance) = &mut world.borrow_mut().chance {
            chance.shuffle(&mut waiting);
        }
        let mut still = Vec::new();
        for &job in &waiting {
            if jobs[job].advance()? == Progress::Pending {
                still.push(job);
            }
        }
        let is_idle = still.len() == waiting.len() && before == world.borrow().network.events;
        idle = if is_idle { idle + 1 } else { 0 };
        if idle > patience {
            return Err(Failure::Deadlock {
                rank: jobs[still[0]].transport.rank,
            });
        }
        waiting = still;
    }
    Ok(())
}

/// The processes' memories, and what is between them.
struct World {
    network: Network<Stretch, Stretch>,
    traffic: Traffic,
    memories: Vec<RankMemory>,
    chance: Option<Chance>,
}

/// Where a message is in its process's memory.
struct Stretch {
    place: Place,
    length: usize,
}

struct RankMemory {
    own: Memory,
    scratch: Vec<u64>,
}

impl From<Memory> for RankMemory {
    fn from(own: Memory) -> Self {
        RankMemory {
            own,
            scratch: Vec::new(),
        }
    }
}

impl RankMemory {
    fn at(&mut self, place: Place, length: usize) -> &mut [u64] {
        let memory = match place.space {
            Space::Input => &mut self.own.input,
            Space::Result => &mut self.own.result,
            Space::Scratch => &mut self.scratch,
            Space::Shared => unreachable!("no plan of rounds has shared memory"),
        };
        &mut memory[place.offset..place.offset + length]
    }
}

impl World {
    /// Brings the oldest message on `route` to where it was asked for, if both are there.
    fn deliver(&mut self, (from, to, tag): Route) -> Result<bool, Failure> {
        let Some((sent, asked)) = self.network.matched((from, to, tag)) else {
            return Ok(false);
        };
        if sent.length != asked.length {
            return Err(Failure::Length {
                rank: to,
                sent: sent.length,
                expected: asked.length,
            });
        }
        self.traffic.add(from, to, sent.length);
        let data = self.memories[from].at(sent.place, sent.length).to_vec();
        self.memories[to]
            .at(asked.place, asked.length)
            .copy_from_slice(&data);
        Ok(true)
    }

    /// Whether something happens now that could also happen later.
    fn happens(&mut self, one_in: u64) -> bool {
        let chance = self.chance.as_mut();
        chance.is_some_and(|chance| chance.below(one_in) == 0)
    }
}

impl Chance {
    /// All choices drawn from a seed, by a small generator.
    pub fn of_seed(seed: u64) -> Chance {
        Chance {
            chosen: Vec::new(),
            seed,
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        if let Some(choice) = self.chosen.pop() {
            return u64::from(choice) % end;
        }
        let number = mixed(self.seed);
        self.seed = self.seed.wrapping_add(STEP);
        number % end
    }

    fn shuffle(&mut self, items: &mut [usize]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}

/// The transport of one call on one process.
struct Link<'a> {
    rank: usize,
    tag: usize,
    /// Where the call's scratch is in that of its process.
    scratch: Range<usize>,
    operator: Operator,
    /// By slot, what is outstanding.
    sends: HashMap<usize, Ticket>,
    receives: HashMap<usize, (Ticket, Route)>,
    world: &'a RefCell<World>,
    counts: Counts,
}

impl Link<'_> {
    /// The place in the memory of the process.
    fn located(&self, place: Place, length: usize) -> Place {
        if place.space != Space::Scratch {
            return place;
        }
        let offset = self.scratch.start + place.offset;
        assert!(
            offset + length <= self.scratch.end,
            "{place:?} + {length} is outside of scratch"
        );
        Place::scratch(offset)
    }

    fn stretch(&self, place: Place, length: usize) -> Stretch {
        Stretch {
            place: self.located(place, length),
            length,
        }
    }

    fn read(&self, place: Place, length: usize) -> Vec<u64> {
        let place = self.located(place, length);
        self.world.borrow_mut().memories[self.rank]
            .at(place, length)
            .to_vec()
    }

    fn write(&self, place: Place, data: &[u64]) {
        let place = self.located(place, data.len());
        let memory = &mut self.world.borrow_mut().memories[self.rank];
        memory.at(place, data.len()).copy_from_slice(data);
    }
}

impl Transport for Link<'_> {
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
        mode: SendMode,
    ) -> Result<(), Failure> {
        assert!(slot < SLOTS, "there is no slot {slot} for a send");
        // A standard send may take as long as a synchronous one.
        let (route, message) = ((self.rank, to, self.tag), self.stretch(place, length));
        let mut world = self.world.borrow_mut();
        let ticket = world.network.send(route, message);
        if world.happens(2) {
            world.deliver(route)?;
        }
        assert!(
            self.sends.insert(slot, ticket).is_none(),
            "slot {slot} is in use"
        );
        self.counts.messages_sent += 1;
        self.counts.synchronous += usize::from(mode == SendMode::Synchronous);
        self.counts.sent += length;
        Ok(())
    }

    fn start_receive(
        &mut self,
        slot: usize,
        from: usize,
        place: Place,
        length: usize,
    ) -> Result<(), Failure> {
        assert!(slot < SLOTS, "there is no slot {slot} for a receive");
        // What is received into must not be relied on from now on.
        self.write(place, &vec![NOTHING; length]);
        let (route, asked) = ((from, self.rank, self.tag), self.stretch(place, length));
        let mut world = self.world.borrow_mut();
        let ticket = world.network.receive(route, asked);
        if world.happens(2) {
            world.deliver(route)?;
        }
        assert!(
            self.receives.insert(slot, (ticket, route)).is_none(),
            "slot {slot} is in use"
        );
        self.counts.messages_received += 1;
        self.counts.received += length;
        Ok(())
    }

    fn finish_send(&mut self, slot: usize) -> Result<Progress, Failure> {
        let Some(&ticket) = self.sends.get(&slot) else {
            return Ok(Progress::Ready);
        };
        let mut world = self.world.borrow_mut();
        if !world.network.is_finished(ticket) || world.happens(4) {
            return Ok(Progress::Pending);
        }
        self.sends.remove(&slot);
        Ok(Progress::Ready)
    }

    fn finish_receive(&mut self, slot: usize) -> Result<Progress, Failure> {
        let Some(&(ticket, route)) = self.receives.get(&slot) else {
            return Ok(Progress::Ready);
        };
        let mut world = self.world.borrow_mut();
        if world.happens(4) {
            return Ok(Progress::Pending);
        }
        while !world.network.is_finished(ticket) {
            if !world.deliver(route)? {
                return Ok(Progress::Pending);
            }
        }
        self.receives.remove(&slot);
        Ok(Progress::Ready)
    }

    fn copy(&mut self, from: Place, to: Place, length: usize) -> Result<(), Failure> {
        self.write(to, &self.read(from, length));
        self.counts.copied += length;
        Ok(())
    }

    fn combine(&mut self, from: Place, into: Place, length: usize) -> Result<(), Failure> {
        let (from, mut data) = (self.read(from, length), self.read(into, length));
        for (into, from) in data.iter_mut().zip(from) {
            *into = (self.operator)(from, *into);
        }
        self.write(into, &data);
        self.counts.reduced += length;
        Ok(())
    }

    fn pack(&mut self, _place: Place, _length: usize) -> Result<(), Failure> {
        Ok(())
    }

    fn unpack(&mut self, _place: Place, _length: usize) -> Result<(), Failure> {
        Ok(())
    }
}
