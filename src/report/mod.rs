//! What was done: counters of this process, the report at the end of the run, the trace line.
//!
//! Counting is on the path of every call, also of those that go native, so it is a few relaxed
//! additions to static arrays: no lock, no allocation, no thread-local state. A report that is
//! made while other threads still call MPI may hold a part of their latest calls.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `outcome` | who ran a call, and its work |
//! | `tally` | counters by operation and size |
//! | `by_size` | what circulant saved, and could save, in this process |
//! | `over_ranks` | the calls of all processes |

#![forbid(unsafe_code)]

mod by_size;
mod outcome;
mod over_ranks;
mod tally;

pub use by_size::three_decimals;
pub use outcome::{Outcome, Work};
pub use over_ranks::{Local, OverRanks};
pub use tally::{Place, count_by_size};

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::{Map, Value, json};
use strum::{EnumCount, VariantArray, VariantNames};

use crate::files;
use crate::select::{Algorithm, Known, Operation, Origin, Settings};

/// The sums over the calls of one operation with one outcome.
struct Counter {
    calls: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
    rounds: AtomicU64,
    blocks: AtomicU64,
}

impl Counter {
    const fn new() -> Self {
        Counter {
            calls: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
        }
    }

    /// Counts one call. What is zero is not added: a native call has no rounds, and its time may
    /// not have been taken.
    fn add(&self, work: &Work) {
        for (sum, part) in [
            (&self.bytes, work.bytes),
            (&self.nanoseconds, work.nanoseconds),
            (&self.rounds, work.rounds),
            (&self.blocks, work.blocks),
        ] {
            if part != 0 {
                sum.fetch_add(part, Relaxed);
            }
        }
        self.calls.fetch_add(1, Relaxed);
    }

    fn work(&self) -> Work {
        Work {
            bytes: self.bytes.load(Relaxed),
            nanoseconds: self.nanoseconds.load(Relaxed),
            rounds: self.rounds.load(Relaxed),
            blocks: self.blocks.load(Relaxed),
            algorithm: None,
        }
    }
}

/// One [`Counter`] for each operation and outcome; how often each operation ran by each algorithm;
/// and how many of its calls were checked, and had another result than the MPI library's.
struct Counters {
    by_outcome: [[Counter; Outcome::COUNT]; Operation::COUNT],
    by_algorithm: [[AtomicU64; Algorithm::VARIANTS.len()]; Operation::COUNT],
    checks: [[AtomicU64; 2]; Operation::COUNT],
}

/// The counters of this process.
static COUNTERS: Counters = Counters::new();

impl Counters {
    const fn new() -> Self {
        Counters {
            by_outcome: [const { [const { Counter::new() }; Outcome::COUNT] }; Operation::COUNT],
            by_algorithm: [const { [const { AtomicU64::new(0) }; Algorithm::VARIANTS.len()] };
                Operation::COUNT],
            checks: [const { [const { AtomicU64::new(0) }; 2] }; Operation::COUNT],
        }
    }

    fn of(&self, operation: Operation, outcome: Outcome) -> &Counter {
        &self.by_outcome[operation as usize][outcome.index()]
    }

    fn add(&self, operation: Operation, outcome: Outcome, work: &Work) {
        self.of(operation, outcome).add(work);
        if let Some(algorithm) = work.algorithm {
            self.by_algorithm[operation as usize][algorithm.index()].fetch_add(1, Relaxed);
        }
    }

    /// The algorithms by which an operation ran, and how often.
    fn algorithms(&self, operation: Operation) -> Vec<(&'static str, u64)> {
        let counts = self.by_algorithm[operation as usize].iter();
        let counts = counts.map(|count| count.load(Relaxed));
        let named = Algorithm::VARIANTS.iter().copied().zip(counts);
        named.filter(|&(_, count)| count > 0).collect()
    }

    fn add_check(&self, operation: Operation, differs: bool) {
        let [checked, differed] = &self.checks[operation as usize];
        checked.fetch_add(1, Relaxed);
        differed.fetch_add(u64::from(differs), Relaxed);
    }

    fn checks_of(&self, operation: Operation) -> [u64; 2] {
        let [checked, differed] = &self.checks[operation as usize];
        [checked.load(Relaxed), differed.load(Relaxed)]
    }

    /// The rows of the report: every operation and outcome that was met.
    fn rows(&self) -> Vec<Row> {
        Operation::VARIANTS
            .iter()
            .flat_map(|&operation| Outcome::all().map(move |outcome| (operation, outcome)))
            .map(|(operation, outcome)| {
                let counter = self.of(operation, outcome);
                let calls = counter.calls.load(Relaxed);
                Row {
                    operation,
                    outcome,
                    calls,
                    work: counter.work(),
                    algorithms: match outcome {
                        Outcome::Circulant => self.algorithms(operation),
                        Outcome::Native(_) => Vec::new(),
                    },
                    checks: match outcome {
                        Outcome::Circulant => self.checks_of(operation),
                        Outcome::Native(_) => [0; 2],
                    },
                }
            })
            .filter(|row| row.calls > 0)
            .collect()
    }
}

/// Counts one call of this process.
pub fn count(operation: Operation, outcome: Outcome, work: &Work) {
    COUNTERS.add(operation, outcome, work);
}

/// Counts a call that was checked, and whether it had another result than the MPI library's.
pub fn count_check(operation: Operation, differs: bool) {
    COUNTERS.add_check(operation, differs);
}

/// How many calls of `operation` were counted so far, whoever ran them.
pub fn total_calls(operation: Operation) -> u64 {
    Outcome::all()
        .map(|outcome| calls(operation, outcome))
        .sum()
}

/// The calls of this process that were counted so far.
pub fn calls(operation: Operation, outcome: Outcome) -> u64 {
    COUNTERS.of(operation, outcome).calls.load(Relaxed)
}

/// One line of the report.
struct Row {
    operation: Operation,
    outcome: Outcome,
    calls: u64,
    work: Work,
    /// By which of circulant's algorithms, and how often.
    algorithms: Vec<(&'static str, u64)>,
    /// How many of the calls were checked, and had another result than the MPI library's.
    checks: [u64; 2],
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
    fn lines(self) -> Vec<String> {
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
    text(header, &COUNTERS.rows())
}

/// The report of this process for programs: one JSON object, described in `docs/users/settings.md`.
pub fn render_json(header: &Header) -> String {
    json(header, &COUNTERS.rows())
}

fn json(header: &Header, rows: &[Row]) -> String {
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
    format!("{report:#}\n")
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

fn prefixed(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| format!("circulant: {line}\n"))
        .collect()
}

/// The heading and the rows, every column as wide as its widest cell.
fn table<const N: usize>(
    columns: &[(&str, bool); N],
    rows: impl Iterator<Item = [String; N]>,
) -> Vec<String> {
    let mut cells = vec![columns.map(|(heading, _)| heading.to_owned())];
    cells.extend(rows);
    let width = |column: usize| cells.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let pad = |((cell, width), (_, is_number)): ((&String, &usize), &(&str, bool))| {
        if *is_number {
            format!("{cell:>width$}")
        } else {
            format!("{cell:<width$}")
        }
    };
    let aligned = |row: &[String; N]| {
        let cells: Vec<_> = row.iter().zip(&widths).zip(columns).map(pad).collect();
        cells.join("  ").trim_end().to_owned()
    };
    cells.iter().map(aligned).collect()
}

/// Where a report goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Standard output, as text.
    Stdout,
    /// Standard error, as text.
    Stderr,
    /// A file, as JSON; what it held before is lost.
    File(PathBuf),
}

impl Destination {
    /// Where the process `rank` writes its report, given the value of `CIRCULANT_REPORT`; `None`
    /// if it writes none. Only rank 0 writes, unless the value is a file name with `%r` in it,
    /// which stands for the rank.
    ///
    /// Processes that MPI_Comm_spawn started have ranks of their own, and the environment of those
    /// that started them: `spawned`, the number of such a process, keeps their files apart.
    pub fn of_rank(setting: &str, rank: usize, spawned: Option<u32>) -> Option<Destination> {
        let writes = rank == 0 || setting.contains("%r");
        if !writes {
            return None;
        }
        match setting {
            "stdout" => return Some(Destination::Stdout),
            "stderr" => return Some(Destination::Stderr),
            _ => {}
        }
        let suffix = spawned.map(|number| format!(".spawned-{number}"));
        let name = setting.replace("%r", &rank.to_string()) + &suffix.unwrap_or_default();
        Some(Destination::File(name.into()))
    }
}

/// Writes the report of this process.
///
/// # Errors
/// Those of opening and writing the file, or of writing to the stream.
pub fn write(destination: &Destination, header: &Header) -> io::Result<()> {
    match destination {
        Destination::File(path) => files::create(path)?.write_all(render_json(header).as_bytes()),
        Destination::Stdout | Destination::Stderr => print(destination, &render_text(header)),
    }
}

/// The same as far as it can be written before the calls of all processes are known: should one of
/// them end without MPI_Finalize, that much is there. [`complete`] writes the rest.
///
/// # Errors
/// As of [`write()`].
pub fn write_first(destination: &Destination, header: &Header) -> io::Result<()> {
    match destination {
        Destination::File(path) if !is_rewritable(path) => Ok(()),
        _ => write(destination, header),
    }
}

/// What is left to write after [`write_first`].
///
/// # Errors
/// As of [`write()`].
pub fn complete(destination: &Destination, header: &Header) -> io::Result<()> {
    match destination {
        Destination::File(_) => write(destination, header),
        Destination::Stdout | Destination::Stderr => {
            print(destination, &prefixed(&header.all.lines()))
        }
    }
}

/// Whether what is written there later replaces what was written before: not in a pipe or a device.
fn is_rewritable(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |metadata| metadata.is_file())
}

fn print(stream: &Destination, text: &str) -> io::Result<()> {
    if *stream == Destination::Stderr {
        return io::stderr().write_all(text.as_bytes());
    }
    let mut out = io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// One call, for the trace.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    /// The operation.
    pub operation: Operation,
    /// Which call of the operation it was in this process, counted from 1.
    pub number: u64,
    /// The processes of the communicator.
    pub processes: usize,
    /// The root, of an operation that has one.
    pub root: Option<usize>,
    /// Who ran it.
    pub outcome: Outcome,
    /// Its work.
    pub work: Work,
}

/// One call as one line, without its end.
pub fn trace_line(trace: &Trace) -> String {
    let Trace {
        operation,
        number,
        processes,
        root,
        outcome,
        work,
    } = trace;
    let (operation, bytes) = (operation.name(), work.bytes);
    let root = root.map(|root| format!(" root={root}")).unwrap_or_default();
    let outcome = match outcome {
        Outcome::Circulant => {
            let name = work.algorithm.map_or("circulant", Algorithm::name);
            let (n, rounds) = (work.blocks, work.rounds);
            format!(
                "{name} n={n} rounds={rounds} {}",
                duration(work.nanoseconds)
            )
        }
        Outcome::Native(reason) => format!("native ({})", reason.name()),
    };
    format!("circulant: {operation} #{number} {bytes} B p={processes}{root} -> {outcome}")
}

/// A time with one decimal, in the unit that keeps it short.
fn duration(nanoseconds: u64) -> String {
    let ns = nanoseconds as f64;
    match nanoseconds {
        0..1_000_000 => format!("{:.1} us", ns / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.1} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::Reason;

    const CALL: Work = Work {
        bytes: 4_000_000,
        nanoseconds: 101_234_567,
        rounds: 128,
        blocks: 125,
        algorithm: Some(Algorithm::Circulant { blocks: 125 }),
    };
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

    fn header(settings: &Settings) -> Header<'_> {
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
    fn every_outcome_has_its_own_counter() {
        let indices: Vec<_> = Outcome::all().map(Outcome::index).collect();
        assert_eq!(indices, (0..Outcome::COUNT).collect::<Vec<_>>());
    }

    #[test]
    fn json_has_one_row_for_each_operation_and_outcome_met() {
        let settings = settings();
        let report = json(&header(&settings), &some_calls().rows());
        let report: Value = serde_json::from_str(&report).unwrap();
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
        let report = json(&header(&settings), &counters.rows());
        let report: Value = serde_json::from_str(&report).unwrap();
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
        let report = json(&header(&settings), &Counters::new().rows());
        let report: Value = serde_json::from_str(&report).unwrap();
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
    fn counting_from_many_threads_loses_nothing() {
        let counters = Counters::new();
        let counter = counters.of(Operation::Reduce, Outcome::Circulant);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1000).for_each(|_| counter.add(&CALL)));
            }
        });
        assert_eq!(counter.calls.load(Relaxed), 8000);
        assert_eq!(counter.work().bytes, 8000 * CALL.bytes);
        assert_eq!(counter.work().rounds, 8000 * CALL.rounds);
    }

    #[test]
    fn the_process_has_one_set_of_counters() {
        let outcome = Outcome::Native(Reason::NoCommunicator);
        let before = calls(Operation::Allgather, outcome);
        count(Operation::Allgather, outcome, &SMALL);
        assert_eq!(calls(Operation::Allgather, outcome), before + 1);
        let settings = Settings::default();
        assert!(render_text(&header(&settings)).contains("no_communicator"));
        assert!(render_json(&header(&settings)).contains("no_communicator"));
    }

    #[test]
    fn only_rank_0_writes_unless_the_rank_is_in_the_file_name() {
        let file = |name: &str| Some(Destination::File(name.into()));
        let first = |setting, rank| Destination::of_rank(setting, rank, None);
        assert_eq!(first("stderr", 0), Some(Destination::Stderr));
        assert_eq!(first("stderr", 1), None);
        assert_eq!(first("stdout", 0), Some(Destination::Stdout));
        assert_eq!(first("stdout", 1), None);
        assert_eq!(first("./stdout", 0), file("./stdout"));
        assert_eq!(first("a.json", 0), file("a.json"));
        assert_eq!(first("a.json", 1), None);
        assert_eq!(first("a.%r.json", 0), file("a.0.json"));
        assert_eq!(first("%r/%r", 12), file("12/12"));
        let spawned = |setting, rank| Destination::of_rank(setting, rank, Some(77));
        assert_eq!(spawned("stderr", 0), Some(Destination::Stderr));
        assert_eq!(spawned("stdout", 0), Some(Destination::Stdout));
        assert_eq!(spawned("a.json", 0), file("a.json.spawned-77"));
        assert_eq!(spawned("a.json", 1), None);
        assert_eq!(spawned("a.%r.json", 3), file("a.3.json.spawned-77"));
    }

    #[test]
    fn a_report_file_is_written_or_the_reason_is_returned() {
        let settings = Settings::default();
        let folder = std::env::temp_dir().join(format!("circulant-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("report.json");
        write(&Destination::File(file.clone()), &header(&settings)).unwrap();
        let report = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&report).unwrap()["processes"],
            5
        );
        let error = write(&Destination::File(file), &header(&settings)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    /// A run of two ranks without calls.
    fn two_ranks() -> OverRanks {
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
            let report = serde_json::from_str::<Value>(&json(&header, &[])).unwrap();
            (report, text(&header, &[]))
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

    #[test]
    fn what_a_rank_knows_by_itself_is_written_before() {
        let (settings, over) = (Settings::default(), two_ranks());
        let awaited = header(&settings);
        let known = Header {
            all: All::Known(&over),
            ..awaited
        };
        let folder = std::env::temp_dir().join(format!("circulant-first-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("report.json");
        let read = || {
            let report = std::fs::read_to_string(&file).unwrap();
            serde_json::from_str::<Value>(&report).unwrap()
        };
        let destination = Destination::File(file.clone());
        write_first(&destination, &awaited).unwrap();
        assert_eq!(read()["ranks"], Value::Null);
        complete(&destination, &known).unwrap();
        assert_eq!(read()["ranks"]["processes"], 2);
        std::fs::remove_dir_all(&folder).unwrap();
        // What is written to a device stays.
        assert!(!is_rewritable(Path::new("/dev/null")));
        assert!(write_first(&Destination::File(file), &awaited).is_err());
    }

    #[test]
    fn a_trace_line_says_what_was_called_and_who_ran_it() {
        let mut trace = Trace {
            operation: Operation::Bcast,
            number: 12,
            processes: 16,
            root: Some(3),
            outcome: Outcome::Circulant,
            work: CALL,
        };
        assert_eq!(
            trace_line(&trace),
            "circulant: bcast #12 4000000 B p=16 root=3 -> circulant n=125 rounds=128 101.2 ms"
        );
        trace.operation = Operation::ReduceScatter;
        trace.root = None;
        trace.outcome = Outcome::Native(Reason::Small);
        assert_eq!(
            trace_line(&trace),
            "circulant: reduce_scatter #12 4000000 B p=16 -> native (small)"
        );
    }

    #[test]
    fn durations_have_the_unit_that_keeps_them_short() {
        let durations = [0, 1_500, 999_900, 1_000_000, 2_500_000_000].map(duration);
        assert_eq!(
            durations,
            ["0.0 us", "1.5 us", "999.9 us", "1.0 ms", "2.5 s"]
        );
    }
}
