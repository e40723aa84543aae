//! `circulant trace`: an allgather between the two groups of an inter-communicator, as the
//! operations of each process, for SimGrid's replay (`smpirun -replay`).
//!
//! SimGrid's own MPI has no inter-communicators, so the library cannot be called there. These are
//! the plans that it makes for such a call, run by its engine as it is set by default. A transport
//! that moves nothing and never has to wait writes down what the engine starts and waits for; so
//! each process is run by itself.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Error, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use circulant::engine::{Call as Running, Engine, Pacing, Synchronous};
use circulant::plan::{Division, Stream};
use circulant::schedule::Rule;
use circulant::select::{Settings, goes_by_blocks};
use circulant::stage::{Groups, Stages, consecutive};
use circulant::team::{Graph, Ranks, Team};
use circulant::transport::{BLOCKING_MAX, Place, Progress, SendMode, Transport};
use clap::{Args, ValueEnum};

#[derive(Args)]
pub struct Arguments {
    /// Processes of the first group and of the second
    #[arg(
        long,
        short,
        num_args = 2,
        value_names = ["P", "Q"],
        required = true,
        value_parser = super::verify::processes
    )]
    processes: Vec<usize>,
    /// Bytes of a process of the first group and of one of the second, the largest if they differ
    #[arg(long, short, num_args = 2, value_names = ["A", "B"], required = true)]
    bytes: Vec<u32>,
    /// The last process of a group of n has these bytes, process i has i/(n-1) of them
    #[arg(long)]
    arithmetic: bool,
    /// The operation
    #[arg(long, value_enum, default_value_t = Operation::Allgather)]
    operation: Operation,
    /// The setting CIRCULANT_SEGMENT, in bytes [default: the library's]
    #[arg(long, value_name = "BYTES", value_parser = super::verify::processes)]
    segment: Option<usize>,
    /// Bytes of the largest message, if not a segment: longer ones take less time to simulate
    #[arg(long, value_name = "BYTES", value_parser = super::verify::processes)]
    step: Option<usize>,
    /// Where the operations of process N are written to, to N.txt, and their list to `traces`
    folder: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Operation {
    /// MPI_Allgather
    Allgather,
    /// MPI_Allgatherv, which gathers the sizes first
    Allgatherv,
}

pub fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let call = Call::new(arguments)?;
    fs::create_dir_all(&arguments.folder)?;
    let mut list = BufWriter::new(File::create(arguments.folder.join("traces"))?);
    for process in 0..call.processes() {
        let name = format!("{process}.txt");
        let mut file = BufWriter::new(File::create(arguments.folder.join(&name))?);
        call.write(process, &mut file)?;
        file.flush()?;
        writeln!(list, "{name}")?;
    }
    list.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// What all processes of a call have in common.
struct Call {
    operation: Operation,
    groups: [usize; 2],
    streams: [Stream; 2],
    /// Bytes of the longest step.
    step: usize,
    pacing: Pacing,
    /// Of all processes, and of each group.
    graphs: [Arc<Graph>; 3],
}

/// Bytes that say how many a process has.
const WORD: usize = size_of::<u64>();

impl Call {
    fn new(arguments: &Arguments) -> io::Result<Call> {
        let groups = [arguments.processes[0], arguments.processes[1]];
        let largest = [0, 1].map(|group| arguments.bytes[group] as usize);
        for group in [0, 1] {
            let all = groups[group].checked_mul(largest[group]);
            if all.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
                return Err(Error::other("a group has more bytes than there is memory"));
            }
        }
        let settings = Settings::default();
        let segment = arguments.segment.unwrap_or(settings.segment as usize);
        let longest = largest[0].max(largest[1]) as u64;
        let are_equal = arguments.operation == Operation::Allgather && !arguments.arithmetic;
        let division = if are_equal && goes_by_blocks(longest, segment as u64) {
            Division::ByBlocks
        } else {
            Division::Evenly
        };
        let streams = [0, 1].map(|group| {
            let lengths = lengths(groups[group], largest[group], arguments.arithmetic);
            Stream::new(lengths, groups[1 - group], division)
        });
        let graph = |processes| Arc::new(Graph::new(processes, Rule::default()));
        Ok(Call {
            operation: arguments.operation,
            groups,
            streams,
            step: arguments.step.unwrap_or(segment),
            pacing: Pacing {
                window: settings.window,
                sends: settings.sends,
                synchronous: Synchronous::Unpaced,
            },
            graphs: [groups[0] + groups[1], groups[0], groups[1]].map(graph),
        })
    }

    fn processes(&self) -> usize {
        self.groups[0] + self.groups[1]
    }

    /// Writes the operations of one process.
    fn write(&self, process: usize, out: &mut impl Write) -> io::Result<()> {
        let mut recorder = Recorder {
            process,
            out,
            sent: HashMap::new(),
            received: HashMap::new(),
            sends: vec![None; self.pacing.sends],
            receives: vec![None; self.pacing.window],
        };
        recorder.line(format_args!("init"))?;
        let engine = Engine::new(self.pacing);
        let mut call = Running::new(self.stages(process), engine, recorder);
        call.advance()?;
        let (.., mut recorder) = call.finish();
        recorder.line(format_args!("finalize"))
    }

    fn stages(&self, process: usize) -> Stages {
        let own = usize::from(process >= self.groups[0]);
        let groups = Groups {
            sizes: self.groups,
            own,
            rank: process - own * self.groups[0],
        };
        let first = groups.of(own).start;
        let whole = Team::new(self.graphs[0].clone(), Ranks::ALL, process);
        let graph = self.graphs[1 + own].clone();
        let group = Team::new(graph, Ranks::from(first), groups.rank);
        let mut stages = Stages::default();
        if self.operation == Operation::Allgatherv {
            let words = consecutive(std::iter::repeat_n(WORD, group.size()));
            stages.allgather(&group, words, usize::MAX);
        }
        stages.allgather_between(&groups, [&whole, &group], &self.streams, self.step);
        stages
    }
}

/// The bytes of each process of a group.
fn lengths(processes: usize, largest: usize, arithmetic: bool) -> impl Iterator<Item = usize> {
    let steps = processes.saturating_sub(1).max(1);
    (0..processes).map(move |rank| {
        if arithmetic {
            (rank as u128 * largest as u128 / steps as u128) as usize
        } else {
            largest
        }
    })
}

/// Sender, receiver and tag. The replay knows by them what is waited for, so each message between
/// two processes has a tag of its own.
type Message = (usize, usize, usize);

/// The transport of one process, which writes down what it is asked for.
struct Recorder<W> {
    process: usize,
    out: W,
    /// How many messages went to each process, and came from each.
    sent: HashMap<usize, usize>,
    received: HashMap<usize, usize>,
    /// Per slot, what is outstanding.
    sends: Vec<Option<Message>>,
    receives: Vec<Option<Message>>,
}

impl<W: Write> Recorder<W> {
    fn line(&mut self, operation: fmt::Arguments) -> io::Result<()> {
        writeln!(self.out, "{} {operation}", self.process)
    }

    fn wait(&mut self, outstanding: Option<Message>) -> io::Result<Progress> {
        if let Some((from, to, tag)) = outstanding {
            self.line(format_args!("wait {from} {to} {tag}"))?;
        }
        Ok(Progress::Ready)
    }
}

/// The number of the next message.
fn count(of: &mut HashMap<usize, usize>, other: usize) -> usize {
    let next = of.entry(other).or_default();
    *next += 1;
    *next - 1
}

impl<W: Write> Transport for Recorder<W> {
    type Error = Error;

    fn is_one_piece(&self, _: Place, _: usize) -> bool {
        true
    }

    /// In the replay no send is complete before its receive is posted, whatever its mode.
    fn start_send(
        &mut self,
        slot: usize,
        to: usize,
        _: Place,
        length: usize,
        mode: SendMode,
    ) -> io::Result<()> {
        let tag = count(&mut self.sent, to);
        if mode == SendMode::Standard && length <= BLOCKING_MAX {
            return self.line(format_args!("send {to} {tag} {length}"));
        }
        self.sends[slot] = Some((self.process, to, tag));
        self.line(format_args!("isend {to} {tag} {length}"))
    }

    fn start_receive(
        &mut self,
        slot: usize,
        from: usize,
        _: Place,
        length: usize,
    ) -> io::Result<()> {
        let tag = count(&mut self.received, from);
        self.receives[slot] = Some((from, self.process, tag));
        self.line(format_args!("irecv {from} {tag} {length}"))
    }

    fn finish_send(&mut self, slot: usize) -> io::Result<Progress> {
        let outstanding = self.sends[slot].take();
        self.wait(outstanding)
    }

    fn finish_receive(&mut self, slot: usize) -> io::Result<Progress> {
        let outstanding = self.receives[slot].take();
        self.wait(outstanding)
    }

    fn copy(&mut self, _: Place, _: Place, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn combine(&mut self, _: Place, _: Place, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn pack(&mut self, _: Place, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn unpack(&mut self, _: Place, _: usize) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has to be the same at sender and receiver.
    type Sizes = HashMap<Message, usize>;

    /// Adds what one process's trace sends and receives; each that needs it is waited for, once.
    fn read(trace: &str, process: usize, sends: &mut Sizes, receives: &mut Sizes) {
        let mut outstanding = Vec::new();
        for line in trace.lines() {
            let words: Vec<_> = line.split(' ').collect();
            assert_eq!(words[0], process.to_string());
            let numbers: Vec<usize> = words[2..]
                .iter()
                .map(|word| word.parse().unwrap())
                .collect();
            let message = |is_sent: bool| match (is_sent, &numbers[..]) {
                (true, &[other, tag, _]) => (process, other, tag),
                (_, &[other, tag, _]) => (other, process, tag),
                _ => unreachable!("{line}"),
            };
            match words[1] {
                "init" | "finalize" => {}
                "wait" => {
                    let waited = (numbers[0], numbers[1], numbers[2]);
                    let index = outstanding.iter().position(|&message| message == waited);
                    outstanding.swap_remove(index.unwrap());
                }
                "send" => assert_eq!(sends.insert(message(true), numbers[2]), None),
                "isend" => {
                    outstanding.push(message(true));
                    assert_eq!(sends.insert(message(true), numbers[2]), None);
                }
                "irecv" => {
                    outstanding.push(message(false));
                    assert_eq!(receives.insert(message(false), numbers[2]), None);
                }
                other => unreachable!("{other}"),
            }
        }
        assert_eq!(outstanding, []);
    }

    fn check(arguments: &Arguments) {
        let call = Call::new(arguments).unwrap();
        let (mut sends, mut receives) = (Sizes::new(), Sizes::new());
        for process in 0..call.processes() {
            let mut out = Vec::new();
            call.write(process, &mut out).unwrap();
            let trace = String::from_utf8(out).unwrap();
            assert!(trace.starts_with(&format!("{process} init\n")));
            assert!(trace.ends_with(&format!("{process} finalize\n")));
            read(&trace, process, &mut sends, &mut receives);
        }
        assert_eq!(sends, receives);
        let word = match arguments.operation {
            Operation::Allgather => 0,
            Operation::Allgatherv => WORD,
        };
        for process in 0..call.processes() {
            let group = usize::from(process >= call.groups[0]);
            let other = lengths(
                call.groups[1 - group],
                arguments.bytes[1 - group] as usize,
                arguments.arithmetic,
            );
            let words = word * (call.groups[group] - 1);
            let to_it = receives.iter().filter(|((_, to, _), _)| *to == process);
            let received: usize = to_it.map(|(_, length)| length).sum();
            assert_eq!(received, other.sum::<usize>() + words, "process {process}");
        }
    }

    #[test]
    fn everybody_receives_what_was_sent_and_all_of_the_other_group() {
        for processes in [[1, 1], [1, 5], [4, 4], [8, 3], [3, 8], [25, 7]] {
            for bytes in [[0, 0], [1, 10], [5000, 5000], [70_000, 900], [900, 70_000]] {
                for (operation, arithmetic, segment) in [
                    (Operation::Allgather, false, None),
                    (Operation::Allgather, false, Some(1000)),
                    (Operation::Allgatherv, false, None),
                    (Operation::Allgatherv, true, Some(1 << 20)),
                ] {
                    check(&Arguments {
                        processes: processes.to_vec(),
                        bytes: bytes.to_vec(),
                        arithmetic,
                        operation,
                        segment,
                        step: segment.map(|segment| 7 * segment),
                        folder: PathBuf::new(),
                    });
                }
            }
        }
    }

    #[test]
    fn one_process_each() {
        let call = Call::new(&Arguments {
            processes: vec![1, 1],
            bytes: vec![5000, 7],
            arithmetic: false,
            operation: Operation::Allgather,
            segment: None,
            step: None,
            folder: PathBuf::new(),
        });
        let (call, mut out) = (call.unwrap(), Vec::new());
        call.write(0, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "0 init\n0 irecv 1 0 7\n0 isend 1 0 5000\n0 wait 1 0 0\n0 wait 0 1 0\n0 finalize\n"
        );
    }
}
