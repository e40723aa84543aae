//! `circulant info`: the settings in force, those first that differ from the defaults, and the
//! installed builds.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use circulant::abi::check_file;
use circulant::message::say;
use circulant::select::{InForce, Origin, Settings};
use serde_json::{Value, json};

use crate::builds::{self, Build};

#[derive(clap::Args)]
pub struct Arguments {
    /// The folder with the builds [default: where circulant is installed]
    #[arg(long, value_name = "FOLDER")]
    libraries: Option<PathBuf>,

    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let folder = builds::folder(arguments.libraries.as_deref())?;
    let builds = builds::installed(&folder)?;
    let (settings, complaints) = Settings::of_environment();
    let complaints: Vec<_> = complaints.iter().map(ToString::to_string).collect();
    let settings = with_defaults(&settings);
    let mut out = io::stdout().lock();
    if arguments.json {
        let info = json!({
            "circulant": env!("CARGO_PKG_VERSION"),
            "folder": folder.to_string_lossy(),
            "builds": builds.iter().map(build_json).collect::<Vec<_>>(),
            "settings": settings.iter().map(setting_json).collect::<Vec<_>>(),
            "complaints": complaints,
        });
        writeln!(out, "{info:#}")?;
    } else {
        complaints.iter().for_each(|line| say(line));
        print(&mut out, &folder, &builds, &settings, complaints.len())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A setting in force, and its default, if it has one.
type WithDefault = (InForce, Option<String>);

fn with_defaults(settings: &Settings) -> Vec<WithDefault> {
    let defaults = Settings::default().in_force().into_iter();
    let mut defaults: BTreeMap<_, _> = defaults.map(|known| (known.name, known.value)).collect();
    let with_default = |setting: InForce| {
        let default = defaults.remove(setting.name);
        (setting, default)
    };
    settings.in_force().into_iter().map(with_default).collect()
}

fn print(
    out: &mut impl Write,
    folder: &Path,
    builds: &[Build],
    settings: &[WithDefault],
    complaints: usize,
) -> io::Result<()> {
    writeln!(out, "circulant {}\n", env!("CARGO_PKG_VERSION"))?;
    let differs = |(setting, default): &&WithDefault| default.as_ref() != Some(&setting.value);
    let (differing, others): (Vec<_>, Vec<_>) = settings.iter().partition(differs);
    if differing.is_empty() && complaints == 0 {
        writeln!(out, "All settings are the defaults.")?;
    } else if differing.is_empty() {
        writeln!(
            out,
            "No setting that was accepted differs from the defaults."
        )?;
    } else {
        writeln!(out, "Settings that differ from the defaults:")?;
        print_settings(out, &differing)?;
    }
    writeln!(out, "\nBuilds in {}:", folder.display())?;
    let names: Vec<String> = builds.iter().map(|build| build.mpi.to_string()).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    for (build, name) in builds.iter().zip(names) {
        write!(out, "  {name:<width$}  {}", build.library.display())?;
        match check_file(&build.library) {
            Ok(()) => writeln!(out)?,
            Err(error) => writeln!(out, "  cannot be loaded: {error}")?,
        }
    }
    if builds.is_empty() {
        writeln!(out, "  none")?;
    }
    writeln!(out, "\nThe other settings:")?;
    print_settings(out, &others)
}

fn print_settings(out: &mut impl Write, settings: &[&WithDefault]) -> io::Result<()> {
    for (setting, _) in settings {
        let value = format!("{}={}", setting.name, setting.value);
        writeln!(out, "  {value:<44}  {}", origin(setting))?;
    }
    Ok(())
}

fn origin(setting: &InForce) -> &'static str {
    match setting.origin {
        Origin::Default => "default",
        Origin::Environment => "environment",
    }
}

fn build_json(build: &Build) -> Value {
    json!({
        "mpi": build.mpi.family.to_string(),
        "version": build.mpi.version.to_string(),
        "library": build.library.to_string_lossy(),
        "problem": check_file(&build.library).err().map(|error| error.to_string()),
    })
}

fn setting_json((setting, default): &WithDefault) -> Value {
    json!({
        "name": setting.name,
        "value": setting.value,
        "default": default,
        "origin": origin(setting),
    })
}
