//! The settings as typed values, and their defaults.

use strum::{EnumCount, FromRepr, VariantNames};

use super::facts::Operation;
use super::rules::CallRule;
use crate::nodes::Placement;
use crate::schedule::Rule;

/// The settings in force: plain data, with public fields. Values from [`Settings::read`] and
/// [`Settings::decode`] are within the bounds of their variables.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Every call goes to the MPI library.
    pub disable: bool,
    /// circulant runs every call that it can.
    pub force: bool,
    /// How calls are chosen that no other setting decides on.
    pub select: Select,
    /// Calls with fewer bytes go to the MPI library.
    pub min_bytes: u64,
    /// The number of blocks of a message, if it is fixed.
    pub blocks: Option<u64>,
    /// The size of a block in bytes, if it is fixed and `blocks` is not.
    pub block_size: Option<u64>,
    /// F. A broadcast or a reduction has blocks of F sqrt(m/q) bytes. The unit is sqrt(byte).
    pub f: f64,
    /// G. The other operations have sqrt(m q)/G blocks. The unit is sqrt(byte).
    pub g: f64,
    /// The rule for the skips of the one-block algorithms.
    pub skips: Rule,
    /// The size in bytes of the steps in which they send a round's message.
    pub segment: u64,
    /// The largest allreduce, in bytes, that sends the whole operand in each of q rounds.
    pub census_max: u64,
    /// How growing operands are exchanged.
    pub merging: Merging,
    /// Rounds whose receives are posted at a time.
    pub window: usize,
    /// Sends outstanding at a time.
    pub sends: usize,
    /// Which sends are synchronous-mode.
    pub pacing: Pacing,
    /// The most scratch memory of one communicator, in bytes.
    pub scratch_max: u64,
    /// The most memory that the processes of a communicator share, in bytes.
    pub shared_max: u64,
    /// The most private communicators that a process has at a time. MPICH has about 2,000 context
    /// ids in all, and most of them are for the program.
    pub communicators: usize,
    /// Whether broadcasts with successive roots overlap.
    pub bcast_order: BcastOrder,
    /// How circulant_successive_bcast sends values.
    pub successive: Successive,
    /// The most bytes of values in a message from owner to owner, unless a single value has more.
    pub relayed: u64,
    /// How many processes of each node share its port, at most, in broadcasts and reductions by
    /// lanes.
    pub lanes: usize,
    /// This many ranks count as one node, whatever machines they are on.
    pub node_size: Option<u64>,
    /// Whether the launcher says that all processes of the job are on one node. That is no setting,
    /// but rank 0 tells it to the others with its settings.
    pub is_on_one_node: bool,
    /// How ranks are placed on nodes of that size.
    pub placement: Placement,
    /// The number of calls, in progress at the same time, into which a broadcast is cut.
    pub chunks: usize,
    /// Whether circulant may run calls on inter-communicators.
    pub inter: bool,
    /// Whether buffers are checked for device memory.
    pub gpu: bool,
    /// So many calls of each operation and size class, the first ones, are repeated natively and
    /// compared. 0: none. 1: all.
    pub check: u64,
    /// Whether calls with an operator of the program's are repeated, too.
    pub check_operators: bool,
    /// Whether rank 0 prints one line for each call.
    pub trace: bool,
    /// Whether rank 0 prints the settings in force at the start.
    pub verbose: bool,
    /// Whether the job ends unless all its processes have circulant. Each process has its own.
    pub require: bool,
    /// Who runs which calls: of those of an operation the first that holds decides.
    pub rules: Vec<CallRule>,
    /// The settings of each operation, indexed by [`Operation`].
    pub operations: [OperationSettings; Operation::COUNT],
    /// Where the report goes, as it was set. Each process has its own, so it is not encoded.
    pub report: Option<String>,
    /// The file with the profile. Each process has its own.
    pub profile: Option<String>,
    /// The file to which what was learned is added. Each process has its own.
    pub profile_save: Option<String>,
    /// Bit i says whether variable i is from the environment, in the order of
    /// [`describe`](super::describe).
    pub from_environment: u64,
}

/// The settings of one operation. Where one is `None`, the general setting applies.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct OperationSettings {
    /// The number of blocks.
    pub blocks: Option<u64>,
    /// The size of a block in bytes.
    pub block_size: Option<u64>,
    /// F if the operation is [rooted](Operation::is_rooted), otherwise G.
    pub factor: Option<f64>,
}

/// How calls are chosen that no other setting decides on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromRepr, VariantNames)]
#[strum(serialize_all = "lowercase")]
#[repr(u64)]
pub enum Select {
    /// By the cost model alone.
    Model,
    /// By measurement, where all algorithms give the same result to the last bit.
    #[default]
    Learn,
    /// By measurement.
    Adaptive,
    /// None of them is circulant's. What circulant would take is predicted.
    Native,
    /// The same, but for calls by which that is measured.
    Trial,
    /// By measurement, as soon as can be and whatever it takes.
    Tune,
}

impl Select {
    /// Whether calls are only observed.
    pub const fn observes(self) -> bool {
        matches!(self, Select::Native | Select::Trial)
    }
}

/// How growing operands are exchanged. The algorithms are those of Lang, *Modified
/// Bruck/Dissemination Algorithm for Commutative Reduction in MPI*.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromRepr, VariantNames)]
#[strum(serialize_all = "lowercase")]
#[repr(u64)]
pub enum Merging {
    /// The algorithm that is fastest as far as measured: [`Circulant`](Merging::Circulant).
    #[default]
    Auto,
    /// Algorithm 0: MPI_Allgatherv, and then each process combines all operands.
    Allgather,
    /// Algorithm 1: dissemination, corrected.
    Dissemination,
    /// Algorithm 2: on a circulant graph.
    Circulant,
}

/// How circulant_successive_bcast sends values.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromRepr, VariantNames)]
#[strum(serialize_all = "lowercase")]
#[repr(u64)]
pub enum Successive {
    /// Along trees; or the faster way, as measured during the call, if values are small and many.
    #[default]
    Auto,
    /// By the MPI library's broadcasts.
    Native,
    /// Each value along a tree of its own.
    Trees,
    /// From owner to owner, several values in a message.
    Relay,
}

/// Which sends are synchronous-mode. Such a send completes only when its receive has begun, so no
/// rank runs ahead.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromRepr, VariantNames)]
#[strum(serialize_all = "lowercase")]
#[repr(u64)]
pub enum Pacing {
    /// Those of a rank that received nothing in the round before, because nothing else paces it.
    #[default]
    Auto,
    /// All.
    Synchronous,
    /// None: every send completes as soon as its message is buffered.
    Eager,
}

/// Whether broadcasts with successive roots overlap.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromRepr, VariantNames)]
#[strum(serialize_all = "lowercase")]
#[repr(u64)]
pub enum BcastOrder {
    /// They do not.
    #[default]
    Auto,
    /// Small ones do: they go along trees that overlap.
    Gray,
}

/// The most calls that a broadcast is cut into.
pub const CHUNKS_MAX: u64 = 16;

/// The most sends of a call, and the most receives, that are outstanding at a time.
pub const TRANSFERS_MAX: usize = 64;

/// The rounds that a broadcast or a reduction runs at once for each of its lanes.
pub const ROUNDS_OF_LANE: usize = 2;

/// The most lanes of one.
pub const LANES_MAX: usize = TRANSFERS_MAX / ROUNDS_OF_LANE;

/// F as shipped.
pub const F: f64 = 18.0;

/// G as shipped.
pub const G: f64 = 24.0;

impl Default for Settings {
    /// The shipped settings. F, G, window and sends were measured on a cluster of emulated hosts
    /// with ports of 40 Mbit/s.
    fn default() -> Self {
        Settings {
            disable: false,
            force: false,
            select: Select::default(),
            min_bytes: 4 << 10,
            blocks: None,
            block_size: None,
            f: F,
            g: G,
            skips: Rule::default(),
            segment: 32 << 10,
            census_max: 4 << 10,
            merging: Merging::default(),
            window: 1,
            sends: 2,
            pacing: Pacing::default(),
            scratch_max: 64 << 20,
            // The processes of a simulation are one process, in which nobody may wait.
            shared_max: if cfg!(smpi) { 0 } else { 16 << 20 },
            communicators: 32,
            bcast_order: BcastOrder::default(),
            successive: Successive::default(),
            relayed: 1 << 10,
            lanes: 4,
            node_size: None,
            is_on_one_node: false,
            placement: Placement::default(),
            chunks: 1,
            inter: true,
            gpu: true,
            check: 0,
            check_operators: false,
            trace: false,
            verbose: false,
            require: false,
            rules: Vec::new(),
            operations: [OperationSettings::default(); Operation::COUNT],
            report: None,
            profile: None,
            profile_save: None,
            from_environment: 0,
        }
    }
}

impl Settings {
    /// The settings of one operation.
    pub fn of(&self, operation: Operation) -> &OperationSettings {
        &self.operations[operation as usize]
    }

    /// The rules of one operation, in order.
    pub fn rules_of(&self, operation: Operation) -> impl Iterator<Item = &CallRule> {
        let rules = self.rules.iter();
        rules.filter(move |rule| rule.operation == operation)
    }

    /// Whether who runs a call depends on its nodes by a rule.
    pub fn asks_for_nodes(&self, operation: Operation) -> bool {
        self.rules_of(operation).any(CallRule::asks_for_nodes)
    }

    /// The settings for calls that a rule covers, where its parameters change them.
    pub fn changed_by(&self, rule: &CallRule) -> Option<Settings> {
        let [blocks, block_size, segment] = rule.given();
        blocks.or(block_size).or(segment)?;
        let mut changed = self.clone();
        let own = &mut changed.operations[rule.operation as usize];
        if blocks.or(block_size).is_some() {
            (own.blocks, own.block_size) = (blocks, block_size);
        }
        changed.segment = segment.unwrap_or(self.segment);
        Some(changed)
    }
}
