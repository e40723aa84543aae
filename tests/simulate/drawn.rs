//! Calls that nobody thought of: teams, plans, stages, lengths, pacing and delivery are drawn, and
//! the engine's results are compared with a serial computation of what each stage is for.
//!
//! `PROPTEST_CASES=100000 cargo test --release ... --test simulate drawn` draws more.

#![allow(clippy::unwrap_used)] // Values that are said, as was looked at before.

use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use strum::VariantArray;

use circulant::engine::{Pacing, Synchronous};
use circulant::nodes::Nodes;
use circulant::plan::Division;
use circulant::schedule::Rule;
use circulant::select::Cut;
use circulant::stage::{Span, Stages, even};
use circulant::team::{Graph, Machine, Ranks, Team};

use crate::simulator::{
    Conditions, Intergroup, Memory, Operator, contribution, execute, in_order, simulate_intergroup,
    sum,
};

/// What a stage is for.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Broadcast,
    TreeBroadcast,
    Reduction,
    Allgather,
    PipelinedAllgather,
    ReduceScatter,
    PipelinedReduceScatter,
    OrderedReduceScatter,
    Allreduce,
    OrderedAllreduce,
    Census,
    AllToAll,
    Gather,
    Scatter,
    BroadcastByLeaders,
    ReductionByLeaders,
    AllgatherByLeaders,
    ReduceScatterByLeaders,
    AllreduceByLeaders,
}

const KINDS: [Kind; 19] = [
    Kind::Broadcast,
    Kind::TreeBroadcast,
    Kind::Reduction,
    Kind::Allgather,
    Kind::PipelinedAllgather,
    Kind::ReduceScatter,
    Kind::PipelinedReduceScatter,
    Kind::OrderedReduceScatter,
    Kind::Allreduce,
    Kind::OrderedAllreduce,
    Kind::Census,
    Kind::AllToAll,
    Kind::Gather,
    Kind::Scatter,
    Kind::BroadcastByLeaders,
    Kind::ReductionByLeaders,
    Kind::AllgatherByLeaders,
    Kind::ReduceScatterByLeaders,
    Kind::AllreduceByLeaders,
];

impl Kind {
    fn combines(self) -> bool {
        matches!(
            self,
            Kind::Reduction
                | Kind::ReduceScatter
                | Kind::PipelinedReduceScatter
                | Kind::OrderedReduceScatter
                | Kind::Allreduce
                | Kind::OrderedAllreduce
                | Kind::Census
                | Kind::ReductionByLeaders
                | Kind::ReduceScatterByLeaders
                | Kind::AllreduceByLeaders
        )
    }

    fn keeps_order(self) -> bool {
        matches!(self, Kind::OrderedReduceScatter | Kind::OrderedAllreduce)
    }

    /// Whether its messages start at the start of the result.
    fn is_at_start(self) -> bool {
        matches!(self, Kind::AllToAll | Kind::Gather | Kind::Scatter)
    }

    /// Whether it has a message of each process.
    fn has_messages(self) -> bool {
        !matches!(
            self,
            Kind::Broadcast
                | Kind::TreeBroadcast
                | Kind::Reduction
                | Kind::Allreduce
                | Kind::OrderedAllreduce
                | Kind::Census
                | Kind::BroadcastByLeaders
                | Kind::ReductionByLeaders
                | Kind::AllreduceByLeaders
        )
    }

    fn is_by_leaders(self) -> bool {
        matches!(
            self,
            Kind::BroadcastByLeaders
                | Kind::ReductionByLeaders
                | Kind::AllgatherByLeaders
                | Kind::ReduceScatterByLeaders
                | Kind::AllreduceByLeaders
        )
    }
}

#[derive(Clone, Debug)]
struct DrawnStage {
    kind: Kind,
    root: Index,
    blocks: usize,
    segment: usize,
    in_place: bool,
    /// The weights by which the units are divided among the messages; evenly if none.
    weights: Option<Vec<usize>>,
}

#[derive(Clone, Debug)]
struct DrawnCall {
    /// The ranks, in the order of the team.
    ranks: Vec<usize>,
    rule: Rule,
    /// The nodes of the processes, again and again.
    nodes: Vec<u64>,
    /// Units of the stretch that is this call's own.
    length: usize,
    stages: Vec<DrawnStage>,
}

#[derive(Clone, Debug)]
struct Drawn {
    processes: usize,
    calls: Vec<DrawnCall>,
    pacing: Pacing,
    keeps_order: bool,
    seed: Option<u64>,
}

fn pacings() -> impl Strategy<Value = Pacing> {
    let modes = [Synchronous::None, Synchronous::Unpaced, Synchronous::All];
    (1..9usize, 1..9usize, prop::sample::select(modes.to_vec())).prop_map(
        |(window, sends, synchronous)| Pacing {
            window,
            sends,
            synchronous,
        },
    )
}

fn stages() -> impl Strategy<Value = DrawnStage> {
    let weights = prop::option::of(prop::collection::vec(0..5usize, 1..50));
    let kinds = prop::sample::select(KINDS.to_vec());
    let numbers = (1..20usize, 1..40usize);
    (kinds, any::<Index>(), numbers, any::<bool>(), weights).prop_map(
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
        let seed = prop::option::weighted(0.9, any::<u64>());
        (calls, pacings(), any::<bool>(), seed).prop_map(
            move |(calls, pacing, keeps_order, seed)| Drawn {
                processes,
                calls,
                pacing,
                keeps_order,
                seed,
            },
        )
    })
}

/// The memories of all ranks as a serial computation has them; None where it is not said.
struct Serial {
    input: Vec<Vec<u64>>,
    result: Vec<Vec<Option<u64>>>,
    operator: Operator,
}

impl Serial {
    /// `range` of all of `team`, combined; None if it is not said for one of them.
    fn combined(&self, team: &[usize], range: &Range<usize>, in_place: bool) -> Option<Vec<u64>> {
        let unit = |rank: usize, unit: usize| {
            if in_place {
                self.result[rank][unit]
            } else {
                Some(self.input[rank][unit])
            }
        };
        range
            .clone()
            .map(|index| {
                let mut units = team.iter().map(|&rank| unit(rank, index));
                let first = units.next()??;
                units.try_fold(first, |left, right| Some((self.operator)(left, right?)))
            })
            .collect()
    }

    fn said(&self, rank: usize, range: Range<usize>) -> Option<Vec<u64>> {
        self.result[rank][range].iter().copied().collect()
    }

    fn set(&mut self, rank: usize, start: usize, units: &[u64]) {
        for (place, &unit) in self.result[rank][start..].iter_mut().zip(units) {
            *place = Some(unit);
        }
    }

    fn forget(&mut self, rank: usize, range: Range<usize>) {
        self.result[rank][range].fill(None);
    }
}

/// The messages of a stage.
fn messages(stage: &DrawnStage, range: &Range<usize>, size: usize) -> Vec<Span> {
    let Some(weights) = &stage.weights else {
        return even(range.clone(), size).collect();
    };
    let weight = |index: usize| weights[index % weights.len()];
    let unit = range.len() / (0..size).map(weight).sum::<usize>().max(1);
    let mut end = range.start;
    (0..size)
        .map(|index| {
            end += unit * weight(index);
            Span::at(end - unit * weight(index)..end)
        })
        .collect()
}

/// Appends a stage for every process of the team, and does serially what it is for; or leaves it
/// out, where it has no meaning after those before it.
fn add(
    stage: &DrawnStage,
    call: &DrawnCall,
    range: &Range<usize>,
    teams: &[Team],
    stages: &mut [Stages],
    serial: &mut Serial,
) {
    let (kind, ranks, p) = (stage.kind, &call.ranks, call.ranks.len());
    let root = stage.root.index(p);
    let in_place = stage.in_place && !matches!(kind, Kind::Census);
    let parts = messages(stage, range, p);
    let each = range.len() / p;
    let of = |span: &Span| span.result..span.result + span.length;
    // What the stage starts from has to be said.
    let combined: Option<Vec<_>> = parts
        .iter()
        .map(|part| serial.combined(ranks, &of(part), in_place))
        .collect();
    let whole = serial.combined(ranks, range, in_place);
    let is_said = match kind {
        Kind::Broadcast | Kind::TreeBroadcast | Kind::BroadcastByLeaders => {
            serial.said(ranks[root], range.clone()).is_some()
        }
        Kind::Allgather | Kind::PipelinedAllgather | Kind::AllgatherByLeaders => {
            let mut own = ranks.iter().zip(&parts);
            own.all(|(&rank, part)| serial.said(rank, of(part)).is_some())
        }
        Kind::AllToAll | Kind::Gather | Kind::Scatter => ranks
            .iter()
            .all(|&rank| serial.said(rank, 0..each * p).is_some()),
        _ if kind.has_messages() => combined.is_some(),
        _ => whole.is_some(),
    };
    let nodes = call.nodes.iter().copied().cycle().take(p);
    let nodes = Arc::new(Nodes::of_keys(&nodes.collect::<Vec<_>>()));
    let is_possible =
        (range.start == 0 || !kind.is_at_start()) && (!kind.is_by_leaders() || nodes.count() > 1);
    if !is_said || !is_possible {
        return;
    }
    for (team, stages) in teams.iter().zip(&mut *stages) {
        let (n, segment, messages) = (stage.blocks, stage.segment, parts.iter().copied());
        let range = range.clone();
        let machine = Machine::new(nodes.clone(), ranks, team.place(), call.rule);
        let on = (team, &machine);
        let cut = match n % 2 {
            0 => Cut::Blocks(n),
            _ => Cut::Segments(segment),
        };
        match kind {
            Kind::Broadcast => stages.broadcast(team, root, n, range),
            Kind::TreeBroadcast => stages.tree_broadcast(team, root, range),
            Kind::Reduction => stages.reduction(team, root, n, range, in_place),
            Kind::Allgather => stages.allgather(team, messages, segment),
            Kind::PipelinedAllgather => stages.pipelined_allgather(team, messages, n),
            Kind::ReduceScatter => stages.reduce_scatter(team, messages, segment, in_place),
            Kind::PipelinedReduceScatter => {
                stages.pipelined_reduce_scatter(team, messages, n, in_place);
            }
            Kind::OrderedReduceScatter => {
                stages.ordered_reduce_scatter(team, messages, segment, in_place);
            }
            Kind::Allreduce => stages.allreduce(team, range, segment, in_place),
            Kind::OrderedAllreduce => stages.ordered_allreduce(team, range, segment, in_place),
            Kind::Census => stages.census(team, range),
            Kind::AllToAll => stages.all_to_all(team, each),
            Kind::Gather => stages.gather(team, root, each),
            Kind::Scatter => stages.scatter(team, root, each),
            Kind::BroadcastByLeaders => stages.broadcast_by_leaders(on, root, n, range),
            Kind::ReductionByLeaders => {
                stages.reduction_by_leaders(on, root, n, range, in_place);
            }
            Kind::AllgatherByLeaders => stages.allgather_by_leaders(on, &parts, cut),
            Kind::ReduceScatterByLeaders => {
                stages.reduce_scatter_by_leaders(on, &parts, cut, in_place);
            }
            Kind::AllreduceByLeaders => {
                stages.allreduce_by_leaders(on, range, segment, in_place);
            }
        }
    }
    match kind {
        Kind::Broadcast | Kind::TreeBroadcast | Kind::BroadcastByLeaders => {
            let units = serial.said(ranks[root], range.clone()).unwrap();
            ranks
                .iter()
                .for_each(|&rank| serial.set(rank, range.start, &units));
        }
        Kind::Reduction | Kind::ReductionByLeaders => {
            ranks
                .iter()
                .for_each(|&rank| serial.forget(rank, range.clone()));
            serial.set(ranks[root], range.start, &whole.unwrap());
        }
        Kind::Allreduce | Kind::OrderedAllreduce | Kind::Census | Kind::AllreduceByLeaders => {
            let units = whole.unwrap();
            ranks
                .iter()
                .for_each(|&rank| serial.set(rank, range.start, &units));
        }
        Kind::Allgather | Kind::PipelinedAllgather | Kind::AllgatherByLeaders => {
            for (&owner, part) in ranks.iter().zip(&parts) {
                let units = serial.said(owner, of(part)).unwrap();
                ranks
                    .iter()
                    .for_each(|&rank| serial.set(rank, part.result, &units));
            }
        }
        Kind::ReduceScatter
        | Kind::PipelinedReduceScatter
        | Kind::OrderedReduceScatter
        | Kind::ReduceScatterByLeaders => {
            let combined = combined.unwrap();
            for (place, &rank) in ranks.iter().enumerate() {
                parts.iter().for_each(|part| serial.forget(rank, of(part)));
                serial.set(rank, parts[place].result, &combined[place]);
            }
        }
        Kind::AllToAll => {
            let before: Vec<_> = ranks
                .iter()
                .map(|&rank| serial.said(rank, 0..each * p).unwrap())
                .collect();
            for (place, &rank) in ranks.iter().enumerate() {
                for message in 0..p {
                    let sent = &before[(place + p - message) % p];
                    let range = message * each..(message + 1) * each;
                    serial.set(rank, range.start, &sent[range]);
                }
            }
        }
        Kind::Gather | Kind::Scatter => {
            let place_of = |process: usize, message: usize| {
                let start =
                    stages[process].as_slice().last().unwrap().view.messages[message].result;
                start..start + each
            };
            let from = |message| {
                if matches!(kind, Kind::Gather) {
                    message
                } else {
                    root
                }
            };
            let to = |message| {
                if matches!(kind, Kind::Gather) {
                    root
                } else {
                    message
                }
            };
            let moved: Vec<_> = (0..p)
                .map(|message| {
                    let source = from(message);
                    serial
                        .said(ranks[source], place_of(source, message))
                        .unwrap()
                })
                .collect();
            let others = ranks.iter().enumerate().filter(|&(place, _)| place != root);
            others.for_each(|(_, &rank)| serial.forget(rank, 0..each * p));
            for (message, units) in moved.iter().enumerate() {
                let target = to(message);
                serial.set(ranks[target], place_of(target, message).start, units);
            }
        }
    }
}

/// Runs what was drawn, and compares what every process has with the serial computation.
fn check(drawn: &Drawn) -> Result<(), TestCaseError> {
    let total: usize = drawn.calls.iter().map(|call| call.length).sum();
    let own = |kind: usize| {
        move |rank: usize| {
            (0..total)
                .map(move |unit| contribution(rank, kind, unit))
                .collect::<Vec<_>>()
        }
    };
    let memories: Vec<_> = (0..drawn.processes)
        .map(|rank| Memory {
            input: own(0)(rank),
            result: own(1)(rank),
        })
        .collect();
    let operator = if drawn.keeps_order { in_order } else { sum };
    let said = |memory: &Memory| memory.result.iter().copied().map(Some).collect();
    let mut serial = Serial {
        input: memories.iter().map(|memory| memory.input.clone()).collect(),
        result: memories.iter().map(said).collect(),
        operator,
    };
    let mut end = 0;
    let mut calls = Vec::new();
    for call in &drawn.calls {
        end += call.length;
        let graph = Arc::new(Graph::new(call.ranks.len(), call.rule));
        let ranks = Ranks::of(&call.ranks);
        let teams: Vec<_> = (0..call.ranks.len())
            .map(|place| Team::new(graph.clone(), ranks.clone(), place))
            .collect();
        let mut stages: Vec<_> = teams.iter().map(|_| Stages::default()).collect();
        for stage in &call.stages {
            if stage.kind.combines() && drawn.keeps_order && !stage.kind.keeps_order() {
                continue;
            }
            add(
                stage,
                call,
                &(end - call.length..end),
                &teams,
                &mut stages,
                &mut serial,
            );
        }
        let mut by_rank: Vec<_> = (0..drawn.processes).map(|_| Stages::default()).collect();
        for (&rank, stages) in call.ranks.iter().zip(stages) {
            by_rank[rank] = stages;
        }
        calls.push(by_rank);
    }
    let conditions = Conditions {
        pacing: drawn.pacing,
        operator,
        seed: drawn.seed,
    };
    let executed = execute(memories, calls, conditions);
    let executed = executed.map_err(|failure| TestCaseError::fail(format!("{failure:?}")))?;
    for (rank, memory) in executed.memories.iter().enumerate() {
        prop_assert_eq!(
            &memory.input,
            &serial.input[rank],
            "the input of rank {}",
            rank
        );
        for (unit, (&found, &said)) in memory.result.iter().zip(&serial.result[rank]).enumerate() {
            prop_assert_eq!(said.unwrap_or(found), found, "rank {}, unit {}", rank, unit);
        }
    }
    Ok(())
}

fn intergroups() -> impl Strategy<Value = Intergroup> {
    let lengths = || prop::collection::vec(0..30usize, 1..16);
    let divisions = prop::sample::select(vec![Division::Evenly, Division::ByBlocks]);
    let rules = prop::sample::select(<Rule as VariantArray>::VARIANTS.to_vec());
    let seeds = prop::option::weighted(0.9, any::<u64>());
    let how = (divisions, 1..40usize, rules, pacings(), seeds);
    ([lengths(), lengths()], how).prop_map(
        |(mut lengths, (division, segment, rule, pacing, seed))| {
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
                seed,
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
        check(&drawn)?;
    }

    #[test]
    fn groups_gather_each_other_s_elements(problem in intergroups()) {
        let outcome = simulate_intergroup(&problem);
        prop_assert!(outcome.is_ok(), "{:?}", outcome);
    }
}
