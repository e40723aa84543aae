//! `circulant report`: what a run did and learned, from its report in JSON, as tables, a drawing or
//! a page.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use circulant::message::say;
use circulant::report::three_decimals;
use circulant::select::{CANDIDATES, PLACES};
use plotters::prelude::*;

use crate::contents::{Learned, OfRanks, Size, named, total};
pub use crate::contents::{Report, read};
use crate::markdown::{self, Column};
use crate::page;

#[derive(clap::Args)]
pub struct Arguments {
    /// The report, as CIRCULANT_REPORT=FILE wrote it
    #[arg(value_name = "FILE")]
    report: PathBuf,

    /// Draw the times by size, natively and by circulant, to this file (SVG)
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Write a page with bars of the time of each operation and size, who ran the calls and what
    /// was saved, to this file (HTML, which needs nothing else)
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let report = read(&arguments.report)?;
    print(&mut io::stdout().lock(), &report)?;
    match &arguments.svg {
        Some(file) if report.sizes.is_empty() => say(&format!(
            "circulant: {} is not written: no collective operation was called",
            file.display()
        )),
        Some(file) => draw(&report.sizes, file)?,
        None => {}
    }
    if let Some(file) = &arguments.html {
        fs::write(file, paged(&report)?).map_err(|error| named(file, error))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the report as tables.
pub fn print(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let Report {
        mpi,
        processes,
        rank,
        ..
    } = report;
    writeln!(out, "Rank {rank} of {processes}, {mpi}\n")?;
    print_sizes(out, report)?;
    print_ranks(out, report)?;
    if !report.learned.is_empty() {
        writeln!(out, "\nWhat was learned:\n")?;
        markdown::print(out, &LEARNED, &report.learned)?;
    }
    Ok(())
}

/// The report as a page.
pub fn paged(report: &Report) -> io::Result<String> {
    Ok(page::page(report, &drawn(&report.sizes)?))
}

fn print_sizes(out: &mut impl Write, report: &Report) -> io::Result<()> {
    if report.sizes.is_empty() {
        return writeln!(out, "No collective operation was called.");
    }
    markdown::print(out, &SIZES, &report.sizes)?;
    let saved = three_decimals(total(report, |size| size.saved_seconds));
    let more = three_decimals(total(report, |size| size.could_save_seconds));
    writeln!(
        out,
        "\ncirculant saved {saved} s, and could save {more} s more."
    )
}

fn print_ranks(out: &mut impl Write, report: &Report) -> io::Result<()> {
    if let Some(ranks) = &report.ranks {
        writeln!(out, "\nOver {}:\n", ranks.heading())?;
        markdown::print(out, &OF_RANKS, &ranks.sizes)?;
    } else if let Some(why) = &report.ranks_missing {
        writeln!(out, "\nThis is of one rank alone: {why}.")?;
    }
    Ok(())
}

/// Prints what was learned.
pub fn print_learned(report: &Report) -> io::Result<()> {
    markdown::print(&mut io::stdout().lock(), &LEARNED, &report.learned)
}

fn milliseconds(seconds: Option<f64>) -> String {
    seconds.map_or_else(String::new, |seconds| format!("{:.3}", seconds * 1e3))
}

fn seconds(seconds: Option<f64>) -> String {
    seconds.map(three_decimals).unwrap_or_default()
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

const OF_RANKS: [Column<OfRanks>; 12] = [
    ("operation", |row| row.operation.clone()),
    ("bytes", |row| {
        row.bytes
            .map_or_else(String::new, |bytes| bytes.to_string())
    }),
    ("processes", OfRanks::processes),
    ("nodes", |row| {
        row.nodes
            .map_or_else(String::new, |nodes| nodes.to_string())
    }),
    ("ranks", |row| row.ranks.to_string()),
    ("calls", |row| row.calls.to_string()),
    ("least, s", |row| seconds(Some(row.seconds.least))),
    ("mean, s", |row| seconds(Some(row.seconds.mean))),
    ("most, s", |row| seconds(Some(row.seconds.most))),
    ("waits, s", |row| seconds(Some(row.waiting_seconds))),
    ("of the run", |row| {
        format!("{:.1}%", 1e2 * row.share_of_run)
    }),
    ("ran by", OfRanks::ran),
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

/// The pictures in a file.
fn draw(sizes: &[Size], file: &Path) -> io::Result<()> {
    draw_pictures(pictures(sizes), file)
}

/// The pictures as text.
fn drawn(sizes: &[Size]) -> io::Result<String> {
    let pictures = pictures(sizes);
    let mut text = String::new();
    if !pictures.is_empty() {
        let backend = SVGBackend::with_string(&mut text, size(&pictures));
        draw_on(backend, &pictures).map_err(io::Error::other)?;
    }
    Ok(text)
}

/// One picture for each operation: milliseconds of a call by its bytes, both on logarithmic scales.
fn pictures(sizes: &[Size]) -> Vec<(String, Vec<Line>)> {
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
    pictures.collect()
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
        RGBColor(128, 128, 0),
        RGBColor(0, 128, 128),
    ];
    let line = |label: &str, style, name: &dyn Fn(&Learned) -> String| {
        let points = rows
            .iter()
            .filter_map(|row| point(row.bytes, *row.tried.get(&name(row))?));
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
    let backend = SVGBackend::new(file, size(&pictures));
    let named = |problem| io::Error::other(format!("{}: {problem}", file.display()));
    draw_on(backend, &pictures).map_err(named)
}

/// Pixels of all pictures.
fn size(pictures: &[(String, Vec<Line>)]) -> (u32, u32) {
    let count = u32::try_from(pictures.len()).unwrap_or(1).max(1);
    (WIDTH, HEIGHT * count)
}

fn draw_on(backend: SVGBackend, pictures: &[(String, Vec<Line>)]) -> Result<(), String> {
    let root = backend.into_drawing_area();
    let areas = root.split_evenly((pictures.len().max(1), 1));
    let drawn = root.fill(&WHITE).map_err(|error| error.to_string());
    let all = pictures.iter().zip(&areas);
    let drawn = all.fold(drawn, |drawn, ((name, lines), area)| {
        drawn.and_then(|()| picture(area, name, lines).map_err(|error| error.to_string()))
    });
    drawn.and_then(|()| root.present().map_err(|error| error.to_string()))
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
    let points = sizes
        .iter()
        .filter_map(|size| point(size.bytes, seconds(size)?));
    points.collect()
}

/// Where a time of a call is drawn. One that no call takes is not, nor one of no bytes: a
/// logarithmic axis from 0 or to infinity never ends.
fn point(bytes: u64, seconds: f64) -> Option<(f64, f64)> {
    const DRAWN: Range<f64> = 1e-12..1e12;
    (bytes > 0 && DRAWN.contains(&seconds)).then_some((bytes as f64, seconds * 1e3))
}

/// The range of an axis, a little wider than what is on it.
fn range(values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let ends = values.fold(None, |ends: Option<(f64, f64)>, value| {
        let (least, most) = ends.unwrap_or((value, value));
        Some((least.min(value), most.max(value)))
    });
    ends.map(|(least, most)| least / 1.5..most * 1.5)
}
