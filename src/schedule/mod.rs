//! Skips, baseblocks, receive and send schedules of the circulant broadcast (J. L. Träff, "Optimal
//! Broadcast Schedules in Logarithmic Time with Applications to Broadcast, All-Broadcast, Reduction
//! and All-Reduction", 2024; "the paper" in this module).
//!
//! p processes, of which 0 is the root (others renumber), broadcast blocks 0, 1, 2, ... in phases
//! of q = ceil(log2 p) rounds. In round k of every phase, process r sends to `r + skip[k]` and
//! receives from `r - skip[k]`, modulo p. Which block is the matter of the two schedules: in phase
//! j, r sends `send[k] + j q` and receives `recv[k] + j q`, and a negative block is none. Correct
//! schedules fulfil the paper's four conditions:
//!
//! 1. what r receives in round k is what `r - skip[k]` sends;
//! 2. what r sends in round k is what `r + skip[k]` receives;
//! 3. over the q rounds, r receives blocks -1, ..., -q, but its baseblock b in place of b - q;
//! 4. r sends only b - q, or what it has received in an earlier round of the phase.
//!
//! | file | what it computes | from the paper |
//! | --- | --- | --- |
//! | `skips` | skips, one baseblock, all baseblocks | Algorithms 2 and 3, Lemma 3 |
//! | `process` | receive and send schedule of one process, O(log p) | Algorithms 5 and 6 |
//! | `descent` | a process's place in its segment, and the next entry | Algorithm 6, Lemma 4 |
//! | `search` | the few entries that the segments do not give | Algorithm 4 |
//! | `table` | the receive schedules of all processes, O(p log p) | Observation 2, Lemma 3 |
//! | `sequence` | other skips, for many blocks a round | another paper's Algorithm 1, Corollary 2 |
//! | `probe` | counts of the steps that Theorems 2 and 3 bound | |
//!
//! Checks and measurements are in `docs/research/schedules.md`.

#![forbid(unsafe_code)]

mod descent;
mod probe;
mod process;
mod search;
mod sequence;
mod skips;
mod table;

pub use probe::{Counts, Probe};
pub use process::{
    receive_schedule, receive_schedule_with, schedules, send_schedule, send_schedule_with,
};
pub use sequence::{Rule, Sequence};
pub use skips::{MAX_Q, Skips};
pub use table::Table;
