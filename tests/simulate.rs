//! Every plan, run by the engine in the simulator, against a serial computation and the formulas.

#![allow(clippy::panic)] // That is how a test fails.

use circulant::engine::{Pacing, Synchronous};
use circulant::simulate::{Collective, Counts, Problem, simulate};

const PACING: Pacing = Pacing {
    window: 4,
    sends: 2,
    synchronous: Synchronous::Unpaced,
};

fn q(processes: usize) -> usize {
    processes.next_power_of_two().trailing_zeros() as usize
}

/// n around multiples of q, where the virtual rounds change.
fn block_counts(processes: usize) -> Vec<usize> {
    let q = q(processes);
    let mut counts = vec![1, 2, 3, q.max(2) - 1, q, q + 1, 2 * q, 2 * q + 1, 17];
    // Long enough for the engine's bookkeeping to be used again and again.
    counts.extend((processes < 40).then_some(5 * q + 2));
    counts.retain(|&n| n > 0);
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn run(
    collective: Collective,
    processes: usize,
    blocks: usize,
    lengths: Vec<usize>,
    in_place: bool,
) -> Vec<Counts> {
    // A process alone has no rounds in which its input could become its result.
    let in_place = in_place || processes == 1;
    let problem = Problem {
        collective,
        processes,
        blocks,
        lengths,
        in_place,
        pacing: PACING,
    };
    solve(&problem)
}

fn solve(problem: &Problem) -> Vec<Counts> {
    simulate(problem).unwrap_or_else(|failure| panic!("{failure:?}: {problem:?}"))
}

fn rounds(processes: usize, blocks: usize) -> usize {
    if processes == 1 {
        0
    } else {
        blocks - 1 + q(processes)
    }
}

#[test]
fn broadcast_receives_every_block_once() {
    for p in 1..=200 {
        for n in block_counts(p) {
            let (length, root) = (2 * n + 1, (7 * n + p / 2) % p);
            let counts = run(Collective::Broadcast { root }, p, n, vec![length], false);
            for (rank, count) in counts.iter().enumerate() {
                assert_eq!(count.rounds, rounds(p, n), "p={p} n={n}");
                let (blocks, units) = if rank == root { (0, 0) } else { (n, length) };
                assert_eq!(
                    (count.messages_received, count.received),
                    (blocks, units),
                    "p={p} n={n}"
                );
                assert!(count.messages_sent <= count.rounds);
                assert_eq!((count.copied, count.reduced), (0, 0));
            }
            assert_eq!(
                counts.iter().map(|c| c.sent).sum::<usize>(),
                (p - 1) * length
            );
        }
    }
}

#[test]
fn reduction_sends_every_partial_result_once() {
    for p in 1..=200 {
        for n in block_counts(p) {
            let (length, root) = (2 * n + 1, (5 * n + p / 3) % p);
            for in_place in [false, true] {
                if in_place && n > 2 && p % 5 != 0 {
                    continue;
                }
                // In place is the root's only, but the simulator's processes share the setting:
                // elsewhere the result is the input, too.
                let counts = run(Collective::Reduction { root }, p, n, vec![length], in_place);
                for (rank, count) in counts.iter().enumerate() {
                    assert_eq!(count.rounds, rounds(p, n));
                    let (blocks, units) = if rank == root { (0, 0) } else { (n, length) };
                    assert_eq!(
                        (count.messages_sent, count.sent),
                        (blocks, units),
                        "p={p} n={n}"
                    );
                    assert_eq!(count.reduced, count.received, "p={p} n={n}");
                    if in_place || rank != root {
                        assert_eq!(count.copied, 0, "p={p} n={n}");
                    }
                }
                assert_eq!(
                    counts.iter().map(|c| c.reduced).sum::<usize>(),
                    (p - 1) * length
                );
            }
        }
    }
}

/// Lengths as in the paper's section 3, in units.
fn inputs(p: usize, n: usize) -> [Vec<usize>; 4] {
    let irregular = (0..p).map(|rank| (rank % 3) * n).collect();
    let mut degenerate = vec![0; p];
    degenerate[p / 2] = 5 * n;
    let uneven = (0..p).map(|rank| (rank * rank + n) % 7).collect();
    [vec![n; p], irregular, degenerate, uneven]
}

#[test]
fn all_broadcast_receives_every_foreign_block_once() {
    for p in 1..=200 {
        for n in block_counts(p)
            .into_iter()
            .filter(|n| p < 40 || n % 3 == p % 3)
        {
            for (input, lengths) in inputs(p, n).into_iter().enumerate() {
                let total: usize = lengths.iter().sum();
                let counts = run(Collective::AllBroadcast, p, n, lengths.clone(), false);
                for (rank, count) in counts.iter().enumerate() {
                    assert_eq!(count.rounds, rounds(p, n));
                    assert_eq!(count.received, total - lengths[rank], "p={p} n={n}");
                    if input == 0 {
                        assert_eq!(count.sent, (p - 1) * n, "p={p} n={n}");
                    }
                    if input == 2 {
                        assert_eq!(count.copied, 0, "single blocks are not packed");
                    }
                }
            }
        }
    }
}

#[test]
fn all_reduction_sends_every_foreign_partial_result_once() {
    for p in 1..=200 {
        for n in block_counts(p)
            .into_iter()
            .filter(|n| p < 40 || n % 3 == p % 3)
        {
            for (input, lengths) in inputs(p, n).into_iter().enumerate() {
                let total: usize = lengths.iter().sum();
                let in_place = (p + n) % 2 == 0;
                let counts = run(Collective::AllReduction, p, n, lengths.clone(), in_place);
                for (rank, count) in counts.iter().enumerate() {
                    assert_eq!(count.rounds, rounds(p, n));
                    assert_eq!(count.sent, total - lengths[rank], "p={p} n={n}");
                    assert_eq!(count.reduced, count.received, "p={p} n={n}");
                    if input == 0 {
                        assert_eq!(count.received, (p - 1) * n, "p={p} n={n}");
                    }
                }
                let reduced = counts.iter().map(|c| c.reduced).sum::<usize>();
                assert_eq!(reduced, (p - 1) * total);
            }
        }
    }
}

#[test]
fn every_pacing_gives_the_same_results() {
    for (window, sends) in [(1, 1), (1, 2), (2, 1), (3, 7), (16, 16), (64, 64)] {
        for p in [2, 3, 5, 9, 17, 33] {
            for n in [1, 4, 23] {
                for (collective, lengths) in [
                    (Collective::Broadcast { root: p - 1 }, vec![3 * n]),
                    (Collective::Reduction { root: 1 }, vec![3 * n]),
                    (Collective::AllBroadcast, inputs(p, n)[3].clone()),
                    (Collective::AllReduction, inputs(p, n)[1].clone()),
                ] {
                    let pacing = Pacing {
                        window,
                        sends,
                        ..PACING
                    };
                    let problem = Problem {
                        collective,
                        processes: p,
                        blocks: n,
                        lengths,
                        in_place: false,
                        pacing,
                    };
                    assert!(simulate(&problem).is_ok(), "{problem:?}");
                }
            }
        }
    }
}

#[test]
fn more_blocks_than_units_is_no_failure() {
    for p in [2, 3, 7, 16, 17] {
        for (collective, lengths) in [
            (Collective::Broadcast { root: 0 }, vec![3]),
            (Collective::Reduction { root: p - 1 }, vec![3]),
            (Collective::AllBroadcast, vec![2; p]),
            (Collective::AllReduction, vec![1; p]),
        ] {
            let problem = Problem {
                collective,
                processes: p,
                blocks: 11,
                lengths,
                in_place: false,
                pacing: PACING,
            };
            assert!(simulate(&problem).is_ok(), "{problem:?}");
        }
    }
}

/// Synchronous-mode where nothing was received in the round before: a broadcast's root always; the
/// others, which receive n blocks in n - 1 + q rounds, at most q times.
#[test]
fn only_unpaced_sends_are_synchronous() {
    let (p, n) = (16, 11);
    let with = |collective, lengths: Vec<usize>, synchronous| {
        let pacing = Pacing {
            synchronous,
            ..PACING
        };
        let problem = Problem {
            collective,
            processes: p,
            blocks: n,
            lengths,
            in_place: false,
            pacing,
        };
        solve(&problem)
    };
    let broadcast = Collective::Broadcast { root: 3 };
    for (rank, count) in with(broadcast, vec![99], Synchronous::Unpaced)
        .iter()
        .enumerate()
    {
        if rank == 3 {
            assert_eq!(count.synchronous, count.messages_sent);
            assert!(count.synchronous >= n);
        } else {
            assert!(count.synchronous <= 4, "rank {rank}: {count:?}");
            assert!(count.synchronous < count.messages_sent || count.messages_sent == 0);
        }
    }
    for count in with(Collective::AllBroadcast, vec![99; p], Synchronous::Unpaced) {
        assert_eq!((count.synchronous, count.messages_sent), (1, n - 1 + 4));
    }
    for collective in [broadcast, Collective::Reduction { root: 3 }] {
        for count in with(collective, vec![99], Synchronous::All) {
            assert_eq!(count.synchronous, count.messages_sent);
        }
        let counts = with(collective, vec![99], Synchronous::None);
        assert!(counts.iter().all(|count| count.synchronous == 0));
        assert!(counts.iter().any(|count| count.messages_sent > 0));
    }
}
