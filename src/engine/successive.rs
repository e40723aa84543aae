//! Successive broadcasts: many trees in flight, with the program's callbacks between them.
//!
//! ```text
//! for each step i:
//!     finish the sends of step i - ahead; post the receive of step i + ahead - 1
//!     owner: produce value i        others: finish receive i, or one that carries value i
//!     send it to the children, in their order; to the next owner with the `carried` values before it
//!     store value i
//! finish all sends
//! ```
//!
//! [`Plan`](crate::plan::Plan) cannot express it: its rounds are one-ported and follow each other, and
//! what is sent was there or arrived; here a process sends one value to several children, and values are
//! made between the steps. Pipelining needs no clock: the next owner starts when it has stored what it needs,
//! while others still receive and send.
//!
//! **Carried values.** The next owner needs all values before it can go on, and waits for whichever
//! comes last. Along the paper's trees it is two messages away from the owner of the step before the last, and up
//! to d from those before: in the paper's model, where all messages take as long, all arrive in time; where
//! times vary, none has time to spare. So a message to the next owner carries the values of the
//! last few steps as well, and what remains to be waited for is one message a step. The same values still come
//! along the trees, and are then received for nothing. How many are carried, each process decides by what it was good for
//! when it was the next owner itself: twice as many as came first that way and one more, or one less than before, if that
//! is more. Without carried values this is the paper's algorithm to the letter.
//!
//! **Bounds.** Values are in a ring of 2 `ahead` places ([`Flow::places`]): receives are posted `ahead` steps
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

use super::faults::Course;

use crate::plan::Order;
use crate::transport::{Place, Progress, SendMode, Transport};

/// What happens to values: a transport that knows what they are.
pub trait Steps: Transport {
    /// Stretch `index` of the memory for values, which follow each other.
    fn place(&self, index: usize) -> Place;

    /// Units from one stretch to the next: at least those of a value.
    fn stride(&self) -> usize;

    /// Notes with the value at `place` how many others come with it; it is forgotten when the value is
    /// [received](Steps::received).
    fn set_carried(&mut self, place: Place, values: usize);

    /// What was noted with the value at `place`.
    fn carried(&self, place: Place) -> usize;

    /// Makes the value of `step`, which this process owns.
    fn produce(&mut self, step: usize, place: Place) -> Result<Course, Self::Error>;

    /// The value of `step` has arrived, and is sent on after this.
    fn received(&mut self, step: usize, place: Place) -> Result<Course, Self::Error>;

    /// Stores the value of `step`.
    fn store(&mut self, step: usize, place: Place) -> Result<(), Self::Error>;

    /// Waits for the receive in one of two slots; says in which, if one is there.
    fn finish_either(&mut self, slots: [usize; 2]) -> Result<Option<usize>, Self::Error>;

    /// Gives up the receives that are outstanding, to which nobody sends.
    fn withdraw(&mut self) -> Result<(), Self::Error>;
}

/// How far a process may be ahead of its transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Steps whose receives are posted, 1 to [`Flow::MOST_AHEAD`].
    pub ahead: usize,
    /// Earlier values in a message to the next owner, at most; fewer than `ahead`.
    pub carried: usize,
    /// Of all sends.
    pub mode: SendMode,
}

/// Slots of sends.
const SENDS: usize = 64;
const PLACES: usize = 2 * Flow::MOST_AHEAD;

impl Flow {
    /// The most steps ahead.
    pub const MOST_AHEAD: usize = 32;

    /// Places of the ring.
    pub fn places(self) -> usize {
        2 * self.ahead
    }

    /// Stretches of memory: of each place what arrives there, and where values are carried the value itself, which
    /// may have come otherwise.
    pub fn stretches(self) -> usize {
        let values = if self.carried > 0 { self.places() } else { 0 };
        self.places() * (1 + self.carried) + values
    }

    /// Where what arrives in a place is.
    fn inbox(self, place: usize) -> usize {
        place * (1 + self.carried)
    }

    /// Where the value of a place is.
    fn home(self, place: usize) -> usize {
        if self.carried > 0 {
            self.places() * (1 + self.carried) + place
        } else {
            place
        }
    }
}

/// Successive broadcasts in progress on one process.
pub struct Successive<'a, T> {
    order: Order,
    rank: usize,
    /// What step 0 of this operation is to the order.
    first: usize,
    steps: usize,
    flow: Flow,
    transport: &'a mut T,
    /// Steps that are done but for their sends.
    done: usize,
    /// Steps whose receive has been posted, or needs none.
    posted: usize,
    /// Steps all of whose receives have been finished.
    drained: usize,
    /// By place: whether its receive is outstanding.
    outstanding: [bool; PLACES],
    /// The latest message that brought this process, the next owner, values of steps before.
    brought: Option<Brought>,
    /// Values that came first with that.
    gained: usize,
    /// Values that the next message to a next owner carries.
    carries: usize,
    /// Sends that were started, and that are finished.
    started: usize,
    finished: usize,
    /// The sends that were started when the latest value of each place had been sent.
    ends: [usize; PLACES],
}

/// A message that carries values besides that of its step.
#[derive(Clone, Copy)]
struct Brought {
    step: usize,
    values: usize,
}

impl<'a, T: Steps> Successive<'a, T> {
    /// Sets out for `steps` steps, the first of which is step `first` of the order.
    pub fn new(
        order: Order,
        rank: usize,
        first: usize,
        steps: usize,
        flow: Flow,
        transport: &'a mut T,
    ) -> Self {
        Successive {
            order,
            rank,
            first,
            steps,
            flow,
            transport,
            done: 0,
            posted: 0,
            drained: 0,
            outstanding: [false; PLACES],
            brought: None,
            gained: 0,
            carries: flow.carried,
            started: 0,
            finished: 0,
            ends: [0; PLACES],
        }
    }

    /// Steps that were run.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Runs until the end, or until the transport has to be waited for.
    ///
    /// # Errors
    /// The transport's; the operation is then over, with transfers possibly outstanding.
    pub fn advance(&mut self) -> Result<Progress, T::Error> {
        while self.done < self.steps {
            if self.prepare()? == Progress::Pending || self.get()? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            let (step, home) = (self.done, self.home(self.done));
            let course = if self.owns(step) {
                self.transport.produce(step, home)?
            } else {
                self.transport.received(step, home)?
            };
            self.send()?;
            self.transport.store(step, home)?;
            self.done += 1;
            if course == Course::Ends {
                self.steps = self.done;
            }
        }
        if self.drain(self.done)? == Progress::Pending {
            return Ok(Progress::Pending);
        }
        if self.posted > self.done {
            self.posted = self.done;
            self.transport.withdraw()?;
        }
        self.finish_sends(self.started)
    }

    /// Posts receives, in places whose values have been sent, and sees to it that there are slots for sends.
    fn prepare(&mut self) -> Result<Progress, T::Error> {
        let end = self.steps.min(self.done + self.flow.ahead);
        while self.posted < end {
            let before = (self.posted + 1).saturating_sub(self.flow.places());
            if self.drain(before)? == Progress::Pending
                || self.finish_sends(self.ends[self.place_of(self.posted)])? == Progress::Pending
            {
                return Ok(Progress::Pending);
            }
            self.post_receive(self.posted)?;
            self.posted += 1;
        }
        let most = SENDS - usize::BITS as usize / 2;
        self.finish_sends(self.started.saturating_sub(most))
    }

    fn post_receive(&mut self, step: usize) -> Result<(), T::Error> {
        let parent = self.order.tree(self.first + step).parent(self.rank);
        let Some(parent) = parent else {
            return Ok(());
        };
        let slot = self.place_of(step);
        let carried = if self.owns(step + 1) {
            self.flow.carried
        } else {
            0
        };
        let length = self.length_with(self.missing(step, carried));
        self.outstanding[slot] = true;
        self.transport
            .start_receive(slot, parent, self.inbox(step, 0), length)
    }

    /// Finishes the receives of the steps before `end`: those whose values were carried here before.
    fn drain(&mut self, end: usize) -> Result<Progress, T::Error> {
        while self.drained < end {
            let slot = self.place_of(self.drained);
            if self.outstanding[slot] && self.finish_receive(slot)? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            self.drained += 1;
        }
        Ok(Progress::Ready)
    }

    /// Brings the value of the current step to its home, unless it is to be made there.
    fn get(&mut self) -> Result<Progress, T::Error> {
        let step = self.done;
        if self.owns(step) {
            return Ok(Progress::Ready);
        }
        let slot = self.place_of(step);
        while self.outstanding[slot] && self.brought(step).is_none() {
            let progress = match self.bringing() {
                Some(later) => self.finish_either(slot, later)?,
                None => self.finish_receive(slot)?,
            };
            if progress == Progress::Pending {
                return Ok(Progress::Pending);
            }
        }
        self.bring_home(step)?;
        Ok(Progress::Ready)
    }

    /// The later step whose message to this process may carry the value of the current one, if it is to come yet.
    fn bringing(&self) -> Option<usize> {
        let step = self.done;
        let end = (step + self.flow.carried + 1).min(self.posted);
        let later = (step + 1..end).find(|&later| self.owns(later + 1))?;
        self.outstanding[self.place_of(later)].then_some(later)
    }

    /// The message that brought the value of `step`, if one did, and how many steps later.
    fn brought(&self, step: usize) -> Option<(usize, usize)> {
        let brought = self.brought?;
        let age = brought.step.checked_sub(step)?;
        (1..=brought.values)
            .contains(&age)
            .then_some((brought.step, age))
    }

    /// Waits for the message in `slot`, or for that of the step `later`.
    fn finish_either(&mut self, slot: usize, later: usize) -> Result<Progress, T::Error> {
        let other = self.place_of(later);
        let Some(finished) = self.transport.finish_either([slot, other])? else {
            return Ok(Progress::Pending);
        };
        self.outstanding[finished] = false;
        if finished == other {
            let values = self.transport.carried(self.inbox(later, 0));
            self.brought = Some(Brought {
                step: later,
                values,
            });
        }
        Ok(Progress::Ready)
    }

    /// From the message of its own step, if that is there, or else from that which brought it.
    fn bring_home(&mut self, step: usize) -> Result<(), T::Error> {
        if self.flow.carried == 0 {
            return Ok(());
        }
        let from = match self.brought(step) {
            Some((later, age)) if self.outstanding[self.place_of(step)] => {
                self.gained += 1;
                self.inbox(later, age)
            }
            _ => self.inbox(step, 0),
        };
        let length = self.transport.length(0);
        self.transport.copy(from, self.home(step), length)
    }

    /// Starts to send the value of the current step to the children.
    fn send(&mut self) -> Result<(), T::Error> {
        let step = self.done;
        for child in self.order.tree(self.first + step).children(self.rank) {
            let (place, length) =
                if self.owns(step) && child == self.order.owner(self.first + step + 1) {
                    self.message_to_next(step)?
                } else {
                    (self.home(step), self.transport.length(0))
                };
            let slot = self.started % SENDS;
            self.transport
                .start_send(slot, child, place, length, self.flow.mode)?;
            self.started += 1;
        }
        self.ends[self.place_of(step)] = self.started;
        Ok(())
    }

    /// The message to the next owner: the own value, and behind it those of the steps before, the latest first. It
    /// is where something would arrive if this process did not own the step.
    fn message_to_next(&mut self, step: usize) -> Result<(Place, usize), T::Error> {
        let place = self.inbox(step, 0);
        if self.flow.carried == 0 {
            return Ok((place, self.transport.length(0)));
        }
        if step > 0 {
            let wanted = (2 * self.gained + 1).max(self.carries.saturating_sub(1));
            self.carries = wanted.min(self.flow.carried);
            self.gained = 0;
        }
        let carried = self.missing(step, self.carries);
        let length = self.transport.length(0);
        for age in 0..=carried {
            let (from, to) = (self.home(step - age), self.inbox(step, age));
            self.transport.copy(from, to, length)?;
        }
        self.transport.set_carried(place, carried);
        Ok((place, self.length_with(carried)))
    }

    /// Of the `carried` values before that of `step`, those that there are, and so few that they add at most a quarter
    /// to what is sent in p steps. (So the next owner has made none of them itself.)
    fn missing(&self, step: usize, carried: usize) -> usize {
        carried.min(step).min(self.order.processes() / 4)
    }

    /// Units of a message with that many values besides its own.
    fn length_with(&self, carried: usize) -> usize {
        carried * self.transport.stride() + self.transport.length(0)
    }

    fn finish_receive(&mut self, slot: usize) -> Result<Progress, T::Error> {
        let progress = self.transport.finish_receive(slot)?;
        if progress == Progress::Ready {
            self.outstanding[slot] = false;
        }
        Ok(progress)
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
        self.order.owner(self.first + step) == self.rank
    }

    fn place_of(&self, step: usize) -> usize {
        step % self.flow.places()
    }

    fn inbox(&self, step: usize, age: usize) -> Place {
        self.transport
            .place(self.flow.inbox(self.place_of(step)) + age)
    }

    fn home(&self, step: usize) -> Place {
        self.transport.place(self.flow.home(self.place_of(step)))
    }
}
