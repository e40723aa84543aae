//! `circulant run`: a program under the library that was built for its MPI.

use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use circulant::launcher;
use circulant::select::Settings;

use crate::builds::{self, Build};
use crate::program;

/// Exit statuses, as of env(1) and its like.
const REFUSED: u8 = 125;
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

    /// Do not run the program natively where no installed build fits its MPI
    #[arg(long)]
    require: bool,

    /// The folder with the builds [default: where circulant is installed]
    #[arg(long, value_name = "FOLDER")]
    libraries: Option<PathBuf>,

    /// The build to use, as its folder is called, such as openmpi-4.1.4 [default: by the program]
    #[arg(long, value_name = "NAME")]
    build: Option<OsString>,

    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
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
    let mut command = Command::new(program);
    command.args(rest);
    command.envs(arguments.set.iter().map(|(name, value)| (name, value)));
    let report = arguments.report.as_deref();
    if let Some(report) = report.or(arguments.observe.then_some("stderr")) {
        command.env("CIRCULANT_REPORT", report);
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
    if let Ok(file) = which::which(program) {
        match library(arguments, &file).and_then(preloadable) {
            Ok(library) => {
                command.env("LD_PRELOAD", preloaded(&library));
            }
            Err(Complaint { here: true, text }) => {
                eprintln!("circulant: {text}");
                return Ok(REFUSED.into());
            }
            Err(Complaint { text, .. }) if arguments.require => {
                say(&text);
                leave_time_to_speak();
                return Ok(REFUSED.into());
            }
            Err(Complaint { text, .. }) => say(&format!("{text}; the program runs natively")),
        }
    }
    let error = command.exec();
    eprintln!("circulant: {}: {error}", Path::new(program).display());
    let found = error.kind() != ErrorKind::NotFound;
    Ok(if found { NOT_EXECUTABLE } else { NOT_FOUND }.into())
}

/// Why there is no library for the program.
struct Complaint {
    /// Whether that may be so on this node only: then the program must not run natively, for others
    /// of its job would wait for it.
    here: bool,
    text: String,
}

/// The library for the program, which is in `file`, or why there is none.
fn library(arguments: &Arguments, file: &Path) -> Result<PathBuf, Complaint> {
    let here = |text| Complaint { here: true, text };
    let unreadable = |error: io::Error| here(error.to_string());
    let folder = builds::folder(arguments.libraries.as_deref()).map_err(unreadable)?;
    if let Some(name) = &arguments.build {
        let library = folder.join(name).join(builds::LIBRARY);
        return if library.is_file() {
            Ok(library)
        } else {
            let library = library.display();
            Err(here(format!("{library}: there is no such build")))
        };
    }
    let builds = builds::installed(&folder).map_err(unreadable)?;
    choose(&builds, &folder, file).map_err(|text| Complaint { here: false, text })
}

fn choose(builds: &[Build], folder: &Path, file: &Path) -> Result<PathBuf, String> {
    let (name, folder) = (file.display(), folder.display());
    let build = match (program::mpi_of(file), builds) {
        (Some(mpi), _) => match *builds::fitting(builds, &mpi) {
            [] => {
                return Err(format!(
                    "{name} uses {mpi}, for which there is no build in {folder}"
                ));
            }
            [build] => build,
            _ => {
                return Err(format!(
                    "nothing says which version of {mpi} {name} uses (--build)"
                ));
            }
        },
        // The library itself sees to it that it does nothing under another MPI.
        (None, [only]) => only,
        (None, _) => return Err(format!("nothing says which MPI {name} uses (--build)")),
    };
    Ok(build.library.clone())
}

/// The library, if the dynamic linker takes its path for one.
fn preloadable(library: PathBuf) -> Result<PathBuf, Complaint> {
    let is_separator = |byte: &u8| [b' ', b':'].contains(byte);
    if !library.as_os_str().as_bytes().iter().any(is_separator) {
        return Ok(library);
    }
    let library = library.display();
    Err(Complaint {
        here: false,
        text: format!("{library} has a space or a colon in its path, which LD_PRELOAD cannot hold"),
    })
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

/// A launcher may end the job, and who speaks for it, as soon as one process has ended with a
/// status of failure.
pub fn leave_time_to_speak() {
    if !launcher::is_first() {
        thread::sleep(Duration::from_secs(2));
    }
}

/// One line of a job, not one of each of its processes.
fn say(line: &str) {
    if launcher::is_first() {
        eprintln!("circulant: {line}");
    }
}
