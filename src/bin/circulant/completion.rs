//! `circulant completion`: what a shell needs to complete this command.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Command;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap_complete::Shell;

#[derive(clap::Args)]
pub struct Arguments {
    /// The shell
    #[arg(value_name = "SHELL", value_parser = shells())]
    shell: Shell,
}

/// Those whose folders of completions `make install` knows.
fn shells() -> impl TypedValueParser<Value = Shell> {
    PossibleValuesParser::new(["bash", "zsh", "fish"]).try_map(|name| name.parse::<Shell>())
}

/// Prints the completions of `command` for a shell.
pub fn run(arguments: &Arguments, mut command: Command) -> io::Result<ExitCode> {
    let name = command.get_name().to_owned();
    // The generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
