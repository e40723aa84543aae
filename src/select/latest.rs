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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    fn past(self) -> Past {
        Past {
            facts: self.facts,
            of: self.of,
            calls: self.calls,
        }
    }

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

/// So many different calls of an operation can be settled. With one, a program that makes two in
/// turn pays for the cost model at each: 3 us, where a native call takes 11.
const WAYS: usize = 16;

/// What is settled for calls of one operation: the same on all processes, which see the same calls.
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
        // A program that makes the same calls in turn finds the next one next.
        let order = (self.found..WAYS).chain(0..self.found);
        let (way, choice) = order
            .filter_map(|way| Some((way, is_it(&self.all[way])?)))
            .next()?;
        self.found = way;
        Some((choice, self.all[way].as_mut()?))
    }

    /// That of calls of these facts.
    fn own(&mut self, facts: &Facts) -> Option<&mut Option<Settled>> {
        let is_own = |way: &&mut Option<Settled>| way.is_some_and(|way| way.facts == *facts);
        self.all.iter_mut().find(is_own)
    }

    /// One that is free, or the oldest.
    fn room(&mut self) -> &mut Option<Settled> {
        let free = self.all.iter().position(Option::is_none);
        let way = free.unwrap_or_else(|| {
            let oldest = self.oldest;
            self.oldest = (oldest + 1) % WAYS;
            oldest
        });
        &mut self.all[way]
    }
}

/// By operation: what is settled for calls like the latest. Most programs use few operations.
#[derive(Debug, Default)]
pub struct Latest(Mutex<[Option<Box<Ways>>; Operation::OF_MPI]>);

impl Latest {
    /// The choice for a call, as long as one is settled for calls of its facts. It is counted.
    pub fn choice(&self, facts: &Facts) -> Option<Choice> {
        let mut all = self.0.lock();
        let ways = all.get_mut(facts.operation as usize)?.as_mut()?;
        let (choice, settled) = ways.find(facts)?;
        settled.calls += 1;
        Some(choice)
    }

    /// Why a call is native, as long as that is settled for calls of its facts. It is to be
    /// [counted](Latest::count) when it was made.
    pub fn native(&self, facts: &Facts) -> Option<Reason> {
        let mut all = self.0.lock();
        let ways = all.get_mut(facts.operation as usize)?.as_mut()?;
        let (choice, _) = ways.find(facts)?;
        choice.err()
    }

    /// The call that was found to be native last was made.
    pub fn count(&self, operation: Operation) {
        if let Some(Some(ways)) = self.0.lock().get_mut(operation as usize) {
            if let Some(settled) = &mut ways.all[ways.found] {
                settled.calls += 1;
            }
        }
    }

    /// Ends what is settled for calls of these facts.
    pub fn end(&self, facts: &Facts) -> Option<Past> {
        let mut all = self.0.lock();
        let ways = all.get_mut(facts.operation as usize)?.as_mut()?;
        ways.own(facts)?.take().map(Settled::past)
    }

    /// Ends what is settled for calls of this operation.
    pub fn end_all(&self, operation: Operation) -> impl Iterator<Item = Past> {
        let mut all = self.0.lock();
        let ways = all.get_mut(operation as usize).and_then(Option::as_mut);
        let ended = ways.map(|ways| std::mem::take(&mut ways.all));
        ended.into_iter().flatten().flatten().map(Settled::past)
    }

    /// Leaves the next calls of these facts, for which nothing is settled, to a choice: at most so
    /// many, together with those that are left to others of the same account. Returns what made
    /// room for it.
    pub fn settle(&self, facts: Facts, choice: Choice, of: Account, most: u64) -> Option<Past> {
        let mut all = self.0.lock();
        let ways = all.get_mut(facts.operation as usize)?;
        let ways = ways.get_or_insert_default();
        let alike = |other: &&mut Settled| other.of == of;
        let others = ways.all.iter_mut().flatten().filter(alike).count() as u64;
        let most = match most {
            0 => return None,
            u64::MAX => most,
            _ => most.div_ceil(1 + others),
        };
        for other in ways.all.iter_mut().flatten().filter(alike) {
            other.most = other.most.min(other.calls.saturating_add(most));
        }
        let next = Settled {
            facts,
            choice,
            of,
            calls: 0,
            most,
        };
        ways.room().replace(next).map(Settled::past)
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

    /// What is left to one that is settled beside others is less.
    #[test]
    fn all_calls_together_are_meant() {
        let latest = Latest::default();
        let left = (0..WAYS as u64).map(|bytes| {
            latest.settle(of(bytes), Err(Reason::CostModel), Account::Before, 40);
            let left = (0..100).filter(|_| latest.choice(&of(bytes)).is_some());
            left.count()
        });
        let expected = (1..=WAYS as u64).map(|settled| 40u64.div_ceil(settled) as usize);
        assert_eq!(left.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        // Also where nothing was left to the first ones before the last are settled.
        let latest = Latest::default();
        for bytes in 0..WAYS as u64 {
            latest.settle(of(bytes), Err(Reason::CostModel), Account::Before, 160);
        }
        let calls = (0..WAYS as u64).flat_map(|bytes| std::iter::repeat_n(bytes, 200));
        let left = calls.filter(|&bytes| latest.choice(&of(bytes)).is_some());
        assert_eq!(left.count(), 160);
    }

    /// Calls of another account are not counted with them.
    #[test]
    fn calls_of_other_kinds_do_not_count() {
        let latest = Latest::default();
        for kind in 0..3 {
            latest.settle(
                of(kind as u64),
                Err(Reason::Measured),
                Account::Kind(kind),
                50,
            );
        }
        for bytes in 0..3 {
            let left = (0..200).filter(|_| latest.choice(&of(bytes)).is_some());
            assert_eq!(left.count(), 50);
        }
    }

    /// The oldest makes room, and what was left to it is told; so is what all were left.
    #[test]
    fn the_oldest_makes_room() {
        let latest = Latest::default();
        let count = WAYS as u64 + 2;
        let mut ended = Vec::new();
        for bytes in 0..count {
            assert!(latest.end(&of(bytes)).is_none());
            let past = latest.settle(of(bytes), Err(Reason::CostModel), Account::Others, u64::MAX);
            ended.extend(past.map(|past| past.facts.bytes));
        }
        assert_eq!(ended, [0, 1]);
        let is_settled = |bytes| latest.native(&of(bytes)).is_some();
        let settled: Vec<_> = (0..count).filter(|&bytes| is_settled(bytes)).collect();
        assert_eq!(settled, (2..count).collect::<Vec<_>>());
        assert_eq!(latest.end_all(Operation::Reduce).count(), 0);
        assert_eq!(latest.end_all(Operation::Allreduce).count(), WAYS);
        assert!(!is_settled(count - 1));
    }
}
