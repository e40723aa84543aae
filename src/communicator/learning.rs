//! What is measured of a communicator's calls, so that the fastest candidate runs them.
//!
//! Which call is tried, and by which candidate, is [`Learned`]'s choice. Here its time is taken,
//! and made the same on all processes. A trial begins when all processes have come to the call, so
//! that late ones do not count, and ends when the last has left it. So durations are compared and
//! never clocks: the longest of all processes counts.
//!
//! The processes agree by themselves. All see the same calls, of the same facts, with the same
//! outcomes. What only one of them can know is in no decision but by the times.
//!
//! At the first call the processes take over what rank 0 reads in a profile. Before the first trial
//! they take over what it has [learned](super::known) on other communicators, or
//! [measure](super::network) their network. That waits until it costs little beside the calls so
//! far ([`Prospect`]). Until then the cost model chooses.
//!
//! Calls whose result depends on who runs them are not tried, unless settings say so. They may have
//! a lesson from a profile; else the cost model chooses.

use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::service::Service;
use super::{State, Stop, known, network, process};
use crate::mpi::{Error, Moment};
use crate::report::Outcome;
use crate::select::{
    self, Algorithm, Facts, Kind, Known, Learned, Lesson, NATIVE, Network, Operation, Prospect,
    Reason, Select, Settings, Step, Turn,
};

/// What was measured of the calls of one communicator.
pub(super) struct Learning {
    has_profile: bool,
    /// Whether rank 0 was asked what its profile says.
    has_asked: AtomicBool,
    /// What is known of the calls so far that may be learned of, until there is a ground.
    before: Mutex<Before>,
    ground: OnceCell<Ground>,
    kinds: Mutex<Vec<(Kind, Learned)>>,
    /// By operation: the latest call that is settled, since the next is often alike.
    settled: Mutex<[Option<Settled>; Operation::OF_MPI]>,
    /// The call that is being tried.
    trial: Mutex<Option<Trial>>,
    /// Set where nothing can be agreed on.
    is_over: AtomicBool,
}

/// Calls of these facts are left to a choice.
#[derive(Clone, Copy)]
struct Settled {
    facts: Facts,
    choice: Result<Algorithm, Reason>,
    /// Its place among the kinds.
    kind: usize,
    /// Calls that were left to the choice without asking that kind, and how many may be.
    calls: u64,
    most: u64,
}

/// The calls before anything is measured.
#[derive(Default)]
struct Before {
    prospect: Prospect,
    /// The call in progress, and when it began: after its choice, which may be collective.
    call: Option<(Facts, Option<Moment>)>,
    /// Nanoseconds that the latest call took this process.
    taken: u64,
}

/// What is known before the first trial.
struct Ground {
    nodes: usize,
    network: Network,
    /// What was learned elsewhere.
    lessons: Vec<Lesson>,
    clock: Mutex<Clock>,
}

/// What it takes to take the time of a call: to wait for all processes before it, and to tell the
/// times after it.
#[derive(Clone, Copy)]
struct Clock {
    /// Seconds, agreed: at first as predicted.
    overhead: f64,
    /// Nanoseconds that it took this process to tell the latest time, or 0.
    telling: u64,
}

struct Trial {
    kind: Kind,
    candidate: usize,
    start: Moment,
}

impl Learning {
    /// None, if nothing is to be learned.
    pub(super) fn new(settings: &Settings, is_other: bool) -> Option<Learning> {
        let has_profile = settings.has_profile();
        let is_wanted = settings.select != Select::Model || has_profile;
        let learns = is_wanted && !is_other;
        if learns && has_profile && process().rank == 0 {
            known::profile();
        }
        learns.then(|| Learning {
            has_profile,
            has_asked: AtomicBool::new(false),
            before: Mutex::default(),
            ground: OnceCell::new(),
            kinds: Mutex::new(Vec::new()),
            settled: Mutex::new([None; Operation::OF_MPI]),
            trial: Mutex::new(None),
            is_over: AtomicBool::new(false),
        })
    }

    /// The choice for a call of these facts, if there is something to learn of it. Collective where
    /// it is tried.
    ///
    /// # Errors
    /// MPI's.
    pub(super) fn choose(
        &self,
        state: &State,
        facts: Facts,
    ) -> Result<Option<Result<Algorithm, Reason>>, Stop> {
        if let Some(choice) = self.settled_choice(&facts) {
            return Ok(Some(choice));
        }
        let settings = state.settings();
        let only_observes = settings.select.observes();
        let Some(kind) = Kind::of(&facts, settings) else {
            return Ok(None);
        };
        let may_learn = kind.is_learned(settings);
        if !may_learn && !only_observes && !self.has_profile {
            return Ok(None);
        }
        let ground = self.ground(state, &facts)?;
        let turn = ground.and_then(|ground| {
            let on_nodes = Facts {
                nodes: ground.nodes,
                ..facts
            };
            Some((self.turn(kind, &on_nodes, state, ground)?, on_nodes, ground))
        });
        let Some((turn, on_nodes, ground)) = turn else {
            return Ok(only_observes.then_some(Err(Reason::Observed)));
        };
        let (candidate, reason) = match turn {
            Turn::Use(_) if only_observes => return Ok(Some(Err(Reason::Observed))),
            Turn::Use(candidate) => (candidate, Reason::Measured),
            Turn::Try(candidate) => match self.begin(state, kind, candidate) {
                Err(Stop::Native(_)) => return Ok(self.end_all()),
                begun => begun.map(|()| (candidate, Reason::Trial))?,
            },
        };
        let algorithm = select::candidate(&on_nodes, settings, ground.network, candidate);
        let choice = algorithm.ok_or(reason);
        if turn == Turn::Use(candidate) {
            self.settle(kind, facts, choice);
        }
        Ok(Some(choice))
    }

    /// The choice for a call like the latest of its operation, as long as that is settled.
    fn settled_choice(&self, facts: &Facts) -> Option<Result<Algorithm, Reason>> {
        let mut settled = self.settled.lock();
        let slot = settled.get_mut(facts.operation as usize)?;
        let latest = slot.as_mut()?;
        if latest.facts == *facts && latest.calls < latest.most {
            latest.calls += 1;
            return Some(latest.choice);
        }
        let Settled { kind, calls, .. } = *latest;
        *slot = None;
        drop(settled);
        if let Some((_, learned)) = self.kinds.lock().get_mut(kind) {
            learned.count(calls);
        }
        None
    }

    /// Remembers a choice for calls of these facts, if it is settled for some.
    fn settle(&self, kind: Kind, facts: Facts, choice: Result<Algorithm, Reason>) {
        let most = {
            let kinds = self.kinds.lock();
            let index = kinds.iter().position(|(known, _)| *known == kind);
            index.map(|index| (index, kinds[index].1.settled_calls()))
        };
        let Some((kind, most @ 1..)) = most else {
            return;
        };
        if let Some(slot) = self.settled.lock().get_mut(facts.operation as usize) {
            *slot = Some(Settled {
                facts,
                choice,
                kind,
                calls: 0,
                most,
            });
        }
    }

    fn end_all<T>(&self) -> Option<T> {
        self.is_over.store(true, Ordering::Relaxed);
        None
    }

    /// What is known before the first trial, once that is worth finding out. Collective at the call
    /// where it is.
    fn ground(&self, state: &State, facts: &Facts) -> Result<Option<&Ground>, Stop> {
        if self.is_over.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if let Some(ground) = self.ground.get() {
            return Ok(Some(ground));
        }
        if self.has_profile && !self.has_asked.swap(true, Ordering::Relaxed) {
            let (processes, nodes) = (state.size(), state.nodes()?.count());
            if let Some(known) = known::share(state.communicator(), processes, nodes)? {
                return Ok(Some(self.begin_with(known)));
            }
        }
        if !self.is_worth_finding(state, facts)? {
            return Ok(None);
        }
        match find_known(state) {
            Ok(known) => Ok(Some(self.begin_with(known))),
            Err(Stop::Native(_)) => Ok(self.end_all()),
            Err(stop) => Err(stop),
        }
    }

    fn begin_with(&self, known: Known) -> &Ground {
        known::remember(&known);
        self.ground.get_or_init(|| Ground {
            nodes: known.nodes,
            network: known.network,
            clock: Mutex::new(Clock {
                overhead: select::overhead(known.processes, known.network),
                telling: 0,
            }),
            lessons: known.lessons,
        })
    }

    /// Whether the calls so far are worth a measurement. Collective at the calls where they are
    /// worth a survey.
    fn is_worth_finding(&self, state: &State, facts: &Facts) -> Result<bool, Stop> {
        if state.settings().select == Select::Tune {
            return Ok(true);
        }
        // No lock is held while MPI runs.
        let step = |nodes| self.before.lock().prospect.step(facts, nodes);
        self.before.lock().prospect.count(facts);
        let mut next = step(state.known_nodes());
        if next == Step::Survey {
            let taken = self.before.lock().taken;
            let all = state.survey(taken)?;
            let seconds = all.iter().map(|&taken| taken as f64 * 1e-9).collect();
            self.before.lock().prospect.tell(seconds);
            next = step(state.known_nodes());
        }
        let is_worth_it = next == Step::Measure;
        if !is_worth_it {
            self.before.lock().call = Some((*facts, None));
        }
        Ok(is_worth_it)
    }

    /// A call was chosen, by the cost model where nothing is measured, and begins.
    pub(super) fn start(&self) {
        if self.ground.get().is_none() {
            let now = Moment::now();
            if let Some((_, start)) = &mut self.before.lock().call {
                *start = Some(now);
            }
        }
    }

    /// The call that was chosen begins now.
    pub(super) fn begin_anew(&self) {
        self.start();
        if let Some(trial) = &mut *self.trial.lock() {
            trial.start = Moment::now();
        }
    }

    /// The end of a call before anything is measured.
    fn end_before(&self) {
        let call = self.before.lock().call.take();
        if let Some((facts, Some(start))) = call {
            let taken = start.elapsed();
            let mut before = self.before.lock();
            before.taken = taken;
            before.prospect.made(&facts);
        }
    }

    /// Who runs a call of a kind; none, if nothing is to be learned of it and nothing was.
    fn turn(&self, kind: Kind, facts: &Facts, state: &State, ground: &Ground) -> Option<Turn> {
        let mut lessons = ground.lessons.iter();
        let lesson = lessons.find(|lesson| lesson.kind == kind && lesson.is_measured);
        if !kind.is_learned(state.settings()) && !state.settings().select.observes() {
            return lesson.map(|lesson| Turn::Use(lesson.candidate));
        }
        let mut kinds = self.kinds.lock();
        let index = match kinds.iter().position(|(known, _)| *known == kind) {
            Some(index) => index,
            None => {
                kinds.push((kind, first_of(kind, facts, state, ground, lesson)));
                kinds.len() - 1
            }
        };
        let overhead = || {
            let made = match state.is_served() {
                true => 0.0,
                false => select::private_communicator(state.size(), ground.nodes, ground.network),
            };
            ground.clock.lock().overhead + made
        };
        kind.is_learned(state.settings())
            .then(|| kinds[index].1.turn(overhead))
    }

    /// Waits until all processes have come to the call.
    fn begin(&self, state: &State, kind: Kind, candidate: usize) -> Result<(), Stop> {
        state.serve([None, None], |service| {
            Ok(service.communicator().all_agree(true)?)
        })?;
        *self.trial.lock() = Some(Trial {
            kind,
            candidate,
            start: Moment::now(),
        });
        Ok(())
    }

    /// The end of a call with this outcome. Collective, if it was tried.
    pub(super) fn end(&self, state: &State, outcome: Outcome) {
        // A call that is native because that was the fastest is no trial, and pays for no lock.
        if outcome == Outcome::Native(Reason::Measured) {
            return;
        }
        if self.ground.get().is_none() {
            self.end_before();
        }
        let Some(trial) = self.trial.lock().take() else {
            return;
        };
        let taken = trial.start.elapsed();
        let was_run = match outcome {
            Outcome::Circulant => trial.candidate != NATIVE,
            Outcome::Native(reason) => reason == Reason::Trial,
        };
        let times = was_run.then(|| {
            let ground = self
                .ground
                .get()
                .ok_or(Stop::Native(Reason::NoCommunicator))?;
            state.serve([None, None], |service| Ok(ground.tell(service, taken)?))
        });
        let mut kinds = self.kinds.lock();
        let known = kinds.iter_mut().find(|(kind, _)| *kind == trial.kind);
        match (known, times) {
            (Some((_, learned)), Some(Ok((longest, overhead)))) => {
                learned.tell(trial.candidate, longest, overhead);
                if let Some(ground) = self.ground.get() {
                    known::learn(state.size(), ground.nodes, lesson(trial.kind, learned));
                }
            }
            (Some((_, learned)), None) => learned.give_up(trial.candidate),
            _ => self.is_over.store(true, Ordering::Relaxed),
        }
    }
}

/// What rank 0 knows of such communicators, or else the network. Collective.
fn find_known(state: &State) -> Result<Known, Stop> {
    let (processes, nodes) = (state.size(), state.nodes()?);
    state.serve([None, None], |service| {
        if let Some(known) = known::share(service.communicator(), processes, nodes.count())? {
            return Ok(known);
        }
        let network = network::measure(service, nodes)?;
        Ok(Known::new(processes, nodes.count(), network))
    })
}

impl Ground {
    /// Seconds that a call took, and that it takes to find that out: the same on all processes.
    /// Collective. The process that was the last to leave the call waits for nobody when times are
    /// told, so the least time of that is what it takes.
    fn tell(&self, service: &Service, taken: u64) -> Result<(f64, f64), Error> {
        let start = Moment::now();
        let mut clock = *self.clock.lock();
        let all = service
            .communicator()
            .gather_words([taken, clock.telling])?;
        clock.telling = start.elapsed();
        let seconds = |nanoseconds: Option<u64>| nanoseconds.unwrap_or(0) as f64 * 1e-9;
        let longest = seconds(all.iter().map(|[taken, _]| *taken).max());
        let telling = seconds(all.iter().map(|[_, telling]| *telling).min());
        if telling > 0.0 {
            clock.overhead = select::measured_overhead(telling);
        }
        *self.clock.lock() = clock;
        Ok((longest, clock.overhead))
    }
}

/// What is known of the calls of a kind at the first of them. Its predictions are remembered for
/// the report, where nothing else is known.
fn first_of(
    kind: Kind,
    facts: &Facts,
    state: &State,
    ground: &Ground,
    lesson: Option<&Lesson>,
) -> Learned {
    let predicted = select::predicted(facts, state.settings(), ground.network);
    let mut learned = match state.settings().select {
        Select::Tune => Learned::to_tune(&predicted),
        _ => Learned::new(&predicted),
    };
    match lesson {
        Some(lesson) => learned.choose(lesson.candidate),
        None => known::learn(state.size(), ground.nodes, self::lesson(kind, &learned)),
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
