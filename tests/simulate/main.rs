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
//! | `composed` | how an algorithm is composed from stages: a node-aware allreduce |
//! | `intergroup` | allgathers between two groups, against the paper's theorems |
//! | `leaders` | algorithms by leaders of nodes: rounds, and units through the ports of nodes |
//! | `merge` | growing operands: results, rounds, elements and memory, against the paper's bounds |
//! | `port_model` | owners, trees and relays of successive broadcasts: time, conflicts, errors |

mod collectives;
mod composed;
mod drawn;
mod intergroup;
mod leaders;
mod merge;
mod port_model;
mod simulator;
