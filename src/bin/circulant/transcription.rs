//! The paper's Algorithms 2 to 6 in C (`transcription.c`): receive and send schedule of one
//! process.

use std::ffi::{c_int, c_long};

use circulant::schedule::MAX_Q;

/// The compiler and its optimisation, as the build script has asked it.
pub const COMPILER: &str = env!("TRANSCRIPTION_COMPILER");

/// Entries that the C code has room for, in an array of skips.
const SKIPS: usize = 65;

#[link(name = "transcription", kind = "static")]
unsafe extern "C" {
    fn paper_skips(p: c_long, skip: *mut c_long) -> c_int;
    fn paper_schedules(skip: *const c_long, q: c_int, r: c_long, recv: *mut i8, send: *mut i8);
}

/// The transcription, for one number of processes.
pub struct Transcription {
    skip: [c_long; SKIPS],
    q: c_int,
    p: usize,
}

impl Transcription {
    /// For p processes, at least 1 and at most 2^62, or else the nearest to that.
    pub fn new(p: usize) -> Self {
        let p = p.clamp(1, 1 << MAX_Q);
        let mut skip = [0; SKIPS];
        // SAFETY: for this p, q is at most MAX_Q < SKIPS, and skip[0] to skip[q] are written.
        let q = unsafe { paper_skips(p as c_long, skip.as_mut_ptr()) };
        Self { skip, q, p }
    }

    /// Both schedules of process `r < p`, in the first q entries.
    #[inline]
    pub fn schedules(&self, r: usize, recv: &mut [i8; MAX_Q], send: &mut [i8; MAX_Q]) {
        assert!(r < self.p, "process {r} of {}", self.p);
        // SAFETY: skip and q are of `paper_skips`, and r is a process: then Algorithms 3 to 6 read
        // skip[0] to skip[q], and write q <= MAX_Q entries of each schedule.
        unsafe {
            paper_schedules(
                self.skip.as_ptr(),
                self.q,
                r as c_long,
                recv.as_mut_ptr(),
                send.as_mut_ptr(),
            );
        }
    }
}
