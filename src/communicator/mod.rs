//! Per-communicator state, kept behind a keyval attribute and freed with the communicator.
//!
//! Two parts, made when they are first needed. [`State`] comes with the first intercepted call: who
//! is there, and the settings on which all processes agree (rank 0's). [`Service`] comes with the
//! first call that is worth it, or between groups, where not all know what a call is worth, that may be:
//! the private communicator, schedules, scratch.
//!
//! All decisions here are collective: they depend on agreed values only, or are agreed.

#![forbid(unsafe_code)]

mod pool;
mod service;

pub use pool::{Need, Unit};
pub use service::{Lists, Run, Service};

use std::sync::atomic::{AtomicUsize, Ordering};

use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use crate::mpi::{self, Buffer, Communicator, Datatype, Error, Mismatch, Peers, Private};
use crate::plan::Order;
use crate::report::{self, Destination, Header};
use crate::schedule::Rule;
use crate::select::{
    self, Call, Choice, MESSAGE_MAX, Merging, Operation, Reason, Settings, Succession,
};

/// Why a call is not (or no longer) ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It goes to the MPI library, on all processes, with nothing touched yet.
    Native(Reason),
    /// MPI failed in the middle of it.
    Failed(Error),
    /// A plan of it was run to its end, but processes disagree on the size of the data.
    Mismatched(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

impl From<Mismatch> for Stop {
    fn from(Mismatch(error): Mismatch) -> Stop {
        Stop::Mismatched(error)
    }
}

/// This process: its own settings, and who it is.
pub struct Process {
    /// From its own environment; rank 0's are the job's.
    pub settings: Settings,
    /// Rank in MPI_COMM_WORLD.
    pub rank: usize,
    /// Size of MPI_COMM_WORLD.
    pub size: usize,
    /// Where its report goes, if it writes one.
    report: Option<Destination>,
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
            complaints
                .iter()
                .for_each(|complaint| report::say(&complaint.to_string()));
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
    report::say(&format!("circulant: version {version}, over {mpi}"));
    for setting in settings.in_force() {
        let (name, value, origin) = (setting.name, setting.value, setting.origin);
        report::say(&format!("circulant: {name}={value} ({origin:?})"));
    }
}

/// What happens when MPI is about to end: the report.
pub fn end() {
    let process = process();
    let Some(destination) = &process.report else {
        return;
    };
    let header = Header {
        mpi: &mpi::native().version,
        processes: process.size,
        rank: process.rank,
        settings: JOB.get().unwrap_or(&process.settings),
    };
    if let Err(error) = report::write(destination, &header) {
        let setting = process.settings.report.as_deref().unwrap_or_default();
        report::say(&format!(
            "circulant: CIRCULANT_REPORT={setting} cannot be written: {error}; no report"
        ));
    }
}

/// What is kept for a communicator of the program.
pub struct State {
    communicator: Communicator,
    rank: usize,
    size: usize,
    /// Of an inter-communicator.
    remote: Option<Remote>,
    /// Whether some of its processes are not of this MPI_COMM_WORLD.
    is_foreign: bool,
    /// Agreed: rank 0's.
    settings: Settings,
    /// How many nodes the processes are on, once it was asked for.
    nodes: OnceCell<usize>,
    /// Taken out during a call, so that no lock is held while MPI runs.
    service: Mutex<Slot>,
    /// The root of the latest broadcast, or what no root is.
    latest_root: AtomicUsize,
}

/// The other group of an inter-communicator, all of whose processes are in this MPI_COMM_WORLD.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// Its processes.
    pub size: usize,
    /// Whether this process' group comes first where both are numbered through.
    pub leads: bool,
}

impl Remote {
    /// The first process, numbered through, of this process' group of `size` and of the other.
    fn firsts(self, size: usize) -> (usize, usize) {
        if self.leads {
            (0, size)
        } else {
            (self.size, 0)
        }
    }

    /// Process `rank` of this process' group, which has `size`, and those of the other group.
    pub fn peers(self, rank: usize, size: usize) -> Peers {
        let (own, other) = self.firsts(size);
        Peers::Root {
            root: own + rank,
            first: other,
        }
    }

    /// Process `root` of the other group, and those of this process' group, which has `size`.
    pub fn peers_of_root(self, root: usize, size: usize) -> Peers {
        let (own, other) = self.firsts(size);
        Peers::Root {
            root: other + root,
            first: own,
        }
    }
}

enum Slot {
    Untried,
    Refused(Reason),
    Ready(Box<Service>),
}

/// The state of `communicator`; none where MPI is not there to use. Collective at the first call.
pub fn state<'call>(communicator: Communicator) -> Option<&'call State> {
    if communicator.is_null() {
        return None;
    }
    mpi::state(communicator, || State::new(communicator))
}

impl State {
    fn new(communicator: Communicator) -> Option<State> {
        let (rank, size) = (communicator.rank().ok()?, communicator.size().ok()?);
        let (remote, is_foreign) = if communicator == Communicator::world() {
            (None, false)
        } else {
            surroundings(communicator).ok()?
        };
        let known = JOB.get().unwrap_or(&process().settings);
        let settings = if is_foreign || size == 1 && remote.is_none() {
            known.clone()
        } else {
            agree(communicator, remote, known)?
        };
        if communicator == Communicator::world() {
            JOB.get_or_init(|| settings.clone());
        }
        Some(State {
            communicator,
            rank,
            size,
            remote,
            is_foreign,
            settings,
            nodes: OnceCell::new(),
            service: Mutex::new(Slot::Untried),
            latest_root: AtomicUsize::new(usize::MAX),
        })
    }

    /// This process' rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// p.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The largest MPI_Allreduce in q rounds of the whole operand, in bytes.
    pub fn census_max(&self) -> usize {
        usize::try_from(self.settings.census_max).unwrap_or(usize::MAX)
    }

    /// The largest message of the algorithms with one block, in bytes.
    pub fn segment(&self) -> usize {
        usize::try_from(self.settings.segment).unwrap_or(usize::MAX)
    }

    /// The skips of the algorithms with one block.
    pub fn skips(&self) -> Rule {
        self.settings.skips
    }

    /// How operands that grow are exchanged.
    pub fn merging(&self) -> Merging {
        select::merging(&self.settings)
    }

    /// How the values of `steps` successive broadcasts go that take up `bytes` bytes each.
    pub fn succession(&self, steps: usize, bytes: usize) -> Succession {
        select::succession(&self.settings, (self.size, steps), bytes)
    }

    /// The largest message of operands that grow, in bytes: between nodes that of the algorithms with one
    /// block, which keeps neighbours in step; on one node, where messages cost more than that gains, as
    /// long as MPI counts. Collective at the first call.
    pub fn step(&self) -> Result<usize, Stop> {
        if self.settings.force || self.nodes()? > 1 {
            Ok(self.segment())
        } else {
            Ok(usize::try_from(MESSAGE_MAX).unwrap_or(usize::MAX))
        }
    }

    /// The most scratch that is kept, in bytes.
    pub fn scratch_max(&self) -> usize {
        usize::try_from(self.settings.scratch_max).unwrap_or(usize::MAX)
    }

    /// Whether the algorithms with one block can keep the order of ranks.
    pub fn keeps_order(&self) -> bool {
        self.settings.skips == Rule::Linear
    }

    /// An intra-communicator's root argument, if it is one.
    pub fn root(&self, root: std::ffi::c_int) -> Result<usize, Stop> {
        let root = usize::try_from(root).ok().filter(|&root| root < self.size);
        root.ok_or(Stop::Native(Reason::Arguments))
    }

    /// Inter-communicators are left to MPI before any argument is looked at: they mean other
    /// things there. So are communicators with processes of other jobs.
    pub fn intra(&self) -> Result<(), Stop> {
        match self.remote()? {
            Some(_) => Err(Stop::Native(Reason::InterCommunicator)),
            None => Ok(()),
        }
    }

    /// The other group of an inter-communicator, for the operations that are ours there.
    pub fn remote(&self) -> Result<Option<Remote>, Stop> {
        if self.is_foreign {
            Err(Stop::Native(Reason::OtherJob))
        } else if self.remote.is_some() && !self.settings.inter {
            Err(Stop::Native(Reason::InterCommunicator))
        } else {
            Ok(self.remote)
        }
    }

    /// The number of blocks for a call of `bytes` bytes, of which `largest` are the largest part, that
    /// is to be ours. May be collective.
    pub fn blocks(
        &self,
        operation: Operation,
        bytes: usize,
        largest: usize,
    ) -> Result<usize, Stop> {
        let choose = |nodes| {
            self.choose(&Call {
                operation,
                bytes: bytes as u64,
                largest: largest as u64,
                processes: self.size,
                smaller_group: 0,
                nodes,
            })
        };
        // The nodes are counted only where they can matter: not for what is native on any number
        // of nodes, nor for what is ours on one.
        choose(self.size)?;
        choose(1).or_else(|_| choose(self.nodes()?))
    }

    /// The number of blocks for a call that is to be ours.
    pub fn choose(&self, call: &Call) -> Result<usize, Stop> {
        match select::choose(call, &self.settings) {
            Choice::Native(reason) => Err(Stop::Native(reason)),
            Choice::Circulant { blocks } => Ok(blocks),
        }
    }

    /// Who owns which step of successive broadcasts.
    pub fn order(&self) -> Order {
        Order::new(self.size)
    }

    /// Whether a broadcast of `bytes` bytes from `root`, which is remembered as the latest, goes along the tree
    /// of successive broadcasts. The same on all processes: all see the same roots in the same order.
    pub fn follows(&self, root: usize, bytes: usize) -> bool {
        let latest = self.latest_root.swap(root, Ordering::Relaxed);
        let call = Call {
            operation: Operation::Bcast,
            bytes: bytes as u64,
            largest: bytes as u64,
            processes: self.size,
            smaller_group: 0,
            nodes: self.size,
        };
        select::follows(&call, &self.settings)
            && latest < self.size
            && self.order().next(latest) == root
    }

    /// On how many nodes the processes are. Collective at the first call.
    fn nodes(&self) -> Result<usize, Stop> {
        if let Some(&nodes) = self.nodes.get() {
            return Ok(nodes);
        }
        let nodes = count_nodes(self.communicator)?;
        Ok(*self.nodes.get_or_init(|| nodes))
    }

    /// Runs `call` on `data`, the elements of this process, with this communicator's service, which is
    /// made if need be (collective).
    pub fn serve<R>(
        &self,
        data: &[(Buffer, Datatype)],
        call: impl FnOnce(&mut Service) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        // A call from a callback of this one finds nothing, on all processes, and is native.
        let nothing = Slot::Refused(Reason::NoCommunicator);
        let slot = std::mem::replace(&mut *self.service.lock(), nothing);
        let mut service = match slot {
            Slot::Ready(service) => service,
            // Open MPI 4.1 mixes up making a communicator and a duplication that is under way.
            Slot::Untried if mpi::is_being_duplicated(self.communicator) => {
                return Err(self.refuse(Reason::NoCommunicator));
            }
            Slot::Untried => match self.make_private()? {
                Some(private) => {
                    let group = (self.rank, self.size);
                    let between_groups = self.remote.is_some();
                    Box::new(Service::new(
                        group,
                        between_groups,
                        &self.settings,
                        private,
                    )?)
                }
                None => return Err(self.refuse(Reason::NoCommunicator)),
            },
            Slot::Refused(reason) => return Err(self.refuse(reason)),
        };
        let result = service.check(data).and_then(|()| call(&mut service));
        if let Err(Stop::Failed(_)) = result {
            // Sends may be under way from its memory, so it is neither used again nor freed.
            std::mem::forget(service);
            self.refuse(Reason::NoCommunicator);
        } else {
            *self.service.lock() = Slot::Ready(service);
        }
        result
    }

    /// The private communicator: of the same processes, or of those of both groups.
    fn make_private(&self) -> Result<Option<Private>, Error> {
        let most = self.settings.communicators;
        match self.remote {
            None => self.communicator.private_twin(most),
            Some(remote) => self.communicator.private_union(remote.leads, most),
        }
    }

    fn refuse(&self, reason: Reason) -> Stop {
        *self.service.lock() = Slot::Refused(reason);
        Stop::Native(reason)
    }
}

/// The other group of an inter-communicator, and whether some of the processes of a communicator are not
/// of this MPI_COMM_WORLD. Those of a job that this one started or is connected to may be without
/// circulant, and would not take part in what is agreed on. Either all processes of a communicator find
/// so or none: they are of one MPI_COMM_WORLD or they are not. Local.
fn surroundings(communicator: Communicator) -> Result<(Option<Remote>, bool), Error> {
    let local = communicator.world_ranks()?;
    if !communicator.is_inter()? {
        return Ok((None, local.is_none()));
    }
    let (Some(local), Some(remote)) = (local, communicator.remote_world_ranks()?) else {
        return Ok((None, true));
    };
    let leads = local.first() < remote.first();
    let size = remote.len();
    Ok((Some(Remote { size, leads }), false))
}

/// On how many nodes the processes are. Collective.
fn count_nodes(communicator: Communicator) -> Result<usize, Error> {
    let mut hashes = communicator.gather_all(mpi::node_hash())?;
    hashes.sort_unstable();
    hashes.dedup();
    Ok(hashes.len())
}

/// The settings of rank 0, or of rank 0 of one group, on all processes. Collective.
fn agree(communicator: Communicator, remote: Option<Remote>, known: &Settings) -> Option<Settings> {
    let mut words = known.encode();
    match remote {
        None => communicator.share(&mut words).ok()?,
        Some(remote) => communicator.share_across(&mut words, remote.leads).ok()?,
    }
    let agreed = Settings::decode(&words);
    if agreed.is_none() {
        // Native here would be a deadlock: the others do not know of it.
        let rank = process().rank;
        report::say(&format!(
            "circulant: rank {rank} has another version of circulant than rank 0 of a communicator; \
             install one version on all nodes"
        ));
        communicator.abort();
    }
    agreed
}
