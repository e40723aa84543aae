//! Which calls are checked (`CIRCULANT_CHECK`), and which are native because a check has found a
//! difference.
//!
//! Calls are told apart by operation and *size class*: the logarithm of the bytes. (A
//! [`Kind`](super::Kind), of which is learned, tells more calls apart.)
//!
//! All processes decide alike: all see the same calls, and agree on what a check finds.

use std::collections::BTreeMap;

use super::{Facts, Reason, Settings};

/// What the checks of a communicator's calls have found.
#[derive(Clone, Debug)]
pub struct Checks {
    /// How many calls of an operation and a size class are checked.
    most: u64,
    found: BTreeMap<(usize, u32), CheckCount>,
}

/// What the checks of calls of an operation and a size class have found.
#[derive(Clone, Copy, Default, Debug)]
struct CheckCount {
    checked: u64,
    has_differed: bool,
}

impl Checks {
    /// None, if settings ask for no checks.
    pub fn new(settings: &Settings) -> Option<Checks> {
        let most = match settings.check {
            0 => return None,
            1 => u64::MAX,
            most => most,
        };
        Some(Checks {
            most,
            found: BTreeMap::new(),
        })
    }

    /// Whether circulant may run a call.
    ///
    /// # Errors
    /// The reason to go native: a call of its operation and size class had another result than the
    /// MPI library's.
    pub fn admit(&self, facts: &Facts) -> Result<(), Reason> {
        match self.of(facts).has_differed {
            true => Err(Reason::Differed),
            false => Ok(()),
        }
    }

    /// Whether a call is to be checked.
    pub fn is_due(&self, facts: &Facts) -> bool {
        self.of(facts).checked < self.most
    }

    /// A call is checked.
    pub fn count(&mut self, facts: &Facts) {
        self.found.entry(class(facts)).or_default().checked += 1;
    }

    /// A call had another result than the MPI library's.
    pub fn refuse(&mut self, facts: &Facts) {
        self.found.entry(class(facts)).or_default().has_differed = true;
    }

    fn of(&self, facts: &Facts) -> CheckCount {
        self.found.get(&class(facts)).copied().unwrap_or_default()
    }
}

fn class(facts: &Facts) -> (usize, u32) {
    (facts.operation as usize, facts.bytes.max(1).ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::Operation;

    fn call(operation: Operation, bytes: u64) -> Facts {
        Facts {
            bytes,
            ..Facts::new(operation, 4)
        }
    }

    fn checks(check: u64) -> Option<Checks> {
        Checks::new(&Settings {
            check,
            ..Settings::default()
        })
    }

    /// How many of ten calls are checked.
    fn checked_of_ten(check: u64, call: &Facts) -> usize {
        let Some(mut checks) = checks(check) else {
            return 0;
        };
        let due = (0..10).filter(|_| {
            let is_due = checks.is_due(call);
            checks.count(call);
            is_due
        });
        due.count()
    }

    #[test]
    fn one_stands_for_all() {
        let call = call(Operation::Bcast, 1000);
        let checked = [0, 1, 2, 3].map(|check| checked_of_ten(check, &call));
        assert_eq!(checked, [0, 10, 2, 3]);
    }

    #[test]
    fn a_difference_concerns_an_operation_and_a_size_class() {
        let mut checks = checks(2).expect("checks");
        checks.count(&call(Operation::Bcast, 1024));
        checks.count(&call(Operation::Bcast, 2047));
        checks.refuse(&call(Operation::Bcast, 1500));
        for (call, is_same) in [
            (call(Operation::Bcast, 1024), true),
            (call(Operation::Bcast, 2047), true),
            (call(Operation::Bcast, 1023), false),
            (call(Operation::Bcast, 2048), false),
            (call(Operation::Reduce, 1500), false),
        ] {
            let expected = if is_same {
                Err(Reason::Differed)
            } else {
                Ok(())
            };
            assert_eq!(checks.admit(&call), expected, "{call:?}");
            assert_eq!(checks.is_due(&call), !is_same, "{call:?}");
        }
    }
}
