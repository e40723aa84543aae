//! What is known of a call, identically on every rank; and why a call goes native.

use strum::{EnumCount, EnumIter, IntoStaticStr, VariantArray, VariantNames};

use crate::nodes::Nodes;

/// What a choice depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The operation that the program called.
    pub operation: Operation,
    /// m: the bytes of the whole problem. Broadcast, reduction and allreduce: the message; the
    /// others: the sum over the ranks.
    pub bytes: u64,
    /// The largest part of it that belongs to one rank.
    pub largest: u64,
    /// The most blocks that this can be cut into: one a byte, or one an element where they are
    /// combined.
    pub units: u64,
    /// In which order operands may be combined.
    pub order: Order,
    /// p: the processes of the communicator; of an inter-communicator, those of both groups, or the
    /// root and the other group.
    pub processes: usize,
    /// On an inter-communicator, the processes of its smaller group; in a broadcast 1, the root.
    /// Elsewhere 0. On an inter-communicator, `bytes` are those of the group that has more, and
    /// `largest` is the largest contribution of all processes.
    pub smaller_group: usize,
    /// The nodes (shared-memory domains) on which they are.
    pub nodes: usize,
    /// The fewest processes on a node, if there are not as many on each.
    pub smallest_node: Option<usize>,
    /// A broadcast: whether its root is the next owner after the root of the broadcast before.
    pub follows: bool,
    /// Whose collectives run the call otherwise.
    pub library: Library,
    /// What is not known yet. The other fields then say what speaks for circulant: the most bytes,
    /// processes and nodes, and no large part.
    pub unknown: Unknown,
}

/// What not all processes know of a call between groups when it is first chosen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Unknown {
    /// All is known.
    Nothing,
    /// The nodes.
    Nodes,
    /// The nodes and the sizes.
    Sizes,
    /// The nodes, the sizes, and how many processes take part.
    Processes,
}

/// The MPI library, as far as it matters what its collectives take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Library {
    /// MPICH itself. What is built from it may have other algorithms.
    Mpich,
    /// Open MPI 4, from 4.1 on.
    OpenMpi4,
    /// Open MPI 5, whose broadcasts, reductions and allreduces know the nodes.
    OpenMpi5,
    /// Any other: it is charged for the fastest algorithms that one of them has.
    Other,
}

impl Library {
    /// That of this version, as MPI_Get_library_version has it.
    pub fn of_version(version: &str) -> Library {
        if version.starts_with("MPICH Version") {
            return Library::Mpich;
        }
        let numbers = version.strip_prefix("Open MPI v").map(|rest| {
            let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
            [(); 2].map(|()| numbers.next().and_then(|number| number.parse::<u32>().ok()))
        });
        match numbers {
            Some([Some(4), Some(1..)]) => Library::OpenMpi4,
            Some([Some(5), _]) => Library::OpenMpi5,
            _ => Library::Other,
        }
    }
}

/// In which order operands may be combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, VariantArray, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Order {
    /// In any: not even the last bit of the result depends on it.
    Any,
    /// In any.
    Commutative,
    /// In that of the ranks.
    Ranks,
}

impl Facts {
    /// A call of which nothing else is known, on `processes` processes, each on its own node.
    pub fn new(operation: Operation, processes: usize) -> Facts {
        Facts {
            operation,
            bytes: 0,
            largest: 0,
            units: u64::MAX,
            order: Order::Commutative,
            processes,
            smaller_group: 0,
            nodes: processes,
            smallest_node: None,
            follows: false,
            library: Library::Other,
            unknown: Unknown::Nothing,
        }
    }

    /// Bytes of a slot of shared memory with which such a call takes one step, or a little more.
    pub fn wanted_slot(&self) -> u64 {
        match self.operation {
            Operation::Allgather | Operation::Allgatherv | Operation::Gather => self.largest,
            _ => self.bytes,
        }
    }

    /// A call of so many bytes, of which each process has as many.
    #[cfg(test)]
    pub(super) fn regular(
        operation: Operation,
        bytes: u64,
        processes: usize,
        nodes: usize,
    ) -> Facts {
        Facts {
            bytes,
            largest: bytes / processes as u64,
            nodes,
            ..Facts::new(operation, processes)
        }
    }

    /// The same call on these nodes.
    pub fn on(self, nodes: &Nodes) -> Facts {
        Facts {
            nodes: nodes.count(),
            smallest_node: Some(nodes.smallest()).filter(|_| !nodes.are_equal()),
            ..self
        }
    }

    /// Whether there are others to exchange something with.
    pub fn moves_something(&self) -> bool {
        self.processes > 1 && self.bytes > 0
    }

    /// Whether the bits of the result depend on the order in which elements are combined, and that
    /// may be any.
    pub(super) fn has_rounded_result(&self) -> bool {
        self.operation.combines() && self.order == Order::Commutative
    }

    /// Whether one process moves everything: as the root, or since all others' parts are empty.
    pub(super) fn is_of_one(&self) -> bool {
        let has_parts = !self.operation.is_whole() && self.operation.is_pipelined();
        self.operation.is_rooted() || has_parts && self.largest == self.bytes
    }

    /// q = ceil(log2 p): the rounds that one block needs to reach every process.
    pub(super) fn phases(&self) -> u32 {
        phases(self.processes)
    }

    /// The fewest processes that share one node.
    pub(super) fn least_processes_per_node(&self) -> usize {
        let evenly = self.processes / self.nodes.max(1);
        self.smallest_node.unwrap_or(evenly)
    }

    /// The most processes that share one node, if they are spread evenly.
    pub(super) fn processes_per_node(&self) -> usize {
        self.processes.div_ceil(self.nodes.max(1))
    }
}

/// q = ceil(log2 p), in integers: a logarithm may be rounded differently on another machine.
pub(super) fn phases(processes: usize) -> u32 {
    usize::BITS - processes.saturating_sub(1).leading_zeros()
}

/// Why a call went to the MPI library's own collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug, EnumCount, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
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
    /// Some process of the job is without circulant, or has another version.
    NotEverywhere,
    /// The message is smaller than `CIRCULANT_MIN_BYTES`.
    Small,
    /// All processes share one node.
    OneNode,
    /// The cost model predicts the native collective to be faster.
    CostModel,
    /// The time of the native collective is being taken.
    Trial,
    /// The native collective was the fastest.
    Measured,
    /// `CIRCULANT_SELECT` says that calls are only observed.
    Observed,
    /// The operator is not commutative, and no algorithm for the operation keeps the order of
    /// ranks.
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
    /// The processes of the node cannot share memory, or elements cannot be combined there.
    SharedMemory,
    /// A buffer is in the memory of a device.
    DeviceMemory,
    /// A check of a call of the same operation and size class found another result than the MPI
    /// library's.
    Differed,
}

impl Reason {
    /// The name in reports and trace lines.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A collective operation that circulant can run itself. The discriminants index every table that
/// has one entry per operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(usize)]
pub enum Operation {
    /// `MPI_Bcast`
    Bcast,
    /// `MPI_Reduce`
    Reduce,
    /// `MPI_Allgather`
    Allgather,
    /// `MPI_Allgatherv`
    Allgatherv,
    /// `MPI_Reduce_scatter_block`
    ReduceScatterBlock,
    /// `MPI_Reduce_scatter`
    ReduceScatter,
    /// `MPI_Allreduce`
    Allreduce,
    /// `MPI_Alltoall`
    Alltoall,
    /// `MPI_Gather`
    Gather,
    /// `MPI_Scatter`
    Scatter,
    /// `circulant_successive_bcast`
    SuccessiveBcast,
    /// `circulant_allgather_merge`
    AllgatherMerge,
    /// `circulant_allreduce_v`
    AllreduceV,
}

impl Operation {
    /// How many operations, the first ones, are MPI's.
    pub const OF_MPI: usize = 10;

    /// How many operations, the first ones, can be pipelined in several blocks.
    pub const PIPELINED: usize = 6;

    /// The name in reports: that of the function, in lower case, without `mpi_` or `circulant_`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it moves one message from or to one process. The others move one message per process
    /// at once, so that a round's message is made of many blocks.
    pub const fn is_rooted(self) -> bool {
        matches!(self, Operation::Bcast | Operation::Reduce)
    }

    /// Whether all processes have the whole problem, before or after it. In the others each has a
    /// part of it.
    pub const fn is_whole(self) -> bool {
        self.is_rooted() || matches!(self, Operation::Allreduce)
    }

    /// Whether it combines elements.
    pub const fn combines(self) -> bool {
        matches!(
            self,
            Operation::Reduce
                | Operation::ReduceScatter
                | Operation::ReduceScatterBlock
                | Operation::Allreduce
        )
    }

    /// Whether MPI has no such function: then native means by several of MPI's collectives.
    pub const fn is_added(self) -> bool {
        self as usize >= Self::OF_MPI
    }

    /// Whether it can be pipelined in several blocks.
    pub const fn is_pipelined(self) -> bool {
        (self as usize) < Self::PIPELINED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_counted_and_compared() {
        let on = |keys: &[u64]| {
            let facts = Facts::new(Operation::Bcast, keys.len());
            let facts = facts.on(&Nodes::of_keys(keys));
            (
                facts.nodes,
                facts.smallest_node,
                facts.least_processes_per_node(),
            )
        };
        assert_eq!(on(&[7, 8, 7]), (2, Some(1), 1));
        assert_eq!(on(&[7, 8, 7, 8, 8]), (2, Some(2), 2));
        assert_eq!(on(&[7, 8, 9]), (3, None, 1));
        assert_eq!(on(&[7, 8, 8, 7]), (2, None, 2));
    }

    #[test]
    fn the_library_is_known_by_its_version() {
        for (version, library) in [
            ("MPICH Version:\t4.0.2", Library::Mpich),
            ("MVAPICH2 Version:\t2.3.7", Library::Other),
            (
                "Open MPI v4.1.4, package: Debian OpenMPI",
                Library::OpenMpi4,
            ),
            ("Open MPI v5.0.8", Library::OpenMpi5),
            ("Open MPI v41.1", Library::Other),
            ("Open MPI v4.0.7, package: x", Library::Other),
            ("Open MPI v", Library::Other),
            ("Intel(R) MPI Library 2021.17", Library::Other),
            ("", Library::Other),
        ] {
            assert_eq!(Library::of_version(version), library, "{version}");
        }
    }

    #[test]
    fn phases_are_the_logarithm_rounded_up() {
        let phases = |processes| Facts::new(Operation::Bcast, processes).phases();
        assert_eq!([1, 2, 3, 4, 5, 16, 17].map(phases), [0, 1, 2, 2, 3, 4, 5]);
        for q in 1..=20 {
            assert_eq!(phases(1 << q), q);
            assert_eq!(phases((1 << q) + 1), q + 1);
        }
        assert_eq!(phases(usize::MAX), usize::BITS);
    }

    #[test]
    fn several_processes_exchange_bytes_if_there_are_any() {
        let moves = |processes, bytes| {
            let facts = Facts {
                bytes,
                ..Facts::new(Operation::Bcast, processes)
            };
            facts.moves_something()
        };
        assert!(moves(2, 1) && moves(1000, 1 << 40));
        assert!(!moves(1, 1) && !moves(2, 0) && !moves(1, 0) && !moves(0, 1));
    }
}
