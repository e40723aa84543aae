//! Selection: which calls circulant runs itself, and by which algorithm.
//!
//! [`choose`] is a pure function of values that are identical on every rank: the facts of the call,
//! the shape of the communicator, and the agreed settings. Two ranks that chose differently would
//! wait for each other for ever. So nothing local (addresses, clocks, loads) may enter here, and
//! the arithmetic is limited to IEEE operations that are rounded alike everywhere.
//!
//! No other file decides who runs a call, nor by which algorithm. What cannot be decided from those
//! values is decided elsewhere: whether a call can be run at all (its arguments, the private
//! communicator, memory), and into how many pieces an allreduce is cut for which scratch is short
//! (`call/combination.rs`). A broadcast is cut into as many calls as `CIRCULANT_CHUNKS` says.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `choice` | the decision |
//! | `candidates` | the algorithms that can run a call |
//! | `kind` | which calls are run by the same candidate |
//! | `algorithm` | the algorithms by name, each with its parameters |
//! | `facts` | the operations; what is known of a call; why a call goes native |
//! | `checks` | which calls are checked, and which are native since a check |
//! | `cost` | the cost model and its shipped constants; the number of blocks |
//! | `native` | the same for calls of the MPI library |
//! | `known` | what was learned on communicators; the profile, which holds that |
//! | `latest` | what is settled for calls like the latest |
//! | `learned` | what was measured of the calls of one kind, and who runs the next |
//! | `prospect` | when it is worth measuring a network |
//! | `added` | the functions that MPI does not have |
//! | `roll` | what processes tell each other at the start of a job: who has circulant; settings |
//! | `rules` | the rules of the environment: who runs which calls of an operation |
//! | `sizes` | the largest sizes, and how a size is written |
//! | `settings` | what can be set, and what is shipped |
//! | `environment` | the settings in force, and their agreement between ranks |
//! | `variables` | the table of environment variables |
//! | `variable` | one variable: its text, its value, its place in the settings |

#![forbid(unsafe_code)]

mod added;
mod algorithm;
mod candidates;
mod checks;
mod choice;
mod cost;
mod environment;
mod facts;
mod kind;
mod known;
mod latest;
mod learned;
mod native;
mod prospect;
mod roll;
mod rules;
mod settings;
mod sizes;
mod variable;
mod variables;

pub use added::{faster_way, growing, successive, tries_relay};
pub use algorithm::{Algorithm, Cut};
pub use candidates::{
    CANDIDATES, PLACES, SHARED, candidate, goes_by_blocks, predicted, slot_bytes,
};
pub use checks::Checks;
pub use choice::{choose, choose_on_any_nodes, has_free_blocks, native_below, with_free_blocks};
pub use cost::{Cost, Network, blocks};
pub use environment::{Complaint, ENCODED, InForce, Origin};
pub use facts::{Facts, Library, Operation, Order, Reason, Unknown};
pub use kind::Kind;
pub use known::{Known, Lesson, load_profile, read_profile, store_profile, write_profile};
pub use latest::{Account, Choice, Latest, Past};
pub use learned::{
    Learned, NATIVE, Turn, measured_overhead, memory_of_nodes, overhead, private_communicator,
    slots,
};
pub use prospect::{LARGE, Preparation, Prospect, SMALL, Survey, SurveyedCall};
pub use roll::{Peers, Roll, call_roll, entry};
pub use rules::{CallRule, Mode};
pub use settings::{
    BcastOrder, CHUNKS_MAX, Merging, OperationSettings, Pacing, Select, Settings, Successive,
    TRANSFERS_MAX,
};
pub use sizes::{BLOCKS_MAX, MESSAGE_MAX};
pub use variables::{Description, FIRST, First, describe};
