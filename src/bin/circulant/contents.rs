//! What is in a report in JSON.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use circulant::files::read_at_most;
use circulant::select::{CANDIDATES, Kind, PLACES};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub struct Report {
    pub circulant: String,
    pub mpi: String,
    pub processes: usize,
    pub rank: usize,
    /// By name.
    pub settings: BTreeMap<String, String>,
    pub sizes: Vec<Size>,
    pub learned: Vec<Learned>,
    /// The calls of all ranks, where these could be combined.
    #[serde(default)]
    pub ranks: Option<Ranks>,
    /// Why they could not.
    #[serde(default)]
    pub ranks_missing: Option<String>,
}

/// The calls of all ranks.
#[derive(Deserialize)]
pub struct Ranks {
    pub processes: usize,
    pub nodes: Option<usize>,
    pub run_seconds: Spread,
    pub sizes: Vec<OfRanks>,
}

/// A number of each rank.
#[derive(Deserialize, Clone, Copy)]
pub struct Spread {
    pub least: f64,
    pub mean: f64,
    pub most: f64,
}

/// The calls of one operation and size, of the ranks that made such.
#[derive(Deserialize)]
pub struct OfRanks {
    pub operation: String,
    pub bytes: Option<u64>,
    pub processes: usize,
    pub fewest_processes: usize,
    pub nodes: Option<usize>,
    pub ranks: usize,
    pub calls: u64,
    pub seconds: Spread,
    pub share_of_run: f64,
    pub waiting_seconds: f64,
    pub ran: BTreeMap<String, Ran>,
}

/// What one algorithm ran, or the MPI library.
#[derive(Deserialize, Clone, Copy)]
pub struct Ran {
    pub calls: u64,
    /// Of all ranks.
    pub seconds: f64,
}

impl Ranks {
    /// Where and how long they ran.
    pub fn heading(&self) -> String {
        let nodes = match self.nodes {
            None => String::new(),
            Some(1) => " on 1 node".to_owned(),
            Some(nodes) => format!(" on {nodes} nodes"),
        };
        let Spread { least, mean, most } = self.run_seconds;
        let processes = self.processes;
        format!("all {processes} ranks{nodes}, which ran for {mean:.3} s ({least:.3} to {most:.3})")
    }
}

impl OfRanks {
    /// The processes of the communicators.
    pub fn processes(&self) -> String {
        match self.fewest_processes == self.processes {
            true => self.processes.to_string(),
            false => format!("{} to {}", self.fewest_processes, self.processes),
        }
    }

    /// Who ran how many of the calls.
    pub fn ran(&self) -> String {
        let ran = self.ran.iter();
        let ran = ran.map(|(runner, ran)| ran_by(runner, ran.calls));
        ran.collect::<Vec<_>>().join(", ")
    }
}

/// The calls of one operation and size.
#[derive(Deserialize)]
pub struct Size {
    pub operation: String,
    pub bytes: u64,
    pub native_calls: u64,
    pub native_seconds: f64,
    pub circulant_calls: u64,
    pub circulant_seconds: f64,
    pub native_seconds_a_call: Option<f64>,
    pub circulant_seconds_a_call: Option<f64>,
    pub is_predicted: bool,
    pub saved_seconds: Option<f64>,
    pub could_save_seconds: Option<f64>,
}

impl Size {
    /// Whoever ran them.
    pub fn calls(&self) -> u64 {
        self.native_calls.saturating_add(self.circulant_calls)
    }
}

/// A kind of calls, and who runs them.
#[derive(Deserialize)]
pub struct Learned {
    pub operation: String,
    pub bytes: u64,
    pub irregularity: u64,
    pub processes: usize,
    pub nodes: usize,
    pub run: String,
    pub is_exact: bool,
    pub is_measured: bool,
    pub native_seconds: f64,
    pub circulant_seconds: f64,
    /// Of each candidate that was tried.
    pub tried: BTreeMap<String, f64>,
}

impl Report {
    /// Nanoseconds of each candidate that was tried for calls of a kind.
    pub fn tried(&self, kind: &Kind) -> [u64; PLACES] {
        let is_such = |row: &&Learned| {
            row.operation == kind.operation.name()
                && row.bytes == kind.bytes()[0]
                && row.irregularity.max(1).ilog2() == kind.irregularity
                && row.is_exact == kind.is_exact()
        };
        let row = self.learned.iter().find(is_such);
        let seconds = |name: &str| row.and_then(|row| row.tried.get(name).copied());
        CANDIDATES.map(|name| (seconds(name).unwrap_or(0.0) * 1e9).round() as u64)
    }
}

/// Who ran so many calls. None are counted where these ranks take part in calls that are counted
/// with another size, since between groups not all know it.
pub fn ran_by(runner: &str, calls: u64) -> String {
    match calls {
        0 => runner.to_owned(),
        calls => format!("{runner} {calls}"),
    }
}

/// The most that is read of a file, in MiB. No report comes near it.
const READ_MAX: u64 = 64;

/// A report, from its file, which may be a pipe.
pub fn read(file: &Path) -> io::Result<Report> {
    let name = file.display();
    let text = File::open(file).and_then(|file| read_at_most(file, READ_MAX));
    let text = text.map_err(|error| named(file, error))?;
    parse(&text).map_err(|error| {
        let problem = format!("{name} is no report of this version of circulant: {error}");
        io::Error::new(ErrorKind::InvalidData, problem)
    })
}

/// A report, from its text. Strings are what a terminal and XML can show: whoever wrote the file
/// may have written control characters, which would change what a terminal does.
pub fn parse(text: &str) -> serde_json::Result<Report> {
    // If it is none, the error says in which line.
    serde_json::from_str::<Report>(text)?;
    serde_json::from_value(shown(serde_json::from_str(text)?))
}

/// The same with strings that can be shown.
fn shown(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(visible(&text)),
        Value::Array(values) => values.into_iter().map(shown).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            fields
                .map(|(name, value)| (visible(&name), shown(value)))
                .collect()
        }
        other => other,
    }
}

fn visible(text: &str) -> String {
    let text = text.replace(['\t', '\n', '\r'], " ");
    text.replace(
        |c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'),
        "\u{fffd}",
    )
}

pub fn named(file: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", file.display()))
}

/// The sum over all sizes.
pub fn total(report: &Report, seconds: fn(&Size) -> Option<f64>) -> f64 {
    report.sizes.iter().filter_map(seconds).sum()
}
