//! Reductions whose operand grows, in the simulator, for p = 1 to 300. Results, rounds, elements
//! sent and memory are compared with serial computations and the paper's bounds.

#![allow(clippy::panic)] // That is how a test fails.

use std::collections::BTreeSet;

use circulant::extensions::growing::{Limit, Places, Rules};

use crate::processes;
use crate::simulator::contribution;
use crate::simulator::growing::{Grown, Pattern, simulate_growing, simulate_pairwise};

const PATTERNS: [Pattern; 2] = [Pattern::Dissemination, Pattern::Circulant];

const TOO_LONG: i32 = -7;

/// An element that knows where it comes from. Only the key is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    key: u64,
    rank: usize,
    position: usize,
}

fn limit(elements: usize) -> Limit {
    Limit {
        elements,
        status: TOO_LONG,
    }
}

fn rules(ordered: bool) -> Rules {
    Rules {
        ordered,
        step: usize::MAX,
        limit: limit(usize::MAX),
    }
}

const PLACES: Places = Places {
    capacity: usize::MAX,
    direct: true,
    exact: true,
};

/// ceil(log2 p).
fn q(processes: usize) -> usize {
    (0..).find(|&q| 1 << q >= processes).unwrap_or(0)
}

/// Sorted blocks of these lengths, with keys below `keys`.
fn blocks(lengths: &[usize], keys: u64) -> Vec<Vec<Record>> {
    let block = |(rank, &length): (usize, &usize)| {
        let mut keys: Vec<u64> = (0..length)
            .map(|position| contribution(rank, position, length) % keys)
            .collect();
        keys.sort_unstable();
        let records = keys.into_iter().enumerate();
        records
            .map(|(position, key)| Record {
                key,
                rank,
                position,
            })
            .collect()
    };
    lengths.iter().enumerate().map(block).collect()
}

/// The one sorted sequence, equal keys in the order of ranks and positions.
fn sorted(blocks: &[Vec<Record>]) -> Vec<Record> {
    let mut all: Vec<Record> = blocks.concat();
    all.sort_unstable();
    all
}

/// A merge of two, the slow way; equal keys of the left before those of the right.
fn merged(_: usize, left: &[Record], right: &[Record]) -> Result<Vec<Record>, i32> {
    assert!(left.is_sorted_by_key(|record| record.key));
    assert!(right.is_sorted_by_key(|record| record.key));
    let mut both = [left, right].concat();
    both.sort_by_key(|record| record.key);
    Ok(both)
}

fn joined(_: usize, left: &[Record], right: &[Record]) -> Result<Vec<Record>, i32> {
    Ok([left, right].concat())
}

fn solve(pattern: Pattern, blocks: &[Vec<Record>], rules: Rules) -> Vec<Grown<Record>> {
    simulate_growing(pattern, blocks, rules, PLACES, &merged)
        .unwrap_or_else(|failure| panic!("{pattern:?} p={}: {failure:?}", blocks.len()))
}

/// Blocks that Algorithm 1 sends beyond p - 1: for each 1 of p - 2^floor(log2 p) in binary, the
/// number that its lower digits make.
fn extra(processes: usize) -> usize {
    let digits = format!("{processes:b}");
    let digits: Vec<char> = digits.chars().skip(1).collect();
    let lower = |from: usize| {
        let value = |sum: usize, &digit: &char| 2 * sum + usize::from(digit == '1');
        digits[from..].iter().fold(0, value)
    };
    let ones = (0..digits.len()).filter(|&index| digits[index] == '1');
    ones.map(|index| lower(index + 1)).sum()
}

/// The paper's bounds, for equal blocks: rounds, elements sent, memory besides the result.
#[test]
fn equal_blocks_keep_the_papers_bounds() {
    const M: usize = 3;
    for p in processes(300) {
        let blocks = blocks(&vec![M; p], 50);
        let expected = sorted(&blocks);
        for (pattern, ordered) in PATTERNS.into_iter().flat_map(|a| [(a, true), (a, false)]) {
            for (rank, grown) in solve(pattern, &blocks, rules(ordered)).iter().enumerate() {
                let case = format!("{pattern:?} p={p} rank={rank} ordered={ordered}");
                if ordered {
                    assert_eq!(grown.result, expected, "{case}");
                } else {
                    let keys = |of: &[Record]| of.iter().map(|r| r.key).collect::<Vec<_>>();
                    assert_eq!(keys(&grown.result), keys(&expected), "{case}");
                }
                assert_eq!((grown.rounds, grown.messages), (q(p), q(p)), "{case}");
                let sent = match pattern {
                    Pattern::Circulant => (p - 1) * M,
                    Pattern::Dissemination => (p - 1 + extra(p)) * M,
                };
                assert_eq!((grown.sent, grown.received), (sent, sent), "{case}");
                assert!(2 * sent <= 3 * (p - 1) * M, "{case}");
                assert!(grown.memory <= 3 * M * p, "{case} {}", grown.memory);
            }
        }
    }
}

/// Lengths of all kinds: equal, unequal, empty, all elements on one process.
fn lengths(p: usize) -> Vec<Vec<usize>> {
    let mut cases = vec![
        vec![0; p],
        (0..p).map(|rank| rank % 2).collect(),
        (0..p).map(|rank| 3 * rank % 7).collect(),
        (0..p).map(|rank| p - rank).collect(),
        (0..p)
            .map(|rank| (contribution(p, rank, 1) % 20) as usize * (rank % 3))
            .collect(),
    ];
    for alone in [0, p / 2, p - 1] {
        cases.push((0..p).map(|rank| usize::from(rank == alone) * 17).collect());
        cases.push(
            (0..p)
                .map(|rank| if rank == alone { 90 } else { 1 })
                .collect(),
        );
    }
    cases
}

/// Each process receives each element of the others once. With Algorithm 1 it receives those of the
/// part a second time at most.
#[test]
fn unequal_blocks_are_merged_stably() {
    for p in (1..=40).chain([63, 64, 65, 100, 129, 300]) {
        for (lengths, keys) in lengths(p).iter().flat_map(|l| [(l, 4), (l, 1 << 40)]) {
            let blocks = blocks(lengths, keys);
            let expected = sorted(&blocks);
            let total = expected.len();
            for pattern in PATTERNS {
                let all = solve(pattern, &blocks, rules(true));
                for (rank, grown) in all.iter().enumerate() {
                    let case = format!("{pattern:?} {lengths:?} keys={keys} rank={rank}");
                    assert_eq!(grown.result, expected, "{case}");
                    assert_eq!((grown.rounds, grown.messages), (q(p), q(p)), "{case}");
                    assert_eq!(grown.outcome.elements, total, "{case}");
                    assert_eq!(grown.outcome.status, 0, "{case}");
                    let others = total - lengths[rank];
                    match pattern {
                        Pattern::Circulant => assert_eq!(grown.received, others, "{case}"),
                        Pattern::Dissemination => {
                            assert!(grown.received >= others, "{case}");
                            assert!(grown.received <= 2 * others, "{case}");
                        }
                    }
                }
                let sum = |of: fn(&Grown<Record>) -> usize| all.iter().map(of).sum::<usize>();
                assert_eq!(sum(|grown| grown.sent), sum(|grown| grown.received));
            }
        }
    }
}

/// Concatenation is associative and does not commute: only rank order gives the right result.
#[test]
fn rank_order_is_kept() {
    for p in processes(300) {
        let lengths: Vec<_> = (0..p)
            .map(|rank| (contribution(p, rank, 2) % 3) as usize)
            .collect();
        let blocks = blocks(&lengths, 1 << 40);
        let expected = blocks.concat();
        for pattern in PATTERNS {
            let all = simulate_growing(pattern, &blocks, rules(true), PLACES, &joined);
            let all = all.unwrap_or_else(|failure| panic!("{pattern:?} p={p}: {failure:?}"));
            for (rank, grown) in all.iter().enumerate() {
                assert_eq!(grown.result, expected, "{pattern:?} p={p} rank={rank}");
            }
        }
    }
}

/// Sets, whose union is shorter than they are together.
#[test]
fn unions_shrink() {
    for p in (1..=40).chain([127, 128, 129]) {
        let sets: Vec<Vec<u64>> = (0..p)
            .map(|rank| {
                let size = contribution(p, rank, 3) as usize % 6;
                let set: BTreeSet<u64> = (0..size).map(|i| contribution(rank, i, 4) % 40).collect();
                set.into_iter().collect()
            })
            .collect();
        let union = |_: usize, left: &[u64], right: &[u64]| {
            let set: BTreeSet<u64> = left.iter().chain(right).copied().collect();
            Ok(set.into_iter().collect())
        };
        let expected: BTreeSet<u64> = sets.iter().flatten().copied().collect();
        let expected: Vec<u64> = expected.into_iter().collect();
        for (pattern, direct) in PATTERNS.into_iter().flat_map(|a| [(a, true), (a, false)]) {
            // Just enough: the last two operands may be longer, and have to be combined elsewhere.
            for capacity in [expected.len(), expected.len().saturating_sub(1)] {
                let places = Places {
                    capacity,
                    direct,
                    exact: false,
                };
                let all = simulate_growing(pattern, &sets, rules(true), places, &union);
                let all = all.unwrap_or_else(|failure| panic!("{pattern:?} p={p}: {failure:?}"));
                for grown in all {
                    assert_eq!(grown.outcome.elements, expected.len(), "{pattern:?} p={p}");
                    let fits = capacity == expected.len();
                    assert_eq!(grown.result, if fits { &expected[..] } else { &[] });
                }
            }
        }
    }
}

/// A merge that has no room for its result says how long it would be.
#[test]
fn too_small_a_capacity_is_no_failure() {
    for p in [1, 2, 3, 5, 16, 17, 31] {
        let blocks = blocks(&vec![4; p], 9);
        for (pattern, direct) in PATTERNS.into_iter().flat_map(|a| [(a, true), (a, false)]) {
            let places = Places {
                capacity: 4 * p - 1,
                direct,
                exact: true,
            };
            let all = simulate_growing(pattern, &blocks, rules(true), places, &merged);
            for grown in all.unwrap_or_else(|failure| panic!("{failure:?}")) {
                assert_eq!((grown.outcome.elements, grown.outcome.status), (4 * p, 0));
                assert!(grown.result.is_empty());
            }
        }
    }
}

/// Long messages go in steps of at most so many elements, and in no more steps than that takes.
#[test]
fn steps_are_no_failure() {
    for p in [2, 3, 5, 7, 8, 11, 16, 17, 31, 33] {
        for (lengths, step) in lengths(p)
            .iter()
            .flat_map(|l| [1, 2, 7, 90].map(|s| (l, s)))
        {
            let blocks = blocks(lengths, 9);
            let expected = sorted(&blocks);
            for pattern in PATTERNS {
                let whole = solve(pattern, &blocks, rules(true));
                let rules = Rules {
                    step,
                    ..rules(true)
                };
                for (grown, whole) in solve(pattern, &blocks, rules).iter().zip(whole) {
                    assert_eq!(grown.result, expected, "{pattern:?} {lengths:?} {step}");
                    assert_eq!(grown.sent, whole.sent);
                    let most = grown.rounds + grown.sent / step;
                    assert!((grown.rounds..=most).contains(&grown.messages));
                }
            }
        }
    }
}

/// If there are too many elements, every process finds that, and knows how many. A result that is
/// just as long as allowed is not too long.
#[test]
fn all_processes_know_that_a_merge_is_too_long() {
    for p in 2..=33 {
        for lengths in lengths(p) {
            let blocks = blocks(&lengths, 9);
            let expected = sorted(&blocks);
            let total = expected.len();
            for (pattern, less) in PATTERNS.into_iter().flat_map(|a| [0, 1, 8].map(|b| (a, b))) {
                let Some(most) = total.checked_sub(less) else {
                    continue;
                };
                // A single block of more than the limit is the caller's to refuse.
                if lengths.iter().any(|&length| length > most) {
                    continue;
                }
                let rules = Rules {
                    limit: limit(most),
                    ..rules(true)
                };
                for grown in solve(pattern, &blocks, rules) {
                    assert_eq!(grown.outcome.elements, total);
                    if less == 0 {
                        assert_eq!(grown.outcome.status, 0);
                        assert_eq!(grown.result, expected);
                    } else {
                        assert_eq!(grown.outcome.status, TOO_LONG, "{pattern:?} {lengths:?}");
                        assert!(grown.result.is_empty());
                    }
                }
            }
        }
    }
}

/// If an operator fails somewhere, nobody waits for ever, and each result that a process has is
/// right.
#[test]
fn an_operator_that_fails_ends_the_operation() {
    for p in 2..=40 {
        let blocks = blocks(&vec![2; p], 9);
        let expected = sorted(&blocks);
        for (pattern, who) in PATTERNS
            .into_iter()
            .flat_map(|a| [0, p / 2, p - 1].map(|b| (a, b)))
        {
            for least in [4, p, 2 * p] {
                let failing = |rank: usize, left: &[Record], right: &[Record]| {
                    if rank == who && left.len() + right.len() >= least {
                        Err(42)
                    } else {
                        merged(rank, left, right)
                    }
                };
                let all = simulate_growing(pattern, &blocks, rules(true), PLACES, &failing);
                let all = all.unwrap_or_else(|failure| panic!("{pattern:?} p={p}: {failure:?}"));
                assert_eq!(
                    all[who].outcome.status, 42,
                    "{pattern:?} p={p} {who} {least}"
                );
                for grown in all {
                    match grown.outcome.status {
                        0 => assert_eq!(grown.result, expected),
                        status => assert_eq!((status, grown.result.len()), (42, 0)),
                    }
                }
            }
        }
    }
}

/// Algorithm 0 takes ceil(log2 k) combinations of all elements for k equal runs, the last of them
/// into the result, and memory for two copies besides.
#[test]
fn runs_are_merged_in_pairs() {
    for p in processes(300) {
        let all = [vec![3; p]]
            .into_iter()
            .chain(lengths(p).into_iter().take(4));
        for (lengths, direct) in all.flat_map(|lengths| [(lengths.clone(), true), (lengths, false)])
        {
            let blocks = blocks(&lengths, 9);
            let places = Places { direct, ..PLACES };
            let grown = simulate_pairwise(&blocks, limit(usize::MAX), places, &merged);
            let grown = grown.unwrap_or_else(|failure| panic!("{failure:?}"));
            assert_eq!(grown.result, sorted(&blocks), "{lengths:?}");
            let total = grown.result.len();
            assert_eq!((grown.outcome.elements, grown.outcome.status), (total, 0));
            assert!(grown.combined <= q(p) * total, "{lengths:?}");
            assert!(grown.memory <= 2 * total, "{lengths:?}");
        }
    }
}

/// The order of runs of any length is kept. Too many elements are found.
#[test]
fn pairs_keep_the_order_of_runs() {
    for p in 1..=50 {
        for lengths in lengths(p) {
            let blocks = blocks(&lengths, 9);
            let total = lengths.iter().sum::<usize>();
            let solve = |most: usize, capacity: usize| {
                let places = Places { capacity, ..PLACES };
                let grown = simulate_pairwise(&blocks, limit(most), places, &joined);
                grown.unwrap_or_else(|failure| panic!("{failure:?}"))
            };
            assert_eq!(solve(total, total).result, blocks.concat());
            if let Some(less) = total.checked_sub(1) {
                let short = solve(total, less);
                assert_eq!((short.outcome.elements, short.outcome.status), (total, 0));
                assert!(short.result.is_empty());
                let outcome = solve(less, total).outcome;
                assert_eq!((outcome.elements, outcome.status), (total, TOO_LONG));
            }
        }
    }
}
