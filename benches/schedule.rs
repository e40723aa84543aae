//! The schedule computation beside the paper's: what `circulant schedule --bench` prints.

use std::io;
use std::process::{Command, ExitCode};

fn main() -> io::Result<ExitCode> {
    let mut circulant = Command::new(env!("CARGO_BIN_EXE_circulant"));
    let status = circulant.args(["schedule", "--bench"]).status()?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
