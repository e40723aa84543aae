//! Simulators, and the tests that run on them: p ranks in the memory of one thread, without MPI.
//!
//! | simulator | what it runs | tests on it |
//! | --- | --- | --- |
//! | `simulator` | the engine, on the stages of calls | `collectives` to `intergroup` |
//! | `simulator::growing` | the executor of reductions whose operand grows | `merge` |
//! | `simulator::successive` | the executor of successive broadcasts, with a clock | `port_model` |
//!
//! | tests | what they check |
//! | --- | --- |
//! | `collectives` | every plan: results, rounds and units, against the papers' formulas |
//! | `drawn` | drawn stages, teams, lengths, pacing and delivery, against a serial computation |
//! | `serial` | no tests: the serial computation, for `drawn` and for fuzzing |
//! | `composed` | how an algorithm is composed from stages: a node-aware allreduce |
//! | `intergroup` | allgathers between two groups, against the paper's theorems |
//! | `leaders` | algorithms by leaders of nodes: rounds, and units through the ports of nodes |
//! | `merge` | growing operands: results, rounds, elements and memory, against the paper's bounds |
//! | `plans` | what plans say of their rounds: blocks, sources, how long partial results are needed |
//! | `port_model` | owners, trees and relays of successive broadcasts: time, conflicts, errors |
//!
//! With SIMULATE_ALL set, every number of processes is simulated. Otherwise those above 40 are a
//! choice.

use std::env;

mod collectives;
mod composed;
mod drawn;
mod intergroup;
mod lanes;
mod leaders;
mod merge;
mod plans;
mod port_model;
mod serial;
mod simulator;

/// Whether everything is to be simulated, whatever time that takes.
fn is_whole() -> bool {
    env::var_os("SIMULATE_ALL").is_some()
}

/// Numbers of processes from 1 to `most`: all, or of those above 40 one in eleven, and those next to
/// powers of two.
fn processes(most: usize) -> impl Iterator<Item = usize> {
    let is_near_power = |p: usize| [p - 1, p, p + 1].iter().any(|near| near.is_power_of_two());
    let is_whole = is_whole();
    (1..=most).filter(move |&p| is_whole || p <= 40 || p % 11 == 3 || is_near_power(p))
}
