//! How far the rounds of a plan may overlap, and which of its sends are synchronous-mode.

use crate::plan::Shape;
use crate::transport::SLOTS;

/// How far rounds may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// Receives posted ahead, at least 1.
    pub window: usize,
    /// Sends outstanding, at least 1.
    pub sends: usize,
    /// Which of them are synchronous-mode.
    pub synchronous: Synchronous,
}

impl Pacing {
    /// That of a plan of this shape: rounds that are run at once count as one, as far as a
    /// transport has slots.
    pub(super) fn of(self, shape: &Shape) -> Pacing {
        debug_assert!(
            shape.at_once <= SLOTS,
            "a plan has no more rounds at once than there are slots"
        );
        let slots = |rounds: usize| (rounds * shape.at_once).min(SLOTS);
        Pacing {
            window: slots(self.window),
            sends: slots(self.sends),
            ..self
        }
    }
}

/// Which sends are synchronous-mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    /// Those of a process that received nothing in the round before.
    Unpaced,
    /// All.
    All,
    /// None.
    None,
}
