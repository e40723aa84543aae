//! A communicator: who is in it, and who hears of its errors.

use std::ffi::c_int;
use std::thread::sleep;
use std::time::Duration;

use super::library::{UNSET, native, speaks_pmi};
use super::sys::{MPI_Comm, MPI_Errhandler, MPI_Group};
use super::{Error, check};
use crate::message::say;

/// A communicator of the program, or a private one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Communicator(MPI_Comm);

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

    /// This process's rank.
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

    /// Raises `error` on this communicator, as MPI would: returns the code if the program's error
    /// handler does.
    ///
    /// Where errors are fatal, MPICH's function for that ends only this process, and on several
    /// hosts its launcher lets the others wait for ever. Errors in MPICH's own calls end the job. A
    /// communicator may have no error handler in MPICH, which looks the same as that errors are
    /// fatal: then MPI_COMM_WORLD's is asked, and this says so only where that is fatal, too.
    pub fn raise(self, error: Error) -> c_int {
        if speaks_pmi() && self.has_fatal_errors() && Communicator::world().has_fatal_errors() {
            say(&format!(
                "circulant: an error ends the job: {}",
                error.text()
            ));
            self.abort(error.0);
        }
        // SAFETY: a valid communicator; a code is only a number to MPI.
        unsafe { (native().functions.PMPI_Comm_call_errhandler)(self.0, error.0) };
        error.0
    }

    /// Its error handler.
    pub(super) fn error_handler(self) -> Result<ErrorHandler, Error> {
        let mut handler: MPI_Errhandler = native().constants.errors_return;
        // SAFETY: reads the handler, a reference to which is freed where it is dropped.
        check(unsafe { (native().functions.PMPI_Comm_get_errhandler)(self.0, &mut handler) })?;
        Ok(ErrorHandler(handler))
    }

    /// Sets it.
    pub(super) fn set_error_handler(self, handler: MPI_Errhandler) -> Result<(), Error> {
        // SAFETY: a valid communicator, and a handler that MPI gave or has predefined.
        check(unsafe { (native().functions.PMPI_Comm_set_errhandler)(self.0, handler) })
    }

    /// Whether the program has errors on it returned, and nothing else done.
    pub fn returns_errors(self) -> bool {
        self.has_handler(native().constants.errors_return)
    }

    /// Whether an error on it ends the job, as far as MPI tells: see [`raise`](Self::raise).
    pub fn has_fatal_errors(self) -> bool {
        self.has_handler(native().constants.errors_are_fatal)
    }

    fn has_handler(self, predefined: MPI_Errhandler) -> bool {
        self.error_handler()
            .is_ok_and(|handler| handler.0 == predefined)
    }

    /// Ends the job with a status. What was said before gets the time to reach the launcher, which
    /// may drop at the end what it has not passed on. MPICH 5's MPI_Abort returns: then this
    /// process waits to be ended, or ends itself, so that it does nothing more in the job.
    pub fn abort(self, status: c_int) -> ! {
        sleep(Duration::from_millis(200));
        // SAFETY: may be called at any time between MPI_Init and MPI_Finalize.
        unsafe { (native().functions.PMPI_Abort)(self.0, status) };
        sleep(Duration::from_secs(5));
        // SAFETY: ends the process without what it would do at its end, which is MPI's, too.
        unsafe { libc::_exit(status) }
    }

    /// A communicator of this process alone. Local.
    pub(super) fn create_alone(self) -> Result<Communicator, Error> {
        let functions = &native().functions;
        let rank = c_int::try_from(self.rank()?).unwrap_or(0);
        let group = Group::of(self)?.only(rank)?;
        let mut alone = native().constants.comm_null;
        // SAFETY: the group is this process, which is in the communicator.
        check(unsafe {
            (functions.PMPI_Comm_create_group)(self.0, group.0, super::SETUP_TAG, &mut alone)
        })?;
        Ok(Communicator(alone))
    }

    /// Lets MPI make progress, on a communicator of circulant's or MPI_COMM_SELF. Local.
    ///
    /// # Errors
    /// MPI's, such as that it was revoked, or that a process of it has failed.
    pub fn progress(self) -> Result<(), Error> {
        self.has_message_with(super::NO_TAG).map(|_| ())
    }

    /// Whether a message has arrived that nobody receives. Local.
    pub(super) fn has_message(self) -> bool {
        let tag = native().constants.any_tag.0;
        self.has_message_with(tag).unwrap_or(false)
    }

    fn has_message_with(self, tag: c_int) -> Result<bool, Error> {
        let (any, mut flag) = (native().constants.any_source.0, 0);
        // SAFETY: a communicator that is in use; writes an integer. No message is received.
        check(unsafe {
            (native().functions.PMPI_Iprobe)(any, tag, self.0, &mut flag, super::ignored_status())
        })?;
        Ok(flag != 0)
    }

    /// Frees it: one that was made for us, and is not used any more.
    pub(super) fn free(mut self) {
        // SAFETY: a handle that MPI gave for us to free.
        unsafe { (native().functions.PMPI_Comm_free)(&mut self.0) };
    }
}

/// A group, freed when dropped.
pub(super) struct Group(MPI_Group);

impl Group {
    /// The group that `make` writes; returns MPI's error code.
    pub(super) fn made(make: impl FnOnce(*mut MPI_Group) -> c_int) -> Result<Group, Error> {
        let mut group = std::mem::MaybeUninit::<MPI_Group>::uninit();
        check(make(group.as_mut_ptr()))?;
        // SAFETY: written by the successful call above.
        Ok(Group(unsafe { group.assume_init() }))
    }

    /// Of a communicator; the local one of an inter-communicator.
    pub fn of(communicator: Communicator) -> Result<Group, Error> {
        // SAFETY: writes the group.
        Group::made(|group| unsafe { (native().functions.PMPI_Comm_group)(communicator.0, group) })
    }

    pub(super) fn remote_of(communicator: Communicator) -> Result<Group, Error> {
        let remote_group = native().functions.PMPI_Comm_remote_group;
        // SAFETY: writes the group.
        Group::made(|group| unsafe { remote_group(communicator.0, group) })
    }

    /// MPI's handle.
    pub fn handle(&self) -> MPI_Group {
        self.0
    }

    pub(super) fn size(&self) -> Result<c_int, Error> {
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
        let world = Group::of(Communicator::world())?;
        if self.is_same_as(&world)? {
            return Ok(Some((0..self.size()? as usize).collect()));
        }
        let ranks = self.ranks_in(&world)?;
        Ok(ranks.into_iter().collect())
    }

    /// Whether both have the same processes in the same order. Open MPI tells at once of the group
    /// of a duplicate, where to translate p ranks takes it p^2 steps.
    fn is_same_as(&self, other: &Group) -> Result<bool, Error> {
        let is_as_large = self.size()? == other.size()?;
        // MPI_IDENT is not the same number in all MPIs.
        Ok(is_as_large && self.compare(other)? == other.compare(other)?)
    }

    fn compare(&self, other: &Group) -> Result<c_int, Error> {
        let compare = native().functions.PMPI_Group_compare;
        let mut result: c_int = 0;
        // SAFETY: two groups; writes one integer.
        check(unsafe { compare(self.0, other.0, &mut result) })?;
        Ok(result)
    }

    /// The ranks of its processes in another group, of those that are there.
    pub(super) fn ranks_in(&self, other: &Group) -> Result<Vec<Option<usize>>, Error> {
        let functions = &native().functions;
        let size = self.size()?;
        let ranks: Vec<c_int> = (0..size).collect();
        let mut translated = ranks.clone();
        // SAFETY: reads and writes as many ranks as each array has.
        check(unsafe {
            (functions.PMPI_Group_translate_ranks)(
                self.0,
                size,
                ranks.as_ptr(),
                other.0,
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
pub(super) struct ErrorHandler(MPI_Errhandler);

impl ErrorHandler {
    /// MPI's handle.
    pub fn handle(&self) -> MPI_Errhandler {
        self.0
    }
}

impl Drop for ErrorHandler {
    fn drop(&mut self) {
        // SAFETY: a reference that MPI gave, freed once.
        unsafe { (native().functions.PMPI_Errhandler_free)(&mut self.0) };
    }
}
