//! The executor of successive broadcasts on one process, with the program's callbacks in between.
//!
//! A process runs *turns*. Along trees each step is a turn. From owner to owner ([`Relay`]) each
//! step that the process owns is a turn, which also covers the p - 1 steps before it.
//!
//! ```text
//! for each turn v:
//!     post the receives of the turns up to v + ahead - 1
//!     finish each receive of turn v, the earliest values first; store the values before v
//!     the owner of step v, unless v is past the end: produce value v
//!     send the messages of turn v; store value v
//! finish all sends
//! ```
//!
//! [`Plan`](crate::plan::Plan) cannot express this: there, rounds follow each other, and the data
//! of a send was there from the start or has arrived. Here the program makes values between
//! transfers. Pipelining needs no clock: an owner starts when it has stored the values that it
//! needs, while other processes still receive and send.
//!
//! **Memory.** A ring of 2 `ahead` regions. The values of a turn lie in its region in the order of
//! their steps, so every message is one stretch of memory. `ahead` is 1 from owner to owner. Along
//! trees it is larger: a value then finds its receive posted, and its sends have `ahead` steps to
//! finish before their region is used again. With synchronous sends nothing is under way except to
//! receives that were posted. With other sends no process gets more than p - 1 steps ahead of
//! another, because the slowest process owns one of any p steps.
//!
//! **No deadlock along trees.** A process in step i waits for its parent's send of a step up to i,
//! or for a child to post the receive of such a step. So it waits for a process in an earlier step,
//! or for one in the same step that is nearer to the root. The root of the earliest step waits for
//! nobody.
//!
//! **No deadlock from owner to owner.** Turn v waits for messages of earlier turns. A synchronous
//! send waits for its receive, which the receiver posts after its turn v + `s[k]` - p, before v, or
//! at the start. So the earliest turn waits for nobody. The sends of a region were to turns before
//! the next turn of this process, which depends on those turns, so they are finished when the
//! region is needed. If earlier steps went along trees, a process that is still in those waits for
//! no process that has left them.
//!
//! **Order.** Each receive has a known source. Two turns of the same two processes are the same
//! skip apart. Messages between two processes keep their order. So one tag suffices. This holds
//! across a change from trees to relay too, because nobody ends a run with a transfer outstanding.
//!
//! **The end.** A fault (`faults.rs`) makes a step the last. A process learns that with the value
//! of the step. From then on messages hold values up to that step only, and empty ones are not
//! sent. The receives that were posted for them are withdrawn, and messages may be shorter than
//! their receives.

use std::ops::Range;

use super::faults::{Faults, Header};
use super::flow::{Flow, MOST_AHEAD, Way};
use super::relay::{Parcel, Relay};
use crate::plan::Succession;
use crate::transport::{Place, Progress, SLOTS, SendMode, Transport};

/// The values of an operation, the callbacks, and a transport for the values.
pub trait Steps {
    /// Why an operation failed.
    type Error;
    /// The transport. Values are in its scratch, each behind a header.
    type Link: Transport<Error = Self::Error>;

    /// The transport.
    fn link(&mut self) -> &mut Self::Link;
    /// Units of a value and its header.
    fn length(&self) -> usize;
    /// Units from one value to the next: [`length`](Steps::length) at least.
    fn stride(&self) -> usize;
    /// The faults that this process knows of.
    fn faults(&mut self) -> &mut Faults;
    /// The header at `place`.
    fn header(&self, place: Place) -> Header;
    /// Writes the header at `place`.
    fn set_header(&mut self, place: Place, header: Header);
    /// Has the value of `step` produced at `place`. Returns the callback's code.
    fn produce(&mut self, step: usize, place: Place) -> Result<i32, Self::Error>;
    /// Has the value of `step` stored. Returns the callback's code.
    fn store(&mut self, step: usize, place: Place) -> Result<i32, Self::Error>;
    /// Takes back the outstanding receives, to which nobody sends.
    fn withdraw(&mut self);
}

/// The most messages of a turn: one for each bit of p, which is less than 2^31.
const MESSAGES: usize = SLOTS / 2;

/// Successive broadcasts in progress on one process.
pub struct Successive<'a, S> {
    order: Succession,
    /// None along trees.
    relay: Option<Relay>,
    rank: usize,
    mode: SendMode,
    values: &'a mut S,
    /// The steps of this run. They end earlier after a fault.
    steps: Range<usize>,
    /// The turns whose receives are posted, and the steps from one turn to the next.
    ahead: usize,
    period: usize,
    /// The current turn, and the first turn whose receives are not posted.
    turn: usize,
    posted: usize,
    /// Messages of the current turn that were received.
    received: usize,
    done: usize,
    /// Sends that were started, and that are finished.
    started: usize,
    finished: usize,
    /// By region: what `started` was after its latest sends.
    ends: [usize; 2 * MOST_AHEAD],
}

impl<'a, S: Steps> Successive<'a, S> {
    /// Prepares the broadcasts of `steps`.
    pub fn new(
        order: Succession,
        rank: usize,
        steps: Range<usize>,
        flow: Flow,
        values: &'a mut S,
    ) -> Self {
        let relay = match flow.way {
            Way::Trees { .. } => None,
            Way::Relay { factor } => Some(Relay::new(order, factor)),
        };
        let first = relay
            .as_ref()
            .map_or(steps.start, |relay| relay.turn(rank, steps.start));
        let (ahead, period) = flow.shape(order.processes());
        Successive {
            order,
            relay,
            rank,
            mode: flow.mode,
            values,
            ahead,
            period,
            turn: first,
            posted: first,
            received: 0,
            done: steps.start,
            steps,
            started: 0,
            finished: 0,
            ends: [0; 2 * MOST_AHEAD],
        }
    }

    /// The step after the last that was run.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Runs until the end, or until the transport has to be waited for.
    ///
    /// # Errors
    /// The transport's. The operation is then over, and transfers may be outstanding.
    pub fn advance(&mut self) -> Result<Progress, S::Error> {
        while self.has_turn(self.turn) {
            if self.post()? == Progress::Pending || self.receive()? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            let is_within = self.turn < self.steps.end;
            if is_within && self.order.owner(self.turn) == self.rank {
                self.produce()?;
            }
            self.send()?;
            if is_within {
                self.store(self.turn)?;
            }
            self.turn += self.period;
            self.received = 0;
        }
        if self.values.faults().have_ended() {
            self.values.withdraw();
        }
        self.finish_sends(self.started)
    }

    /// Whether `turn` is one of this run: the turn before it was before the last step.
    fn has_turn(&self, turn: usize) -> bool {
        !self.steps.is_empty() && turn + 1 < self.steps.end + self.period
    }

    /// Posts receives, in regions whose sends are finished. Then waits until a turn's sends have
    /// slots.
    fn post(&mut self) -> Result<Progress, S::Error> {
        let end = self.turn + self.ahead * self.period;
        while self.posted < end && self.has_turn(self.posted) {
            let turn = self.posted;
            if self.finish_sends(self.ends[self.region(turn)])? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            for k in 0..self.messages() {
                if let Some(Parcel { peer, steps }) = self.incoming(turn, k) {
                    let (slot, place) = (self.slot(turn, k), self.place(turn, steps.start));
                    let length = self.length(&steps);
                    self.values
                        .link()
                        .start_receive(slot, peer, place, length)?;
                }
            }
            self.posted += self.period;
        }
        self.finish_sends(self.started.saturating_sub(SLOTS - MESSAGES))
    }

    /// Finishes the receives of the turn, and stores the values before it.
    fn receive(&mut self) -> Result<Progress, S::Error> {
        while self.received < self.messages() {
            let k = self.messages() - 1 - self.received;
            // None for a receive that was posted before the end was known.
            if let Some(parcel) = self.incoming(self.turn, k) {
                let slot = self.slot(self.turn, k);
                if self.values.link().finish_receive(slot)? == Progress::Pending {
                    return Ok(Progress::Pending);
                }
                self.take(parcel.steps)?;
            }
            self.received += 1;
        }
        Ok(Progress::Ready)
    }

    fn take(&mut self, steps: Range<usize>) -> Result<(), S::Error> {
        for step in steps {
            let place = self.place(self.turn, step);
            let arrived = self.values.header(place);
            let header = self.values.faults().merge(arrived);
            self.write_header(step, header);
            if step < self.turn {
                self.store(step)?;
            }
            if step + 1 == self.steps.end {
                break;
            }
        }
        Ok(())
    }

    fn produce(&mut self) -> Result<(), S::Error> {
        let (step, place) = (self.turn, self.place(self.turn, self.turn));
        if self.values.faults().are_none() {
            let code = self.values.produce(step, place)?;
            self.values.faults().note(step, code);
        }
        let header = self.values.faults().own_header();
        self.write_header(step, header);
        Ok(())
    }

    /// Writes the header of a step, which may say that the step is the last.
    fn write_header(&mut self, step: usize, header: Header) {
        self.values.set_header(self.place(self.turn, step), header);
        if self.values.faults().have_ended() {
            self.steps.end = step + 1;
        }
    }

    fn store(&mut self, step: usize) -> Result<(), S::Error> {
        if self.values.faults().are_none() {
            let code = self.values.store(step, self.place(self.turn, step))?;
            self.values.faults().note(step, code);
        }
        self.done = step + 1;
        Ok(())
    }

    /// Starts the sends of the turn.
    fn send(&mut self) -> Result<(), S::Error> {
        let turn = self.turn;
        // Put back below: `start_send` needs the rest of `self`.
        match self.relay.take() {
            Some(relay) => {
                for k in 0..relay.messages() {
                    if let Some(parcel) = relay.send(turn, k, &self.steps) {
                        self.start_send(parcel)?;
                    }
                }
                self.relay = Some(relay);
            }
            None => {
                for peer in self.order.tree(turn).children(self.rank) {
                    let steps = turn..turn + 1;
                    self.start_send(Parcel { peer, steps })?;
                }
            }
        }
        self.ends[self.region(turn)] = self.started;
        Ok(())
    }

    fn start_send(&mut self, Parcel { peer, steps }: Parcel) -> Result<(), S::Error> {
        let (place, length) = (self.place(self.turn, steps.start), self.length(&steps));
        let slot = self.started % SLOTS;
        self.values
            .link()
            .start_send(slot, peer, place, length, self.mode)?;
        self.started += 1;
        Ok(())
    }

    /// Finishes the first `end` sends.
    fn finish_sends(&mut self, end: usize) -> Result<Progress, S::Error> {
        while self.finished < end {
            let slot = self.finished % SLOTS;
            if self.values.link().finish_send(slot)? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            self.finished += 1;
        }
        Ok(Progress::Ready)
    }

    /// The most messages that a turn receives.
    fn messages(&self) -> usize {
        self.relay.as_ref().map_or(1, Relay::messages)
    }

    /// The k-th message that `turn` receives, if there is one.
    fn incoming(&self, turn: usize, k: usize) -> Option<Parcel> {
        match &self.relay {
            Some(relay) => relay.receive(turn, k, &self.steps),
            None => self.order.tree(turn).parent(self.rank).map(|peer| Parcel {
                peer,
                steps: turn..turn + 1,
            }),
        }
    }

    fn region(&self, turn: usize) -> usize {
        turn / self.period % (2 * self.ahead)
    }

    /// The slot of a receive.
    fn slot(&self, turn: usize, k: usize) -> usize {
        self.region(turn) * self.messages() + k
    }

    /// Where the value of `step` is in `turn`.
    fn place(&self, turn: usize, step: usize) -> Place {
        let last = self.region(turn) * self.period + self.period - 1;
        Place::scratch((last - (turn - step)) * self.values.stride())
    }

    /// Units of the values of `steps`, one after the other.
    fn length(&self, steps: &Range<usize>) -> usize {
        (steps.len() - 1) * self.values.stride() + self.values.length()
    }
}
