//! `circulant compare`: the reports of two runs side by side, by operation and size. They are over
//! all ranks, if both reports are.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::contents::{OfRanks, Ranks, Report, read};
use crate::markdown::{self, Column};

#[derive(clap::Args)]
pub struct Arguments {
    /// The report of the first run, as CIRCULANT_REPORT=FILE wrote it
    #[arg(value_name = "FIRST")]
    first: PathBuf,

    /// That of the second
    #[arg(value_name = "SECOND")]
    second: PathBuf,
}

/// The calls of one operation and size, or all, in each of the two runs.
#[derive(Default)]
struct Row {
    operation: String,
    bytes: Option<u64>,
    calls: [u64; 2],
    seconds: [f64; 2],
}

pub fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let files = [&*arguments.first, &*arguments.second];
    let reports = [read(files[0])?, read(files[1])?];
    print(&mut io::stdout().lock(), files, &reports)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the reports in these files side by side.
pub fn print(out: &mut impl Write, files: [&Path; 2], reports: &[Report; 2]) -> io::Result<()> {
    for (which, (file, report)) in ["first: ", "second:"].iter().zip(files.iter().zip(reports)) {
        writeln!(out, "{which} {}", heading(file, report))?;
    }
    for line in differences(reports) {
        writeln!(out, "{line}")?;
    }
    if let [Some(first), Some(second)] = reports.each_ref().map(|report| report.ranks.as_ref()) {
        return compare_ranks(out, [first, second]);
    }
    let mut rows = rows(reports);
    if rows.is_empty() {
        return writeln!(out, "\nNo collective operation was called.");
    }
    let is_alike = |row: &Row| row.calls[0] == row.calls[1];
    let are_alike = rows.iter().all(is_alike);
    rows.push(total(&rows));
    writeln!(out)?;
    markdown::print(out, &COLUMNS, &rows)?;
    end(out, are_alike)
}

fn end(out: &mut impl Write, are_alike: bool) -> io::Result<()> {
    if !are_alike {
        writeln!(
            out,
            "\nThe runs did not make the same calls: their total says little."
        )?;
    }
    Ok(())
}

/// The calls of one operation and size, or all, of all ranks of each of the two runs.
#[derive(Default)]
struct RankRow {
    operation: String,
    bytes: Option<u64>,
    sides: [Side; 2],
}

/// Those of one run. Times are means over all ranks of the job, so that they add up.
#[derive(Default, Clone)]
struct Side {
    processes: String,
    nodes: String,
    calls: u64,
    seconds: f64,
    waiting: f64,
    ran: String,
}

impl Side {
    fn new(row: &OfRanks, ranks: &Ranks) -> Side {
        let share = row.ranks as f64 / ranks.processes.max(1) as f64;
        Side {
            processes: row.processes(),
            nodes: row
                .nodes
                .map_or_else(String::new, |nodes| nodes.to_string()),
            calls: row.calls,
            seconds: row.seconds.mean * share,
            waiting: row.waiting_seconds * share,
            ran: row.ran(),
        }
    }

    fn and(&self, other: &Side) -> Side {
        Side {
            calls: self.calls.saturating_add(other.calls),
            seconds: self.seconds + other.seconds,
            waiting: self.waiting + other.waiting,
            ..Side::default()
        }
    }
}

fn compare_ranks(out: &mut impl Write, ranks: [&Ranks; 2]) -> io::Result<()> {
    let [first, second] = ranks.map(|ranks| ranks.run_seconds.mean);
    let ratio = ratio([first, second]);
    writeln!(out, "run time: {first:.3} s, then {second:.3} s: {ratio}")?;
    let mut rows = rank_rows(ranks);
    if rows.is_empty() {
        return writeln!(out, "\nNo collective operation was called.");
    }
    let are_alike = rows
        .iter()
        .all(|row| row.sides[0].calls == row.sides[1].calls);
    let sum = |side: usize| {
        let sides = rows.iter().map(|row| &row.sides[side]);
        sides.fold(Side::default(), |sum, side| sum.and(side))
    };
    let sides = [sum(0), sum(1)];
    rows.push(RankRow {
        operation: "total".to_owned(),
        bytes: None,
        sides,
    });
    writeln!(out, "\nOver all ranks; seconds are means of a rank:\n")?;
    markdown::print(out, &RANK_COLUMNS, &rows)?;
    end(out, are_alike)
}

fn rank_rows(ranks: [&Ranks; 2]) -> Vec<RankRow> {
    let mut rows: BTreeMap<(&str, Option<u64>), RankRow> = BTreeMap::new();
    for (run, ranks) in ranks.into_iter().enumerate() {
        for size in &ranks.sizes {
            let row = rows.entry((&size.operation, size.bytes)).or_default();
            row.operation.clone_from(&size.operation);
            row.bytes = size.bytes;
            row.sides[run] = Side::new(size, ranks);
        }
    }
    rows.into_values().collect()
}

/// What both runs have, once if it is the same.
fn both(row: &RankRow, text: fn(&Side) -> &String) -> String {
    let [first, second] = row.sides.each_ref().map(text);
    match () {
        () if first == second || second.is_empty() => first.clone(),
        () if first.is_empty() => second.clone(),
        () => format!("{first}, then {second}"),
    }
}

fn ratio([first, second]: [f64; 2]) -> String {
    if first > 0.0 && second > 0.0 {
        format!("{:.2}", first / second)
    } else {
        String::new()
    }
}

fn shown(bytes: Option<u64>) -> String {
    bytes.map_or_else(String::new, |bytes| bytes.to_string())
}

const RANK_COLUMNS: [Column<RankRow>; 13] = [
    ("operation", |row| row.operation.clone()),
    ("bytes", |row| shown(row.bytes)),
    ("processes", |row| both(row, |side| &side.processes)),
    ("nodes", |row| both(row, |side| &side.nodes)),
    ("first calls", |row| row.sides[0].calls.to_string()),
    ("second calls", |row| row.sides[1].calls.to_string()),
    ("first, s", |row| format!("{:.3}", row.sides[0].seconds)),
    ("second, s", |row| format!("{:.3}", row.sides[1].seconds)),
    ("first / second", |row| {
        ratio(row.sides.each_ref().map(|side| side.seconds))
    }),
    ("first waits, s", |row| {
        format!("{:.3}", row.sides[0].waiting)
    }),
    ("second waits, s", |row| {
        format!("{:.3}", row.sides[1].waiting)
    }),
    ("first ran by", |row| row.sides[0].ran.clone()),
    ("second ran by", |row| row.sides[1].ran.clone()),
];

fn heading(file: &Path, report: &Report) -> String {
    let Report {
        mpi,
        processes,
        rank,
        ..
    } = report;
    format!("{}, rank {rank} of {processes}, {mpi}", file.display())
}

/// The settings that differ, each on a line.
fn differences(reports: &[Report; 2]) -> Vec<String> {
    let names: BTreeSet<_> = reports
        .iter()
        .flat_map(|report| report.settings.keys())
        .collect();
    let differing = names.into_iter().filter_map(|name| {
        let [first, second] = reports.each_ref().map(|report| report.settings.get(name));
        let shown = |value: Option<&String>| value.map_or("nothing", |value| value).to_owned();
        (first != second).then(|| format!("{name}: {}, then {}", shown(first), shown(second)))
    });
    differing.collect()
}

/// Every operation and size of both.
fn rows(reports: &[Report; 2]) -> Vec<Row> {
    let mut rows: BTreeMap<(&str, u64), Row> = BTreeMap::new();
    for (run, report) in reports.iter().enumerate() {
        for size in &report.sizes {
            let row = rows.entry((&size.operation, size.bytes)).or_default();
            row.operation.clone_from(&size.operation);
            row.bytes = Some(size.bytes);
            row.calls[run] = size.calls();
            row.seconds[run] = size.native_seconds + size.circulant_seconds;
        }
    }
    rows.into_values().collect()
}

fn total(rows: &[Row]) -> Row {
    Row {
        operation: "total".to_owned(),
        bytes: None,
        calls: [0, 1].map(|run| {
            let calls = rows.iter().map(|row| row.calls[run]);
            calls.fold(0, u64::saturating_add)
        }),
        seconds: [0, 1].map(|run| rows.iter().map(|row| row.seconds[run]).sum()),
    }
}

const COLUMNS: [Column<Row>; 7] = [
    ("operation", |row| row.operation.clone()),
    ("bytes", |row| shown(row.bytes)),
    ("first calls", |row| row.calls[0].to_string()),
    ("second calls", |row| row.calls[1].to_string()),
    ("first, s", |row| format!("{:.3}", row.seconds[0])),
    ("second, s", |row| format!("{:.3}", row.seconds[1])),
    ("first / second", |row| ratio(row.seconds)),
];
