//! `circulant verify`: every entry of every process, for every number of processes in a range.
//!
//! For each p the receive schedules of all processes are taken from the table, and each process's
//! own schedules are checked against it and by the paper's four conditions: O(p log p) for one p.

use std::fmt;
use std::io::{self, Error, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use circulant::schedule::{
    Counts, MAX_Q, Skips, Table, receive_schedule_with, schedules, send_schedule_with,
};
use clap::Args;
use rayon::prelude::*;

const PROGRESS: &str =
    "{elapsed_precise} [{wide_bar}] {percent}% of {human_len} processes, {eta} left";

/// Processes of one p that are checked in one piece, so that a single large p keeps all cores busy.
const PIECE: usize = 1 << 15;

#[derive(Args)]
pub struct Arguments {
    /// Smallest number of processes
    #[arg(long, value_name = "A", value_parser = processes)]
    from: usize,
    /// Largest number of processes
    #[arg(long, value_name = "B", value_parser = processes)]
    to: usize,
    /// Threads [default: one for each core]
    #[arg(
        long,
        short,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true
    )]
    threads: usize,
}

/// A number of processes from the command line, as many as an MPI communicator can have.
pub fn processes(text: &str) -> Result<usize, String> {
    match text.parse::<i32>() {
        Ok(p) if p >= 1 => Ok(p as usize),
        _ => Err(format!("not a whole number from 1 to {}", i32::MAX)),
    }
}

pub fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let (from, to) = (arguments.from, arguments.to);
    if from > to {
        return Err(Error::other(format!("the range {from} to {to} is empty")));
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(arguments.threads)
        .build();
    let pool = pool.map_err(Error::other)?;
    let progress = super::progress_bar((from..=to).map(|p| p as u64).sum(), PROGRESS);
    let start = Instant::now();
    let result = pool.install(|| {
        let check = |p| check_all(p).inspect(|_| progress.inc(p as u64));
        (from..=to)
            .into_par_iter()
            .map(check)
            .try_reduce(Summary::default, Summary::and)
    });
    progress.finish_and_clear();
    match result {
        Ok(summary) => {
            let (time, threads) = (start.elapsed(), pool.current_num_threads());
            report(&mut io::stdout(), from, to, &summary, time, threads)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => Err(Error::other(failure.to_string())),
    }
}

fn report(
    out: &mut impl Write,
    from: usize,
    to: usize,
    summary: &Summary,
    time: Duration,
    threads: usize,
) -> io::Result<()> {
    let Summary {
        sizes,
        processes,
        entries,
        most,
    } = summary;
    writeln!(
        out,
        "p = {from} to {to}: {sizes} numbers of processes, {processes} schedules, {entries} \
         entries: conditions 1 to 4 hold, the table agrees, at most {} violations, {} contested \
         entries and {} searches in a schedule; {:.1} s on {threads} threads",
        most.violations,
        most.contested,
        most.searches,
        time.as_secs_f64(),
    )
}

/// What was checked.
#[derive(Debug, Default)]
struct Summary {
    sizes: usize,
    processes: usize,
    entries: usize,
    most: Counts,
}

impl Summary {
    fn and(self, other: Self) -> Result<Self, Failure> {
        Ok(Self {
            sizes: self.sizes + other.sizes,
            processes: self.processes + other.processes,
            entries: self.entries + other.entries,
            most: self.most.max(other.most),
        })
    }
}

/// What does not hold, for which process of how many.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    p: usize,
    r: usize,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Conditions 1 and 2 are one for all processes together: what is sent is what is received.
    SentIsReceived,
    DistinctBlocks,
    SentIsHeld,
    TableAgrees,
    CombinedAgrees,
    Theorem2,
    Theorem3,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            What::SentIsReceived => "conditions 1 and 2 (what one sends, the other receives)",
            What::DistinctBlocks => "condition 3 (q different blocks in q rounds)",
            What::SentIsHeld => "condition 4 (what is sent was received before)",
            What::TableAgrees => "the table of all processes agrees with the receive schedule",
            What::CombinedAgrees => "both schedules together agree with each alone",
            What::Theorem2 => "Theorem 2 (fewer than q receive entries need the earlier rounds)",
            What::Theorem3 => "Theorem 3 (at most 4 violations)",
        };
        write!(f, "p = {}, r = {}: does not hold: {what}", self.p, self.r)
    }
}

fn check_all(p: usize) -> Result<Summary, Failure> {
    let skips = Skips::new(p);
    let table = Table::new(&skips);
    let pieces = (0..p.div_ceil(PIECE))
        .into_par_iter()
        .map(|i| i * PIECE..p.min((i + 1) * PIECE));
    let most = pieces
        .map(|mut piece| {
            piece.try_fold(Counts::default(), |most, r| {
                let process = Process::new(&skips, r);
                let checked = process.check(&table).map_err(|what| Failure { p, r, what });
                checked.map(|()| most.max(process.counts))
            })
        })
        .try_reduce(Counts::default, |one, other| Ok(one.max(other)))?;
    Ok(Summary {
        sizes: 1,
        processes: p,
        entries: 2 * p * skips.q(),
        most,
    })
}

/// The schedules of one process, each computed by itself and both together.
struct Process<'a> {
    skips: &'a Skips,
    r: usize,
    recv: [i8; MAX_Q],
    send: [i8; MAX_Q],
    combined: [[i8; MAX_Q]; 2],
    counts: Counts,
}

impl<'a> Process<'a> {
    fn new(skips: &'a Skips, r: usize) -> Self {
        let [mut recv, mut send, mut recv_too, mut send_too] = [[0; MAX_Q]; 4];
        let (mut receiving, mut sending) = (Counts::default(), Counts::default());
        receive_schedule_with(skips, r, &mut recv, &mut receiving);
        send_schedule_with(skips, r, &mut send, &mut sending);
        schedules(skips, r, &mut recv_too, &mut send_too);
        let counts = Counts {
            violations: sending.violations,
            ..receiving
        };
        Self {
            skips,
            r,
            recv,
            send,
            combined: [recv_too, send_too],
            counts,
        }
    }

    fn check(&self, table: &Table) -> Result<(), What> {
        let q = self.skips.q();
        let (recv, send) = (&self.recv[..q], &self.send[..q]);
        let holds = |condition: bool, what| if condition { Ok(()) } else { Err(what) };
        let received = |r: usize, k: usize| table.column(k)[r];
        let to = |k| self.skips.to(self.r, k);
        holds(
            (0..q).all(|k| recv[k] == received(self.r, k)),
            What::TableAgrees,
        )?;
        holds(
            self.combined == [self.recv, self.send],
            What::CombinedAgrees,
        )?;
        holds(
            (0..q).all(|k| send[k] == received(to(k), k)),
            What::SentIsReceived,
        )?;
        holds(distinct(recv, self.baseblock()), What::DistinctBlocks)?;
        holds(
            self.r == 0 || held(recv, send, self.baseblock()),
            What::SentIsHeld,
        )?;
        let searched = self.counts.contested + self.counts.searches;
        holds(searched <= q.saturating_sub(1), What::Theorem2)?;
        holds(self.counts.violations <= 4, What::Theorem3)
    }

    /// The baseblock, by the definition in Condition 3: the block received in this phase.
    fn baseblock(&self) -> Option<i8> {
        self.recv[..self.skips.q()]
            .iter()
            .copied()
            .find(|&block| block >= 0)
            .filter(|_| self.r > 0)
    }
}

/// The bit of a block in -q..q.
fn bit(block: i8, q: usize) -> u128 {
    1 << (i32::from(block) + q as i32)
}

/// Condition 3; the root, which has no baseblock, receives all q blocks of the phase before.
fn distinct(recv: &[i8], baseblock: Option<i8>) -> bool {
    let q = recv.len();
    let received = recv.iter().fold(0, |all, &block| all | bit(block, q));
    let before: u128 = (1 << q) - 1;
    received == baseblock.map_or(before, |b| before & !bit(b - q as i8, q) | bit(b, q))
}

/// Condition 4.
fn held(recv: &[i8], send: &[i8], baseblock: Option<i8>) -> bool {
    let q = recv.len();
    let mut held = baseblock.map_or(0, |b| bit(b - q as i8, q));
    recv.iter().zip(send).all(|(&received, &sent)| {
        let has = held & bit(sent, q) != 0;
        held |= bit(received, q);
        has
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(change: impl Fn(&mut Process)) -> Option<What> {
        let skips = Skips::new(17);
        let mut process = Process::new(&skips, 5);
        change(&mut process);
        process.combined = [process.recv, process.send];
        process.check(&Table::new(&skips)).err()
    }

    #[test]
    fn each_check_can_fail() {
        assert_eq!(failure(|_| ()), None);
        assert_eq!(
            failure(|process| process.recv[2] = -1),
            Some(What::TableAgrees)
        );
        assert_eq!(
            failure(|process| process.send[4] = -1),
            Some(What::SentIsReceived)
        );
        assert_eq!(
            failure(|process| process.counts.contested = 5),
            Some(What::Theorem2)
        );
        assert_eq!(
            failure(|process| process.counts.violations = 5),
            Some(What::Theorem3)
        );
        let skips = Skips::new(17);
        let mut process = Process::new(&skips, 5);
        process.combined[0][0] = 0;
        assert_eq!(
            process.check(&Table::new(&skips)),
            Err(What::CombinedAgrees)
        );
    }

    #[test]
    fn condition_3_by_its_definition() {
        assert!(distinct(&[-5, -3, -4, 3, -1], Some(3)));
        assert!(!distinct(&[-5, -3, -4, 3, -2], Some(3)));
        assert!(!distinct(&[-5, -3, -3, 3, -1], Some(3)));
        assert!(!distinct(&[-5, -3, -4, -2, -1], Some(3)));
        assert!(distinct(&[-5, -3, -4, -2, -1], None));
    }

    #[test]
    fn condition_4_by_its_definition() {
        assert!(held(&[-5, -3, -4, 3, -1], &[-2, -5, -3, -2, 3], Some(3)));
        assert!(!held(&[-5, -3, -4, 3, -1], &[-2, -5, -3, 3, -2], Some(3)));
        assert!(!held(&[-5, -3, -4, 3, -1], &[3, -5, -3, -2, 3], Some(3)));
    }

    #[test]
    fn a_range_is_counted() {
        let all = (1..=40)
            .map(check_all)
            .try_fold(Summary::default(), |sum, one| sum.and(one?));
        let summary = all.unwrap();
        assert_eq!((summary.sizes, summary.processes), (40, 820));
    }
}
