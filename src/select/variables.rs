//! The table of environment variables: their names, accepted values and meanings, and the settings
//! that they are. A new variable is a new row.
//!
//! Everything else is made from this table: how the environment is read, the nearest name to an
//! unknown one, the agreement between ranks, the list of the settings in force. The tables of
//! `docs/users/settings.md` and of the man page are, too: `make settings` writes them anew.

use strum::{VariantArray, VariantNames};

use super::facts::Operation;
use super::settings::{
    BcastOrder, CHUNKS_MAX, LANES_MAX, Merging, Pacing, Select, Settings, Successive, TRANSFERS_MAX,
};
use super::sizes::{BLOCKS_MAX, MESSAGE_MAX};
use super::variable::{Accepts, Variable};
use crate::nodes::Placement;
use crate::schedule::Rule;

/// The prefix of every variable's name.
pub(super) const PREFIX: &str = "CIRCULANT_";

/// Every variable.
pub(super) fn variables() -> impl Iterator<Item = &'static Variable> {
    by_section().map(|(_, variable)| variable)
}

/// Every variable, with its section.
fn by_section() -> impl Iterator<Item = (&'static str, &'static Variable)> {
    let general = GENERAL.iter().copied();
    let own = [OF_PIPELINED.as_flattened(), &OF_OTHERS].map(|rows| (OF_OPERATIONS, rows));
    general
        .chain(own)
        .flat_map(|(section, rows)| rows.iter().map(move |row| (section, row)))
}

/// How many variables there are.
pub(super) const VARIABLES: usize = GENERAL_ROWS + Operation::PIPELINED * PIPELINED_ROWS + OTHERS;

const GENERAL_ROWS: usize = {
    let (mut rows, mut section) = (0, 0);
    while section < GENERAL.len() {
        rows += GENERAL[section].1.len();
        section += 1;
    }
    rows
};
const PIPELINED_ROWS: usize = 4;
/// The operations of MPI that are not pipelined have one row each.
const OTHERS: usize = Operation::OF_MPI - Operation::PIPELINED;

const SWITCH: Accepts = Accepts::OneOf(&["0", "1"]);
const BLOCKS: Accepts = Accepts::Number(1..=BLOCKS_MAX);
const BLOCK_SIZE: Accepts = Accepts::Size(1..=MESSAGE_MAX);
/// The engine keeps a few words for each block, so blocks must not be too small.
const SEGMENT: Accepts = Accepts::Size(256..=MESSAGE_MAX);
const FACTOR: Accepts = Accepts::Decimal(0.001..=1_000_000.0);
const OUTSTANDING: Accepts = Accepts::Number(1..=TRANSFERS_MAX as u64);

/// The section of the variables that each operation has of its own.
const OF_OPERATIONS: &str = "settings of each operation";

/// The variables that are not of one operation, by section of the documentation. BLOCKS stands
/// before BLOCK_SIZE, which yields to it.
static GENERAL: [(&str, &[Variable]); 7] = [
    (
        "what is taken over",
        &[
            Variable::agreed(
                "CIRCULANT_DISABLE",
                SWITCH,
                "1: every call goes to the MPI library",
                |s| s.disable.into(),
                |s, word| s.disable = word != 0,
            ),
            Variable::agreed(
                "CIRCULANT_FORCE",
                SWITCH,
                "1: circulant runs every call that it can, whatever its size and wherever the \
                ranks are",
                |s| s.force.into(),
                |s, word| s.force = word != 0,
            ),
            Variable::agreed(
                "CIRCULANT_SELECT",
                Accepts::OneOf(Select::VARIANTS),
                "how auto decides; learn: trials of the first calls of each kind find the fastest, \
                if the result does not depend on the order of combination, and the cost model \
                decides the other calls; adaptive: trials for all calls; tune: as adaptive, with \
                all trials at once, whatever they cost; model: the cost model, without trials; \
                native: the MPI library runs these calls, and a report compares; trial: as \
                native, with trials",
                |s| s.select as u64,
                |s, word| s.select = Select::from_repr(word).unwrap_or_default(),
            ),
            Variable::own(
                "CIRCULANT_PROFILE",
                Accepts::File,
                "file with what was learned before; a communicator begins with what the file says \
                of as many processes and nodes; its rank 0 reads it",
                |s| &s.profile,
                |s, text| s.profile = Some(text),
            ),
            Variable::own(
                "CIRCULANT_PROFILE_SAVE",
                Accepts::File,
                "file to which rank 0 adds, at the end, what was learned",
                |s| &s.profile_save,
                |s, text| s.profile_save = Some(text),
            ),
            Variable::agreed(
                "CIRCULANT_MIN_BYTES",
                Accepts::Size(0..=1 << 50),
                "calls with fewer bytes (m) go to the MPI library",
                |s| s.min_bytes,
                |s, word| s.min_bytes = word,
            ),
            Variable::agreed(
                "CIRCULANT_INTER",
                SWITCH,
                "0: calls on inter-communicators go to the MPI library",
                |s| s.inter.into(),
                |s, word| s.inter = word != 0,
            ),
            Variable::agreed(
                "CIRCULANT_GPU",
                SWITCH,
                "0: the program passes no device memory to MPI, so buffers are not checked for it",
                |s| s.gpu.into(),
                |s, word| s.gpu = word != 0,
            ),
        ],
    ),
    (
        "blocks",
        &[
            Variable::agreed(
                "CIRCULANT_BLOCKS",
                BLOCKS,
                "number of blocks of a message",
                |s| s.blocks.unwrap_or(0),
                |s, word| s.blocks = Some(word),
            ),
            Variable::agreed(
                "CIRCULANT_BLOCK_SIZE",
                BLOCK_SIZE,
                "size of a block in bytes",
                |s| s.block_size.unwrap_or(0),
                |s, word| s.block_size = Some(word),
            )
            .yielding_to("CIRCULANT_BLOCKS"),
            Variable::agreed(
                "CIRCULANT_F",
                FACTOR,
                "broadcast and reduction: blocks of F sqrt(m/q) bytes",
                |s| s.f.to_bits(),
                |s, word| s.f = f64::from_bits(word),
            ),
            Variable::agreed(
                "CIRCULANT_G",
                FACTOR,
                "the other pipelined operations: sqrt(m q)/G blocks, unless one block is predicted \
                to be as fast",
                |s| s.g.to_bits(),
                |s, word| s.g = f64::from_bits(word),
            ),
        ],
    ),
    (
        "one block",
        &[
            Variable::agreed(
                "CIRCULANT_SKIPS",
                Accepts::OneOf(<Rule as VariantNames>::VARIANTS),
                "rule for the skips of the one-block algorithms",
                |s| s.skips as u64,
                |s, word| s.skips = Rule::from_repr(word).unwrap_or_default(),
            ),
            Variable::agreed(
                "CIRCULANT_SEGMENT",
                SEGMENT,
                "size in bytes of the steps in which the one-block algorithms send a round's \
                message",
                |s| s.segment,
                |s, word| s.segment = word,
            ),
            Variable::agreed(
                "CIRCULANT_CENSUS_MAX",
                Accepts::Size(0..=MESSAGE_MAX),
                "largest allreduce of integers, in bytes, that sends the whole operand in each of \
                q rounds",
                |s| s.census_max,
                |s, word| s.census_max = word,
            ),
        ],
    ),
    (
        "transfers and memory",
        &[
            Variable::agreed(
                "CIRCULANT_WINDOW",
                OUTSTANDING,
                "rounds whose receives are posted at a time",
                |s| s.window as u64,
                |s, word| s.window = word as usize,
            ),
            Variable::agreed(
                "CIRCULANT_SENDS",
                OUTSTANDING,
                "sends outstanding at a time",
                |s| s.sends as u64,
                |s, word| s.sends = word as usize,
            ),
            Variable::agreed(
                "CIRCULANT_PACING",
                Accepts::OneOf(Pacing::VARIANTS),
                "which sends are synchronous-mode; synchronous: all; eager: none; auto: those of a \
                rank that received nothing in the round before",
                |s| s.pacing as u64,
                |s, word| s.pacing = Pacing::from_repr(word).unwrap_or_default(),
            ),
            Variable::agreed(
                "CIRCULANT_SCRATCH_MAX",
                Accepts::Size(0..=1 << 30),
                "scratch memory of a communicator in bytes; a call that needs more goes to the MPI \
                library",
                |s| s.scratch_max,
                |s, word| s.scratch_max = word,
            ),
            Variable::agreed(
                "CIRCULANT_SHARED_MAX",
                Accepts::Size(0..=1 << 30),
                "memory in bytes that the processes of a communicator share on each node, in all; \
                0: none",
                |s| s.shared_max,
                |s, word| s.shared_max = word,
            ),
            Variable::agreed(
                "CIRCULANT_LANES",
                Accepts::Number(1..=LANES_MAX as u64),
                "processes of each node that exchange with other nodes, at most, in calls by lanes \
                in which not all do; 1: such calls go by leaders",
                |s| s.lanes as u64,
                |s, word| s.lanes = word as usize,
            ),
            Variable::agreed(
                "CIRCULANT_COMMUNICATORS",
                Accepts::Number(0..=1 << 20),
                "private communicators that a process has at a time; calls on further \
                communicators go to the MPI library",
                |s| s.communicators as u64,
                |s, word| s.communicators = word as usize,
            ),
        ],
    ),
    (
        "successive broadcasts and growing operands",
        &[
            Variable::agreed(
                "CIRCULANT_BCAST_ORDER",
                Accepts::OneOf(BcastOrder::VARIANTS),
                "gray: broadcasts of up to 64 KiB overlap, if their roots follow each other as \
                circulant_successive_owner says",
                |s| s.bcast_order as u64,
                |s, word| s.bcast_order = BcastOrder::from_repr(word).unwrap_or_default(),
            ),
            Variable::agreed(
                "CIRCULANT_SUCCESSIVE_BCAST",
                Accepts::OneOf(Successive::VARIANTS),
                "how circulant_successive_bcast sends values; native: by MPI_Bcast; trees: each \
                value along a tree; relay: several values in a message from owner to owner; auto: \
                trees, or the faster of both where values are small and many",
                |s| s.successive as u64,
                |s, word| s.successive = Successive::from_repr(word).unwrap_or_default(),
            ),
            Variable::agreed(
                "CIRCULANT_RELAYED",
                Accepts::Size(0..=1 << 20),
                "relay: most bytes of values in a message, unless a single value has more",
                |s| s.relayed,
                |s, word| s.relayed = word,
            ),
            Variable::agreed(
                "CIRCULANT_MERGE",
                Accepts::OneOf(Merging::VARIANTS),
                "how circulant_allgather_merge and circulant_allreduce_v exchange operands; \
                allgather: by MPI_Allgatherv; auto: as circulant",
                |s| s.merging as u64,
                |s, word| s.merging = Merging::from_repr(word).unwrap_or_default(),
            ),
        ],
    ),
    (
        "what circulant tells",
        &[
            Variable::own(
                "CIRCULANT_REPORT",
                Accepts::Destination,
                "where the report at the end of the run goes; %r in a file name stands for the \
                rank",
                |s| &s.report,
                |s, text| s.report = Some(text),
            ),
            Variable::agreed(
                "CIRCULANT_TRACE",
                SWITCH,
                "1: rank 0 prints one line for each call, on standard error",
                |s| s.trace.into(),
                |s, word| s.trace = word != 0,
            ),
            Variable::agreed(
                "CIRCULANT_VERBOSE",
                SWITCH,
                "1: rank 0 prints the settings in force, on standard error, at the start",
                |s| s.verbose.into(),
                |s, word| s.verbose = word != 0,
            ),
            Variable::agreed(
                "CIRCULANT_REQUIRE",
                SWITCH,
                "1: the job ends, with status 125, unless it is known that all its processes have \
                this circulant; each process has its own",
                |s| s.require.into(),
                |s, word| s.require = word != 0,
            ),
            Variable::agreed(
                "CIRCULANT_CHECK",
                Accepts::Number(0..=1 << 20),
                "calls that circulant runs are repeated by the MPI library, and the results are \
                compared; 0: no calls; 1: all calls; 2 or more: the first so many calls of each \
                operation and size, within a factor of 2",
                |s| s.check,
                |s, word| s.check = word,
            ),
            Variable::agreed(
                "CIRCULANT_CHECK_OPERATORS",
                SWITCH,
                "1: CIRCULANT_CHECK holds for reductions with the program's operators, too; they \
                run twice then, and results are compared bit for bit",
                |s| s.check_operators.into(),
                |s, word| s.check_operators = word != 0,
            ),
        ],
    ),
    (
        "tests",
        &[
            Variable::agreed(
                "CIRCULANT_NODE_SIZE",
                Accepts::Number(1..=1 << 20),
                "this many ranks count as one node, whatever machines they are on",
                |s| s.node_size.unwrap_or(0),
                |s, word| s.node_size = Some(word),
            ),
            Variable::agreed(
                "CIRCULANT_PLACEMENT",
                Accepts::OneOf(Placement::VARIANTS),
                "how ranks are placed on nodes of CIRCULANT_NODE_SIZE; blocked: consecutive ones \
                on one node; cyclic: on one node after the other; shuffled: in no order, on nodes \
                of different sizes",
                |s| s.placement as u64,
                |s, word| s.placement = Placement::from_repr(word).unwrap_or_default(),
            ),
            Variable::agreed(
                "CIRCULANT_CHUNKS",
                Accepts::Number(1..=CHUNKS_MAX),
                "a broadcast is cut into this many pipelined calls, which are in progress at the \
                same time",
                |s| s.chunks as u64,
                |s, word| s.chunks = word as usize,
            ),
        ],
    ),
];

/// Each operation's own variables, indexed by [`Operation`].
static OF_PIPELINED: [[Variable; PIPELINED_ROWS]; Operation::PIPELINED] = [
    of_operation::<{ Operation::Bcast as usize }>([
        "CIRCULANT_BCAST",
        "CIRCULANT_BCAST_BLOCKS",
        "CIRCULANT_BCAST_BLOCK_SIZE",
        "CIRCULANT_BCAST_F",
    ]),
    of_operation::<{ Operation::Reduce as usize }>([
        "CIRCULANT_REDUCE",
        "CIRCULANT_REDUCE_BLOCKS",
        "CIRCULANT_REDUCE_BLOCK_SIZE",
        "CIRCULANT_REDUCE_F",
    ]),
    of_operation::<{ Operation::Allgather as usize }>([
        "CIRCULANT_ALLGATHER",
        "CIRCULANT_ALLGATHER_BLOCKS",
        "CIRCULANT_ALLGATHER_BLOCK_SIZE",
        "CIRCULANT_ALLGATHER_G",
    ]),
    of_operation::<{ Operation::Allgatherv as usize }>([
        "CIRCULANT_ALLGATHERV",
        "CIRCULANT_ALLGATHERV_BLOCKS",
        "CIRCULANT_ALLGATHERV_BLOCK_SIZE",
        "CIRCULANT_ALLGATHERV_G",
    ]),
    of_operation::<{ Operation::ReduceScatterBlock as usize }>([
        "CIRCULANT_REDUCE_SCATTER_BLOCK",
        "CIRCULANT_REDUCE_SCATTER_BLOCK_BLOCKS",
        "CIRCULANT_REDUCE_SCATTER_BLOCK_BLOCK_SIZE",
        "CIRCULANT_REDUCE_SCATTER_BLOCK_G",
    ]),
    of_operation::<{ Operation::ReduceScatter as usize }>([
        "CIRCULANT_REDUCE_SCATTER",
        "CIRCULANT_REDUCE_SCATTER_BLOCKS",
        "CIRCULANT_REDUCE_SCATTER_BLOCK_SIZE",
        "CIRCULANT_REDUCE_SCATTER_G",
    ]),
];

/// The row of each operation of MPI that is not pipelined: its rules.
static OF_OTHERS: [Variable; OTHERS] = [
    rules_of("CIRCULANT_ALLREDUCE", Operation::Allreduce),
    rules_of("CIRCULANT_ALLTOALL", Operation::Alltoall),
    rules_of("CIRCULANT_GATHER", Operation::Gather),
    rules_of("CIRCULANT_SCATTER", Operation::Scatter),
];

const fn rules_of(name: &'static str, operation: Operation) -> Variable {
    Variable::rules(
        name,
        operation,
        "who runs the operation; native: the MPI library; circulant: circulant, except for small \
        calls; auto: whichever was measured or is predicted to be faster; or rules by size",
    )
}

/// The rows of one pipelined operation: its rules, block count, block size and factor.
const fn of_operation<const OPERATION: usize>(
    [rules, blocks, block_size, factor]: [&'static str; PIPELINED_ROWS],
) -> [Variable; PIPELINED_ROWS] {
    [
        rules_of(rules, Operation::VARIANTS[OPERATION]),
        Variable::agreed(
            blocks,
            BLOCKS,
            "number of blocks, in this operation",
            |s| s.operations[OPERATION].blocks.unwrap_or(0),
            |s, word| s.operations[OPERATION].blocks = Some(word),
        ),
        Variable::agreed(
            block_size,
            BLOCK_SIZE,
            "size of a block in bytes, in this operation",
            |s| s.operations[OPERATION].block_size.unwrap_or(0),
            |s, word| s.operations[OPERATION].block_size = Some(word),
        )
        .yielding_to(blocks),
        Variable::agreed(
            factor,
            FACTOR,
            if Operation::VARIANTS[OPERATION].is_rooted() {
                "F, in this operation"
            } else {
                "G, in this operation"
            },
            |s| s.operations[OPERATION].factor.map_or(0, f64::to_bits),
            |s, word| s.operations[OPERATION].factor = Some(f64::from_bits(word)),
        ),
    ]
}

/// A variable, as the documentation describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// The section of the documentation that it is in.
    pub section: &'static str,
    /// The full name.
    pub name: &'static str,
    /// The value if it is not set. `None` where a more general setting applies then, or nothing is
    /// done.
    pub default: Option<String>,
    /// The accepted values, in words.
    pub accepted: String,
    /// One line on what it does.
    pub meaning: &'static str,
}

/// A variable to begin with.
pub struct First {
    /// What it is for: the end of "to ...".
    pub purpose: &'static str,
    /// The full name.
    pub name: &'static str,
    /// A value for that.
    pub value: &'static str,
}

impl First {
    const fn new(purpose: &'static str, name: &'static str, value: &'static str) -> First {
        First {
            purpose,
            name,
            value,
        }
    }
}

/// The variables that most users need, or fewer. The documentation begins with them.
pub static FIRST: [First; 5] = [
    First::new("see what circulant did", "CIRCULANT_REPORT", "stderr"),
    First::new("switch circulant off", "CIRCULANT_DISABLE", "1"),
    First::new(
        "leave an operation to the MPI library",
        "CIRCULANT_BCAST",
        "native",
    ),
    First::new(
        "begin with what was measured before",
        "CIRCULANT_PROFILE",
        "site.toml",
    ),
    First::new("have results checked", "CIRCULANT_CHECK", "1"),
];

/// Every variable, in the order of its index in the settings. Those of a section follow each other.
pub fn describe() -> impl Iterator<Item = Description> {
    let defaults = Settings::default();
    by_section().map(move |(section, variable)| Description {
        section,
        name: variable.name,
        default: variable.value(&defaults),
        accepted: variable.accepts.to_string(),
        meaning: variable.meaning,
    })
}
