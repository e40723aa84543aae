//! What was done: counters of this process, the report at the end of the run, the trace line.
//!
//! Counting is on the path of every call, also of those that go native, so it is a few relaxed
//! additions to static arrays: no lock, no allocation, no thread-local state. A report that is
//! made while other threads still call MPI may hold a part of their latest calls.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `outcome` | who ran a call, and its work |
//! | `counters` | counters by operation and outcome |
//! | `tally` | counters by operation and size |
//! | `by_size` | what circulant saved, and could save, in this process |
//! | `over_ranks` | the calls of all processes |
//! | `page` | the report as text and as JSON |
//! | `table` | a table of text |
//! | `destination` | where it is written |
//! | `trace` | a line for each call |

#![forbid(unsafe_code)]

mod by_size;
mod counters;
mod destination;
mod outcome;
mod over_ranks;
mod page;
mod table;
mod tally;
mod trace;

pub use by_size::three_decimals;
pub use counters::{calls, count, count_check, total_calls};
pub use destination::{Destination, complete, write, write_first};
pub use outcome::{Outcome, Work};
pub use over_ranks::{Local, OverRanks};
pub use page::{All, Header, render_text};
pub use tally::{Origin, count_by_size};
pub use trace::{Trace, trace_line};
