//! The latest call of each operation, and what is settled for the next ones like it: programs often
//! make the same call again, and then nothing is looked up or computed.
//!
//! A choice is settled for so many calls at most. Those that are left to it are counted, since
//! whoever chooses next has to know of them ([`Past`]).

use parking_lot::Mutex;

use crate::select::{Algorithm, Facts, Operation, Reason};

/// An algorithm, or the reason to go native.
pub(super) type Choice = Result<Algorithm, Reason>;

/// Whose calls are left to a choice.
#[derive(Clone, Copy)]
pub(super) enum Calls {
    /// Those of the kind at this place.
    Kind(usize),
    /// Those before anything is measured.
    Before,
    /// Those of which nothing is learned.
    Others,
}

#[derive(Clone, Copy)]
struct Settled {
    facts: Facts,
    choice: Choice,
    of: Calls,
    /// Calls that were left to the choice, and how many may be.
    calls: u64,
    most: u64,
}

/// So many calls of these facts were left to a choice that is settled no longer.
pub(super) struct Past {
    pub facts: Facts,
    pub of: Calls,
    pub calls: u64,
}

/// By operation: what is settled for calls like the latest.
#[derive(Default)]
pub(super) struct Latest(Mutex<[Option<Settled>; Operation::OF_MPI]>);

impl Latest {
    /// The choice for a call, as long as one is settled for calls of its facts. It is counted.
    pub(super) fn choice(&self, facts: &Facts) -> Option<Choice> {
        self.count_if(facts, |_| true)
    }

    /// Why a call is native, as long as that is settled for calls of its facts. It is counted.
    pub(super) fn native(&self, facts: &Facts) -> Option<Reason> {
        self.count_if(facts, Result::is_err)?.err()
    }

    fn count_if(&self, facts: &Facts, is_wanted: impl Fn(&Choice) -> bool) -> Option<Choice> {
        let mut all = self.0.lock();
        let latest = all.get_mut(facts.operation as usize)?.as_mut()?;
        let is_settled = latest.facts == *facts && latest.calls < latest.most;
        if !is_settled || !is_wanted(&latest.choice) {
            return None;
        }
        latest.calls += 1;
        Some(latest.choice)
    }

    /// The latest call of this operation is not counted after all.
    pub(super) fn take_back(&self, operation: Operation) {
        if let Some(Some(latest)) = self.0.lock().get_mut(operation as usize) {
            latest.calls = latest.calls.saturating_sub(1);
        }
    }

    /// Ends what is settled for calls of this operation, if something is.
    pub(super) fn end(&self, operation: Operation) -> Option<Past> {
        let ended = self.0.lock().get_mut(operation as usize)?.take()?;
        Some(Past {
            facts: ended.facts,
            of: ended.of,
            calls: ended.calls,
        })
    }

    /// Leaves the next calls of these facts to a choice, at most so many.
    pub(super) fn settle(&self, facts: Facts, choice: Choice, of: Calls, most: u64) {
        let mut all = self.0.lock();
        if let Some(latest) = all.get_mut(facts.operation as usize).filter(|_| most > 0) {
            *latest = Some(Settled {
                facts,
                choice,
                of,
                calls: 0,
                most,
            });
        }
    }

    /// Ends all that is settled.
    pub(super) fn clear(&self) {
        *self.0.lock() = [None; _];
    }
}
