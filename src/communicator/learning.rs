//! What was measured of a communicator's calls, so that the fastest candidate runs them.
//!
//! Which call is tried, and by which candidate, is [`Learned`]'s choice. Here is what that needs:
//! the times so far, what was known before the first trial ([`Ground`]), and the call in progress.
//! The calls themselves are tried in `choosing.rs`.
//!
//! The processes agree without a message. All see the same calls, of the same facts, with the same
//! outcomes. What only one of them can know enters by the times alone, and those are agreed on.

use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::service::Service;
use super::{known, process};
use crate::mpi::{Error, Moment};
use crate::report::Outcome;
use crate::select::{
    self, Account, Facts, Kind, Known, Learned, Lesson, NATIVE, Operation, Past, Preparation,
    Prospect, Reason, SHARED, Select, Settings, Survey, SurveyedCall, Turn,
};

/// The bits of a word in a survey that say that a process knows such communicators, and that the
/// MPI library did not run the timed call. No call takes that many nanoseconds.
const IS_KNOWN: u64 = 1 << 63;
const IS_OURS: u64 = 1 << 62;

/// How much the latest trial counts in what it takes to take a time, beside those before it.
const WEIGHT_OF_LATEST: f64 = 0.25;
/// What took more than so many times as long as before counts as that: a process may have lost its
/// processor once.
const MOST_AT_ONCE: f64 = 4.0;

/// What was measured of the calls of one communicator.
pub(super) struct Learning {
    has_profile: bool,
    /// Whether rank 0 was asked what its profile says.
    has_asked: AtomicBool,
    /// What is known of the calls so far that may be learned of, until there is a ground.
    before: Mutex<Before>,
    ground: OnceCell<Ground>,
    kinds: Mutex<Vec<(Kind, Learned)>>,
    /// The call that is being tried.
    trial: Mutex<Option<Trial>>,
    /// Whether the time of the call in progress is taken.
    is_timed: AtomicBool,
    /// Set where nothing can be agreed on.
    is_over: AtomicBool,
}

/// The calls before anything is measured.
#[derive(Default)]
struct Before {
    prospect: Prospect,
    /// The latest call that was counted.
    counted: Option<Facts>,
    /// When the call in progress began, if all processes came to it together.
    start: Option<Moment>,
    /// What the latest such call took.
    timed: Timing,
    /// The same of the next such call, which is compared with it.
    compared: Timing,
    /// Whether the call in progress is that one.
    is_compared: bool,
    /// Nanoseconds that a small operation took this process, or 0.
    operation: u64,
}

/// What a call took this process.
#[derive(Clone, Copy, Default)]
struct Timing {
    /// Nanoseconds, 0 until it has ended.
    taken: u64,
    /// Whether the MPI library ran it.
    is_native: bool,
}

/// What is known before the first trial.
pub(super) struct Ground {
    /// The network, and what was learned elsewhere.
    pub known: Known,
    clock: Mutex<Clock>,
}

/// What it takes to take the time of a call: to wait for all processes before it, and to tell the
/// times after it.
#[derive(Clone, Copy)]
struct Clock {
    /// Seconds, agreed: at first as predicted.
    overhead: f64,
    /// Nanoseconds from the end of the latest call that was tried, on all processes, until this
    /// process was told the times; or 0.
    telling: u64,
}

/// What there is for trials.
#[derive(Default)]
pub(super) struct Equipment {
    /// Whether there is a service.
    pub is_served: bool,
    /// Whether there is memory that processes share.
    pub is_shared: bool,
    /// Bytes by which slots of the memory that processes share are to grow, if there is any.
    pub missing: usize,
}

/// A call that is tried.
pub(super) struct Trial {
    kind: Kind,
    candidate: usize,
    start: Moment,
}

/// The seconds of a call that was tried, and those that it took to take its time: the same on all
/// processes.
pub(super) struct Times {
    call: f64,
    overhead: f64,
}

impl Learning {
    /// None, if nothing is to be learned.
    pub(super) fn new(settings: &Settings) -> Option<Learning> {
        let has_profile = settings.has_profile();
        if settings.select == Select::Model && !has_profile {
            return None;
        }
        if has_profile && process().rank == 0 {
            known::profile();
        }
        Some(Learning {
            has_profile,
            has_asked: AtomicBool::new(false),
            before: Mutex::default(),
            ground: OnceCell::new(),
            kinds: Mutex::new(Vec::new()),
            trial: Mutex::new(None),
            is_timed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        })
    }

    /// Whether calls of this kind are tried or observed, or a profile may say who runs them.
    pub(super) fn covers(&self, kind: Kind, settings: &Settings) -> bool {
        kind.is_learned(settings) || settings.select.observes() || self.has_profile
    }

    /// So many calls were left to a choice without asking.
    pub(super) fn count_past(&self, past: &Past) {
        match past.of {
            Account::Kind(kind) => {
                if let Some((_, learned)) = self.kinds.lock().get_mut(kind) {
                    learned.count(past.calls);
                }
            }
            Account::Before => self.before.lock().prospect.skip(&past.facts, past.calls),
            Account::Others => {}
        }
    }

    /// The next calls of a kind that can be left to its choice, and how many.
    pub(super) fn settled_calls(
        &self,
        kind: Kind,
        ground: &Ground,
        equipment: impl FnOnce() -> Equipment,
    ) -> Option<(Account, u64)> {
        let kinds = self.kinds.lock();
        let index = kinds.iter().position(|(known, _)| *known == kind)?;
        let overhead = |candidate| ground.overhead_of_trial(candidate, &equipment());
        Some((Account::Kind(index), kinds[index].1.settled_calls(overhead)))
    }

    /// How many further calls of these facts can pass before anything has to be measured, on so
    /// many nodes, if that is known. 0 if the call in progress is not counted.
    pub(super) fn idle_calls(&self, facts: &Facts, nodes: Option<usize>) -> u64 {
        let before = self.before.lock();
        match before.counted == Some(*facts) {
            true => before.prospect.idle_calls(facts, nodes),
            false => 0,
        }
    }

    /// Nothing can be agreed on: from now on nothing is tried.
    pub(super) fn end_all(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether nothing is tried any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// What is known before the first trial, if it is known yet.
    pub(super) fn ground(&self) -> Option<&Ground> {
        self.ground.get()
    }

    /// Sets out from what is known before the first trial.
    pub(super) fn begin_with(&self, known: Known) -> &Ground {
        known::remember(&known);
        self.ground.get_or_init(|| Ground {
            clock: Mutex::new(Clock {
                overhead: select::overhead(known.processes, known.network),
                telling: 0,
            }),
            known,
        })
    }

    /// Whether rank 0 is to be asked for its profile: once, if there may be one.
    pub(super) fn takes_profile(&self) -> bool {
        self.has_profile && !self.has_asked.swap(true, Ordering::Relaxed)
    }

    /// Counts a call before anything is measured.
    pub(super) fn count(&self, facts: &Facts) {
        let mut before = self.before.lock();
        before.prospect.count(facts);
        before.counted = Some(*facts);
    }

    /// What is to be done before the call that was counted, on so many nodes, if that is known.
    pub(super) fn next_step(&self, facts: &Facts, nodes: Option<usize>) -> Preparation {
        self.before.lock().prospect.step(facts, nodes)
    }

    /// All processes have come to the call that was counted. It begins, and is timed.
    pub(super) fn met(&self, facts: &Facts) {
        let mut before = self.before.lock();
        before.prospect.met(facts);
        (before.timed, before.compared) = (Timing::default(), Timing::default());
        self.start(&mut before);
    }

    /// All processes have come to a call that is compared. It begins, and is timed.
    pub(super) fn compare(&self) {
        let mut before = self.before.lock();
        before.prospect.compare();
        before.is_compared = true;
        self.start(&mut before);
    }

    fn start(&self, before: &mut Before) {
        before.start = Some(Moment::now());
        self.is_timed.store(true, Ordering::Relaxed);
    }

    /// Why the MPI library runs the call that was counted, before anything is measured, though the
    /// cost model says that circulant is faster. None if circulant runs it.
    pub(super) fn native_reason(&self, facts: &Facts) -> Option<Reason> {
        let mut before = self.before.lock();
        let is_native = before.prospect.is_native(facts);
        is_native.then_some(match before.is_compared {
            true => Reason::Trial,
            false => Reason::Measured,
        })
    }

    /// Whether a call was timed since the latest survey.
    pub(super) fn has_met(&self) -> bool {
        self.before.lock().prospect.has_met()
    }

    /// A small operation took this process so many nanoseconds; 0, if none was timed.
    pub(super) fn keep_time_of_operation(&self, nanoseconds: u64) {
        self.before.lock().operation = nanoseconds;
    }

    /// What this process says in a survey: the nanoseconds that the timed call took it, who ran it,
    /// and whether this process knows such communicators; the same of the call that was compared
    /// with it; and the nanoseconds of a small operation.
    pub(super) fn words(&self, is_known: bool) -> [u64; 3] {
        let before = self.before.lock();
        let is_known = if is_known { IS_KNOWN } else { 0 };
        let [timed, compared] = [before.timed, before.compared].map(Timing::word);
        [timed | is_known, compared, before.operation]
    }

    /// The words of a survey, by rank.
    pub(super) fn tell(&self, all: &[[u64; 3]]) {
        self.before.lock().prospect.tell(Survey {
            timed: surveyed(all.iter().map(|&[word, ..]| word & !IS_KNOWN)),
            compared: surveyed(all.iter().map(|&[_, word, _]| word)),
            operations: all.iter().map(|&[.., taken]| seconds(taken)).collect(),
            has_known: all.iter().any(|[word, ..]| word & IS_KNOWN != 0),
        });
    }

    /// Rank 0 has told what it knows.
    pub(super) fn was_told(&self) {
        self.before.lock().prospect.was_told();
    }

    /// The call in progress began only then, if it is timed.
    pub(super) fn start_anew(&self, at: Moment) {
        if !self.is_timed.load(Ordering::Relaxed) {
            return;
        }
        if let Some(start) = &mut self.before.lock().start {
            *start = at;
        }
        if let Some(trial) = &mut *self.trial.lock() {
            trial.start = at;
        }
    }

    /// Who runs a call of a kind; none, if nothing is to be learned of it and nothing was.
    pub(super) fn turn(
        &self,
        kind: Kind,
        facts: &Facts,
        settings: &Settings,
        ground: &Ground,
        equipment: impl FnOnce() -> Equipment,
    ) -> Option<Turn> {
        let known = &ground.known;
        let mut lessons = known.lessons.iter();
        let lesson = lessons.find(|lesson| lesson.kind == kind && lesson.is_measured);
        if !kind.is_learned(settings) && !settings.select.observes() {
            return lesson.map(|lesson| Turn::Use(lesson.candidate));
        }
        let mut kinds = self.kinds.lock();
        let index = match kinds.iter().position(|(known, _)| *known == kind) {
            Some(index) => index,
            None => {
                let such = |facts: &Facts| Kind::of(facts, settings) == Some(kind);
                let native = self.before.lock().prospect.native_times(such);
                kinds.push((
                    kind,
                    first_of(kind, facts, settings, known, lesson, &native),
                ));
                kinds.len() - 1
            }
        };
        let overhead = |candidate| ground.overhead_of_trial(candidate, &equipment());
        kind.is_learned(settings)
            .then(|| kinds[index].1.turn(overhead))
    }

    /// All processes have come to a call that is tried: it begins.
    pub(super) fn begin(&self, kind: Kind, candidate: usize) {
        *self.trial.lock() = Some(Trial {
            kind,
            candidate,
            start: Moment::now(),
        });
        self.is_timed.store(true, Ordering::Relaxed);
    }

    /// The end of a call. If it was tried: the trial, and the nanoseconds that it took this
    /// process.
    pub(super) fn end(&self, is_native: bool) -> Option<(Trial, u64)> {
        if !self.is_timed.load(Ordering::Relaxed) {
            return None;
        }
        self.is_timed.store(false, Ordering::Relaxed);
        let mut before = self.before.lock();
        if let Some(start) = before.start.take() {
            let timing = Timing {
                taken: start.elapsed(),
                is_native,
            };
            match std::mem::take(&mut before.is_compared) {
                true => before.compared = timing,
                false => before.timed = timing,
            }
        }
        drop(before);
        let trial = self.trial.lock().take()?;
        let taken = trial.start.elapsed();
        Some((trial, taken))
    }

    /// Takes over the times of a trial; none, if its candidate did not run the call.
    pub(super) fn conclude(&self, trial: &Trial, times: Option<Times>) {
        let mut kinds = self.kinds.lock();
        let Some((_, learned)) = kinds.iter_mut().find(|(kind, _)| *kind == trial.kind) else {
            return self.end_all();
        };
        let Some(times) = times else {
            return learned.give_up(trial.candidate);
        };
        learned.tell(trial.candidate, times.call, times.overhead);
        if let Some(Ground { known, .. }) = self.ground.get() {
            known::learn(known.processes, known.nodes, lesson(trial.kind, learned));
        }
    }
}

impl Timing {
    /// As a word for other processes.
    fn word(self) -> u64 {
        match self.is_native || self.taken == 0 {
            true => self.taken,
            false => self.taken | IS_OURS,
        }
    }
}

/// A call of which all processes have told such a word. The longest time counts, and circulant ran
/// it if it did on any.
fn surveyed(words: impl Iterator<Item = u64> + Clone) -> SurveyedCall {
    let taken = words.clone().map(|word| word & !IS_OURS);
    SurveyedCall {
        seconds: seconds(taken.max().unwrap_or(0)),
        is_native: words.fold(0, |all, word| all | word) & IS_OURS == 0,
    }
}

impl Trial {
    /// Of its calls.
    pub(super) fn operation(&self) -> Operation {
        self.kind.operation
    }

    /// Whether its candidate ran the call, which had this outcome.
    pub(super) fn was_run(&self, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Circulant => self.candidate != NATIVE,
            Outcome::Native(reason) => reason == Reason::Trial,
        }
    }
}

impl Ground {
    /// Seconds that it would cost to take the time of a call by a candidate: also to make what it
    /// lacks. (On one node the price of the first memory was paid for when the network was
    /// measured, unless a profile has told of it.)
    fn overhead_of_trial(&self, candidate: usize, has: &Equipment) -> f64 {
        let known = &self.known;
        let service = match has.is_served {
            true => 0.0,
            false => select::private_communicator(known.processes, known.nodes, known.network),
        };
        let memory = match (candidate, known.nodes) {
            (SHARED, 1) => select::slots(known.processes, has.missing as u64),
            (SHARED, _) if !has.is_shared => {
                select::memory_of_nodes(known.processes, known.network)
            }
            _ => 0.0,
        };
        self.clock.lock().overhead + service + memory
    }

    /// The times of a call that took this process so many nanoseconds: the longest. Collective.
    ///
    /// It takes until the last process has been told. Where processes share a processor, the first
    /// of 32 on two processors was told 3 to 20 times sooner.
    ///
    /// # Errors
    /// MPI's.
    pub(super) fn tell(&self, service: &Service, taken: u64) -> Result<Times, Error> {
        let start = Moment::now();
        let mut clock = *self.clock.lock();
        let mut words = [taken, clock.telling];
        service.members.take_largest(&mut words)?;
        let [longest, telling] = words;
        // As long as others were still in the call, this process waited for them.
        clock.telling = start.elapsed().saturating_sub(longest - taken);
        if telling > 0 {
            let latest = select::measured_overhead(seconds(telling));
            let latest = latest.min(MOST_AT_ONCE * clock.overhead);
            clock.overhead += WEIGHT_OF_LATEST * (latest - clock.overhead);
        }
        *self.clock.lock() = clock;
        Ok(Times {
            call: seconds(longest),
            overhead: clock.overhead,
        })
    }
}

/// The seconds of as many nanoseconds.
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 * 1e-9
}

/// What is known of the calls of a kind at the first of them: also the seconds of `native` ones. It
/// is remembered for the report, where nothing else is known.
fn first_of(
    kind: Kind,
    facts: &Facts,
    settings: &Settings,
    known: &Known,
    lesson: Option<&Lesson>,
    native: &[f64],
) -> Learned {
    let predicted = select::predicted(facts, settings, known.network);
    let learned = match settings.select {
        Select::Tune => Learned::to_tune(&predicted),
        _ if known.nodes == 1 => Learned::new(&predicted).connected(),
        _ => Learned::new(&predicted),
    };
    let mut learned = learned.with_native_times(native);
    match lesson {
        Some(lesson) => learned.choose(lesson.candidate),
        None => known::learn(known.processes, known.nodes, self::lesson(kind, &learned)),
    }
    learned
}

/// What was learned of the calls of a kind so far.
fn lesson(kind: Kind, learned: &Learned) -> Lesson {
    let candidate = learned.choice();
    let nanoseconds = |seconds: f64| (1e9 * seconds).round() as u64;
    let mut tried = [0; _];
    tried
        .iter_mut()
        .zip(learned.tried())
        .for_each(|(tried, seconds)| *tried = nanoseconds(seconds));
    Lesson {
        kind,
        candidate: candidate.unwrap_or(NATIVE),
        times: learned.times().map(nanoseconds),
        tried,
        is_measured: candidate.is_some(),
    }
}
