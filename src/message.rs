//! Lines for the person who runs the job.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use crate::launcher;
use crate::signals::HeldBack;

/// Writes a line to standard error, as far as that can be written to; in one piece, so that lines
/// of several processes do not mix.
pub fn say(line: &str) {
    let _held_back = HeldBack::new();
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Says a line of a job that ends, for which one process speaks: rank 0. Where that has not ended
/// the job by the time that another process has to speak, as it may run another program, that
/// speaks itself.
pub fn say_at_end(line: &str) {
    leave_time_to_speak();
    match launcher::rank().filter(|rank| *rank != 0) {
        Some(rank) => say(&format!("circulant: rank {rank}: {line}")),
        None => say(&format!("circulant: {line}")),
    }
}

/// A launcher may end the job, and who speaks for it, as soon as one process has ended with a
/// status of failure.
pub fn leave_time_to_speak() {
    if !launcher::is_first() {
        thread::sleep(Duration::from_secs(2));
    }
}
