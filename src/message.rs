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

/// A rank's error as a word that is not 0, for other processes: of several the lowest rank's is the
/// largest.
pub fn error_word(rank: usize, error: &io::Error) -> u64 {
    let number = error.raw_os_error().unwrap_or(libc::ENOENT);
    let before_last = u32::MAX - rank as u32;
    u64::from(before_last) << 32 | u64::from(number.unsigned_abs())
}

/// The rank and the error of such a word.
pub fn error_of(word: u64) -> (u32, io::Error) {
    let number = i32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
    let rank = u32::MAX - (word >> 32) as u32;
    (rank, io::Error::from_raw_os_error(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_rank_that_has_an_error_is_named() {
        let of = |rank, number| error_word(rank, &io::Error::from_raw_os_error(number));
        let all = [of(7, 12), of(3, 1), of(5, libc::ENOSYS)];
        let named = all.into_iter().max().map(error_of);
        let named = named.map(|(rank, error)| (rank, error.raw_os_error()));
        assert_eq!(named, Some((3, Some(1))));
        assert_ne!(of(0, 0), 0);
    }
}
