//! The MPI operations that circulant takes over.

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
}

impl Operation {
    /// How many operations there are: the length of a table with one entry per operation.
    pub const COUNT: usize = Self::ALL.len();

    /// Every operation, in the order of the discriminants.
    pub const ALL: [Operation; 6] = [
        Operation::Bcast,
        Operation::Reduce,
        Operation::Allgather,
        Operation::Allgatherv,
        Operation::ReduceScatterBlock,
        Operation::ReduceScatter,
    ];

    /// The name in reports: that of the MPI function, in lower case, without `mpi_`.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Bcast => "bcast",
            Operation::Reduce => "reduce",
            Operation::Allgather => "allgather",
            Operation::Allgatherv => "allgatherv",
            Operation::ReduceScatterBlock => "reduce_scatter_block",
            Operation::ReduceScatter => "reduce_scatter",
        }
    }

    /// Whether one process is the source or the target of the whole message. The others move one
    /// message per process at once, so that a round's message is made of many blocks.
    pub const fn is_rooted(self) -> bool {
        matches!(self, Operation::Bcast | Operation::Reduce)
    }
}
