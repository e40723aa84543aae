//! The report of a process: a table for people, or JSON for programs.

use serde_json::{Map, Value, json};

use super::by_size;
use super::counters::{self, Row};
use super::outcome::Outcome;
use super::over_ranks::OverRanks;
use super::table::table;
use crate::select::{Known, Origin, Settings};

/// What a report says of the run, besides the counters.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The MPI library's version, its first line.
    pub mpi: &'a str,
    /// The processes of the run.
    pub processes: usize,
    /// This process among them.
    pub rank: usize,
    /// The settings in force.
    pub settings: &'a Settings,
    /// What was learned.
    pub known: &'a [Known],
    /// The calls of all processes.
    pub all: All<'a>,
}

/// What a report says of the calls of all processes.
#[derive(Clone, Copy, Debug)]
pub enum All<'a> {
    /// These.
    Known(&'a OverRanks),
    /// Not yet: they are combined when all processes have come to MPI_Finalize.
    Awaited,
    /// Nothing, for this reason.
    Missing(&'a str),
}

impl All<'_> {
    /// The lines for people.
    pub(super) fn lines(self) -> Vec<String> {
        match self {
            All::Known(all) => all.lines(),
            All::Awaited => Vec::new(),
            All::Missing(why) => vec![format!("of this rank alone: {why}")],
        }
    }

    fn json(self) -> Option<Value> {
        match self {
            All::Known(all) => Some(all.json()),
            All::Awaited | All::Missing(_) => None,
        }
    }

    /// Why there is nothing, if there is not.
    fn missing(self) -> Option<String> {
        match self {
            All::Known(_) => None,
            All::Awaited => Some("another rank has not come to MPI_Finalize".to_owned()),
            All::Missing(why) => Some(why.to_owned()),
        }
    }
}

/// The report of this process for people: a table, every line prefixed with `circulant: `.
pub fn render_text(header: &Header) -> String {
    text(header, &counters::rows())
}

/// The report of this process for programs: one JSON object, described in `docs/users/settings.md`.
pub(super) fn json(header: &Header) -> Value {
    object(header, &counters::rows())
}

fn object(header: &Header, rows: &[Row]) -> Value {
    let settings: Map<_, _> = header
        .settings
        .in_force()
        .into_iter()
        .map(|setting| (setting.name.to_owned(), setting.value.into()))
        .collect();
    let mut report = json!({
        "circulant": env!("CARGO_PKG_VERSION"),
        "mpi": header.mpi,
        "processes": header.processes,
        "rank": header.rank,
        "settings": settings,
        "operations": rows.iter().map(Row::json).collect::<Vec<_>>(),
        "sizes": by_size::rows(header.known).iter().map(by_size::Row::json).collect::<Vec<_>>(),
        "learned": learned(header.known),
        "ranks": header.all.json(),
    });
    if let Some(why) = header.all.missing() {
        report["ranks_missing"] = why.into();
    }
    report
}

fn learned(known: &[Known]) -> Vec<Value> {
    let all = known.iter();
    all.flat_map(|known| {
        known
            .lessons
            .iter()
            .map(|lesson| by_size::lesson(known, lesson))
    })
    .collect()
}

/// The columns of the table: heading, and whether it holds numbers, which are aligned right.
const COLUMNS: [(&str, bool); 9] = [
    ("operation", false),
    ("algorithm", false),
    ("reason", false),
    ("calls", true),
    ("bytes", true),
    ("seconds", true),
    ("rounds", true),
    ("blocks", true),
    ("algorithms", false),
];

fn text(header: &Header, rows: &[Row]) -> String {
    let Header {
        mpi,
        processes,
        rank,
        settings,
        known,
        all,
    } = header;
    let version = env!("CARGO_PKG_VERSION");
    let mut lines = vec![
        format!("version {version}, report of rank {rank} of {processes}"),
        format!("MPI library: {mpi}"),
    ];
    lines.extend(
        settings
            .in_force()
            .into_iter()
            .filter(|setting| setting.origin == Origin::Environment)
            .map(|setting| format!("{}={}", setting.name, setting.value)),
    );
    if rows.is_empty() {
        lines.push("no collective operation was called".to_owned());
    } else {
        lines.extend(table(&COLUMNS, rows.iter().map(Row::cells)));
    }
    lines.extend(rows.iter().filter_map(Row::checks));
    let sizes = by_size::rows(known);
    if !sizes.is_empty() {
        lines.push("by operation and size:".to_owned());
        let cells = sizes.iter().map(by_size::Row::cells);
        lines.extend(table(&by_size::Row::COLUMNS, cells));
        lines.push(by_size::total(&sizes));
    }
    lines.extend(all.lines());
    prefixed(&lines)
}

pub(super) fn prefixed(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| format!("circulant: {line}\n"))
        .collect()
}

impl Row {
    fn json(&self) -> Value {
        let mut row = json!({
            "operation": self.operation.name(),
            "algorithm": self.outcome.algorithm(),
            "calls": self.calls,
            "bytes": self.work.bytes,
            "seconds": self.work.seconds(),
        });
        match self.outcome {
            Outcome::Circulant => {
                row["rounds"] = self.work.rounds.into();
                row["blocks"] = self.work.blocks.into();
                let algorithms = self.algorithms.iter();
                let algorithms = algorithms.map(|&(name, calls)| (name.to_owned(), calls.into()));
                row["algorithms"] = Value::Object(algorithms.collect());
                let [checked, differed] = self.checks;
                if checked > 0 {
                    row["checked"] = checked.into();
                    row["differed"] = differed.into();
                }
            }
            Outcome::Native(reason) => row["reason"] = reason.name().into(),
        }
        row
    }

    /// What checks have found.
    fn checks(&self) -> Option<String> {
        let ([checked, differed], operation) = (self.checks, self.operation.name());
        let line = format!(
            "checked: {operation}, {checked} calls, of which {differed} differed from the MPI \
             library's"
        );
        (checked > 0).then_some(line)
    }

    fn cells(&self) -> [String; COLUMNS.len()] {
        let algorithms = self.algorithms.iter();
        let algorithms = algorithms.map(|(name, calls)| format!("{name} {calls}"));
        let (reason, rounds, blocks) = match self.outcome {
            Outcome::Circulant => (
                String::new(),
                self.work.rounds.to_string(),
                self.work.blocks.to_string(),
            ),
            Outcome::Native(reason) => (reason.name().to_owned(), String::new(), String::new()),
        };
        [
            self.operation.name().to_owned(),
            self.outcome.algorithm().to_owned(),
            reason,
            self.calls.to_string(),
            self.work.bytes.to_string(),
            format!("{:.6}", self.work.seconds()),
            rounds,
            blocks,
            algorithms.collect::<Vec<_>>().join(", "),
        ]
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::counters::{Counters, calls, count};
    use super::super::outcome::CALL;
    use super::super::outcome::Work;
    use super::*;
    use crate::select::{Algorithm, Operation, Reason};

    const SMALL: Work = Work {
        bytes: 8,
        nanoseconds: 1_000,
        rounds: 0,
        blocks: 0,
        algorithm: None,
    };

    /// Three broadcasts of ours, one of them another way, two small ones, and one reduce-scatter of
    /// ours.
    fn some_calls() -> Counters {
        let counters = Counters::new();
        let gray = Work {
            algorithm: Some(Algorithm::Gray),
            ..CALL
        };
        for work in [CALL, gray, CALL] {
            counters.add(Operation::Bcast, Outcome::Circulant, &work);
        }
        for _ in 0..2 {
            counters.add(Operation::Bcast, Outcome::Native(Reason::Small), &SMALL);
        }
        counters.add(Operation::ReduceScatterBlock, Outcome::Circulant, &CALL);
        counters
    }

    fn settings() -> Settings {
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Settings::read([variable("CIRCULANT_FORCE", "1")].into_iter()).0
    }

    pub(in super::super) fn header(settings: &Settings) -> Header<'_> {
        Header {
            mpi: "Open MPI v4.1.4",
            processes: 5,
            rank: 0,
            settings,
            known: &[],
            all: All::Awaited,
        }
    }

    #[test]
    fn json_has_one_row_for_each_operation_and_outcome_met() {
        let settings = settings();
        let report = object(&header(&settings), &some_calls().rows());
        assert_eq!(report["circulant"], env!("CARGO_PKG_VERSION"));
        assert_eq!(report["mpi"], "Open MPI v4.1.4");
        assert_eq!(
            (&report["processes"], &report["rank"]),
            (&json!(5), &json!(0))
        );
        assert_eq!(report["settings"]["CIRCULANT_FORCE"], "1");
        assert_eq!(report["settings"]["CIRCULANT_MIN_BYTES"], "4K");
        assert_eq!(
            report["operations"],
            json!([
                {"operation": "bcast", "algorithm": "circulant", "calls": 3, "bytes": 12_000_000,
                 "seconds": 0.303703701, "rounds": 384, "blocks": 375,
                 "algorithms": {"circulant": 2, "gray": 1}},
                {"operation": "bcast", "algorithm": "native", "reason": "small", "calls": 2,
                 "bytes": 16, "seconds": 2e-6},
                {"operation": "reduce_scatter_block", "algorithm": "circulant", "calls": 1,
                 "bytes": 4_000_000, "seconds": 0.101234567, "rounds": 128, "blocks": 125,
                 "algorithms": {"circulant": 1}},
            ])
        );
    }

    #[test]
    fn checks_are_counted_where_there_were_some() {
        let counters = some_calls();
        for differs in [false, true, false] {
            counters.add_check(Operation::Bcast, differs);
        }
        let settings = settings();
        let report = object(&header(&settings), &counters.rows());
        let [ours, native, scattered] = [0, 1, 2].map(|row| &report["operations"][row]);
        assert_eq!(
            (&ours["checked"], &ours["differed"]),
            (&json!(3), &json!(1))
        );
        for row in [native, scattered] {
            assert_eq!((row.get("checked"), row.get("differed")), (None, None));
        }
        let text = text(&header(&settings), &counters.rows());
        let line =
            "circulant: checked: bcast, 3 calls, of which 1 differed from the MPI library's\n";
        assert!(text.ends_with(line), "{text}");
    }

    #[test]
    fn json_of_no_calls_is_an_empty_list() {
        let settings = Settings::default();
        let report = object(&header(&settings), &Counters::new().rows());
        assert_eq!(report["operations"], json!([]));
    }

    #[test]
    fn text_is_a_table_with_a_prefix_on_every_line() {
        let settings = settings();
        let expected = format!(
            "\
circulant: version {}, report of rank 0 of 5
circulant: MPI library: Open MPI v4.1.4
circulant: CIRCULANT_FORCE=1
circulant: operation             algorithm  reason  calls     bytes   seconds  rounds  \
blocks  algorithms
circulant: bcast                 circulant              3  12000000  0.303704     384     \
375  circulant 2, gray 1
circulant: bcast                 native     small       2        16  0.000002
circulant: reduce_scatter_block  circulant              1   4000000  0.101235     128     \
125  circulant 1
",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(text(&header(&settings), &some_calls().rows()), expected);
    }

    #[test]
    fn text_of_no_calls_says_so() {
        let settings = Settings::default();
        let text = text(&header(&settings), &Counters::new().rows());
        assert!(
            text.ends_with("circulant: no collective operation was called\n"),
            "{text}"
        );
        assert!(!text.contains("CIRCULANT_"), "{text}");
    }

    #[test]
    fn the_process_has_one_set_of_counters() {
        let outcome = Outcome::Native(Reason::NoCommunicator);
        let before = calls(Operation::Allgather, outcome);
        count(Operation::Allgather, outcome, &SMALL);
        assert_eq!(calls(Operation::Allgather, outcome), before + 1);
        let settings = Settings::default();
        assert!(render_text(&header(&settings)).contains("no_communicator"));
        let report = json(&header(&settings)).to_string();
        assert!(report.contains("no_communicator"));
    }

    /// A run of two ranks without calls.
    pub(in super::super) fn two_ranks() -> OverRanks {
        OverRanks::new(2, Some(1), &[], &[6.0], &[4.0, -2.0]).unwrap()
    }

    #[test]
    fn why_the_calls_of_all_ranks_are_missing_is_said() {
        let (settings, over) = (Settings::default(), two_ranks());
        let of = |all| {
            let header = Header {
                all,
                ..header(&settings)
            };
            (object(&header, &[]), text(&header, &[]))
        };
        let (report, text) = of(All::Missing("a fault"));
        assert_eq!(report["ranks"], Value::Null);
        assert_eq!(report["ranks_missing"], "a fault");
        assert!(
            text.ends_with("circulant: of this rank alone: a fault\n"),
            "{text}"
        );
        let (report, text) = of(All::Awaited);
        assert_eq!(report["ranks"], Value::Null);
        assert!(report["ranks_missing"].is_string());
        assert!(!text.contains("rank alone"), "{text}");
        let (report, text) = of(All::Known(&over));
        assert_eq!(report["ranks"]["processes"], 2);
        assert_eq!(report.get("ranks_missing"), None);
        assert!(
            text.contains("circulant: over all 2 ranks on 1 node"),
            "{text}"
        );
    }
}
