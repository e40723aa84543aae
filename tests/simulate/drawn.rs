//! Calls that nobody thought of: teams, plans, stages, lengths, pacing and delivery are drawn, and
//! the engine's results are compared with a serial computation of what each stage is for.
//!
//! `PROPTEST_CASES=100000 cargo test --release ... --test simulate drawn` draws more.

use proptest::prelude::*;
use strum::VariantArray;

use circulant::engine::{Pacing, Synchronous};
use circulant::plan::Division;
use circulant::schedule::Rule;

use crate::serial::{Drawn, DrawnCall, DrawnStage, KINDS, check};
use crate::simulator::{Chance, Intergroup, simulate_intergroup};

/// Mostly a few rounds, and up to the most that the settings accept.
fn pacings() -> impl Strategy<Value = Pacing> {
    let modes = [Synchronous::None, Synchronous::Unpaced, Synchronous::All];
    let ahead = || prop_oneof![2 => 1..9usize, 1 => 1..65usize];
    (ahead(), ahead(), prop::sample::select(modes.to_vec())).prop_map(
        |(window, sends, synchronous)| Pacing {
            window,
            sends,
            synchronous,
        },
    )
}

fn chances() -> impl Strategy<Value = Option<Chance>> {
    let seeds = any::<u64>().prop_map(Chance::of_seed);
    prop::option::weighted(0.9, seeds)
}

fn stages() -> impl Strategy<Value = DrawnStage> {
    let weights = prop::option::of(prop::collection::vec(0..5usize, 1..50));
    let kinds = prop::sample::select(KINDS.to_vec());
    // Mostly few blocks, and at times more than are kept at once.
    let blocks = prop_oneof![3 => 1..20usize, 1 => 20..80usize];
    let numbers = (blocks, 1..40usize);
    (kinds, 0..1000usize, numbers, any::<bool>(), weights).prop_map(
        |(kind, root, (blocks, segment), in_place, weights)| DrawnStage {
            kind,
            root,
            blocks,
            segment,
            in_place,
            weights,
        },
    )
}

/// Ranks of a communicator of `processes`: a stretch, a stride, or any, in any order.
fn teams(processes: usize) -> impl Strategy<Value = Vec<usize>> {
    let strided =
        (0..processes, 1..4usize, 1..=processes).prop_map(move |(first, stride, count)| {
            (first..processes)
                .step_by(stride)
                .take(count)
                .collect::<Vec<_>>()
        });
    let any = Just((0..processes).collect::<Vec<_>>())
        .prop_shuffle()
        .prop_flat_map(|ranks| prop::sample::subsequence(ranks.clone(), 1..=ranks.len()));
    prop_oneof![Just((0..processes).collect()), strided, any]
}

fn calls(processes: usize) -> impl Strategy<Value = DrawnCall> {
    let rules = prop::sample::select(<Rule as VariantArray>::VARIANTS.to_vec());
    let stages = prop::collection::vec(stages(), 1..4);
    let nodes = prop::collection::vec(0..9u64, 1..30);
    let team = (teams(processes), rules, nodes);
    (team, 0..120usize, stages).prop_map(|((ranks, rule, nodes), length, stages)| DrawnCall {
        ranks,
        rule,
        nodes,
        length,
        stages,
    })
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let processes = prop_oneof![1..10usize, 1..41usize];
    processes.prop_flat_map(|processes| {
        let calls = prop::collection::vec(calls(processes), 1..4);
        (calls, pacings(), any::<bool>(), chances()).prop_map(
            move |(calls, pacing, keeps_order, chance)| Drawn {
                processes,
                calls,
                pacing,
                keeps_order,
                chance,
            },
        )
    })
}

fn intergroups() -> impl Strategy<Value = Intergroup> {
    let lengths = || prop::collection::vec(0..30usize, 1..16);
    let divisions = prop::sample::select(vec![Division::Evenly, Division::ByBlocks]);
    let rules = prop::sample::select(<Rule as VariantArray>::VARIANTS.to_vec());
    let how = (divisions, 1..40usize, rules, pacings(), chances());
    ([lengths(), lengths()], how).prop_map(
        |(mut lengths, (division, segment, rule, pacing, chance))| {
            if division == Division::ByBlocks {
                for group in &mut lengths {
                    let first = group[0];
                    group.fill(first);
                }
            }
            Intergroup {
                lengths,
                division,
                segment,
                rule,
                pacing,
                chance,
            }
        },
    )
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(ProptestConfig::default().cases.max(4096))
    }
}

proptest! {
    #![proptest_config(config())]

    /// Several calls at once, each of several stages on a team of its own.
    #[test]
    fn stages_do_what_they_are_for(drawn in drawn()) {
        check(&drawn).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn groups_gather_each_other_s_elements(problem in intergroups()) {
        let outcome = simulate_intergroup(&problem);
        prop_assert!(outcome.is_ok(), "{:?}", outcome);
    }
}
