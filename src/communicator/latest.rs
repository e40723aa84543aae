//! The latest call of each operation, and what is settled for the next ones like it: programs often
//! make the same call again, and then nothing is looked up or computed.
//!
//! A choice is settled for so many calls at most. Those that are left to it are counted, since
//! whoever chooses next has to know of them ([`Past`]).

use parking_lot::Mutex;

use crate::select::{Algorithm, Facts, Operation, Reason};

/// An algorithm, or the reason to go native.
pub(super) type Choice = Result<Algorithm, Reason>;

/// Where calls that are left to a choice are counted.
#[derive(Clone, Copy)]
pub(super) enum Account {
    /// With the kind at this place.
    Kind(usize),
    /// Before anything is measured.
    Before,
    /// Nowhere: nothing is learned of them.
    Others,
}

#[derive(Clone, Copy)]
struct Settled {
    facts: Facts,
    choice: Choice,
    of: Account,
    /// Calls that were left to the choice, and how many may be.
    calls: u64,
    most: u64,
}

impl Settled {
    fn choice_for(&self, facts: &Facts) -> Option<Choice> {
        let is_settled = self.facts == *facts && self.calls < self.most;
        is_settled.then_some(self.choice)
    }
}

/// So many calls of these facts were left to a choice that is settled no longer.
pub(super) struct Past {
    pub facts: Facts,
    pub of: Account,
    pub calls: u64,
}

/// By operation: what is settled for calls like the latest.
#[derive(Default)]
pub(super) struct Latest(Mutex<[Option<Settled>; Operation::OF_MPI]>);

impl Latest {
    /// The choice for a call, as long as one is settled for calls of its facts. It is counted.
    pub(super) fn choice(&self, facts: &Facts) -> Option<Choice> {
        let mut all = self.0.lock();
        let latest = all.get_mut(facts.operation as usize)?.as_mut()?;
        let choice = latest.choice_for(facts)?;
        latest.calls += 1;
        Some(choice)
    }

    /// Why a call is native, as long as that is settled for calls of its facts. It is to be
    /// [counted](Latest::count) when it was made.
    pub(super) fn native(&self, facts: &Facts) -> Option<Reason> {
        let all = self.0.lock();
        let latest = all.get(facts.operation as usize)?.as_ref()?;
        latest.choice_for(facts)?.err()
    }

    /// A call that was native, since that is settled, was made.
    pub(super) fn count(&self, operation: Operation) {
        if let Some(Some(latest)) = self.0.lock().get_mut(operation as usize) {
            latest.calls += 1;
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
    pub(super) fn settle(&self, facts: Facts, choice: Choice, of: Account, most: u64) {
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
