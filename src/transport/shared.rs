//! Memory that the processes of a node share: a slot for each, and flags by which they meet.
//!
//! ```text
//! token        by which who has joined knows that this is the memory that it was told of
//! flags        for each process two cache lines for each round of a meeting: of odd ones, and even
//! slots 0      of all processes, one after the other: of the even steps
//! slots 1      the same: of the odd steps
//! ```
//!
//! **It leaves nothing behind.** It is a file without a name (`memfd_create`), which the other
//! processes open through `/proc`. So it needs no room in `/dev/shm`, and it is gone when the last
//! process that maps it is, however that ends.
//!
//! **Slots grow.** Each process has the system provide the pages of its own slots, so they are on
//! its part of the machine, and a lack of memory is an error then and no signal later. To provide a
//! megabyte takes 0.3 ms, so they are provided as calls need them.
//!
//! **A meeting** is a dissemination barrier: in round k, process i waits for process i - 2^k. After
//! ceil(log2 p) rounds each has heard, directly or not, of all. On the way goes the least of some
//! words of all processes, by which they agree on what only one of them may know.
//!
//! A flag is written by its process (release) and read by one other (acquire). It stays for one
//! more meeting: a process that begins the next but one has met all in the next, and who is there
//! has read what came before.
//!
//! **Who waits** lets MPI make progress, since the other process may wait for a message of the
//! program. That also tells when the communicator is revoked, or a process has failed. After a
//! moment it leaves the processor to others. Where there are fewer processors than processes, it
//! then sleeps until the other comes, so that those who have something to do have the processors.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::mpi::{Buffer, Communicator, Error, Region};

/// Words on which processes agree when they meet.
pub const WORDS: usize = 5;

/// How often a process looks at a flag before it lets others have the processor. Then some
/// microseconds have passed.
const LOOKS: u32 = 100;

/// From then on it lets MPI make progress every so many looks.
const LOOKS_APART: u32 = 8;

/// Where there are fewer processors than processes, a process sleeps after so long. Calls on one
/// node mostly take less, and to wake it takes as long as a meeting.
const AWAKE: Duration = Duration::from_micros(100);

/// How long it sleeps before it lets MPI make progress.
const ASLEEP: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 500_000,
};

/// Bytes of the token, with what is left of its cache line.
const HEAD: usize = 64;

/// Bytes of a page, or a multiple: what slots are rounded to.
pub const PAGE: usize = 4096;

/// Bytes of a slot at first.
const LEAST: usize = 16 << 10;

/// A process has come to a meeting.
#[repr(C, align(64))]
struct Flag {
    /// The number of the meeting.
    meeting: AtomicU64,
    /// What it brought.
    words: [AtomicU64; WORDS],
    /// Whether the process that reads this sleeps until the meeting changes: 1, or else 0.
    sleeps: AtomicU32,
}

impl Flag {
    /// The process has come to this meeting.
    fn raise(&self, meeting: u64) {
        // Either this load sees that the other sleeps, or the other sees the meeting before it
        // does.
        self.meeting.store(meeting, Ordering::SeqCst);
        if self.sleeps.load(Ordering::SeqCst) != 0 {
            self.sleeps.store(0, Ordering::SeqCst);
            self.futex(libc::FUTEX_WAKE, 1, None);
        }
    }

    fn is_raised(&self, meeting: u64) -> bool {
        self.meeting.load(Ordering::Acquire) >= meeting
    }

    /// Sleeps until the flag is raised for this meeting, or for [so long](ASLEEP).
    fn sleep(&self, meeting: u64) {
        self.sleeps.store(1, Ordering::SeqCst);
        if self.meeting.load(Ordering::SeqCst) < meeting {
            self.futex(libc::FUTEX_WAIT, 1, Some(ASLEEP));
        }
        self.sleeps.store(0, Ordering::SeqCst);
    }

    /// What comes of it does not matter: who sleeps looks again.
    fn futex(&self, operation: libc::c_int, value: u32, timeout: Option<libc::timespec>) {
        let timeout = timeout
            .as_ref()
            .map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the word and the timeout live during the call; of the word nothing but its value
        // is looked at.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.sleeps.as_ptr(),
                operation,
                value,
                timeout,
            )
        };
    }
}

/// Flags of one process and round: that of a meeting is overwritten by the next but one.
const FLAGS: usize = 2;

/// How the memory is divided.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The processes.
    pub processes: usize,
    /// Which of them this one is.
    pub place: usize,
    /// The most bytes of a slot: a multiple of [`PAGE`].
    pub room: usize,
}

impl Layout {
    /// Rounds of a meeting.
    fn rounds(&self) -> usize {
        self.processes.next_power_of_two().ilog2() as usize
    }

    /// Where the slots start.
    fn slots(&self) -> usize {
        (HEAD + self.processes * self.rounds() * FLAGS * size_of::<Flag>()).next_multiple_of(PAGE)
    }

    /// Bytes of all slots.
    fn bytes(&self) -> usize {
        self.slots() + 2 * self.processes * self.room
    }

    /// These bytes of both slots of this process.
    fn own(&self, bytes: Range<usize>) -> [Range<usize>; 2] {
        [self.place, self.processes + self.place].map(|index| {
            let start = self.slots() + index * self.room;
            start + bytes.start..start + bytes.end
        })
    }
}

/// Where the other processes of the node find the memory.
#[derive(Clone, Copy, Default, Debug)]
pub struct Ticket {
    /// The process that has made it, and its file descriptor.
    pub process: u64,
    /// See above.
    pub descriptor: u64,
    /// The token.
    pub token: u64,
}

/// A stretch of memory that is shared.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it owns the mapping, which stays where it is until it is dropped, in whatever thread.
unsafe impl Send for Mapping {}
// SAFETY: shared references give the address alone. Who reads or writes there is ordered by the
// meetings of all processes, as data of other processes is.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first `length` bytes of a file that has as many.
    fn of(file: &File, length: usize) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, wherever the system likes.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, length })
    }

    fn token(&self) -> &AtomicU64 {
        // SAFETY: the first word of the memory, which is aligned to a page, and is never anything
        // else.
        unsafe { self.start.cast().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: what was mapped. Whoever knows the address has a share in this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// The slots of all processes.
#[derive(Clone, Debug)]
pub struct Slots {
    mapping: Arc<Mapping>,
    layout: Layout,
    /// Bytes of each slot that all processes have provided.
    provided: usize,
}

impl Slots {
    /// How many units fit into what is provided of a slot, if each takes so many bytes.
    pub fn room(&self, unit: usize) -> usize {
        self.provided / unit.max(1)
    }

    /// The number, among the units of all slots, of the first of a process in a step.
    pub fn start(&self, process: usize, step: u64, unit: usize) -> usize {
        let slot = match step % 2 {
            0 => process,
            _ => self.layout.processes + process,
        };
        slot * self.room(unit)
    }

    /// What is provided of the slot that unit `number` of all is in, and which of its units that
    /// is. A slot starts at the same byte whatever its units are: two calls whose units differ must
    /// not mix up their slots. The memory is used as long as this value, or a clone, and not passed
    /// on.
    ///
    /// # Panics
    /// If there is no such slot.
    pub(super) fn find(&self, number: usize, unit: usize) -> (Region, usize) {
        let room = self.room(unit).max(1);
        let (slot, first) = (number / room, number % room);
        assert!(slot < 2 * self.layout.processes, "there is no such slot");
        let start = Buffer::new(self.mapping.start.as_ptr().cast());
        let start = start.offset((self.layout.slots() + slot * self.layout.room) as isize);
        // SAFETY: as many bytes are mapped from there on, and provided: the slot is one of those of
        // the layout, which the mapping is as long as. The mapping lives as long as this value, and
        // who asks keeps a clone beside the region. Each slot is written by one process, and read
        // by others after the meeting that follows, until the next one: meetings are barriers whose
        // flags are written with release and read with acquire.
        let region = unsafe { Region::new(start, self.provided) };
        (region, first)
    }
}

/// Memory that the processes of a node share.
#[derive(Debug)]
pub struct SharedMemory {
    file: File,
    slots: Slots,
    /// Whether slots grow no more: a process could not provide its own.
    is_full: bool,
    /// Whether there are fewer processors than processes.
    is_crowded: bool,
    /// Meetings so far.
    meetings: u64,
    /// Steps so far, of all calls.
    steps: u64,
}

impl SharedMemory {
    /// Makes it, for the others to [join](Self::join).
    ///
    /// # Errors
    /// The system's.
    pub fn make(layout: Layout) -> io::Result<(SharedMemory, Ticket)> {
        // SAFETY: a string that ends in 0.
        let descriptor = unsafe { libc::memfd_create(c"circulant".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, and nobody else's.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        if layout.bytes() as u64 > longest_file() {
            // The system would send a signal.
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        file.set_len(layout.bytes() as u64)?;
        provide(&file, 0..layout.slots())?;
        let memory = SharedMemory::on(file, layout)?;
        let ticket = Ticket {
            process: std::process::id().into(),
            descriptor: descriptor as u64,
            token: RandomState::new().build_hasher().finish() | 1,
        };
        let token = memory.slots.mapping.token();
        token.store(ticket.token, Ordering::Release);
        memory.provide_own(0..memory.slots.provided)?;
        Ok((memory, ticket))
    }

    /// Joins what another process has made.
    ///
    /// # Errors
    /// The system's; or if it is not there, as where processes do not see each other.
    pub fn join(layout: Layout, ticket: Ticket) -> io::Result<SharedMemory> {
        let path = format!("/proc/{}/fd/{}", ticket.process, ticket.descriptor);
        // Where processes do not see each other, it may be anybody's file, of any kind.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.len() != layout.bytes() as u64 {
            return Err(io::ErrorKind::NotFound.into());
        }
        let memory = SharedMemory::on(file, layout)?;
        if memory.slots.mapping.token().load(Ordering::Acquire) != ticket.token {
            return Err(io::ErrorKind::NotFound.into());
        }
        memory.provide_own(0..memory.slots.provided)?;
        Ok(memory)
    }

    /// Provides these bytes of the own slots.
    fn provide_own(&self, bytes: Range<usize>) -> io::Result<()> {
        let mut own = self.slots.layout.own(bytes).into_iter();
        own.try_for_each(|own| provide(&self.file, own))
    }

    fn on(file: File, layout: Layout) -> io::Result<SharedMemory> {
        let provided = LEAST.min(layout.room);
        let mapping = Arc::new(Mapping::of(&file, layout.bytes())?);
        Ok(SharedMemory {
            file,
            slots: Slots {
                mapping,
                layout,
                provided,
            },
            is_full: false,
            // Simulated processes are threads of one: if one sleeps, all do.
            is_crowded: !cfg!(smpi) && processors() < layout.processes,
            meetings: 0,
            steps: 0,
        })
    }

    /// The slots, for the memory of a call.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Whether slots are to grow for a call that could use so many bytes of each: the same on all
    /// processes. (If they do not, it goes in more steps.)
    pub fn may_grow(&self, bytes: usize) -> bool {
        self.missing(bytes) > 0
    }

    /// By how many bytes slots are to grow for it.
    pub fn missing(&self, bytes: usize) -> usize {
        match self.is_full {
            true => 0,
            false => (bytes.min(self.slots.layout.room)).saturating_sub(self.slots.provided),
        }
    }

    /// Provides so many bytes of each of this process's slots, or a little more. Returns how many
    /// there are now.
    pub fn provide(&self, bytes: usize) -> usize {
        let Slots {
            layout, provided, ..
        } = &self.slots;
        let wanted = bytes.min(layout.room).next_power_of_two().min(layout.room);
        match self.provide_own(*provided..wanted) {
            Ok(()) => wanted,
            Err(_) => *provided,
        }
    }

    /// All processes have provided at least so many bytes, of as many as they wanted.
    pub fn grow(&mut self, least: usize) {
        self.is_full = least <= self.slots.provided;
        self.slots.provided = least.clamp(self.slots.provided, self.slots.layout.room);
    }

    /// The number of the next step.
    pub fn next_step(&self) -> u64 {
        self.steps + 1
    }

    /// All processes have met in the next step: it counts. (One in which they find that they
    /// disagree does not, since some may not have come so far.)
    pub fn count_step(&mut self) {
        self.steps += 1;
    }

    /// Waits until all processes have come, and lets MPI make progress on `communicator`
    /// meanwhile. Returns the least of each word of all.
    ///
    /// # Errors
    /// MPI's: the communicator is then of no use any more, nor is this memory.
    pub fn meet(
        &mut self,
        mut words: [u64; WORDS],
        communicator: Communicator,
    ) -> Result<[u64; WORDS], Error> {
        self.meetings += 1;
        let Layout {
            processes, place, ..
        } = self.slots.layout;
        for round in 0..self.slots.layout.rounds() {
            let own = self.flag(place, round);
            for (told, word) in own.words.iter().zip(words) {
                told.store(word, Ordering::Relaxed);
            }
            own.raise(self.meetings);
            let from = (place + processes - (1 << round)) % processes;
            let other = self.flag(from, round);
            self.await_flag(other, communicator)?;
            for (told, word) in other.words.iter().zip(&mut words) {
                *word = (*word).min(told.load(Ordering::Relaxed));
            }
        }
        Ok(words)
    }

    fn await_flag(&self, flag: &Flag, communicator: Communicator) -> Result<(), Error> {
        let (mut looks, mut since) = (0u32, None);
        while !flag.is_raised(self.meetings) {
            looks = looks.wrapping_add(1);
            if looks < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            if looks % LOOKS_APART == 0 {
                communicator.progress()?;
            }
            let since = *since.get_or_insert_with(Instant::now);
            if self.is_crowded && since.elapsed() > AWAKE {
                communicator.progress()?;
                flag.sleep(self.meetings);
            } else {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// The flag of a process for a round of this meeting.
    fn flag(&self, process: usize, round: usize) -> &Flag {
        let layout = &self.slots.layout;
        assert!(process < layout.processes && round < layout.rounds());
        let index = (process * layout.rounds() + round) * FLAGS + (self.meetings % 2) as usize;
        let offset = HEAD + index * size_of::<Flag>();
        // SAFETY: inside of the mapping, before the slots, aligned as the mapping and HEAD are.
        // Zeros at first, and never anything but flags, which are atomic.
        unsafe { self.slots.mapping.start.add(offset).cast().as_ref() }
    }
}

/// The processors of this machine.
fn processors() -> usize {
    // SAFETY: has no preconditions.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(online).unwrap_or(usize::MAX)
}

/// The longest file that this process may make.
fn longest_file() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes two numbers.
    match unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}

/// Has the system provide the pages of a part of a file.
fn provide(file: &File, range: Range<usize>) -> io::Result<()> {
    let (start, length) = (range.start as libc::off_t, range.len() as libc::off_t);
    loop {
        // SAFETY: an open file.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, start, length) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
