//! The roll of the job: whether each of its processes has this circulant, and rank 0's settings.
//!
//! Messages alone could not find that out: a process without circulant may make calls of its own
//! that match them, and go wrong silently. So each process makes an entry in the launcher's store
//! before MPI_Init's barrier. After it, and before MPI_Init returns, those that see each other's
//! entries exchange messages (`select/roll.rs`). Where there is no store, nothing is known of the
//! others.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::sync::OnceCell;

use super::job;
use crate::launcher::REFUSED;
use crate::message::{say, say_at_end};
use crate::mpi::{self, Communicator, SUCCESS};
use crate::select::{Peers, Roll, call_roll, entry};
use crate::store::{Library, Pmi, Pmix};

/// While this process is in MPI_Init.
static STARTING: AtomicBool = AtomicBool::new(false);

/// Set when PMIx's store was closed without an entry of this process: by a session of MPI, or by an
/// MPI_Init that another tool has called past circulant.
static PASSED_BY: AtomicBool = AtomicBool::new(false);

/// Set when this process has said why the roll is not complete.
static HAS_SPOKEN: AtomicBool = AtomicBool::new(false);

/// The stores in which this process has made its entry.
static PMI: OnceCell<Pmi> = OnceCell::new();
static PMIX: OnceCell<Pmix> = OnceCell::new();

/// The roll; none where nothing is known.
static ROLL: OnceCell<Option<Roll>> = OnceCell::new();

/// Runs MPI_Init, has the entry of this process made in it, and then calls the roll. Where `init`
/// is another tool's MPI_Init, this may run in it once more: the inner one calls the roll, before
/// the tool makes calls of its own. Collective over the processes that have this circulant.
pub fn while_starting(init: impl FnOnce() -> c_int) -> c_int {
    let is_outermost = !STARTING.swap(true, Ordering::AcqRel);
    if is_outermost && mpi::speaks_pmi() {
        put_by_pmi();
    }
    let code = init();
    if is_outermost {
        STARTING.store(false, Ordering::Release);
    }
    if code == SUCCESS {
        roll();
    }
    code
}

/// Before MPI_Session_init: has the entry of this process made in PMI's store, should MPI_Init
/// follow. Once a session has made a communicator, MPI_Init has no barrier in MPICH 5, and others
/// might look for the entry before it is there. (With PMIx such a process has none.)
///
/// Not where MPI_Init has been called past circulant, or MPI has ended: then nothing may be put,
/// and the connection may be another.
pub fn before_session() {
    if mpi::speaks_pmi() && !mpi::was_started() {
        put_by_pmi();
    }
}

fn put_by_pmi() {
    PMI.get_or_try_init(|| {
        let pmi = Pmi::of_process().ok_or(())?;
        pmi.put(&entry(job::own_settings()));
        Ok::<_, ()>(pmi)
    })
    .ok();
}

/// PMIx_Commit of a library, by which MPI_Init makes known what was put into the store: makes the
/// entry of this process before.
pub fn commit(library: &'static Library) -> c_int {
    if STARTING.load(Ordering::Acquire) {
        PMIX.get_or_try_init(|| {
            let pmix = Pmix::of_process(library).ok_or(())?;
            pmix.put(&entry(job::own_settings()));
            Ok::<_, ()>(pmix)
        })
        .ok();
    } else {
        PASSED_BY.store(true, Ordering::Release);
    }
    library.commit()
}

/// The roll, if anything is known. Local, but for the first time in MPI_Init.
pub(super) fn roll() -> Option<&'static Roll> {
    let find = || {
        let roll = match (PMI.get(), PMIX.get()) {
            (Some(pmi), _) => call(|rank| pmi.entry(rank)),
            (None, Some(pmix)) => call(|rank| pmix.entry(rank)),
            (None, None) => uncalled(),
        };
        enforce(roll.as_ref());
        roll
    };
    ROLL.get_or_init(find).as_ref()
}

/// What this process concludes if it did not take part in the roll: others that did have not found
/// an entry of it. None, if there is no store, or circulant was loaded after MPI_Init, as it then
/// was everywhere.
fn uncalled() -> Option<Roll> {
    let process = job::process();
    let pmi = mpi::speaks_pmi().then(Pmi::of_started_process).flatten();
    if let Some(pmi) = pmi {
        return call(|rank| pmi.entry(rank));
    }
    if process.size == 1 || !PASSED_BY.load(Ordering::Acquire) {
        return None;
    }
    if process.rank == 0 {
        say(
            "circulant: rank 0 began with a session of MPI, or its MPI_Init did not come to \
             circulant, so all calls of the job go to the MPI library",
        );
    }
    Some(Roll::Absent(process.rank))
}

fn call(entry: impl Fn(usize) -> Option<String>) -> Option<Roll> {
    let process = job::process();
    if process.size == 1 {
        return None;
    }
    let peers = Job { entry };
    let settings = &process.settings;
    let roll = call_roll(process.rank, process.size, settings, &peers, |line| {
        say(line);
        HAS_SPOKEN.store(true, Ordering::Release);
    });
    if let Some(Roll::Complete(settings)) = &roll {
        job::settle(settings);
    }
    roll
}

/// Ends the job, if this process requires that all have circulant, and they have not, or that is
/// not known.
fn enforce(roll: Option<&Roll>) {
    let process = job::process();
    let line = match roll {
        _ if !process.settings.require || process.size == 1 => return,
        Some(Roll::Complete(_)) => return,
        Some(_) => "CIRCULANT_REQUIRE=1, so the job ends",
        None => "CIRCULANT_REQUIRE=1, but this launcher does not tell which ranks have circulant",
    };
    // Who has said what is wrong has said that, too.
    if !HAS_SPOKEN.load(Ordering::Acquire) {
        say_at_end(line);
    }
    Communicator::world().abort(c_int::from(REFUSED));
}

/// The processes of the job: their entries, and messages on MPI_COMM_WORLD. The program has sent
/// none there yet to a process that is in MPI_Init, so these match each other.
struct Job<F> {
    entry: F,
}

impl<F: Fn(usize) -> Option<String>> Peers for Job<F> {
    fn entry(&self, rank: usize) -> Option<String> {
        (self.entry)(rank)
    }

    fn send(&self, words: &[u64], to: usize) -> bool {
        Communicator::world().send_words(words, to).is_ok()
    }

    fn receive(&self, words: &mut [u64], from: usize) -> bool {
        Communicator::world().receive_words(words, from).is_ok()
    }
}
