//! Processor time of the calling thread: what `clock()` gave the paper, in nanoseconds, and without
//! what other threads use. Other load on the machine shows little in it.

use std::io::{self, Error};
use std::time::Duration;

pub fn processor_time() -> io::Result<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a timespec that the call may write to.
    if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0 {
        return Err(Error::last_os_error());
    }
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}
