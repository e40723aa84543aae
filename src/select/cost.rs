//! The cost model: predicted seconds of a call, run by circulant or by the MPI library.
//!
//! A process sends one message and receives one message at a time (one-ported); a message of b
//! bytes takes alpha + beta b. Time for combining operands is left out: both sides spend it.
//!
//! - circulant: n - 1 + q rounds of one message of m/n bytes; or, with one block, q rounds of as many
//!   consecutive blocks as the skips say. A flat circulant graph takes no
//!   notice of nodes: nearly every message leaves its node, so the processes of a node share its
//!   port, and beta counts as often as there are processes on it.
//! - native: the start-ups of its pattern, and a factor times the port's time for m bytes. Native
//!   collectives may be node-aware: where processes share a node they are charged neither for its
//!   port nor a factor. Nor are they between few nodes, where there is little to gain. Both err on
//!   the side of leaving a call native.
//!
//! Every constant here is shipped, not fitted to the machine that the program runs on.

use super::blocks::one_block_volume;
use super::{Algorithm, Facts, Operation};

/// Start-up of one message, in seconds: TCP on 10 Gbit/s-class Ethernet.
const ALPHA: f64 = 30e-6;

/// Time per byte, in seconds: TCP on 10 Gbit/s-class Ethernet.
const BETA: f64 = 0.8e-9;

/// The volume of each native collective: its time over the time that one port needs for the m
/// bytes of the problem (where each process has a part, for the other parts), for large m. Measured over TCP with the collectives of common MPI
/// libraries; where they differ, the fastest counts.
const fn native_volume(operation: Operation) -> f64 {
    match operation {
        Operation::Bcast | Operation::Reduce => 2.6,
        Operation::Allgather => 1.05,
        Operation::Allgatherv => 1.1,
        Operation::ReduceScatterBlock | Operation::ReduceScatter => 1.15,
        Operation::Allreduce => 2.9,
        // What MPI has no function for is not compared.
        _ => 1.0,
    }
}

/// From how many bytes on a native allgather is a ring: MPICH's default of
/// `MPIR_CVAR_ALLGATHER_LONG_MSG_SIZE`. Where p is no power of two, it is one from 80 KiB on; the
/// larger of the two errs on the side of leaving a call native.
const RING_FROM: u64 = 512 << 10;

/// Between so many nodes native collectives cost about what the wire does.
const FEW_NODES: usize = 3;

/// The start-ups of a native collective: those of a tree, and for a ring one a process.
fn native_startups(call: &Facts) -> f64 {
    let is_ring = call.operation == Operation::Allgather && call.bytes >= RING_FROM;
    let around = if is_ring { call.processes as f64 } else { 0.0 };
    f64::from(call.phases()) + around
}

/// Predicted seconds of `call`, run by `algorithm`.
pub fn circulant(call: &Facts, algorithm: Algorithm) -> f64 {
    let is_allreduce = call.operation == Operation::Allreduce;
    match algorithm {
        Algorithm::Circulant { blocks } => pipelined(call, blocks),
        Algorithm::Doubling { .. } if is_allreduce => 2.0 * one_block(call),
        Algorithm::Doubling { .. } => one_block(call),
        Algorithm::Ordered { .. } if is_allreduce => in_order(call) + one_block(call),
        Algorithm::Ordered { .. } => in_order(call),
        Algorithm::Exchange { .. } => across_groups(call),
        // These save start-ups, which their native forms do as well where messages are small.
        _ => f64::from(call.phases()) * messages(call, 1.0, call.bytes as f64),
    }
}

/// Predicted seconds of a reduce-scatter in which every process sends a block to every other.
fn in_order(call: &Facts) -> f64 {
    let (all, others) = (call.bytes as f64, call.processes.saturating_sub(1) as f64);
    messages(call, others, all * others / (others + 1.0))
}

/// Predicted seconds between two groups: an exchange and an allgather; and perhaps another, of sizes,
/// before. The largest contribution takes the longest in the exchange (Kang et al., Theorem 3).
fn across_groups(call: &Facts) -> f64 {
    let larger_group = call.processes.saturating_sub(call.smaller_group);
    let exchange = larger_group.div_ceil(call.smaller_group) + 1;
    let rounds = exchange as f64 + 2.0 * f64::from(call.phases());
    messages(call, rounds, call.bytes as f64 + call.largest as f64)
}

/// Predicted seconds of a pipeline of `blocks` blocks.
fn pipelined(call: &Facts, blocks: usize) -> f64 {
    let rounds = blocks as f64 - 1.0 + f64::from(call.phases());
    rounds * messages(call, 1.0, call.bytes as f64 / blocks as f64)
}

/// Predicted seconds of a reduce-scatter or an allgather with one block.
fn one_block(call: &Facts) -> f64 {
    messages(call, f64::from(call.phases()), one_block_volume(call))
}

/// Predicted seconds of `rounds` messages of `bytes` bytes together.
fn messages(call: &Facts, rounds: f64, bytes: f64) -> f64 {
    ALPHA * rounds + BETA * bytes * call.processes_per_node() as f64
}

/// Predicted seconds of `call`, run by the MPI library.
pub fn native(call: &Facts) -> f64 {
    if call.smaller_group > 0 {
        return native_across_groups(call);
    }
    let volume = if call.nodes <= FEW_NODES || call.processes_per_node() > 1 {
        1.0
    } else {
        native_volume(call.operation)
    };
    let bytes = match call.operation {
        Operation::Bcast | Operation::Reduce | Operation::Allreduce => call.bytes as f64,
        _ => call.bytes as f64 * (1.0 - 1.0 / call.processes.max(1) as f64),
    };
    native_startups(call) * ALPHA + volume * BETA * bytes
}

/// Predicted seconds of the root gathering algorithm, which all MPI libraries here have, at its best:
/// a gather, an exchange between two roots and a broadcast, each of all bytes (Kang et al., equation 1).
/// A broadcast goes from the root to one process of the other group, and from there to all. Not
/// node-aware; yet where processes share a node, they are charged as if they were.
fn native_across_groups(call: &Facts) -> f64 {
    let volume = if call.nodes <= FEW_NODES || call.processes_per_node() > 1 {
        1.0
    } else if call.operation == Operation::Bcast {
        1.0 + native_volume(Operation::Bcast)
    } else {
        3.0
    };
    2.0 * f64::from(call.phases()) * ALPHA + volume * BETA * call.bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(operation: Operation, bytes: u64, processes: usize, nodes: usize) -> Facts {
        Facts {
            bytes,
            largest: bytes / processes as u64,
            nodes,
            ..Facts::new(operation, processes)
        }
    }

    fn blocks(blocks: usize) -> Algorithm {
        Algorithm::Circulant { blocks }
    }

    const DOUBLING: Algorithm = Algorithm::Doubling { segment: 32768 };
    const ORDERED: Algorithm = Algorithm::Ordered { segment: 32768 };

    /// The number of blocks with the least predicted time is the formula's, sqrt((q - 1) beta m /
    /// alpha), found here by trying all.
    #[test]
    fn the_best_number_of_blocks_is_where_the_derivative_is_zero() {
        for (bytes, processes) in [(1_000_000, 16), (50_000_000, 17), (300_000, 1000)] {
            let bcast = call(Operation::Bcast, bytes, processes, processes);
            let cost = |n: usize| circulant(&bcast, blocks(n));
            let best = (1..20_000).min_by(|&a, &b| cost(a).total_cmp(&cost(b)));
            let q = f64::from(bcast.phases());
            let formula = ((q - 1.0) * BETA * bytes as f64 / ALPHA).sqrt();
            let distance = best.map(|best| (best as f64 - formula).abs());
            assert!(
                distance.is_some_and(|distance| distance <= 1.0),
                "{best:?} {formula}"
            );
        }
    }

    /// What each algorithm's file says of its rounds and bytes decides where the times cross.
    #[test]
    fn times_cross_where_rounds_and_bytes_do() {
        let at =
            |operation, bytes, algorithm| circulant(&call(operation, bytes, 16, 16), algorithm);
        let allreduce = |bytes| {
            let census = at(Operation::Allreduce, bytes, Algorithm::Census);
            census < at(Operation::Allreduce, bytes, DOUBLING)
        };
        // 4 rounds of the whole, or 8 rounds of 15/16 of it twice.
        assert!(allreduce(1000) && !allreduce(1_000_000));
        for operation in [Operation::Allreduce, Operation::ReduceScatter] {
            let ordered = at(operation, 1_000_000, ORDERED);
            let halving = at(operation, 1_000_000, DOUBLING);
            // As many bytes, and 11 start-ups more.
            let difference = (ordered - halving) / ALPHA;
            assert!((difference - 11.0).abs() < 1e-6, "{difference}");
        }
        // In one block, a single large part goes q times over the wire, and in several about once.
        let single = Facts {
            largest: 4_000_000,
            ..call(Operation::Allgatherv, 4_000_000, 16, 16)
        };
        let ratio = circulant(&single, DOUBLING) / circulant(&single, blocks(30));
        assert!(ratio > 2.0, "{ratio}");
    }

    #[test]
    fn processes_of_a_node_share_its_port() {
        let shared = call(Operation::Bcast, 1_000_000, 16, 4);
        let apart = call(Operation::Bcast, 1_000_000, 16, 16);
        let (ours, alone) = (
            circulant(&shared, blocks(10)),
            circulant(&apart, blocks(10)),
        );
        assert!(ours > 3.0 * alone && ours < 4.0 * alone, "{ours} {alone}");
        assert!(native(&shared) <= native(&apart));
    }

    #[test]
    fn native_costs_what_the_wire_does_between_few_nodes() {
        for processes in [2, 3] {
            let few = call(Operation::Bcast, 64_000_000, processes, processes);
            assert!((1..10_000).all(|n| circulant(&few, blocks(n)) >= native(&few)));
        }
    }

    #[test]
    fn more_bytes_cost_more() {
        for operation in Operation::ALL
            .into_iter()
            .filter(|operation| !operation.is_added())
        {
            for processes in [2, 3, 17, 1 << 20] {
                let calls = (0..=40).map(|k| call(operation, 1 << k, processes, processes));
                let costs: Vec<_> = calls
                    .map(|c| (circulant(&c, blocks(8)), native(&c)))
                    .collect();
                assert!(
                    costs.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1),
                    "{costs:?}"
                );
                assert!(costs.iter().all(|c| c.0.is_finite() && c.1.is_finite()));
            }
        }
    }
}
