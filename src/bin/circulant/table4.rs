//! `circulant schedule --bench`: the paper's Table 4, the time of receive and send schedules over
//! ranges of p, and beside the paper's columns the paper's algorithms in C and ours, measured now.

use std::io::{self, Write};
use std::time::Duration;

use super::markdown::{self, Column};
use super::sweep::{Sweep, Swept};
use super::timing::{STRETCH, STRETCHES, TURNS};
use super::transcription;

/// What the paper has for a range of p: the O(log^3 p) and the O(log p) algorithm.
struct Paper {
    sweep: Sweep,
    /// Seconds for all processes of all p.
    total: [f64; 2],
    /// Microseconds for a process, on average.
    each: [f64; 2],
}

const fn paper(from: usize, to: usize, total: [f64; 2], each: [f64; 2]) -> Paper {
    let sweep = Sweep { from, to };
    Paper { sweep, total, each }
}

/// The last row has 44714.9 for what is "44714.9.0" in the paper: the other columns agree with
/// that.
const TABLE_4: [Paper; 8] = [
    paper(1, 17_000, [443.8, 50.0], [2.769, 0.334]),
    paper(16_000, 33_000, [1567.2, 152.8], [3.763, 0.370]),
    paper(64_000, 73_000, [3206.0, 282.6], [5.187, 0.454]),
    paper(131_000, 140_000, [7595.0, 653.2], [6.226, 0.534]),
    paper(262_000, 267_000, [9579.4, 726.6], [7.242, 0.548]),
    paper(524_000, 529_000, [21580.2, 1492.9], [8.196, 0.566]),
    paper(1_048_000, 1_050_000, [18934.3, 1083.8], [9.024, 0.516]),
    paper(2_097_000, 2_099_000, [44714.9, 2554.6], [10.656, 0.608]),
];

/// The paper's and what was measured, for a range of p.
type Row = (&'static Paper, Swept);

const TIMES: &[Column<Row>] = &[
    ("range of p", |(_, swept)| range(swept)),
    ("paper old, s", |(paper, _)| {
        format!("{:.1}", paper.total[0])
    }),
    ("paper new, s", |(paper, _)| {
        format!("{:.1}", paper.total[1])
    }),
    ("C, s", |(_, swept)| {
        format!("{:.1}", swept.total(|t| t.paper))
    }),
    ("ours, s", |(_, swept)| {
        format!("{:.1}", swept.total(|t| t.both))
    }),
    ("paper old, µs", |(paper, _)| {
        format!("{:.3}", paper.each[0])
    }),
    ("paper new, µs", |(paper, _)| {
        format!("{:.3}", paper.each[1])
    }),
    ("C, µs", |(_, swept)| {
        format!("{:.3}", 1e6 * swept.mean(|t| t.paper))
    }),
    ("ours, µs", |(_, swept)| {
        format!("{:.3}", 1e6 * swept.mean(|t| t.both))
    }),
    ("ours / C", |(_, swept)| {
        format!("{:.2}", swept.mean(|t| t.both) / swept.mean(|t| t.paper))
    }),
];

const SAMPLES: &[Column<Row>] = &[
    ("range of p", |(_, swept)| range(swept)),
    ("p timed", |(_, swept)| {
        format!("{} of {}", swept.times.len(), swept.sweep.len())
    }),
    ("first p", |(_, swept)| swept.sweep.first().to_string()),
    ("step", |(_, swept)| swept.sweep.step().to_string()),
    ("processes", |(_, swept)| swept.processes().to_string()),
    ("C, s", |(_, swept)| {
        format!("{:.2}", swept.seconds(|t| t.paper))
    }),
    ("ours, s", |(_, swept)| {
        format!("{:.2}", swept.seconds(|t| t.both))
    }),
    ("ours / C", |(_, swept)| {
        let [least, greatest] = swept.ratios();
        format!("{least:.2} to {greatest:.2}")
    }),
    ("receive, µs", |(_, swept)| {
        format!("{:.3}", 1e6 * swept.mean(|t| t.receive))
    }),
    ("table, µs", |(_, swept)| {
        format!("{:.4}", 1e6 * swept.mean(|t| t.table))
    }),
    ("table / receive", |(_, swept)| {
        format!("{:.3}", swept.mean(|t| t.table) / swept.mean(|t| t.receive))
    }),
];

fn range(swept: &Swept) -> String {
    format!("{} to {}", swept.sweep.from, swept.sweep.to)
}

const PROGRESS: &str = "{elapsed_precise} [{wide_bar}] {msg}";

/// Of the progress bar, for a range.
const STEPS: u64 = 1000;

/// Measures for about `time`, an equal share for each range, and prints.
pub fn run(time: Duration) -> io::Result<()> {
    let share = time / TABLE_4.len() as u32;
    let bar = super::progress_bar(STEPS * TABLE_4.len() as u64, PROGRESS);
    let mut rows = Vec::new();
    for paper in &TABLE_4 {
        let (Sweep { from, to }, before) = (paper.sweep, STEPS * rows.len() as u64);
        bar.set_message(format!("p = {from} to {to}"));
        bar.set_position(before);
        let swept = paper.sweep.run(share, |part| {
            bar.set_position(before + (part * STEPS as f64) as u64);
        })?;
        rows.push((paper, swept));
    }
    bar.finish_and_clear();
    print(&mut io::stdout().lock(), &rows)
}

fn print(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    writeln!(
        out,
        "The paper's Table 4: receive and send schedules. Paper old and new: the O(log^3 p) and
the O(log p) algorithm as printed there, on an Intel Xeon E3-1225 at 3.3 GHz. Measured now, in
processor time:
C: the new algorithm, transcribed; {}
ours: circulant {}
Seconds: all processes of all p, for C and ours extrapolated from the p that were timed.
Microseconds: a process, averaged over the p.
",
        transcription::COMPILER,
        env!("CARGO_PKG_VERSION"),
    )?;
    if cfg!(debug_assertions) {
        writeln!(
            out,
            "This build is for debugging: our times in it say nothing.\n"
        )?;
    }
    markdown::print(out, TIMES, rows)?;
    writeln!(
        out,
        "
What was timed: p from the first on, each further by the step, round and round in the range; of a p
up to {} all processes, of a larger one {STRETCHES} stretches of {STRETCH} consecutive ones. All
their entries were compared, and are the same in C and ours. C and ours took {TURNS} turns each, one
after the other, of which the median is taken. Seconds: such a turn of all processes timed. Ours /
C: of single p, without the twentieth at either end. Receive: receive schedules alone; table: those
of all p processes at once; microseconds for a process.
",
        STRETCHES * STRETCH,
    )?;
    markdown::print(out, SAMPLES, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A misprint shows: the paper's totals and times for a process are of the same runs.
    #[test]
    fn the_papers_columns_fit_each_other() {
        for Paper { sweep, total, each } in &TABLE_4 {
            let processes = (sweep.from..=sweep.to).sum::<usize>() as f64;
            for (total, each) in total.iter().zip(each) {
                let ratio = 1e6 * total / processes / each;
                assert!((0.99..1.12).contains(&ratio), "{}: {ratio}", sweep.from);
            }
        }
    }
}
