//! What the MPI library is predicted to take for a call.
//!
//! MPI libraries have algorithms that take few start-ups and others that move few bytes. A call is
//! charged the fastest of such [patterns] on the network that it is predicted for, though no
//! library chooses as well everywhere. With k = floor(log2 p), q = ceil(log2 p), and e = 0 if p is
//! a power of two, else 1:
//!
//! ```text
//! operation                  pattern                    start-ups      bytes
//! bcast                      tree                       q              q m
//!                            scatter, allgather         2q, q + p - 1  2 (1 - 1/p) m
//! reduce                     tree                       q              q m
//!                            reduce-scatter, gather     2k + e         (2 (1 - 1/2^k) + e) m
//! allreduce < 256 KiB        recursive doubling         k + 2e         (k + 2e) m
//!                            reduce-scatter, allgather  2k + 2e        (2 (1 - 1/2^k) + 2e) m
//!           larger           as measured                q              2.9 m
//!           Open MPI 5, on nodes of several processes   q              (1 + log2 nodes) m
//! reduce_scatter             see `reduce_scatter`
//! allgather                  doubling, < 512 KiB        q              1.05 (1 - 1/p) m
//!                            around                     (p - 1)/2      1.05 (1 - 1/p) m
//! allgatherv                 doubling                   q              1.1 (1 - 1/p) m
//!                            around                     (p - 1)/2      1.1 (1 - 1/p) m
//! others                     the wire                   q              (1 - 1/p) m
//! ```
//!
//! The second number of start-ups of a broadcast holds where p is no power of two. *Around*, each
//! process sends to the next in p - 1 steps, or exchanges parts in pairs. A step waits for no
//! answer, so start-ups overlap: each is charged half of one. (In a broadcast it is charged one.)
//! *As measured* is the time over TCP of common MPI libraries, over the port's time; where they
//! differ, the fastest counts.
//!
//! Reasons for what differs from that:
//! 1. Native broadcasts, reductions and allreduces may know the nodes. They are not charged for
//!    what stays within a node. Where nodes have several processes, no operation is charged for p
//!    being no power of two.
//! 2. Between [few nodes](FEW_NODES) these gain little. They are charged one start-up for each
//!    phase and what the wire needs; and so is every operation, if nodes have one process each, or
//!    different numbers of them.
//! 3. In an allgatherv by doubling the largest part is in a message of every phase. Around, MPICH
//!    passes it on in pieces, of which the last [goes around](Spread::piece_around) alone: on 36
//!    simulated nodes of 32 processes, with ports of 100 Gbit/s, that takes 8 times as long as by
//!    lanes for 40 MB of one process.
//! 4. Allgathers by doubling, and reduce-scatters by halving, know no nodes: each process of a node
//!    sends through its port what a node would have to send once. They are charged for that, or
//!    for 3 q start-ups and three times what leaders exchange, or for 2 q and what goes by way of
//!    one root. In a ring of ranks that are placed in blocks, a port carries each byte once, and a
//!    step that ends within the node is a [part](super::cost::STEP_WITHIN) of a start-up.
//! 5. In Open MPI 4's allreduces neighbours exchange first. On nodes whose processes are no power
//!    of two in number each process sends to other nodes what a node would have to send once.
//!
//! All but the last two err on the side of leaving a call native. These charge too much where the
//! MPI library has collectives that know the nodes.

mod reduce_scatter;
mod spread;

use spread::{Spread, are_nodes_aligned};

use super::cost::{Cost, Network};
use super::facts::{Facts, Library, Operation};

/// Between so many nodes native collectives cost about what the wire does.
pub const FEW_NODES: usize = 3;

/// From how many bytes on a native allgather goes around: MPICH's default of
/// `MPIR_CVAR_ALLGATHER_LONG_MSG_SIZE`. Where p is no power of two, it does from 80 KiB on; the
/// larger of the two errs on the side of leaving a call native.
const AROUND_FROM: u64 = 512 << 10;

/// From how many bytes on what native allreduces take was measured. Below, Open MPI 4.1 and MPICH
/// 4.0 are as fast as their patterns where p is a power of two.
const ALLREDUCE_MEASURED_FROM: u64 = 256 << 10;

/// From how many bytes on an allreduce is [charged for nodes](is_charged_for_nodes). Smaller ones
/// may be decided on before the nodes are known.
const CROSSING_FROM: u64 = 32 << 10;

/// The predicted seconds of `call` on `network`.
pub fn seconds(call: &Facts, network: Network) -> f64 {
    let all = patterns(call, network).map(|cost| cost.on(network));
    all.into_iter().fold(f64::INFINITY, f64::min)
}

/// The predicted cost of `call` where the network is not known: of the pattern that is faster on
/// the shipped one.
pub fn shipped_cost(call: &Facts) -> Cost {
    let network = Network::SHIPPED;
    let seconds = |cost: &Cost| cost.on(network);
    let all = patterns(call, network).into_iter();
    all.min_by(|a, b| seconds(a).total_cmp(&seconds(b)))
        .unwrap_or_default()
}

/// The patterns on `network`, from few start-ups to few bytes. Where there are fewer, some twice.
fn patterns(call: &Facts, network: Network) -> [Cost; 4] {
    if call.smaller_group > 0 {
        return [across_groups(call); 4];
    }
    let spread = Spread::of(call);
    let (q, others) = (spread.phases, spread.others());
    let is_even = call.smallest_node.is_none() && spread.per_port > 1.0;
    match call.operation {
        operation if call.nodes <= FEW_NODES && operation.is_whole() => [spread.cost(q, 1.0); 4],
        _ if call.nodes <= FEW_NODES && !is_even => [spread.cost(q, others); 4],
        Operation::ReduceScatterBlock | Operation::ReduceScatter => {
            reduce_scatter::patterns(call, &spread)
        }
        Operation::Allgather | Operation::Allgatherv => allgathers(call, &spread, network),
        operation if operation.is_whole() => {
            let [few_startups, few_bytes] = of_the_whole(call, &spread);
            [few_startups, few_startups, few_bytes, few_bytes]
        }
        // What MPI has no function for is not compared.
        _ => [spread.cost(q, others); 4],
    }
}

/// The patterns of what has no parts.
fn of_the_whole(call: &Facts, spread: &Spread) -> [Cost; 2] {
    let cost = |rounds, volume| spread.cost(rounds, volume);
    let (k, q, e) = (spread.whole_phases, spread.phases, spread.excess);
    let in_halves = 2.0 * (1.0 - 1.0 / spread.power_of_ports);
    match call.operation {
        Operation::Bcast => {
            let around = if e > 0.0 { spread.processes - 1.0 } else { q };
            [
                cost(q, spread.port_phases),
                cost(q + around, 2.0 * spread.others()),
            ]
        }
        Operation::Reduce => [
            cost(q, spread.port_phases),
            cost(2.0 * k + e, in_halves + e),
        ],
        Operation::Allreduce if is_by_nodes(call) => [cost(q, spread.port_phases + 1.0); 2],
        Operation::Allreduce if call.bytes < ALLREDUCE_MEASURED_FROM => {
            let times = match crosses_nodes(call) {
                true => spread.per_port,
                false => 1.0,
            };
            [
                cost(k + 2.0 * e, times * (spread.port_phases.min(k) + 2.0 * e)),
                cost(2.0 * (k + e), times * (in_halves + 2.0 * e)),
            ]
        }
        // A larger allreduce.
        _ => [cost(q, 2.9); 2],
    }
}

/// Whether the MPI library's allreduce is by leaders: Open MPI 5's (coll/han), on nodes of several
/// processes. 64 KiB to 1 MB take 3.6 to 3.8 times what a port needs for the problem on 4 nodes,
/// 4.0 to 4.5 times on 8, and 5.5 to 6.2 times on 16.
fn is_by_nodes(call: &Facts) -> bool {
    call.library == Library::OpenMpi5 && is_charged_for_nodes(call)
}

/// Whether the MPI library's allreduce first exchanges between neighbours, and some of these are on
/// different nodes: Open MPI 4's, on nodes of several processes whose number is no power of two.
fn crosses_nodes(call: &Facts) -> bool {
    call.library == Library::OpenMpi4 && is_charged_for_nodes(call) && !are_nodes_aligned(call)
}

/// Whether an allreduce is charged for what the MPI library does on nodes of several processes.
fn is_charged_for_nodes(call: &Facts) -> bool {
    call.has_rounded_result() && call.bytes >= CROSSING_FROM && call.nodes < call.processes
}

fn allgathers(call: &Facts, spread: &Spread, network: Network) -> [Cost; 4] {
    let is_equal = call.operation == Operation::Allgather;
    let measured = if is_equal { 1.05 } else { 1.1 };
    let around = spread.cost(spread.around(), measured * spread.others());
    if is_equal && call.bytes >= AROUND_FROM {
        return [around; 4];
    }
    let volume = measured * spread.doubled(call);
    let [doubling, by_root, by_leaders] = spread.unaware_of_nodes(spread.phases, volume);
    let around = around.and(spread.piece_around(call, network));
    [doubling, by_root, by_leaders, around]
}

/// The predicted cost of the root gathering algorithm, which all MPI libraries here have, at its
/// best: a gather, an exchange between two roots and a broadcast, each of all bytes (Kang et al.,
/// equation 1). A broadcast goes from the root to one process of the other group, and from there to
/// all, which takes 2.6 times what the port needs by the fastest library. Not node-aware; yet where
/// processes share a node, they are charged as if they were.
fn across_groups(call: &Facts) -> Cost {
    let volume = if call.nodes <= FEW_NODES || call.processes_per_node() > 1 {
        1.0
    } else if call.operation == Operation::Bcast {
        3.6
    } else {
        3.0
    };
    Cost::of_messages(2.0 * f64::from(call.phases()), volume * call.bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::super::algorithm::Algorithm;
    use super::super::cost::circulant;
    use super::super::facts::Order;
    use super::*;

    #[test]
    fn processes_of_a_node_share_its_port() {
        for operation in [Operation::Bcast, Operation::Reduce, Operation::Allreduce] {
            for bytes in [65_536, 1_000_000] {
                let on = |nodes| {
                    seconds(
                        &Facts::regular(operation, bytes, 16, nodes),
                        Network::SHIPPED,
                    )
                };
                assert!(on(4) <= on(16), "{operation:?}");
            }
        }
    }

    #[test]
    fn between_few_nodes_a_call_takes_what_the_wire_does() {
        for processes in [2, 3] {
            let few = Facts::regular(Operation::Bcast, 64_000_000, processes, processes);
            let native = seconds(&few, Network::SHIPPED);
            let ours = |blocks| circulant(&few, Algorithm::Circulant { blocks });
            assert!((1..10_000).all(|n| ours(n).on(Network::SHIPPED) >= native));
        }
    }

    /// Measured over the port's time, on emulated ports of 40 Mbit/s
    /// (docs/research/performance/default.md), the faster of Open MPI 4.1.4 and MPICH 4.0.2 for p =
    /// 16, and Open MPI 4.1.4 for p = 17: no call is charged more than 1.2 times what it takes.
    #[test]
    fn no_call_is_charged_much_more_than_it_takes() {
        use Operation::{Allreduce, Bcast, Reduce, ReduceScatterBlock};
        // As on ports of 40 Mbit/s, where start-ups hardly count.
        let network = Network::measured((8, 60_000), (32_768, 6_600_000));
        let parts = |p: u64| (p - 1) as f64 / p as f64;
        for (operation, p, bytes, measured) in [
            (Bcast, 16, 65_536, 1.89),
            (Bcast, 16, 262_144, 1.93),
            (Bcast, 16, 1_000_000, 1.90),
            (Bcast, 17, 262_144, 9.70),
            (Reduce, 16, 65_536, 1.88),
            (Reduce, 16, 262_144, 1.93),
            (Reduce, 16, 1_000_000, 2.54),
            (Reduce, 17, 262_144, 5.05),
            (ReduceScatterBlock, 16, 65_536, 0.974 * parts(16)),
            (ReduceScatterBlock, 16, 262_144, 1.002 * parts(16)),
            (ReduceScatterBlock, 16, 1_000_000, 1.012 * parts(16)),
            (ReduceScatterBlock, 17, 65_536, 2.24 * parts(17)),
            (ReduceScatterBlock, 17, 262_144, 2.29 * parts(17)),
            (ReduceScatterBlock, 17, 1_000_000, 1.01 * parts(17)),
            (Allreduce, 16, 65_536, 0.994 * 2.0 * parts(16)),
            (Allreduce, 16, 262_144, 1.293 * 2.0 * parts(16)),
            (Allreduce, 17, 65_536, 1.79 * 2.0 * parts(17)),
            (Allreduce, 17, 1_000_000, 2.91 * 2.0 * parts(17)),
        ] {
            let facts = Facts::regular(operation, bytes, p as usize, p as usize);
            assert_charged_at_most(1.2 * measured, &facts, network, 1.0);
        }
    }

    /// The charge is at most so many times what a port needs for `volume` times the problem.
    fn assert_charged_at_most(most: f64, facts: &Facts, network: Network, volume: f64) {
        let port = network.seconds(0.0, volume * facts.bytes as f64);
        let charged = seconds(facts, network) / port;
        assert!(charged <= most, "{facts:?}: {charged} > {most}");
    }

    /// The same on 8 nodes of 4 processes, ports of 160 Mbit/s. The largest part over the mean is
    /// 1, 2 and 32.
    #[test]
    fn no_call_between_nodes_is_charged_much_more_than_it_takes() {
        use Operation::{Allgather, Allgatherv, ReduceScatter};
        let network = Network::measured((8, 60_000), (32_768, 1_700_000));
        for (operation, largest, bytes, measured) in [
            (Allgather, 1, 262_144, 1.03),
            (Allgather, 1, 4_000_000, 1.15),
            (Allgatherv, 1, 262_144, 1.02),
            (Allgatherv, 2, 262_144, 5.14),
            (Allgatherv, 2, 4_000_000, 1.23),
            (Allgatherv, 32, 262_144, 7.32),
            (Allgatherv, 32, 4_000_000, 1.17),
            (ReduceScatter, 1, 262_144, 1.02),
            (ReduceScatter, 1, 4_000_000, 1.16),
            (ReduceScatter, 2, 262_144, 1.12),
            (ReduceScatter, 2, 4_000_000, 1.51),
            (ReduceScatter, 32, 262_144, 3.01),
            (ReduceScatter, 32, 4_000_000, 8.50),
        ] {
            let facts = Facts {
                largest: largest * bytes / 32,
                ..Facts::regular(operation, bytes, 32, 8)
            };
            assert_charged_at_most(1.2 * measured, &facts, network, 7.0 / 8.0);
        }
    }

    /// What libraries send through a port several times is charged so: on 36 nodes of 32 processes
    /// native calls take 4 to 960 times the port's time (docs/research/paper-figures.md).
    #[test]
    fn what_does_not_know_the_nodes_is_charged_for_them() {
        use Operation::{Allgatherv, ReduceScatter};
        for operation in [Allgatherv, ReduceScatter] {
            for bytes in [40_000, 400_000] {
                for largest in [1, 2, 1152] {
                    let facts = Facts {
                        largest: largest * bytes / 1152,
                        ..Facts::regular(operation, bytes, 1152, 36)
                    };
                    for network in Network::COMMON {
                        let port = network.seconds(6.0, bytes as f64);
                        assert!(seconds(&facts, network) > 1.5 * port, "{facts:?}");
                    }
                }
            }
        }
    }

    /// The patterns that differ: start-ups, and bytes over the problem's.
    pub(super) fn over_the_problem(patterns: impl Into<Vec<Cost>>, bytes: u64) -> Vec<[f64; 2]> {
        let mut all = patterns.into();
        all.dedup();
        let over = |cost: Cost| [cost.rounds, cost.bytes / bytes as f64];
        all.into_iter().map(over).collect()
    }

    /// As many patterns, and no number further off than that.
    pub(super) fn assert_near(charged: &[[f64; 2]], expected: &[[f64; 2]], off: f64, name: &str) {
        assert_eq!(charged.len(), expected.len(), "{name}: {charged:?}");
        for (found, expected) in charged.iter().flatten().zip(expected.iter().flatten()) {
            assert!((found - expected).abs() < off, "{name}: {charged:?}");
        }
    }

    fn charged(facts: &Facts) -> Vec<[f64; 2]> {
        over_the_problem(patterns(facts, Network::SHIPPED), facts.bytes)
    }

    fn assert_charged(facts: &Facts, expected: &[[f64; 2]]) {
        assert_near(&charged(facts), expected, 1e-9, &format!("{facts:?}"));
    }

    const KIB: u64 = 1 << 10;

    #[test]
    fn what_has_no_parts_is_charged_by_the_table() {
        use Operation::{Allreduce, Bcast, Reduce};
        for (operation, processes, nodes, bytes, expected) in [
            (Bcast, 16, 16, 64 * KIB, [[4.0, 4.0], [8.0, 15.0 / 8.0]]),
            (Bcast, 17, 17, 64 * KIB, [[5.0, 5.0], [21.0, 32.0 / 17.0]]),
            (Bcast, 32, 8, 64 * KIB, [[5.0, 3.0], [10.0, 7.0 / 4.0]]),
            (Bcast, 36, 9, 64 * KIB, [[6.0, 4.0], [12.0, 16.0 / 9.0]]),
            (Reduce, 16, 16, 64 * KIB, [[4.0, 4.0], [8.0, 15.0 / 8.0]]),
            (
                Reduce,
                17,
                17,
                64 * KIB,
                [[5.0, 5.0], [9.0, 15.0 / 8.0 + 1.0]],
            ),
            (Reduce, 36, 12, 64 * KIB, [[6.0, 4.0], [12.0, 7.0 / 4.0]]),
            (Allreduce, 16, 16, 64 * KIB, [[4.0, 4.0], [8.0, 15.0 / 8.0]]),
            (
                Allreduce,
                17,
                17,
                64 * KIB,
                [[6.0, 6.0], [10.0, 15.0 / 8.0 + 2.0]],
            ),
            (Allreduce, 32, 8, 64 * KIB, [[5.0, 3.0], [10.0, 7.0 / 4.0]]),
            (
                Allreduce,
                16,
                16,
                256 * KIB - 1,
                [[4.0, 4.0], [8.0, 15.0 / 8.0]],
            ),
        ] {
            assert_charged(
                &Facts::regular(operation, bytes, processes, nodes),
                &expected,
            );
        }
        let large = Facts::regular(Allreduce, 256 * KIB, 16, 16);
        assert_charged(&large, &[[4.0, 2.9]]);
    }

    /// Open MPI's allreduces of rounded numbers, from 32 KiB on: of version 5 by leaders, and of
    /// version 4 across nodes whose processes are no power of two.
    #[test]
    fn allreduces_on_nodes_are_charged_by_the_library() {
        let facts = |library, bytes, processes, nodes| Facts {
            library,
            ..Facts::regular(Operation::Allreduce, bytes, processes, nodes)
        };
        let least = 32 * KIB;
        let as_any = |call: &Facts| {
            let any = Facts {
                library: Library::Other,
                ..*call
            };
            assert_eq!(charged(call), charged(&any), "{call:?}");
        };
        let by_leaders = facts(Library::OpenMpi5, least, 48, 16);
        let across = facts(Library::OpenMpi4, least, 48, 16);
        assert_charged(&by_leaders, &[[6.0, 5.0]]);
        assert_charged(&across, &[[6.0, 12.0], [12.0, 3.0 * 15.0 / 8.0]]);
        for call in [by_leaders, across] {
            as_any(&facts(call.library, least - 1, 48, 16));
            as_any(&facts(call.library, least, 48, 48));
            as_any(&Facts {
                order: Order::Any,
                ..call
            });
        }
        as_any(&facts(Library::OpenMpi4, least, 64, 16));
        as_any(&facts(Library::Mpich, least, 48, 16));
        let large = facts(Library::OpenMpi5, 1 << 20, 48, 16);
        assert_charged(&large, &[[6.0, 5.0]]);
    }

    #[test]
    fn allgathers_are_charged_by_the_table() {
        let charge = |processes, nodes, bytes, expected: &[[f64; 2]]| {
            let facts = Facts::regular(Operation::Allgather, bytes, processes, nodes);
            assert_charged(&facts, expected);
        };
        let volume = 1.05 * 15.0 / 16.0;
        charge(16, 16, 64 * KIB, &[[4.0, volume], [7.5, volume]]);
        charge(16, 16, 512 * KIB - 16, &[[4.0, volume], [7.5, volume]]);
        charge(16, 16, 512 * KIB, &[[7.5, volume]]);
        let volume = 1.05 * 16.0 / 17.0;
        charge(17, 17, 17 * KIB, &[[5.0, volume], [8.0, volume]]);
        let charge = |processes, nodes, bytes, times, expected: &[[f64; 2]]| {
            let facts = Facts {
                largest: times * bytes / processes as u64,
                ..Facts::regular(Operation::Allgatherv, bytes, processes, nodes)
            };
            assert_charged(&facts, expected);
        };
        // The largest part is in each message, and 12 KiB more of it than of others go around.
        let around = 1.1 * 15.0 / 16.0;
        let last = 15.0 * 12.0 / 64.0;
        charge(
            16,
            16,
            64 * KIB,
            4,
            &[[4.0, 1.1 * 1.25], [7.5, around + last]],
        );
        // 32 KiB of it at most.
        let last = 15.0 * 32.0 / 1024.0;
        charge(
            16,
            16,
            1024 * KIB,
            4,
            &[[4.0, 1.1 * 1.25], [7.5, around + last]],
        );
        let around = 1.1 * 7.0 / 8.0;
        let on_nodes = [
            [5.0, 4.0 * 1.1 * 7.0 / 8.0],
            [10.0, 7.0 / 8.0 + 3.0],
            [15.0, 3.0 * 1.1 * 7.0 / 8.0],
            [4.7, around],
        ];
        charge(32, 8, 64 * KIB, 1, &on_nodes);
        let last = (7.0 + 0.125 * 24.0) * 32.0 / 64.0;
        let on_nodes = [
            [5.0, 4.0 * 3.3],
            [10.0, 7.0 / 8.0 + 3.0],
            [15.0, 3.0 * 3.3],
            [4.7, around + last],
        ];
        charge(32, 8, 64 * KIB, 32, &on_nodes);
    }

    /// Between three nodes and fewer, but what has parts on equal nodes of several processes.
    #[test]
    fn between_few_nodes_there_is_one_pattern() {
        use Operation::{Allgather, Alltoall, Bcast, Gather, ReduceScatter};
        let on = |operation, processes, nodes| {
            let bytes = 24 * KIB * processes as u64;
            Facts::regular(operation, bytes, processes, nodes)
        };
        for (operation, processes, nodes, expected) in [
            (Bcast, 3, 3, [2.0, 1.0]),
            (Bcast, 12, 3, [4.0, 1.0]),
            (Bcast, 16, 1, [4.0, 1.0]),
            (Allgather, 3, 3, [2.0, 2.0 / 3.0]),
            (Allgather, 16, 1, [4.0, 15.0 / 16.0]),
            (Alltoall, 12, 3, [4.0, 2.0 / 3.0]),
            (Alltoall, 16, 16, [4.0, 15.0 / 16.0]),
            (Gather, 32, 8, [5.0, 7.0 / 8.0]),
        ] {
            assert_charged(&on(operation, processes, nodes), &[expected]);
        }
        assert_eq!(charged(&on(Bcast, 4, 4)).len(), 2);
        for operation in [Allgather, ReduceScatter] {
            assert!(charged(&on(operation, 12, 3)).len() > 1);
            let uneven = Facts {
                smallest_node: Some(1),
                ..on(operation, 12, 3)
            };
            assert_charged(&uneven, &[[4.0, 2.0 / 3.0]]);
        }
    }

    /// Three times all bytes, or as in a broadcast more; once, where processes share nodes or these
    /// are few.
    #[test]
    fn calls_between_groups_are_charged_for_a_root_that_gathers() {
        let charge = |operation, nodes, volume| {
            let facts = Facts {
                smaller_group: 4,
                ..Facts::regular(operation, 65_536, 12, nodes)
            };
            assert_charged(&facts, &[[8.0, volume]]);
        };
        charge(Operation::Bcast, 12, 3.6);
        charge(Operation::Allgatherv, 12, 3.0);
        for operation in [Operation::Bcast, Operation::Allgatherv] {
            charge(operation, 3, 1.0);
            charge(operation, 11, 1.0);
        }
    }

    /// Without a network it is the pattern that takes the least on the shipped one.
    #[test]
    fn the_shipped_cost_is_the_fastest_on_the_shipped_network() {
        for bytes in [64, 4096, 65_536, 1 << 20] {
            for operation in [Operation::Bcast, Operation::Reduce, Operation::Allgatherv] {
                let facts = Facts::regular(operation, bytes, 16, 16);
                let cost = shipped_cost(&facts);
                let least = seconds(&facts, Network::SHIPPED);
                assert_eq!(cost.on(Network::SHIPPED), least, "{facts:?}");
            }
        }
    }
}
