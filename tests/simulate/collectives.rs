//! Every plan, run by the engine in the simulator, against a serial computation and the formulas.

#![allow(clippy::panic)] // That is how a test fails.

use std::sync::Arc;

use strum::VariantArray;

use circulant::engine::{Pacing, Synchronous};
use circulant::plan::{Doubling, Plan, Reversed, Round, Segments};
use circulant::schedule::{Rule, Sequence};

use crate::processes;
use crate::simulator::{Collective, Counts, Problem, simulate};

const PACING: Pacing = Pacing {
    window: 1,
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
    let problem = Problem {
        collective,
        processes,
        blocks,
        lengths,
        segment: None,
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
    for p in processes(200) {
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
    for p in processes(200) {
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
    for p in processes(200) {
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
    for p in processes(200) {
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

/// What is sent, copied and combined does not depend on how far rounds overlap.
fn expect_the_same_at_every_pacing(problem: &Problem) {
    let expected = solve(problem);
    for (window, sends) in [(1, 1), (2, 1), (3, 7), (16, 16), (64, 64)] {
        let pacing = Pacing {
            window,
            sends,
            ..PACING
        };
        let counts = solve(&Problem {
            pacing,
            ..problem.clone()
        });
        assert_eq!(counts, expected, "{pacing:?} {problem:?}");
    }
}

#[test]
fn every_pacing_moves_the_same_blocks() {
    for p in [2, 3, 5, 9, 17, 33] {
        for n in [1, 4, 23] {
            for (collective, lengths) in [
                (Collective::Broadcast { root: p - 1 }, vec![3 * n]),
                (Collective::Reduction { root: 1 }, vec![3 * n]),
                (Collective::AllBroadcast, inputs(p, n)[3].clone()),
                (Collective::AllReduction, inputs(p, n)[1].clone()),
            ] {
                expect_the_same_at_every_pacing(&Problem {
                    collective,
                    processes: p,
                    blocks: n,
                    lengths,
                    segment: None,
                    in_place: false,
                    pacing: PACING,
                });
            }
        }
    }
}

/// There are the rounds of all blocks, but no message without a unit.
#[test]
fn blocks_without_units_are_not_sent() {
    for p in [2, 3, 7, 16, 17] {
        for (collective, lengths) in [
            (Collective::Broadcast { root: 0 }, vec![3]),
            (Collective::Reduction { root: p - 1 }, vec![3]),
            (Collective::AllBroadcast, vec![2; p]),
            (Collective::AllReduction, vec![1; p]),
        ] {
            let total: usize = lengths.iter().sum();
            for (rank, count) in run(collective, p, 11, lengths, false).iter().enumerate() {
                let name = format!("{collective:?} p={p} rank={rank}: {count:?}");
                assert_eq!(count.rounds, rounds(p, 11), "{name}");
                assert!(count.messages_sent <= count.sent, "{name}");
                assert!(count.messages_received <= count.received, "{name}");
                let (moved, expected) = match collective {
                    Collective::Broadcast { root } => {
                        (count.received, if rank == root { 0 } else { total })
                    }
                    Collective::Reduction { root } => {
                        (count.sent, if rank == root { 0 } else { total })
                    }
                    Collective::AllBroadcast => (count.received, total - total / p),
                    _ => (count.sent, total - total / p),
                };
                assert_eq!(moved, expected, "{name}");
            }
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
            segment: None,
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

/// The skips that a distance is made of, by the definition: subtract each that fits, from the
/// largest on.
fn skips_of(mut distance: usize, rule: Rule, p: usize) -> usize {
    let sequence = Sequence::of_rule(rule, p);
    let mut skips = 0;
    for round in 0..sequence.rounds() {
        let (_, skip) = sequence.step(round);
        if distance >= skip {
            distance -= skip;
            skips += 1;
        }
    }
    assert_eq!(distance, 0);
    skips
}

fn rounds_of(rule: Rule, p: usize) -> usize {
    Sequence::of_rule(rule, p).rounds()
}

/// Every rule for small p; for large p, those of many rounds take too long to simulate all.
fn rules(p: usize) -> impl Iterator<Item = Rule> {
    let is_chosen = move |rule: &Rule| match rule {
        Rule::Halving => true,
        Rule::Power2 | Rule::Sqrt => p <= 65 || p % 8 == 1,
        Rule::Linear => p <= 40 || p % 100 == 0,
    };
    <Rule as VariantArray>::VARIANTS
        .iter()
        .copied()
        .filter(is_chosen)
}

/// Theorem 1, of the paper on non-pipelined algorithms: q rounds, p - 1 blocks sent, received,
/// reduced.
#[test]
fn reduce_scatter_and_allgather_move_exactly_p_minus_1_blocks() {
    for p in processes(300) {
        for rule in rules(p) {
            let length = 1 + p % 3;
            let blocks = (p - 1) * length;
            for in_place in [false, true] {
                let collective = Collective::ReduceScatter(rule);
                for count in run(collective, p, 1, vec![length; p], in_place) {
                    assert_eq!(count.rounds, rounds_of(rule, p), "{rule:?} p={p}");
                    let messages = (count.messages_sent, count.messages_received);
                    assert_eq!(messages, (count.rounds, count.rounds));
                    assert_eq!((count.sent, count.received), (blocks, blocks));
                    assert_eq!(count.reduced, blocks, "{rule:?} p={p}");
                    if rule == Rule::Halving {
                        // What the paper's first loop copies is (p - 1) blocks.
                        let (half, quarter) = (p / 2, p.div_ceil(2) / 2);
                        assert!(count.copied <= (half + quarter * (p % 2) + 1) * length);
                    }
                }
            }
            for count in run(Collective::Allgather(rule), p, 1, vec![length; p], false) {
                assert_eq!(count.rounds, rounds_of(rule, p));
                let messages = (count.messages_sent, count.messages_received);
                assert_eq!(messages, (count.rounds, count.rounds));
                assert_eq!((count.sent, count.received), (blocks, blocks));
            }
        }
    }
}

/// Theorem 2: 2q rounds, 2(p - 1) blocks sent and received, p - 1 reduced.
#[test]
fn allreduce_moves_exactly_twice_as_much() {
    for p in processes(300) {
        for rule in rules(p) {
            let length = 1 + p % 2;
            let blocks = (p - 1) * length;
            for in_place in [false, true] {
                for count in run(Collective::Allreduce(rule), p, 1, vec![length; p], in_place) {
                    assert_eq!(count.rounds, 2 * rounds_of(rule, p));
                    assert_eq!(count.messages_sent, count.rounds);
                    assert_eq!((count.sent, count.received), (2 * blocks, 2 * blocks));
                    assert_eq!(count.reduced, blocks, "{rule:?} p={p}");
                }
            }
        }
    }
}

/// Blocks of different sizes, empty ones among them: all that a process sends is what it combines
/// or gathers for others.
#[test]
fn irregular_blocks_are_no_failure() {
    for p in (1..=40).chain([63, 64, 65, 100]) {
        for rule in rules(p) {
            for lengths in inputs(p, 3) {
                for in_place in [false, true] {
                    let combined = [Collective::ReduceScatter(rule), Collective::Allreduce(rule)];
                    for collective in combined {
                        for count in run(collective, p, 1, lengths.clone(), in_place) {
                            let total: usize = lengths.iter().sum();
                            assert!(count.reduced <= total * count.rounds);
                        }
                    }
                }
                let total: usize = lengths.iter().sum();
                let counts = run(Collective::Allgather(rule), p, 1, lengths.clone(), false);
                for (rank, count) in counts.iter().enumerate() {
                    assert_eq!(count.received, total - lengths[rank], "{rule:?} p={p}");
                }
            }
        }
    }
}

/// The steps of `problem` move and combine what its rounds do.
fn expect_the_same_in_steps(problem: &Problem) {
    let at_once = solve(&Problem {
        segment: None,
        ..problem.clone()
    });
    let moved = |count: &Counts| (count.sent, count.received, count.reduced);
    for (count, at_once) in solve(problem).iter().zip(&at_once) {
        assert_eq!(moved(count), moved(at_once), "{problem:?}");
    }
}

/// Steps of fewer units than a round has: the same blocks, in more messages of no more than that.
#[test]
fn rounds_may_go_in_steps() {
    for p in (2..=20).chain([31, 33, 65]) {
        for rule in rules(p) {
            for (segment, length) in [(1, 3), (4, 3), (7, 3), (5, 10), (7, 23), (30, 4)] {
                for in_place in [false, true] {
                    for collective in [
                        Collective::ReduceScatter(rule),
                        Collective::Allreduce(rule),
                        Collective::Allgather(rule),
                    ] {
                        let problem = Problem {
                            collective,
                            processes: p,
                            blocks: 1,
                            lengths: vec![length; p],
                            segment: Some(segment),
                            in_place,
                            pacing: PACING,
                        };
                        let times = match collective {
                            Collective::Allreduce(_) => 2,
                            _ => 1,
                        };
                        for count in solve(&problem) {
                            assert_eq!(count.sent, times * (p - 1) * length, "{problem:?}");
                            assert!(count.rounds * segment >= count.sent);
                        }
                        if in_place == (segment % 2 == 0) {
                            expect_the_same_in_steps(&Problem {
                                lengths: inputs(p, 3)[3].clone(),
                                ..problem
                            });
                        }
                    }
                }
            }
        }
    }
}

/// Operators that are not commutative: p - 1 rounds and blocks, combined in the order of ranks.
#[test]
fn the_order_of_ranks_is_kept() {
    for p in (1..=65).chain([100, 150]) {
        for lengths in inputs(p, 2) {
            for in_place in [false, true] {
                let scatter = Collective::ReduceScatterInOrder;
                let counts = run(scatter, p, 1, lengths.clone(), in_place);
                for (count, length) in counts.iter().zip(&lengths) {
                    assert_eq!((count.rounds, count.reduced), (p - 1, (p - 1) * length));
                    assert_eq!(count.received, (p - 1) * length);
                }
                let counts = run(
                    Collective::AllreduceInOrder,
                    p,
                    1,
                    lengths.clone(),
                    in_place,
                );
                assert!(counts.iter().all(|count| count.rounds == p - 1 + q(p)));
            }
        }
    }
}

/// q rounds for every p, and the reductions that the file's text says.
#[test]
fn census_takes_q_rounds() {
    for p in processes(300).skip(1) {
        let halves = Sequence::of_rule(Rule::Halving, p);
        let inclusive = (0..q(p) - 1)
            .filter(|&round| halves.step(round).0 % 2 == 0)
            .count();
        for count in run(Collective::Census, p, 1, vec![5], false) {
            assert_eq!((count.rounds, count.messages_sent), (q(p), q(p)));
            assert_eq!((count.sent, count.received), (5 * q(p), 5 * q(p)));
            assert_eq!(count.reduced, 5 * (q(p) - 1 + inclusive + 1), "p={p}");
        }
    }
}

#[test]
fn all_to_all_moves_each_block_over_its_skips() {
    for p in processes(300) {
        for rule in rules(p) {
            let length = 1 + p % 3;
            let skips: usize = (0..p).map(|distance| skips_of(distance, rule, p)).sum();
            for count in run(Collective::AllToAll(rule), p, 1, vec![length; p], false) {
                assert_eq!(count.rounds, rounds_of(rule, p));
                let blocks = (skips * length, skips * length);
                assert_eq!((count.sent, count.received), blocks, "{rule:?} p={p}");
            }
        }
    }
}

#[test]
fn pairwise_moves_each_block_once() {
    for p in processes(300) {
        for (length, segment) in [(1, 1), (7, 3), (12, 100)] {
            let problem = Problem {
                collective: Collective::Pairwise,
                processes: p,
                blocks: 1,
                lengths: vec![length; p],
                segment: Some(segment),
                in_place: false,
                pacing: PACING,
            };
            for count in simulate(&problem).unwrap() {
                assert_eq!(count.rounds, (p - 1) * length.div_ceil(segment));
                assert_eq!(count.messages_sent, count.rounds);
                assert_eq!(
                    (count.sent, count.received),
                    ((p - 1) * length, (p - 1) * length)
                );
            }
        }
    }
}

/// Every process sends (receives) once, and every block travels over the skips of its distance.
#[test]
fn gather_and_scatter_use_every_process_once() {
    for p in processes(300) {
        for rule in rules(p) {
            let root = (7 * p / 3) % p;
            let skips: usize = (0..p).map(|distance| skips_of(distance, rule, p)).sum();
            let gather = run(Collective::Gather(root, rule), p, 1, vec![2; p], false);
            let scatter = run(Collective::Scatter(root, rule), p, 1, vec![2; p], false);
            for rank in 0..p {
                let once = usize::from(rank != root);
                assert_eq!(gather[rank].rounds, rounds_of(rule, p));
                assert_eq!(scatter[rank].rounds, rounds_of(rule, p));
                assert_eq!(gather[rank].messages_sent, once, "{rule:?} p={p}");
                assert_eq!(scatter[rank].messages_received, once, "{rule:?} p={p}");
            }
            for (counts, root_units) in [
                (&gather, gather[root].received),
                (&scatter, scatter[root].sent),
            ] {
                assert_eq!(root_units, 2 * (p - 1));
                assert_eq!(
                    counts.iter().map(|count| count.sent).sum::<usize>(),
                    2 * skips
                );
            }
        }
    }
}

#[test]
fn every_pacing_moves_the_same_in_few_rounds() {
    for p in [2, 3, 5, 9, 17, 33] {
        for &rule in <Rule as VariantArray>::VARIANTS {
            for (collective, lengths) in [
                (Collective::Allgather(rule), inputs(p, 2)[3].clone()),
                (Collective::ReduceScatter(rule), inputs(p, 2)[1].clone()),
                (Collective::Allreduce(rule), inputs(p, 2)[3].clone()),
                (Collective::Census, vec![3]),
                (Collective::AllToAll(rule), vec![3; p]),
                (Collective::Pairwise, vec![3; p]),
                (Collective::Gather(p - 1, rule), vec![3; p]),
                (Collective::Scatter(p / 2, rule), vec![3; p]),
            ] {
                let reduces = matches!(
                    collective,
                    Collective::ReduceScatter(_) | Collective::Allreduce(_)
                );
                for in_place in [false, reduces] {
                    expect_the_same_at_every_pacing(&Problem {
                        collective,
                        processes: p,
                        blocks: 1,
                        lengths: lengths.clone(),
                        segment: None,
                        in_place,
                        pacing: PACING,
                    });
                }
            }
        }
    }
}

/// The paper's example: p = 22, and how process 21 computes its block.
#[test]
fn order_of_reduction_is_the_papers() {
    let p = 22;
    let sequence = Arc::new(Sequence::of_rule(Rule::Halving, p));
    let plan = |rank| Reversed(Doubling::new(sequence.clone(), rank, Segments::WHOLE));
    let plans: Vec<_> = (0..p).map(plan).collect();
    // What each process has for each message, as a sum.
    let mut sums: Vec<Vec<String>> = (0..p).map(|rank| vec![format!("x{rank}"); p]).collect();
    for index in 0..plans[0].shape().rounds {
        let before = sums.clone();
        for (rank, plan) in plans.iter().enumerate() {
            let mut round = Round::default();
            plan.fill(index, &mut round);
            for incoming in round.receives {
                let (from, message) = (round.from, incoming.block.message);
                let received = &before[from][message];
                let received = if received.contains('+') {
                    format!("({received})")
                } else {
                    received.clone()
                };
                sums[rank][message] += &format!("+{received}");
            }
        }
    }
    let paper = "x21+x10\
                 +(x15+x4)\
                 +(x18+x7+(x12+x1))\
                 +(x19+x8+(x13+x2)+(x16+x5))\
                 +(x20+x9+(x14+x3)+(x17+x6+(x11+x0)))";
    assert_eq!(sums[21][21], paper);
}
