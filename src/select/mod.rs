//! Selection: which calls circulant runs itself, and in how many blocks.
//!
//! [`choose`] is a pure function of values that are identical on every rank: the operation, its
//! size, the communicator's shape, and the agreed settings. Two ranks that chose differently would
//! wait for each other for ever, so nothing local (addresses, clocks, loads) may enter here, and
//! the arithmetic is limited to IEEE operations that are rounded alike everywhere.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `operation.rs` | the operations |
//! | `settings.rs` | the settings in force, and their agreement between ranks |
//! | `variables.rs` | the table of environment variables |
//! | `variable.rs` | one variable: its text, its value, its place in the settings |
//! | `blocks.rs` | the number of blocks |
//! | `cost.rs` | the cost model and its shipped constants |

#![forbid(unsafe_code)]

mod blocks;
mod cost;
mod operation;
mod settings;
mod variable;
mod variables;

pub use blocks::{BLOCKS_MAX, MESSAGE_MAX, blocks};
pub use operation::Operation;
pub use settings::{
    BcastOrder, Complaint, ENCODED, InForce, Merging, Mode, OperationSettings, Origin, Pacing,
    Settings, Succession,
};
pub use variables::{Description, describe};

/// What a choice depends on: only values that are identical on every rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// The operation that the program called.
    pub operation: Operation,
    /// m: the bytes of the whole problem. Broadcast, reduction and allreduce: the message; the
    /// others: the sum over the ranks.
    pub bytes: u64,
    /// The largest part of it that belongs to one rank.
    pub largest: u64,
    /// p: the processes of the communicator; of an inter-communicator, those of both groups, or the root
    /// and the other group.
    pub processes: usize,
    /// The processes of the smaller group of an inter-communicator (of a broadcast, of the root's, which
    /// is 1); else 0. There `bytes` are those of the group that has more, and `largest` is the largest
    /// contribution of all.
    pub smaller_group: usize,
    /// The nodes (shared-memory domains) on which they are.
    pub nodes: usize,
}

impl Call {
    /// q = ceil(log2 p): the rounds that one block needs to reach every process.
    fn phases(&self) -> u32 {
        usize::BITS - self.processes.saturating_sub(1).leading_zeros()
    }

    /// The most processes that share one node, if they are spread evenly.
    fn processes_per_node(&self) -> usize {
        self.processes.div_ceil(self.nodes.max(1))
    }
}

/// Why a call went to the MPI library's own collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Reason {
    /// `CIRCULANT_DISABLE=1`.
    Disabled,
    /// The operation's variable says `native`.
    Chosen,
    /// The communicator has one process.
    OneProcess,
    /// The communicator is an inter-communicator.
    InterCommunicator,
    /// The communicator has processes of another job, which may be without circulant.
    OtherJob,
    /// The message is smaller than `CIRCULANT_MIN_BYTES`.
    Small,
    /// All processes share one node.
    OneNode,
    /// The cost model predicts the native collective to be faster.
    CostModel,
    /// The operator is not commutative.
    NotCommutative,
    /// The call needs more scratch than `CIRCULANT_SCRATCH_MAX`.
    Scratch,
    /// The private communicator could not be made.
    NoCommunicator,
    /// Memory could not be allocated.
    Memory,
    /// The arguments are invalid or unusual, and are left to the MPI library to judge.
    Arguments,
    /// There is nothing to transfer.
    Empty,
    /// The program has called `MPI_Pcontrol(0)`.
    SwitchedOff,
    /// A buffer is in the memory of a device.
    DeviceMemory,
}

impl Reason {
    /// How many reasons there are: the length of a table with one entry per reason.
    pub const COUNT: usize = Self::ALL.len();

    /// Every reason, in the order of the discriminants.
    pub const ALL: [Reason; 16] = [
        Reason::Disabled,
        Reason::Chosen,
        Reason::OneProcess,
        Reason::InterCommunicator,
        Reason::OtherJob,
        Reason::Small,
        Reason::OneNode,
        Reason::CostModel,
        Reason::NotCommutative,
        Reason::Scratch,
        Reason::NoCommunicator,
        Reason::Memory,
        Reason::Arguments,
        Reason::Empty,
        Reason::SwitchedOff,
        Reason::DeviceMemory,
    ];

    /// The name in reports and trace lines.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Disabled => "disabled",
            Reason::Chosen => "chosen",
            Reason::OneProcess => "one_process",
            Reason::InterCommunicator => "inter_communicator",
            Reason::OtherJob => "other_job",
            Reason::Small => "small",
            Reason::OneNode => "one_node",
            Reason::CostModel => "cost_model",
            Reason::NotCommutative => "not_commutative",
            Reason::Scratch => "scratch",
            Reason::NoCommunicator => "no_communicator",
            Reason::Memory => "memory",
            Reason::Arguments => "arguments",
            Reason::Empty => "empty",
            Reason::SwitchedOff => "switched_off",
            Reason::DeviceMemory => "device_memory",
        }
    }
}

/// What is done with a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// It goes to the MPI library's own collective, arguments untouched.
    Native(Reason),
    /// It is ours, in so many blocks (at least 1; the engine lowers it to the number of elements).
    Circulant {
        /// n: the number of blocks.
        blocks: usize,
    },
}

/// Decides who runs `call`.
///
/// From the strongest rule to the weakest: one process, `CIRCULANT_DISABLE` and an operation's
/// `native` go native; what MPI has no function for is ours; an empty message goes native;
/// `CIRCULANT_FORCE` takes what is left; a message smaller than `CIRCULANT_MIN_BYTES` goes native; an
/// operation's `circulant` takes what is left; and `auto` takes a call if its processes are on several
/// nodes and the cost model predicts a gain.
pub fn choose(call: &Call, settings: &Settings) -> Choice {
    let mode = settings.of(call.operation).mode;
    if call.processes <= 1 {
        Choice::Native(Reason::OneProcess)
    } else if settings.disable {
        Choice::Native(Reason::Disabled)
    } else if mode == Mode::Native {
        Choice::Native(Reason::Chosen)
    } else if call.operation.is_added() {
        Choice::Circulant { blocks: 1 }
    } else if call.bytes == 0 {
        Choice::Native(Reason::Empty)
    } else if settings.force {
        Choice::Circulant {
            blocks: blocks(call, settings),
        }
    } else if call.bytes < settings.min_bytes {
        Choice::Native(Reason::Small)
    } else if mode == Mode::Circulant {
        Choice::Circulant {
            blocks: blocks(call, settings),
        }
    } else {
        choose_without_harm(call, settings)
    }
}

/// How operands that grow are exchanged. Nothing but the settings is known to all processes before: how
/// long operands are, each knows of its own only. Algorithm 2 sends the least, and combines the least
/// (three times all elements at most, Algorithm 0 log2 p times), in as few rounds as any.
pub fn merging(settings: &Settings) -> Merging {
    match settings.merging {
        Merging::Auto => Merging::Circulant,
        chosen => chosen,
    }
}

/// The largest value of successive broadcasts that may go from owner to owner without being asked for, in bytes:
/// larger ones wait for ports, and not for messages. 4 KiB and what goes before them.
const RELAYED_VALUE: usize = (4 << 10) + 64;
/// The most memory for values that go so, in bytes.
const RELAYED_MEMORY: u64 = 16 << 20;
/// Of how many steps for each process the two ways are compared.
const COMPARED_STEPS: usize = 12;

/// How values of successive broadcasts go that take up `bytes` bytes, with what goes before them; auto where that is to
/// be measured. Where each process has few steps, that would not pay; and two processes send as much either way.
pub fn succession(
    settings: &Settings,
    (processes, steps): (usize, usize),
    bytes: usize,
) -> Succession {
    let memory = bytes.saturating_mul(2).saturating_mul(processes) as u64;
    if memory > RELAYED_MEMORY.min(settings.scratch_max) {
        return Succession::Trees;
    }
    match settings.succession {
        Succession::Relay => Succession::Relay,
        Succession::Auto
            if processes > 2 && bytes <= RELAYED_VALUE && steps / COMPARED_STEPS >= processes =>
        {
            Succession::Auto
        }
        _ => Succession::Trees,
    }
}

/// The largest broadcast that [`follows`], in bytes: larger ones gain from being cut.
pub const FOLLOWS_MAX: u64 = 64 << 10;

/// Whether `call`, a broadcast, goes along the tree of successive broadcasts if its root is the next owner
/// after the root of the broadcast before on its communicator. Stronger than what [`choose`] says of it.
pub fn follows(call: &Call, settings: &Settings) -> bool {
    settings.bcast_order == BcastOrder::Gray
        && call.processes > 1
        && !settings.disable
        && settings.of(call.operation).mode != Mode::Native
        && (1..=FOLLOWS_MAX).contains(&call.bytes)
}

/// What circulant's predicted time has to be less than, over native's: a gain of less is none that the
/// cost model could tell.
const LEAST_GAIN: f64 = 0.95;

/// The rule of `auto` for a message that is not small.
fn choose_without_harm(call: &Call, settings: &Settings) -> Choice {
    if call.nodes <= 1 {
        return Choice::Native(Reason::OneNode);
    }
    let blocks = blocks(call, settings);
    if cost::circulant(call, blocks) < LEAST_GAIN * cost::native(call) {
        Choice::Circulant { blocks }
    } else {
        Choice::Native(Reason::CostModel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn call(bytes: u64, processes: usize, nodes: usize) -> Call {
        Call {
            operation: Operation::Bcast,
            bytes,
            largest: bytes,
            processes,
            smaller_group: 0,
            nodes,
        }
    }

    fn settings(mode: Mode) -> Settings {
        let mut settings = Settings::default();
        settings.operations[Operation::Bcast as usize].mode = mode;
        settings
    }

    fn is_ours(choice: Choice) -> bool {
        matches!(choice, Choice::Circulant { .. })
    }

    #[test]
    fn tables_are_in_the_order_of_the_discriminants() {
        for (index, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, index);
        }
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        names.extend(Operation::ALL.iter().map(|operation| operation.name()));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::COUNT + Operation::COUNT);
    }

    #[test]
    fn phases_are_the_logarithm_rounded_up() {
        let phases = |processes| call(0, processes, 1).phases();
        assert_eq!([1, 2, 3, 4, 5, 16, 17].map(phases), [0, 1, 2, 2, 3, 4, 5]);
        for q in 1..=20 {
            assert_eq!(phases(1 << q), q);
            assert_eq!(phases((1 << q) + 1), q + 1);
        }
        assert_eq!(phases(usize::MAX), usize::BITS);
    }

    #[test]
    fn auto_takes_a_call_only_where_a_gain_is_predicted() {
        let auto = Settings::default();
        assert!(is_ours(choose(&call(64 * MIB, 16, 16), &auto)));
        assert_eq!(
            choose(&call(64 * MIB, 16, 1), &auto),
            Choice::Native(Reason::OneNode)
        );
        assert_eq!(
            choose(&call(100, 16, 16), &auto),
            Choice::Native(Reason::Small)
        );
        assert_eq!(
            choose(&call(65536, 16, 16), &auto),
            Choice::Native(Reason::CostModel)
        );
        // A flat circulant graph would cross each node's port 32 times over.
        assert_eq!(
            choose(&call(64 * MIB, 1152, 36), &auto),
            Choice::Native(Reason::CostModel)
        );
    }

    /// Equal parts need few rounds, so the model's small differences must not decide.
    #[test]
    fn auto_leaves_what_native_does_as_well() {
        let auto = Settings::default();
        for processes in [4, 16, 31, 1000] {
            for operation in [
                Operation::Allgather,
                Operation::Alltoall,
                Operation::Gather,
                Operation::Scatter,
            ] {
                let bytes = 65536;
                let call = Call {
                    operation,
                    largest: bytes / processes as u64,
                    ..call(bytes, processes, processes)
                };
                assert_eq!(choose(&call, &auto), Choice::Native(Reason::CostModel));
            }
            let allreduce = Call {
                operation: Operation::Allreduce,
                ..call(4 * MIB, processes, processes)
            };
            assert!(is_ours(choose(&allreduce, &auto)));
        }
    }

    #[test]
    fn mode_circulant_leaves_only_the_small() {
        let ours = settings(Mode::Circulant);
        assert!(is_ours(choose(&call(65536, 16, 1), &ours)));
        assert_eq!(
            choose(&call(65535, 16, 1), &ours),
            Choice::Native(Reason::Small)
        );
    }

    #[test]
    fn force_takes_whatever_can_be_taken() {
        let force = |mode| Settings {
            force: true,
            ..settings(mode)
        };
        for mode in [Mode::Auto, Mode::Circulant] {
            assert_eq!(
                choose(&call(1, 2, 1), &force(mode)),
                Choice::Circulant { blocks: 1 }
            );
            assert_eq!(
                choose(&call(0, 2, 1), &force(mode)),
                Choice::Native(Reason::Empty)
            );
            assert_eq!(
                choose(&call(1, 1, 1), &force(mode)),
                Choice::Native(Reason::OneProcess)
            );
        }
        assert_eq!(
            choose(&call(1, 2, 1), &force(Mode::Native)),
            Choice::Native(Reason::Chosen)
        );
        let disabled = Settings {
            disable: true,
            ..force(Mode::Circulant)
        };
        assert_eq!(
            choose(&call(1, 2, 1), &disabled),
            Choice::Native(Reason::Disabled)
        );
    }

    #[test]
    fn a_mode_is_its_operations_own() {
        let native = settings(Mode::Native);
        for operation in Operation::ALL {
            let call = Call {
                operation,
                ..call(1 << 40, 64, 64)
            };
            let choice = choose(&call, &native);
            assert_eq!(
                choice == Choice::Native(Reason::Chosen),
                operation == Operation::Bcast
            );
        }
    }

    #[test]
    fn extreme_calls_are_chosen_without_overflow() {
        let sizes = [0, 1, 65536, 1 << 31, 1 << 40, u64::MAX];
        let counts = [0, 1, 2, 3, 1 << 20, usize::MAX];
        for operation in Operation::ALL {
            for (bytes, processes) in sizes.into_iter().flat_map(|m| counts.map(|p| (m, p))) {
                for nodes in counts {
                    let call = Call {
                        operation,
                        bytes,
                        largest: bytes,
                        processes,
                        smaller_group: 0,
                        nodes,
                    };
                    if let Choice::Circulant { blocks } = choose(&call, &Settings::default()) {
                        let is_worth_it = nodes > 1 || operation.is_added();
                        assert!(blocks >= 1 && processes > 1 && is_worth_it, "{call:?}");
                    }
                }
            }
        }
    }
}
