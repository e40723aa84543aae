//! Lines for the person who runs the job.

#![forbid(unsafe_code)]

use std::io::{self, Write};

/// Writes a line to standard error, as far as that can be written to; in one piece, so that lines
/// of several processes do not mix.
pub fn say(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
