//! Private communicators, for circulant's messages.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::communicator::Group;
use super::duplication::{is_duplicating, may_be_started};
use super::library::{native, speaks_pmi};
use super::{Communicator, Error, check};

/// What came of making a private communicator, the same on all processes.
pub enum Making {
    /// It is there; and whether no process uses the memory of a device.
    Made(Private, bool),
    /// A process has as many as it may have, or could not make it.
    Refused,
    /// A process has a duplication under way. It may be tried again.
    Delayed,
}

/// A private communicator: of the same processes as one of the program's, for circulant's messages.
/// Freed when dropped, unless others may wait on it.
#[derive(Debug)]
pub struct Private {
    communicator: Communicator,
    /// Whether it is in use.
    is_live: bool,
}

/// How many private communicators this process has in use.
static LIVE: AtomicUsize = AtomicUsize::new(0);

impl Private {
    /// Of the same processes as `communicator`, with errors returned, unless any process has `most`
    /// of them already. With it comes whether all processes are `on_host`, which costs no agreement
    /// of its own. An error in making it is not raised. Collective.
    ///
    /// Made by MPI_Comm_create, not MPI_Comm_dup, which would call the program's attribute
    /// callbacks.
    pub fn twin(communicator: Communicator, most: usize, on_host: bool) -> Result<Making, Error> {
        Private::make(
            (communicator, most, on_host),
            Communicator::common_bits,
            || {
                let group = Group::of(communicator)?;
                let mut twin = native().constants.comm_null;
                let create = native().functions.PMPI_Comm_create;
                // SAFETY: the group is this communicator's own.
                check(unsafe { create(communicator.handle(), group.handle(), &mut twin) })?;
                // SAFETY: MPI gave it.
                Private::new(unsafe { Communicator::new(twin) })
            },
        )
    }

    /// The same of both groups of an inter-communicator together, as one: first the processes of
    /// this process's group, if that `leads`. Collective.
    pub fn union(
        inter: Communicator,
        leads: bool,
        most: usize,
        on_host: bool,
    ) -> Result<Making, Error> {
        Private::make(
            (inter, most, on_host),
            Communicator::common_bits_across,
            || {
                let mut union = native().constants.comm_null;
                let high = c_int::from(!leads);
                let merge = native().functions.PMPI_Intercomm_merge;
                // SAFETY: an inter-communicator, of which each group says the same and not what the
                // other says.
                check(unsafe { merge(inter.handle(), high, &mut union) })?;
                // SAFETY: MPI gave it.
                Private::new(unsafe { Communicator::new(union) })
            },
        )
    }

    fn make(
        (communicator, most, on_host): (Communicator, usize, bool),
        common_bits: fn(Communicator, u8) -> Result<u8, Error>,
        make: impl FnOnce() -> Result<Private, Error>,
    ) -> Result<Making, Error> {
        const MAY: u8 = 1;
        const ON_HOST: u8 = 2;
        const MAY_NOW: u8 = 4;
        const STAYS_SO: u8 = 8;
        communicator.waiting_with_errors_returned(|| {
            let may_now = !is_duplicating();
            let has_room = LIVE.load(Ordering::Relaxed) < most;
            let may = has_room && (!may_now || communicator.can_be_tried());
            let stays_so = !may_be_started();
            let own = [
                (MAY, may),
                (ON_HOST, on_host),
                (MAY_NOW, may_now),
                (STAYS_SO, stays_so),
            ];
            let own = own.map(|(bit, is_set)| bit * u8::from(is_set));
            let common = common_bits(communicator, own.iter().sum())?;
            if common & MAY == 0 {
                return Ok(Making::Refused);
            }
            if common & MAY_NOW == 0 {
                return Ok(Making::Delayed);
            }
            // While one process has waited for the others, another thread may have started one.
            let may_still = common & STAYS_SO != 0
                || common_bits(communicator, u8::from(!is_duplicating()))? != 0;
            if !may_still {
                return Ok(Making::Delayed);
            }
            // All have come, so this does not take long: errors are returned on any thread.
            let made = communicator.with_errors_returned(make);
            match common_bits(communicator, u8::from(made.is_ok())) {
                Ok(0) => Ok(Making::Refused),
                Ok(_) => Ok(made.map_or(Making::Refused, |made| {
                    Making::Made(made, common & ON_HOST != 0)
                })),
                Err(error) => {
                    made.map(Private::abandon).ok();
                    Err(error)
                }
            }
        })
    }

    /// Takes over a communicator that was just made.
    fn new(made: Communicator) -> Result<Private, Error> {
        LIVE.fetch_add(1, Ordering::Relaxed);
        let private = Private {
            communicator: made,
            is_live: true,
        };
        made.set_error_handler(native().constants.errors_return)?;
        Ok(private)
    }

    /// Leaves it because of an error that others may not have had. They may wait on it already, so
    /// it is revoked, where the MPI library can, and not freed.
    fn abandon(mut self) {
        self.communicator.revoke();
        self.give_up();
        std::mem::forget(self);
    }

    /// MPI has failed in a call on it, so it is not used any more.
    pub fn give_up(&mut self) {
        if std::mem::take(&mut self.is_live) {
            LIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The communicator.
    pub fn communicator(&self) -> Communicator {
        self.communicator
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // Freeing it is collective, and others may still wait in the call in which MPI has failed.
        // Who waits on a revoked communicator is woken.
        let may_be_awaited = !self.is_live && !self.communicator.is_revoked();
        self.give_up();
        // MPICH 5 ends the job over a message that was not received, as where processes have
        // disagreed on a size.
        if may_be_awaited || speaks_pmi() && self.communicator.has_message() {
            return;
        }
        self.communicator.free();
    }
}
