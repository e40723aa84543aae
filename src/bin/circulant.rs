//! The command-line program. It is built without an MPI.

use std::io::{self, ErrorKind};
use std::process::ExitCode;

use circulant::message::say;
use circulant::store;
use clap::{CommandFactory, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

#[path = "circulant/builds.rs"]
mod builds;
#[path = "circulant/choice.rs"]
mod choice;
#[path = "circulant/clock.rs"]
mod clock;
#[path = "circulant/compare.rs"]
mod compare;
#[path = "circulant/completion.rs"]
mod completion;
#[path = "circulant/contents.rs"]
mod contents;
#[path = "circulant/elf.rs"]
mod elf;
#[path = "circulant/info.rs"]
mod info;
#[path = "circulant/markdown.rs"]
mod markdown;
#[path = "circulant/misplaced.rs"]
mod misplaced;
#[path = "circulant/page.rs"]
mod page;
#[path = "circulant/program.rs"]
mod program;
#[path = "circulant/report.rs"]
mod report;
#[path = "circulant/run.rs"]
mod run;
#[path = "circulant/schedule.rs"]
mod schedule;
#[path = "circulant/sweep.rs"]
mod sweep;
#[path = "circulant/table4.rs"]
mod table4;
#[path = "circulant/timing.rs"]
mod timing;
#[path = "circulant/trace.rs"]
mod trace;
#[path = "circulant/transcription.rs"]
mod transcription;
#[path = "circulant/tune.rs"]
mod tune;
#[path = "circulant/verify.rs"]
mod verify;
#[path = "circulant/which.rs"]
mod which;

/// Round-optimal collective communication on circulant graphs, under existing MPI programs.
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a program under the library: mpirun -n 16 circulant run ./app
    Run(run::Arguments),
    /// Show which MPI a program uses, and the build that it would run under
    Which(which::Arguments),
    /// Show what a run did and learned, from its report in JSON
    Report(report::Arguments),
    /// Compare the reports of two runs, in JSON, by operation and size
    Compare(compare::Arguments),
    /// Measure who runs the calls of each operation fastest here, for a profile: mpirun -n 16
    /// circulant tune
    Tune(tune::Arguments),
    /// Show the settings in force and the installed builds of the library
    Info(info::Arguments),
    /// Print what a shell needs to complete this command: bash, zsh or fish
    Completion(completion::Arguments),
    /// For research: print receive and send schedules, as the paper's tables do, or time their
    /// computation
    Schedule(schedule::Arguments),
    /// For research: check the schedules of all processes, for every number of processes in a range
    Verify(verify::Arguments),
    /// For research: write an allgather between two groups of processes as a trace that SimGrid
    /// replays
    Trace(trace::Arguments),
}

impl Command {
    /// Whether each process of a job runs it. The others are of no job, also where a job's
    /// processes call them.
    fn is_of_a_job(&self) -> bool {
        matches!(self, Command::Run(_) | Command::Tune(_))
    }
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    let is_of_a_job = command.is_of_a_job();
    let done = match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Which(arguments) => which::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Tune(arguments) => tune::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Schedule(arguments) => schedule::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::Completion(arguments) => completion::run(&arguments, Arguments::command()),
    };
    match done {
        Ok(code) => code,
        // The reader of our output has had enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(&error, is_of_a_job),
    }
}

/// Says what has failed. A process of a job ends the job.
fn fail(error: &io::Error, is_of_a_job: bool) -> ExitCode {
    const FAILURE: u8 = 1;
    say(&format!("circulant: {error}"));
    if is_of_a_job {
        store::end_job(FAILURE);
    }
    FAILURE.into()
}

/// A bar on standard error, where that is a terminal.
fn progress_bar(length: u64, style: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    match ProgressStyle::with_template(style) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
