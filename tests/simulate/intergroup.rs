//! MPI_Allgather(v) between two groups, in the simulator, against Theorems 1 and 3 of Kang, Träff
//! et al.

#![allow(clippy::panic)] // That is how a test fails.

use strum::VariantArray;

use circulant::engine::{Pacing, Synchronous};
use circulant::plan::Division;
use circulant::schedule::Rule;

use crate::simulator::{Counts, Intergroup, simulate_intergroup};

const PACING: Pacing = Pacing {
    window: 4,
    sends: 2,
    synchronous: Synchronous::Unpaced,
};

fn solve(lengths: [Vec<usize>; 2], division: Division, segment: usize) -> Vec<Counts> {
    let problem = Intergroup {
        lengths,
        division,
        segment,
        rule: Rule::Halving,
        pacing: PACING,
        chance: None,
    };
    simulate_intergroup(&problem).unwrap_or_else(|failure| panic!("{problem:?}: {failure:?}"))
}

/// Every process receives the other group's data once. What it sends is, in the exchange, its
/// block, and in the allgather the segments of others that follow its own; so neither passes the
/// bound.
fn check(lengths: &[Vec<usize>; 2], counts: &[Counts], bound: usize) {
    let totals = [0, 1].map(|group| lengths[group].iter().sum::<usize>());
    for (process, count) in counts.iter().enumerate() {
        let group = usize::from(process >= lengths[0].len());
        assert_eq!(count.received, totals[1 - group], "{lengths:?} {process}");
        assert!(
            count.sent <= bound,
            "{lengths:?} {process}: {count:?} > {bound}"
        );
    }
    let sent: usize = counts.iter().map(|count| count.sent).sum();
    let received: usize = counts.iter().map(|count| count.received).sum();
    assert_eq!(sent, received);
}

fn group_sizes() -> impl Iterator<Item = (usize, usize)> {
    let sizes = [1, 2, 3, 5, 7, 8, 9, 16, 17, 25, 31, 33];
    sizes.into_iter().flat_map(move |p| sizes.map(|q| (p, q)))
}

/// Theorem 1: M + kB bytes, B being the smaller group; and ceil(p/q) rounds of exchange.
#[test]
fn equal_blocks_stay_within_theorem_1() {
    for (p, q) in group_sizes() {
        for (a, b) in [(60, 60), (7, 60), (60, 7), (1, 1), (0, 60), (60, 0)] {
            let lengths = [vec![a; p], vec![b; q]];
            let counts = solve(lengths.clone(), Division::ByBlocks, usize::MAX);
            let smaller = if q <= p { b } else { a };
            let theorem = (p * a).max(q * b) + smaller;
            // Where neither size divides the other, segments are not equal, which the paper leaves
            // open: then each is at most as long as the longest, and the own block comes on top.
            let longest = |from: usize, to: usize, each: usize| match from.div_ceil(to) {
                1 => each.div_ceil(to / from),
                blocks => blocks * each,
            };
            let others = ((p - 1) * longest(q, p, b) + a).max((q - 1) * longest(p, q, a) + b);
            let divides = p % q == 0 || q % p == 0;
            check(&lengths, &counts, if divides { theorem } else { others });
            let exchange = if a + b > 0 {
                p.max(q).div_ceil(p.min(q))
            } else {
                0
            };
            let messages = counts.iter().map(|count| count.messages_sent).max();
            let log = |n: usize| n.next_power_of_two().trailing_zeros() as usize;
            assert!(messages <= Some(exchange + log(p.max(q))), "{p} {q}");
        }
    }
}

fn patterns(p: usize) -> [Vec<usize>; 6] {
    [
        vec![60; p],
        (0..p).map(|rank| 10 * rank).collect(),
        (0..p).map(|rank| 10 * (p - rank)).collect(),
        (0..p)
            .map(|rank| usize::from(rank == p / 2) * 500)
            .collect(),
        (0..p).map(|rank| rank * 7919 % 101 * (rank % 3)).collect(),
        (0..p).map(|rank| rank % 2).collect(),
    ]
}

/// Theorem 3: M + max k bytes (and its logarithm of small ones to agree on sizes, not simulated
/// here).
#[test]
fn irregular_blocks_stay_within_theorem_3() {
    for (p, q) in group_sizes().filter(|&(p, q)| p * q < 300) {
        for (a, b) in (0..6).flat_map(|a| (0..6).map(move |b| (a, b))) {
            let lengths = [patterns(p)[a].clone(), patterns(q)[b].clone()];
            let counts = solve(lengths.clone(), Division::Evenly, usize::MAX);
            let total = |group: usize| lengths[group].iter().sum::<usize>();
            let largest = |group: usize| lengths[group].iter().copied().max().unwrap_or(0);
            // Segments are rounded to whole units.
            let rounding = p.max(q);
            let bound = total(0).max(total(1)) + largest(0).max(largest(1)) + rounding;
            check(&lengths, &counts, bound);
        }
    }
}

/// In steps, with any pacing and skips, the results are the same.
#[test]
fn steps_pacing_and_skips_are_no_failure() {
    let pacings = [(1, 1), (1, 4), (5, 1), (64, 64)];
    for (p, q) in [(1, 5), (4, 4), (7, 3), (9, 16)] {
        for (a, b) in [(0, 1), (2, 3), (4, 5), (3, 0)] {
            for (division, segment) in [
                (Division::Evenly, 1),
                (Division::Evenly, 17),
                (Division::ByBlocks, 17),
            ] {
                let lengths = match division {
                    Division::ByBlocks => [vec![60; p], vec![45; q]],
                    Division::Evenly => [patterns(p)[a].clone(), patterns(q)[b].clone()],
                };
                for (window, sends) in pacings {
                    for &rule in <Rule as VariantArray>::VARIANTS {
                        for synchronous in
                            [Synchronous::All, Synchronous::None, Synchronous::Unpaced]
                        {
                            let problem = Intergroup {
                                lengths: lengths.clone(),
                                division,
                                segment,
                                rule,
                                pacing: Pacing {
                                    window,
                                    sends,
                                    synchronous,
                                },
                                chance: None,
                            };
                            let counts = simulate_intergroup(&problem);
                            assert!(counts.is_ok(), "{problem:?} {counts:?}");
                        }
                    }
                }
            }
        }
    }
}
