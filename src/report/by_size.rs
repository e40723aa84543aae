//! The rows of the report by operation and size, from the [tally](super::tally): what circulant
//! saved, or could save.

use serde_json::{Value, json};
use strum::VariantArray;

use super::tally::{CLASSES, Ran, kind, tally};
use crate::select::{CANDIDATES, Kind, Known, Lesson, Operation};

/// Calls, and their seconds.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct Calls {
    calls: u64,
    seconds: f64,
}

impl Calls {
    fn of(ran: Ran) -> Calls {
        Calls {
            calls: ran.calls,
            seconds: ran.nanoseconds as f64 / 1e9,
        }
    }

    fn mean(self) -> Option<f64> {
        (self.calls > 0).then(|| self.seconds / self.calls as f64)
    }
}

/// The calls of one operation and size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    operation: Operation,
    least_bytes: u64,
    native: Calls,
    ours: Calls,
    /// Seconds of a call by the MPI library, and by circulant; as far as they are known.
    each: [Option<f64>; 2],
    /// Whether that by circulant is a prediction.
    is_predicted: bool,
}

/// Every operation and size that was met, with what was learned of it.
pub(super) fn rows(known: &[Known]) -> Vec<Row> {
    let operations = Operation::VARIANTS[..Operation::OF_MPI].iter();
    let all = operations.flat_map(|&operation| {
        (0..CLASSES as u32).map(move |class| {
            let tally = tally(kind(operation, 1 << class));
            let [native, ours] = tally.by_owner().map(Calls::of);
            row(operation, class, native, ours, known)
        })
    });
    all.filter(|row| row.native.calls + row.ours.calls > 0)
        .collect()
}

fn row(operation: Operation, class: u32, native: Calls, ours: Calls, known: &[Known]) -> Row {
    let is_such = |kind: &Kind| kind.operation == operation && kind.size == class;
    let lessons = known.iter().flat_map(|known| &known.lessons);
    let mut lessons = lessons.filter(|lesson| is_such(&lesson.kind));
    let lesson = lessons.next();
    let told = |which: usize| {
        let nanoseconds = lesson.map(|lesson| lesson.times[which]);
        nanoseconds
            .filter(|&time| time > 0)
            .map(|time| time as f64 / 1e9)
    };
    // Of several, such as those of two communicators, none is of all the row's calls.
    let is_measured = lesson.is_some_and(|lesson| lesson.is_measured) && lessons.next().is_none();
    let measured = |which| told(which).filter(|_| is_measured);
    Row {
        operation,
        least_bytes: 1 << class,
        native,
        ours,
        each: [
            measured(0).or(native.mean()),
            measured(1).or(ours.mean()).or(told(1)),
        ],
        is_predicted: !is_measured && ours.calls == 0,
    }
}

impl Row {
    /// Seconds that the calls which circulant ran would have taken more natively.
    fn saved(&self) -> Option<f64> {
        let native = self.each[0].filter(|_| self.ours.calls > 0)?;
        Some(self.ours.calls as f64 * native - self.ours.seconds)
    }

    /// Seconds that the calls which the MPI library ran would take less by circulant.
    fn could_save(&self) -> Option<f64> {
        let ours = self.each[1].filter(|_| self.native.calls > 0)?;
        Some((self.native.seconds - self.native.calls as f64 * ours).max(0.0))
    }

    pub(super) fn json(&self) -> Value {
        let [native, ours] = self.each;
        json!({
            "operation": self.operation.name(),
            "bytes": self.least_bytes,
            "native_calls": self.native.calls,
            "native_seconds": self.native.seconds,
            "circulant_calls": self.ours.calls,
            "circulant_seconds": self.ours.seconds,
            "native_seconds_a_call": native,
            "circulant_seconds_a_call": ours,
            "is_predicted": self.is_predicted,
            "saved_seconds": self.saved(),
            "could_save_seconds": self.could_save(),
        })
    }

    pub(super) const COLUMNS: [(&str, bool); 8] = [
        ("operation", false),
        ("bytes", true),
        ("native calls", true),
        ("circulant calls", true),
        ("native ms", true),
        ("circulant ms", true),
        ("saved s", true),
        ("could save s", true),
    ];

    pub(super) fn cells(&self) -> [String; 8] {
        let some = |number: Option<f64>| number.map(three_decimals);
        let milliseconds = |seconds: Option<f64>| some(seconds.map(|seconds| seconds * 1e3));
        let [native, ours] = self.each.map(milliseconds);
        let about = if self.is_predicted { "~" } else { "" };
        [
            self.operation.name().to_owned(),
            self.least_bytes.to_string(),
            self.native.calls.to_string(),
            self.ours.calls.to_string(),
            native.unwrap_or_default(),
            ours.map(|ours| format!("{about}{ours}"))
                .unwrap_or_default(),
            some(self.saved()).unwrap_or_default(),
            some(self.could_save()).unwrap_or_default(),
        ]
    }
}

/// The last line: what all calls saved, and could save.
pub(super) fn total(rows: &[Row]) -> String {
    let saved = three_decimals(rows.iter().filter_map(Row::saved).sum());
    let more = three_decimals(rows.iter().filter_map(Row::could_save).sum());
    format!("circulant saved {saved} s on this process, and could save {more} s more")
}

/// A number that may be less than 0, but does not look so where it is next to nothing. (The sum of
/// no numbers is -0.)
pub fn three_decimals(number: f64) -> String {
    let thousandths = (number * 1e3).round() / 1e3;
    format!("{:.3}", thousandths + 0.0)
}

/// What was learned of the calls of one kind on communicators of some dimensions.
pub(super) fn lesson(known: &Known, lesson: &Lesson) -> Value {
    let (kind, [native, ours]) = (lesson.kind, lesson.times);
    json!({
        "operation": kind.operation.name(),
        "bytes": kind.bytes()[0],
        "irregularity": 1u64 << kind.irregularity.min(63),
        "is_exact": kind.is_exact(),
        "processes": known.processes,
        "nodes": known.nodes,
        "run": if lesson.is_measured { lesson.name() } else { "not decided" },
        "is_measured": lesson.is_measured,
        "native_seconds": native as f64 / 1e9,
        "circulant_seconds": ours as f64 / 1e9,
        "tried": tried(lesson),
    })
}

/// The seconds of each candidate that was tried, by its name.
fn tried(lesson: &Lesson) -> Value {
    let all = CANDIDATES.iter().zip(lesson.tried);
    let tried = all.filter(|(_, nanoseconds)| *nanoseconds > 0);
    let seconds =
        tried.map(|(name, nanoseconds)| (name.to_string(), json!(nanoseconds as f64 / 1e9)));
    Value::Object(seconds.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::{Network, Order};

    fn known(is_measured: bool) -> Known {
        let kind = Kind {
            operation: Operation::Allgather,
            size: 20,
            irregularity: 0,
            order: Order::Any,
        };
        let mut known = Known::new(16, 4, Network::SHIPPED);
        known.learn(Lesson {
            kind,
            candidate: 1,
            times: [8_000_000, 2_000_000],
            tried: [0; _],
            is_measured,
        });
        known
    }

    fn calls(calls: u64, seconds: f64) -> Calls {
        Calls { calls, seconds }
    }

    #[test]
    fn next_to_nothing_is_not_negative() {
        let shown = [-0.0004, -0.0, 0.0006, -0.0006, -2.0].map(three_decimals);
        assert_eq!(shown, ["0.000", "0.000", "0.001", "-0.001", "-2.000"]);
    }

    #[test]
    fn what_is_saved_is_the_difference_to_native_calls() {
        let of = |native, ours| row(Operation::Allgather, 20, native, ours, &[known(true)]);
        let learned = of(calls(2, 0.016), calls(10, 0.02));
        assert_eq!(
            learned.saved().map(|saved| (saved * 1e6).round()),
            Some(60_000.0)
        );
        assert_eq!(
            learned.could_save().map(|more| (more * 1e6).round()),
            Some(12_000.0)
        );
        assert!(!learned.is_predicted);
        let native = of(calls(2, 0.016), Calls::default());
        assert_eq!(native.saved(), None);
    }

    #[test]
    fn what_is_predicted_is_said_to_be() {
        let known = known(false);
        let row = |class| {
            let (native, ours) = (calls(3, 0.03), Calls::default());
            row(
                Operation::Allgather,
                class,
                native,
                ours,
                std::slice::from_ref(&known),
            )
        };
        let predicted = row(20);
        assert!(predicted.is_predicted);
        assert_eq!(predicted.each, [Some(0.01), Some(0.002)]);
        assert_eq!(predicted.cells()[5], "~2.000");
        let unknown = row(21);
        assert_eq!(unknown.could_save(), None);
        assert_eq!(unknown.cells()[5], "");
    }
}
