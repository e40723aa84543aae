//! What is kept for a communicator of the program, behind a keyval attribute, and freed with it.
//!
//! Two parts, made when they are first needed. [`State`] comes with the first call that is not
//! small (or the 16th small one): who is there, and the settings on which all processes agree (rank
//! 0's). [`Service`] comes with the first call that is worth it: the private communicator, the
//! team, scratch.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `choosing` | who runs a call: the fastest, or whom the cost model predicts to be; trials |
//! | `closing` | what a process writes when MPI is about to end: profile, report |
//! | `job` | this process in its job: its settings, and where its report goes |
//! | `known` | what was learned on this process's communicators, for new ones |
//! | `learning` | what was measured of its calls |
//! | `lookup` | from a communicator's handle to its state; the end of communicators and of MPI |
//! | `members` | all processes of a private communicator, and how they agree |
//! | `network` | what messages take between its processes |
//! | `roll` | whether each process of the job has circulant |
//! | `sharing` | memory that the processes of one node share |
//! | `state` | who is in a communicator, the agreed settings, the nodes |
//! | `service` | what serves its calls |
//!
//! All decisions here are collective: they depend on agreed values only, or are agreed.

#![forbid(unsafe_code)]

mod choosing;
mod closing;
mod job;
mod known;
mod learning;
mod lookup;
mod members;
mod network;
mod roll;
mod service;
mod sharing;
mod state;

pub use job::{own_settings, process};
pub use known::choice;
pub use lookup::{hook_end, is_small, revoke, while_freed, with_state};
pub use roll::{before_session, commit, while_starting};
pub use service::Service;
pub use state::State;

use crate::mpi::Error;
use crate::select::Reason;
use crate::transport::Mismatch;

/// Why a call is not (or no longer) ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It goes to the MPI library, on all processes, with nothing touched yet.
    Native(Reason),
    /// The same, as is settled for calls like it. It was counted.
    Settled(Reason),
    /// MPI failed in the middle of it.
    Failed(Error),
    /// It was run to its end, but processes disagree on the size of the data.
    Mismatched(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Stop {
        Stop::Native(reason)
    }
}

impl From<Mismatch> for Stop {
    fn from(Mismatch(error): Mismatch) -> Stop {
        Stop::Mismatched(error)
    }
}
