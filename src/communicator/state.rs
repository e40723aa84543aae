//! What is known of a communicator: who is in it, the agreed settings, the nodes.

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use strum::VariantArray;

use super::learning::{Equipment, Learning};
use super::members::Members;
use super::roll::roll;
use super::service::Service;
use super::{Stop, job};
use crate::message::say;
use crate::mpi::{self, Array, Communicator, Error, Making, Moment, Private, Root, device};
use crate::nodes::Nodes;
use crate::plan::Succession;
use crate::report::Origin;
use crate::select::{
    self, BcastOrder, Checks, Facts, Latest, Library, Operation, Reason, Roll, Settings,
};
use crate::stage::Groups;
use crate::team::{Graph, Ranks, Team};

/// What is kept for a communicator of the program.
pub struct State {
    communicator: Communicator,
    rank: usize,
    size: usize,
    /// Of an inter-communicator.
    remote: Option<Remote>,
    /// Why all its calls are left to the MPI library, if they are.
    not_ours: Option<Reason>,
    /// Whether calls are timed, for a report or a trace.
    observes: bool,
    /// Agreed: rank 0's.
    settings: Settings,
    /// Whose collectives the native ones are. The same on all ranks: no job has an MPI library of
    /// two versions.
    pub(super) library: Library,
    /// By operation: smaller problems are native, whatever else is known of them.
    native_below: [u64; Operation::OF_MPI],
    /// Which rank is on which node, once it was asked for.
    nodes: OnceCell<Arc<Nodes>>,
    /// The private communicator, once there is one. It lives as long as this.
    private: OnceCell<Communicator>,
    /// Taken out during a call, so that no lock is held while MPI runs.
    service: Mutex<ServiceState>,
    /// The root of the latest broadcast, or a number that is no rank.
    latest_root: AtomicUsize,
    /// What is settled for calls like the latest.
    pub(super) latest: Latest,
    /// What was measured, if calls may be tried, or a profile may say who runs them.
    pub(super) learning: Option<Learning>,
    /// What checks have found, where settings ask for them.
    checks: Option<Mutex<Checks>>,
}

/// The other group of an inter-communicator, all of whose processes are in this MPI_COMM_WORLD.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// Its processes.
    pub size: usize,
    /// Whether this process's group comes first when the processes of both are numbered.
    pub leads: bool,
}

enum ServiceState {
    Untried,
    Refused(Reason),
    Ready(Box<Service>),
    /// MPI has failed in one of its calls. It is not used again. Others may still send on its
    /// private communicator, so it is kept as long as the program keeps its own.
    Failed(Box<Service>),
}

impl State {
    /// None if the processes cannot agree on its settings.
    ///
    /// # Errors
    /// MPI's, if there is no such communicator.
    pub(super) fn new(communicator: Communicator) -> Result<Option<State>, Error> {
        let (rank, size) = (communicator.rank()?, communicator.size()?);
        let is_world = communicator == Communicator::world();
        let surroundings = match is_world {
            true => Ok((None, false)),
            false => surroundings(communicator),
        };
        let Ok((remote, is_foreign)) = surroundings else {
            return Ok(None);
        };
        let not_ours = match roll() {
            _ if is_foreign => Some(Reason::OtherJob),
            None | Some(Roll::Complete(_)) => None,
            Some(_) => Some(Reason::NotEverywhere),
        };
        let settings = match roll() {
            Some(Roll::Complete(settings)) => Some(Settings::clone(settings)),
            None if !is_foreign && (size > 1 || remote.is_some()) => {
                communicator.waiting_with_errors_returned(|| agree(communicator, remote))
            }
            _ => Some(job::settings().clone()),
        };
        let Some(settings) = settings else {
            return Ok(None);
        };
        if is_world {
            job::remember(&settings);
        }
        let native_below = std::array::from_fn(|index| {
            // What is left to MPI for another reason is not called small.
            let is_plain = size > 1 && remote.is_none() && not_ours.is_none();
            let limit = select::native_below(Operation::VARIANTS[index], &settings);
            if is_plain { limit } else { 0 }
        });
        let is_ours = remote.is_none() && not_ours.is_none();
        let learning = is_ours.then(|| Learning::new(&settings)).flatten();
        let checks = Checks::new(&settings).filter(|_| remote.is_none());
        let checks = checks.map(Mutex::new);
        Ok(Some(State {
            learning,
            checks,
            communicator,
            rank,
            size,
            remote,
            not_ours,
            observes: job::observes(&settings),
            settings,
            library: Library::of_version(&mpi::native().version),
            native_below,
            nodes: OnceCell::new(),
            private: OnceCell::new(),
            service: Mutex::new(ServiceState::Untried),
            latest: Latest::default(),
            latest_root: AtomicUsize::new(usize::MAX),
        }))
    }

    /// The program's communicator.
    pub fn communicator(&self) -> Communicator {
        self.communicator
    }

    /// Whether it is an inter-communicator.
    pub fn is_inter(&self) -> bool {
        self.remote.is_some()
    }

    /// This process's rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Whether calls are timed, for a report or a trace.
    pub fn observes(&self) -> bool {
        self.observes
    }

    /// What a report counts of a call with this root argument besides its work. The call is counted
    /// on one process: rank 0, or between groups the root, since others do not know the size.
    pub fn origin(&self, root: Option<c_int>) -> Origin {
        let is_first = match (self.remote, root) {
            (None, _) => self.rank == 0,
            (Some(_), Some(root)) => Root::new(root) == Root::Here,
            (Some(remote), None) => self.rank == 0 && remote.leads,
        };
        Origin {
            processes: self.size + self.remote.map_or(0, |remote| remote.size),
            nodes: self.known_nodes(),
            is_first,
        }
    }

    /// p.
    pub fn size(&self) -> usize {
        self.size
    }

    /// For how many ranks an array argument has entries: those of the other group, if there is one.
    pub fn peers(&self) -> usize {
        self.remote.map_or(self.size, |remote| remote.size)
    }

    /// The agreed settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What checks have found of its calls, if there are checks.
    #[inline]
    pub fn checks(&self) -> Option<&Mutex<Checks>> {
        self.checks.as_ref()
    }

    /// The most scratch that is kept, in bytes.
    pub fn scratch_max(&self) -> usize {
        usize::try_from(self.settings.scratch_max).unwrap_or(usize::MAX)
    }

    /// Leaves a call to MPI that is too small for anything else to matter.
    ///
    /// # Errors
    /// That.
    pub fn pass_small(&self, operation: Operation, bytes: usize) -> Result<(), Stop> {
        let limit = self.native_below.get(operation as usize);
        let limit = limit.copied().unwrap_or(0);
        if bytes > 0 && (bytes as u64) < limit {
            return Err(Stop::Native(Reason::Small));
        }
        Ok(())
    }

    /// An intra-communicator's root argument, if it is one.
    ///
    /// # Errors
    /// Native, if it is not.
    pub fn root(&self, root: c_int) -> Result<usize, Stop> {
        let root = usize::try_from(root).ok().filter(|&root| root < self.size);
        root.ok_or(Stop::Native(Reason::Arguments))
    }

    /// Leaves inter-communicators to MPI before any argument is looked at: they mean other things
    /// there. So are communicators with processes of other jobs.
    ///
    /// # Errors
    /// That.
    pub fn intra(&self) -> Result<(), Stop> {
        match self.groups()? {
            Some(_) => Err(Stop::Native(Reason::InterCommunicator)),
            None => Ok(()),
        }
    }

    /// The groups of an inter-communicator, for the operations that circulant has there.
    ///
    /// # Errors
    /// Native, where all calls are.
    pub fn groups(&self) -> Result<Option<Groups>, Stop> {
        if let Some(reason) = self.not_ours {
            return Err(Stop::Native(reason));
        }
        Ok(self
            .remote
            .map(|remote| remote.groups(self.rank, self.size)))
    }

    /// Whether `root` is the next owner of successive broadcasts after the root of the broadcast
    /// before, where that matters (`CIRCULANT_BCAST_ORDER`). The same on all processes: all see the
    /// same roots in the same order.
    pub fn follows(&self, root: usize) -> bool {
        if self.settings.bcast_order != BcastOrder::Gray {
            return false;
        }
        let latest = self.latest_root.load(Ordering::Relaxed);
        latest < self.size && Succession::new(self.size).next(latest) == root
    }

    /// A call with a root was made.
    pub fn made_from(&self, operation: Operation, root: c_int) {
        if operation == Operation::Bcast && self.settings.bcast_order == BcastOrder::Gray {
            // No rank of a communicator is that of no root.
            let root = usize::try_from(root).unwrap_or(usize::MAX);
            self.latest_root.store(root, Ordering::Relaxed);
        }
    }

    /// Which rank is on which node. Collective at the first call.
    ///
    /// # Errors
    /// MPI's.
    pub fn nodes(&self) -> Result<&Arc<Nodes>, Error> {
        // No lock is held while MPI runs: two threads may find them at once, and find the same.
        if let Some(nodes) = self.nodes.get() {
            return Ok(nodes);
        }
        let found = self.find_nodes(self.communicator, self.size)?;
        Ok(self.nodes.get_or_init(|| Arc::new(found)))
    }

    /// How many nodes there are, if all have told each other by now.
    pub(super) fn found_nodes(&self) -> Option<usize> {
        self.nodes.get().map(|nodes| nodes.count())
    }

    /// The same, or what the launcher has told rank 0: it may be wrong, as where a process has
    /// another launcher's variables, so it only says what to expect.
    pub(super) fn known_nodes(&self) -> Option<usize> {
        let is_told = self.settings.is_on_one_node && self.settings.node_size.is_none();
        let is_one = is_told && !self.is_inter() && self.not_ours.is_none();
        self.found_nodes().or(is_one.then_some(1))
    }

    /// Makes a collective call of circulant's own on the program's communicator. An error of it is
    /// returned, and raised once: by the call that fails for it. (Where several threads may call
    /// MPI, by MPI, too.)
    pub(super) fn together<R>(
        &self,
        call: impl FnOnce(Communicator) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let communicator = self.communicator;
        communicator.waiting_with_errors_returned(|| call(communicator))
    }

    /// Everybody's words, by rank; and which rank is on which node. Collective.
    pub(super) fn survey(&self, [first, second, third]: [u64; 3]) -> Result<Vec<[u64; 3]>, Error> {
        let own = [mpi::node_hash(), first, second, third];
        let all = self.together(|communicator| communicator.gather_words(own))?;
        self.nodes.get_or_init(|| {
            let keys: Vec<u64> = all.iter().map(|[key, ..]| *key).collect();
            let given = self.given_nodes(self.size);
            Arc::new(given.unwrap_or_else(|| Nodes::of_keys(&keys)))
        });
        Ok(all
            .iter()
            .map(|&[_, first, second, third]| [first, second, third])
            .collect())
    }

    fn find_nodes(&self, communicator: Communicator, size: usize) -> Result<Nodes, Error> {
        match self.given_nodes(size) {
            Some(nodes) => Ok(nodes),
            None => communicator.waiting_with_errors_returned(|| {
                Ok(Nodes::of_keys(&communicator.gather_all(mpi::node_hash())?))
            }),
        }
    }

    /// The nodes that settings say there are.
    fn given_nodes(&self, size: usize) -> Option<Nodes> {
        let size_of_node = usize::try_from(self.settings.node_size?).unwrap_or(usize::MAX);
        Some(Nodes::of_size(size, size_of_node, self.settings.placement))
    }

    /// What there is by now for a trial of such a call. The same on all processes.
    pub(super) fn equipment(&self, facts: &Facts) -> Equipment {
        let bytes = usize::try_from(facts.wanted_slot()).unwrap_or(usize::MAX);
        match &*self.service.lock() {
            ServiceState::Ready(service) => Equipment {
                is_served: true,
                is_shared: service.shared.is_some(),
                missing: service.missing(bytes),
            },
            _ => Equipment::default(),
        }
    }

    /// Whether its service may still be made. The same on all processes.
    pub(super) fn may_be_served(&self) -> bool {
        matches!(*self.service.lock(), ServiceState::Untried)
    }

    /// Runs `call` with this communicator's service, which is made if need be (collective). `data`
    /// are elements of this process, of each datatype in the call.
    ///
    /// # Errors
    /// Those of `call`; native, where there is no service.
    pub fn serve<R>(
        &self,
        data: [Option<Array>; 2],
        call: impl FnOnce(&mut Service) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        // Natively that is an error. Some of circulant's calls would not notice. The service stays
        // until the communicator is freed.
        if self.communicator.is_revoked() {
            return Err(Stop::Native(Reason::NoCommunicator));
        }
        let result = self.serve_or_fail(data, call);
        if let Err(Stop::Failed(_)) = result {
            self.tell_others();
        }
        result
    }

    fn serve_or_fail<R>(
        &self,
        data: [Option<Array>; 2],
        call: impl FnOnce(&mut Service) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        // A panic must not free it: freeing its communicator is collective, and others do not come.
        let mut service = ManuallyDrop::new(self.take_service()?);
        let uninterrupted = Uninterrupted { rank: self.rank };
        let result = service.check(data).and_then(|()| {
            service.begin();
            call(&mut service)
        });
        std::mem::forget(uninterrupted);
        if let Err(Stop::Failed(_)) = result {
            service.members.give_up();
        }
        let service = ManuallyDrop::into_inner(service);
        *self.service.lock() = match result {
            Err(Stop::Failed(_)) => ServiceState::Failed(service),
            _ => ServiceState::Ready(service),
        };
        result
    }

    fn take_service(&self) -> Result<Box<Service>, Stop> {
        // A nested call, from a callback, finds no service. That is so on all processes, so all run
        // it natively.
        let nothing = ServiceState::Refused(Reason::NoCommunicator);
        let slot = std::mem::replace(&mut *self.service.lock(), nothing);
        match slot {
            ServiceState::Ready(service) => Ok(service),
            ServiceState::Refused(reason) => Err(self.refuse(reason)),
            ServiceState::Failed(service) => {
                *self.service.lock() = ServiceState::Failed(service);
                Err(Stop::Native(Reason::NoCommunicator))
            }
            ServiceState::Untried => match self.make_private()? {
                Making::Made(private, on_host) => {
                    let _ = self.private.set(private.communicator());
                    let service = self.make_service(private, !on_host);
                    self.begin(Moment::now());
                    service
                }
                Making::Refused => Err(self.refuse(Reason::NoCommunicator)),
                Making::Delayed => {
                    *self.service.lock() = ServiceState::Untried;
                    Err(Stop::Native(Reason::NoCommunicator))
                }
            },
        }
    }

    /// The private communicator: of the same processes, or of those of both groups.
    fn make_private(&self) -> Result<Making, Error> {
        let most = self.settings.communicators;
        let on_host = !self.settings.gpu || !device::may_be_used();
        match self.remote {
            None => Private::twin(self.communicator, most, on_host),
            Some(remote) => Private::union(self.communicator, remote.leads, most, on_host),
        }
    }

    /// `devices`: whether a process may have buffers in the memory of a device. Collective.
    fn make_service(&self, private: Private, devices: bool) -> Result<Box<Service>, Stop> {
        let groups = self
            .remote
            .map(|remote| remote.groups(self.rank, self.size));
        let (private, nodes) = match groups {
            Some(groups) => self.with_nodes_of(private, groups)?,
            None => (private, 0),
        };
        let (first, all) = match groups {
            Some(groups) => (groups.of(groups.own).start, groups.all()),
            None => (0, self.size),
        };
        let settings = &self.settings;
        let members = Team::whole(all, first + self.rank, settings.skips);
        let members = Members::new(private, &members);
        let graph = Arc::new(Graph::new(self.size, settings.skips));
        let team = Team::new(graph, Ranks::from(first), self.rank);
        let service = Service::new(members, team, nodes, devices, settings);
        Ok(Box::new(service))
    }

    /// How many nodes both groups are on. They agree on nothing later: that would depend on a call,
    /// and not all processes know the size of a broadcast between groups. After an error, and after
    /// a panic, the private communicator is not freed: others may wait on it. Collective.
    fn with_nodes_of(&self, private: Private, groups: Groups) -> Result<(Private, usize), Error> {
        let mut private = ManuallyDrop::new(private);
        let nodes = self.find_nodes(private.communicator(), groups.all());
        let nodes = nodes.inspect_err(|_| private.give_up())?.count();
        Ok((ManuallyDrop::into_inner(private), nodes))
    }

    /// Revokes the private communicator: who waits on it, in a call that another process has left,
    /// waits no longer. Local.
    pub(super) fn revoke(&self) {
        self.private.get().inspect(|private| private.revoke());
    }

    /// MPI has failed in the middle of a call, or of what was to be agreed on: others may wait on
    /// the private communicator for this process, which goes on. They hear of it if a process has
    /// failed, or if somebody has told this one. Returns the private communicator if it is revoked
    /// now. Local.
    fn tell_others(&self) -> Option<Communicator> {
        let private = self.private.get().copied();
        private.filter(|private| private.revoke_if_lost())
    }

    /// Leaves a call in the middle of which MPI has failed with this error. Returns the one that
    /// the program hears. Local.
    pub fn leave_after(&self, error: Error) -> Error {
        self.give_up();
        match self.tell_others() {
            Some(private) => self.communicator.error_of_failure(private, error),
            None => error,
        }
    }

    fn refuse(&self, reason: Reason) -> Stop {
        *self.service.lock() = ServiceState::Refused(reason);
        Stop::Native(reason)
    }
}

/// While a call has the service. An exception that leaves it, such as that of an operator, leaves
/// transfers under way, in memory that would be freed: it ends the job.
struct Uninterrupted {
    rank: usize,
}

impl Drop for Uninterrupted {
    fn drop(&mut self) {
        // A panic ends the job where it leaves circulant.
        if !std::thread::panicking() {
            say(&format!(
                "circulant: an exception of the program has left a call in its middle on rank {}: \
                 the job ends",
                self.rank
            ));
            std::process::abort();
        }
    }
}

impl Remote {
    /// The two groups, as process `rank` of its group of `size` sees them.
    fn groups(self, rank: usize, size: usize) -> Groups {
        let own = usize::from(!self.leads);
        let mut sizes = [self.size; 2];
        sizes[own] = size;
        Groups { sizes, own, rank }
    }
}

/// The other group of an inter-communicator; and whether a communicator is foreign: some of its
/// processes are not of this MPI_COMM_WORLD. Those of a job that this one has started, or is
/// connected to, may be without circulant. They would not take part in what is agreed on. All
/// processes of a communicator find the same: they are of one MPI_COMM_WORLD, or they are not.
/// Local.
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

/// The settings of rank 0, or of rank 0 of one group, on all processes, where there is no roll.
/// Collective.
fn agree(communicator: Communicator, remote: Option<Remote>) -> Option<Settings> {
    let mut words = job::settings().encode();
    match remote {
        None => communicator.deal(&mut words).ok()?,
        Some(remote) => communicator
            .deal_across(&mut words, remote.leads, remote.size)
            .ok()?,
    }
    let mut rules = job::settings().encode_rules();
    rules.resize(Settings::words_of_rules(&words), 0);
    match remote {
        _ if rules.is_empty() => {}
        None => communicator.deal(&mut rules).ok()?,
        Some(remote) => communicator
            .deal_across(&mut rules, remote.leads, remote.size)
            .ok()?,
    }
    let agreed = Settings::decode(&words, &rules);
    if agreed.is_none() {
        // Native here would be a deadlock: the others do not know of it.
        let rank = job::process().rank;
        say(&format!(
            "circulant: rank {rank} has another version of circulant than rank 0 of a \
             communicator; install one version on all nodes"
        ));
        communicator.abort(1);
    }
    agreed
}
