//! `circulant compare`: the reports of two runs side by side, by operation and size.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::markdown::{self, Column};
use crate::report::{self, Report};

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
    let reports = [report::read(files[0])?, report::read(files[1])?];
    let mut out = io::stdout().lock();
    for (which, (file, report)) in ["first: ", "second:"]
        .iter()
        .zip(files.iter().zip(&reports))
    {
        writeln!(out, "{which} {}", heading(file, report))?;
    }
    for line in differences(&reports) {
        writeln!(out, "{line}")?;
    }
    let mut rows = rows(&reports);
    if rows.is_empty() {
        writeln!(out, "\nNo collective operation was called.")?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_alike = |row: &Row| row.calls[0] == row.calls[1];
    let are_alike = rows.iter().all(is_alike);
    rows.push(total(&rows));
    writeln!(out)?;
    markdown::print(&mut out, &COLUMNS, &rows)?;
    if !are_alike {
        writeln!(
            out,
            "\nThe runs did not make the same calls: their total says little."
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

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
            row.calls[run] = size.native_calls + size.circulant_calls;
            row.seconds[run] = size.native_seconds + size.circulant_seconds;
        }
    }
    rows.into_values().collect()
}

fn total(rows: &[Row]) -> Row {
    Row {
        operation: "total".to_owned(),
        bytes: None,
        calls: [0, 1].map(|run| rows.iter().map(|row| row.calls[run]).sum()),
        seconds: [0, 1].map(|run| rows.iter().map(|row| row.seconds[run]).sum()),
    }
}

const COLUMNS: [Column<Row>; 7] = [
    ("operation", |row| row.operation.clone()),
    ("bytes", |row| {
        row.bytes
            .map_or_else(String::new, |bytes| bytes.to_string())
    }),
    ("first calls", |row| row.calls[0].to_string()),
    ("second calls", |row| row.calls[1].to_string()),
    ("first, s", |row| format!("{:.3}", row.seconds[0])),
    ("second, s", |row| format!("{:.3}", row.seconds[1])),
    ("first / second", |row| {
        let [first, second] = row.seconds;
        if first > 0.0 && second > 0.0 {
            format!("{:.2}", first / second)
        } else {
            String::new()
        }
    }),
];
