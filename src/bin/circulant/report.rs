//! `circulant report`: what a run did and learned, from its report in JSON: a table, and a drawing.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use circulant::select::{CANDIDATES, Kind, PLACES};
use plotters::prelude::*;
use serde::Deserialize;

use crate::markdown::{self, Column};

#[derive(clap::Args)]
pub struct Arguments {
    /// The report, as CIRCULANT_REPORT=FILE wrote it
    #[arg(value_name = "FILE")]
    report: PathBuf,

    /// Draw the times by size, natively and by circulant, to this file (SVG)
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Deserialize)]
pub struct Report {
    pub mpi: String,
    pub processes: usize,
    pub rank: usize,
    /// By name.
    pub settings: BTreeMap<String, String>,
    pub sizes: Vec<Size>,
    learned: Vec<Learned>,
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
    native_seconds_a_call: Option<f64>,
    circulant_seconds_a_call: Option<f64>,
    is_predicted: bool,
    saved_seconds: Option<f64>,
    could_save_seconds: Option<f64>,
}

/// A kind of calls, and who runs them.
#[derive(Deserialize)]
struct Learned {
    operation: String,
    bytes: u64,
    irregularity: u64,
    processes: usize,
    nodes: usize,
    run: String,
    is_exact: bool,
    is_measured: bool,
    native_seconds: f64,
    circulant_seconds: f64,
    /// Of each candidate that was tried.
    tried: BTreeMap<String, f64>,
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

pub fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let report = read(&arguments.report)?;
    let mut out = io::stdout().lock();
    let Report {
        mpi,
        processes,
        rank,
        ..
    } = &report;
    writeln!(out, "Rank {rank} of {processes}, {mpi}\n")?;
    if report.sizes.is_empty() {
        writeln!(out, "No collective operation was called.")?;
        return Ok(ExitCode::SUCCESS);
    }
    markdown::print(&mut out, &SIZES, &report.sizes)?;
    let saved = total(&report, |size| size.saved_seconds);
    let more = total(&report, |size| size.could_save_seconds);
    writeln!(
        out,
        "\ncirculant saved {saved:.3} s, and could save {more:.3} s more."
    )?;
    if !report.learned.is_empty() {
        writeln!(out, "\nWhat was learned:\n")?;
        markdown::print(&mut out, &LEARNED, &report.learned)?;
    }
    if let Some(file) = &arguments.svg {
        draw(&report.sizes, file)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what was learned.
pub fn print_learned(report: &Report) -> io::Result<()> {
    markdown::print(&mut io::stdout().lock(), &LEARNED, &report.learned)
}

/// A report, from its file.
pub fn read(file: &Path) -> io::Result<Report> {
    let name = file.display();
    let said = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
    let text = fs::read_to_string(file).map_err(said)?;
    serde_json::from_str(&text).map_err(|error| {
        let problem = format!("{name} is no report of this version of circulant: {error}");
        io::Error::new(ErrorKind::InvalidData, problem)
    })
}

fn total(report: &Report, seconds: fn(&Size) -> Option<f64>) -> f64 {
    report.sizes.iter().filter_map(seconds).sum()
}

fn milliseconds(seconds: Option<f64>) -> String {
    seconds.map_or_else(String::new, |seconds| format!("{:.3}", seconds * 1e3))
}

fn seconds(seconds: Option<f64>) -> String {
    seconds.map_or_else(String::new, |seconds| format!("{seconds:.3}"))
}

const SIZES: [Column<Size>; 8] = [
    ("operation", |size| size.operation.clone()),
    ("bytes", |size| size.bytes.to_string()),
    ("native calls", |size| size.native_calls.to_string()),
    ("circulant calls", |size| size.circulant_calls.to_string()),
    ("native, ms", |size| {
        milliseconds(size.native_seconds_a_call)
    }),
    ("circulant, ms", |size| {
        let about = if size.is_predicted { "about " } else { "" };
        let time = milliseconds(size.circulant_seconds_a_call);
        if time.is_empty() {
            time
        } else {
            format!("{about}{time}")
        }
    }),
    ("saved, s", |size| seconds(size.saved_seconds)),
    ("could save, s", |size| seconds(size.could_save_seconds)),
];

const LEARNED: [Column<Learned>; 10] = [
    ("operation", |row| row.operation.clone()),
    ("bytes", |row| row.bytes.to_string()),
    ("irregularity", |row| row.irregularity.to_string()),
    ("order", |row| {
        if row.is_exact { "any" } else { "matters" }.to_owned()
    }),
    ("processes", |row| row.processes.to_string()),
    ("nodes", |row| row.nodes.to_string()),
    ("run", |row| row.run.clone()),
    ("native, ms", |row| milliseconds(Some(row.native_seconds))),
    ("circulant, ms", |row| {
        let about = if row.is_measured { "" } else { "about " };
        format!("{about}{}", milliseconds(Some(row.circulant_seconds)))
    }),
    ("tried, ms", |row| {
        let times = row.tried.iter();
        let times = times.map(|(name, &seconds)| format!("{name} {}", milliseconds(Some(seconds))));
        times.collect::<Vec<_>>().join(", ")
    }),
];

/// Pixels of the drawing of one operation.
const WIDTH: u32 = 640;
const HEIGHT: u32 = 360;

/// A line of a picture: points, and how it is drawn.
struct Line {
    label: String,
    style: ShapeStyle,
    points: Vec<(f64, f64)>,
}

/// One picture for each operation: milliseconds of a call by its bytes, both on logarithmic scales.
fn draw(sizes: &[Size], file: &Path) -> io::Result<()> {
    let mut operations: BTreeMap<&str, Vec<&Size>> = BTreeMap::new();
    for size in sizes {
        operations.entry(&size.operation).or_default().push(size);
    }
    let pictures = operations.into_iter().map(|(name, sizes)| {
        let line = |label: &str, color: &RGBColor, seconds| Line {
            label: label.to_owned(),
            style: ShapeStyle::from(color).stroke_width(2),
            points: points(&sizes, seconds),
        };
        let native = line("native", &BLACK, |size| size.native_seconds_a_call);
        let ours = line("circulant", &RED, |size| size.circulant_seconds_a_call);
        (name.to_owned(), vec![native, ours])
    });
    draw_pictures(pictures.collect(), file)
}

/// One picture for each operation and kind of operands: milliseconds of a call by each candidate
/// that was tried, and below them, broad, those of the one that runs the calls.
pub fn draw_learned(report: &Report, file: &Path) -> io::Result<()> {
    let mut pictures: BTreeMap<String, Vec<&Learned>> = BTreeMap::new();
    for row in report.learned.iter().filter(|row| row.is_measured) {
        let exact = if row.is_exact {
            ""
        } else {
            ", floating-point numbers"
        };
        let irregular = match row.irregularity {
            1 => String::new(),
            of => format!(", largest part {of} times the mean"),
        };
        let name = format!("{}{irregular}{exact}", row.operation);
        pictures.entry(name).or_default().push(row);
    }
    let pictures = pictures.into_iter().map(|(name, mut rows)| {
        rows.sort_by_key(|row| row.bytes);
        (name, candidates(&rows))
    });
    draw_pictures(pictures.collect(), file)
}

/// The line of the chosen, and those of all candidates.
fn candidates(rows: &[&Learned]) -> Vec<Line> {
    const COLORS: [RGBColor; PLACES] = [
        BLACK,
        RED,
        BLUE,
        GREEN,
        MAGENTA,
        CYAN,
        RGBColor(255, 140, 0),
        RGBColor(120, 80, 40),
        RGBColor(128, 128, 128),
    ];
    let line = |label: &str, style, name: &dyn Fn(&Learned) -> String| {
        let points = rows.iter().filter_map(|row| {
            let seconds = row.tried.get(&name(row))?;
            Some((row.bytes as f64, seconds * 1e3))
        });
        let (label, points) = (label.to_owned(), points.collect());
        Line {
            label,
            style,
            points,
        }
    };
    let broad = ShapeStyle::from(YELLOW).stroke_width(10);
    let chosen = line("chosen", broad, &|row| row.run.clone());
    let each = CANDIDATES.iter().zip(COLORS).map(|(candidate, color)| {
        let style = ShapeStyle::from(color).stroke_width(2);
        line(candidate, style, &|_| (*candidate).to_owned())
    });
    std::iter::once(chosen).chain(each).collect()
}

fn draw_pictures(pictures: Vec<(String, Vec<Line>)>, file: &Path) -> io::Result<()> {
    let count = u32::try_from(pictures.len()).unwrap_or(1).max(1);
    let root = SVGBackend::new(file, (WIDTH, HEIGHT * count)).into_drawing_area();
    let areas = root.split_evenly((pictures.len().max(1), 1));
    let drawn = root.fill(&WHITE).map_err(|error| error.to_string());
    let all = pictures.iter().zip(&areas);
    let drawn = all.fold(drawn, |drawn, ((name, lines), area)| {
        drawn.and_then(|()| picture(area, name, lines).map_err(|error| error.to_string()))
    });
    let drawn = drawn.and_then(|()| root.present().map_err(|error| error.to_string()));
    drawn.map_err(|problem| io::Error::other(format!("{}: {problem}", file.display())))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn picture(
    area: &Area,
    name: &str,
    lines: &[Line],
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let all = || lines.iter().flat_map(|line| &line.points);
    let (Some(x), Some(y)) = (range(all().map(|at| at.0)), range(all().map(|at| at.1))) else {
        return Ok(());
    };
    let mut chart = ChartBuilder::on(area)
        .caption(name, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(x.log_scale(), y.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("bytes")
        .y_desc("ms a call")
        .draw()?;
    for line in lines.iter().filter(|line| !line.points.is_empty()) {
        let style = line.style;
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), style).point_size(3))?
            .label(&line.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
    }
    let mut labels = chart.configure_series_labels();
    let labels = labels.position(SeriesLabelPosition::UpperLeft);
    labels.border_style(BLACK).background_style(WHITE).draw()?;
    Ok(())
}

fn points(sizes: &[&Size], seconds: fn(&Size) -> Option<f64>) -> Vec<(f64, f64)> {
    let points = sizes.iter().filter_map(|size| {
        let time = seconds(size).filter(|&time| time > 0.0)?;
        Some((size.bytes as f64, time * 1e3))
    });
    points.collect()
}

/// The range of an axis, a little wider than what is on it.
fn range(values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let ends = values.fold(None, |ends: Option<(f64, f64)>, value| {
        let (least, most) = ends.unwrap_or((value, value));
        Some((least.min(value), most.max(value)))
    });
    ends.map(|(least, most)| least / 1.5..most * 1.5)
}
