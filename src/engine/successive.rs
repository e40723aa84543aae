//! Successive broadcasts: the two ways that values go, and what happens to them on a process.
//!
//! [`Plan`](crate::plan::Plan) can express neither: its rounds are one-ported and follow each other, and what is sent was there
//! or arrived; here values are made between transfers, by the program.

use std::ops::Range;

use super::faults::Course;
use super::trees::{self, Trees};
use super::turns::{self, Turns};
use crate::plan::{Order, Relay};
use crate::transport::{Place, Progress, SendMode, Transport};

/// What happens to values: a transport that knows what they are.
pub trait Steps: Transport {
    /// Stretch `index` of the memory for values, which follow each other.
    fn place(&self, index: usize) -> Place;

    /// Units from one stretch to the next: at least those of a value.
    fn stride(&self) -> usize;

    /// Makes the value of `step`, which this process owns.
    fn produce(&mut self, step: usize, place: Place) -> Result<Course, Self::Error>;

    /// The value of `step` has arrived, and is sent on after this.
    fn received(&mut self, step: usize, place: Place) -> Result<Course, Self::Error>;

    /// Stores the value of `step`.
    fn store(&mut self, step: usize, place: Place) -> Result<(), Self::Error>;

    /// Gives up the receives that are outstanding, to which nobody sends.
    fn withdraw(&mut self) -> Result<(), Self::Error>;
}

/// How values go from their owners to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Each along a tree of its own.
    Trees {
        /// Steps whose receives are posted; 1 at least, and bounded.
        ahead: usize,
    },
    /// From each owner to some of the later ones, several in a message.
    Relay {
        /// How much farther each of them is than the one before, 2 at least.
        factor: usize,
    },
}

/// How successive broadcasts run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// How values go.
    pub way: Way,
    /// Of all sends.
    pub mode: SendMode,
}

impl Flow {
    /// Stretches of memory, of one value each, on each of `processes` processes.
    pub fn stretches(self, processes: usize) -> usize {
        match self.way {
            Way::Trees { ahead } => trees::stretches(ahead),
            Way::Relay { .. } => turns::stretches(processes),
        }
    }

    /// The time of `steps` steps in the paper's port model.
    pub fn time(self, order: Order, steps: usize) -> usize {
        match self.way {
            Way::Trees { .. } => order.time(steps),
            Way::Relay { factor } => Relay::new(order, factor).time(steps),
        }
    }
}

/// Successive broadcasts in progress on one process.
#[allow(clippy::large_enum_variant)] // There is one at a time, on the stack.
pub enum Successive<'a, T> {
    /// Along trees.
    Trees(Trees<'a, T>),
    /// From owner to owner.
    Turns(Turns<'a, T>),
}

impl<'a, T: Steps> Successive<'a, T> {
    /// Sets out for the values of `steps`.
    pub fn new(
        order: Order,
        rank: usize,
        steps: Range<usize>,
        flow: Flow,
        transport: &'a mut T,
    ) -> Self {
        match flow.way {
            Way::Trees { ahead } => {
                let pacing = (ahead, flow.mode);
                Successive::Trees(Trees::new(order, rank, steps, pacing, transport))
            }
            Way::Relay { factor } => {
                let relay = Relay::new(order, factor);
                Successive::Turns(Turns::new(relay, rank, steps, flow.mode, transport))
            }
        }
    }

    /// The step after the last that was run.
    pub fn done(&self) -> usize {
        match self {
            Successive::Trees(trees) => trees.done(),
            Successive::Turns(turns) => turns.done(),
        }
    }

    /// Runs until the end, or until the transport has to be waited for.
    ///
    /// # Errors
    /// The transport's; the operation is then over, with transfers possibly outstanding.
    pub fn advance(&mut self) -> Result<Progress, T::Error> {
        match self {
            Successive::Trees(trees) => trees.advance(),
            Successive::Turns(turns) => turns.advance(),
        }
    }
}
