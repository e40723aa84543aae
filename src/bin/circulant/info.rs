//! `circulant info`: the installed builds, and the settings in force.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use circulant::select::{Origin, Settings};

use crate::builds;

#[derive(clap::Args)]
pub struct Arguments {
    /// The folder with the builds [default: where circulant is installed]
    #[arg(long, value_name = "FOLDER")]
    libraries: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    writeln!(out, "circulant {}\n", env!("CARGO_PKG_VERSION"))?;
    let folder = builds::folder(arguments.libraries.as_deref())?;
    let builds = builds::installed(&folder)?;
    writeln!(out, "Builds in {}:", folder.display())?;
    let names: Vec<String> = builds.iter().map(|build| build.mpi.to_string()).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    for (build, name) in builds.iter().zip(names) {
        writeln!(out, "  {name:<width$}  {}", build.library.display())?;
    }
    if builds.is_empty() {
        writeln!(out, "  none")?;
    }
    settings(&mut out)?;
    Ok(ExitCode::SUCCESS)
}

fn settings(out: &mut impl Write) -> io::Result<()> {
    let (settings, complaints) = Settings::of_environment();
    writeln!(out, "\nSettings in force:")?;
    for setting in settings.in_force() {
        let origin = match setting.origin {
            Origin::Default => "default",
            Origin::Environment => "environment",
        };
        let value = format!("{}={}", setting.name, setting.value);
        writeln!(out, "  {value:<44}  {origin}")?;
    }
    for complaint in complaints {
        eprintln!("{complaint}");
    }
    Ok(())
}
