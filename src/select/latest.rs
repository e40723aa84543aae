//! The latest calls of each operation, and what is settled for the next ones like them: programs
//! often make the same calls again, and then nothing is looked up or computed.
//!
//! A choice is settled for so many calls at most. Those that are left to it are counted, since
//! whoever chooses next for such calls has to know of them ([`Past`]).

use parking_lot::Mutex;

use super::{Algorithm, Facts, Operation, Reason};

/// An algorithm, or the reason to go native.
pub type Choice = Result<Algorithm, Reason>;

/// Where calls that are left to a choice are counted.
#[derive(Clone, Copy, Debug)]
pub enum Account {
    /// With the kind at this place.
    Kind(usize),
    /// Before anything is measured.
    Before,
    /// Nowhere: nothing is learned of them.
    Others,
}

#[derive(Clone, Copy, Debug)]
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
#[derive(Debug)]
pub struct Past {
    /// Of the calls.
    pub facts: Facts,
    /// Where they are to be counted.
    pub of: Account,
    /// How many there were.
    pub calls: u64,
}

/// Of how many calls of an operation that differ something may be settled. A program that makes two
/// in turn would else pay for the cost model at each: 3 us, where a native call takes 11.
const WAYS: usize = 4;

/// What is settled for calls of one operation. All processes see the same calls, so all have the
/// same here, but for which they looked for last.
#[derive(Debug, Default)]
struct Ways {
    all: [Option<Settled>; WAYS],
    /// The one that was found last.
    found: usize,
    /// The one that makes room next.
    oldest: usize,
}

impl Ways {
    /// The choice for a call, and where it is.
    fn find(&mut self, facts: &Facts) -> Option<(Choice, &mut Settled)> {
        let is_it = |way: &Option<Settled>| way.as_ref()?.choice_for(facts);
        let order = [self.found].into_iter().chain(0..WAYS);
        let (way, choice) = order
            .filter_map(|way| Some((way, is_it(&self.all[way])?)))
            .next()?;
        self.found = way;
        Some((choice, self.all[way].as_mut()?))
    }

    /// The place of calls of these facts, if it is free or may be; else the oldest.
    fn place(&mut self, facts: &Facts) -> &mut Option<Settled> {
        let is_of = |way: &Option<Settled>| way.as_ref().is_some_and(|way| way.facts == *facts);
        let own = self.all.iter().position(is_of);
        let free = || self.all.iter().position(Option::is_none);
        let way = own.or_else(free).unwrap_or_else(|| {
            let oldest = self.oldest;
            self.oldest = (oldest + 1) % WAYS;
            oldest
        });
        &mut self.all[way]
    }
}

/// By operation: what is settled for calls like the latest.
#[derive(Debug, Default)]
pub struct Latest(Mutex<[Ways; Operation::OF_MPI]>);

impl Latest {
    /// The choice for a call, as long as one is settled for calls of its facts. It is counted.
    pub fn choice(&self, facts: &Facts) -> Option<Choice> {
        let mut all = self.0.lock();
        let (choice, settled) = all.get_mut(facts.operation as usize)?.find(facts)?;
        settled.calls += 1;
        Some(choice)
    }

    /// Why a call is native, as long as that is settled for calls of its facts. It is to be
    /// [counted](Latest::count) when it was made.
    pub fn native(&self, facts: &Facts) -> Option<Reason> {
        let mut all = self.0.lock();
        let (choice, _) = all.get_mut(facts.operation as usize)?.find(facts)?;
        choice.err()
    }

    /// The call that was found to be native last was made.
    pub fn count(&self, operation: Operation) {
        if let Some(ways) = self.0.lock().get_mut(operation as usize) {
            if let Some(settled) = &mut ways.all[ways.found] {
                settled.calls += 1;
            }
        }
    }

    /// Ends what is settled for calls of these facts; or for others, if there is no room.
    pub fn end(&self, facts: &Facts) -> Option<Past> {
        let mut all = self.0.lock();
        let ended = all.get_mut(facts.operation as usize)?.place(facts).take()?;
        Some(Past {
            facts: ended.facts,
            of: ended.of,
            calls: ended.calls,
        })
    }

    /// Leaves the next calls of these facts to a choice: so many at most, in all ways together.
    pub fn settle(&self, facts: Facts, choice: Choice, of: Account, most: u64) {
        let most = match most {
            u64::MAX => most,
            _ => most.div_ceil(WAYS as u64),
        };
        let mut all = self.0.lock();
        if let Some(ways) = all.get_mut(facts.operation as usize).filter(|_| most > 0) {
            *ways.place(&facts) = Some(Settled {
                facts,
                choice,
                of,
                calls: 0,
                most,
            });
        }
    }

    /// Ends all that is settled.
    pub fn clear(&self) {
        *self.0.lock() = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: u64) -> Facts {
        Facts {
            bytes,
            ..Facts::new(Operation::Allreduce, 5)
        }
    }

    /// Calls that differ are settled and counted each for itself.
    #[test]
    fn calls_in_turn_are_settled() {
        let latest = Latest::default();
        let reasons = [Reason::CostModel, Reason::Measured, Reason::OneNode];
        for (bytes, reason) in (1..).zip(reasons) {
            assert!(latest.end(&of(bytes)).is_none());
            latest.settle(of(bytes), Err(reason), Account::Before, 40);
        }
        for turn in 0..9 {
            for (bytes, reason) in (1..).zip(reasons) {
                assert_eq!(latest.native(&of(bytes)), Some(reason), "{turn}");
                if bytes < 3 {
                    latest.count(Operation::Allreduce);
                } else if turn < 4 {
                    assert_eq!(latest.choice(&of(bytes)), Some(Err(reason)));
                }
            }
        }
        let counted = (1..=3).map(|bytes| latest.end(&of(bytes)).map(|past| past.calls));
        assert_eq!(counted.collect::<Vec<_>>(), [Some(9), Some(9), Some(4)]);
    }

    /// No more calls are left to a choice than may be, whatever their sizes.
    #[test]
    fn all_ways_together_are_bounded() {
        let latest = Latest::default();
        let mut left = 0;
        for bytes in 0..WAYS as u64 {
            latest.settle(of(bytes), Err(Reason::CostModel), Account::Before, 40);
            left += (0..100)
                .filter(|_| latest.choice(&of(bytes)).is_some())
                .count();
        }
        assert_eq!(left, 40);
    }

    /// The oldest makes room, and what was left to it is told.
    #[test]
    fn the_oldest_makes_room() {
        let latest = Latest::default();
        let count = WAYS as u64 + 2;
        let mut ended = Vec::new();
        for bytes in 0..count {
            ended.extend(latest.end(&of(bytes)).map(|past| past.facts.bytes));
            latest.settle(of(bytes), Err(Reason::CostModel), Account::Others, u64::MAX);
        }
        assert_eq!(ended, [0, 1]);
        let is_settled = |bytes| latest.native(&of(bytes)).is_some();
        let settled: Vec<_> = (0..count).filter(|&bytes| is_settled(bytes)).collect();
        assert_eq!(settled, (2..count).collect::<Vec<_>>());
        latest.clear();
        assert!(!is_settled(count - 1));
    }
}
