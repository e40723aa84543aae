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
use super::{Call, Operation};

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
fn native_startups(call: &Call) -> f64 {
    let is_ring = call.operation == Operation::Allgather && call.bytes >= RING_FROM;
    let around = if is_ring { call.processes as f64 } else { 0.0 };
    f64::from(call.phases()) + around
}

/// Predicted seconds of `call`, run by circulant in `blocks` blocks (at least 1).
pub fn circulant(call: &Call, blocks: usize) -> f64 {
    match call.operation {
        Operation::Bcast | Operation::Reduce => pipelined(call, blocks),
        Operation::Allreduce => 2.0 * one_block(call),
        // These save start-ups, which their native forms do as well where messages are small.
        Operation::Alltoall | Operation::Gather | Operation::Scatter => {
            f64::from(call.phases()) * messages(call, 1.0, call.bytes as f64)
        }
        _ if call.smaller_group > 0 => across_groups(call),
        _ if blocks == 1 => one_block(call),
        _ => pipelined(call, blocks),
    }
}

/// Predicted seconds between two groups: an exchange and an allgather; and perhaps another, of sizes,
/// before. The largest contribution takes the longest in the exchange (Kang et al., Theorem 3).
fn across_groups(call: &Call) -> f64 {
    let larger_group = call.processes.saturating_sub(call.smaller_group);
    let exchange = larger_group.div_ceil(call.smaller_group) + 1;
    let rounds = exchange as f64 + 2.0 * f64::from(call.phases());
    messages(call, rounds, call.bytes as f64 + call.largest as f64)
}

/// Predicted seconds of a pipeline of `blocks` blocks.
fn pipelined(call: &Call, blocks: usize) -> f64 {
    let rounds = blocks as f64 - 1.0 + f64::from(call.phases());
    rounds * messages(call, 1.0, call.bytes as f64 / blocks as f64)
}

/// Predicted seconds of a reduce-scatter or an allgather with one block.
fn one_block(call: &Call) -> f64 {
    messages(call, f64::from(call.phases()), one_block_volume(call))
}

/// Predicted seconds of `rounds` messages of `bytes` bytes together.
fn messages(call: &Call, rounds: f64, bytes: f64) -> f64 {
    ALPHA * rounds + BETA * bytes * call.processes_per_node() as f64
}

/// Predicted seconds of `call`, run by the MPI library.
pub fn native(call: &Call) -> f64 {
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
fn native_across_groups(call: &Call) -> f64 {
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

    fn call(operation: Operation, bytes: u64, processes: usize, nodes: usize) -> Call {
        Call {
            operation,
            bytes,
            largest: bytes / processes as u64,
            processes,
            smaller_group: 0,
            nodes,
        }
    }

    fn assert_close(actual: f64, expected: f64) {
        assert!(
            (actual / expected - 1.0).abs() < 1e-12,
            "{actual} is not {expected}"
        );
    }

    #[test]
    fn costs_are_those_of_the_formulas() {
        let bcast = call(Operation::Bcast, 1_000_000, 16, 16);
        assert_close(circulant(&bcast, 10), 13.0 * (30e-6 + 80e-6));
        assert_close(native(&bcast), 4.0 * 30e-6 + 2.6 * 0.8e-3);
        let allgather = |bytes| native(&call(Operation::Allgather, bytes, 16, 16));
        let others = 15.0 / 16.0;
        assert_close(allgather(1_000_000), 20.0 * 30e-6 + 1.05 * others * 0.8e-3);
        assert_close(allgather(500_000), 4.0 * 30e-6 + 1.05 * others * 0.4e-3);
        let one = |operation| circulant(&call(operation, 1_600_000, 16, 16), 1);
        assert_close(one(Operation::Allgather), 4.0 * 30e-6 + others * 1.28e-3);
        assert_close(
            one(Operation::Allreduce),
            8.0 * 30e-6 + 2.0 * others * 1.28e-3,
        );
    }

    #[test]
    fn processes_of_a_node_share_its_port() {
        let shared = call(Operation::Bcast, 1_000_000, 16, 4);
        assert_close(circulant(&shared, 10), 13.0 * (30e-6 + 4.0 * 80e-6));
        assert_close(native(&shared), 4.0 * 30e-6 + 0.8e-3);
    }

    #[test]
    fn native_costs_what_the_wire_does_between_few_nodes() {
        for processes in [2, 3] {
            let few = call(Operation::Bcast, 64_000_000, processes, processes);
            assert!((1..10_000).all(|blocks| circulant(&few, blocks) >= native(&few)));
        }
    }

    #[test]
    fn more_bytes_cost_more() {
        for operation in Operation::ALL {
            for processes in [2, 3, 17, 1 << 20] {
                let calls = (0..=40).map(|k| call(operation, 1 << k, processes, processes));
                let costs: Vec<_> = calls.map(|c| (circulant(&c, 8), native(&c))).collect();
                assert!(
                    costs.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1),
                    "{costs:?}"
                );
                assert!(costs.iter().all(|c| c.0.is_finite() && c.1.is_finite()));
            }
        }
    }
}
