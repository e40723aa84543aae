//! `circulant which`: the MPI of a program, and the build that it would run under.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::choice;
use crate::program::Program;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    choice: choice::Options,

    /// The program
    #[arg(value_name = "PROGRAM", value_hint = clap::ValueHint::CommandName)]
    program: OsString,
}

pub fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let name = Path::new(&arguments.program).display();
    let missing = || {
        io::Error::new(
            ErrorKind::NotFound,
            format!("{name}: no such program, or not executable"),
        )
    };
    let program = Program::find(&arguments.program).ok_or_else(missing)?;
    let mut out = io::stdout().lock();
    writeln!(out, "program  {}", program.file.display())?;
    match program.told() {
        Some(told) => writeln!(out, "MPI      {}: {}", told.mpi, told.by)?,
        None => writeln!(
            out,
            "MPI      unknown: neither its file nor a launcher says"
        )?,
    }
    let choice = match choice::choose(&arguments.choice, &program) {
        Ok(choice) => choice,
        Err(complaint) => {
            writeln!(out, "build    none: {}", complaint.text)?;
            return Ok(ExitCode::FAILURE);
        }
    };
    writeln!(
        out,
        "build    {}: {}",
        choice.library.display(),
        choice.basis
    )?;
    if let Err(complaint) = choice::require(&choice, &program) {
        writeln!(out, "but not with --require: {}", complaint.text)?;
    }
    Ok(ExitCode::SUCCESS)
}
