//! When it is worth finding out more about a communicator: how long its calls take, and what
//! messages take on its network.
//!
//! It is a function of the calls so far, of which all processes see the same, and of what they have
//! told each other. It asks no clock.
//!
//! ```text
//! each call:  nothing, until a survey is predicted to cost little beside the calls so far;
//!             then all wait for each other, and the call is timed. Before a later call comes the
//!             survey: on which node is each process, how long did that call take, and does rank 0
//!             know the network of another communicator of as many processes?
//!             if it does: nothing, until a private communicator costs little beside the calls so
//!             far; then that network and what was learned on it, if it has as many nodes
//!             nothing, until a measurement of the network costs little beside the calls so far;
//!             then, between nodes, a survey, if there was none
//!             then what rank 0 knows by now, or else that measurement. It is the end of this stage
//! ```
//!
//! Before a survey, times are those of the shipped networks. After it they are corrected by how
//! much longer, or shorter, the timed call took: from when all had come to when the last was done.
//! On ports of 40 Mbit/s a broadcast of 256 KiB takes some 600 times as long as predicted, so a
//! measurement pays long before it would by predictions. What the call takes one process says
//! little: on such ports a broadcast of 16 KiB to 16 processes takes 12.8 ms, but half of them 1 to
//! 3 ms. More surveys follow at growing distances, and the median of the timed calls counts. The
//! first call opens connections, so it is not timed. Before one that is worth a measurement in any
//! case there is a survey without a time. On one node calls take so little time that they are
//! surveyed later, if the launcher tells that there is one.
//!
//! A survey is three small operations, with the wait, of which one is timed: it tells what another
//! survey takes, and a measurement. On one node, where that does not matter, it is two. A
//! measurement between nodes makes a private communicator, and opens connections: with Open MPI on
//! 16 emulated hosts it took 30 to 50 times as long as a small operation, and 4 to 20 times as long
//! as its messages were predicted to take. A process that loses its processor makes a call long,
//! and a measurement too early.
//!
//! Until a measurement the cost model says who runs a call. Where it says circulant, the next call
//! like the timed one is timed, too, and run by the other of circulant and the MPI library. Then
//! the survey tells both times. Whoever was faster runs such calls until the next survey, which
//! compares both anew: a call that opened connections, or lost its processor, decides for a while.

use super::candidates::slot_bytes;
use super::learned::{
    ADVANCE, BUDGET, SHARED_MEMORY, UNUSUAL, median, private_communicator, slots,
};
use super::{Cost, Facts, Network, Operation, facts::phases, native};

/// Bytes of a small message by which a network is measured, and how often it is sent after a first
/// time that opens connections.
pub const SMALL: (usize, usize) = (8, 4);
/// The same for a large message, which MPI libraries still send eagerly. On slow ports half of a
/// measurement is these messages. The slower one of two counts: the other may have passed a port
/// faster after a pause.
pub const LARGE: (usize, usize) = (32 << 10, 2);

/// From one survey to the next, what the calls cost grows by this factor.
const SURVEYS_APART: u64 = 4;

/// Small operations of a survey, unless all processes are on one node.
const OPERATIONS_OF_SURVEY: f64 = 3.0;
/// What takes longer than predicted counts so many times the prediction at most, since it may have
/// waited for processors.
const MOST_TIMES_PREDICTED: f64 = 6.0;
/// The survey waits for a call like the timed one during so many calls.
const PATIENCE: u64 = 8;
/// The MPI library counts as faster than circulant if it was so many times as fast.
const CLEARLY: f64 = 1.1;

/// What is to be done before a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preparation {
    /// Nothing.
    Wait,
    /// All processes wait for each other, and the call is timed; so is a small operation, unless
    /// they are on one node.
    Meet,
    /// All processes wait for each other, and the call is timed. It is like the one that was timed
    /// before, and run by the other of circulant and the MPI library.
    Compare,
    /// All processes tell on which node they are, and how long what was timed took.
    Survey,
    /// Rank 0 tells what it knows of such communicators.
    TakeOver,
    /// The network is measured, over a private communicator, unless rank 0 knows it by now.
    Measure,
}

/// What is known of the calls on a communicator whose network is not known.
#[derive(Clone, Debug, Default)]
pub struct Prospect {
    /// The predicted cost of the calls so far by the MPI library; and the least that it may have
    /// been: the cost on one node.
    spent: Cost,
    least: Cost,
    /// Calls so far, with the one that was counted.
    calls: u64,
    /// The operations and classes of sizes of the calls so far, and whether the call that was
    /// counted is the first of its own: it may open connections.
    seen: Vec<(Operation, u32)>,
    is_first: bool,
    /// The call to which all processes came together: the next survey tells what it took.
    met: Option<Met>,
    timed: Vec<Timed>,
    /// Calls that the MPI library ran faster than circulant, though the cost model said otherwise.
    native: Vec<Facts>,
    /// Whether there was a survey. Which process is on which node may be known from elsewhere.
    is_surveyed: bool,
    /// The seconds that a small operation took before the latest survey, or 0.
    small_operation: f64,
    /// Whether rank 0 knows a communicator of as many processes, and was not asked about it.
    has_known: bool,
    /// The next survey is made when the least cost has come to this.
    next_survey: Cost,
}

/// What all processes have told each other.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The timed call.
    pub timed: SurveyedCall,
    /// The one that is compared with it.
    pub compared: SurveyedCall,
    /// The seconds that a small operation took each process, or 0 if none was timed. Who comes last
    /// to it sees the least of it.
    pub operations: Vec<f64>,
    /// Whether rank 0 knows a communicator of as many processes.
    pub has_known: bool,
}

/// A call of which all processes have told what it took them.
#[derive(Clone, Copy, Debug, Default)]
pub struct SurveyedCall {
    /// The seconds until all had left it, or 0 if there was none.
    pub seconds: f64,
    /// Whether the MPI library ran it.
    pub is_native: bool,
}

/// A call to which all processes came together.
#[derive(Clone, Copy, Debug)]
struct Met {
    facts: Facts,
    /// Calls that were counted since.
    since: u64,
    /// Whether it is the first of its operation and class of sizes: it may open connections.
    is_first: bool,
    comparison: Comparison,
}

/// Whether another call is timed, to be compared with the timed one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comparison {
    /// None is.
    Needless,
    /// The next one like it is.
    Due,
    /// One was.
    Made,
}

/// A call that was timed.
#[derive(Clone, Copy, Debug)]
struct Timed {
    facts: Facts,
    /// From when all had come to it.
    seconds: f64,
    /// Whether the MPI library ran it.
    is_native: bool,
    /// Whether it was the first of its operation and class of sizes.
    is_first: bool,
}

impl Prospect {
    /// Counts a call, before it is made.
    pub fn count(&mut self, facts: &Facts) {
        let native = native::shipped_cost(facts);
        self.spent = self.spent.and(native);
        self.least = self.least.and(least(facts));
        self.calls += 1;
        if let Some(met) = &mut self.met {
            met.since += 1;
        }
        let class = (facts.operation, facts.bytes.max(1).ilog2());
        self.is_first = !self.seen.contains(&class);
        if self.is_first {
            self.seen.push(class);
        }
    }

    /// What is to be done before the call that was counted, on so many nodes, if that is known.
    pub fn step(&self, facts: &Facts, nodes: Option<usize>) -> Preparation {
        match nodes {
            _ if self.met.is_some() => self.after_meeting(facts),
            Some(nodes) if self.has_known && self.service(facts, nodes).is_affordable() => {
                Preparation::TakeOver
            }
            Some(nodes) if self.measurement(facts, nodes).is_affordable() => {
                self.way_to_measurement(nodes)
            }
            _ if self.is_survey_affordable(facts, nodes) => self.way_to_survey(),
            _ => Preparation::Wait,
        }
    }

    /// The timed call is compared with the next one like it, if that comes soon.
    fn after_meeting(&self, facts: &Facts) -> Preparation {
        match self.met {
            Some(met) if met.comparison == Comparison::Due => match met.facts == *facts {
                true => Preparation::Compare,
                false if met.since <= PATIENCE => Preparation::Wait,
                false => Preparation::Survey,
            },
            _ => Preparation::Survey,
        }
    }

    /// Between nodes there has to be a survey.
    fn way_to_measurement(&self, nodes: usize) -> Preparation {
        match nodes == 1 || self.is_surveyed {
            true => Preparation::Measure,
            false => self.way_to_survey(),
        }
    }

    /// A call is timed for it, but not the first one.
    fn way_to_survey(&self) -> Preparation {
        match self.calls {
            1 => Preparation::Survey,
            _ => Preparation::Meet,
        }
    }

    /// All processes have come to the call that was counted: it is timed.
    pub fn met(&mut self, facts: &Facts) {
        self.met = Some(Met {
            facts: *facts,
            since: 0,
            is_first: self.is_first,
            comparison: Comparison::Needless,
        });
    }

    /// All processes have come to a call that is compared: it is timed.
    pub fn compare(&mut self) {
        if let Some(met) = &mut self.met {
            met.comparison = Comparison::Made;
        }
    }

    /// Whether the MPI library runs the call that was counted, though the cost model says that
    /// circulant is faster: since it was faster, or to compare both. If the call is timed, it is
    /// compared with the next one like it.
    pub fn is_native(&mut self, facts: &Facts) -> bool {
        let was_faster = self.native.iter().any(|other| are_alike(other, facts));
        match &mut self.met {
            Some(met) if met.comparison == Comparison::Made => !was_faster,
            Some(met) if met.since == 0 && !met.is_first => {
                met.comparison = Comparison::Due;
                was_faster
            }
            _ => was_faster,
        }
    }

    /// Whether a call was timed since the latest survey.
    pub fn has_met(&self) -> bool {
        self.met.is_some()
    }

    /// For how many calls of these facts, after the one that was counted, there is nothing to be
    /// done, nor a time to be taken: half of those until there is, since other calls count, too.
    pub fn idle_calls(&self, facts: &Facts, nodes: Option<usize>) -> u64 {
        if self.met.is_some() {
            return 0;
        }
        let due = self.next_survey.on(assumed(nodes));
        let survey = self.survey(facts, nodes).missing(due);
        let again = self.another_survey(facts, nodes);
        let survey = again.map_or(survey, |again| again.missing(0.0).max(survey));
        let measurement = nodes.map(|nodes| self.measurement(facts, nodes).missing(0.0));
        let service = nodes.filter(|_| self.has_known);
        let service = service.map(|nodes| self.service(facts, nodes).missing(0.0));
        let all = [Some(survey), measurement, service];
        all.into_iter().flatten().min().unwrap_or(0) / 2
    }

    /// So many calls of these facts were made without asking.
    pub fn skip(&mut self, facts: &Facts, calls: u64) {
        self.spent = self.spent.and(native::shipped_cost(facts).times(calls));
        self.least = self.least.and(least(facts).times(calls));
        self.calls += calls;
    }

    /// The outcome of a survey.
    pub fn tell(&mut self, survey: Survey) {
        if let Some(met) = self.met.take().filter(|_| survey.timed.seconds > 0.0) {
            self.keep(&met, survey.timed, survey.compared);
        }
        self.is_surveyed = true;
        self.small_operation = median(survey.operations).unwrap_or(0.0);
        self.has_known = survey.has_known;
        self.next_survey = self.least.times(SURVEYS_APART);
    }

    /// Keeps the time of whoever runs such calls from now on.
    fn keep(&mut self, met: &Met, timed: SurveyedCall, compared: SurveyedCall) {
        let is_compared = compared.seconds > 0.0 && compared.is_native != timed.is_native;
        let winner = match (is_compared, timed.is_native) {
            (false, _) => timed,
            (true, true) => faster(compared, timed),
            (true, false) => faster(timed, compared),
        };
        if is_compared {
            self.native.retain(|other| !are_alike(other, &met.facts));
            self.native.extend(winner.is_native.then_some(met.facts));
        }
        self.timed.push(Timed {
            facts: met.facts,
            seconds: winner.seconds,
            is_native: winner.is_native,
            // A native call that was compared may be the first one.
            is_first: met.is_first || winner.is_native != timed.is_native,
        });
    }

    /// Rank 0 has told what it knows. If that is nothing, it is asked again before a measurement.
    pub fn was_told(&mut self) {
        self.has_known = false;
    }

    /// The seconds of the timed calls that the MPI library ran and that are `such`, but for those
    /// that may have opened connections.
    pub fn native_times(&self, such: impl Fn(&Facts) -> bool) -> Vec<f64> {
        let timed = self.timed.iter();
        let timed = timed.filter(|timed| timed.is_native && !timed.is_first && such(&timed.facts));
        timed.map(|timed| timed.seconds).collect()
    }

    /// Whether a survey costs little beside the calls so far. There must be a call to time, unless
    /// a measurement is worth it between nodes, and a call takes long even on one node.
    fn is_survey_affordable(&self, facts: &Facts, nodes: Option<usize>) -> bool {
        /// Seconds.
        const LONG: f64 = 600e-6;
        let survey = self.survey(facts, nodes);
        let is_worth_it = || {
            let is_long = least(facts).on(Network::SHARED) > LONG;
            is_long && self.measurement(facts, facts.processes).is_affordable()
        };
        (self.calls > 1 || is_worth_it())
            && survey.spent >= self.next_survey.on(assumed(nodes))
            && survey.is_affordable()
            && self
                .another_survey(facts, nodes)
                .is_none_or(|again| again.is_affordable())
    }

    /// Operations of q rounds, before and after a call. They may take more than a call at once,
    /// unless that is on one node: on 16 processes they come after 13 broadcasts of 16 KiB,
    /// and two of 64 KiB.
    fn survey(&self, facts: &Facts, nodes: Option<usize>) -> Expense {
        let network = assumed(nodes);
        let operations = match nodes {
            Some(1) => 2.0,
            _ => OPERATIONS_OF_SURVEY,
        };
        let rounds = operations * f64::from(phases(facts.processes));
        Expense {
            price: UNUSUAL + network.seconds(rounds, 0.0),
            spent: self.least.on(network),
            call: least(facts).on(network),
            advance: if nodes == Some(1) { ADVANCE } else { 2.4 },
        }
    }

    /// Another survey between nodes, of which the latest one has told what it takes.
    fn another_survey(&self, facts: &Facts, nodes: Option<usize>) -> Option<Expense> {
        let nodes = nodes.filter(|&nodes| nodes > 1 && self.is_surveyed)?;
        let rounds = f64::from(phases(facts.processes));
        let survey = self.beside_calls(facts, nodes, |network| {
            let predicted = UNUSUAL + network.seconds(rounds, 0.0);
            OPERATIONS_OF_SURVEY * self.small_operation.min(MOST_TIMES_PREDICTED * predicted)
        });
        Some(Expense {
            advance: 0.0,
            ..survey
        })
    }

    /// To make what calls of ours need.
    fn service(&self, facts: &Facts, nodes: usize) -> Expense {
        self.beside_calls(facts, nodes, |network| equipment(facts, nodes, network))
    }

    /// To make what calls of ours need, and to measure the network. Between nodes that is at least
    /// so many small operations.
    fn measurement(&self, facts: &Facts, nodes: usize) -> Expense {
        const OPERATIONS: f64 = 30.0;
        // An operation of q rounds before the messages, and one after them.
        let messages = [SMALL, LARGE].map(|(bytes, times)| (bytes * (1 + times), 1 + times));
        let [(few, short), (many, long)] = messages;
        let rounds = 2.0 * f64::from(phases(facts.processes)) + (short + long) as f64;
        let least = match nodes {
            1 => 0.0,
            _ => OPERATIONS * self.small_operation,
        };
        self.beside_calls(facts, nodes, |network| {
            let made = equipment(facts, nodes, network);
            let predicted = made + network.seconds(rounds, (few + many) as f64);
            predicted.max(least.min(MOST_TIMES_PREDICTED * predicted))
        })
    }

    /// This network, corrected by the timed calls, where `cost_of` is what such calls are taken to
    /// cost. Their median counts; of an even number the slower one in the middle, since a port may
    /// let some bytes pass faster after a pause.
    fn corrected(&self, shipped: Network, cost_of: impl Fn(&Facts) -> Cost) -> Network {
        let timed = self.timed.iter();
        let mut timed: Vec<_> = timed
            .map(|timed| (cost_of(&timed.facts), timed.seconds))
            .collect();
        let excess = |&(cost, seconds): &(Cost, f64)| seconds / cost.on(shipped);
        timed.sort_by(|one, other| excess(one).total_cmp(&excess(other)));
        let median = timed.get(timed.len() / 2).copied();
        median.map_or(shipped, |median| shipped.corrected_by(median))
    }

    /// Something beside the calls. `price` gets the slowest network that the timed calls allow. All
    /// is predicted for shared memory, or for TCP.
    fn beside_calls(
        &self,
        facts: &Facts,
        nodes: usize,
        price: impl FnOnce(Network) -> f64,
    ) -> Expense {
        let shipped = assumed(Some(nodes));
        let cost_of = |facts: &Facts| match nodes {
            1 => least(facts),
            _ => native::shipped_cost(facts),
        };
        let network = self.corrected(shipped, cost_of);
        let slowest = match nodes {
            1 => network,
            _ => self.corrected(shipped, least_sent),
        };
        let spent = match nodes {
            1 => self.least,
            _ => self.spent,
        };
        Expense {
            price: price(slowest),
            spent: spent.on(network),
            call: cost_of(facts).on(network),
            advance: advance(facts, nodes),
        }
    }
}

/// What something costs beside calls, in predicted seconds.
struct Expense {
    price: f64,
    /// All calls so far.
    spent: f64,
    /// One more.
    call: f64,
    /// How many calls it may take at once.
    advance: f64,
}

impl Expense {
    fn is_affordable(&self) -> bool {
        self.price <= BUDGET * self.spent + self.advance * self.call
    }

    /// How many more such calls there have to be before it is affordable and so much is spent.
    fn missing(&self, least_spent: f64) -> u64 {
        let needed = (self.price - self.advance * self.call) / BUDGET;
        ((needed.max(least_spent) - self.spent) / self.call) as u64
    }
}

/// What is assumed of the network of so many nodes, if that is known.
fn assumed(nodes: Option<usize>) -> Network {
    match nodes {
        Some(1) => Network::SHARED,
        _ => Network::SHIPPED,
    }
}

/// Seconds that it takes to make what calls of ours need on so many nodes: a private communicator,
/// and on one node memory that processes share, which the first trial makes.
fn equipment(facts: &Facts, nodes: usize, network: Network) -> f64 {
    /// The most that processes share without a setting.
    const MOST: u64 = 16 << 20;
    let made = private_communicator(facts.processes, nodes, network);
    match nodes {
        1 => {
            let slot = slot_bytes(MOST, facts.processes).unwrap_or(0) as u64;
            made + SHARED_MEMORY + slots(facts.processes, facts.wanted_slot().min(slot))
        }
        _ => made,
    }
}

/// What a call by the MPI library costs, if it sends no more than a port has to. Where one process
/// has all data, MPI libraries are known to send more.
fn least_sent(facts: &Facts) -> Cost {
    let (cost, bytes) = (native::shipped_cost(facts), facts.bytes as f64);
    let least = match facts.operation {
        Operation::Allreduce => 2.0 * bytes,
        _ if is_one_sided(facts) => cost.bytes,
        _ => bytes,
    };
    Cost {
        bytes: cost.bytes.min(least),
        ..cost
    }
}

/// Whether one process has, or gets, most of the data.
fn is_one_sided(facts: &Facts) -> bool {
    facts.largest > facts.bytes / 2
}

/// How many calls of the MPI library a measurement may take at once: as many as the MPI library may
/// take longer than the port needs. Between nodes that is most where one process has all data, and
/// little where all have parts of about the same size. Of reductions of rounded numbers, mostly
/// only the number of blocks depends on what is measured: that is little, too. On one node it is
/// more where all processes copy or combine equal parts at the same time.
fn advance(facts: &Facts, nodes: usize) -> f64 {
    let (bytes, largest) = (facts.bytes as f64, facts.largest as f64);
    let is_regular = largest * facts.processes as f64 <= 1.5 * bytes;
    match facts.operation {
        Operation::Allreduce => 1.5,
        Operation::ReduceScatter | Operation::ReduceScatterBlock if nodes == 1 => 1.5,
        Operation::Allgather | Operation::Allgatherv if nodes == 1 && is_regular => 1.5,
        _ if nodes == 1 => ADVANCE,
        _ if facts.has_rounded_result() => ADVANCE,
        _ if is_one_sided(facts) => 3.0,
        _ if is_regular => ADVANCE,
        _ => 1.5,
    }
}

/// The one that was clearly faster, or else circulant's.
fn faster(ours: SurveyedCall, native: SurveyedCall) -> SurveyedCall {
    match CLEARLY * native.seconds < ours.seconds {
        true => native,
        false => ours,
    }
}

/// Whether calls are of one operation and of about one size, in all and by parts.
fn are_alike(one: &Facts, other: &Facts) -> bool {
    let class = |facts: &Facts| {
        let sizes = [facts.bytes, facts.largest].map(|bytes| bytes.max(1).ilog2());
        (facts.operation, sizes, facts.order)
    };
    class(one) == class(other)
}

/// The least that a call by the MPI library may cost.
fn least(facts: &Facts) -> Cost {
    native::shipped_cost(&Facts { nodes: 1, ..*facts })
}

#[cfg(test)]
mod tests {
    use super::super::Order;
    use super::*;

    fn bcast(bytes: u64) -> Facts {
        Facts {
            bytes,
            largest: bytes,
            ..Facts::new(Operation::Bcast, 16)
        }
    }

    /// A survey of a native call that took so many seconds.
    fn timed(seconds: f64) -> Survey {
        told(seconds, true)
    }

    /// A survey of a call that took so many seconds.
    fn told(seconds: f64, is_native: bool) -> Survey {
        Survey {
            timed: SurveyedCall { seconds, is_native },
            ..Survey::default()
        }
    }

    /// At which call of `facts` its network is measured, if a call takes `seconds`, and how many
    /// surveys there were.
    fn measured_at(facts: Facts, nodes: usize, seconds: f64) -> (usize, usize) {
        measured_with(facts, nodes, seconds, 0.0)
    }

    /// The same, where a survey takes so many seconds.
    fn measured_with(facts: Facts, nodes: usize, seconds: f64, survey: f64) -> (usize, usize) {
        let (mut prospect, mut known, mut surveys) = (Prospect::default(), None, 0);
        for call in 1.. {
            prospect.count(&facts);
            if prospect.step(&facts, known) == Preparation::Survey {
                known = Some(nodes);
                surveys += 1;
                // Who comes last sees little of an operation.
                let (last, others) = (vec![1e-6; 5], vec![survey; 11]);
                prospect.tell(Survey {
                    operations: [last, others].concat(),
                    ..timed(seconds)
                });
            }
            match prospect.step(&facts, known) {
                Preparation::Measure => return (call, surveys),
                Preparation::Meet => prospect.met(&facts),
                _ => {}
            }
        }
        unreachable!("every call adds to what may be spent")
    }

    /// On ports of 40 Mbit/s broadcasts take 400 ms, 80 ms and 12 ms. A measurement, of some 30 ms,
    /// need not wait for long.
    #[test]
    fn slow_networks_are_measured_soon() {
        for (bytes, seconds, latest) in [(262_144, 0.4, 3), (65_536, 0.08, 4), (16_384, 0.012, 14)]
        {
            let (call, surveys) = measured_at(bcast(bytes), 16, seconds);
            assert!(call <= latest && surveys <= 2, "{bytes} {call} {surveys}");
        }
    }

    /// On ports of 160 Mbit/s a measurement took 16 to 21 ms, and a small operation 0.3 to 0.9 ms.
    /// Beside 50 broadcasts of 16 KiB, of 2.7 ms, that would be much; beside larger ones it is
    /// little.
    #[test]
    fn a_measurement_waits_where_a_survey_takes_long() {
        let call = |bytes, seconds| measured_with(bcast(bytes), 16, seconds, 0.6e-3).0;
        assert!(call(16_384, 2.7e-3) > 100);
        assert!(call(65_536, 18e-3) <= 5);
        assert!(call(262_144, 70e-3) <= 4);
        // On one node there are no connections.
        let on_one = |survey| measured_with(bcast(65_536), 1, 60e-6, survey).0;
        assert_eq!(on_one(0.6e-3), on_one(0.0));
    }

    /// What rank 0 knows is taken over before a measurement would be affordable. If it is of other
    /// nodes, that goes on.
    #[test]
    fn what_rank_0_knows_is_taken_over() {
        let (mut prospect, facts) = (Prospect::default(), bcast(16_384));
        let mut nodes = None;
        let taken_over = (1..1000).find(|_| {
            prospect.count(&facts);
            match prospect.step(&facts, nodes) {
                Preparation::Meet => prospect.met(&facts),
                Preparation::Survey => {
                    nodes = Some(16);
                    prospect.tell(Survey {
                        has_known: true,
                        ..timed(1.5e-3)
                    });
                }
                _ => {}
            }
            prospect.step(&facts, nodes) == Preparation::TakeOver
        });
        let measured = measured_with(facts, 16, 1.5e-3, 0.6e-3).0;
        assert!(
            taken_over.is_some_and(|call| call < measured),
            "{taken_over:?} {measured}"
        );
        prospect.was_told();
        assert_ne!(prospect.step(&facts, nodes), Preparation::TakeOver);
    }

    /// Where the nodes are known from elsewhere, a survey comes before a measurement between nodes
    /// all the same. On one node there is none.
    #[test]
    fn a_survey_precedes_a_measurement_between_nodes() {
        let (survey, measure) = (Preparation::Survey, Preparation::Measure);
        for (nodes, bytes, steps) in [
            (16, 1 << 18, &[survey, measure][..]),
            (16, 1 << 26, &[survey, measure]),
            (1, 1 << 28, &[measure]),
        ] {
            let (facts, mut prospect) = (bcast(bytes), Prospect::default());
            prospect.count(&facts);
            for &expected in steps {
                assert_eq!(prospect.step(&facts, Some(nodes)), expected);
                if expected == survey {
                    prospect.tell(Survey {
                        operations: vec![1e-6; 16],
                        ..Survey::default()
                    });
                }
            }
        }
    }

    /// One timed call of three that was delayed does not count, nor does one of two or three that
    /// was faster than the others.
    #[test]
    fn the_median_of_timed_calls_counts() {
        let facts = bcast(65_536);
        for (times, typical) in [
            (&[0.5][..], 0.5),
            (&[0.5, 0.02], 0.5),
            (&[0.02, 0.5], 0.5),
            (&[0.5, 0.02, 0.03], 0.03),
            (&[0.5, 0.02, 0.4], 0.4),
        ] {
            let mut prospect = Prospect::default();
            for &seconds in times {
                prospect.met(&facts);
                prospect.tell(timed(seconds));
            }
            let corrected = |timed| Prospect {
                timed,
                ..Prospect::default()
            };
            let network = |prospect: &Prospect| {
                let network = prospect.corrected(Network::SHIPPED, native::shipped_cost);
                network.encode()
            };
            let expected = corrected(vec![Timed {
                facts,
                seconds: typical,
                is_native: true,
                is_first: false,
            }]);
            assert_eq!(network(&prospect), network(&expected));
        }
    }

    /// A survey may have waited for processors. That puts off neither the next one nor a
    /// measurement for ever.
    #[test]
    fn a_survey_that_took_long_is_not_the_last_word() {
        let waits = |survey| measured_with(bcast(16_384), 16, 1.5e-3, survey);
        let (call, surveys) = waits(1.0);
        assert!(surveys > 1 && call < 1000, "{call} {surveys}");
        assert_eq!(waits(10.0), (call, surveys));
    }

    /// Calls that the MPI library ran, and that were timed, are remembered; but not the first of an
    /// operation and a class of sizes.
    #[test]
    fn native_times_are_those_of_such_calls() {
        let mut prospect = Prospect::default();
        for (bytes, seconds, is_native) in [
            (65_536, 9.0, true),
            (65_536, 0.5, true),
            (65_536, 0.2, false),
            (9, 0.1, true),
        ] {
            prospect.count(&bcast(bytes));
            prospect.met(&bcast(bytes));
            prospect.tell(told(seconds, is_native));
        }
        // Nobody met for this one.
        prospect.tell(timed(0.3));
        assert_eq!(prospect.native_times(|_| true), [0.5]);
        prospect.count(&bcast(9));
        prospect.met(&bcast(9));
        prospect.tell(timed(0.4));
        assert_eq!(prospect.native_times(|facts| facts.bytes == 9), [0.4]);
    }

    /// A second survey, which the first has shown to take as long as two calls, waits for longer
    /// than one that takes little beside a call.
    #[test]
    fn a_dear_survey_is_seldom_repeated() {
        let second = |operation: f64| {
            let (mut prospect, facts) = (Prospect::default(), bcast(16_384));
            let mut surveys = (1..10_000).filter(|_| {
                prospect.count(&facts);
                let nodes = prospect.is_surveyed.then_some(16);
                let step = prospect.step(&facts, nodes);
                match step {
                    Preparation::Meet => prospect.met(&facts),
                    Preparation::Survey => prospect.tell(Survey {
                        operations: vec![operation; 16],
                        ..timed(1e-3)
                    }),
                    _ => {}
                }
                step == Preparation::Survey
            });
            surveys.nth(1)
        };
        assert!(second(0.7e-3) > second(1e-6).map(|call| call + 20));
    }

    /// Makes calls of these sizes, which the cost model gives to circulant, and which take so many
    /// seconds by circulant and natively. Returns who runs each: circulant (`.`) or the MPI library
    /// (`n`); where it is timed (`o`, `N`); and where it is compared (`c`, `C`).
    fn presumed(prospect: &mut Prospect, calls: &[u64], [ours, native]: [f64; 2]) -> String {
        let call = |is_native| SurveyedCall {
            seconds: if is_native { native } else { ours },
            is_native,
        };
        let [mut timed, mut compared] = [SurveyedCall::default(); 2];
        let mut run = |&bytes: &u64| {
            let facts = bcast(bytes);
            prospect.count(&facts);
            if prospect.step(&facts, None) == Preparation::Survey {
                prospect.tell(Survey {
                    timed,
                    compared: std::mem::take(&mut compared),
                    ..Survey::default()
                });
            }
            let step = prospect.step(&facts, None);
            match step {
                Preparation::Meet => prospect.met(&facts),
                Preparation::Compare => prospect.compare(),
                _ => {}
            }
            let is_native = prospect.is_native(&facts);
            match step {
                Preparation::Meet => timed = call(is_native),
                Preparation::Compare => compared = call(is_native),
                _ => {}
            }
            match (step, is_native) {
                (Preparation::Meet, false) => 'o',
                (Preparation::Meet, true) => 'N',
                (Preparation::Compare, false) => 'c',
                (Preparation::Compare, true) => 'C',
                (_, false) => '.',
                (_, true) => 'n',
            }
        };
        calls.iter().map(&mut run).collect()
    }

    /// A timed call is compared with the next one like it, which the other runs, though other calls
    /// come between. Whoever was faster runs such calls until they are compared again.
    #[test]
    fn the_presumption_is_tested() {
        const LARGE: u64 = 1 << 18;
        for (calls, times, expected) in [
            (vec![LARGE; 18], [0.02, 0.01], ".oCnnnnnnnnnnnnNcn"),
            (vec![LARGE; 18], [0.02, 0.0185], ".oC............oC."),
            (vec![LARGE; 18], [0.02, 0.04], ".oC............oC."),
            (
                vec![LARGE, LARGE, 9, LARGE + 9, LARGE, LARGE + 9, 9],
                [0.02, 0.01],
                ".o..Cn.",
            ),
            ([[LARGE; 2], [9; 2]].concat(), [0.02, 0.01], ".o.."),
        ] {
            let mut prospect = Prospect::default();
            let made = presumed(&mut prospect, &calls, times);
            assert_eq!(made, expected, "{times:?} {calls:?}");
        }
        // One like it may never come.
        let mut prospect = Prospect::default();
        let calls = [vec![LARGE; 2], vec![9; 10]].concat();
        presumed(&mut prospect, &calls, [0.02, 0.01]);
        assert!(prospect.met.is_none() && prospect.is_surveyed);
    }

    /// Who is faster is whose time counts. The first native call may have opened connections.
    #[test]
    fn the_time_of_the_faster_one_counts() {
        let mut prospect = Prospect::default();
        for ([ours, native], expected) in [([0.02, 0.01], 0.01), ([0.02, 0.03], 0.02)] {
            let call = |seconds, is_native| SurveyedCall { seconds, is_native };
            prospect.count(&bcast(9));
            prospect.count(&bcast(9));
            prospect.met(&bcast(9));
            prospect.tell(Survey {
                timed: call(ours, false),
                compared: call(native, true),
                ..Survey::default()
            });
            let last = prospect.timed.last().map(|timed| timed.seconds);
            assert_eq!(last, Some(expected));
            assert!(prospect.native_times(|_| true).is_empty());
        }
        prospect.met(&bcast(9));
        prospect.tell(Survey {
            compared: SurveyedCall {
                seconds: 0.02,
                is_native: false,
            },
            ..timed(0.01)
        });
        assert_eq!(prospect.native_times(|_| true), [0.01]);
    }

    /// What a measurement takes is a small part of the calls until then, on networks of any speed.
    #[test]
    fn a_measurement_waits_until_it_pays() {
        for (alpha, beta) in [
            (1e-6, 0.05e-9),
            (2e-6, 0.8e-9),
            (30e-6, 0.8e-9),
            (30e-6, 8e-9),
            (30e-6, 2e-7),
        ] {
            for bytes in [4096, 65_536, 1 << 20, 1 << 24] {
                let facts = bcast(bytes);
                let network = Network::decode([(alpha * 1e12) as u64, (beta * 1e15) as u64]);
                let seconds = native::shipped_cost(&facts).on(network);
                let (call, surveys) = measured_at(facts, 16, seconds);
                let taken = network.seconds(16.0, 98_344.0) + private_communicator(16, 16, network);
                let allowed = (3.1 + 0.04 * call as f64) * seconds;
                assert!(
                    taken <= allowed,
                    "{alpha} {beta} {bytes} {call}: {taken} {allowed}"
                );
                assert!(surveys <= 8, "{surveys}");
            }
        }
    }

    /// Whoever asks only where [`Prospect::idle_calls`] says so meets the others at the same calls,
    /// and asks seldom.
    #[test]
    fn few_calls_ask() {
        /// At which calls all meet, until the network is measured; and the most calls that ask
        /// from one of these to the next.
        fn meetings(facts: &Facts, skips: bool) -> (Vec<u64>, u64) {
            let (mut prospect, mut nodes) = (Prospect::default(), None);
            let (mut call, mut asked, mut most, mut meetings) = (0, 0, 0, Vec::new());
            loop {
                prospect.count(facts);
                (call, asked) = (call + 1, asked + 1);
                if prospect.step(facts, nodes) == Preparation::Survey {
                    nodes = Some(16);
                    prospect.tell(Survey {
                        operations: vec![1e-3; 16],
                        ..timed(1e-4)
                    });
                }
                match prospect.step(facts, nodes) {
                    Preparation::Measure => {
                        return ([meetings, vec![call]].concat(), most.max(asked));
                    }
                    Preparation::Meet => {
                        prospect.met(facts);
                        meetings.push(call);
                        (most, asked) = (most.max(asked), 0);
                    }
                    _ => {}
                }
                if skips {
                    let idle = prospect.idle_calls(facts, nodes);
                    prospect.skip(facts, idle);
                    call += idle;
                }
            }
        }
        for bytes in [4096, 65_536, 1 << 20] {
            let (expected, _) = meetings(&bcast(bytes), false);
            let (met, asked) = meetings(&bcast(bytes), true);
            assert_eq!(met, expected, "{bytes}");
            assert!(asked <= 12, "{bytes}: {asked} between {met:?}");
        }
    }

    /// The first call is not timed, and small ones come to a survey later than large ones. Before a
    /// call that is worth it in any case nobody waits for a time.
    #[test]
    fn a_survey_follows_two_calls() {
        let steps = |bytes| {
            let (mut prospect, facts) = (Prospect::default(), bcast(bytes));
            [(); 3].map(|()| {
                prospect.count(&facts);
                let step = prospect.step(&facts, None);
                if step == Preparation::Meet {
                    prospect.met(&facts);
                }
                step
            })
        };
        let small = [Preparation::Wait, Preparation::Meet, Preparation::Survey];
        assert_eq!(steps(1 << 18), small);
        assert_eq!(steps(1 << 26)[0], Preparation::Survey);
        let calls = |bytes| measured_at(bcast(bytes), 16, 1e-3).0;
        assert!(calls(4096) > calls(65_536));
    }

    /// A measurement may take more at once where one process has more than the others, since there
    /// MPI libraries take longer; little where parts are alike, and where results are rounded.
    #[test]
    fn how_much_a_measurement_may_take_at_once() {
        let of = |operation, largest, order| Facts {
            bytes: 16_000,
            largest,
            order,
            ..Facts::new(operation, 16)
        };
        let (any, rounded) = (Order::Any, Order::Commutative);
        for (operation, largest, order, expected) in [
            (Operation::Allgatherv, 1_000, any, ADVANCE),
            (Operation::Allgatherv, 1_500, any, ADVANCE),
            (Operation::Allgatherv, 1_501, any, 1.5),
            (Operation::Allgatherv, 8_000, any, 1.5),
            (Operation::Allgatherv, 8_001, any, 3.0),
            (Operation::ReduceScatter, 8_001, rounded, ADVANCE),
            (Operation::ReduceScatter, 1_501, rounded, ADVANCE),
            (Operation::Allreduce, 16_000, rounded, 1.5),
            (Operation::Bcast, 16_000, any, 3.0),
            (Operation::Reduce, 16_000, rounded, ADVANCE),
        ] {
            let facts = of(operation, largest, order);
            assert_eq!(advance(&facts, 16), expected, "{operation:?} {largest}");
            let are_alike = match operation {
                Operation::Allgatherv => largest <= 1_500,
                _ => matches!(operation, Operation::ReduceScatter | Operation::Allreduce),
            };
            let expected = if are_alike { 1.5 } else { ADVANCE };
            assert_eq!(advance(&facts, 1), expected, "{operation:?} {largest}");
        }
    }
}
