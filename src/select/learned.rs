//! What is learned of the calls of one kind on one communicator: who runs them fastest, the MPI
//! library or one of our algorithms.
//!
//! It is a function of times that are the same on all processes, so that all choose alike. It asks
//! no clock. The candidates are tried in turn, the MPI library among them, until it is known which
//! is the fastest. From then on that one runs the calls, and the choice is reviewed now and then.
//!
//! ```text
//! each call:  the candidate with the fewest samples, if the budget allows
//!             else the fastest so far; native, until times are known
//! each time:  the first of a candidate opens connections, and does not count; but the MPI library
//!             has none to open on one node, or where calls of it were timed before
//!             a candidate that is four times slower each time is out; so is one all of whose
//!             samples, two at least and five if it is close, are slower than all of the fastest's
//! settled:    all that are left have enough samples; the MPI library and the fastest of ours have
//!             more, if they are close. The MPI library wins ties
//! ```
//!
//! The budget: trials may take longer than the MPI library would have, by 3 % of its time for all
//! calls so far, and by half of one of its calls. To take times counts, too. Trials that take less
//! than the MPI library pay for others, but are not saved up. A time that is not known yet is what
//! the cost model predicts on the network that was measured. To tune, there is no budget, and there
//! are more samples.

use super::Network;
use super::facts::phases;

/// Samples of each candidate that is left when the choice is made.
const SAMPLES: usize = 3;
/// The same, to tune.
const SAMPLES_TO_TUNE: usize = 5;
/// Samples of the MPI library and of the fastest of ours, if their times are close: a few samples
/// that vary do not tell them apart.
const SAMPLES_IF_CLOSE: usize = 11;
/// Times are close if they differ by less than this part.
const CLOSE: f64 = 0.2;
/// How much longer trials may take than the MPI library would have, as a part of its time for all
/// calls so far.
pub(super) const BUDGET: f64 = 0.03;
/// How much longer they may take besides, in calls of the MPI library: so trials can begin at once.
pub(super) const ADVANCE: f64 = 0.5;
/// A candidate that is so many times slower is out after one sample. If that and its first time
/// were far off, a review finds out.
const HOPELESS: f64 = 4.0;
/// Candidates that are predicted to be so many times slower than the best of ours are not tried.
const UNPROMISING: f64 = 2.0;
/// The MPI library runs a call unless it takes longer than ours by more than this part.
const TIE: f64 = 0.01;
/// A choice is changed for a gain of more than this part, and of so many standard errors.
const GAIN: f64 = 0.02;
const ERRORS: f64 = 2.0;
/// Calls from a choice to its first review.
const FIRST_LOOK: u64 = 200;

/// Seconds that it takes to make a private communicator: two operations of q rounds, and what it
/// takes besides messages.
pub fn private_communicator(processes: usize, nodes: usize, network: Network) -> f64 {
    let made = if nodes == 1 { 400e-6 } else { 100e-6 };
    made + network.seconds(2.0 * f64::from(phases(processes)), 0.0)
}

/// Seconds that it takes to make memory that processes share, without slots.
pub const SHARED_MEMORY: f64 = 250e-6;

/// Seconds that it takes to make it on several nodes: all agree twice.
pub fn memory_of_nodes(processes: usize, network: Network) -> f64 {
    SHARED_MEMORY + network.seconds(2.0 * f64::from(phases(processes)), 0.0)
}

/// Seconds that it takes to provide pages for two more slots of so many bytes for each process, and
/// that calls then take to map them. The system provides them for one process after the other.
pub fn slots(processes: usize, bytes: u64) -> f64 {
    0.8e-9 * processes as f64 * bytes as f64
}

/// Seconds that it takes to take the time of a call: an allreduce before it, an allgather after it.
pub fn overhead(processes: usize, network: Network) -> f64 {
    UNUSUAL + network.seconds(2.0 * f64::from(phases(processes)), 0.0)
}

/// The same, where one of the two was measured to take so many seconds.
pub fn measured_overhead(one: f64) -> f64 {
    UNUSUAL + 2.0 * one
}

/// Seconds that a processor takes longer for what it seldom does. It is what trials of calls of a
/// few microseconds were measured to take more than their messages.
pub(super) const UNUSUAL: f64 = 10e-6;

/// The place of the MPI library among the candidates.
pub const NATIVE: usize = 0;

/// Who runs a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// This candidate, and its time is to be [told](Learned::tell).
    Try(usize),
    /// This candidate.
    Use(usize),
}

/// What is known of the calls of one kind.
#[derive(Clone, Debug)]
pub struct Learned {
    candidates: Vec<Record>,
    /// Whether trials have no budget.
    tunes: bool,
    /// Calls so far.
    calls: u64,
    /// Seconds that trials took more than the MPI library would have.
    excess: f64,
    choice: Option<Incumbent>,
    /// Whether the first time of the MPI library counts, as it opens no connections.
    is_connected: bool,
    /// What follows from the times so far: who is to be tried next, if somebody is, and who runs
    /// the calls meanwhile.
    wanted: Option<usize>,
    leader: usize,
}

#[derive(Clone, Debug)]
struct Record {
    predicted: f64,
    /// Its first time, in which connections were opened.
    first: Option<f64>,
    is_out: bool,
    samples: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Incumbent {
    candidate: usize,
    /// The call at which it is reviewed, and how many calls later it is reviewed again.
    look: u64,
    interval: u64,
    /// The candidate that it is compared with during a review.
    rival: Option<usize>,
    /// Reviews in a row that the rival has won.
    lost: u32,
}

impl Incumbent {
    /// The next review is twice as far away as the latest was.
    fn postpone(&mut self, calls: u64) {
        self.review_in(self.interval.saturating_mul(2), calls);
    }

    /// It is reviewed in so many calls from now.
    fn review_in(&mut self, interval: u64, calls: u64) {
        self.interval = interval;
        self.look = calls.saturating_add(interval);
    }
}

/// The median; none of nothing. Of an even number of times, the larger of the two in the middle.
pub(super) fn median(mut seconds: Vec<f64>) -> Option<f64> {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied()
}

/// The standard error of a difference, from those of its terms. (f64::hypot is the C library's, and
/// not rounded alike everywhere.)
fn together(a: f64, b: f64) -> f64 {
    (a * a + b * b).sqrt()
}

impl Record {
    /// Its time, as far as it was taken.
    fn known(&self) -> Option<f64> {
        match self.samples.is_empty() {
            true => self.first,
            false => Some(self.median()),
        }
    }

    fn median(&self) -> f64 {
        median(self.samples.clone()).unwrap_or(f64::MAX)
    }

    /// As the median; but of few times, any of which may be far off, the least.
    fn likely(&self) -> f64 {
        match self.is_sampled() {
            true => self.median(),
            false => self.first.unwrap_or(f64::MAX).min(self.fastest()),
        }
    }

    /// Whether what is known rests on one time, which is far shorter than predicted. A port may let
    /// some bytes pass faster after a pause.
    fn is_doubtful(&self) -> bool {
        let is_short = |seconds| HOPELESS * seconds < self.predicted;
        self.samples.len() < 2 && self.known().is_some_and(is_short)
    }

    /// Whether one time that is far off makes no difference to its median.
    fn is_sampled(&self) -> bool {
        self.samples.len() >= SAMPLES
    }

    /// The standard error of the median, from the median distance to it, which single times that
    /// are far off do not change.
    fn error(&self) -> f64 {
        let of_samples = self.median();
        let distances = self.samples.iter().map(|x| (x - of_samples).abs());
        let distance = median(distances.collect()).unwrap_or(0.0);
        // Of normally distributed times: the deviation, and what the median varies by.
        1.483 * 1.253 * distance / (self.samples.len().max(1) as f64).sqrt()
    }

    fn fastest(&self) -> f64 {
        self.samples.iter().copied().fold(f64::MAX, f64::min)
    }

    fn slowest(&self) -> f64 {
        self.samples.iter().copied().fold(0.0, f64::max)
    }
}

impl Learned {
    /// Nothing yet, of candidates with these predicted seconds, the MPI library's first.
    pub fn new(predicted: &[f64]) -> Learned {
        let best = predicted.iter().skip(1).copied().fold(f64::MAX, f64::min);
        let candidate = |(index, &predicted): (usize, &f64)| Record {
            predicted,
            first: None,
            is_out: index != NATIVE && (predicted > UNPROMISING * best || !predicted.is_finite()),
            samples: Vec::new(),
        };
        Learned {
            candidates: predicted.iter().enumerate().map(candidate).collect(),
            tunes: false,
            calls: 0,
            excess: 0.0,
            choice: None,
            is_connected: false,
            wanted: None,
            leader: NATIVE,
        }
        .concluded()
    }

    /// The same, to tune.
    pub fn to_tune(predicted: &[f64]) -> Learned {
        Learned {
            tunes: true,
            ..Learned::new(predicted)
        }
        .concluded()
    }

    /// The same, where the MPI library has no connections to open: its first time counts.
    pub fn connected(self) -> Learned {
        Learned {
            is_connected: true,
            ..self
        }
    }

    /// The same, where calls by the MPI library that opened no connections were timed before.
    pub fn with_native_times(mut self, seconds: &[f64]) -> Learned {
        self.is_connected |= !seconds.is_empty();
        let native = &mut self.candidates[NATIVE];
        native.first = native.first.or(seconds.first().copied());
        native.samples.extend(seconds);
        self.concluded()
    }

    fn concluded(mut self) -> Learned {
        self.conclude();
        self
    }

    /// Draws the conclusions from what is known. To be called when that has changed.
    fn conclude(&mut self) {
        self.wanted = self.wanting();
        self.leader = self.leading();
    }

    /// Seconds of a call by each candidate that was tried. 0: it was not.
    pub fn tried(&self) -> impl Iterator<Item = f64> {
        let candidates = self.candidates.iter();
        candidates.map(|candidate| candidate.known().unwrap_or(0.0))
    }

    /// Seconds of a call by the MPI library, and by the fastest of ours: measured, or else
    /// predicted. 0, where there is none.
    pub fn times(&self) -> [f64; 2] {
        let (native, ours) = (&self.candidates[NATIVE], &self.candidates[NATIVE + 1..]);
        let least = |seconds: &mut dyn Iterator<Item = f64>| seconds.reduce(f64::min);
        let measured = least(&mut ours.iter().filter_map(Record::known));
        let predicted = least(&mut ours.iter().map(|candidate| candidate.predicted));
        let ours = measured.or(predicted).filter(|seconds| seconds.is_finite());
        [
            native.known().unwrap_or(native.predicted),
            ours.unwrap_or(0.0),
        ]
    }

    /// The candidate that runs the calls, once that is known.
    pub fn choice(&self) -> Option<usize> {
        self.choice.map(|choice| choice.candidate)
    }

    /// Who runs the next call. To try a candidate would cost so many seconds of `overhead` besides,
    /// which is asked for only where that matters.
    pub fn turn(&mut self, overhead: impl FnOnce(usize) -> f64) -> Turn {
        self.calls += 1;
        if let Some(choice) = &mut self.choice {
            if choice.rival.is_none() && self.calls < choice.look {
                return Turn::Use(choice.candidate);
            }
            self.look_again();
        }
        let wanted = self.wanted;
        match wanted.filter(|&candidate| self.is_affordable(candidate, overhead(candidate))) {
            Some(candidate) => Turn::Try(candidate),
            None => Turn::Use(self.leader),
        }
    }

    /// How many of the next calls [`turn`](Learned::turn) leaves to the choice in any case, or,
    /// while there is none, to whoever leads: until a trial is affordable.
    pub fn settled_calls(&self, overhead: impl FnOnce(usize) -> f64) -> u64 {
        match self.choice {
            Some(choice) if choice.rival.is_none() => choice.look.saturating_sub(self.calls + 1),
            _ if self.tunes => 0,
            _ => self.wanted.map_or(0, |candidate| {
                let calls =
                    self.excess_of(candidate, overhead(candidate)) / self.native() - ADVANCE;
                // Two less, since numbers are rounded.
                ((calls / BUDGET) as u64).saturating_sub(self.calls + 2)
            }),
        }
    }

    /// So many calls were left to the choice without asking.
    pub fn count(&mut self, calls: u64) {
        self.calls += calls;
    }

    /// The seconds of a call that was tried, and those that taking its time cost: the same on all
    /// processes.
    pub fn tell(&mut self, candidate: usize, seconds: f64, overhead: f64) {
        let more = self.more(candidate, seconds);
        self.excess = (self.excess + overhead + more).max(0.0);
        let is_connected = self.is_connected && candidate == NATIVE;
        let tried = &mut self.candidates[candidate];
        if tried.first.is_some() || is_connected {
            tried.samples.push(seconds);
        }
        tried.first.get_or_insert(seconds);
        self.drop_the_slow();
        if self.wanting().is_none() {
            self.settle();
        }
        self.conclude();
    }

    /// A candidate cannot run these calls after all.
    pub fn give_up(&mut self, candidate: usize) {
        if candidate != NATIVE {
            self.candidates[candidate].is_out = true;
            if self
                .choice
                .is_some_and(|choice| choice.candidate == candidate)
            {
                self.choice = None;
            }
            if self.wanting().is_none() {
                self.settle();
            }
            self.conclude();
        }
    }

    /// The candidate with the fewest samples, if one has too few: of those the MPI library, or the
    /// one that is predicted to be the fastest.
    fn wanting(&self) -> Option<usize> {
        let left = self.candidates.iter().enumerate();
        let left = left.filter(|(index, candidate)| !candidate.is_out && self.is_compared(*index));
        let samples = if self.tunes { SAMPLES_TO_TUNE } else { SAMPLES };
        let close = self.close(samples);
        let wanted = |index| match close.contains(&Some(index)) {
            true => SAMPLES_IF_CLOSE,
            false => samples,
        };
        let wanting = left.filter(|(index, candidate)| candidate.samples.len() < wanted(*index));
        let order = |(index, candidate): &(usize, &Record)| match *index {
            NATIVE if candidate.is_doubtful() => (0, 0.0),
            NATIVE => (candidate.samples.len(), 0.0),
            _ => (candidate.samples.len(), candidate.predicted),
        };
        let first = wanting.min_by(|a, b| {
            let ((fewest, soonest), (few, soon)) = (order(a), order(b));
            fewest.cmp(&few).then(soonest.total_cmp(&soon))
        });
        first.map(|(index, _)| index)
    }

    /// The MPI library and the fastest of ours, if these have so many samples and are close to each
    /// other.
    fn close(&self, samples: usize) -> [Option<usize>; 2] {
        let taking_part = |index: &usize| {
            let candidate = &self.candidates[*index];
            !candidate.is_out && candidate.samples.len() >= samples && self.is_compared(*index)
        };
        let median = |index: usize| self.candidates[index].median();
        let ours = (NATIVE + 1..self.candidates.len()).filter(taking_part);
        let fastest = ours.min_by(|&a, &b| median(a).total_cmp(&median(b)));
        let pair = Some(NATIVE).filter(taking_part).zip(fastest);
        let are_close = |&(native, ours): &(usize, usize)| {
            let error = self.candidates[native].error();
            let error = together(error, self.candidates[ours].error());
            let close = (CLOSE * median(native)).max(ERRORS * error);
            (median(native) - median(ours)).abs() < close
        };
        match pair.filter(are_close) {
            Some((native, ours)) => [Some(native), Some(ours)],
            None => [None; 2],
        }
    }

    /// Whether a candidate takes part: all do, until there is a choice; then it and its rival.
    fn is_compared(&self, index: usize) -> bool {
        self.choice.is_none_or(|choice| {
            choice.rival.is_some() && (choice.rival == Some(index) || choice.candidate == index)
        })
    }

    /// Whether a candidate runs calls that are no trials, or may.
    fn is_in_use(&self, candidate: usize) -> bool {
        candidate == NATIVE || self.choice() == Some(candidate)
    }

    fn is_affordable(&self, candidate: usize, overhead: f64) -> bool {
        self.excess_of(candidate, overhead) <= self.allowed()
    }

    /// Seconds that trials may have taken more than the MPI library by now.
    fn allowed(&self) -> f64 {
        match self.tunes {
            true => f64::INFINITY,
            false => (BUDGET * self.calls as f64 + ADVANCE) * self.native(),
        }
    }

    /// Seconds that trials will have taken more than the MPI library, after one of this candidate.
    fn excess_of(&self, candidate: usize, overhead: f64) -> f64 {
        self.excess + overhead + self.more(candidate, self.expected(candidate))
    }

    /// How many seconds more than the MPI library's a trial takes, if it takes so many.
    fn more(&self, candidate: usize, seconds: f64) -> f64 {
        match self.is_in_use(candidate) {
            true => 0.0,
            false => seconds - self.native(),
        }
    }

    /// What the MPI library takes, as far as is known.
    fn native(&self) -> f64 {
        let native = &self.candidates[NATIVE];
        match native.known() {
            Some(seconds) if !native.is_doubtful() => seconds,
            _ => native.predicted,
        }
    }

    /// The time that a trial of ours is expected to take. A candidate without samples is expected
    /// to be as much slower than predicted as the best of the others of ours: the one that was the
    /// least slower.
    fn expected(&self, candidate: usize) -> f64 {
        let tried = &self.candidates[candidate];
        if !tried.samples.is_empty() {
            return tried.likely();
        }
        let ours = self.candidates[NATIVE + 1..].iter();
        let sampled = ours.filter(|other| !other.samples.is_empty());
        let slower = sampled.map(|other| other.median() / other.predicted);
        let expected = tried.predicted * slower.reduce(f64::min).unwrap_or(1.0);
        // In the first time connections were opened.
        tried.first.map_or(expected, |first| first.min(expected))
    }

    /// The fastest so far; the MPI library, if it is about as fast, as far as the times tell.
    fn leading(&self) -> usize {
        if let Some(choice) = self.choice {
            return choice.candidate;
        }
        let left = self.candidates.iter().enumerate();
        let left = left.filter(|(_, candidate)| !candidate.is_out && !candidate.samples.is_empty());
        let fastest = left.min_by(|a, b| a.1.median().total_cmp(&b.1.median()));
        let native = &self.candidates[NATIVE];
        let is_surely_faster = |ours: &Record| {
            let error = together(native.error(), ours.error());
            native.samples.is_empty() || ours.median() < (1.0 - TIE) * native.median() - error
        };
        match fastest {
            Some((index, fastest)) if index == NATIVE || is_surely_faster(fastest) => index,
            _ => NATIVE,
        }
    }

    fn drop_the_slow(&mut self) {
        if self.choice.is_some() {
            return;
        }
        let leader = &self.candidates[self.leading()];
        let (median, slowest) = (leader.median(), leader.slowest());
        for (index, candidate) in self.candidates.iter_mut().enumerate() {
            let samples = candidate.samples.len();
            // Of one time alone nothing is concluded.
            let least = if self.is_connected && index == NATIVE {
                2
            } else {
                1
            };
            let is_hopeless = samples >= least && candidate.likely() > HOPELESS * median;
            let enough = match candidate.median() < (1.0 + CLOSE) * median {
                true => 5,
                false => 2,
            };
            let is_slower =
                samples >= enough && candidate.fastest() > slowest.max((1.0 + TIE) * median);
            candidate.is_out |= is_hopeless || is_slower;
        }
    }

    /// Makes the choice, or confirms it.
    fn settle(&mut self) {
        let Some(choice) = self.choice else {
            self.choose(self.leading());
            return;
        };
        let Some(rival) = choice.rival else { return };
        let (own, other) = (&self.candidates[choice.candidate], &self.candidates[rival]);
        let error = together(own.error(), other.error());
        let is_lost = other.median() < (1.0 - GAIN) * own.median() - ERRORS * error;
        let lost = if is_lost { choice.lost + 1 } else { 0 };
        let candidate = if lost == 2 { rival } else { choice.candidate };
        let mut choice = Incumbent {
            candidate,
            rival: None,
            lost: lost % 2,
            ..choice
        };
        match is_lost {
            true => choice.review_in(FIRST_LOOK, self.calls),
            false => choice.postpone(self.calls),
        }
        self.choice = Some(choice);
    }

    /// From now on this candidate runs the calls, if there is such a one.
    pub fn choose(&mut self, candidate: usize) {
        let candidate = candidate.min(self.candidates.len() - 1);
        self.choice = Some(Incumbent {
            candidate,
            look: self.calls + FIRST_LOOK,
            interval: FIRST_LOOK,
            rival: None,
            lost: 0,
        });
        self.conclude();
    }

    /// Starts to compare the choice with the fastest of the other kind: the MPI library with ours,
    /// or one of ours with the MPI library.
    fn look_again(&mut self) {
        let allowed = self.allowed();
        let Some(choice) = &mut self.choice else {
            return;
        };
        if choice.rival.is_some() {
            return;
        }
        let ours = self.candidates.iter().enumerate().skip(1);
        let seconds = |candidate: &Record| candidate.known().unwrap_or(candidate.predicted);
        let fastest = ours.min_by(|a, b| seconds(a.1).total_cmp(&seconds(b.1)));
        let native = seconds(&self.candidates[NATIVE]);
        let rival = match fastest {
            _ if choice.candidate != NATIVE => NATIVE,
            Some((index, fastest)) if seconds(fastest) < HOPELESS * native => index,
            // It may have been late, or kept from a processor.
            Some((index, seldom)) if seldom.first.is_some() && !seldom.is_sampled() => {
                if self.excess + seconds(seldom) - native > allowed {
                    choice.postpone(self.calls);
                    return;
                }
                index
            }
            _ => {
                choice.look = u64::MAX;
                return;
            }
        };
        choice.rival = Some(rival);
        for index in [choice.candidate, rival] {
            self.candidates[index].samples.clear();
            self.candidates[index].is_out = false;
        }
        self.conclude();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A machine: the predicted and the true times of the candidates, and how much they vary.
    #[derive(Clone, Debug)]
    struct Machine {
        predicted: Vec<f64>,
        times: Vec<f64>,
        /// What it takes to take a time.
        overhead: f64,
        /// Each time is up to this part longer.
        noise: f64,
        /// One time in so many takes three times as long.
        outliers: u64,
        seed: u64,
    }

    impl Machine {
        /// One where it costs nothing to take a time: of the MPI library and a candidate of ours.
        fn free(predicted: [f64; 2], times: [f64; 2], noise: f64, seed: u64) -> Machine {
            Machine {
                predicted: predicted.to_vec(),
                times: times.to_vec(),
                overhead: 0.0,
                noise,
                outliers: u64::MAX,
                seed,
            }
        }

        fn time(&mut self, candidate: usize) -> f64 {
            self.seed = self
                .seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let drawn = self.seed >> 33;
            let noise = 1.0 + self.noise * (drawn % 1000) as f64 / 1000.0;
            let outlier = if (drawn / 1000) % self.outliers == 0 {
                3.0
            } else {
                1.0
            };
            self.times[candidate] * noise * outlier
        }

        /// Runs calls. Returns the total of their times, and who ran the last.
        fn run(&mut self, learned: &mut Learned, calls: usize) -> (f64, usize) {
            let (mut total, mut last) = (0.0, NATIVE);
            for _ in 0..calls {
                match learned.turn(|_| self.overhead) {
                    Turn::Try(candidate) => {
                        let time = self.time(candidate);
                        learned.tell(candidate, time, self.overhead);
                        total += time + self.overhead;
                    }
                    Turn::Use(candidate) => {
                        total += self.time(candidate);
                        last = candidate;
                    }
                }
            }
            (total, last)
        }

        fn best(&self) -> f64 {
            self.times.iter().copied().fold(f64::MAX, f64::min)
        }
    }

    fn machines(noise: f64, outliers: u64) -> impl Strategy<Value = Machine> {
        let times = prop::collection::vec((0.2f64..5.0, 0.25f64..4.0), 2..6);
        (times, 0.0f64..0.5, any::<u64>()).prop_map(move |(times, overhead, seed)| Machine {
            overhead,
            predicted: times.iter().map(|(predicted, _)| *predicted).collect(),
            times: times
                .iter()
                .map(|(predicted, wrong)| predicted * wrong)
                .collect(),
            noise,
            outliers,
            seed,
        })
    }

    /// Seconds of 1000 calls after so many, where a time in twenty is an outlier, and how many are
    /// allowed: those of a good choice, and of one trial. The budget for one that is dear is saved
    /// up over more calls than these.
    fn late_calls(machine: &mut Machine, before: usize) -> (f64, f64) {
        let mut learned = Learned::new(&machine.predicted);
        machine.run(&mut learned, before);
        let (total, _) = machine.run(&mut learned, 1000);
        let mean = 1.0 + machine.noise / 2.0 + 2.0 / 20.0;
        let choice = machine.times[NATIVE].max(machine.best());
        let slowest = machine.times.iter().copied().fold(0.0, f64::max);
        let trial = 3.0 * (1.0 + machine.noise) * slowest + machine.overhead;
        (total, 1.25 * mean * 1000.0 * choice + trial)
    }

    /// What is far slower than predicted has its last trial after many thousand calls.
    #[test]
    fn a_late_trial_is_one() {
        let late = (5..40).filter(|thousands| {
            let mut machine = Machine {
                predicted: vec![0.41, 3.85, 1.93],
                times: vec![0.11, 15.1, 6.68],
                overhead: 0.18,
                noise: 0.05,
                outliers: 20,
                seed: 1,
            };
            let (total, allowed) = late_calls(&mut machine, thousands * 1000);
            assert!(total <= allowed, "{thousands}: {total} {allowed}");
            // Of 1000 calls by the MPI library the noise and the outliers are an eighth.
            total > 1000.0 * 1.125 * 0.11 + 0.5 * 15.1
        });
        assert!(late.count() > 0, "there was no late trial");
    }

    /// The candidates that may be tried, and the MPI library.
    fn tried(machine: &Machine) -> f64 {
        let learned = Learned::new(&machine.predicted);
        let left = learned.candidates.iter().zip(&machine.times);
        let left = left.filter(|(candidate, _)| !candidate.is_out);
        left.map(|(_, time)| *time).fold(f64::MAX, f64::min)
    }

    /// Where the MPI library is connected, its first time counts; of ours it does not.
    #[test]
    fn the_first_time_counts_where_there_is_nothing_to_connect() {
        let trials = |mut learned: Learned| {
            let turns = (0..200).map(|_| {
                let turn = learned.turn(|_| 0.01);
                if let Turn::Try(candidate) = turn {
                    learned.tell(candidate, if candidate == NATIVE { 1.0 } else { 0.5 }, 0.01);
                }
                turn
            });
            let turns: Vec<_> = turns.take_while(|turn| *turn != Turn::Use(1)).collect();
            let of = |candidate| {
                turns
                    .iter()
                    .filter(|&&turn| turn == Turn::Try(candidate))
                    .count()
            };
            [of(NATIVE), of(1)]
        };
        let learned = Learned::new(&[1.0, 0.9]);
        let [native, ours] = trials(learned.clone());
        assert_eq!(trials(learned.connected()), [native - 1, ours]);
    }

    /// One time that is far off does not put the MPI library out, nor is its time forgotten when
    /// the choice is reviewed.
    #[test]
    fn a_first_time_that_counts_may_be_far_off() {
        let mut learned = Learned::new(&[1e-3, 0.9]).connected();
        let mut reviewed = 0.0;
        for call in 0..2000 {
            let turn = learned.turn(|_| 0.01);
            if let Turn::Try(candidate) = turn {
                let is_late = candidate == NATIVE && learned.candidates[NATIVE].samples.is_empty();
                let seconds = if candidate == NATIVE { 0.8 } else { 1.0 };
                learned.tell(
                    candidate,
                    if is_late && call < 50 { 100.0 } else { seconds },
                    0.01,
                );
            }
            if learned.choice.is_some_and(|choice| choice.rival.is_some()) {
                reviewed = learned.native();
            }
        }
        assert_eq!(learned.choice(), Some(NATIVE));
        assert_eq!(reviewed, 0.8);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// What varies little is chosen right, whatever was predicted, if it is worth it.
        #[test]
        fn the_fastest_is_found(mut machine in machines(0.04, u64::MAX)) {
            let mut learned = Learned::new(&machine.predicted);
            let best = tried(&machine);
            // Candidates that are far slower than predicted are paid off in many calls.
            let mut last = NATIVE;
            for _ in 0..200 {
                let is_settled = learned.choice.is_some();
                last = machine.run(&mut learned, 1000).1;
                if is_settled {
                    break;
                }
            }
            prop_assert!(machine.times[last] <= 1.06 * best, "{last} {machine:?}");
        }

        /// Trials never cost much, also where predictions are wrong: of 50 calls or more, at most a
        /// tenth of what the MPI library takes, and one bad surprise.
        #[test]
        fn trials_are_within_their_budget(
            mut machine in machines(0.02, u64::MAX),
            calls in 50usize..400,
        ) {
            let mut learned = Learned::new(&machine.predicted);
            let native = machine.times[NATIVE];
            let slowest = machine.times.iter().copied().fold(0.0, f64::max);
            let (total, _) = machine.run(&mut learned, calls);
            let part = (1.0 + BUDGET + 0.05) * calls as f64;
            let allowed = (part + ADVANCE) * native + slowest;
            prop_assert!(total <= allowed, "{total} {allowed} {machine:?}");
        }

        /// Single times that are far off do not lead to a bad choice for ever.
        #[test]
        fn outliers_do_little_harm(mut machine in machines(0.05, 20)) {
            let (total, allowed) = late_calls(&mut machine, 20_000);
            prop_assert!(total <= allowed, "{total} {allowed} {machine:?}");
        }

        /// A choice follows a machine that changes for good.
        #[test]
        fn a_change_is_noticed(mut machine in machines(0.02, u64::MAX)) {
            let mut learned = Learned::new(&machine.predicted);
            machine.run(&mut learned, 1000);
            let Some(choice) = learned.choice else { return Ok(()) };
            if choice.candidate != NATIVE {
                machine.times[choice.candidate] = 3.0 * machine.times[NATIVE];
                let (_, last) = machine.run(&mut learned, 10_000);
                prop_assert!(machine.times[last] <= 1.03 * machine.times[NATIVE]);
            }
        }
    }

    /// What taking a time is expected to cost before it was measured, and after.
    #[test]
    fn taking_a_time_costs_two_operations() {
        let network = Network::decode([50_000_000, 1_000_000]);
        let nanoseconds = |seconds: f64| (seconds * 1e9).round();
        assert_eq!(nanoseconds(overhead(16, network)), 410_000.0);
        assert_eq!(nanoseconds(measured_overhead(3e-4)), 610_000.0);
    }

    /// What is tried until ours is used, and at which call it is.
    fn trials_until_used(mut learned: Learned, native: &[f64], overhead: f64) -> (Vec<usize>, u64) {
        let (mut trials, mut native) = (Vec::new(), native.iter());
        loop {
            match learned.turn(|_| overhead) {
                Turn::Use(candidate) if candidate != NATIVE => return (trials, learned.calls),
                Turn::Use(_) => {}
                Turn::Try(candidate) => {
                    trials.push(candidate);
                    let seconds = match candidate {
                        NATIVE => native.next().copied().unwrap_or(1.0),
                        _ => 0.4,
                    };
                    learned.tell(candidate, seconds, overhead);
                }
            }
        }
    }

    /// Calls by the MPI library that were timed before need not be tried again.
    #[test]
    fn native_times_from_before_count() {
        let learned = Learned::new(&[1.0, 0.5, 0.6]);
        let (all, _) = trials_until_used(learned.clone(), &[], 0.0);
        let (fewer, _) = trials_until_used(learned.with_native_times(&[1.0]), &[], 0.0);
        assert_eq!([NATIVE; 2], all[..2]);
        assert_eq!(fewer, all[2..]);
    }

    /// One native call that was far slower than the others, and that was timed before, does not put
    /// the MPI library out.
    #[test]
    fn one_native_time_from_before_may_be_far_too_long() {
        let mut machine = Machine::free([1.0, 1.5], [1.0, 1.5], 0.0, 1);
        let mut learned = Learned::new(&machine.predicted).with_native_times(&[10.0]);
        assert_eq!(machine.run(&mut learned, 50).1, NATIVE);
        assert_eq!(learned.choice(), Some(NATIVE));
    }

    /// One that was far too short does not put off trials.
    #[test]
    fn one_native_time_from_before_may_be_far_too_short() {
        let learned = Learned::new(&[1.0, 0.5, 0.6]).with_native_times(&[0.1]);
        let (_, call) = trials_until_used(learned, &[], 0.2);
        assert!(call < 20, "{call}");
    }

    /// Trials of what is faster pay for what it takes to take times: the next one need not wait.
    #[test]
    fn gains_pay_for_trials() {
        let learned = Learned::new(&[1.0, 0.5, 0.6]);
        let (trials, call) = trials_until_used(learned, &[], 0.2);
        assert_eq!(call, trials.len() as u64 + 1);
    }

    /// A first native call that was far faster than the others does not put off trials.
    #[test]
    fn a_first_native_time_may_be_far_too_short() {
        let learned = Learned::new(&[1.0, 0.5, 0.6]);
        let (_, usual) = trials_until_used(learned.clone(), &[], 0.2);
        let (_, call) = trials_until_used(learned, &[0.01], 0.2);
        assert_eq!(call, usual);
    }

    /// Seconds of a call natively and by the fastest of ours: predicted, and then as measured.
    #[test]
    fn times_are_predicted_until_they_are_measured() {
        let mut learned = Learned::new(&[1.0, f64::INFINITY, 0.9]);
        assert_eq!(learned.times(), [1.0, 0.9]);
        for seconds in [9.0, 0.7] {
            learned.tell(2, seconds, 0.0);
        }
        assert_eq!(learned.times(), [1.0, 0.7]);
        for seconds in [9.0, 0.8] {
            learned.tell(NATIVE, seconds, 0.0);
        }
        assert_eq!(learned.times(), [0.8, 0.7]);
        assert_eq!(Learned::new(&[1.0, f64::INFINITY]).times(), [1.0, 0.0]);
    }

    /// A candidate is out after two samples if both are slower than all of the fastest's, and after
    /// one if it is four times slower.
    #[test]
    fn the_slow_are_not_tried_for_long() {
        let after = |ours: &[f64]| {
            let mut learned = Learned::new(&[1.0, 1.0]);
            // The first of each does not count.
            for seconds in [9.0, 1.0, 1.2, 1.1] {
                learned.tell(NATIVE, seconds, 0.0);
            }
            for &seconds in [&9.0].into_iter().chain(ours) {
                learned.tell(1, seconds, 0.0);
            }
            learned.candidates[1].is_out
        };
        assert!(after(&[1.5, 1.5]) && !after(&[1.5]));
        assert!(!after(&[1.15, 1.5]));
        assert!(after(&[4.5]) && !after(&[4.3]));
    }

    /// A single time that is far off does not drop a candidate that was fast before; nor for ever
    /// one that was not, if it can be tried again at little cost.
    #[test]
    fn a_time_that_is_far_off_is_made_good() {
        for first in [0.5, 50.0] {
            let mut learned = Learned::new(&[1.0, 0.5]);
            let mut times = vec![first, 60.0].into_iter();
            let mut used = NATIVE;
            for _ in 0..10_000 {
                match learned.turn(|_| 0.01) {
                    Turn::Try(NATIVE) => learned.tell(NATIVE, 1.0, 0.01),
                    Turn::Try(ours) => learned.tell(ours, times.next().unwrap_or(0.5), 0.01),
                    Turn::Use(candidate) => used = candidate,
                }
            }
            assert_eq!(used, 1, "first {first}");
        }
    }

    /// Who is hopeless indeed is reviewed once, when the budget allows, and then no more.
    #[test]
    fn the_hopeless_are_reviewed_once() {
        let mut learned = Learned::new(&[1.0, 0.5]);
        let (mut total, mut latest, calls) = (0.0, 0, 1_000_000);
        for call in 0..calls {
            match learned.turn(|_| 0.01) {
                Turn::Try(NATIVE) => learned.tell(NATIVE, 1.0, 0.01),
                Turn::Try(ours) => {
                    learned.tell(ours, 50.0, 0.01);
                    (total, latest) = (total + 50.0, call);
                }
                Turn::Use(candidate) => assert_eq!(candidate, NATIVE),
            }
            assert!(
                total <= 2.0 * 50.0 + 1.5 * BUDGET * call as f64,
                "{call}: {total}"
            );
        }
        assert!(latest > 1000 && latest < 100_000, "{latest}");
    }

    /// A choice that was made elsewhere holds until its first review.
    #[test]
    fn a_given_choice_is_reviewed_like_others() {
        let mut learned = Learned::new(&[1.0, 0.5]);
        learned.count(50);
        learned.choose(1);
        let used = (0..1000).take_while(|_| learned.turn(|_| 0.0) == Turn::Use(1));
        assert_eq!(used.count() as u64, FIRST_LOOK - 1);
        // Of a profile with more candidates than there are.
        learned.choose(9);
        assert_eq!(learned.choice(), Some(1));
    }

    /// Calls that are made without asking are as good as those that were asked for.
    #[test]
    fn settled_calls_need_not_ask() {
        let told = || {
            let mut learned = Learned::new(&[1.0, 0.5]);
            while learned.choice().is_none() {
                if let Turn::Try(candidate) = learned.turn(|_| 0.0) {
                    learned.tell(candidate, [1.0, 0.5][candidate], 0.0);
                }
            }
            learned
        };
        let (mut asks, mut skips) = (told(), told());
        let settled = asks.settled_calls(|_| 0.0);
        assert_eq!(settled, FIRST_LOOK - 1);
        for _ in 0..settled {
            assert_eq!(asks.turn(|_| 0.0), Turn::Use(1));
        }
        skips.count(settled);
        let left = [&asks, &skips].map(|learned| learned.settled_calls(|_| 0.0));
        assert_eq!(left, [0; 2]);
        for learned in [&mut asks, &mut skips] {
            assert!(matches!(learned.turn(|_| 0.0), Turn::Try(_)));
            assert_eq!(learned.settled_calls(|_| 0.0), 0);
        }
    }

    /// Calls that need not ask, as no trial is affordable, are those that would not have tried.
    #[test]
    fn until_a_trial_is_affordable_nobody_asks() {
        for overhead in [0.1, 0.7, 3.0, 1e3] {
            let mut asks = Learned::new(&[1.0, 0.5]);
            let mut calls = 1;
            while let Turn::Use(candidate) = asks.turn(|_| overhead) {
                assert_eq!(candidate, NATIVE);
                calls += 1;
            }
            let mut skips = Learned::new(&[1.0, 0.5]);
            let settled = skips.settled_calls(|_| overhead);
            assert!(settled < calls && settled + 4 > calls, "{settled} {calls}");
            skips.count(settled);
            let asked = (1..).find(|_| matches!(skips.turn(|_| overhead), Turn::Try(_)));
            assert_eq!(asked.map(|asked| asked + settled), Some(calls));
        }
        assert_eq!(Learned::to_tune(&[1.0, 0.5]).settled_calls(|_| 1e3), 0);
        assert_eq!(
            Learned::new(&[0.0, 0.5]).settled_calls(|_| 1.0),
            u64::MAX - 2
        );
    }

    /// A choice that became a little slower than the MPI library is left although times vary.
    #[test]
    fn a_small_change_is_noticed_in_noise() {
        let left = (0..200).filter(|&seed| {
            let mut machine = Machine::free([1.0, 0.5], [1.0, 0.5], 0.2, seed);
            let mut learned = Learned::new(&machine.predicted);
            machine.run(&mut learned, 100);
            assert_eq!(learned.choice(), Some(1));
            machine.times[1] = 1.15;
            machine.run(&mut learned, 20_000).1 == NATIVE
        });
        let left = left.count();
        assert!(left > 180, "{left}");
    }

    /// A candidate that was the last to be sampled, and cannot run the calls after all, ends it.
    #[test]
    fn who_gives_up_is_not_waited_for() {
        let mut learned = Learned::new(&[1.0, 0.9]);
        for _ in 0..100 {
            match learned.turn(|_| 0.0) {
                Turn::Try(NATIVE) => learned.tell(NATIVE, 1.0, 0.0),
                Turn::Try(candidate) => learned.give_up(candidate),
                Turn::Use(_) => {}
            }
        }
        assert_eq!(learned.choice(), Some(NATIVE));
        assert!(learned.settled_calls(|_| 0.0) > 0);
    }

    /// The MPI library, chosen for calls of which no candidate of ours was timed here, is looked at
    /// again.
    #[test]
    fn a_choice_from_elsewhere_is_reviewed() {
        let mut machine = Machine::free([1.0, 0.5], [1.0, 0.5], 0.01, 1);
        let mut learned = Learned::new(&machine.predicted);
        learned.choose(NATIVE);
        assert_eq!(machine.run(&mut learned, 100).1, NATIVE);
        assert_eq!(machine.run(&mut learned, 1000).1, 1);
    }

    /// One that is a little slower than the MPI library is seldom taken, although single times vary
    /// by much more than that.
    #[test]
    fn noise_seldom_hides_who_is_faster() {
        let wrong = (0..1000).filter(|&seed| {
            let mut machine = Machine::free([1.0, 0.8], [1.0, 1.06], 0.3, seed);
            let mut learned = Learned::new(&machine.predicted);
            machine.run(&mut learned, 2000);
            learned.choice() == Some(1)
        });
        let wrong = wrong.count();
        assert!(wrong < 20, "{wrong}");
    }

    /// Late processes and noise do not flip a choice between two that take as long.
    #[test]
    fn a_tie_is_the_mpi_librarys() {
        let mut machine = Machine::free([1.0, 0.8], [1.0, 0.995], 0.01, 1);
        let mut learned = Learned::new(&machine.predicted);
        for _ in 0..100 {
            let (_, last) = machine.run(&mut learned, 100);
            assert_eq!(last, NATIVE);
        }
    }

    #[test]
    fn the_mpi_library_alone_needs_no_trials_for_long() {
        let mut learned = Learned::new(&[1.0]);
        let turns: Vec<_> = (0..10)
            .map(|_| {
                let turn = learned.turn(|_| 0.0);
                if let Turn::Try(candidate) = turn {
                    learned.tell(candidate, 1.0, 0.0);
                }
                turn
            })
            .collect();
        assert_eq!(turns[..4], [Turn::Try(NATIVE); 4]);
        assert_eq!(turns[4..], [Turn::Use(NATIVE); 6]);
    }

    /// Who is out is not waited for, and others are chosen.
    #[test]
    fn only_the_choice_itself_is_given_up() {
        let mut learned = Learned::new(&[1.0, 0.5, 0.6]);
        learned.choose(1);
        learned.give_up(2);
        assert_eq!(learned.choice(), Some(1));
        learned.give_up(1);
        assert_eq!(learned.choice(), None);
        learned.give_up(NATIVE);
        assert!(matches!(learned.turn(|_| 0.0), Turn::Try(NATIVE)));
    }

    /// Who is given up runs no call until the next review, however fast it was.
    #[test]
    fn the_fastest_is_given_up() {
        let mut machine = Machine::free([1.0, 0.5], [1.0, 0.5], 0.0, 1);
        let mut learned = Learned::new(&machine.predicted);
        machine.run(&mut learned, 60);
        assert_eq!(learned.choice(), Some(1));
        learned.give_up(1);
        for _ in 0..FIRST_LOOK {
            match learned.turn(|_| 0.0) {
                Turn::Use(candidate) => assert_eq!(candidate, NATIVE),
                Turn::Try(candidate) => {
                    assert_eq!(candidate, NATIVE);
                    learned.tell(candidate, 1.0, 0.0);
                }
            }
        }
    }
}
