//! `circulant schedule`: receive and send schedules, laid out as in the paper's Tables 1 to 3, or
//! timed as in its Table 4.

use std::io::{self, BufWriter, Error, ErrorKind, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use circulant::schedule::{MAX_Q, Skips, schedules};
use clap::{ArgGroup, Args};

use super::table4;

#[derive(Args)]
#[command(group = ArgGroup::new("what").required(true).args(["processes", "bench"]))]
pub struct Arguments {
    /// Number of processes p
    #[arg(long, short, value_name = "P", value_parser = super::verify::processes)]
    processes: Option<usize>,
    /// Print this process alone, counted from the root
    #[arg(
        long,
        short,
        value_name = "R",
        requires = "processes",
        conflicts_with = "bench"
    )]
    rank: Option<usize>,
    /// Time them instead, as in the paper's Table 4, for about SECONDS [default: 60]
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = seconds,
        num_args = 0..=1,
        default_missing_value = "60"
    )]
    bench: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<u32>();
    let seconds = seconds.map_err(|_| "not a whole number of seconds".to_owned())?;
    Ok(Duration::from_secs(seconds.into()))
}

pub fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    match arguments.processes {
        Some(p) => print_tables(p, arguments.rank)?,
        // clap has seen to it that there is one of the two.
        None => table4::run(arguments.bench.unwrap_or_default())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print_tables(p: usize, rank: Option<usize>) -> io::Result<()> {
    let ranks = match rank {
        Some(rank) if rank >= p => {
            let message = format!("rank {rank} is not one of {p} processes (0 to {})", p - 1);
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Some(rank) => rank..rank + 1,
        None => 0..p,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    print(&mut out, &Skips::new(p), ranks)?;
    out.flush()
}

fn print(out: &mut impl Write, skips: &Skips, ranks: Range<usize>) -> io::Result<()> {
    let q = skips.q();
    let widest = ranks
        .clone()
        .last()
        .unwrap_or(0)
        .to_string()
        .len()
        .max(format!("-{q}").len());
    let width = widest + 1;
    row(out, width, "r:", ranks.clone().map(|r| r as i64))?;
    row(
        out,
        width,
        "b:",
        ranks.clone().map(|r| skips.baseblock(r) as i64),
    )?;
    for (which, name) in ["recvblock", "sendblock"].into_iter().enumerate() {
        for k in 0..q {
            let cells = ranks
                .clone()
                .map(|r| i64::from(of_process(skips, r)[which][k]));
            row(out, width, &format!("{name}[{k}]:"), cells)?;
        }
    }
    Ok(())
}

fn row(
    out: &mut impl Write,
    width: usize,
    name: &str,
    mut cells: impl Iterator<Item = i64>,
) -> io::Result<()> {
    write!(out, "{name:<13}")?;
    cells.try_for_each(|cell| write!(out, "{cell:>width$}"))?;
    writeln!(out)
}

/// Receive and send schedule. They are computed again for each row: that is cheaper than printing.
fn of_process(skips: &Skips, r: usize) -> [[i8; MAX_Q]; 2] {
    let [mut recv, mut send] = [[0; MAX_Q]; 2];
    schedules(skips, r, &mut recv, &mut send);
    [recv, send]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(p: usize, ranks: Range<usize>) -> String {
        let mut out = Vec::new();
        print(&mut out, &Skips::new(p), ranks).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn prints_the_papers_tables() {
        let tables = [
            (17, include_str!("../../../tests/schedule/table1.txt")),
            (9, include_str!("../../../tests/schedule/table2.txt")),
            (18, include_str!("../../../tests/schedule/table3.txt")),
        ];
        for (p, table) in tables {
            assert_eq!(printed(p, 0..p), table);
        }
    }

    #[test]
    fn prints_one_process() {
        let text = printed(1_000_000, 123_456..123_457);
        assert!(text.starts_with("r:            123456\n"), "{text}");
        assert_eq!(text.lines().count(), 2 + 2 * 20);
        assert_eq!(printed(1, 0..1), "r:             0\nb:             0\n");
    }
}
