//! Lines for the person who runs the job.

#![forbid(unsafe_code)]

use std::io::{self, Write};

/// Writes a line to standard error, as far as that can be written to.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
