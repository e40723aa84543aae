//! What checks have found of a communicator's calls (`call/check.rs`): how many calls of a kind
//! were checked, and whether one had another result than the MPI library's.
//!
//! A kind is an operation, and a size within a factor of 2. What decides here is the same on all
//! processes: all see the same calls, and agree on what a check finds.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::Stop;
use crate::select::{Facts, Reason, Settings};

/// What checks have found of the calls of one communicator.
pub struct Checks {
    /// How many calls of a kind are checked.
    most: u64,
    /// Whether calls are checked whose operator is the program's.
    operators: bool,
    kinds: Mutex<BTreeMap<Kind, Found>>,
}

/// An operation, and the logarithm of a size.
type Kind = (usize, u32);

/// What was found of the calls of a kind.
#[derive(Clone, Copy, Default)]
struct Found {
    checked: u64,
    is_wrong: bool,
}

impl Checks {
    /// None, if settings ask for none.
    pub(super) fn new(settings: &Settings) -> Option<Checks> {
        let most = match settings.check {
            0 => return None,
            1 => u64::MAX,
            most => most,
        };
        Some(Checks {
            most,
            operators: settings.check_operators,
            kinds: Mutex::default(),
        })
    }

    /// Leaves a call to MPI if another of its kind had another result than MPI's.
    ///
    /// # Errors
    /// That.
    pub fn pass(&self, facts: &Facts) -> Result<(), Stop> {
        if self.of(facts).is_wrong {
            return Err(Stop::Native(Reason::Differed));
        }
        Ok(())
    }

    /// Whether a call is to be checked.
    pub fn is_due(&self, facts: &Facts) -> bool {
        self.of(facts).checked < self.most
    }

    /// Whether calls are checked whose operator is the program's.
    pub fn has_operators(&self) -> bool {
        self.operators
    }

    /// A call is checked.
    pub fn count(&self, facts: &Facts) {
        let mut kinds = self.kinds.lock();
        kinds.entry(kind(facts)).or_default().checked += 1;
    }

    /// A call had another result than MPI's.
    pub fn refuse(&self, facts: &Facts) {
        let mut kinds = self.kinds.lock();
        kinds.entry(kind(facts)).or_default().is_wrong = true;
    }

    fn of(&self, facts: &Facts) -> Found {
        let kinds = self.kinds.lock();
        kinds.get(&kind(facts)).copied().unwrap_or_default()
    }
}

fn kind(facts: &Facts) -> Kind {
    (facts.operation as usize, facts.bytes.max(1).ilog2())
}
