//! `circulant tune`: measures who runs the calls of each operation fastest, on the nodes where it
//! is started, and writes that to a profile.
//!
//! The calls are made by an MPI program, circulant-tune (src/tune.c), which each build has beside
//! its library. Every process of the job starts one. Rank 0 shows how far it is and writes the
//! files.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, process};

use circulant::abi::LIBRARY;
use circulant::launcher;
use circulant::message::{leave_time_to_speak, say};
use circulant::select::{Kind, Known, Lesson, Operation, load_profile, store_profile};

use crate::builds::{self, Build};
use crate::{program, progress_bar, report, run};

/// The MPI program, beside the library of a build.
const PROGRAM: &str = "circulant-tune";

#[derive(clap::Args)]
pub struct Arguments {
    /// The profile. What it says of other operations and numbers of processes stays
    #[arg(long, value_name = "FILE", default_value = "circulant.toml")]
    output: PathBuf,

    /// Draw the times of all candidates by size, and who was chosen, to this file (SVG)
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Only up to 1 MiB, and only operands that are as long on all ranks
    #[arg(long)]
    quick: bool,

    /// Bytes of the smallest calls
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    #[arg(value_parser = clap::value_parser!(u64).range(2..=1 << 29))]
    smallest: u64,

    /// Bytes of the largest calls [default: 16777216, with --quick 1048576]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(2..=1 << 29))]
    largest: Option<u64>,

    /// The folder with the builds [default: where circulant is installed]
    #[arg(long, value_name = "FOLDER")]
    libraries: Option<PathBuf>,

    /// The build to use, as its folder is called, such as openmpi [default: by the launcher]
    #[arg(long, value_name = "NAME")]
    build: Option<PathBuf>,

    /// The operations [default: all that circulant runs]
    #[arg(value_name = "OPERATION", value_parser = operations())]
    operations: Vec<String>,
}

/// The names of the operations.
fn operations() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(names())
}

fn names() -> impl Iterator<Item = &'static str> {
    let all = <Operation as strum::VariantArray>::VARIANTS.iter();
    all.take(Operation::OF_MPI)
        .map(|operation| operation.name())
}

pub fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let folder = check(arguments).and_then(|()| folder(arguments));
    // Rank 0 speaks for all, unless only this process has failed.
    let folder = folder.inspect_err(|_| leave_time_to_speak())?;
    // The dynamic linker is told to look here, so nobody else may write to it.
    let work = tempfile::Builder::new()
        .prefix("circulant-tune-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()?;
    if launcher::is_first() {
        return measure(arguments, &folder, work.path());
    }
    let mut child = start(arguments, &folder, work.path(), Stdio::null())?;
    Ok(code(child.wait()?))
}

/// Whether the files can be written, before minutes are spent on what they are to hold.
fn check(arguments: &Arguments) -> io::Result<()> {
    let files = [
        ("--output", Some(&arguments.output)),
        ("--svg", arguments.svg.as_ref()),
    ];
    for (option, file) in files {
        let file = file.filter(|file| file.is_dir() || !is_in_folder(file));
        if let Some(file) = file {
            let problem = format!("{option}: {} cannot be a file", file.display());
            return Err(io::Error::other(problem));
        }
    }
    Ok(())
}

fn is_in_folder(file: &Path) -> bool {
    let parent = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.is_none_or(Path::is_dir)
}

/// The folder of the build that is to be used, with the MPI program in it.
fn folder(arguments: &Arguments) -> io::Result<PathBuf> {
    let folder = chosen_folder(arguments)?;
    let program = folder.join(PROGRAM);
    if program.is_file() {
        return Ok(folder);
    }
    let program = program.display();
    Err(io::Error::other(format!(
        "{program}: there is no such build"
    )))
}

fn chosen_folder(arguments: &Arguments) -> io::Result<PathBuf> {
    let folder = builds::folder(arguments.libraries.as_deref())?;
    if let Some(name) = &arguments.build {
        return Ok(folder.join(name));
    }
    let all = builds::installed(&folder)?;
    let fitting = match (program::launcher(), &*all) {
        (Some(told), _) => builds::fitting(&all, &told.mpi),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    match fitting {
        Some(Build { library, .. }) => Ok(library.parent().unwrap_or(Path::new("/")).to_owned()),
        None => Err(io::Error::other(format!(
            "nothing says which of the {} builds in {} is for the MPI of this job (--build)",
            all.len(),
            folder.display()
        ))),
    }
}

/// Where the dynamic linker is to look for the MPI library that the MPI program needs, if it does
/// not find it: a build serves every MPI of an ABI, wherever that is, but the program names one.
/// Each process has a link in `work` with that name.
fn library_path(program: &Path, work: &Path) -> io::Result<Option<OsString>> {
    /// The names of one library, in MPICH and in Debian's MPICH.
    const MPICH: [&str; 2] = ["libmpi.so.12", "libmpich.so.12"];
    let Some(missing) = program::missing_mpi(program) else {
        return Ok(None);
    };
    let names = if MPICH.contains(&&*missing) {
        &MPICH[..]
    } else {
        &[&*missing]
    };
    let Some(library) = program::library_of_launcher(names) else {
        return Ok(None);
    };
    symlink(&library, work.join(&missing))?;
    let beside = library.parent().unwrap_or(Path::new("/"));
    let before = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = [work.to_owned(), beside.to_owned()].into_iter();
    let folders = folders.chain(env::split_paths(&before));
    let all = folders.chain(program::folders_of_needed(program, &library));
    env::join_paths(all).map(Some).map_err(io::Error::other)
}

fn start(arguments: &Arguments, folder: &Path, work: &Path, output: Stdio) -> io::Result<Child> {
    let program = folder.join(PROGRAM);
    let largest = if arguments.quick { 1 << 20 } else { 16 << 20 };
    let largest = arguments.largest.unwrap_or(largest);
    let shapes = if arguments.quick { 1 } else { 2 };
    let mut command = Command::new(&program);
    if let Some(path) = library_path(&program, work)? {
        command.env("LD_LIBRARY_PATH", path);
    }
    command.args([arguments.smallest, largest, shapes].map(|number| number.to_string()));
    if arguments.operations.is_empty() {
        command.args(names());
    } else {
        command.args(&arguments.operations);
    }
    for name in ["CIRCULANT_PROFILE", "CIRCULANT_FORCE", "CIRCULANT_DISABLE"] {
        command.env_remove(name);
    }
    command.env("CIRCULANT_SELECT", "tune");
    command.env("CIRCULANT_MIN_BYTES", arguments.smallest.to_string());
    command.env("CIRCULANT_PROFILE_SAVE", work.join("profile.toml"));
    command.env("CIRCULANT_REPORT", work.join("report.json"));
    command.env("LD_PRELOAD", run::preloaded(&folder.join(LIBRARY)));
    let started = command.stdout(output).spawn();
    started.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))
}

/// Rank 0's part.
fn measure(arguments: &Arguments, folder: &Path, work: &Path) -> io::Result<ExitCode> {
    let mut child = start(arguments, folder, work, Stdio::piped())?;
    show(child.stdout.take())?;
    let status = child.wait()?;
    if !status.success() {
        return Ok(code(status));
    }
    let measured = report::read(&work.join("report.json"))?;
    let mpi = &measured.mpi;
    let mut known = load_profile(&work.join("profile.toml"), mpi).map_err(io::Error::other)?;
    for known in &mut known {
        let lessons = known.lessons.iter_mut();
        lessons.for_each(|lesson| lesson.tried = measured.tried(&lesson.kind));
        fill(known);
    }
    report::print_learned(&measured)?;
    let written = write(&arguments.output, known, mpi)?;
    writeln!(
        io::stdout(),
        "\nWritten to {0}. Programs begin with it by circulant run --set PROFILE={0}.",
        written.display()
    )?;
    if let Some(file) = &arguments.svg {
        report::draw_learned(&measured, file)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows how far it is: a bar where there is a terminal; else, as under most launchers, a line now
/// and then.
fn show(lines: Option<ChildStdout>) -> io::Result<()> {
    const PAUSE: Duration = Duration::from_secs(5);
    let bar = progress_bar(1000, "{bar:40} {percent:>3} %  {eta:>4} left  {msg}");
    let (start, mut latest) = (Instant::now(), Instant::now());
    for line in lines
        .map(BufReader::new)
        .into_iter()
        .flat_map(BufRead::lines)
    {
        let line = line?;
        let (part, now) = line.split_once(' ').unwrap_or_default();
        let Ok(part) = part.parse::<f64>() else {
            continue;
        };
        bar.set_position((part * 1000.0) as u64);
        bar.set_message(now.to_owned());
        if bar.is_hidden() && latest.elapsed() > PAUSE {
            latest = Instant::now();
            let left = start.elapsed().as_secs_f64() * (1.0 / part.max(1e-6) - 1.0);
            say(&format!(
                "circulant: {:.0} %, about {left:.0} s left; {now}",
                part * 100.0
            ));
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn code(status: process::ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Adds lessons for the sizes between two that the same candidate runs.
fn fill(known: &mut Known) {
    let measured = known.lessons.clone();
    for lesson in &measured {
        let is_alike = |other: &&Lesson| {
            other.kind.size > lesson.kind.size
                && Kind {
                    size: lesson.kind.size,
                    ..other.kind
                } == lesson.kind
        };
        let next = measured
            .iter()
            .filter(is_alike)
            .min_by_key(|other| other.kind.size);
        if let Some(next) = next.filter(|next| next.candidate == lesson.candidate) {
            for size in lesson.kind.size + 1..next.kind.size {
                let kind = Kind {
                    size,
                    ..lesson.kind
                };
                known.lessons.push(Lesson {
                    kind,
                    times: [0; 2],
                    tried: [0; _],
                    ..*lesson
                });
            }
        }
    }
}

/// Writes the profile, with what the file had of other communicators and operations. If that is no
/// profile of this MPI, it stays as it is, and a new file is written beside it. Returns the file.
fn write(file: &Path, mut known: Vec<Known>, mpi: &str) -> io::Result<PathBuf> {
    let beside = file.with_extension(format!("{}.toml", process::id()));
    let (before, target) = match load_profile(file, mpi) {
        Ok(before) => (before, file),
        Err(problem) => {
            say(&format!(
                "circulant: {} stays as it is: {problem}",
                file.display()
            ));
            (Vec::new(), &*beside)
        }
    };
    before.into_iter().for_each(|old| keep(old, &mut known));
    match store_profile(target, &known, mpi) {
        Ok(()) => Ok(target.to_owned()),
        Err(error) => Err(io::Error::other(format!("{}: {error}", target.display()))),
    }
}

/// Keeps what was known before, but of the operations that were measured now.
fn keep(mut old: Known, known: &mut Vec<Known>) {
    let is_same = |new: &&mut Known| new.is_of(old.processes, old.nodes);
    match known.iter_mut().find(is_same) {
        None => known.push(old),
        Some(new) => {
            let operations: Vec<_> = new.lessons.iter().map(|new| new.kind.operation).collect();
            let is_old = |lesson: &Lesson| !operations.contains(&lesson.kind.operation);
            old.lessons.retain(is_old);
            new.lessons.append(&mut old.lessons);
        }
    }
}
