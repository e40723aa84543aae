//! The roll of the job: whether each of its processes has this circulant, and rank 0's settings.
//!
//! Messages could not find that out: a process without circulant may make calls of its own that
//! match them, and go wrong silently. So each process makes an entry in the launcher's store before
//! MPI_Init's barrier, and reads those of all others afterwards. All read the same, and come to the
//! same conclusion (`select/roll.rs`). Where there is no store, nothing is known of the others.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::sync::OnceCell;

use super::job;
use crate::message::say;
use crate::mpi::{self, SUCCESS};
use crate::select::{Roll, entry};
use crate::store::{self, Pmi, Pmix};

/// While this process is in MPI_Init.
static STARTING: AtomicBool = AtomicBool::new(false);

/// The store in which this process has made its entry, if it can be read at any time.
static PMIX: OnceCell<Pmix> = OnceCell::new();

/// The roll; none where nothing is known.
static ROLL: OnceCell<Option<Roll>> = OnceCell::new();

/// Runs MPI_Init, and has the entry of this process made in it. Local.
pub fn while_starting(init: impl FnOnce() -> c_int) -> c_int {
    let own = |rank| entry(job::own_settings(), rank);
    let pmi = mpi::speaks_pmi().then(Pmi::of_process).flatten();
    if let Some(pmi) = &pmi {
        pmi.put(&own(pmi.rank()));
    }
    STARTING.store(true, Ordering::Release);
    let code = init();
    STARTING.store(false, Ordering::Release);
    if let Some(pmi) = pmi.filter(|_| code == SUCCESS) {
        let entries = |size| (0..size).map(|rank| pmi.entry(rank)).collect();
        ROLL.get_or_init(|| call(entries));
    }
    code
}

/// PMIx_Commit, by which MPI_Init makes known what was put into the store: makes the entry of this
/// process before.
pub fn commit() -> c_int {
    if STARTING.load(Ordering::Acquire) {
        PMIX.get_or_try_init(|| {
            let pmix = Pmix::of_process().ok_or(())?;
            pmix.put(&entry(job::own_settings(), pmix.rank()));
            Ok::<_, ()>(pmix)
        })
        .ok();
    }
    store::commit()
}

/// The roll, if anything is known. Local.
pub(super) fn roll() -> Option<&'static Roll> {
    let read = || call(|size| PMIX.get().map_or(Vec::new(), |pmix| pmix.entries(size)));
    ROLL.get_or_init(read).as_ref()
}

/// Whether rank 0 may ask for a report. The roll is not called for that alone: a process that has
/// made no calls for which it was needed looks at rank 0's entry. Local.
pub(super) fn may_have_report() -> bool {
    match PMIX.get().filter(|_| ROLL.get().is_none()) {
        Some(pmix) => match Roll::of(&pmix.entries(1)) {
            Roll::Complete(settings) => settings.has_report(),
            _ => false,
        },
        None => true,
    }
}

/// Calls the roll, by the entries of so many processes; none, if there is no store.
fn call(entries: impl FnOnce(usize) -> Vec<Option<String>>) -> Option<Roll> {
    let process = job::process();
    if process.size == 1 {
        return None;
    }
    let entries = entries(process.size);
    // Without any, also its own, the store is not what it is taken for. But a process whose entry
    // alone is not there must come to the conclusion that the others come to.
    entries.iter().flatten().next()?;
    let roll = Roll::of(&entries);
    if let Roll::Complete(settings) = &roll {
        job::settle(settings);
    }
    if let Some((speaker, line)) = roll.complaint() {
        if speaker == process.rank {
            say(&line);
        }
    }
    Some(roll)
}
