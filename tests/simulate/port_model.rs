//! Successive broadcasts: owners and trees are compared with the paper's definitions. The executor
//! runs in the simulator, under the paper's port model.

#![allow(clippy::panic)] // That is how a test fails.

use std::collections::HashSet;

use circulant::extensions::successive::{Flow, Relay, Way};
use circulant::plan::Succession;
use circulant::transport::SendMode;

use crate::is_whole;
use crate::simulator::successive::{Broken, Outcome, SuccessiveProblem, simulate_successive};

const fn trees(ahead: usize) -> Flow {
    Flow {
        way: Way::Trees { ahead },
        mode: SendMode::Standard,
    }
}

const fn relay(factor: usize) -> Flow {
    Flow {
        way: Way::Relay { factor },
        mode: SendMode::Standard,
    }
}

fn problem(processes: usize, steps: usize) -> SuccessiveProblem {
    SuccessiveProblem {
        processes,
        steps,
        first: 0,
        length: 1,
        flow: trees(4),
        broken: Vec::new(),
    }
}

fn solve(problem: &SuccessiveProblem) -> Outcome {
    simulate_successive(problem).unwrap_or_else(|failure| panic!("{failure:?}: {problem:?}"))
}

/// The binary reflected Gray code as the paper defines it: 0 BRGC(d-1), then 1 BRGC(d-1) backwards.
fn gray_code(dimensions: u32) -> Vec<usize> {
    let Some(less) = dimensions.checked_sub(1) else {
        return vec![0];
    };
    let half = gray_code(less);
    let other = half.iter().rev().map(|x| 1 << less | x);
    half.iter().copied().chain(other).collect()
}

/// The father of `u` in SBT(x), as the paper defines it.
fn father(u: usize, x: usize, dimensions: u32) -> Option<usize> {
    let k = (0..dimensions).find(|&k| (u ^ x) >> k & 1 == 1)?;
    Some(u ^ 1 << k)
}

/// One left rotation of d bits.
fn rotated(x: usize, dimensions: u32) -> usize {
    let highest = x >> (dimensions - 1) & 1;
    (x << 1 | highest) & ((1 << dimensions) - 1)
}

fn rotated_by(x: usize, by: u32, dimensions: u32) -> usize {
    (0..by).fold(x, |x, _| rotated(x, dimensions))
}

#[test]
fn owners_follow_the_gray_code_where_p_is_a_power_of_two() {
    for dimensions in 0..=10 {
        let code = gray_code(dimensions);
        let order = Succession::new(code.len());
        for step in 0..3 * code.len() {
            assert_eq!(order.owner(step), code[step % code.len()]);
        }
        for (place, &owner) in code.iter().enumerate() {
            assert_eq!(order.place(owner), place);
        }
    }
}

#[test]
fn owners_go_round_for_every_p() {
    for p in 1..300 {
        let order = Succession::new(p);
        let owners: HashSet<_> = (0..p).map(|step| order.owner(step)).collect();
        assert_eq!(owners.len(), p);
        for step in 0..2 * p {
            let owner = order.owner(step);
            assert!(owner < p);
            assert_eq!(order.owner(step + p), owner);
            assert_eq!(order.place(owner), step % p);
            assert_eq!(order.next(owner), order.owner(step + 1));
        }
    }
}

/// R^v(SBT(x)): the father of u is R^v of the father of R^-v(u) in SBT(R^-v(x)).
#[test]
fn trees_are_the_papers_rotated_binomial_trees() {
    for dimensions in 1..=8 {
        let p = 1usize << dimensions;
        let order = Succession::new(p);
        let code = gray_code(dimensions);
        for step in 0..p {
            let (x, next) = (code[step], code[(step + 1) % p]);
            let by = (x ^ next).trailing_zeros();
            let back = |u| rotated_by(u, dimensions - by, dimensions);
            let tree = order.tree(step);
            assert_eq!(tree.root(), x);
            for u in 0..p {
                let expected = father(back(u), back(x), dimensions)
                    .map(|father| rotated_by(father, by, dimensions));
                assert_eq!(tree.parent(u), expected, "p={p} step={step} u={u}");
                assert_eq!(tree.level(u), (u ^ x).count_ones() as usize);
            }
        }
    }
}

/// On the circulant graph with the skips 1, 2, 4, ... a parent is one skip before its child, and
/// one level above it.
#[test]
fn other_trees_are_on_the_circulant_graph() {
    for p in (2..200usize).filter(|p| !p.is_power_of_two()) {
        let order = Succession::new(p);
        for step in [0, 1, p / 2, p - 1, p, 5 * p + 3] {
            let (tree, root) = (order.tree(step), step % p);
            assert_eq!(tree.root(), root);
            for u in 0..p {
                match tree.parent(u) {
                    None => assert_eq!(u, root),
                    Some(parent) => {
                        assert!(((u + p - parent) % p).is_power_of_two());
                        assert_eq!(tree.level(u), tree.level(parent) + 1);
                    }
                }
            }
        }
    }
}

#[test]
fn parents_and_children_agree_and_the_next_owner_is_first_and_a_leaf() {
    for p in 1..=130 {
        let order = Succession::new(p);
        for step in 0..p.min(40) {
            let tree = order.tree(step);
            assert_eq!(tree, order.tree_from(order.owner(step)));
            let mut reached = vec![false; p];
            reached[tree.root()] = true;
            for u in 0..p {
                for child in tree.children(u) {
                    assert_eq!(tree.parent(child), Some(u), "p={p} step={step}");
                    assert!(!std::mem::replace(&mut reached[child], true));
                }
            }
            assert!(reached.iter().all(|&reached| reached));
            if p > 1 {
                let next = order.owner(step + 1);
                assert_eq!(tree.children(tree.root()).next(), Some(next));
                assert_eq!(tree.children(next).count(), 0);
            }
            let depth = (0..p).map(|u| tree.level(u)).max();
            assert_eq!(depth, Some(order.depth()));
        }
    }
}

/// Lemmas 1 to 3 and Proposition 1, for n = p = 2^d: 2p + d - 2, without a conflict.
#[test]
fn the_paper_s_time_is_reached() {
    for dimensions in 1..=if is_whole() { 12 } else { 10 } {
        let p = 1usize << dimensions;
        let outcome = solve(&problem(p, p));
        assert_eq!(outcome.time, 2 * p + dimensions - 2);
        assert_eq!(outcome.conflicts, 0);
        assert_eq!(outcome.stored, vec![p; p]);
    }
}

/// 2(n - 1) + floor(log2 p) without a conflict, for every p, also if owners go round several times,
/// or not once.
#[test]
fn every_p_has_the_same_time() {
    for p in 2..=200usize {
        for steps in [1, p - 1, p, 2 * p + 3] {
            let outcome = solve(&problem(p, steps));
            let depth = p.ilog2() as usize;
            assert_eq!(outcome.time, 2 * (steps - 1) + depth, "p={p} n={steps}");
            assert_eq!(outcome.time, Succession::new(p).time(steps));
            assert_eq!(outcome.conflicts, 0, "p={p} n={steps}");
            assert_eq!(outcome.sent.iter().sum::<usize>(), steps * (p - 1));
        }
    }
}

/// In p steps all processes send the same number of messages. Along the paper's trees some send up
/// to a quarter more.
#[test]
fn no_process_sends_much_more_than_the_others() {
    for p in [2usize, 3, 5, 7, 8, 9, 16, 17, 31, 32, 33, 64, 100, 256] {
        let sent = solve(&problem(p, p)).sent;
        if p.is_power_of_two() {
            assert!(sent.iter().all(|&sent| 4 * sent <= 5 * (p - 1)), "p={p}");
        } else {
            assert_eq!(sent, vec![p - 1; p], "p={p}");
        }
    }
}

/// The check of conflicts finds those of a broadcast in every unit of time (the paper's Figure 2).
#[test]
fn broadcasts_in_every_unit_of_time_would_have_conflicts() {
    for p in [4usize, 8, 16, 5, 7, 9, 33] {
        let order = Succession::new(p);
        let has_conflict = |interval: usize| {
            let mut busy = HashSet::new();
            (0..2 * p).any(|step| {
                let tree = order.tree(step);
                (0..p).any(|u| {
                    let time = interval * step + tree.level(u);
                    let receives = tree.parent(u).is_some();
                    let sends = tree.children(u).next().is_some();
                    receives && !busy.insert((u, time - 1)) || sends && !busy.insert((u, time))
                })
            })
        };
        assert!(has_conflict(1), "p={p}");
        assert!(!has_conflict(2), "p={p}");
    }
}

/// On the hypercube, broadcasts every two units conflict without the rotation, or from roots in the
/// order of ranks.
#[test]
fn other_trees_or_owners_would_have_conflicts() {
    let p = 16usize;
    let code = gray_code(4);
    let conflicts = |owner: &dyn Fn(usize) -> usize| {
        let mut busy = HashSet::new();
        (0..p).any(|step| {
            let x = owner(step);
            (0..p).any(|u| {
                let time = 2 * step + (u ^ x).count_ones() as usize;
                let sends = (u ^ x) & 1 == 0;
                u != x && !busy.insert((u, time - 1)) || sends && !busy.insert((u, time))
            })
        })
    };
    assert!(conflicts(&|step| code[step]));
    assert!(conflicts(&|step| step));
}

/// A lower bound on the time of p > 1 steps where a process has at most `degree` children, in the
/// manner of the paper's Proposition 2: each process receives p - 1 values and sends its own; a
/// broadcast has at least (p - 1)/degree processes that send, the root among them; so some process
/// sends on as many values as there are others of those.
fn lower_bound(p: usize, degree: usize) -> usize {
    p + (p - 1).div_ceil(degree) - 1
}

#[test]
fn the_time_is_within_the_paper_s_factor_of_the_lower_bound() {
    for p in 2..=4096usize {
        let order = Succession::new(p);
        let degree = p.next_power_of_two().ilog2() as usize;
        let bound = lower_bound(p, degree);
        assert!(bound >= p - 1 + (p - 1).div_ceil(degree));
        assert!(order.time(p) >= bound, "p={p}");
        // 2p - 2 + log2 p <= 2 (p - 1 + ...) for all but the smallest.
        assert!(order.time(p) <= 2 * bound, "p={p}");
    }
}

/// Any window, and values of several units, none, and from the middle of the order on.
#[test]
fn every_flow_gives_the_same_values() {
    let flows = [1, 2, 3, 7, 32].map(trees).into_iter();
    for flow in flows.chain([2, 3, 4, 7, 16, 1000].map(relay)) {
        for p in [1usize, 2, 3, 5, 7, 8, 9, 11, 16, 17, 31, 33] {
            for (length, first) in [(0, 0), (1, 3), (5, p + 1)] {
                for steps in [1, 2, p - 1, p, p + 1, 4 * p + 1] {
                    let problem = SuccessiveProblem {
                        first,
                        length,
                        flow,
                        ..problem(p, steps)
                    };
                    let outcome = solve(&problem);
                    assert_eq!(outcome.stored, vec![steps; p]);
                    assert_eq!((outcome.steps, outcome.code), (steps, 0));
                    assert_eq!(outcome.conflicts, 0, "{problem:?}");
                    assert_eq!(outcome.values.iter().sum::<usize>(), steps * (p - 1));
                }
            }
        }
    }
}

/// A turn receives each value since the turn before once, over the largest skip that leads to an
/// owner that has the value.
#[test]
fn each_value_comes_once_from_the_nearest_skip() {
    for p in [1usize, 2, 3, 4, 5, 8, 12, 13, 16, 31, 33] {
        for factor in [2, 3, 5, 40] {
            let (relay, order, steps) = (
                Relay::new(Succession::new(p), factor),
                Succession::new(p),
                0..3 * p,
            );
            let mut skips = vec![1];
            while *skips.last().unwrap() < p {
                skips.push((skips.last().unwrap() * factor).min(p));
            }
            assert_eq!(relay.messages(), skips.len() - 1);
            for turn in 0..5 * p {
                let received = (0..relay.messages()).filter_map(|k| relay.receive(turn, k, &steps));
                let mut come = HashSet::new();
                for parcel in received {
                    for step in parcel.steps {
                        assert!(come.insert(step), "p={p} turn={turn} step={step}");
                        let nearest = skips.iter().rev().find(|&&skip| step + skip <= turn);
                        assert_eq!(
                            nearest.map(|skip| order.owner(turn - skip)),
                            Some(parcel.peer)
                        );
                    }
                }
                let lacks = (turn + 1).saturating_sub(p)..turn;
                let lacks: HashSet<_> = lacks.filter(|step| steps.contains(step)).collect();
                assert_eq!(come, lacks, "p={p} turn={turn}");
            }
        }
    }
}

#[test]
fn sends_and_receives_of_turns_agree() {
    for p in [2usize, 3, 4, 5, 8, 12, 13, 16, 31, 33] {
        for factor in [2, 3, 5, 40] {
            let (relay, order) = (Relay::new(Succession::new(p), factor), Succession::new(p));
            for steps in [0..1, 0..p, 0..3 * p + 1, p + 2..2 * p, 5..5] {
                let (mut sent, mut received) = (Vec::new(), Vec::new());
                for turn in 0..6 * p {
                    let owner = order.owner(turn);
                    for k in 0..relay.messages() {
                        sent.extend(
                            relay
                                .send(turn, k, &steps)
                                .map(|to| (owner, to.peer, to.steps)),
                        );
                        let from = relay.receive(turn, k, &steps);
                        received.extend(from.map(|from| (from.peer, owner, from.steps)));
                    }
                }
                let sort = |list: &mut Vec<(usize, usize, std::ops::Range<usize>)>| {
                    list.sort_by_key(|(from, to, steps)| (*from, *to, steps.start));
                };
                sort(&mut sent);
                sort(&mut received);
                assert_eq!(sent, received, "p={p} factor={factor} {steps:?}");
            }
            for rank in 0..p {
                for from in [0, 1, p - 1, p, 3 * p + 2] {
                    let turn = relay.turn(rank, from);
                    assert!((from..from + p).contains(&turn));
                    assert_eq!(order.owner(turn), rank);
                }
            }
        }
    }
}

/// n - 1 + the hops to the last turn, without a conflict, in q messages of p - 1 values a turn, for
/// every p.
#[test]
fn a_relay_takes_one_unit_a_step() {
    for p in 2..=200usize {
        for factor in [2, 3, 5, 16] {
            let order = Relay::new(Succession::new(p), factor);
            for steps in [1, p - 1, p, 2 * p + 3] {
                let outcome = solve(&SuccessiveProblem {
                    flow: relay(factor),
                    ..problem(p, steps)
                });
                let name = format!("p={p} n={steps} factor={factor}");
                assert_eq!(outcome.time, order.time(steps), "{name}");
                assert_eq!(outcome.conflicts, 0, "{name}");
                assert_eq!(
                    outcome.values.iter().sum::<usize>(),
                    steps * (p - 1),
                    "{name}"
                );
                let most = (steps + p - 1) * order.messages();
                assert!(outcome.sent.iter().sum::<usize>() <= most, "{name}");
            }
            let most = order.time(p) + 1 - p;
            assert!(
                most <= order.messages() * (factor - 1),
                "p={p} factor={factor}"
            );
            if factor == 2 {
                assert!(most <= p.ilog2() as usize, "p={p}");
            }
        }
    }
}

#[test]
fn nothing_happens_in_no_steps() {
    for p in [1, 2, 5, 8] {
        let outcome = solve(&problem(p, 0));
        assert_eq!((outcome.time, outcome.steps, outcome.code), (0, 0, 0));
        assert_eq!(Succession::new(p).time(0), 0);
    }
}

/// What comes of it, whichever way values go.
fn with_broken(processes: usize, steps: usize, broken: &[Broken]) -> [Outcome; 4] {
    [trees(4), relay(2), relay(3), relay(7)].map(|flow| {
        solve(&SuccessiveProblem {
            broken: broken.to_vec(),
            flow,
            ..problem(processes, steps)
        })
    })
}

/// Every process ends in the same step with the same code, wherever one callback fails.
#[test]
fn an_error_ends_all_processes_with_its_code() {
    for p in [1usize, 2, 3, 4, 5, 7, 8, 9, 16, 17] {
        let steps = 2 * p + 3;
        for rank in 0..p {
            for step in 0..steps {
                let store = Broken {
                    rank,
                    step,
                    produces: false,
                    code: -7,
                };
                for outcome in with_broken(p, steps, &[store]) {
                    assert_eq!(outcome.code, -7, "p={p} {store:?}");
                    // Its own next step is the last, if not an earlier one.
                    let last = (step + 1 + p).min(steps);
                    assert!(outcome.steps <= last, "p={p} {store:?}");
                    assert_eq!(outcome.stored[rank], step + 1);
                }
            }
        }
        for step in 0..steps {
            let produce = Broken {
                rank: Succession::new(p).owner(step),
                step,
                produces: true,
                code: i32::MIN,
            };
            for outcome in with_broken(p, steps, &[produce]) {
                assert_eq!((outcome.code, outcome.steps), (i32::MIN, step + 1));
                assert_eq!(outcome.stored, vec![step; p]);
            }
        }
    }
}

/// Of several errors that of the least step counts, then of the least rank.
#[test]
fn the_first_error_counts() {
    for p in [2usize, 3, 5, 8, 13] {
        let steps = 3 * p;
        for early in 0..steps {
            for late in early..(early + 3).min(steps) {
                for rank in 0..p {
                    let other = (rank + 1) % p;
                    let broken = |rank, step, code| Broken {
                        rank,
                        step,
                        produces: false,
                        code,
                    };
                    let both = [broken(rank, early, 11), broken(other, late, 12)];
                    let is_first = early < late || rank < other;
                    for outcome in with_broken(p, steps, &both) {
                        assert_eq!(outcome.code, if is_first { 11 } else { 12 }, "p={p}");
                    }
                }
            }
        }
    }
}
