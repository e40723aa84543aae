//! A communicator: who is in it, and agreement between its processes.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::library::{UNSET, native};
use super::probe::{Probe, probe};
use super::sys::{MPI_Comm, MPI_Errhandler, MPI_Group};
use super::{Array, Error, check, ignored_status, int};

/// A communicator of the program, or a private one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Communicator(MPI_Comm);

/// A communicator whose errors are returned for a while.
struct Replaced {
    communicator: Communicator,
    /// What it had before.
    handler: ErrorHandler,
    /// How many calls have it so now, on several threads.
    times: usize,
}

// SAFETY: handles, which any thread may use.
unsafe impl Send for Replaced {}

/// All of them. The lock is held while handlers are set, which is local.
static REPLACED: Mutex<Vec<Replaced>> = Mutex::new(Vec::new());

// SAFETY: a handle, which any thread may use; what it leads to is MPI's to protect.
unsafe impl Send for Communicator {}
// SAFETY: as above.
unsafe impl Sync for Communicator {}

impl Communicator {
    /// # Safety
    /// `handle` may be passed to MPI as a communicator while this value, or a copy, is used for
    /// more than to compare it: the program passed it as one, or MPI gave it. (An MPI whose handles
    /// are pointers follows it.)
    pub unsafe fn new(handle: MPI_Comm) -> Communicator {
        Communicator(handle)
    }

    /// MPI_COMM_WORLD.
    pub fn world() -> Communicator {
        Communicator(native().constants.comm_world)
    }

    /// MPI_COMM_SELF.
    pub fn own() -> Communicator {
        Communicator(native().constants.comm_self)
    }

    /// MPI's handle.
    pub fn handle(self) -> MPI_Comm {
        self.0
    }

    /// Whether it is MPI_COMM_NULL, or a handle that was never set, which is none in any MPI.
    pub fn is_null(self) -> bool {
        [native().constants.comm_null, MPI_Comm(UNSET as _)].contains(&self.0)
    }

    /// Number of processes (of the local group, if it is an inter-communicator).
    pub fn size(self) -> Result<usize, Error> {
        let mut size: c_int = 0;
        // SAFETY: writes one integer.
        check(unsafe { (native().functions.PMPI_Comm_size)(self.0, &mut size) })?;
        Ok(usize::try_from(size).unwrap_or(0))
    }

    /// The processes that a collective call of it gathers from: of an inter-communicator, those of
    /// the other group.
    pub fn peers(self) -> Result<usize, Error> {
        if !self.is_inter()? {
            return self.size();
        }
        Ok(usize::try_from(Group::remote_of(self)?.size()?).unwrap_or(0))
    }

    /// This process' rank.
    pub fn rank(self) -> Result<usize, Error> {
        let mut rank: c_int = 0;
        // SAFETY: writes one integer.
        check(unsafe { (native().functions.PMPI_Comm_rank)(self.0, &mut rank) })?;
        Ok(usize::try_from(rank).unwrap_or(0))
    }

    /// Whether it is an inter-communicator.
    pub fn is_inter(self) -> Result<bool, Error> {
        let mut flag: c_int = 0;
        // SAFETY: writes one integer.
        check(unsafe { (native().functions.PMPI_Comm_test_inter)(self.0, &mut flag) })?;
        Ok(flag != 0)
    }

    /// The ranks in MPI_COMM_WORLD of its processes (of the local group, if it is an
    /// inter-communicator); none if some are not in it, but in that of another job. Local.
    pub fn world_ranks(self) -> Result<Option<Vec<usize>>, Error> {
        Group::of(self)?.world_ranks()
    }

    /// The same of an inter-communicator's remote group.
    pub fn remote_world_ranks(self) -> Result<Option<Vec<usize>>, Error> {
        Group::remote_of(self)?.world_ranks()
    }

    /// Everybody gets rank 0's words. Collective.
    pub fn share(self, words: &mut [u64]) -> Result<(), Error> {
        // SAFETY: a slice.
        unsafe { self.broadcast(words.as_mut_ptr().cast(), size_of_val(words), 0) }
    }

    /// As [`share`](Self::share), by an operation that programs seldom call: should a process be
    /// without circulant, it is the least likely to be mixed up with the program's own. Collective.
    pub fn deal(self, words: &mut [u64]) -> Result<(), Error> {
        let own = native().constants.in_place.0;
        let own = (self.rank()? == 0).then_some(std::ptr::without_provenance_mut(own));
        self.scatter(words, own, 0, self.size()?)
    }

    /// Everybody on an inter-communicator gets the words of rank 0 of one group: of this process'
    /// group, if that `leads`; as [`deal`](Self::deal). `peers` are the other group's processes.
    /// Collective.
    pub fn deal_across(self, words: &mut [u64], leads: bool, peers: usize) -> Result<(), Error> {
        let constants = &native().constants;
        let sender = if self.rank()? == 0 {
            constants.root.0
        } else {
            constants.proc_null.0
        };
        // There, and back to the other processes of the group that leads.
        self.scatter(words, None, if leads { sender } else { 0 }, peers)?;
        self.scatter(words, None, if leads { 0 } else { sender }, peers)
    }

    /// All of so many processes get the words of `root`, at `own` if that says so.
    fn scatter(
        self,
        words: &mut [u64],
        own: Option<*mut c_void>,
        root: c_int,
        peers: usize,
    ) -> Result<(), Error> {
        let byte = native().constants.byte;
        let length = int(size_of_val(words));
        let (counts, displacements) = (vec![length; peers], vec![0; peers]);
        let sent: *mut c_void = words.as_mut_ptr().cast();
        // SAFETY: `length` bytes at `words`, which the root only sends and the others only receive; an
        // entry of each array for every process that the root sends to.
        check(unsafe {
            (native().functions.PMPI_Scatterv)(
                sent,
                counts.as_ptr(),
                displacements.as_ptr(),
                byte,
                own.unwrap_or(sent),
                length,
                byte,
                root,
                self.0,
            )
        })
    }

    /// Everybody gets the bytes of `root`. Collective.
    pub fn share_bytes(self, bytes: &mut [u8], root: usize) -> Result<(), Error> {
        // SAFETY: a slice.
        unsafe { self.broadcast(bytes.as_mut_ptr(), bytes.len(), int(root)) }
    }

    /// # Safety
    /// `length` bytes at `start` may be read and written.
    unsafe fn broadcast(self, start: *mut u8, length: usize, root: c_int) -> Result<(), Error> {
        let (bcast, byte) = (native().functions.PMPI_Bcast, native().constants.byte);
        // SAFETY: by this function's contract.
        check(unsafe { bcast(start.cast(), int(length), byte, root, self.0) })
    }

    /// Everybody gets the elements of `root`. Collective.
    pub fn share_elements(self, elements: &Array, root: usize) -> Result<(), Error> {
        let (first, count, datatype) = elements.typed();
        // SAFETY: `count` elements are there.
        check(unsafe {
            (native().functions.PMPI_Bcast)(first.as_ptr(), count, datatype, int(root), self.0)
        })
    }

    /// Sends bytes to one process, and receives as many from another.
    ///
    /// # Errors
    /// MPI's.
    pub fn exchange(
        self,
        sent: &[u8],
        to: usize,
        received: &mut [u8],
        from: usize,
    ) -> Result<(), Error> {
        let byte = native().constants.byte;
        // SAFETY: two slices.
        check(unsafe {
            (native().functions.PMPI_Sendrecv)(
                sent.as_ptr().cast(),
                int(sent.len()),
                byte,
                int(to),
                super::TAG,
                received.as_mut_ptr().cast(),
                int(received.len()),
                byte,
                int(from),
                super::TAG,
                self.0,
                ignored_status(),
            )
        })
    }

    /// Everybody's word, by rank. Collective.
    pub fn gather_all(self, word: u64) -> Result<Vec<u64>, Error> {
        let words = self.gather_words([word])?;
        Ok(words.into_iter().flatten().collect())
    }

    /// Everybody's words, by rank. Collective.
    pub fn gather_words<const N: usize>(self, own: [u64; N]) -> Result<Vec<[u64; N]>, Error> {
        let mut words = vec![[0; N]; self.peers()?];
        let (byte, bytes) = (native().constants.byte, size_of::<[u64; N]>() as c_int);
        // SAFETY: the own words are read, and as many of each peer are written to `words`, which
        // has room for those of all.
        check(unsafe {
            (native().functions.PMPI_Allgather)(
                (&raw const own).cast(),
                bytes,
                byte,
                words.as_mut_ptr().cast(),
                bytes,
                byte,
                self.0,
            )
        })?;
        Ok(words)
    }

    /// Everybody's elements, `counts` of each process, one after the other by rank, in `to`; the
    /// own ones are `from`. Collective.
    ///
    /// # Errors
    /// MPI's; or if there is not a count for each process, there is no room at `to` for all
    /// elements, or they are of another datatype than `from`.
    pub fn gather_elements(self, from: &Array, to: &Array, counts: &[usize]) -> Result<(), Error> {
        let all = counts.iter().copied().fold(0, usize::saturating_add);
        let fit = counts.len() == self.peers()? && all <= to.count();
        if !fit || from.datatype() != to.datatype() {
            return Err(Error(native().constants.err_arg.0));
        }
        let lengths: Vec<c_int> = counts.iter().map(|&count| int(count)).collect();
        let mut next = 0;
        let starts = counts.iter().map(|&count| {
            next += count;
            int(next - count)
        });
        let starts: Vec<c_int> = starts.collect();
        let ((from, own, datatype), (to, ..)) = (from.typed(), to.typed());
        // SAFETY: `own` elements are at `from`. There is a length and a start for each process, and
        // room at `to`, for elements of this datatype, from each start on for as many as its
        // length.
        check(unsafe {
            (native().functions.PMPI_Allgatherv)(
                from.as_ptr(),
                own,
                datatype,
                to.as_ptr(),
                lengths.as_ptr(),
                starts.as_ptr(),
                datatype,
                self.0,
            )
        })
    }

    /// Whether all processes of both groups of an inter-communicator say yes. Collective.
    pub(super) fn all_agree_across(self, yes: bool) -> Result<bool, Error> {
        // Each group learns what the other says; then the other, that it was told.
        let theirs = self.all_agree(yes)?;
        self.all_agree(yes && theirs)
    }

    /// Whether all processes say yes; of an inter-communicator, those of the other group.
    /// Collective.
    pub fn all_agree(self, yes: bool) -> Result<bool, Error> {
        let (own, mut all) = (u8::from(yes), 0u8);
        let constants = &native().constants;
        // MPI_BAND is defined on MPI_BYTE, the one datatype handle that is needed everywhere else.
        // SAFETY: one byte is read and one written.
        check(unsafe {
            (native().functions.PMPI_Allreduce)(
                (&raw const own).cast(),
                (&raw mut all).cast(),
                1,
                constants.byte,
                constants.band,
                self.0,
            )
        })?;
        Ok(all != 0)
    }

    /// Everybody gets the sums of everybody's numbers. Collective.
    pub fn sum_all(self, numbers: &mut [f64]) -> Result<(), Error> {
        /// At once, well inside an `int`.
        const MOST: usize = 1 << 27;
        let constants = &native().constants;
        let in_place = std::ptr::without_provenance(constants.in_place.0);
        for some in numbers.chunks_mut(MOST) {
            // SAFETY: a slice.
            check(unsafe {
                (native().functions.PMPI_Allreduce)(
                    in_place,
                    some.as_mut_ptr().cast(),
                    int(some.len()),
                    constants.double,
                    constants.sum,
                    self.0,
                )
            })?;
        }
        Ok(())
    }

    /// Raises `error` on this communicator, as MPI would: returns the code if the program's error
    /// handler does.
    pub fn raise(self, error: Error) -> c_int {
        // SAFETY: a valid communicator and an error code that MPI gave.
        unsafe { (native().functions.PMPI_Comm_call_errhandler)(self.0, error.0) };
        error.0
    }

    /// Its error handler.
    fn error_handler(self) -> Result<ErrorHandler, Error> {
        let mut handler: MPI_Errhandler = native().constants.errors_return;
        // SAFETY: reads the handler, a reference to which is freed where it is dropped.
        check(unsafe { (native().functions.PMPI_Comm_get_errhandler)(self.0, &mut handler) })?;
        Ok(ErrorHandler(handler))
    }

    /// Whether the program has errors on it returned, and nothing else done.
    pub fn returns_errors(self) -> bool {
        let errors_return = native().constants.errors_return;
        self.error_handler()
            .is_ok_and(|handler| handler.0 == errors_return)
    }

    /// Ends the job.
    pub fn abort(self) {
        // SAFETY: may be called at any time between MPI_Init and MPI_Finalize.
        unsafe { (native().functions.PMPI_Abort)(self.0, 1) };
    }

    /// Its error handler, if it may be another for a while. In MPICH communicators have none before
    /// the program sets one there, or where they came from; their errors then go to
    /// MPI_COMM_WORLD's. MPI says that it is MPI_ERRORS_ARE_FATAL, and once that was set, so it is.
    fn replaceable_handler(self, probe: Option<&Probe>) -> Option<ErrorHandler> {
        let handler = self.error_handler().ok()?;
        let may_be_none = handler.0 == native().constants.errors_are_fatal;
        (!may_be_none || probe.is_some_and(Probe::is_always_handled)).then_some(handler)
    }

    /// Runs `action` while errors on this communicator are returned instead of raised, if its
    /// handler is [replaceable](Communicator::replaceable_handler).
    pub(super) fn with_errors_returned<R>(self, action: impl FnOnce() -> R) -> R {
        let is_replaced = self.replace_handler();
        let result = action();
        if is_replaced {
            self.restore_handler();
        }
        result
    }

    /// Has errors returned, until as many calls of `restore_handler`; false where that may not be.
    fn replace_handler(self) -> bool {
        // Making the probe replaces a handler, too.
        let probe = probe();
        let mut replaced = REPLACED.lock();
        if let Some(known) = replaced.iter_mut().find(|known| known.communicator == self) {
            known.times += 1;
            return true;
        }
        let Some(handler) = self.replaceable_handler(probe) else {
            return false;
        };
        let set = native().functions.PMPI_Comm_set_errhandler;
        // SAFETY: MPI_ERRORS_RETURN is a valid handler for any communicator.
        unsafe { set(self.0, native().constants.errors_return) };
        replaced.push(Replaced {
            communicator: self,
            handler,
            times: 1,
        });
        true
    }

    fn restore_handler(self) {
        let mut replaced = REPLACED.lock();
        let known = replaced.iter().position(|known| known.communicator == self);
        let Some(index) = known else { return };
        replaced[index].times -= 1;
        if replaced[index].times == 0 {
            let known = replaced.swap_remove(index);
            let set = native().functions.PMPI_Comm_set_errhandler;
            // SAFETY: what this communicator had; MPI keeps its own reference.
            unsafe { set(self.0, known.handler.0) };
        }
    }

    /// Whether another communicator can be made from it without harm: an error would be returned,
    /// or none is to be expected, since a context id is free. Local.
    pub(super) fn can_be_tried(self) -> bool {
        let probe = probe();
        self.replaceable_handler(probe).is_some() || probe.is_none_or(Probe::has_room)
    }

    /// A communicator of this process alone. Local.
    pub(super) fn create_alone(self) -> Result<Communicator, Error> {
        let functions = &native().functions;
        let rank = c_int::try_from(self.rank()?).unwrap_or(0);
        let group = Group::of(self)?.only(rank)?;
        let mut alone = native().constants.comm_null;
        // SAFETY: the group is this process, which is in the communicator.
        check(unsafe {
            (functions.PMPI_Comm_create_group)(self.0, group.0, super::TAG, &mut alone)
        })?;
        Ok(Communicator(alone))
    }

    /// Frees it: one that was made for us, and is not used any more.
    pub(super) fn free(mut self) {
        // SAFETY: a handle that MPI gave for us to free.
        unsafe { (native().functions.PMPI_Comm_free)(&mut self.0) };
    }
}

/// A group, freed when dropped.
struct Group(MPI_Group);

impl Group {
    /// The group that `make` writes; returns MPI's error code.
    fn made(make: impl FnOnce(*mut MPI_Group) -> c_int) -> Result<Group, Error> {
        let mut group = std::mem::MaybeUninit::<MPI_Group>::uninit();
        check(make(group.as_mut_ptr()))?;
        // SAFETY: written by the successful call above.
        Ok(Group(unsafe { group.assume_init() }))
    }

    fn of(communicator: Communicator) -> Result<Group, Error> {
        // SAFETY: writes the group.
        Group::made(|group| unsafe { (native().functions.PMPI_Comm_group)(communicator.0, group) })
    }

    fn remote_of(communicator: Communicator) -> Result<Group, Error> {
        let remote_group = native().functions.PMPI_Comm_remote_group;
        // SAFETY: writes the group.
        Group::made(|group| unsafe { remote_group(communicator.0, group) })
    }

    fn size(&self) -> Result<c_int, Error> {
        let mut size: c_int = 0;
        // SAFETY: writes one integer.
        check(unsafe { (native().functions.PMPI_Group_size)(self.0, &mut size) })?;
        Ok(size)
    }

    /// The group of one process of this group.
    fn only(&self, rank: c_int) -> Result<Group, Error> {
        // SAFETY: reads one rank, writes the group.
        Group::made(|group| unsafe {
            (native().functions.PMPI_Group_incl)(self.0, 1, &rank, group)
        })
    }

    fn world_ranks(&self) -> Result<Option<Vec<usize>>, Error> {
        let functions = &native().functions;
        let size = self.size()?;
        let ranks: Vec<c_int> = (0..size).collect();
        let mut translated = ranks.clone();
        let world = Group::of(Communicator::world())?;
        // SAFETY: reads and writes as many ranks as each array has.
        check(unsafe {
            (functions.PMPI_Group_translate_ranks)(
                self.0,
                size,
                ranks.as_ptr(),
                world.0,
                translated.as_mut_ptr(),
            )
        })?;
        // MPI_UNDEFINED is no rank.
        let rank = |&rank: &c_int| usize::try_from(rank).ok();
        Ok(translated.iter().map(rank).collect())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: made by MPI for us, and not used any more.
        unsafe { (native().functions.PMPI_Group_free)(&mut self.0) };
    }
}

/// A reference to an error handler of a communicator.
struct ErrorHandler(MPI_Errhandler);

impl Drop for ErrorHandler {
    fn drop(&mut self) {
        // SAFETY: a reference that MPI gave, freed once.
        unsafe { (native().functions.PMPI_Errhandler_free)(&mut self.0) };
    }
}

/// A private communicator: of the same processes as one of the program's, for circulant's messages.
/// Freed when dropped.
#[derive(Debug)]
pub struct Private(Communicator);

/// How many private communicators this process has.
static LIVE: AtomicUsize = AtomicUsize::new(0);

impl Private {
    /// Of the same processes as `communicator`, with errors returned. None if any process has
    /// `most` of them already, or could not make it. Collective.
    ///
    /// Made by MPI_Comm_create, not MPI_Comm_dup, which would call the program's attribute
    /// callbacks.
    pub fn twin(communicator: Communicator, most: usize) -> Result<Option<Private>, Error> {
        Private::make(communicator, most, Communicator::all_agree, || {
            let group = Group::of(communicator)?;
            let mut twin = native().constants.comm_null;
            let create = native().functions.PMPI_Comm_create;
            // SAFETY: the group is this communicator's own.
            check(unsafe { create(communicator.handle(), group.0, &mut twin) })?;
            Private::new(Communicator(twin))
        })
    }

    /// The same of both groups of an inter-communicator together, as one: first the processes of
    /// this process's group, if that `leads`. Collective.
    pub fn union(inter: Communicator, leads: bool, most: usize) -> Result<Option<Private>, Error> {
        Private::make(inter, most, Communicator::all_agree_across, || {
            let mut union = native().constants.comm_null;
            let high = c_int::from(!leads);
            let merge = native().functions.PMPI_Intercomm_merge;
            // SAFETY: an inter-communicator, of which each group says the same and not what the
            // other says.
            check(unsafe { merge(inter.handle(), high, &mut union) })?;
            Private::new(Communicator(union))
        })
    }

    fn make(
        communicator: Communicator,
        most: usize,
        all_agree: fn(Communicator, bool) -> Result<bool, Error>,
        make: impl FnOnce() -> Result<Private, Error>,
    ) -> Result<Option<Private>, Error> {
        let may = LIVE.load(Ordering::Relaxed) < most && communicator.can_be_tried();
        if !all_agree(communicator, may)? {
            return Ok(None);
        }
        let made = communicator.with_errors_returned(make);
        Ok(if all_agree(communicator, made.is_ok())? {
            made.ok()
        } else {
            None
        })
    }

    /// Takes over a communicator that was just made.
    fn new(made: Communicator) -> Result<Private, Error> {
        LIVE.fetch_add(1, Ordering::Relaxed);
        let (private, handle) = (Private(made), made.0);
        let errors_return = native().constants.errors_return;
        // SAFETY: a valid communicator and a predefined handler.
        check(unsafe { (native().functions.PMPI_Comm_set_errhandler)(handle, errors_return) })?;
        Ok(private)
    }

    /// A communicator of this process alone. Local.
    pub(super) fn alone(&self) -> Result<Private, Error> {
        Private::new(self.0.create_alone()?)
    }

    /// The communicator.
    pub fn communicator(&self) -> Communicator {
        self.0
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        // Without pending transfers, unless an error left some, which MPI then completes or drops
        // by itself.
        self.0.free();
    }
}
