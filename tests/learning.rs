//! When which candidate is tried, and who runs the calls, on simulated machines; and when calls lead
//! to a survey and to a measurement: a table that is kept in `tables/learning.txt`.
//!
//! It does not show that what is learned is right: the unit tests do. It shows in a diff what a
//! change does to the course of learning, so that none changes unseen.

mod tables;

use std::fmt::Write;

use circulant::select::{
    Facts, Learned, Operation, Order, Preparation, Prospect, Survey, SurveyedCall, Turn,
};

/// A simulated machine: predicted and true seconds of the candidates, and seconds to take a time.
struct Machine {
    predicted: Vec<f64>,
    times: Vec<f64>,
    overhead: f64,
    /// Each time is up to this part longer.
    noise: f64,
    drawn: u64,
}

impl Machine {
    fn time(&mut self, candidate: usize) -> f64 {
        self.drawn = self
            .drawn
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.times[candidate] * (1.0 + self.noise * ((self.drawn >> 33) % 1000) as f64 / 1000.0)
    }
}

/// One of several machines, drawn by its number: two to five candidates, the MPI library among them.
fn machine(number: u64) -> Machine {
    let mut drawn = number;
    let mut draw = |least: f64, most: f64| {
        drawn = drawn
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        least + (most - least) * ((drawn >> 33) % 10_000) as f64 / 10_000.0
    };
    let candidates = 2 + number as usize % 4;
    let predicted: Vec<_> = (0..candidates).map(|_| draw(0.5, 2.5)).collect();
    let times = predicted.iter().map(|seconds| seconds * draw(0.4, 2.2));
    Machine {
        times: times.collect(),
        overhead: [0.0, 0.02, 0.3][number as usize % 3],
        noise: [0.0, 0.03, 0.3, 0.9][number as usize % 4],
        predicted,
        drawn: number,
    }
}

/// Times as a row says them.
fn shown(times: impl IntoIterator<Item = f64>) -> String {
    let times = times.into_iter().map(|time| format!("{time:.3}"));
    times.collect::<Vec<_>>().join(" ")
}

/// Runs these calls. Says at which one a candidate is tried, from which one on another runs the
/// calls, and after a plus how many calls need not ask. Those are not asked about.
fn run(learned: &mut Learned, machine: &mut Machine, calls: std::ops::Range<u64>) -> String {
    let (mut row, mut latest, mut call) = (String::new(), None, calls.start);
    while call < calls.end {
        match learned.turn(|_| machine.overhead) {
            Turn::Try(candidate) => {
                _ = write!(row, " {call}: try {candidate}");
                let time = machine.time(candidate);
                learned.tell(candidate, time, machine.overhead);
                latest = None;
            }
            Turn::Use(candidate) => {
                if latest.replace(candidate) != Some(candidate) {
                    _ = write!(row, " {call}: {candidate}");
                }
                let settled = learned.settled_calls(|_| machine.overhead);
                let settled = settled.min(calls.end - call - 1);
                if settled > 0 {
                    _ = write!(row, " +{settled}");
                }
                learned.count(settled);
                call += settled;
            }
        }
        call += 1;
    }
    row
}

/// What is learned on a machine, on which the candidates change places after 600 calls.
fn course(name: &str, mut learned: Learned, mut machine: Machine) -> String {
    let mut row = format!("{name}: {}", shown(machine.times.iter().copied()));
    row.push_str(&run(&mut learned, &mut machine, 1..600));
    machine.times.reverse();
    row.push_str("; reversed");
    row.push_str(&run(&mut learned, &mut machine, 600..2000));
    _ = write!(row, "; choice {:?},", learned.choice());
    _ = writeln!(
        row,
        " tried {}, times {}",
        shown(learned.tried()),
        shown(learned.times())
    );
    row
}

/// What is begun with on a machine of this number, and its name.
fn begun(number: u64, predicted: &[f64]) -> (String, Learned) {
    let last = predicted.len() - 1;
    let mut learned = Learned::new(predicted);
    match number {
        0..48 => (format!("machine {number}"), learned),
        48..60 => (format!("tuning {number}"), Learned::to_tune(predicted)),
        60..76 => (format!("connected {number}"), learned.connected()),
        76..88 => {
            learned.choose(number as usize % predicted.len());
            (format!("chosen {number}"), learned)
        }
        _ => {
            learned.give_up(if number % 2 == 0 { last } else { 1 });
            (format!("given up {number}"), learned)
        }
    }
}

fn courses() -> String {
    let of = |number| {
        let machine = machine(number);
        let (name, learned) = begun(number, &machine.predicted);
        course(&name, learned, machine)
    };
    (0..100).map(of).collect()
}

/// Calls, each with its name: all operations, parts of the same size and of different sizes, and
/// sums of rounded numbers.
fn calls() -> Vec<(String, Facts)> {
    let mut all = Vec::new();
    for operation in [
        Operation::Bcast,
        Operation::Reduce,
        Operation::Allgatherv,
        Operation::ReduceScatter,
        Operation::Allreduce,
    ] {
        for bytes in [4096, 30_000, 500_000] {
            for largest in [bytes / 16, bytes / 8, bytes / 2, bytes / 2 + 1, bytes] {
                if operation.is_whole() && largest < bytes {
                    continue;
                }
                for order in [Order::Any, Order::Commutative] {
                    let facts = Facts {
                        bytes,
                        largest,
                        units: bytes / 4,
                        order,
                        ..Facts::new(operation, 16)
                    };
                    let name = format!("{} {bytes} {largest} {order:?}", operation.name());
                    if operation.combines() || order == Order::Any {
                        all.push((name, facts));
                    }
                }
            }
        }
    }
    all
}

/// What the calls of these facts lead to on so many nodes, if a call and a small operation take so long.
/// Nobody asks where there is nothing to be done.
fn preparations(facts: &Facts, nodes: usize, seconds: f64, operation: f64) -> String {
    let (mut prospect, mut known, mut row) = (Prospect::default(), None, String::new());
    let mut call = 1;
    while call < 3000 {
        prospect.count(facts);
        if prospect.step(facts, known) == Preparation::Survey {
            _ = write!(row, " survey {call}");
            known = Some(nodes);
            prospect.tell(Survey {
                timed: SurveyedCall {
                    seconds,
                    is_native: true,
                },
                compared: SurveyedCall::default(),
                operations: (0..16).map(|rank| operation * rank as f64 / 8.0).collect(),
                has_known: false,
            });
        }
        if prospect.step(facts, known) == Preparation::Meet {
            _ = write!(row, " meet {call}");
            prospect.met(facts);
        }
        if prospect.step(facts, known) == Preparation::Measure {
            _ = write!(row, " measure {call}");
            return row;
        }
        let idle = prospect.idle_calls(facts, known);
        if idle > 0 {
            _ = write!(row, " idle {idle}");
            prospect.skip(facts, idle);
        }
        call += idle + 1;
    }
    row
}

fn all_preparations() -> String {
    let mut table = String::new();
    for (name, facts) in calls() {
        for (nodes, seconds, survey) in [
            (16, 5e-5, 1e-4),
            (16, 3e-3, 8e-4),
            (16, 0.4, 2e-3),
            (4, 1e-3, 2e-4),
            (1, 2e-5, 1e-5),
            (1, 2e-3, 1e-4),
        ] {
            let row = preparations(&facts, nodes, seconds, survey);
            _ = writeln!(table, "{name}, {nodes} nodes, {seconds} s:{row}");
        }
    }
    table
}

#[test]
fn what_is_learned_when_is_what_it_was() {
    let table = courses() + &all_preparations();
    tables::compare("learning.txt", include_str!("tables/learning.txt"), &table);
}
