//! Successive broadcasts along trees: many of them in flight, with the program's callbacks between them.
//!
//! ```text
//! for each step i:
//!     finish the sends of step i - ahead; post the receive of step i + ahead - 1
//!     owner: produce value i        others: finish receive i
//!     send it to the children, in their order
//!     store value i
//! finish all sends
//! ```
//!
//! Pipelining needs no clock: the next owner starts when it has stored what it needs, while others still
//! receive and send.
//!
//! **Bounds.** Values are in a ring of 2 `ahead` places ([`stretches`]): receives are posted `ahead` steps
//! ahead, so that a value finds its receiver ready; and its sends have `ahead` steps' time to finish before
//! their memory is used again. Where sends are synchronous, nothing is ever under way but to receives that
//! were posted. Where they are not, no process gets further ahead of another than p - 1 steps: the slowest owns one of
//! any p steps.
//!
//! **No deadlock.** A process in step i waits for its parent's send of a step up to i, or for a child to post its
//! receive of one. So whatever waits, waits for a process in an earlier step, or in the same and nearer to the root;
//! and the root of the earliest step waits for nobody.
//!
//! **Order.** Each receive has a known source, and messages between two processes keep their order, so one
//! tag suffices.

use std::ops::Range;

use super::faults::Course;
use super::flow::Steps;
use crate::plan::Succession;
use crate::transport::{Place, Progress, SendMode};

/// Slots of sends.
const SENDS: usize = 64;
/// The most steps ahead.
const MOST_AHEAD: usize = 32;
const PLACES: usize = 2 * MOST_AHEAD;

/// Stretches of memory, of one value each.
pub fn stretches(ahead: usize) -> usize {
    2 * ahead.clamp(1, MOST_AHEAD)
}

/// Successive broadcasts along trees, in progress on one process.
pub struct Trees<'a, T> {
    order: Succession,
    rank: usize,
    /// The end of the steps; less once it is known that they end early.
    end: usize,
    ahead: usize,
    mode: SendMode,
    transport: &'a mut T,
    /// Steps that are done but for their sends.
    done: usize,
    /// Steps whose receive has been posted, or needs none.
    posted: usize,
    /// Sends that were started, and that are finished.
    started: usize,
    finished: usize,
    /// The sends that were started when the latest value of each place had been sent.
    ends: [usize; PLACES],
}

impl<'a, T: Steps> Trees<'a, T> {
    /// Sets out for the values of `steps`, with receives posted for `ahead` of them, which is 1 at least and
    /// bounded.
    pub fn new(
        order: Succession,
        rank: usize,
        steps: Range<usize>,
        (ahead, mode): (usize, SendMode),
        transport: &'a mut T,
    ) -> Self {
        Trees {
            order,
            rank,
            end: steps.end,
            ahead: ahead.clamp(1, MOST_AHEAD),
            mode,
            transport,
            done: steps.start,
            posted: steps.start,
            started: 0,
            finished: 0,
            ends: [0; PLACES],
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
        while self.done < self.end {
            let (step, place) = (self.done, self.place(self.done));
            if self.prepare()? == Progress::Pending || self.get(step)? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            let course = if self.owns(step) {
                self.transport.produce(step, place)?
            } else {
                self.transport.received(step, place)?
            };
            self.send(step)?;
            self.transport.store(step, place)?;
            self.done += 1;
            if course == Course::Ends {
                self.end = self.done;
            }
        }
        if self.posted > self.done {
            self.posted = self.done;
            self.transport.withdraw()?;
        }
        self.finish_sends(self.started)
    }

    /// Posts receives, in places whose values have been sent, and sees to it that there are slots for sends.
    fn prepare(&mut self) -> Result<Progress, T::Error> {
        while self.posted < self.end.min(self.done + self.ahead) {
            let slot = self.slot(self.posted);
            if self.finish_sends(self.ends[slot])? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            self.post_receive(self.posted)?;
            self.posted += 1;
        }
        let most = SENDS - usize::BITS as usize / 2;
        self.finish_sends(self.started.saturating_sub(most))
    }

    fn post_receive(&mut self, step: usize) -> Result<(), T::Error> {
        let (slot, place, length) = (self.slot(step), self.place(step), self.transport.length());
        match self.order.tree(step).parent(self.rank) {
            Some(parent) => self.transport.start_receive(slot, parent, place, length),
            None => Ok(()),
        }
    }

    /// Finishes the receive of a step, unless its value is made here.
    fn get(&mut self, step: usize) -> Result<Progress, T::Error> {
        if self.owns(step) {
            return Ok(Progress::Ready);
        }
        self.transport.finish_receive(self.slot(step))
    }

    /// Starts to send the value of a step to the children.
    fn send(&mut self, step: usize) -> Result<(), T::Error> {
        let (place, length) = (self.place(step), self.transport.length());
        for child in self.order.tree(step).children(self.rank) {
            let slot = self.started % SENDS;
            self.transport
                .start_send(slot, child, place, length, self.mode)?;
            self.started += 1;
        }
        self.ends[self.slot(step)] = self.started;
        Ok(())
    }

    /// Finishes the first `end` sends.
    fn finish_sends(&mut self, end: usize) -> Result<Progress, T::Error> {
        while self.finished < end {
            if self.transport.finish_send(self.finished % SENDS)? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            self.finished += 1;
        }
        Ok(Progress::Ready)
    }

    fn owns(&self, step: usize) -> bool {
        self.order.owner(step) == self.rank
    }

    fn slot(&self, step: usize) -> usize {
        step % stretches(self.ahead)
    }

    fn place(&self, step: usize) -> Place {
        self.transport.place(self.slot(step))
    }
}
