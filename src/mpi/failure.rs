//! Processes that have failed, where the MPI library can go on without them (ULFM): what it knows
//! of them, and what the others are told.
//!
//! A collective call on a communicator with such a process ends on every process, natively: none
//! waits for one that lives and has left the call with an error. circulant's messages are no
//! collective call to the MPI library. So who leaves one of circulant's calls with an error revokes
//! the private communicator. That wakes the others. Nobody has revoked the program's communicator,
//! though, so what they raise there is that a process has failed.

use std::ffi::c_int;
use std::ptr;
use std::thread::sleep;
use std::time::Duration;

use once_cell::sync::OnceCell;

use super::communicator::Group;
use super::library::{ABI, native};
use super::sys::MPI_Group;
use super::{Communicator, Error, SETUP_TAG, check, ignored_status, int};
use crate::abi::Abi;

/// How long a process that another one has told of a failure waits to hear of it from the MPI
/// library: so many milliseconds at most.
const PATIENCE: u32 = 10_000;

/// Open MPI's MPI_FT, an attribute that says whether it survives failures. Headers before Open MPI
/// 5 lack it.
const SURVIVES: c_int = 12;

/// Whether the MPI library goes on after a failure of a process, as Open MPI 5 does where its
/// launcher was asked to. (Of other MPIs it is not known.)
pub fn survives() -> bool {
    static SURVIVED: OnceCell<bool> = OnceCell::new();
    let is_older = || native().version.starts_with("Open MPI v4");
    let may = ABI == Abi::OpenMpi && native().functions.PMPIX_Comm_revoke.is_some() && !is_older();
    let world = Communicator::world();
    may && *SURVIVED.get_or_init(|| world.with_errors_returned(|| world.has(SURVIVES)) == Ok(true))
}

impl Communicator {
    /// Revokes it, where the MPI library can: whatever waits on it ends with an error. Local.
    pub fn revoke(self) {
        if let Some(revoke) = native().functions.PMPIX_Comm_revoke {
            // SAFETY: a communicator that is in use.
            unsafe { revoke(self.handle()) };
        }
    }

    /// Whether it is known to be revoked. Local.
    pub fn is_revoked(self) -> bool {
        let mut flag: c_int = 0;
        if let Some(is_revoked) = native().functions.PMPIX_Comm_is_revoked {
            // SAFETY: a communicator that is in use; writes an integer.
            unsafe { is_revoked(self.handle(), &mut flag) };
        }
        flag != 0
    }

    /// Revokes it if a process of it is known to have failed. Whether it is revoked now. Local.
    pub fn revoke_if_lost(self) -> bool {
        if !self.is_revoked() && self.failed().is_some() {
            self.revoke();
        }
        self.is_revoked()
    }

    /// What the program hears of a failure of which this process was told by a revocation of
    /// `private`, circulant's own communicator of the same processes: the MPI library's error for
    /// the process that failed, once it is known here; or `told`, if this one is revoked, too.
    /// Local.
    pub fn error_of_failure(self, private: Communicator, told: Error) -> Error {
        for _ in 0..PATIENCE {
            if self.is_revoked() {
                return told;
            }
            // An inter-communicator knows only of failures in its own group.
            if let Some(failed) = private.failed() {
                let error = self.error_of(&failed);
                return error
                    .or(Communicator::world().error_of(&failed))
                    .unwrap_or(told);
            }
            // Not on `private`, where MPI makes no progress once it is revoked; nor on this one,
            // where MPI makes none if it finds a message of the program's.
            let _ = Communicator::own().progress();
            sleep(Duration::from_millis(1));
        }
        told
    }

    /// The processes of it that are known to have failed, if there are some.
    fn failed(self) -> Option<Group> {
        let get_failed = native().functions.PMPIX_Comm_get_failed?;
        // SAFETY: a communicator that is in use; writes the group.
        let made = |group: *mut MPI_Group| unsafe { get_failed(self.handle(), group) };
        let failed = Group::made(made).ok()?;
        failed.size().is_ok_and(|size| size > 0).then_some(failed)
    }

    /// Whether an attribute of the MPI library's, an integer, is not zero. Local.
    fn has(self, keyval: c_int) -> Result<bool, Error> {
        let (mut value, mut found) = (ptr::null::<c_int>(), 0);
        let get_attr = native().functions.PMPI_Comm_get_attr;
        // SAFETY: a communicator that is in use; writes an address and an integer.
        check(unsafe { get_attr(self.handle(), keyval, (&raw mut value).cast(), &mut found) })?;
        // SAFETY: where it is found, it is the address of an integer of the MPI library's.
        Ok(found != 0 && unsafe { value.as_ref() }.is_some_and(|&value| value != 0))
    }

    /// The error that this communicator has for processes that have failed, if it sends messages
    /// to one of them.
    fn error_of(self, failed: &Group) -> Option<Error> {
        self.with_errors_returned(|| self.look_for_message_of(failed))
            .err()
    }

    /// Looks for a message of the first process of a group that is in this communicator.
    fn look_for_message_of(self, group: &Group) -> Result<(), Error> {
        let senders = match self.is_inter()? {
            true => Group::remote_of(self)?,
            false => Group::of(self)?,
        };
        let Some(rank) = group.ranks_in(&senders)?.into_iter().flatten().next() else {
            return Ok(());
        };
        let mut flag: c_int = 0;
        // SAFETY: a communicator that is in use; writes an integer. No message is received.
        check(unsafe {
            (native().functions.PMPI_Iprobe)(
                int(rank),
                SETUP_TAG,
                self.handle(),
                &mut flag,
                ignored_status(),
            )
        })
    }
}
