//! Who runs a call on a communicator: who was measured to be the fastest, or whom the cost model
//! predicts to be. Both are decided in `select/`. Here is what that takes: the nodes are asked for,
//! the network is measured, and calls are tried.
//!
//! **A trial** begins when all processes have come to the call, so that late ones do not count, and
//! ends when the last has left it. Durations are compared and never clocks: the longest of all
//! processes counts.
//!
//! **Before the first trial** the network has to be known. At the first call the processes take
//! over what rank 0 reads in a profile. If that says nothing, they take over what rank 0 has
//! [learned](super::known) on other communicators, or [measure](super::network) their network. They
//! do so only when it, or the private communicator that calls of ours need, costs little beside the
//! calls so far ([`Prospect`](select::Prospect)). Until then the cost model chooses, unless of two
//! calls that were timed the MPI library's was faster.
//!
//! Calls whose result depends on who runs them are not tried, unless settings say so. A profile may
//! say who runs them; else the cost model chooses. On a flat graph, how many blocks they have makes
//! no difference to the result, so that may be what suits the network.

use super::learning::{Ground, Learning, Times, Trial};
use super::state::State;
use super::{Service, Stop, known, network};
use crate::mpi::{Error, Moment};
use crate::report::Outcome;
use crate::select::{
    self, Account, Algorithm, Choice, Facts, Kind, Known, Operation, Past, Preparation, Reason,
    Select, Turn,
};
use crate::team::Machine;

impl State {
    /// The facts of a call, with the MPI library, and the nodes where rules ask for them.
    /// Collective at the first call where they do. Those of a call on an inter-communicator have
    /// the nodes.
    ///
    /// # Errors
    /// MPI's.
    pub fn with_surroundings(&self, facts: Facts) -> Result<Facts, Error> {
        let facts = Facts {
            library: self.library,
            ..facts
        };
        match self.asks_for_nodes(&facts) {
            true => Ok(facts.on(self.nodes()?)),
            false => Ok(facts),
        }
    }

    fn asks_for_nodes(&self, facts: &Facts) -> bool {
        !self.is_inter() && self.settings().asks_for_nodes(facts.operation)
    }

    /// Whether [`with_surroundings`](State::with_surroundings) is collective at such a call.
    pub fn has_to_find_nodes(&self, facts: &Facts) -> bool {
        self.found_nodes().is_none() && self.asks_for_nodes(facts)
    }

    /// The algorithm for a call that is to be ours. May be collective, but for calls on an
    /// inter-communicator.
    ///
    /// # Errors
    /// Native, if it is not.
    pub fn choose(&self, facts: Facts) -> Result<Algorithm, Stop> {
        let choice = match self.latest.choice(&facts) {
            Some(choice) => choice,
            None => self.choose_anew(facts)?,
        };
        choice.map_err(Stop::Native)
    }

    /// Chooses for a call that is not settled. If nothing is learned of such calls, the choice
    /// holds for all of them. Otherwise, before anything is measured, it holds for as many as may
    /// pass before there is something to do.
    fn choose_anew(&self, facts: Facts) -> Result<Choice, Stop> {
        let settings = self.settings();
        let covered = self.learning.as_ref().and_then(|learning| {
            let kind = Kind::of(&facts, settings)?;
            learning.covers(kind, settings).then_some((learning, kind))
        });
        self.count_past(self.latest.end(&facts));
        let Some((learning, kind)) = covered else {
            return self.choose_untried(facts);
        };
        let choice = match self.choose_by_learning(learning, kind, facts)? {
            Some(choice) => choice,
            None if learning.is_over() || learning.ground().is_some() => {
                let choice = self.choose_by_model(facts)?;
                return Ok(self.settle_for_good(facts, choice));
            }
            None => {
                let choice = self.choose_before(learning, kind, facts)?;
                // To find the nodes is no part of a timed call.
                self.begin(Moment::now());
                choice
            }
        };
        if learning.ground().is_none() {
            self.settle_before(learning, facts, choice);
        }
        Ok(choice)
    }

    /// The choice before anything is measured: the cost model's, unless a survey has shown that the
    /// MPI library is faster, or two calls are compared. Of rounded results, no time may decide who
    /// makes them, also where a profile might.
    fn choose_before(&self, learning: &Learning, kind: Kind, facts: Facts) -> Result<Choice, Stop> {
        let choice = self.choose_by_model(facts)?;
        if choice.is_err() || !kind.is_learned(self.settings()) {
            return Ok(choice);
        }
        // What may be tried in shared memory is tried before it runs there.
        if choice == Ok(Algorithm::Shared { across: None }) {
            return Ok(Err(Reason::OneNode));
        }
        // Checks take their time from circulant's calls.
        if self.checks().is_some() {
            return Ok(choice);
        }
        Ok(learning.native_reason(&facts).map_or(choice, Err))
    }

    /// The choice for a call of a kind that is not tried. It is the cost model's. If the call may
    /// have any number of blocks, that suits the network once it is measured.
    fn choose_untried(&self, facts: Facts) -> Result<Choice, Stop> {
        let choice = self.choose_by_model(facts)?;
        let has_free_blocks = select::has_free_blocks(&choice, &facts, self.settings());
        if let Some(learning) = self.learning.as_ref().filter(|_| has_free_blocks) {
            if self.ground(learning, &facts)?.is_none() && !learning.is_over() {
                self.settle_before(learning, facts, choice);
                return Ok(choice);
            }
        }
        Ok(self.settle_for_good(facts, choice))
    }

    /// Before anything is measured: this choice holds for as many calls as may pass before there is
    /// something to do.
    fn settle_before(&self, learning: &Learning, facts: Facts, choice: Choice) {
        let idle = learning.idle_calls(&facts, self.known_nodes());
        self.settle(facts, choice, Account::Before, idle);
    }

    fn settle(&self, facts: Facts, choice: Choice, of: Account, most: u64) {
        self.count_past(self.latest.settle(facts, choice, of, most));
    }

    /// Calls were left to choices that are settled no longer.
    fn count_past(&self, past: impl IntoIterator<Item = Past>) {
        if let Some(learning) = &self.learning {
            past.into_iter().for_each(|past| learning.count_past(&past));
        }
    }

    /// Why a call is native, if that is settled for calls of these facts.
    #[inline]
    pub fn settled(&self, facts: &Facts) -> Option<Reason> {
        self.latest.native(facts)
    }

    /// A call that was [settled](State::settled) was made. One that was not, or that an error
    /// handler has left, is not counted: this process alone may have had wrong arguments, and make
    /// it again.
    pub fn count_settled(&self, operation: Operation) {
        self.latest.count(operation);
    }

    /// A call that was chosen began only then: what came before is not its time.
    pub fn begin(&self, at: Moment) {
        if let Some(learning) = &self.learning {
            learning.start_anew(at);
        }
    }

    /// The end of a call that [`choose`](State::choose) was asked about, with this outcome. May be
    /// collective.
    #[inline]
    pub fn end(&self, outcome: Outcome) {
        if let Some(learning) = &self.learning {
            if let Some((trial, taken)) = learning.end(outcome != Outcome::Circulant) {
                self.end_trial(learning, &trial, taken, outcome);
            }
        }
    }

    /// MPI has failed in the middle of a call: nothing is tried any more. Local.
    pub(super) fn give_up(&self) {
        if let Some(learning) = &self.learning {
            learning.end(true);
            learning.end_all();
        }
    }

    /// The cost model's choice for a call of which nothing is learned any more, and for all like
    /// it: with the number of blocks that suits the network, if that is known and the number is
    /// free.
    fn settle_for_good(&self, facts: Facts, mut choice: Choice) -> Choice {
        let ground = self.learning.as_ref().and_then(Learning::ground);
        if let Some(Ground { known, .. }) = ground {
            if select::has_free_blocks(&choice, &facts, self.settings()) {
                let nodes = known.nodes;
                let on_nodes = Facts { nodes, ..facts };
                choice = Ok(select::with_free_blocks(&on_nodes, known.network));
            }
        }
        // Between groups a call chooses twice, of different facts.
        if !self.is_inter() {
            self.settle(facts, choice, Account::Others, u64::MAX);
        }
        choice
    }

    fn choose_by_model(&self, facts: Facts) -> Result<Choice, Stop> {
        if self.is_inter() {
            return Ok(select::choose(&facts, self.settings()));
        }
        match self.choose_on_nodes(facts) {
            Ok(algorithm) => Ok(Ok(algorithm)),
            Err(Stop::Native(reason)) => Ok(Err(reason)),
            Err(stop) => Err(stop),
        }
    }

    fn choose_on_nodes(&self, facts: Facts) -> Result<Algorithm, Stop> {
        let settings = self.settings();
        if settings.asks_for_nodes(facts.operation) {
            return select::choose(&facts, settings).map_err(Stop::Native);
        }
        // They are asked for only where they can matter.
        if self.found_nodes().is_none() {
            match self.known_nodes() {
                Some(nodes) => select::choose(&Facts { nodes, ..facts }, settings).map(drop),
                None => select::choose_on_any_nodes(&facts, settings),
            }
            .map_err(Stop::Native)?;
        }
        select::choose(&facts.on(self.nodes()?), settings).map_err(Stop::Native)
    }

    /// The choice for a call of this kind, if something was learned of it. Collective where it is
    /// tried.
    fn choose_by_learning(
        &self,
        learning: &Learning,
        kind: Kind,
        facts: Facts,
    ) -> Result<Option<Choice>, Stop> {
        let settings = self.settings();
        let only_observes = settings.select.observes();
        let observed = only_observes.then_some(Err(Reason::Observed));
        let Some(ground) = self.ground(learning, &facts)? else {
            return Ok(observed);
        };
        let on_nodes = facts.on(self.nodes()?);
        let turn = learning.turn(kind, &on_nodes, settings, ground, || self.equipment(&facts));
        let (candidate, reason) = match turn {
            None => return Ok(observed),
            Some(Turn::Use(_)) if only_observes => return Ok(observed),
            Some(Turn::Use(candidate)) => (candidate, Reason::Measured),
            Some(Turn::Try(candidate)) => {
                if !self.begin_trial(learning, kind, candidate)? {
                    let delayed = (!learning.is_over()).then_some(Err(Reason::NoCommunicator));
                    return Ok(delayed);
                }
                (candidate, Reason::Trial)
            }
        };
        let network = ground.known.network;
        let choice = select::candidate(&on_nodes, settings, network, candidate).ok_or(reason);
        if reason == Reason::Measured {
            let settled = learning.settled_calls(kind, ground, || self.equipment(&facts));
            // What a profile says of calls that are not tried holds for good.
            let (calls, most) = settled.unwrap_or((Account::Others, u64::MAX));
            self.settle(facts, choice, calls, most);
        }
        Ok(Some(choice))
    }

    /// What is known before the first trial, once that is worth finding out. Collective at the call
    /// where it is.
    fn ground<'a>(
        &self,
        learning: &'a Learning,
        facts: &Facts,
    ) -> Result<Option<&'a Ground>, Stop> {
        if learning.is_over() {
            return Ok(None);
        }
        if let Some(ground) = learning.ground() {
            return Ok(Some(ground));
        }
        if learning.takes_profile() {
            if let Some(known) = self.told_by_rank_0(true)? {
                return Ok(Some(self.begin_with(learning, known)));
            }
        }
        let known = self.find_out(learning, facts)?;
        Ok(known.map(|known| self.begin_with(learning, known)))
    }

    /// What rank 0 knows of such communicators. Collective.
    fn told_by_rank_0(&self, has_profile: bool) -> Result<Option<Known>, Error> {
        let dimensions = (self.size(), self.nodes()?.count());
        known::share(self.rank(), dimensions, has_profile, |words| {
            self.together(|communicator| communicator.share(words))
        })
    }

    /// What is found out before a call. Collective at the calls where something is worth it.
    fn find_out(&self, learning: &Learning, facts: &Facts) -> Result<Option<Known>, Stop> {
        Ok(match self.next_step(learning, facts)? {
            Preparation::Wait | Preparation::Survey => None,
            Preparation::Meet => {
                learning.keep_time_of_operation(self.time_of_operation()?);
                learning.met(facts);
                None
            }
            Preparation::Compare => {
                self.together(|communicator| communicator.gather_all(0))?;
                learning.compare();
                None
            }
            Preparation::TakeOver => self.take_over(learning)?,
            Preparation::Measure => match self.take_over(learning)? {
                None => self.measure(learning)?,
                known => known,
            },
        })
    }

    /// A measurement or a trial had no service. Unless there may be one later, nothing is tried any
    /// more.
    fn end_unless_delayed(&self, learning: &Learning) {
        if !self.may_be_served() {
            learning.end_all();
        }
    }

    /// Sets out from what is known before the first trial: what was settled before is not any more.
    fn begin_with<'a>(&self, learning: &'a Learning, known: Known) -> &'a Ground {
        self.latest.clear();
        learning.begin_with(known)
    }

    /// What the calls so far are worth, once the survey is made that is due. Collective at the
    /// calls where one is.
    fn next_step(&self, learning: &Learning, facts: &Facts) -> Result<Preparation, Stop> {
        if self.settings().select == Select::Tune {
            return Ok(Preparation::Measure);
        }
        learning.count(facts);
        let mut next = learning.next_step(facts, self.known_nodes());
        if next == Preparation::Survey {
            self.make_survey(learning)?;
            next = learning.next_step(facts, self.known_nodes());
        }
        Ok(next)
    }

    /// All processes tell on which node they are, and how long what was timed took; rank 0 also
    /// whether it knows communicators of as many processes. If no call was timed, a small operation
    /// is timed now. Collective.
    fn make_survey(&self, learning: &Learning) -> Result<(), Error> {
        if !learning.has_met() && self.needs_time_of_operation() {
            learning.keep_time_of_operation(self.time_of_operation()?);
        }
        let is_known = self.rank() == 0 && known::is_known(self.size());
        learning.tell(&self.survey(learning.words(is_known))?);
        Ok(())
    }

    /// Waits until all processes have come. The nanoseconds that a small operation then takes this
    /// process; 0, where that does not matter. Collective.
    fn time_of_operation(&self) -> Result<u64, Error> {
        let is_needed = self.needs_time_of_operation();
        self.together(|communicator| {
            communicator.gather_all(0)?;
            let start = Moment::now();
            Ok(match is_needed {
                true => {
                    communicator.gather_all(0)?;
                    start.elapsed()
                }
                false => 0,
            })
        })
    }

    /// Whether it matters what a small operation takes: not on one node.
    fn needs_time_of_operation(&self) -> bool {
        self.known_nodes() != Some(1)
    }

    /// Takes over what rank 0 knows of such communicators, if that is something. Collective.
    fn take_over(&self, learning: &Learning) -> Result<Option<Known>, Error> {
        learning.was_told();
        self.told_by_rank_0(self.settings().has_profile())
    }

    /// Measures the network, if there is a private communicator. Collective.
    fn measure(&self, learning: &Learning) -> Result<Option<Known>, Stop> {
        let (processes, nodes) = (self.size(), self.nodes()?.count());
        match self.serve_on_nodes(network::measure) {
            Ok(network) => Ok(Some(Known::new(processes, nodes, network))),
            Err(Stop::Native(_)) => {
                self.end_unless_delayed(learning);
                Ok(None)
            }
            Err(stop) => Err(stop),
        }
    }

    /// Waits until all processes have come to a call that is to be tried. Returns whether it is.
    fn begin_trial(&self, learning: &Learning, kind: Kind, candidate: usize) -> Result<bool, Stop> {
        let have_come = self.serve_on_nodes(|service, _| service.members.take_largest(&mut [0]));
        match have_come {
            Ok(_) => learning.begin(kind, candidate),
            Err(Stop::Native(_)) => self.end_unless_delayed(learning),
            Err(stop) => return Err(stop),
        }
        Ok(have_come.is_ok())
    }

    /// The end of a trial, which took this process so many nanoseconds. What it says may hold for
    /// calls of other sizes, too, so what was settled of them is not any more. Collective.
    fn end_trial(&self, learning: &Learning, trial: &Trial, taken: u64, outcome: Outcome) {
        self.count_past(self.latest.end_all(trial.operation()));
        if !trial.was_run(outcome) {
            return learning.conclude(trial, None);
        }
        match self.tell_times(learning, taken) {
            Ok(times) => learning.conclude(trial, Some(times)),
            Err(_) => learning.end_all(),
        }
    }

    fn tell_times(&self, learning: &Learning, taken: u64) -> Result<Times, Stop> {
        let ground = learning.ground().ok_or(Reason::NoCommunicator)?;
        self.serve_on_nodes(|service, _| ground.tell(service, taken))
    }

    /// Runs `action` with this communicator's service and its nodes.
    fn serve_on_nodes<R>(
        &self,
        action: impl FnOnce(&Service, &Machine) -> Result<R, Error>,
    ) -> Result<R, Stop> {
        let nodes = self.nodes()?;
        self.serve([None, None], |service| {
            service.divide(nodes);
            Ok(action(service, service.machine()?)?)
        })
    }
}
