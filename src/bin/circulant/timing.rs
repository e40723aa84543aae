//! The schedules of p processes, timed: ours and the paper's algorithms in C, in turns.
//!
//! ```text
//! compare all entries of the processes that are timed         (a wrong schedule is not timed)
//! TURNS times: C, both schedules; ours, both; ours, receive only; ours, the table of all
//! the time of each is the median of its turns, divided by the number of processes
//! ```

use std::hint::black_box;
use std::io::{self, Error};
use std::ops::Range;

use circulant::schedule::{MAX_Q, Skips, Table, receive_schedule, schedules};

use super::clock::processor_time;
use super::transcription::Transcription;

pub const TURNS: usize = 5;

/// Of a p up to `STRETCHES * STRETCH` all processes are timed, of a larger one so many stretches of
/// so many consecutive processes.
pub const STRETCHES: usize = 8;
pub const STRETCH: usize = 4096;

/// Schedules of one process, and schedules from a table, that a turn computes at least: fewer take
/// so short that reading the clock would show.
const LEAST: usize = 4096;
const LEAST_IN_TABLES: usize = 1 << 19;

/// What one p took: seconds of processor time for each process.
pub struct Times {
    pub p: usize,
    /// Processes that were timed.
    pub processes: usize,
    /// Receive and send schedule, the transcription.
    pub paper: f64,
    /// Receive and send schedule, ours.
    pub both: f64,
    /// Receive schedule, ours.
    pub receive: f64,
    /// Receive schedules of all processes at once, ours.
    pub table: f64,
}

impl Times {
    pub fn measure(p: usize) -> io::Result<Self> {
        let (skips, paper, sample) = (Skips::new(p), Transcription::new(p), sample(p));
        let theirs = |r, recv: &mut _, send: &mut _| paper.schedules(r, recv, send);
        if let Some(r) = differing(&skips, &sample, theirs) {
            let message = "the paper's algorithms in C compute other schedules than circulant";
            return Err(Error::other(format!("p = {p}, r = {r}: {message}")));
        }
        let mut turns = [[0.0; 4]; TURNS];
        for turn in &mut turns {
            *turn = take_turn(&skips, &paper, &sample)?;
        }
        let [paper, both, receive, table] = [0, 1, 2, 3].map(|i| median(turns.map(|turn| turn[i])));
        Ok(Self {
            p,
            processes: sample.iter().map(Range::len).sum(),
            paper,
            both,
            receive,
            table,
        })
    }
}

/// The four times once, in the order of `Times`.
fn take_turn(
    skips: &Skips,
    paper: &Transcription,
    sample: &[Range<usize>],
) -> io::Result<[f64; 4]> {
    let [mut recv, mut send] = [[0; MAX_Q]; 2];
    Ok([
        time(sample, |r| {
            paper.schedules(r, &mut recv, &mut send);
            black_box((&recv, &send));
        })?,
        time(sample, |r| {
            schedules(skips, r, &mut recv, &mut send);
            black_box((&recv, &send));
        })?,
        time(sample, |r| {
            receive_schedule(skips, r, &mut recv);
            black_box(&recv);
        })?,
        time_table(skips)?,
    ])
}

/// The processes that are timed, of p.
fn sample(p: usize) -> Vec<Range<usize>> {
    if p <= STRETCHES * STRETCH {
        return vec![Range { start: 0, end: p }];
    }
    let starts = (0..STRETCHES).map(|i| p / STRETCHES * i);
    starts.map(|start| start..start + STRETCH).collect()
}

/// The first process whose schedules are not the same in `paper` and however we compute them.
fn differing(
    skips: &Skips,
    sample: &[Range<usize>],
    paper: impl Fn(usize, &mut [i8; MAX_Q], &mut [i8; MAX_Q]),
) -> Option<usize> {
    let table = Table::new(skips);
    sample.iter().cloned().flatten().find(|&r| {
        let [mut theirs, mut both] = [[[0; MAX_Q]; 2]; 2];
        let mut receive = [0; MAX_Q];
        let [recv, send] = &mut theirs;
        paper(r, recv, send);
        let [recv, send] = &mut both;
        schedules(skips, r, recv, send);
        receive_schedule(skips, r, &mut receive);
        let in_table = (0..skips.q()).all(|k| table.receive(r, k) == theirs[0][k]);
        theirs != both || theirs[0] != receive || !in_table
    })
}

/// Seconds of `compute` for each process.
fn time(sample: &[Range<usize>], mut compute: impl FnMut(usize)) -> io::Result<f64> {
    let processes: usize = sample.iter().map(Range::len).sum();
    let passes = LEAST.div_ceil(processes);
    let start = processor_time()?;
    for stretch in (0..passes).flat_map(|_| sample) {
        for r in stretch.clone() {
            compute(black_box(r));
        }
    }
    Ok((processor_time()? - start).as_secs_f64() / (passes * processes) as f64)
}

/// Seconds of the table for each process in it.
fn time_table(skips: &Skips) -> io::Result<f64> {
    let tables = LEAST_IN_TABLES.div_ceil(skips.processes());
    let start = processor_time()?;
    for _ in 0..tables {
        black_box(Table::new(black_box(skips)));
    }
    Ok((processor_time()? - start).as_secs_f64() / (tables * skips.processes()) as f64)
}

fn median(mut times: [f64; TURNS]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[TURNS / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_entry_is_found() {
        for p in [2, 17, 40_000] {
            let (skips, paper) = (Skips::new(p), Transcription::new(p));
            let (sample, last) = (sample(p), skips.q() - 1);
            let find = |wrong: usize, which: usize| {
                differing(&skips, &sample, |r, recv, send| {
                    paper.schedules(r, recv, send);
                    [recv, send][which][last] ^= i8::from(r == wrong);
                })
            };
            assert_eq!(find(p, 0), None);
            assert_eq!([find(1, 0), find(1, 1)], [Some(1); 2]);
        }
    }

    #[test]
    fn a_sample_is_of_different_processes() {
        for p in [1, 17, 32_768, 32_769, 2_097_000] {
            let sample = sample(p);
            let processes = sample.iter().cloned().flatten().collect::<Vec<_>>();
            assert!(processes.is_sorted_by(|a, b| a < b) && processes.last() < Some(&p));
            assert_eq!(processes.len(), p.min(32_768));
        }
    }
}
