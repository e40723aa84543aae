//! Successive broadcasts: the two ways that values go, and what happens to them on a process.
//!
//! [`Plan`](crate::plan::Plan) can express neither: its rounds are one-ported and follow each other, and what is sent was there
//! or arrived; here values are made between transfers, by the program.

use std::ops::Range;

use super::faults::Course;
use super::relay::Relay;
use super::trees::{self, Trees};
use super::turns::{self, Turns};
use crate::engine::Synchronous;
use crate::plan::Succession;
use crate::transport::{Place, Progress, SendMode, Transport};

/// What happens to values: a transport that knows what they are.
pub trait Steps: Transport {
    /// Stretch `index` of the memory for values, which follow each other.
    fn place(&self, index: usize) -> Place;

    /// Units of a value, with what goes before it.
    fn length(&self) -> usize;

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

/// Steps whose receives are posted ahead, at most.
const AHEAD: usize = 16;
/// Bytes of values that are in flight here, unless one or two values are more.
const VALUES: usize = 1 << 20;
/// The largest value whose sends need not wait for their receives: of those, MPI buffers p - 1 at a
/// process that is slow.
const EAGER_VALUE: usize = 4 << 10;

impl Flow {
    /// Along trees, for values that take up `bytes` bytes: large ones with few places.
    pub fn trees(bytes: usize, synchronous: Synchronous) -> Flow {
        let ahead = (VALUES / 2 / bytes.max(1)).clamp(1, AHEAD);
        Flow {
            way: Way::Trees { ahead },
            mode: mode(bytes, synchronous),
        }
    }

    /// From owner to owner, with at most about `relayed` bytes in a message to the next.
    pub fn relay(bytes: usize, relayed: u64, synchronous: Synchronous) -> Flow {
        let values = (relayed / bytes.max(1) as u64).max(1);
        let factor = usize::try_from(values)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        Flow {
            way: Way::Relay { factor },
            mode: mode(bytes, synchronous),
        }
    }

    /// Stretches of memory, of one value each, on each of `processes` processes.
    pub fn stretches(self, processes: usize) -> usize {
        match self.way {
            Way::Trees { ahead } => trees::stretches(ahead),
            Way::Relay { .. } => turns::stretches(processes),
        }
    }

    /// The time of `steps` steps in the paper's port model.
    pub fn time(self, order: Succession, steps: usize) -> usize {
        match self.way {
            Way::Trees { .. } => order.time(steps),
            Way::Relay { factor } => Relay::new(order, factor).time(steps),
        }
    }
}

/// How values are sent: large ones wait for their receives.
fn mode(bytes: usize, synchronous: Synchronous) -> SendMode {
    match synchronous {
        Synchronous::Unpaced if bytes > EAGER_VALUE => SendMode::Synchronous,
        Synchronous::All => SendMode::Synchronous,
        Synchronous::Unpaced | Synchronous::None => SendMode::Standard,
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
        order: Succession,
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
