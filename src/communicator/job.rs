//! This process in its job: its settings, who it is, and where its report goes.

use once_cell::sync::OnceCell;
use strum::VariantArray;

use crate::launcher;
use crate::linker;
use crate::message::say;
use crate::mpi::{self, Communicator};
use crate::report::Destination;
use crate::select::{self, Complaint, Operation, Settings};

/// This process.
pub struct Process {
    /// From its own environment; rank 0's are the job's.
    pub settings: Settings,
    /// Rank in MPI_COMM_WORLD.
    pub rank: usize,
    /// Size of MPI_COMM_WORLD.
    pub size: usize,
    /// Where its report goes, if it writes one.
    pub report: Option<Destination>,
}

static PROCESS: OnceCell<Process> = OnceCell::new();

/// What the environment says, and what is wrong with it; read once.
static ENVIRONMENT: OnceCell<(Settings, Vec<Complaint>)> = OnceCell::new();

/// The settings of rank 0 of MPI_COMM_WORLD, once a call there has made them known.
static JOB: OnceCell<Settings> = OnceCell::new();

/// See [`native_below`].
static NATIVE_BELOW: OnceCell<[u64; Operation::OF_MPI]> = OnceCell::new();

/// This process. MPI must be active when it is first called.
pub fn process() -> &'static Process {
    PROCESS.get_or_init(|| {
        let (settings, complaints) = environment();
        let rank = Communicator::world().rank().unwrap_or(0);
        let world = Communicator::world().size();
        let here = launcher::processes_here(mpi::speaks_pmi()).filter(|_| !linker::is_secure());
        let is_on_one_node = here.is_some_and(|here| world == Ok(here));
        let size = world.unwrap_or(1);
        if rank == 0 {
            let lines = complaints.iter().map(ToString::to_string);
            lines.for_each(|line| say(&line));
            if settings.verbose {
                introduce(settings);
            }
        }
        let spawned = mpi::is_spawned().then(std::process::id);
        let report = settings.report.as_deref();
        let report = report.and_then(|setting| Destination::of_rank(setting, rank, spawned));
        Process {
            report,
            rank,
            size,
            settings: Settings {
                is_on_one_node,
                ..settings.clone()
            },
        }
    })
}

fn environment() -> &'static (Settings, Vec<Complaint>) {
    ENVIRONMENT.get_or_init(|| {
        if linker::is_secure() {
            Settings::of_distrusted_environment()
        } else {
            Settings::of_environment()
        }
    })
}

/// What this process's environment says. MPI need not be active.
pub fn own_settings() -> &'static Settings {
    &environment().0
}

fn introduce(settings: &Settings) {
    let (version, mpi) = (env!("CARGO_PKG_VERSION"), &mpi::native().version);
    say(&format!("circulant: version {version}, over {mpi}"));
    for setting in settings.in_force() {
        let (name, value, origin) = (setting.name, setting.value, setting.origin);
        say(&format!("circulant: {name}={value} ({origin:?})"));
    }
}

/// The settings of the job, as far as this process knows them.
pub(super) fn settings() -> &'static Settings {
    JOB.get().unwrap_or(&process().settings)
}

/// Whether calls are timed where these settings were agreed on: for the report over all ranks, for
/// which rank 0 asks, for a report of this process's own, or for a trace.
pub(super) fn observes(agreed: &Settings) -> bool {
    let process = process();
    agreed.has_report() || process.report.is_some() || process.settings.trace
}

/// The settings that all processes of the job have agreed on, if they have.
pub(super) fn agreed() -> Option<&'static Settings> {
    JOB.get()
}

/// Calls of `operation` with fewer bytes go to the MPI library on every communicator. 0, as long as
/// not all processes know the settings of the job. Also 0, if calls are timed, since small ones are
/// then counted like others; and for operations that MPI does not have.
pub(super) fn native_below(operation: Operation) -> u64 {
    let limits = NATIVE_BELOW.get();
    let limit = limits.and_then(|limits| limits.get(operation as usize));
    limit.copied().unwrap_or(0)
}

/// Remembers that all processes of the job have these settings.
pub(super) fn settle(agreed: &Settings) {
    remember(agreed);
    if !observes(agreed) {
        let limit = |index| select::native_below(Operation::VARIANTS[index], agreed);
        NATIVE_BELOW.get_or_init(|| std::array::from_fn(limit));
    }
}

/// Remembers the settings that were agreed on by all processes of the job.
pub(super) fn remember(agreed: &Settings) {
    JOB.get_or_init(|| agreed.clone());
}
