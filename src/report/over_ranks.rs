//! The report over all ranks: what the processes of a job tell each other of their calls at its
//! end, and what follows from it.
//!
//! A process turns its counters into numbers of which either the sums over all processes or their
//! maxima are wanted. Whoever has both knows everything here, so all of it is two reductions; and
//! one before them, of which kinds of calls there were, so that these alone are reduced.

use serde_json::{Map, Value, json};
use strum::VariantArray;

use super::table::table;
use super::tally::{CLASSES, KINDS, RUNNERS, Ran, Tally, runner_name, tally};
use crate::select::Operation;

/// Numbers that are summed of each runner of a kind.
const OF_RUNNER: usize = 3;

/// Numbers that are summed of a kind: the bytes, and those of each runner.
const SUMS: usize = 1 + RUNNERS * OF_RUNNER;

/// Numbers of a kind whose maximum is wanted.
const MAXIMA: usize = 8;

/// The numbers of a process.
pub struct Local<T = fn(usize) -> Tally> {
    /// Seconds between MPI_Init and MPI_Finalize.
    run: f64,
    /// Its calls of a kind.
    tally: T,
}

impl Local {
    /// Of this process, after a run that took so many nanoseconds.
    pub fn of_process(nanoseconds: u64) -> Local {
        Local {
            run: seconds(nanoseconds),
            tally,
        }
    }
}

impl<T: Fn(usize) -> Tally> Local<T> {
    /// Of each kind 1, if this process made such calls, else 0: to be summed.
    pub fn met(&self) -> Vec<f64> {
        let met = |kind| f64::from(u8::from((self.tally)(kind).all().calls > 0));
        (0..KINDS).map(met).collect()
    }

    /// Of the kinds that were met by any process, what is to be summed.
    pub fn sums(&self, met: &[f64]) -> Vec<f64> {
        let kinds = self.kinds(met).flat_map(sums);
        [self.run].into_iter().chain(kinds).collect()
    }

    /// Of the kinds that were met by any process, that of which the maximum is wanted.
    pub fn maxima(&self, met: &[f64]) -> Vec<f64> {
        let kinds = self.kinds(met).flat_map(maxima);
        [self.run, -self.run].into_iter().chain(kinds).collect()
    }

    fn kinds(&self, met: &[f64]) -> impl Iterator<Item = Tally> {
        let kinds = met.iter().enumerate().filter(|(_, ranks)| **ranks > 0.0);
        kinds.map(|(kind, _)| (self.tally)(kind))
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn sums(tally: Tally) -> [f64; SUMS] {
    let mut sums = [0.0; SUMS];
    sums[0] = tally.bytes as f64;
    for (sums, ran) in sums[1..].chunks_exact_mut(OF_RUNNER).zip(&tally.ran) {
        let numbers = [ran.first as f64, ran.calls as f64, seconds(ran.nanoseconds)];
        sums.copy_from_slice(&numbers);
    }
    sums
}

/// A minimum is the maximum of the negative. What made no such calls is in neither.
fn maxima(tally: Tally) -> [f64; MAXIMA] {
    let Ran {
        calls, nanoseconds, ..
    } = tally.all();
    if calls == 0 {
        return [f64::NEG_INFINITY; MAXIMA];
    }
    let (calls, seconds) = (calls as f64, seconds(nanoseconds));
    let [fewest, most] = tally.processes.map(|processes| processes as f64);
    [
        seconds,
        -seconds,
        calls,
        -calls,
        most,
        -fewest,
        tally.nodes as f64,
        -seconds / calls,
    ]
}

/// A number of each process.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    least: f64,
    mean: f64,
    most: f64,
}

impl Spread {
    /// From a sum over so many, the most, and the least's negative.
    fn new(ranks: f64, sum: f64, [most, negative]: [f64; 2]) -> Spread {
        Spread {
            least: -negative,
            mean: sum / ranks,
            most,
        }
    }

    fn json(self) -> Value {
        json!({"least": self.least, "mean": self.mean, "most": self.most})
    }
}

/// What one runner ran of a kind, on all processes.
#[derive(Clone, Debug, PartialEq)]
struct Share {
    runner: &'static str,
    calls: u64,
    /// The sum over the processes.
    seconds: f64,
}

/// The calls of one operation and size class, on all processes that made such.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    operation: Operation,
    /// The least bytes of the class; none of an operation whose sizes are not told apart.
    least_bytes: Option<u64>,
    /// The fewest processes of a communicator, and the most.
    processes: [usize; 2],
    /// The most nodes, if they are known.
    nodes: Option<usize>,
    /// The processes that made such calls.
    ranks: usize,
    /// Each counted once, however many processes take part. None, if these ranks take part in calls
    /// that are counted with another size: between groups not all know it.
    calls: u64,
    /// The sum of m.
    bytes: f64,
    /// The calls of each rank.
    calls_of_rank: Spread,
    /// The time of each rank.
    seconds: Spread,
    /// That over the run time, both summed over all ranks.
    share: f64,
    /// The mean over the ranks of the time beyond that which the same number of calls took the
    /// rank with the shortest.
    waiting: f64,
    ran: Vec<Share>,
}

/// The calls of all processes.
#[derive(Clone, Debug, PartialEq)]
pub struct OverRanks {
    processes: usize,
    nodes: Option<usize>,
    run: Spread,
    rows: Vec<Row>,
}

impl OverRanks {
    /// Of a job of so many processes on so many nodes, from the sums of all [`Local::met`], the
    /// sums of all [`Local::sums`] and the maxima of all [`Local::maxima`].
    pub fn new(
        processes: usize,
        nodes: Option<usize>,
        met: &[f64],
        sums: &[f64],
        maxima: &[f64],
    ) -> Option<OverRanks> {
        let (&run, sums) = sums.split_first()?;
        let (&longest_and_shortest, maxima) = maxima.split_first_chunk()?;
        let such = met.iter().enumerate().filter(|(_, ranks)| **ranks > 0.0);
        let kinds = such
            .zip(sums.chunks_exact(SUMS))
            .zip(maxima.chunks_exact(MAXIMA));
        let rows = kinds.filter_map(|(((kind, &ranks), sums), maxima)| {
            let mut row = row(kind, ranks, sums.try_into().ok()?, maxima.try_into().ok()?)?;
            row.share = if run > 0.0 { row.total() / run } else { 0.0 };
            // The nodes of a communicator are not always asked for; those of all processes are.
            let is_of_all = row.processes[1] == processes;
            row.nodes = row.nodes.or(nodes.filter(|_| is_of_all));
            Some(row)
        });
        Some(OverRanks {
            processes,
            nodes,
            run: Spread::new(processes as f64, run, longest_and_shortest),
            rows: rows.collect(),
        })
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "processes": self.processes,
            "nodes": self.nodes,
            "run_seconds": self.run.json(),
            "sizes": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
        })
    }

    /// The table, with what is to be said before and after it.
    pub(super) fn lines(&self) -> Vec<String> {
        let Spread { least, mean, most } = self.run;
        let (processes, nodes) = (self.processes, on_nodes(self.nodes));
        let mut lines = vec![format!(
            "over all {processes} ranks{nodes}, which ran for {mean:.3} s ({least:.3} to \
             {most:.3}):"
        )];
        if self.rows.is_empty() {
            lines.push("no rank called a collective operation".to_owned());
            return lines;
        }
        let cells = self.rows.iter().map(Row::cells);
        lines.extend(table(&COLUMNS, cells));
        let ranks = self.processes.max(1) as f64;
        let sum = |of: fn(&Row) -> f64| self.rows.iter().map(of).sum::<f64>() / ranks;
        let (taken, waited) = (sum(Row::total), sum(Row::waiting_of_all));
        let share = percent(self.rows.iter().map(|row| row.share).sum());
        lines.push(format!(
            "a rank was {taken:.3} s in these calls on average ({share} of its run), and waited \
             {waited:.3} s of that"
        ));
        lines.push(WAITING.to_owned());
        lines
    }
}

fn on_nodes(nodes: Option<usize>) -> String {
    match nodes {
        None => String::new(),
        Some(1) => " on 1 node".to_owned(),
        Some(nodes) => format!(" on {nodes} nodes"),
    }
}

fn row(kind: usize, ranks: f64, sums: &[f64; SUMS], maxima: &[f64; MAXIMA]) -> Option<Row> {
    let &operation = Operation::VARIANTS.get(kind / CLASSES)?;
    let is_sized = (operation as usize) < Operation::OF_MPI;
    let &[
        most_s,
        least_s,
        most_calls,
        least_calls,
        most_p,
        fewest_p,
        nodes,
        shortest,
    ] = maxima;
    let (mut calls, mut calls_of_ranks, mut seconds, mut ran) = (0.0, 0.0, 0.0, Vec::new());
    let runners = sums[1..].chunks_exact(OF_RUNNER).enumerate();
    for (runner, numbers) in runners.filter(|(_, numbers)| numbers[1] > 0.0) {
        calls += numbers[0];
        calls_of_ranks += numbers[1];
        seconds += numbers[2];
        ran.push(Share {
            runner: runner_name(runner),
            calls: numbers[0] as u64,
            seconds: numbers[2],
        });
    }
    Some(Row {
        operation,
        least_bytes: is_sized.then_some(1 << (kind % CLASSES)),
        processes: [-fewest_p as usize, most_p as usize],
        nodes: (nodes > 0.0).then_some(nodes as usize),
        ranks: ranks as usize,
        calls: calls as u64,
        bytes: sums[0],
        calls_of_rank: Spread::new(ranks, calls_of_ranks, [most_calls, least_calls]),
        seconds: Spread::new(ranks, seconds, [most_s, least_s]),
        share: 0.0,
        waiting: (seconds + shortest * calls_of_ranks).max(0.0) / ranks,
        ran,
    })
}

/// What the column of that name says.
const WAITING: &str = "waits s: mean time beyond that of the rank with the shortest calls, a lower \
    bound of waiting for late ranks";

/// The columns of the table: heading, and whether it holds numbers, which are aligned right.
const COLUMNS: [(&str, bool); 11] = [
    ("operation", false),
    ("bytes", true),
    ("p/nodes", true),
    ("calls", true),
    ("sum", true),
    ("least s", true),
    ("mean s", true),
    ("most s", true),
    ("waits s", true),
    ("of run", true),
    ("ran by", false),
];

impl Row {
    /// The time of all ranks.
    fn total(&self) -> f64 {
        self.seconds.mean * self.ranks as f64
    }

    fn waiting_of_all(&self) -> f64 {
        self.waiting * self.ranks as f64
    }

    fn json(&self) -> Value {
        let ran = self.ran.iter().map(|share| {
            let numbers = json!({"calls": share.calls, "seconds": share.seconds});
            (share.runner.to_owned(), numbers)
        });
        json!({
            "operation": self.operation.name(),
            "bytes": self.least_bytes,
            "processes": self.processes[1],
            "fewest_processes": self.processes[0],
            "nodes": self.nodes,
            "ranks": self.ranks,
            "calls": self.calls,
            "calls_of_rank": self.calls_of_rank.json(),
            "sum_of_bytes": self.bytes,
            "seconds": self.seconds.json(),
            "share_of_run": self.share,
            "waiting_seconds": self.waiting,
            "ran": Value::Object(ran.collect::<Map<_, _>>()),
        })
    }

    fn cells(&self) -> [String; COLUMNS.len()] {
        let [fewest, most] = self.processes;
        let fewest = (fewest < most).then(|| format!("{fewest}-"));
        let nodes = self.nodes.map(|nodes| format!("/{nodes}"));
        let least_bytes = self.least_bytes.map(|bytes| size(bytes as f64));
        let ran = self.ran.iter();
        let ran = ran.map(|share| match share.calls {
            0 => share.runner.to_owned(),
            calls => format!("{} {calls}", share.runner),
        });
        [
            self.operation.name().to_owned(),
            least_bytes.unwrap_or_default(),
            format!(
                "{}{most}{}",
                fewest.unwrap_or_default(),
                nodes.unwrap_or_default()
            ),
            self.calls.to_string(),
            size(self.bytes),
            format!("{:.3}", self.seconds.least),
            format!("{:.3}", self.seconds.mean),
            format!("{:.3}", self.seconds.most),
            format!("{:.3}", self.waiting),
            percent(self.share),
            ran.collect::<Vec<_>>().join(", "),
        ]
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 1e2 * share)
}

/// A number of bytes, with a suffix for a power of 1024, and a decimal where it is not whole.
fn size(bytes: f64) -> String {
    let (mut number, mut suffixes) = (bytes, ["", "K", "M", "G", "T", "P", "E"].into_iter());
    let mut suffix = suffixes.next();
    while number >= 1024.0 {
        let Some(larger) = suffixes.next() else { break };
        (number, suffix) = (number / 1024.0, Some(larger));
    }
    let decimals = usize::from(number.fract() != 0.0);
    format!("{number:.decimals$}{}", suffix.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that ran for so many seconds and made calls of two kinds.
    struct Process {
        run: f64,
        /// (kind, runner, calls, first, ns, p)
        made: Vec<(usize, usize, u64, u64, u64, u64)>,
    }

    fn local(process: &Process) -> Local<impl Fn(usize) -> Tally> {
        let mut tallies = vec![Tally::default(); KINDS];
        for &(kind, runner, calls, first, nanoseconds, processes) in &process.made {
            let tally = &mut tallies[kind];
            tally.ran[runner] = Ran {
                calls,
                first,
                nanoseconds,
            };
            tally.bytes += 1000 * first;
            let [fewest, most] = tally.processes;
            let fewest = if most == 0 { processes } else { fewest };
            tally.processes = [fewest.min(processes), most.max(processes)];
        }
        Local {
            run: process.run,
            tally: move |kind: usize| tallies[kind],
        }
    }

    /// What MPI's reductions make of it.
    fn reduced<T>(
        locals: &[Local<T>],
        of: impl Fn(&Local<T>) -> Vec<f64>,
        by: fn(f64, f64) -> f64,
    ) -> Vec<f64> {
        let all = locals.iter().map(of);
        all.reduce(|a, b| a.iter().zip(&b).map(|(a, b)| by(*a, *b)).collect())
            .unwrap()
    }

    fn over(processes: &[Process], nodes: Option<usize>) -> OverRanks {
        let locals: Vec<_> = processes.iter().map(local).collect();
        let add = |a, b| a + b;
        let met = reduced(&locals, Local::met, add);
        let sums = reduced(&locals, |local| local.sums(&met), add);
        let maxima = reduced(&locals, |local| local.maxima(&met), f64::max);
        OverRanks::new(locals.len(), nodes, &met, &sums, &maxima).unwrap()
    }

    const BCAST: usize = Operation::Bcast as usize * CLASSES + 20;
    const REDUCE: usize = Operation::Reduce as usize * CLASSES + 3;
    const S: u64 = 1_000_000_000;

    /// Rank 1 is late to the broadcasts. Ranks 1 and 2 reduce among themselves, rank 2 once more
    /// with rank 0.
    fn three() -> OverRanks {
        let process = |run, made| Process { run, made };
        over(
            &[
                process(
                    10.0,
                    vec![(BCAST, 1, 4, 4, 3 * S, 3), (REDUCE, 0, 1, 1, S, 2)],
                ),
                process(
                    9.0,
                    vec![(BCAST, 1, 4, 0, S, 3), (REDUCE, 0, 5, 5, 5 * S, 2)],
                ),
                process(
                    11.0,
                    vec![(BCAST, 1, 4, 0, 5 * S, 3), (REDUCE, 0, 6, 0, 12 * S, 2)],
                ),
            ],
            Some(1),
        )
    }

    #[test]
    fn times_are_merged_over_the_ranks_that_made_calls() {
        let over = three();
        let spread = |least, mean, most| Spread { least, mean, most };
        assert_eq!(over.run, spread(9.0, 10.0, 11.0));
        let [bcast, reduce] = &over.rows[..] else {
            panic!("{over:?}")
        };
        assert_eq!(bcast.operation, Operation::Bcast);
        assert_eq!((bcast.least_bytes, bcast.bytes), (Some(1 << 20), 4000.0));
        assert_eq!((bcast.calls, bcast.ranks, bcast.processes), (4, 3, [3, 3]));
        assert_eq!(bcast.seconds, spread(1.0, 3.0, 5.0));
        assert_eq!(bcast.calls_of_rank, spread(4.0, 4.0, 4.0));
        assert_eq!((bcast.waiting, bcast.share), (2.0, 0.3));
        assert_eq!((reduce.calls, reduce.ranks), (6, 3));
        assert_eq!(reduce.seconds, spread(1.0, 6.0, 12.0));
        assert_eq!(reduce.calls_of_rank, spread(1.0, 4.0, 6.0));
        // A call took the others 1 s each, and rank 2 six times 2 s.
        assert_eq!((reduce.waiting, reduce.share), (2.0, 0.6));
        // The nodes of all processes are those of the job. Those of fewer are not known here.
        assert_eq!((bcast.nodes, reduce.nodes), (Some(1), None));
    }

    #[test]
    fn who_made_no_such_calls_is_not_the_least() {
        let process = |made| Process { run: 1.0, made };
        let over = over(
            &[process(vec![]), process(vec![(BCAST, 3, 2, 2, S, 1)])],
            None,
        );
        let [row] = &over.rows[..] else {
            panic!("{over:?}")
        };
        assert_eq!((row.ranks, row.seconds.least, row.waiting), (1, 1.0, 0.0));
        assert_eq!(row.processes, [1, 1]);
        assert_eq!(row.ran[0].runner, runner_name(3));
    }

    #[test]
    fn the_table_fits_and_the_object_has_the_same() {
        let over = three();
        let lines = over.lines();
        assert_eq!(
            lines,
            [
                "over all 3 ranks on 1 node, which ran for 10.000 s (9.000 to 11.000):",
                "operation  bytes  p/nodes  calls   sum  least s  mean s  most s  waits s  of run  \
                 ran by",
                "bcast         1M      3/1      4  3.9K    1.000   3.000   5.000    2.000   30.0%  \
                 circulant 4",
                "reduce         8        2      6  5.9K    1.000   6.000  12.000    2.000   60.0%  \
                 native 6",
                "a rank was 9.000 s in these calls on average (90.0% of its run), and waited \
                 4.000 s of that",
                WAITING,
            ]
        );
        let bcast = &over.json()["sizes"][0];
        assert_eq!(
            bcast["seconds"],
            json!({"least": 1.0, "mean": 3.0, "most": 5.0})
        );
        assert_eq!(
            bcast["ran"],
            json!({"circulant": {"calls": 4, "seconds": 9.0}})
        );
        assert_eq!(
            (&bcast["calls"], &bcast["bytes"]),
            (&json!(4), &json!(1 << 20))
        );
    }

    #[test]
    fn no_calls_are_said_to_be_none() {
        let process = |run| Process { run, made: vec![] };
        let over = over(&[process(1.0), process(3.0)], Some(2));
        assert_eq!(over.rows, []);
        assert_eq!(
            over.lines(),
            [
                "over all 2 ranks on 2 nodes, which ran for 2.000 s (1.000 to 3.000):",
                "no rank called a collective operation",
            ]
        );
    }

    #[test]
    fn numbers_that_do_not_fit_together_are_no_report() {
        assert_eq!(OverRanks::new(2, None, &[], &[], &[]), None);
        assert_eq!(OverRanks::new(2, None, &[1.0], &[1.0], &[1.0]), None);
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [0.0, 1023.0, 1024.0, 1536.0, (1u64 << 40) as f64].map(size);
        assert_eq!(sizes, ["0", "1023", "1K", "1.5K", "1T"]);
        assert_eq!(size(u64::MAX as f64), "16E");
    }
}
