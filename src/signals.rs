//! Signals that the system sends to who writes: SIGPIPE where a pipe has no reader, SIGXFSZ where a
//! file may not become longer. They would end the program, which has not written anything. Held
//! back, the error is the writer's alone.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

const OF_WRITING: [c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// While it lives, this thread gets no signal of writing; nor afterwards one that was sent
/// meanwhile.
#[must_use]
pub struct HeldBack(Option<Before>);

struct Before {
    /// Which of those signals waited for the thread.
    waited: [bool; OF_WRITING.len()],
    /// The thread's mask.
    mask: libc::sigset_t,
}

impl HeldBack {
    /// Holds them back from now on. (Miri has no signals.)
    pub fn new() -> HeldBack {
        HeldBack((!cfg!(miri)).then(hold_back))
    }
}

impl Default for HeldBack {
    fn default() -> HeldBack {
        HeldBack::new()
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let waits = OF_WRITING.into_iter().zip(waiting()).zip(before.waited);
            let sent = waits.filter(|((_, waits), waited)| *waits && !waited);
            sent.for_each(|((signal, _), _)| take(signal));
            // SAFETY: reads the set.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before.mask, ptr::null_mut()) };
        }
    }
}

fn hold_back() -> Before {
    let waited = waiting();
    let mut mask = empty();
    // SAFETY: reads one set, and writes another.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set_of(&OF_WRITING), &mut mask) };
    Before { waited, mask }
}

/// Takes a signal that waits, so that it does not come.
fn take(signal: c_int) {
    let now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: reads a set and a time; nothing is to be written.
    unsafe { libc::sigtimedwait(&set_of(&[signal]), ptr::null_mut(), &now) };
}

fn empty() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the set is written.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

fn set_of(signals: &[c_int]) -> libc::sigset_t {
    let mut set = empty();
    for signal in signals {
        // SAFETY: a set that is there.
        unsafe { libc::sigaddset(&mut set, *signal) };
    }
    set
}

/// Which signals of writing wait for this thread.
fn waiting() -> [bool; OF_WRITING.len()] {
    let mut set = empty();
    // SAFETY: writes the set.
    unsafe { libc::sigpending(&mut set) };
    // SAFETY: reads the set.
    OF_WRITING.map(|signal| unsafe { libc::sigismember(&set, signal) } == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// The test program itself ignores SIGPIPE, so SIGXFSZ alone would end it.
    #[test]
    fn a_signal_of_writing_is_held_back_and_does_not_come_later() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        drop(reader);
        let held_back = HeldBack::new();
        // SAFETY: sends a signal to this thread.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGXFSZ) };
        assert!(writer.write_all(b"x").is_err());
        assert!(waiting()[1]);
        drop(held_back);
        assert_eq!(waiting(), [false; 2]);
    }

    #[test]
    fn what_waited_before_still_waits() {
        let outer = HeldBack::new();
        // SAFETY: sends a signal to this thread.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGXFSZ) };
        drop(HeldBack::new());
        assert!(waiting()[1]);
        drop(outer);
    }
}
