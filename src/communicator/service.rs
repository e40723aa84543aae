//! What serves the calls on one communicator: made once, reused by every call.

use std::any::Any;
use std::sync::Arc;

use super::members::Members;
use super::sharing::Sharing;
use super::{Stop, sharing};
use crate::engine::{Engine, Pacing, Synchronous};
use crate::mpi::{Allocation, Array, Communicator, Moment, device};
use crate::nodes::Nodes;
use crate::pool::{Agreement, Lease, Need, Pool, Reserve};
use crate::schedule::Rule;
use crate::select::{self, Algorithm, CHUNKS_MAX, Reason, Settings};
use crate::stage::Stages;
use crate::team::{Machine, Team};
use crate::transport::{Bytes, Lists, Packing, SharedMemory};

/// What serves the calls on one communicator.
pub struct Service {
    /// All processes of the private communicator: of both groups of an inter-communicator.
    pub members: Members,
    /// How many nodes its processes are on; of an inter-communicator only.
    pub nodes: usize,
    /// Calls that it has served, this one included. A process that goes native alone, because of
    /// its arguments, does not count that call. It does when the program repeats it there, as it
    /// must: the other processes still wait.
    calls: usize,
    /// Agreed: whether a process may have buffers in the memory of a device.
    devices: bool,
    /// The processes of the communicator; of an inter-communicator, those of this process's group.
    pub team: Team,
    /// The nodes of the team, once a call was by their leaders or by lanes.
    machine: Option<Machine>,
    /// The rule for the skips of the algorithms with one block.
    rule: Rule,
    /// Memory that the processes of this node share, if a call has run there.
    pub shared: Option<SharedMemory>,
    /// Whether there cannot be any.
    cannot_share: bool,
    /// Scratch.
    pub pool: Pool<Arc<Allocation>>,
    /// When the call in progress had its scratch, or memory to share, if all processes had to
    /// reserve it.
    leased: Option<Moment>,
    /// How far rounds overlap.
    pub pacing: Pacing,
    /// What the calls before have left.
    pub spare: Spare,
    /// What the operations that MPI does not have keep from call to call.
    pub kept: Option<Box<dyn Any + Send>>,
}

/// Memory that calls leave to the next ones, so that a call in a steady state allocates nothing.
#[derive(Default)]
pub struct Spare {
    stages: Vec<Stages>,
    engines: Vec<Engine>,
    lists: Vec<Lists>,
    packed: Vec<Vec<u8>>,
}

impl Spare {
    /// An empty list of stages.
    pub fn stages(&mut self) -> Stages {
        self.stages.pop().unwrap_or_default()
    }

    /// An engine with this pacing, which all of a communicator's have.
    pub fn engine(&mut self, pacing: Pacing) -> Engine {
        self.engines.pop().unwrap_or_else(|| Engine::new(pacing))
    }

    /// Lists for stored messages.
    pub fn lists(&mut self) -> Lists {
        self.lists.pop().unwrap_or_default()
    }

    /// Memory to pack elements in.
    pub fn packed(&mut self) -> Vec<u8> {
        self.packed.pop().unwrap_or_default()
    }

    /// A list of stages that is not needed any more.
    pub fn keep_stages(&mut self, mut stages: Stages) {
        stages.clear();
        self.stages.push(stages);
    }

    /// What a call leaves.
    pub fn keep(&mut self, stages: Stages, engine: Engine) {
        self.keep_stages(stages);
        self.engines.push(engine);
    }

    /// The lists of a call that stored.
    pub fn keep_lists(&mut self, lists: Lists) {
        self.lists.push(lists);
    }

    /// The memory of a call that packed elements, or combined them.
    pub fn keep_packed(&mut self, packed: Vec<u8>) {
        self.packed.push(packed);
    }
}

impl Reserve for Arc<Allocation> {
    /// Memory that another call still uses is left to that call, and new memory taken.
    fn reserve(&mut self, bytes: usize) -> bool {
        if Arc::get_mut(self).is_none() {
            *self = Arc::default();
        }
        Arc::get_mut(self).is_some_and(|allocation| allocation.reserve(bytes))
    }
}

impl Service {
    /// For the team of the communicator's processes, which are `members` of the private one, or
    /// some of them. `devices`: whether a process may have buffers in the memory of a device.
    pub(super) fn new(
        members: Members,
        team: Team,
        nodes: usize,
        devices: bool,
        settings: &Settings,
    ) -> Service {
        Service {
            calls: 0,
            devices,
            members,
            nodes,
            pool: Pool::new(team.place(), settings.scratch_max),
            leased: None,
            team,
            machine: None,
            rule: settings.skips,
            shared: None,
            cannot_share: false,
            pacing: Pacing {
                window: settings.window,
                sends: settings.sends,
                synchronous: match settings.pacing {
                    select::Pacing::Auto => Synchronous::Unpaced,
                    select::Pacing::Synchronous => Synchronous::All,
                    select::Pacing::Eager => Synchronous::None,
                },
            },
            spare: Spare::default(),
            kept: None,
        }
    }

    /// The private communicator.
    pub fn communicator(&self) -> Communicator {
        self.members.communicator()
    }

    /// Finds the teams of `nodes`: their leaders, and the processes of this node. Once.
    pub fn divide(&mut self, nodes: &Arc<Nodes>) {
        if self.machine.is_none() {
            let team = &self.team;
            let ranks: Vec<_> = (0..team.size()).map(|place| team.rank(place)).collect();
            let machine = Machine::new(Arc::clone(nodes), &ranks, team.place(), self.rule);
            self.members.divide(&machine);
            self.machine = Some(machine);
        }
    }

    /// Makes the memory that the processes of each node share, once: all are on one node, or it was
    /// [divided](Service::divide). Collective at the first call.
    ///
    /// # Errors
    /// Native, if there is none.
    pub fn share(&mut self, most: u64) -> Result<(), Stop> {
        if self.shared.is_none() && !self.cannot_share {
            self.shared = sharing::share(&self.members, self.sharing(), most)?;
            self.cannot_share = self.shared.is_none();
            self.leased = Some(Moment::now());
        }
        match self.cannot_share {
            true => Err(Stop::Native(Reason::SharedMemory)),
            false => Ok(()),
        }
    }

    fn sharing(&self) -> Sharing<'_> {
        match &self.machine {
            Some(machine) => Sharing {
                node: &machine.node,
                number: machine.leaders.place(),
                nodes: machine.nodes.count(),
                most: machine.nodes.largest(),
                rank: self.team.place(),
            },
            None => Sharing {
                node: &self.team,
                number: 0,
                nodes: 1,
                most: self.team.size(),
                rank: self.team.place(),
            },
        }
    }

    /// Bytes by which slots are to grow for a call that could use so many of each, if there are
    /// any: the same on all processes. What calls use differs between nodes, and so may the slots,
    /// so where there are several nobody knows.
    pub(super) fn missing(&self, bytes: usize) -> usize {
        let is_on_one_node = self.sharing().nodes == 1;
        let shared = self.shared.as_ref().filter(|_| is_on_one_node);
        shared.map_or(0, |memory| memory.missing(bytes))
    }

    /// The processes that share memory: those of this node.
    pub fn sharers(&self) -> &Team {
        self.sharing().node
    }

    /// The nodes, once it was [divided](Service::divide) into them.
    ///
    /// # Errors
    /// Native, if it was not.
    pub fn machine(&self) -> Result<&Machine, Stop> {
        let machine = self.machine.as_ref();
        machine.ok_or(Stop::Native(Reason::NoCommunicator))
    }

    /// The nodes, for a call that is by their leaders or by lanes.
    pub fn machine_of(&self, algorithm: Algorithm) -> Option<&Machine> {
        let machine = self.machine.as_ref();
        machine.filter(|_| algorithm.is_of_nodes())
    }

    /// Begins to serve a call.
    pub(super) fn begin(&mut self) {
        self.calls = self.calls.wrapping_add(1);
        self.leased = None;
    }

    /// The call that was begun is not counted. Its tags are those of the one before.
    pub fn uncount(&mut self) {
        self.calls = self.calls.wrapping_sub(1);
    }

    /// The tag of a call, one of at most 16 that are in progress at once. Calls of the communicator
    /// have different ones, so that messages which another call has left, because processes
    /// disagreed on the size of the data, are not taken for this call's.
    pub fn tag(&self, chunk: usize) -> usize {
        /// Calls until a tag is used again; all tags are below that of messages to oneself.
        const CALLS: usize = 1000;
        (1 + self.calls % CALLS) * CHUNKS_MAX as usize + chunk
    }

    /// Scratch for one call. May be collective.
    ///
    /// # Errors
    /// Native, on all processes, if the bound would be passed or memory is short; MPI's.
    pub fn lease(&mut self, need: Need) -> Result<Lease<Arc<Allocation>>, Stop> {
        let agreed = self.pool.agreed();
        let lease = self.pool.lease(&self.members, need)?;
        if self.pool.agreed() != agreed {
            self.leased = Some(Moment::now());
        }
        Ok(lease)
    }

    /// Scratch of `need` bytes for a call in which not all processes take part, so that they cannot
    /// agree.
    ///
    /// # Errors
    /// Native, on all that know of the call, where `bytes`, the same value there, pass the bound.
    pub fn lease_alone(
        &mut self,
        bytes: usize,
        need: usize,
    ) -> Result<Lease<Arc<Allocation>>, Stop> {
        self.pool.lease_alone(&self.members, bytes, need)
    }

    /// When the latest call had its scratch, or memory to share, if all processes had to reserve
    /// it. They will not have to for the next one like it, so for those who take its time the call
    /// begins only then.
    pub fn leased(&self) -> Option<Moment> {
        self.leased
    }

    /// How elements are packed and unpacked.
    pub fn packing(&mut self, elements: Array) -> Packing {
        let mut packed = self.spare.packed();
        let packing = Packing::new(elements, self.communicator(), &mut packed);
        self.spare.keep_packed(packed);
        packing
    }

    /// Memory for a call that stores, with `scratch` bytes for the engine and `staging` bytes for
    /// staging in `allocation`.
    pub fn bytes(&mut self, allocation: Arc<Allocation>, scratch: usize, staging: usize) -> Bytes {
        Bytes::new(allocation, scratch, staging, self.spare.lists())
    }

    /// Leaves a call to MPI if its datatypes are not committed, or if its data is in the memory of
    /// a device, on any process. Collective where that may be.
    pub(super) fn check(&self, data: [Option<Array>; 2]) -> Result<(), Stop> {
        let communicator = self.communicator();
        let is_committed = |array: &Array| array.datatype().is_committed(communicator);
        let data = data.iter().flatten();
        let committed = data.clone().all(is_committed);
        let on_host = || !committed || !data.clone().any(device::holds);
        // Who has wrong arguments takes part, because who has none to look at does.
        if self.devices && !self.members.all_agree(on_host())? {
            return Err(Stop::Native(Reason::DeviceMemory));
        }
        if committed {
            Ok(())
        } else {
            Err(Stop::Native(Reason::Arguments))
        }
    }
}
