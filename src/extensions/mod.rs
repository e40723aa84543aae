//! The operations that MPI does not have, each as a whole: from its C functions to its rounds.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`successive`] | broadcasts in order, with callbacks between them: circulant_successive_bcast |
//! | [`growing`] | reductions whose operand grows: circulant_allgather_merge, circulant_allreduce_v |

pub mod growing;
pub mod successive;
