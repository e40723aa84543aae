//! The schedules against the paper's tables, the four conditions, the paper's own algorithms, and a
//! simulated broadcast.

#[path = "schedule/library.rs"]
mod library;
#[path = "schedule/oracle.rs"]
mod oracle;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use circulant::schedule::{Counts, MAX_Q, Skips, Table, receive_schedule_with, send_schedule_with};
use library::{of_process, within_bounds};
use oracle::{ALGORITHM_6_HOLDS, Paper, Whole};

/// All numbers of processes up to this one. (Miri is some thousand times slower.)
fn exhaustive() -> usize {
    match std::env::var_os("SIMULATE_ALL") {
        _ if cfg!(miri) => 20,
        None => 2500,
        Some(_) => 5000,
    }
}

fn of_all(p: usize) -> (Whole, Whole) {
    let skips = Skips::new(p);
    (0..p).map(|r| of_process(&skips, r)).unzip()
}

/// Runs `check` for all p in `range` on all cores, the large ones first.
fn for_each_p(range: std::ops::RangeInclusive<usize>, check: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(*range.end());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                loop {
                    let p = next.fetch_sub(1, Relaxed);
                    if !range.contains(&p) {
                        break;
                    }
                    check(p);
                }
            });
        }
    });
}

fn golden(text: &str) -> Vec<(String, Vec<i64>)> {
    let row = |line: &str| {
        let (name, cells) = line.split_once(':').unwrap_or_default();
        let cells = cells
            .split_whitespace()
            .filter_map(|cell| cell.parse().ok());
        (name.to_owned(), cells.collect())
    };
    text.lines().map(row).collect()
}

fn agrees_with(table: &str) {
    let rows = golden(table);
    let p = rows[0].1.len();
    let skips = Skips::new(p);
    let (recv, send) = of_all(p);
    let column = |whole: &Whole, k: usize| whole.iter().map(|entries| entries[k]).collect();
    let mut expected = vec![
        ("r".to_owned(), (0..p as i64).collect()),
        (
            "b".to_owned(),
            (0..p).map(|r| skips.baseblock(r) as i64).collect(),
        ),
    ];
    for (name, whole) in [("recvblock", &recv), ("sendblock", &send)] {
        expected.extend((0..skips.q()).map(|k| (format!("{name}[{k}]"), column(whole, k))));
    }
    assert_eq!(rows, expected);
}

#[test]
fn table_1_of_the_paper() {
    agrees_with(include_str!("schedule/table1.txt"));
}

#[test]
fn table_2_of_the_paper() {
    agrees_with(include_str!("schedule/table2.txt"));
}

#[test]
fn table_3_of_the_paper() {
    agrees_with(include_str!("schedule/table3.txt"));
}

#[test]
fn one_process_has_empty_schedules() {
    let skips = Skips::new(1);
    assert_eq!(
        (skips.processes(), skips.q(), skips.baseblock(0)),
        (1, 0, 0)
    );
    assert_eq!(of_process(&skips, 0), (vec![], vec![]));
    let table = Table::new(&skips);
    assert_eq!((table.processes(), table.q()), (1, 0));
}

/// For every p: the conditions, the paper's algorithms entry by entry, the table of all processes,
/// and the bounds of Theorems 2 and 3, both for the paper's algorithms and for the library's.
#[test]
fn every_number_of_processes() {
    for_each_p(1..=exhaustive(), |p| {
        let (skips, mut paper) = (Skips::new(p), Paper::new(p));
        assert_eq!(skips.as_slice(), paper.skip);
        let (recv, send) = of_all(p);
        assert_eq!(
            oracle::violation(&paper.skip, &recv, &send),
            None,
            "p = {p}"
        );
        let table = Table::new(&skips);
        for r in 0..p {
            assert_eq!(skips.baseblock(r), paper.baseblock(r), "p = {p}, r = {r}");
            assert_eq!(recv[r], paper.receive(r), "p = {p}, r = {r}");
            assert!(
                p == 1 || paper.calls < paper.q,
                "p = {p}, r = {r}: {} calls",
                paper.calls
            );
            assert_eq!(send[r], paper.send(r), "p = {p}, r = {r}");
            assert!(
                paper.violations <= 4,
                "p = {p}, r = {r}: {}",
                paper.violations
            );
            for (k, &block) in recv[r].iter().enumerate() {
                assert_eq!(i64::from(table.receive(r, k)), block, "p = {p}, r = {r}");
            }
            within_bounds(&skips, r);
        }
    });
}

/// Entry by entry the paper's algorithms, at p far beyond what can be exhausted.
///
/// A process sends what the receiver's receive schedule says (Condition 2), which is what Algorithm 6 says
/// up to [`ALGORITHM_6_HOLDS`].
#[test]
fn large_numbers_of_processes() {
    let mut state = 0x2024_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 1) as usize % below
    };
    let mut sizes: Vec<usize> = (13..=24)
        .flat_map(|e| [(1 << e) - 1, 1 << e, (1 << e) + 1])
        .collect();
    sizes.extend((0..1000).map(|_| 1 + random(1 << 24)));
    sizes.extend((0..100).map(|_| 1 + random(1 << 40)));
    sizes
        .extend((25..MAX_Q).flat_map(|e| [(1 << e) + 1, (1 << e) + 2, (1 << e) + 1 + random(200)]));
    sizes.push(1 << MAX_Q);
    for p in sizes {
        let (skips, mut paper) = (Skips::new(p), Paper::new(p));
        let skip = paper.skip.clone();
        let near = skip.iter().flat_map(|&s| [s - 1, s, s + 1]);
        let last = (1..20).filter_map(|back| p.checked_sub(back));
        let some = (0..50).map(|_| random(p));
        for r in near
            .filter(|&r| r < p)
            .chain(last)
            .chain(some.collect::<Vec<_>>())
        {
            let (recv, send) = of_process(&skips, r);
            assert_eq!(recv, paper.receive(r), "p = {p}, r = {r}");
            for (k, &block) in send.iter().enumerate() {
                let expected = paper.receive((r + skip[k]) % p)[k];
                assert_eq!(block, expected, "p = {p}, r = {r}, k = {k}");
            }
            if p <= ALGORITHM_6_HOLDS {
                assert_eq!(send, paper.send(r), "p = {p}, r = {r}");
            }
            within_bounds(&skips, r);
        }
    }
}

/// What the paper does not say: the two places known where its Algorithm 6 is not what it is proved to be.
#[test]
fn algorithm_6_as_it_is_printed() {
    // The upper half has two processes, fewer than skip[2]. Algorithm 6 takes it that the receiver lacks
    // block 3. But the segment between the two has two processes as well, and so process 1 got 3 in round 2.
    let p = ALGORITHM_6_HOLDS + 1;
    let (mut paper, skips) = (Paper::new(p), Skips::new(p));
    let (sender, q) = (p - 4, paper.q as i64);
    assert_eq!((sender + paper.skip[3]) % p, 1);
    assert_eq!((paper.send(sender)[3], paper.receive(1)[3]), (3 - q, 2 - q));
    assert_eq!(paper.receive(1)[2], 3 - q);
    assert_eq!(of_process(&skips, sender).1[3], 2 - q);
    // Theorem 3 has at most four violations.
    let mut paper = Paper::new((1 << 29) + 9);
    paper.send(469_762_055);
    assert_eq!(paper.violations, 5);
}

#[test]
fn twice_the_processes_by_observation_2() {
    for p in 2..=300 {
        assert_eq!(of_all(2 * p).0, oracle::doubled(&of_all(p).0), "p = {p}");
    }
}

#[test]
fn broadcast_of_n_blocks_in_n_minus_1_plus_q_rounds() {
    for_each_p(2..=130, |p| {
        let (recv, send) = of_all(p);
        let skip = Paper::new(p).skip;
        for n in (1..=10).chain([31, 32, 33]) {
            assert!(
                oracle::broadcast(&skip, &recv, &send, n),
                "p = {p}, n = {n}"
            );
        }
    });
}

/// The oracle itself: each condition is violated by a change of one entry, or of one on each side.
#[test]
fn the_conditions_can_fail() {
    let skip = Paper::new(17).skip;
    let (recv, send) = of_all(17);
    let violated = |change: &dyn Fn(&mut Whole, &mut Whole)| {
        let (mut recv, mut send) = (recv.clone(), send.clone());
        change(&mut recv, &mut send);
        oracle::violation(&skip, &recv, &send).map(|(condition, ..)| condition)
    };
    assert_eq!(violated(&|recv, _| recv[0][3] = -5), Some(1));
    assert_eq!(violated(&|_, send| send[0][0] = -1), Some(2));
    assert_eq!(
        violated(&|recv, send| (recv[0][4], send[8][4]) = (-1, -1)),
        Some(3)
    );
    assert_eq!(
        violated(&|recv, send| (recv[6][0], send[5][0]) = (-3, -3)),
        Some(4)
    );
    assert!(!oracle::broadcast(&skip, &recv, &recv, 7));
}

/// The steps of the receive schedule of a process, and those of its send schedule.
fn counts(skips: &Skips, r: usize) -> [Counts; 2] {
    let (mut receiving, mut sending) = (Counts::default(), Counts::default());
    let mut entries = [0; MAX_Q];
    receive_schedule_with(skips, r, &mut entries, &mut receiving);
    send_schedule_with(skips, r, &mut entries, &mut sending);
    [receiving, sending]
}

/// All segments of a level are as long, so one descent gives all entries of both schedules.
#[test]
fn powers_of_two_need_one_descent() {
    for q in 0..=10 {
        let skips = Skips::new(1 << q);
        let descent = Counts {
            levels: q,
            ..Counts::default()
        };
        for r in 0..1 << q {
            assert_eq!(counts(&skips, r), [descent; 2], "p = 2^{q}, r = {r}");
        }
    }
}

/// Few of the entries that depend on earlier rounds are searched, and what the receiver lacks takes
/// the last levels of its descent, not a whole one.
#[test]
fn searches_and_whole_descents_are_exceptions() {
    let (mut settled, mut searches, mut levels, mut whole) = (0, 0, 0, 0);
    for p in 1..=1000 {
        let skips = Skips::new(p);
        for r in 0..p {
            let [receiving, sending] = counts(&skips, r);
            assert!(receiving.searches <= 3, "p = {p}, r = {r}: {receiving:?}");
            settled += receiving.contested + receiving.searches;
            searches += receiving.searches;
            levels += sending.levels - skips.q();
            whole += sending.violations * skips.q();
        }
    }
    assert!(
        searches > 0 && searches * 5 < settled,
        "{searches} {settled}"
    );
    assert!(levels > 0 && levels * 3 < whole, "{levels} {whole}");
}

/// The table has a column for each round of a phase.
#[test]
fn a_table_has_the_rounds_of_its_skips() {
    for p in [1, 2, 3, 5, 7, 9, 16, 17, 31, 33] {
        let skips = Skips::new(p);
        let table = Table::new(&skips);
        assert_eq!((table.processes(), table.q()), (p, skips.q()));
        let columns = (0..table.q()).map(|k| table.column(k).len());
        assert!(columns.into_iter().all(|length| length == p));
    }
}
