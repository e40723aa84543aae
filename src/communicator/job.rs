//! This process in its job: its settings, who it is, and where its report goes.

use once_cell::sync::OnceCell;

use crate::message::say;
use crate::mpi::{self, Communicator};
use crate::report::Destination;
use crate::select::Settings;

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
    /// Whether calls are timed, for a report or a trace.
    pub observes: bool,
}

static PROCESS: OnceCell<Process> = OnceCell::new();

/// The settings of rank 0 of MPI_COMM_WORLD, once a call there has made them known.
static JOB: OnceCell<Settings> = OnceCell::new();

/// This process. MPI must be active when it is first called.
pub fn process() -> &'static Process {
    PROCESS.get_or_init(|| {
        let (settings, complaints) = Settings::of_environment();
        let rank = Communicator::world().rank().unwrap_or(0);
        let size = Communicator::world().size().unwrap_or(1);
        if rank == 0 {
            let lines = complaints.iter().map(ToString::to_string);
            lines.for_each(|line| say(&line));
            if settings.verbose {
                introduce(&settings);
            }
        }
        let spawned = mpi::is_spawned().then(std::process::id);
        let report = settings.report.as_deref();
        let report = report.and_then(|setting| Destination::of_rank(setting, rank, spawned));
        Process {
            observes: report.is_some() || settings.trace,
            report,
            rank,
            size,
            settings,
        }
    })
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

/// Remembers the settings that were agreed on by all processes of the job.
pub(super) fn remember(agreed: &Settings) {
    JOB.get_or_init(|| agreed.clone());
}
