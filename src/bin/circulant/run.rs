//! `circulant run`: a program under the library that was built for its MPI.

use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use circulant::launcher::{self, REFUSED};
use circulant::message::{say, say_at_end};
use circulant::select::Settings;
use circulant::store;

use crate::choice::{self, Choice, Complaint};
use crate::misplaced;
use crate::program::Program;

/// Exit statuses: that of wrong options, and as of env(1) and its like.
const MISPLACED: u8 = 2;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

#[derive(clap::Args)]
pub struct Arguments {
    /// A setting for this run; the name may be without CIRCULANT_
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,

    /// Where the report at the end goes: stdout, stderr or a file (as --set REPORT=FILE)
    #[arg(long, value_name = "FILE")]
    report: Option<String>,

    /// Leave all calls to the MPI library, and report what circulant is predicted to take (as --set
    /// SELECT=native, with a report on standard error unless --report says otherwise)
    #[arg(long)]
    observe: bool,

    /// With --observe: run some calls by circulant, to measure that (as --set SELECT=trial)
    #[arg(long = "try", requires = "observe")]
    try_some: bool,

    /// Have the MPI library repeat each call that circulant has run, and compare the results (as
    /// --set CHECK=1)
    #[arg(long)]
    check: bool,

    /// Run the program only if a build is sure to fit its MPI, and to be loaded, and only if all
    /// processes of the job have circulant (as --set REQUIRE=1)
    #[arg(long)]
    require: bool,

    #[command(flatten)]
    choice: choice::Options,

    /// The program, and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_name = "PROGRAM",
        value_hint = clap::ValueHint::CommandWithArguments
    )]
    command: Vec<OsString>,
}

/// NAME=VALUE, with a name and a value that the library accepts.
fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("there is no = in it")?;
    let name = match name.strip_prefix("CIRCULANT_") {
        Some(_) => name.to_owned(),
        None => format!("CIRCULANT_{name}"),
    };
    if value.is_empty() {
        return Err("there is no value in it".to_owned());
    }
    let setting = (name, value.to_owned());
    match Settings::read([setting.clone()].into_iter()).1.pop() {
        Some(complaint) => Err(complaint.problem),
        None => Ok(setting),
    }
}

pub fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let [program, rest @ ..] = &*arguments.command else {
        return Ok(NOT_FOUND.into());
    };
    if let Some(complaint) = misplaced::complaint(&arguments.command) {
        return Ok(refuse(&complaint, MISPLACED));
    }
    let mut command = Command::new(program);
    command.args(rest);
    command.envs(arguments.set.iter().map(|(name, value)| (name, value)));
    let report = arguments.report.as_deref();
    if let Some(report) = report.or(arguments.observe.then_some("stderr")) {
        command.env("CIRCULANT_REPORT", report);
    }
    if arguments.require {
        command.env("CIRCULANT_REQUIRE", "1");
    }
    if arguments.check {
        command.env("CIRCULANT_CHECK", "1");
    }
    if arguments.observe {
        let select = if arguments.try_some {
            "trial"
        } else {
            "native"
        };
        command.env("CIRCULANT_SELECT", select);
    }
    // Of a program that is not there, executing it has to speak.
    if let Some(found) = Program::find(program) {
        match choose(arguments, &found) {
            Ok(choice) => {
                command.env("LD_PRELOAD", preloaded(&choice.library));
            }
            Err(Complaint { here: true, text }) => {
                say(&format!("circulant: {text}"));
                return Ok(end_job(REFUSED));
            }
            Err(Complaint { text, .. }) if arguments.require => return Ok(refuse(&text, REFUSED)),
            Err(Complaint { text, .. }) => say_once(&format!("{text}; the program runs natively")),
        }
    }
    let error = command.exec();
    say(&format!(
        "circulant: {}: {error}",
        Path::new(program).display()
    ));
    let found = error.kind() != ErrorKind::NotFound;
    Ok(end_job(if found { NOT_EXECUTABLE } else { NOT_FOUND }))
}

fn choose(arguments: &Arguments, program: &Program) -> Result<Choice, Complaint> {
    let choice = choice::choose(&arguments.choice, program)?;
    if arguments.require {
        choice::require(&choice, program)?;
    }
    Ok(choice)
}

/// Ends this process and, under most launchers, its job.
fn refuse(complaint: &str, status: u8) -> ExitCode {
    say_at_end(complaint);
    end_job(status)
}

/// The status that this process ends with, and under most launchers its job.
fn end_job(status: u8) -> ExitCode {
    store::end_job(status);
    status.into()
}

/// The library, before what is preloaded already.
pub fn preloaded(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

/// One line of a job, not one of each of its processes.
fn say_once(line: &str) {
    if launcher::is_first() {
        say(&format!("circulant: {line}"));
    }
}
