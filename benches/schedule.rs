//! Schedule computation beside the paper's: over the ranges of the paper's Table 4, the time per
//! process of receive plus send schedule against a straight C transcription of Algorithms 2 to 6,
//! and of the table of all processes against receive schedules one by one.
//!
//! From each range, `SIZES` values of p are taken at even distances, and of large p every so many-th
//! process, so that one pass is about `PASS` processes. The C program and ours take turns; each
//! figure is the median of `TURNS` turns, averaged over the sizes. Time is processor time of
//! the thread, as the paper's is, so that other load on the machine shows little.

use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{env, fs, thread};

use circulant::schedule::{MAX_Q, Skips, Table, receive_schedule, schedules};

/// The ranges of p of the paper's Table 4.
const RANGES: [(usize, usize); 8] = [
    (1, 17_000),
    (16_000, 33_000),
    (64_000, 73_000),
    (131_000, 140_000),
    (262_000, 267_000),
    (524_000, 529_000),
    (1_048_000, 1_050_000),
    (2_097_000, 2_099_000),
];
const SIZES: usize = 7;
const TURNS: usize = 5;
const PASS: usize = 100_000;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let paper = Paper::compile()?;
    paper.agrees()?;
    let clock = if cpu_time().is_some() {
        "processor"
    } else {
        "wall clock"
    };
    println!("C: {} -O3; {clock} time, ns per process", paper.compiler);
    println!(
        "{:>21}  {:>8} {:>8} {:>6}   {:>8} {:>8} {:>6}   p",
        "range of p", "C both", "both", "ratio", "receive", "table", "ratio"
    );
    for (from, to) in RANGES {
        let sizes: Vec<usize> = (0..SIZES)
            .map(|i| from + (to - from) * (2 * i + 1) / (2 * SIZES))
            .collect();
        let times = sizes
            .iter()
            .map(|&p| measure(&paper, p))
            .collect::<Result<Vec<_>>>()?;
        let mean = |which: fn(&Times) -> f64| times.iter().map(which).sum::<f64>() / SIZES as f64;
        let (c, both) = (mean(|t| t.paper), mean(|t| t.both));
        let (receive, table) = (mean(|t| t.receive), mean(|t| t.table));
        println!(
            "{:>21}  {c:>8.1} {both:>8.1} {:>6.3}   {receive:>8.1} {table:>8.2} {:>6.3}   {sizes:?}",
            format!("{from} to {to}"),
            both / c,
            table / receive,
        );
    }
    Ok(())
}

/// Nanoseconds per process, for one p.
struct Times {
    /// Receive and send schedule, the C transcription.
    paper: f64,
    /// Receive and send schedule, ours.
    both: f64,
    /// Receive schedule, ours.
    receive: f64,
    /// The table, ours.
    table: f64,
}

fn measure(paper: &Paper, p: usize) -> Result<Times> {
    let skips = Skips::new(p);
    let (stride, passes) = (p.div_ceil(PASS), PASS.div_ceil(p));
    let per_pass = p.div_ceil(stride);
    let [mut recv, mut send] = [[0; MAX_Q]; 2];
    let mut turns: [Vec<f64>; 4] = Default::default();
    for _ in 0..TURNS {
        turns[0].push(paper.time(p, stride, passes)?);
        turns[1].push(time(passes * per_pass, || {
            for r in (0..passes).flat_map(|_| (0..p).step_by(stride)) {
                schedules(&skips, black_box(r), &mut recv, &mut send);
                black_box((&recv, &send));
            }
        }));
        turns[2].push(time(passes * per_pass, || {
            for r in (0..passes).flat_map(|_| (0..p).step_by(stride)) {
                receive_schedule(&skips, black_box(r), &mut recv);
                black_box(&recv);
            }
        }));
        let tables = (20 * PASS).div_ceil(p);
        turns[3].push(time(tables * p, || {
            for _ in 0..tables {
                black_box(Table::new(black_box(&skips)));
            }
        }));
    }
    let [paper, both, receive, table] = turns.map(median);
    Ok(Times {
        paper,
        both,
        receive,
        table,
    })
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Nanoseconds of `work` for each of `count` things.
fn time(count: usize, work: impl FnOnce()) -> f64 {
    let (cpu, wall) = (cpu_time(), Instant::now());
    work();
    let elapsed = match (cpu, cpu_time()) {
        (Some(start), Some(end)) => (end - start) as f64,
        _ => wall.elapsed().as_nanos() as f64,
    };
    elapsed / count as f64
}

/// Processor time of this thread in nanoseconds, where the system tells. Yielding makes the kernel
/// bring its account up to date.
fn cpu_time() -> Option<u64> {
    thread::yield_now();
    fs::read_to_string("/proc/thread-self/schedstat")
        .ok()?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

/// The C transcription, as a program.
struct Paper {
    program: PathBuf,
    compiler: String,
}

impl Paper {
    fn compile() -> Result<Self> {
        let cc = env::var("CC").unwrap_or_else(|_| "cc".into());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/paper_schedule.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("paper_schedule");
        let output = Command::new(&cc).arg("--version").output()?;
        let version = String::from_utf8_lossy(&output.stdout);
        let compiler = version.lines().next().unwrap_or(&cc).to_owned();
        let status = Command::new(&cc)
            .arg("-O3")
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .status()?;
        if !status.success() {
            return Err(format!("{cc} could not compile {}", source.display()).into());
        }
        Ok(Self { program, compiler })
    }

    fn time(&self, p: usize, stride: usize, passes: usize) -> Result<f64> {
        let arguments = [p, stride, passes].map(|number| number.to_string());
        Ok(self.run("time", &arguments)?.parse()?)
    }

    /// A yardstick must compute the same thing.
    fn agrees(&self) -> Result<()> {
        for p in (1..100).chain([1000, 16_385, 70_000]) {
            let theirs: u64 = self.run("hash", &[p.to_string()])?.parse()?;
            if theirs != hash(p) {
                return Err(
                    format!("the C transcription gives other schedules for p = {p}").into(),
                );
            }
        }
        Ok(())
    }

    fn run(&self, mode: &str, arguments: &[String]) -> Result<String> {
        let output = Command::new(&self.program)
            .arg(mode)
            .args(arguments)
            .output()?;
        if !output.status.success() {
            return Err(format!("paper_schedule {mode}: {}", output.status).into());
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

/// FNV-1a, over all entries of all processes.
fn hash(p: usize) -> u64 {
    let skips = Skips::new(p);
    let [mut recv, mut send] = [[0; MAX_Q]; 2];
    (0..p).fold(0xcbf2_9ce4_8422_2325, |hash, r| {
        schedules(&skips, r, &mut recv, &mut send);
        let entries = recv[..skips.q()].iter().chain(&send[..skips.q()]);
        entries.fold(hash, |hash: u64, &entry| {
            (hash ^ u64::from(entry as u8)).wrapping_mul(0x100_0000_01b3)
        })
    })
}
