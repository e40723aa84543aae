//! What the MPI library is predicted to take for a reduce-scatter: by its own algorithms where they
//! are known, else by the fastest that an MPI library has.
//!
//! With k = floor(log2 p), q = ceil(log2 p), and e = 0 if p is a power of two, else 1:
//!
//! ```text
//! library                 which calls              pattern      start-ups    bytes
//! MPICH                   m < 512 KiB              halves       k + 2e       (1 - 1/p + e) m
//!                         larger                   pairs        (p - 1)/2    (1 - 1/p) m
//! Open MPI, on nodes of   by its tables, parts     halves       the same
//! several processes       of less than 96 KiB      ring         (p - 1)/2    (1 - 1/p) m
//!                                                  butterfly    q            (1 - 1/p) m
//! others, and larger      parts of less than       halves       the same
//! parts                   96 KiB                   around, from 512 KiB on and on nodes of
//!                                                  several processes
//!                         larger                   as measured  q            1.15 (1 - 1/p) m
//! ```
//!
//! Reasons for what differs from that:
//! 1. Where parts differ, a process passes on each part in turn, so it takes the largest part over
//!    the mean, and at most what a tree does. From 96 KiB a part on it is charged nine tenths of
//!    that: with 4 MB, five MPI libraries take 0.92 times that or more
//!    (docs/research/performance/tables). Below, some halve the problem; there it is charged half.
//!    In Open MPI's ring the largest part goes from node to node after all others have left.
//! 2. MPICH's halves take [more](HALVING_SLOW) from 256 KiB on, its pairs 1.15 times as long from
//!    96 KiB a part on, and Open MPI's butterfly [does](BUTTERFLY_SLOW) from 768 KiB on.
//! 3. In pairs, whatever the nodes are, a port receives p - 1 times the largest part, or the parts
//!    of its node p times, but for what comes from within it.
//! 4. In halves, ranks that are far from each other exchange first. So each process of a node sends
//!    half of the problem and more to other nodes. The last steps are within a node.
//! 5. In a butterfly, neighbours exchange first. On nodes of 2^i processes, placed in blocks, what
//!    is left for other nodes is what a node has to send. On others it is as in halves.
//!
//! All err on the side of leaving a call native, unless something else than the MPI library's own
//! algorithms runs it, such as a vendor's collectives that know the nodes.

use super::super::cost::{Cost, STEP_WITHIN};
use super::super::facts::{Facts, Library, Operation, Order};
use super::spread::{STEP, Spread, are_nodes_aligned};

/// From how many bytes of a part on what native reduce-scatters take was measured. Below, Open MPI
/// 4.1 and MPICH 4.0 are as fast as their patterns where p is a power of two.
const MEASURED_FROM: u64 = 96 << 10;

/// From how many bytes on processes exchange the parts in pairs: MPICH's default of
/// `MPIR_CVAR_REDUCE_SCATTER_COMMUTATIVE_LONG_MSG_SIZE`. With 256 KiB on 7, 17, 31 and 36 nodes,
/// both MPICH and Open MPI still halve.
const PAIRWISE_FROM: u64 = 512 << 10;

/// From how many bytes on MPICH takes more than for the bytes that it exchanges in halves, and how
/// many times these: on 16 nodes it takes 1.27 to 1.31 times what they take, on 17 nodes 1.1.
const HALVING_SLOW_FROM: u64 = 256 << 10;
const HALVING_SLOW: f64 = 1.15;

/// The same of Open MPI's butterfly: on 16 nodes of 4 processes 1.5 times as long with 1 MB, and 2
/// to 3 times with 4 MB.
const BUTTERFLY_SLOW_FROM: u64 = 768 << 10;
const BUTTERFLY_SLOW: f64 = 1.35;

/// The patterns, as far as they differ.
pub(super) fn patterns(call: &Facts, spread: &Spread) -> [Cost; 4] {
    let known = match call.library {
        _ if call.order == Order::Ranks => None,
        Library::Mpich => Some(of_mpich(call, spread)),
        Library::OpenMpi4 | Library::OpenMpi5
            if spread.per_port > 1.0 && !has_large_parts(call) =>
        {
            Some(of_open_mpi(call, spread))
        }
        _ => None,
    };
    known.map_or_else(|| of_any(call, spread), |cost| [cost; 4])
}

fn of_mpich(call: &Facts, spread: &Spread) -> Cost {
    if call.bytes >= PAIRWISE_FROM {
        let least = if has_large_parts(call) { 1.15 } else { 1.0 };
        return in_pairs(spread, irregularity(call).max(least));
    }
    let is_slow = call.bytes >= HALVING_SLOW_FROM;
    in_halves(call, spread, if is_slow { HALVING_SLOW } else { 1.0 })
}

/// Open MPI from 4.1 on, by its tables for p processes and m bytes. MPI_Reduce_scatter_block has
/// no ring. From 64 KiB a part on it reduces to one root and scatters, which takes longer than what
/// is charged.
fn of_open_mpi(call: &Facts, spread: &Spread) -> Cost {
    let (p, m) = (call.processes, call.bytes);
    let is_ring = call.operation == Operation::ReduceScatter
        && match p {
            ..32 => m >= 256 << 10,
            32..64 => m >= 512 << 10,
            _ => false,
        };
    match p {
        _ if is_ring => ring(call, spread),
        32.. if are_nodes_aligned(call) => butterfly(call, spread),
        _ => in_halves(call, spread, 1.0),
    }
}

fn of_any(call: &Facts, spread: &Spread) -> [Cost; 4] {
    if has_large_parts(call) {
        let measured = passed_on(call, spread, 0.9).max(1.15 * spread.others());
        return [spread.cost(spread.phases, measured); 4];
    }
    let startups = spread.whole_phases + 2.0 * spread.excess;
    let [halves, by_root, by_leaders] = spread.unaware_of_nodes(startups, halved(call, spread));
    let around = match spread.per_port == 1.0 && call.bytes < PAIRWISE_FROM {
        true => halves,
        false => around(call, spread),
    };
    [halves, by_root, by_leaders, around]
}

fn has_large_parts(call: &Facts) -> bool {
    call.bytes / call.processes as u64 >= MEASURED_FROM
}

/// The largest part over the mean; 0 of equal parts.
fn irregularity(call: &Facts) -> f64 {
    if call.operation != Operation::ReduceScatter || call.bytes == 0 {
        return 0.0;
    }
    call.largest as f64 * call.processes as f64 / call.bytes as f64
}

/// How many times the problem is passed on, if it is such a part of the largest part over the mean.
fn passed_on(call: &Facts, spread: &Spread, part: f64) -> f64 {
    spread.others() * (part * irregularity(call)).min(spread.port_phases)
}

/// How many times the problem a process sends in halves.
fn halved(call: &Facts, spread: &Spread) -> f64 {
    let regular = spread.others() + spread.excess;
    regular.max(passed_on(call, spread, 0.5))
}

fn in_halves(call: &Facts, spread: &Spread, times: f64) -> Cost {
    let across = spread.port_phases.min(spread.whole_phases) + 2.0 * spread.excess;
    let steps = across + STEP_WITHIN * (spread.phases - spread.port_phases);
    spread.cost(steps, times * spread.per_port * halved(call, spread))
}

fn butterfly(call: &Facts, spread: &Spread) -> Cost {
    let steps = spread.port_phases + STEP_WITHIN * (spread.phases - spread.port_phases);
    let volume = once_a_node(call, spread);
    let is_slow = call.bytes >= BUTTERFLY_SLOW_FROM;
    let times = if is_slow { BUTTERFLY_SLOW } else { 1.0 };
    spread.cost(steps, times * volume)
}

/// The largest part goes from node to node after all others have left.
fn ring(call: &Facts, spread: &Spread) -> Cost {
    let largest = call.largest as f64 / spread.bytes.max(1.0);
    let volume = spread.others().max((spread.ports - 1.0) * largest);
    spread.cost(spread.around(), volume)
}

fn around(call: &Facts, spread: &Spread) -> Cost {
    spread.cost(spread.around(), once_a_node(call, spread))
}

/// How many times the problem a node sends if it sends no part twice, or the largest more often.
fn once_a_node(call: &Facts, spread: &Spread) -> f64 {
    spread.others().max(passed_on(call, spread, 0.5))
}

fn in_pairs(spread: &Spread, irregularity: f64) -> Cost {
    let within = spread.per_port - 1.0;
    let steps = STEP * (spread.processes - 1.0 - within) + STEP_WITHIN * within;
    spread.cost(steps, spread.others() * spread.per_port.max(irregularity))
}

#[cfg(test)]
mod tests {
    use super::super::super::cost::Network;
    use super::super::seconds;
    use super::super::tests::{assert_near, over_the_problem};
    use super::*;

    /// The charge is 0.6 to 1.2 times what was measured. Both are over what a port needs for the
    /// parts of other nodes.
    fn assert_charged_fairly(facts: &Facts, measured: f64) {
        // As on ports of 40 to 160 Mbit/s, where start-ups hardly count.
        let network = Network::measured((8, 60_000), (32_768, 3_300_000));
        let volume = 1.0 - 1.0 / facts.nodes as f64;
        let port = network.seconds(0.0, volume * facts.bytes as f64);
        let charged = seconds(facts, network) / port;
        let is_fair = (0.6 * measured..1.2 * measured).contains(&charged);
        assert!(is_fair, "{facts:?}: {charged}, measured {measured}");
    }

    /// MPICH 4.0.2 on 16 and 17 nodes of one process, and on 8 of four; parts are regular,
    /// irregular (the largest is twice the mean) and degenerate.
    #[test]
    fn mpich_is_charged_for_its_own_algorithms() {
        for (processes, nodes, bytes, measured) in [
            (16, 16, 1_000_000, [1.03, 2.03, 15.2]),
            (17, 17, 1_000_000, [1.02, 2.03, 16.2]),
            (32, 8, 262_144, [6.07, 5.69, 12.3]),
            (32, 8, 4_000_000, [4.52, 5.55, 28.5]),
        ] {
            for (times, measured) in [1, 2, processes].into_iter().zip(measured) {
                let facts = Facts {
                    largest: times as u64 * bytes / processes as u64,
                    library: Library::Mpich,
                    ..Facts::regular(Operation::ReduceScatter, bytes, processes, nodes)
                };
                assert_charged_fairly(&facts, measured);
            }
        }
    }

    /// Open MPI 4.1.4: one process has all.
    #[test]
    fn a_ring_is_charged_for_its_largest_part() {
        for (processes, nodes, measured) in [(16, 4, 3.95), (20, 5, 5.04), (24, 8, 8.13)] {
            let bytes = 1_000_000;
            let facts = Facts {
                largest: bytes,
                library: Library::OpenMpi4,
                ..Facts::regular(Operation::ReduceScatter, bytes, processes, nodes)
            };
            assert_charged_fairly(&facts, measured);
        }
    }

    /// Open MPI 4.1.4, regular parts: on 16 to 64 processes.
    #[test]
    fn open_mpi_is_charged_for_its_own_algorithms() {
        for (processes, nodes, bytes, measured) in [
            (16, 4, 65_536, 3.93),
            (16, 4, 262_144, 1.21),
            (16, 8, 65_536, 1.87),
            (16, 8, 262_144, 1.03),
            (20, 5, 262_000, 4.82),
            (20, 5, 1_000_000, 1.19),
            (24, 8, 262_000, 4.21),
            (20, 10, 262_000, 2.40),
            (48, 16, 262_144, 4.37),
            (48, 16, 1_000_000, 1.10),
            (48, 12, 262_144, 1.30),
            (32, 8, 262_144, 1.02),
            (64, 16, 262_144, 1.04),
            (64, 16, 1_000_000, 1.49),
        ] {
            let facts = Facts {
                library: Library::OpenMpi4,
                ..Facts::regular(Operation::ReduceScatter, bytes, processes, nodes)
            };
            assert_charged_fairly(&facts, measured);
        }
    }

    /// The patterns that differ, with the largest part so many times the mean: start-ups, and bytes
    /// over the problem's.
    fn charged(facts: Facts, times: u64) -> Vec<[f64; 2]> {
        let facts = Facts {
            largest: times * facts.bytes / facts.processes as u64,
            ..facts
        };
        over_the_problem(patterns(&facts, &Spread::of(&facts)), facts.bytes)
    }

    /// Processes, nodes, bytes, the largest part over the mean, and the patterns.
    type Charged<'a> = (usize, usize, u64, u64, &'a [[f64; 2]]);

    fn assert_charged(library: Library, expected: &[Charged]) {
        for &(processes, nodes, bytes, times, expected) in expected {
            let regular = Facts::regular(Operation::ReduceScatter, bytes, processes, nodes);
            let charged = charged(Facts { library, ..regular }, times);
            let name = format!("{library:?}, {processes} on {nodes}, {bytes} x {times}");
            assert_near(&charged, expected, 1e-4, &name);
        }
    }

    const KIB: u64 = 1 << 10;

    #[test]
    fn mpich_halves_or_exchanges_in_pairs() {
        assert_charged(
            Library::Mpich,
            &[
                (16, 16, 64 * KIB, 1, &[[4.0, 15.0 / 16.0]]),
                (17, 17, 17 * KIB, 1, &[[6.0, 16.0 / 17.0 + 1.0]]),
                (
                    17,
                    17,
                    17 * 16 * KIB,
                    1,
                    &[[6.0, 1.15 * (16.0 / 17.0 + 1.0)]],
                ),
                (16, 16, 256 * KIB - 16, 1, &[[4.0, 15.0 / 16.0]]),
                (16, 16, 256 * KIB, 1, &[[4.0, 1.15 * 15.0 / 16.0]]),
                (32, 8, 64 * KIB, 2, &[[3.1, 4.0 * 7.0 / 8.0]]),
                (32, 8, 64 * KIB, 4, &[[3.1, 8.0 * 7.0 / 8.0]]),
                (32, 8, 64 * KIB, 32, &[[3.1, 4.0 * 3.0 * 7.0 / 8.0]]),
                (16, 16, 512 * KIB, 1, &[[7.5, 15.0 / 16.0]]),
                (16, 16, 512 * KIB, 3, &[[7.5, 3.0 * 15.0 / 16.0]]),
                (32, 8, 512 * KIB, 1, &[[14.15, 4.0 * 7.0 / 8.0]]),
                (32, 8, 512 * KIB, 16, &[[14.15, 16.0 * 7.0 / 8.0]]),
                (16, 16, 16 * 96 * KIB - 16, 1, &[[7.5, 15.0 / 16.0]]),
                (16, 16, 16 * 96 * KIB, 1, &[[7.5, 1.15 * 15.0 / 16.0]]),
            ],
        );
    }

    #[test]
    fn open_mpi_goes_by_its_tables() {
        assert_charged(
            Library::OpenMpi4,
            &[
                (16, 4, 256 * KIB - 16, 1, &[[2.1, 3.0]]),
                (16, 4, 256 * KIB, 1, &[[2.1, 0.75]]),
                (16, 4, 256 * KIB, 8, &[[2.1, 1.5]]),
                (32, 8, 256 * KIB, 1, &[[3.1, 7.0 / 8.0]]),
                (32, 8, 512 * KIB - 32, 1, &[[3.1, 7.0 / 8.0]]),
                (32, 8, 512 * KIB, 1, &[[4.7, 7.0 / 8.0]]),
                (64, 8, 512 * KIB, 1, &[[3.15, 7.0 / 8.0]]),
                (64, 8, 512 * KIB, 4, &[[3.15, 2.0 * 7.0 / 8.0]]),
                (64, 8, 768 * KIB - 64, 1, &[[3.15, 7.0 / 8.0]]),
                (64, 8, 768 * KIB, 1, &[[3.15, 1.35 * 7.0 / 8.0]]),
                (48, 16, 256 * KIB, 1, &[[4.1, 3.0 * 15.0 / 16.0]]),
                // Parts of 96 KiB, and nodes of one process, are charged as with any library.
                (64, 8, 64 * 96 * KIB, 1, &[[6.0, 1.15 * 7.0 / 8.0]]),
                (17, 17, 17 * KIB, 1, &[[6.0, 16.0 / 17.0 + 1.0]]),
            ],
        );
    }

    #[test]
    fn others_have_the_fastest_of_all_patterns() {
        let on_nodes = [
            [5.0, 4.0 * 7.0 / 8.0],
            [10.0, 7.0 / 8.0 + 3.0],
            [15.0, 3.0 * 7.0 / 8.0],
            [4.7, 7.0 / 8.0],
        ];
        assert_charged(
            Library::Other,
            &[
                (16, 16, 64 * KIB, 1, &[[4.0, 15.0 / 16.0]]),
                (17, 17, 17 * KIB, 1, &[[6.0, 16.0 / 17.0 + 1.0]]),
                (16, 16, 512 * KIB - 16, 1, &[[4.0, 15.0 / 16.0]]),
                (
                    16,
                    16,
                    512 * KIB,
                    1,
                    &[[4.0, 15.0 / 16.0], [7.5, 15.0 / 16.0]],
                ),
                (32, 8, 64 * KIB, 1, &on_nodes),
                (16, 16, 16 * 96 * KIB, 1, &[[4.0, 1.15 * 15.0 / 16.0]]),
                (16, 16, 16 * 96 * KIB, 4, &[[4.0, 3.6 * 15.0 / 16.0]]),
                (16, 16, 16 * 96 * KIB, 16, &[[4.0, 4.0 * 15.0 / 16.0]]),
            ],
        );
    }

    /// MPI_Reduce_scatter_block has equal parts, and no ring in Open MPI. What keeps the order of
    /// the ranks is charged as with any library.
    #[test]
    fn a_call_is_charged_for_what_it_is() {
        let facts = |library, order, operation| Facts {
            library,
            order,
            ..Facts::regular(operation, 1000 * KIB, 20, 5)
        };
        let block = |library, times| {
            let operation = Operation::ReduceScatterBlock;
            charged(facts(library, Order::Commutative, operation), times)
        };
        for library in [Library::Mpich, Library::OpenMpi4, Library::Other] {
            assert_eq!(block(library, 20), block(library, 1), "{library:?}");
            let ordered = facts(library, Order::Ranks, Operation::ReduceScatter);
            let any = facts(Library::Other, Order::Commutative, Operation::ReduceScatter);
            assert_eq!(charged(ordered, 3), charged(any, 3), "{library:?}");
        }
        let [[startups, volume]] = block(Library::OpenMpi4, 1)[..] else {
            panic!("several patterns")
        };
        assert!((startups - 3.1).abs() < 1e-9 && (volume - 4.0 * 0.8).abs() < 1e-9);
    }
}
