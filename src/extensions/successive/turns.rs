//! Successive broadcasts from owner to owner: the turns of one process, with the program's callbacks between them.
//!
//! ```text
//! for each turn v (relay.rs):
//!     finish each receive, the earliest values first, and store what it brought
//!     produce value v, unless v is past the end; send to later owners what they lack; store value v
//!     post the receives of turn v + p
//! finish all sends
//! ```
//!
//! The values that a turn receives, and its own, lie in the order of their steps in one of two halves of the memory, so
//! that every message is one stretch of it; the next turn has the other half.
//!
//! **Bounds.** 2 p places. No process gets further ahead of another than p - 1 steps. The sends of a half are finished
//! before anything is received there again, two turns later, and for that nobody waits: they went to turns before
//! the next one of this process, which depends on those.
//!
//! **No deadlock.** Turn v waits for messages of turns before it; and where sends wait for their receives, for those to be
//! posted, which the receiver does at the end of its turn v + s[k] - p, before v, or at the start. So whatever waits, waits for
//! an earlier turn, and the earliest for none. Who has come to the start waits for nobody who has not: where steps before
//! these went along trees, nobody is waited for there who has left them.
//!
//! **Order.** Each receive has a known source, two turns of the same two processes are the same skip apart, and messages
//! between two processes keep their order, so one tag suffices; also where other steps went along trees before, since nobody
//! leaves those with a receive or a send outstanding.
//!
//! **The end.** A fault (`faults.rs`) makes a step the last, which those learn that receive its value. All that come later are
//! given the values up to there only, and a message that has none is not sent: its receive, which was posted in
//! ignorance of that, is withdrawn. Messages may be shorter than their receives for the same reason.

use std::ops::Range;

use super::faults::Course;
use super::flow::Steps;
use super::relay::{Parcel, Relay};
use crate::transport::{Place, Progress, SendMode};

/// Successive broadcasts from owner to owner, in progress on one process.
pub struct Turns<'a, T> {
    relay: Relay,
    mode: SendMode,
    transport: &'a mut T,
    /// The steps of this run; fewer once it is known to end early.
    steps: Range<usize>,
    /// The current turn, and which half of the memory it has.
    turn: usize,
    half: usize,
    stage: Stage,
    /// Steps up to here are done.
    done: usize,
    /// By half: slots of sends that are not finished, a bit each.
    sends: [u32; 2],
}

/// How far the current turn is.
#[derive(Clone, Copy)]
enum Stage {
    /// Nothing was posted yet.
    Starts,
    /// So many receives are left.
    Receives(usize),
    /// It was the last.
    Over,
}

/// Stretches of memory, of one value each.
pub fn stretches(processes: usize) -> usize {
    processes.saturating_mul(2)
}

/// Slots of a half: more than the messages of a turn, of which there is one for each bit of p at most.
const SLOTS: usize = u32::BITS as usize;

impl<'a, T: Steps> Turns<'a, T> {
    /// Sets out for the values of `steps`.
    pub fn new(
        relay: Relay,
        rank: usize,
        steps: Range<usize>,
        mode: SendMode,
        transport: &'a mut T,
    ) -> Self {
        Turns {
            turn: relay.turn(rank, steps.start),
            half: 0,
            relay,
            mode,
            transport,
            done: steps.start,
            steps,
            stage: Stage::Starts,
            sends: [0; 2],
        }
    }

    /// The step after the last that was run.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Runs until the end, or until the transport has to be waited for.
    ///
    /// # Errors
    /// The transport's; the operation is then over, with transfers possibly outstanding.
    pub fn advance(&mut self) -> Result<Progress, T::Error> {
        loop {
            let progress = match self.stage {
                Stage::Starts => self.start()?,
                Stage::Receives(0) => self.take_turn()?,
                Stage::Receives(left) => self.receive(left - 1)?,
                Stage::Over => return self.finish(),
            };
            if progress == Progress::Pending {
                return Ok(Progress::Pending);
            }
        }
    }

    fn start(&mut self) -> Result<Progress, T::Error> {
        if self.steps.is_empty() {
            self.stage = Stage::Over;
            return Ok(Progress::Ready);
        }
        self.post_receives()?;
        Ok(Progress::Ready)
    }

    /// Posts those of the current turn.
    fn post_receives(&mut self) -> Result<(), T::Error> {
        for k in 0..self.relay.messages() {
            if let Some(Parcel { peer, steps }) = self.relay.receive(self.turn, k, &self.steps) {
                let (place, length) = self.extent(&steps);
                self.transport
                    .start_receive(self.slot(k), peer, place, length)?;
            }
        }
        self.stage = Stage::Receives(self.relay.messages());
        Ok(())
    }

    /// Finishes receive k and stores its values. One that was posted before the end was known is passed over.
    fn receive(&mut self, k: usize) -> Result<Progress, T::Error> {
        self.stage = Stage::Receives(k);
        let Some(Parcel { steps, .. }) = self.relay.receive(self.turn, k, &self.steps) else {
            return Ok(Progress::Ready);
        };
        if self.transport.finish_receive(self.slot(k))? == Progress::Pending {
            self.stage = Stage::Receives(k + 1);
            return Ok(Progress::Pending);
        }
        for step in steps {
            let place = self.place(step);
            let course = self.transport.received(step, place)?;
            self.transport.store(step, place)?;
            self.done = step + 1;
            if course == Course::Ends {
                self.steps.end = self.done;
                self.transport.withdraw()?;
                break;
            }
        }
        Ok(Progress::Ready)
    }

    /// With all values before the turn stored: produces its value, and sends what others lack.
    fn take_turn(&mut self) -> Result<Progress, T::Error> {
        if self.finish_sends(1 - self.half)? == Progress::Pending {
            return Ok(Progress::Pending);
        }
        let (step, place) = (self.turn, self.place(self.turn));
        let is_own = step < self.steps.end;
        if is_own && self.transport.produce(step, place)? == Course::Ends {
            self.steps.end = step + 1;
        }
        self.send()?;
        if is_own {
            self.transport.store(step, place)?;
            self.done = step + 1;
        }
        if step + 1 < self.steps.end {
            self.turn += self.relay.processes();
            self.half = 1 - self.half;
            self.post_receives()?;
        } else {
            self.stage = Stage::Over;
        }
        Ok(Progress::Ready)
    }

    fn send(&mut self) -> Result<(), T::Error> {
        for k in 0..self.relay.messages() {
            if let Some(Parcel { peer, steps }) = self.relay.send(self.turn, k, &self.steps) {
                let (place, length) = self.extent(&steps);
                self.transport
                    .start_send(self.slot(k), peer, place, length, self.mode)?;
                self.sends[self.half] |= 1 << k;
            }
        }
        Ok(())
    }

    /// Finishes the sends from one half.
    fn finish_sends(&mut self, half: usize) -> Result<Progress, T::Error> {
        while self.sends[half] != 0 {
            let k = self.sends[half].trailing_zeros() as usize;
            if self.transport.finish_send(half * SLOTS + k)? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            self.sends[half] &= !(1 << k);
        }
        Ok(Progress::Ready)
    }

    fn finish(&mut self) -> Result<Progress, T::Error> {
        match self.finish_sends(0)? {
            Progress::Ready => self.finish_sends(1),
            Progress::Pending => Ok(Progress::Pending),
        }
    }

    fn slot(&self, k: usize) -> usize {
        self.half * SLOTS + k
    }

    /// Where the value of a step is that the current turn deals with, one of the last p up to its own.
    fn place(&self, step: usize) -> Place {
        let (before, p) = (self.turn - step, self.relay.processes());
        self.transport.place(self.half * p + p - 1 - before)
    }

    /// Where the values of `steps` are, and how many units one after the other.
    fn extent(&self, steps: &Range<usize>) -> (Place, usize) {
        let others = (steps.len() - 1) * self.transport.stride();
        (self.place(steps.start), others + self.transport.length())
    }
}
