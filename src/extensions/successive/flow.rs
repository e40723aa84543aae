//! The two ways of sending the values of successive broadcasts, and their parameters.

use super::relay::Relay;
use crate::engine::Synchronous;
use crate::plan::Succession;
use crate::transport::SendMode;

/// How values get from their owners to all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Each value along a tree of its own.
    Trees {
        /// Steps whose receives are posted in advance: 1 to 32.
        ahead: usize,
    },
    /// From each owner to some later owners, several values in a message.
    Relay {
        /// The factor by which distances between sender and receiver grow, 2 at least.
        factor: usize,
    },
}

/// How successive broadcasts run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// How values are sent.
    pub way: Way,
    /// The mode of all sends.
    pub mode: SendMode,
}

/// The most steps ahead that the executor has places for.
pub const MOST_AHEAD: usize = 32;
/// The most steps ahead that are used.
const AHEAD: usize = 16;
/// The bytes of values in flight on a process, unless one or two values are larger.
const VALUES: usize = 1 << 20;
/// The largest value that is sent without waiting for its receive. MPI may buffer p - 1 of them at
/// a slow process.
const EAGER_VALUE: usize = 4 << 10;

impl Flow {
    /// Along trees, for values that take up `bytes` bytes. Large values get few places.
    pub fn trees(bytes: usize, synchronous: Synchronous) -> Flow {
        let ahead = (VALUES / 2 / bytes.max(1)).clamp(1, AHEAD);
        Flow {
            way: Way::Trees { ahead },
            mode: mode(bytes, synchronous),
        }
    }

    /// From owner to owner, with at most about `relayed` bytes in a message to the next owner.
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

    /// How many turns have their receives posted, and how many steps a turn has.
    pub fn shape(self, processes: usize) -> (usize, usize) {
        match self.way {
            Way::Trees { ahead } => (ahead.clamp(1, MOST_AHEAD), 1),
            Way::Relay { .. } => (1, processes),
        }
    }

    /// How many values each of `processes` processes has places for.
    pub fn places(self, processes: usize) -> usize {
        let (ahead, period) = self.shape(processes);
        period.saturating_mul(2 * ahead)
    }

    /// The time of `steps` steps in the paper's port model.
    pub fn time(self, order: Succession, steps: usize) -> usize {
        match self.way {
            Way::Trees { .. } => order.time(steps),
            Way::Relay { factor } => Relay::new(order, factor).time(steps),
        }
    }
}

/// The mode of sends: large values wait for their receives.
fn mode(bytes: usize, synchronous: Synchronous) -> SendMode {
    match synchronous {
        Synchronous::Unpaced if bytes > EAGER_VALUE => SendMode::Synchronous,
        Synchronous::All => SendMode::Synchronous,
        Synchronous::Unpaced | Synchronous::None => SendMode::Standard,
    }
}
