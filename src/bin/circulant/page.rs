//! The page of a report: one HTML file, which is also XML, with drawings, without scripts, and
//! without anything from elsewhere.

use std::collections::BTreeSet;
use std::fmt::Display;

use circulant::report::three_decimals;
use circulant::select;

use crate::contents::{OfRanks, Report, Size, Spread, ran_by, total};

/// The page, with the times of calls by size `drawn` as SVG.
pub fn page(report: &Report, drawn: &str) -> String {
    let bars = bars(report);
    let whose = if report.ranks.is_some() {
        OF_RANKS
    } else {
        OF_ONE_RANK
    };
    let mut sections = vec![
        section("Time by operation and size", whose, &times(&bars)),
        section("Who ran the calls", "By their time.", &runners(&bars)),
        section("What was saved", &saved_in_all(report), &savings(report)),
        section("Calls", "", &table(&bars)),
    ];
    if !drawn.is_empty() {
        sections.push(section("Time of a call by its size", "", drawn));
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n\
         <meta charset=\"utf-8\"/>\n<title>circulant: report</title>\n<style>{STYLE}</style>\n\
         </head>\n<body>\n<h1>Report of circulant</h1>\n{}{}</body>\n</html>\n",
        heading(report),
        sections.concat()
    )
}

/// What the bars show.
const OF_RANKS: &str = "A bar is the mean over the ranks that made such calls; the line goes from \
    the least to the most of a rank. Waiting is the time beyond that of the rank whose calls were \
    the shortest: so long, at least, ranks waited for later ones, if all have as much to transfer.";
const OF_ONE_RANK: &str =
    "A bar is the time of one rank, in which waiting for others cannot be told apart.";

const STYLE: &str = "\
    body { font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 960px; padding: 0 1em; \
    color: #222; background: #fff } \
    h2 { margin-top: 2em; border-bottom: 1px solid #ccc } \
    svg { display: block; max-width: 100% } svg text { font: 12px sans-serif } \
    table { border-collapse: collapse } th, td { padding: 2px 8px; text-align: right } \
    th { border-bottom: 1px solid #999 } tr:nth-child(even) td { background: #f4f4f4 } \
    td:first-child, th:first-child, td:last-child, th:last-child { text-align: left }";

/// Text as XML has it.
fn escaped(text: impl Display) -> String {
    let text = text.to_string().replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

fn section(title: &str, words: &str, content: &str) -> String {
    let words = match words {
        "" => String::new(),
        words => format!("<p>{}</p>\n", escaped(words)),
    };
    format!("<h2>{}</h2>\n{words}{content}\n", escaped(title))
}

fn heading(report: &Report) -> String {
    let Report {
        circulant,
        mpi,
        processes,
        rank,
        ..
    } = report;
    let whose = match (&report.ranks, &report.ranks_missing) {
        (Some(ranks), _) => format!("Of {}.", ranks.heading()),
        (None, Some(why)) => format!("Of rank {rank} of {processes} alone: {why}."),
        (None, None) => format!("Of rank {rank} of {processes}."),
    };
    let words = format!("circulant {circulant}, {mpi}. {whose}");
    let is_set = |(name, value): &(&String, &String)| {
        let default = select::describe().find(|variable| variable.name == **name);
        default.is_none_or(|variable| variable.default.as_ref() != Some(value))
    };
    let settings = report.settings.iter().filter(is_set);
    let settings: Vec<_> = settings
        .map(|(name, value)| format!("<code>{}={}</code>", escaped(name), escaped(value)))
        .collect();
    let settings = match settings.is_empty() {
        true => "All settings are the defaults.".to_owned(),
        false => format!("Settings: {}.", settings.join(", ")),
    };
    format!("<p>{}</p>\n<p>{settings}</p>\n", escaped(words))
}

/// The calls of one operation and size.
struct Bar {
    operation: String,
    bytes: Option<u64>,
    processes: String,
    nodes: Option<usize>,
    calls: u64,
    seconds: Spread,
    waiting: Option<f64>,
    share: Option<f64>,
    /// Name, calls and seconds.
    ran: Vec<(String, u64, f64)>,
}

impl Bar {
    fn label(&self) -> String {
        label(&self.operation, self.bytes)
    }
}

fn label(operation: &str, bytes: Option<u64>) -> String {
    match bytes {
        Some(bytes) => format!("{operation} {}", size(bytes)),
        None => operation.to_owned(),
    }
}

/// A power of two, with a suffix.
fn size(bytes: u64) -> String {
    let suffixes = [(30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")];
    let fits = suffixes.iter().find(|(shift, _)| bytes >> shift > 0);
    let (shift, suffix) = fits.unwrap_or(&(0, "B"));
    format!("{} {suffix}", bytes >> shift)
}

/// Over all ranks, where the report is; else of the rank that wrote it.
fn bars(report: &Report) -> Vec<Bar> {
    match &report.ranks {
        Some(ranks) => ranks.sizes.iter().map(of_ranks).collect(),
        None => report.sizes.iter().map(of_one).collect(),
    }
}

fn of_ranks(row: &OfRanks) -> Bar {
    let ran = row.ran.iter();
    Bar {
        operation: row.operation.clone(),
        bytes: row.bytes,
        processes: row.processes(),
        nodes: row.nodes,
        calls: row.calls,
        seconds: row.seconds,
        waiting: Some(row.waiting_seconds),
        share: Some(row.share_of_run),
        ran: ran
            .map(|(name, ran)| (name.clone(), ran.calls, ran.seconds))
            .collect(),
    }
}

fn of_one(row: &Size) -> Bar {
    let ran = [
        ("native", row.native_calls, row.native_seconds),
        ("circulant", row.circulant_calls, row.circulant_seconds),
    ];
    let seconds = row.native_seconds + row.circulant_seconds;
    Bar {
        operation: row.operation.clone(),
        bytes: Some(row.bytes),
        processes: String::new(),
        nodes: None,
        calls: row.calls(),
        seconds: Spread {
            least: seconds,
            mean: seconds,
            most: seconds,
        },
        waiting: None,
        share: None,
        ran: ran
            .into_iter()
            .filter(|(_, calls, _)| *calls > 0)
            .map(|(name, calls, seconds)| (name.to_owned(), calls, seconds))
            .collect(),
    }
}

/// Pixels of a drawing: of the labels, of the longest bar, of the numbers behind it, of a row.
const LABEL: f64 = 230.0;
const LONGEST: f64 = 480.0;
const NUMBERS: f64 = 210.0;
const ROW: f64 = 22.0;

const BLUE: &str = "#2a6fb0";
const ORANGE: &str = "#e8912d";
const GRAY: &str = "#8a8a8a";
const GREEN: &str = "#3c9a4e";
const OTHERS: [&str; 7] = [
    BLUE, GREEN, "#b04a8a", "#d0b020", "#40a8a8", "#c0392b", "#705030",
];

/// A rectangle of a row: where it begins, how long it is, and its color.
fn rectangle(row: usize, start: f64, length: f64, color: &str, title: &str) -> String {
    let (x, y, height) = (LABEL + start, ROW * row as f64 + 4.0, ROW - 7.0);
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{height}\" \
         fill=\"{color}\"><title>{}</title></rect>\n",
        escaped(title)
    )
}

fn text(row: usize, x: f64, anchor: &str, words: &str) -> String {
    let y = ROW * row as f64 + 16.0;
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n",
        escaped(words)
    )
}

/// A drawing of rows, below the meaning of its colors.
fn drawing(legend: &[(&str, &str)], rows: &[String]) -> String {
    let entry = |(index, (color, name)): (usize, &(&str, &str))| {
        let (across, down) = (index % 6, index / 6);
        let x = 120.0 * across as f64 - LABEL;
        let name = text(down, LABEL + x + 20.0, "start", name);
        rectangle(down, x, 15.0, color, "") + &name
    };
    let entries: String = legend.iter().enumerate().map(entry).collect();
    let above = legend.len().div_ceil(6) as f64 * ROW + 6.0;
    let (width, height) = (LABEL + LONGEST + NUMBERS, above + ROW * rows.len() as f64);
    let rows = rows.concat();
    format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         xmlns=\"http://www.w3.org/2000/svg\" role=\"img\">\n{entries}\
         <g transform=\"translate(0 {above})\">\n{rows}</g>\n</svg>\n"
    )
}

fn longest(seconds: impl Iterator<Item = f64>) -> f64 {
    seconds.fold(f64::MIN_POSITIVE, f64::max)
}

/// A bar for each operation and size: transfer and waiting, and how far the ranks are apart.
fn times(bars: &[Bar]) -> String {
    if bars.is_empty() {
        return "<p>No collective operation was called.</p>\n".to_owned();
    }
    let scale = LONGEST / longest(bars.iter().map(|bar| bar.seconds.most));
    let rows: Vec<_> = bars
        .iter()
        .enumerate()
        .map(|(row, bar)| times_of(row, bar, scale))
        .collect();
    let legend = match bars.iter().any(|bar| bar.waiting.is_some()) {
        true => vec![(BLUE, "transfer"), (ORANGE, "waiting")],
        false => vec![(BLUE, "all")],
    };
    drawing(&legend, &rows)
}

fn times_of(row: usize, bar: &Bar, scale: f64) -> String {
    let Spread { least, mean, most } = bar.seconds;
    let waiting = bar.waiting.unwrap_or(0.0).min(mean);
    let transfer = mean - waiting;
    let share = bar.share.map(|share| format!(", {:.1}%", 1e2 * share));
    let numbers = format!("{mean:.3} s{}", share.unwrap_or_default());
    let y = ROW * row as f64 + ROW / 2.0 + 0.5;
    let [from, to] = [least, most].map(|seconds| LABEL + seconds * scale);
    let rectangles = [
        (0.0, transfer, BLUE, "transfer"),
        (transfer, waiting, ORANGE, "waiting"),
    ];
    let rectangles = rectangles.map(|(start, seconds, color, name)| {
        let title = format!("{name}: {seconds:.6} s");
        rectangle(row, start * scale, seconds * scale, color, &title)
    });
    let line = format!(
        "<line x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#222\"/>\n"
    );
    [
        text(row, LABEL - 8.0, "end", &bar.label()),
        rectangles.concat(),
        line,
        text(row, LABEL + most * scale + 8.0, "start", &numbers),
    ]
    .concat()
}

/// Those that ran calls, each with its color.
fn colors(bars: &[Bar]) -> Vec<(&'static str, &str)> {
    let names = bars.iter().flat_map(|bar| &bar.ran);
    let names: BTreeSet<_> = names.map(|(name, ..)| name.as_str()).collect();
    let mut others = OTHERS.iter().copied().cycle();
    let mut color = |name| match name {
        "native" => GRAY,
        _ => others.next().unwrap_or(BLUE),
    };
    names.into_iter().map(|name| (color(name), name)).collect()
}

/// A bar of one length for each operation and size, divided between those who ran the calls.
fn runners(bars: &[Bar]) -> String {
    let colors = colors(bars);
    let color = |name: &str| {
        let found = colors.iter().find(|(_, known)| *known == name);
        found.map_or(GRAY, |(color, _)| *color)
    };
    let row = |(row, bar): (usize, &Bar)| {
        let all: f64 = bar.ran.iter().map(|(_, _, seconds)| seconds).sum();
        let all = all.max(f64::MIN_POSITIVE);
        let mut start = 0.0;
        let rectangles = bar.ran.iter().map(|(name, calls, seconds)| {
            let length = LONGEST * seconds / all;
            start += length;
            let title = format!("{name}: {calls} calls, {seconds:.6} s of all ranks");
            rectangle(row, start - length, length, color(name), &title)
        });
        let rectangles: String = rectangles.collect();
        let calls = text(
            row,
            LABEL + LONGEST + 8.0,
            "start",
            &format!("{} calls", bar.calls),
        );
        text(row, LABEL - 8.0, "end", &bar.label()) + &rectangles + &calls
    };
    let rows: Vec<_> = bars.iter().enumerate().map(row).collect();
    drawing(&colors, &rows)
}

fn saved_in_all(report: &Report) -> String {
    let saved = three_decimals(total(report, |size| size.saved_seconds));
    let more = three_decimals(total(report, |size| size.could_save_seconds));
    let rank = report.rank;
    format!("On rank {rank}, circulant saved {saved} s, and could save {more} s more.")
}

/// A bar for each operation and size of which something is known.
fn savings(report: &Report) -> String {
    let seconds = |size: &Size| [size.saved_seconds, size.could_save_seconds];
    let is_known = |size: &&Size| {
        seconds(size)
            .iter()
            .flatten()
            .any(|seconds| *seconds != 0.0)
    };
    let sizes: Vec<_> = report.sizes.iter().filter(is_known).collect();
    let all = sizes.iter().flat_map(|size| seconds(size)).flatten();
    let scale = 0.5 * LONGEST / longest(all.map(f64::abs));
    let row = |(row, size): (usize, &&Size)| {
        let [saved, more] = seconds(size).map(|seconds| seconds.unwrap_or(0.0));
        let color = if saved < 0.0 { ORANGE } else { GREEN };
        let numbers = format!("{} s, {more:.3} s", three_decimals(saved));
        let length = saved.abs() * scale;
        [
            text(
                row,
                LABEL - 8.0,
                "end",
                &label(&size.operation, Some(size.bytes)),
            ),
            rectangle(row, 0.0, length, color, &format!("saved: {saved:.6} s")),
            rectangle(
                row,
                length,
                more * scale,
                GRAY,
                &format!("could save: {more:.6} s"),
            ),
            text(row, LABEL + length + more * scale + 8.0, "start", &numbers),
        ]
        .concat()
    };
    if sizes.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = sizes.iter().enumerate().map(row).collect();
    let legend = [(GREEN, "saved"), (ORANGE, "lost"), (GRAY, "could be saved")];
    drawing(&legend, &rows)
}

fn table(bars: &[Bar]) -> String {
    const HEADS: [&str; 11] = [
        "operation",
        "bytes",
        "processes",
        "nodes",
        "calls",
        "least, s",
        "mean, s",
        "most, s",
        "waits, s",
        "of the run",
        "ran by",
    ];
    let seconds = |seconds: f64| format!("{seconds:.3}");
    let cells = |bar: &Bar| {
        let ran = bar.ran.iter();
        let ran = ran.map(|(name, calls, _)| ran_by(name, *calls));
        let share = bar.share.map(|share| format!("{:.1}%", 1e2 * share));
        [
            bar.operation.clone(),
            bar.bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
            bar.processes.clone(),
            bar.nodes.map(|nodes| nodes.to_string()).unwrap_or_default(),
            bar.calls.to_string(),
            seconds(bar.seconds.least),
            seconds(bar.seconds.mean),
            seconds(bar.seconds.most),
            bar.waiting.map(seconds).unwrap_or_default(),
            share.unwrap_or_default(),
            ran.collect::<Vec<_>>().join(", "),
        ]
    };
    let line = |tag: &str, cells: &[String]| {
        let cells = cells
            .iter()
            .map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let heads = line("th", &HEADS.map(str::to_owned));
    let rows: String = bars.iter().map(|bar| line("td", &cells(bar))).collect();
    format!("<table>\n<thead>{heads}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n")
}
