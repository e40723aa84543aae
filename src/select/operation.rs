//! The operations: those of MPI that circulant takes over, and those that it adds.

/// A collective operation that circulant can run itself. The discriminants index every table that
/// has one entry per operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// How many operations there are: the length of a table with one entry per operation.
    pub const COUNT: usize = Self::ALL.len();

    /// Every operation, in the order of the discriminants.
    pub const ALL: [Operation; 13] = [
        Operation::Bcast,
        Operation::Reduce,
        Operation::Allgather,
        Operation::Allgatherv,
        Operation::ReduceScatterBlock,
        Operation::ReduceScatter,
        Operation::Allreduce,
        Operation::Alltoall,
        Operation::Gather,
        Operation::Scatter,
        Operation::SuccessiveBcast,
        Operation::AllgatherMerge,
        Operation::AllreduceV,
    ];

    /// How many operations, the first ones, are MPI's.
    pub const OF_MPI: usize = 10;

    /// How many operations, the first ones, can be pipelined in several blocks.
    pub const PIPELINED: usize = 6;

    /// The name in reports: that of the function, in lower case, without `mpi_` or `circulant_`.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Bcast => "bcast",
            Operation::Reduce => "reduce",
            Operation::Allgather => "allgather",
            Operation::Allgatherv => "allgatherv",
            Operation::ReduceScatterBlock => "reduce_scatter_block",
            Operation::ReduceScatter => "reduce_scatter",
            Operation::Allreduce => "allreduce",
            Operation::Alltoall => "alltoall",
            Operation::Gather => "gather",
            Operation::Scatter => "scatter",
            Operation::SuccessiveBcast => "successive_bcast",
            Operation::AllgatherMerge => "allgather_merge",
            Operation::AllreduceV => "allreduce_v",
        }
    }

    /// Whether it moves one message from or to one process. The others move one message per process
    /// at once, so that a round's message is made of many blocks.
    pub const fn is_rooted(self) -> bool {
        matches!(self, Operation::Bcast | Operation::Reduce)
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
