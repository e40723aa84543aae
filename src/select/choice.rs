//! The decision: who runs a call, and how. A function of the facts of the call and of the settings;
//! of the MPI library and the [candidates](super::candidates) it compares what each is predicted to
//! cost.

use super::algorithm::Algorithm;
use super::candidates::{
    Candidate, Sizing, by_leaders, candidates, exist, fastest, is_gray, is_of, rules, shared,
};
use super::cost::{self, Network};
use super::facts::{Facts, Operation, Reason};
use super::kind::Kind;
use super::native;
use super::rules::{CallRule, Mode};
use super::settings::{BcastOrder, Settings};

/// The largest part of native's predicted time that circulant's may be in the mean over the common
/// networks: a gain of less is none that the cost model could tell.
const LEAST_GAIN: f64 = 0.95;

/// The largest part of native's predicted time that circulant's may be on one of these networks.
const LARGEST_LOSS: f64 = 1.1;

/// Decides who runs a call of MPI's, and how.
///
/// From the strongest rule to the weakest:
///
/// 1. Native: an inter-communicator with `CIRCULANT_INTER=0`, what no algorithm can run, a
///    communicator of one process, `CIRCULANT_DISABLE`, an operation's [rule](CallRule) `native`,
///    and an empty message.
/// 2. `CIRCULANT_FORCE` takes what is left.
/// 3. Native: a message smaller than `CIRCULANT_MIN_BYTES`, unless a rule names its size.
/// 4. An operation's rule `circulant` takes what is left.
/// 5. `auto` takes a call if the cost model predicts a gain; on one node, if it is large enough for
///    shared memory.
///
/// While something is unknown, a call is taken if it may turn out to be ours.
///
/// # Errors
/// The reason to go native.
pub fn choose(facts: &Facts, settings: &Settings) -> Result<Algorithm, Reason> {
    choose_beside(facts, settings, facts)
}

/// Whether [`choose`] may take a call that is not forced, and whose nodes are not known yet.
///
/// Three numbers of nodes stand for all others: as many as processes; one; and the fewest on which
/// leaders gain, `native::FEW_NODES` + 1. On the latter the MPI library is charged the most that it
/// is on any number of nodes. Allgathers and reduce-scatters are not judged so: they may gain on
/// any nodes of several processes. Calls that are learned of do not ask for the nodes to be found
/// for the sake of these, or of one node: that waits until it costs little beside them
/// (`prospect`).
///
/// # Errors
/// The reason to go native on any number of nodes.
pub fn choose_on_any_nodes(facts: &Facts, settings: &Settings) -> Result<(), Reason> {
    let on = |nodes| Facts { nodes, ..*facts };
    let ours = |facts: &Facts| choose(facts, settings).map(drop);
    let most = on(facts.processes);
    let fewest = on(facts.processes.min(native::FEW_NODES + 1));
    let is_learned = Kind::of(facts, settings).is_some_and(|kind| kind.is_learned(settings));
    let may_be_by_leaders = || {
        let slots = by_leaders(&on(2), settings, Sizing::Unmeasured);
        slots.iter().any(Option::is_some)
    };
    let if_not_learned = |reason| match reason {
        _ if is_learned => Err(reason),
        Reason::CostModel if !facts.operation.is_whole() && may_be_by_leaders() => Ok(()),
        _ => ours(&on(1)).map_err(|_| reason),
    };
    ours(&most)
        .or_else(if_not_learned)
        .or_else(|_| choose_beside(&fewest, settings, &most).map(drop))
}

/// [`choose`], where the MPI library is charged for a call of other facts.
fn choose_beside(facts: &Facts, settings: &Settings, charged: &Facts) -> Result<Algorithm, Reason> {
    for rule in rules(facts, settings) {
        let choice = choose_by(Some(rule), facts, settings, charged);
        if choice.is_ok() || rule.is_sure(facts) {
            return choice;
        }
    }
    choose_by(None, facts, settings, charged)
}

/// The same, by the rule that holds, if there is one.
fn choose_by(
    rule: Option<&CallRule>,
    facts: &Facts,
    settings: &Settings,
    charged: &Facts,
) -> Result<Algorithm, Reason> {
    let must_be_ours = must_be_ours(facts, settings, rule)?;
    let changed = rule.and_then(|rule| settings.changed_by(rule));
    let settings = changed.as_ref().unwrap_or(settings);
    let named = rule.and_then(|rule| rule.algorithm);
    if must_be_ours {
        let fastest = forced(facts, settings, named).ok_or(Reason::NotCommutative)?;
        return Ok(fastest.algorithm);
    }
    let is_named = |candidate: &Candidate| is_of(candidate.algorithm, named);
    if facts.nodes <= 1 {
        return choose_on_one_node(facts, settings);
    }
    let sized = |sizing| candidates(facts, settings, sizing).filter(is_named);
    if sized(Sizing::Unmeasured).next().is_none() {
        return Err(Reason::NotCommutative);
    }
    let native = Network::COMMON.map(|network| native::seconds(charged, network));
    // Fewer blocks only where the usual number gains nothing: they take longer on slow networks.
    let mut sizings = [Sizing::Unmeasured, Sizing::Fewer].into_iter();
    let best = sizings.find_map(|sizing| gaining(sized(sizing), facts, settings, native));
    best.ok_or(Reason::CostModel)
}

/// Of these candidates the fastest in the mean that gains, on the common networks.
fn gaining(
    candidates: impl Iterator<Item = Candidate>,
    facts: &Facts,
    settings: &Settings,
    native: [f64; Network::COMMON.len()],
) -> Option<Algorithm> {
    let parts = candidates.map(|candidate| {
        let part = part_of_native(candidate, facts, settings, native);
        (candidate.algorithm, part)
    });
    let gains = |(algorithm, part): &(Algorithm, PartOfNative)| {
        let is_faster = part.mean < LEAST_GAIN && part.most <= LARGEST_LOSS;
        is_faster || *algorithm == Algorithm::Gray
    };
    let gain = parts.filter(gains);
    let best = gain.min_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean));
    best.map(|(algorithm, _)| algorithm)
}

/// From how many bytes on a call on one node runs in shared memory if it is not tried: there it is
/// faster, or no more than a tenth slower, with the MPI libraries and on the machines that were
/// measured (docs/research/performance.md#one-host). Parts of few kilobytes are natively copied
/// once; and where all goes to one root, the others are soon done. On one machine a reduction of
/// 64 KiB took 0.45 of the native time, on another 1.5.
const fn shared_from(operation: Operation) -> u64 {
    match operation {
        Operation::Reduce => 256 << 10,
        Operation::Gather => 64 << 10,
        Operation::Allgather | Operation::Allgatherv | Operation::Alltoall | Operation::Scatter => {
            32 << 10
        }
        _ => 16 << 10,
    }
}

fn choose_on_one_node(facts: &Facts, settings: &Settings) -> Result<Algorithm, Reason> {
    if is_gray(facts, settings) {
        return Ok(Algorithm::Gray);
    }
    let is_large = facts.bytes >= shared_from(facts.operation);
    let shared = shared(facts, settings).filter(|_| is_large);
    shared.ok_or(Reason::OneNode)
}

/// What part of the MPI library's predicted time a call takes on the common networks.
struct PartOfNative {
    /// Over the networks, and the largest.
    mean: f64,
    most: f64,
}

/// For a call that takes the MPI library so many seconds on each of them. Blocks whose number is
/// free suit each network.
fn part_of_native(
    candidate: Candidate,
    facts: &Facts,
    settings: &Settings,
    native: [f64; Network::COMMON.len()],
) -> PartOfNative {
    let is_free = has_free_blocks(&Ok(candidate.algorithm), facts, settings);
    let seconds = Network::COMMON.map(|network| {
        let cost = match is_free {
            true => cost::circulant(facts, with_free_blocks(facts, network)),
            false => candidate.cost,
        };
        cost.on(network)
    });
    let parts = || {
        seconds
            .iter()
            .zip(native)
            .map(|(ours, native)| ours / native)
    };
    PartOfNative {
        mean: parts().sum::<f64>() / native.len() as f64,
        most: parts().fold(0.0, f64::max),
    }
}

/// Whether settings demand that a call be ours, whatever is predicted. Else the cost model decides.
///
/// # Errors
/// The reason to go native, whatever is predicted.
fn must_be_ours(
    facts: &Facts,
    settings: &Settings,
    rule: Option<&CallRule>,
) -> Result<bool, Reason> {
    let mode = rule.map_or(Mode::Auto, |rule| rule.mode);
    let is_small = facts.bytes < settings.min_bytes && !is_gray(facts, settings);
    let is_named = mode == Mode::Circulant && rule.is_some_and(CallRule::names_bytes);
    let is_unwanted = facts.smaller_group > 0 && !settings.inter;
    let refusals = [
        (is_unwanted, Reason::InterCommunicator),
        (!exist(facts), Reason::NotCommutative),
        (facts.processes <= 1, Reason::OneProcess),
        (settings.disable, Reason::Disabled),
        (mode == Mode::Native, Reason::Chosen),
        (facts.bytes == 0, Reason::Empty),
        (is_small && !settings.force && !is_named, Reason::Small),
    ];
    match refusals.into_iter().find(|(is_refused, _)| *is_refused) {
        Some((_, reason)) => Err(reason),
        None => Ok(settings.force || mode == Mode::Circulant),
    }
}

/// The fastest candidate for a call that is ours in any case: by lanes or leaders where there are
/// any, or in shared memory if a rule names that; else the same on any number of nodes.
fn forced(facts: &Facts, settings: &Settings, named: Option<usize>) -> Option<Candidate> {
    let network = Network::of_blocks(facts.operation, settings);
    let of = |facts: &Facts, may_be: &dyn Fn(Algorithm) -> bool| {
        let candidates = candidates(facts, settings, Sizing::Given);
        let is_named = |algorithm| match named {
            // Forced calls are on circulant graphs.
            None => !matches!(algorithm, Algorithm::Shared { .. }),
            named => is_of(algorithm, named),
        };
        let may_be =
            |candidate: &Candidate| is_named(candidate.algorithm) && may_be(candidate.algorithm);
        fastest(candidates.filter(may_be), network)
    };
    let apart = Facts {
        nodes: facts.processes,
        ..*facts
    };
    let is_of_nodes = |algorithm: Algorithm| {
        algorithm.is_of_nodes() || matches!(algorithm, Algorithm::Shared { .. })
    };
    of(facts, &is_of_nodes).or_else(|| of(&apart, &|_| true))
}

/// Whether a call for which this was chosen may have another number of blocks, which changes no bit
/// of its result: so that number may depend on what was measured, where the algorithm may not. A
/// call that settings decide on has the number that they say.
pub fn has_free_blocks(
    choice: &Result<Algorithm, Reason>,
    facts: &Facts,
    settings: &Settings,
) -> bool {
    let is_pipelined =
        |algorithm| matches!(algorithm, Algorithm::Circulant { blocks } if blocks > 1);
    choice.is_ok_and(is_pipelined)
        && cost::are_blocks_free(facts, settings)
        && Kind::of(facts, settings).is_some()
}

/// The algorithm of such a call with the number of blocks that suits a network.
pub fn with_free_blocks(facts: &Facts, network: Network) -> Algorithm {
    let network = network.shared_by(facts.processes_per_node());
    let blocks = cost::free_blocks(facts, network);
    Algorithm::Circulant { blocks }
}

/// A call of `operation` with fewer bytes is native for being small, whatever else is known of it.
/// 0, if a small call may be ours, or may be native for another reason.
pub fn native_below(operation: Operation, settings: &Settings) -> u64 {
    let is_gray = operation == Operation::Bcast && settings.bcast_order == BcastOrder::Gray;
    let mut rules = settings.rules_of(operation);
    let is_ruled = rules.any(|rule| rule.mode == Mode::Native || rule.names_bytes());
    if settings.force || settings.disable || is_gray || is_ruled {
        0
    } else {
        settings.min_bytes
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray;

    use super::super::Cut;
    use super::super::candidates::{CANDIDATES, SHARED, slot_bytes};
    use super::super::facts::{Library, Order};
    use super::super::sizes::MESSAGE_MAX;
    use super::*;

    const MIB: u64 = 1 << 20;

    fn call(bytes: u64, processes: usize, nodes: usize) -> Facts {
        Facts {
            bytes,
            largest: bytes,
            nodes,
            ..Facts::new(Operation::Bcast, processes)
        }
    }

    fn settings(mode: Mode) -> Settings {
        Settings {
            rules: vec![CallRule::plain(Operation::Bcast, mode)],
            ..Settings::default()
        }
    }

    #[test]
    fn auto_takes_a_call_only_where_a_gain_is_predicted() {
        let auto = Settings::default();
        assert!(choose(&call(64 * MIB, 16, 16), &auto).is_ok());
        assert_eq!(choose(&call(100, 16, 16), &auto), Err(Reason::Small));
        assert_eq!(choose(&call(16384, 16, 16), &auto), Err(Reason::CostModel));
        // A flat circulant graph would cross each node's port 32 times over.
        let on_nodes = choose(&call(64 * MIB, 1152, 36), &auto);
        assert!(
            matches!(on_nodes, Ok(Algorithm::Lanes { lanes: 4, .. })),
            "{on_nodes:?}"
        );
    }

    /// Broadcasts and reductions are by as many lanes as the settings and the smallest node allow:
    /// large ones by default, all where a rule says so, and none that are forced.
    #[test]
    fn rooted_calls_are_by_lanes_of_several_processes() {
        let with = |lanes| Settings {
            lanes,
            ..Settings::default()
        };
        let lanes_of = |facts: Facts, settings: &Settings| match choose(&facts, settings) {
            Ok(Algorithm::Lanes {
                cut: Cut::Blocks(_),
                lanes,
            }) => Some(lanes),
            _ => None,
        };
        let of_smallest = |smallest_node| Facts {
            smallest_node,
            ..call(64 * MIB, 64, 8)
        };
        let expected = [
            (None, 4, Some(4)),
            (None, 3, Some(3)),
            (None, 32, Some(8)),
            (None, 1, None),
            (Some(2), 4, Some(2)),
            (Some(5), 4, Some(4)),
            (Some(1), 4, None),
        ];
        for (smallest, most, lanes) in expected {
            let found = lanes_of(of_smallest(smallest), &with(most));
            assert_eq!(found, lanes, "{smallest:?} {most}");
        }
        let auto = Settings::default();
        assert_eq!(lanes_of(call(256 << 10, 64, 8), &auto), Some(4));
        assert_eq!(lanes_of(call((256 << 10) - 1, 64, 8), &auto), None);
        let force = Settings {
            force: true,
            ..Settings::default()
        };
        assert_eq!(lanes_of(of_smallest(None), &force), None);
        let cut = Cut::Blocks(1);
        let lanes = Algorithm::Lanes { cut, lanes: 1 };
        let ruled = Settings {
            rules: vec![CallRule {
                algorithm: Some(lanes.index()),
                ..CallRule::plain(Operation::Bcast, Mode::Circulant)
            }],
            ..Settings::default()
        };
        assert_eq!(lanes_of(call(MIB, 64, 8), &ruled), Some(4));
        assert_eq!(lanes_of(call(8192, 64, 8), &ruled), Some(4));
    }

    /// A reduction keeps what arrives. Where that is more than scratch may be, it is not by lanes.
    #[test]
    fn reductions_by_lanes_fit_into_scratch() {
        let reduction = |units| Facts {
            operation: Operation::Reduce,
            units,
            order: Order::Any,
            ..call(64 * MIB, 64, 8)
        };
        let is_by_lanes = |units, scratch_max| {
            let settings = Settings {
                scratch_max,
                ..Settings::default()
            };
            let choice = choose(&reduction(units), &settings);
            matches!(choice, Ok(Algorithm::Lanes { .. }))
        };
        assert!(is_by_lanes(u64::MAX, 64 * MIB));
        assert!(!is_by_lanes(u64::MAX, MIB));
        // Few units make few blocks, which are large.
        assert!(!is_by_lanes(4, 64 * MIB));
    }

    /// By leaders goes what may, where there are several nodes and several processes on one of
    /// them.
    #[test]
    fn leaders_are_for_several_nodes_with_several_processes() {
        let of = |facts: &Facts| by_leaders(facts, &Settings::default(), Sizing::Unmeasured);
        let has = |facts: &Facts| of(facts).iter().any(Option::is_some);
        for operation in Operation::VARIANTS {
            let facts = |nodes| Facts {
                operation: *operation,
                ..call(MIB, 16, nodes)
            };
            let is_among = *operation as usize <= Operation::Allreduce as usize;
            for nodes in [1, 2, 5, 15, 16] {
                let is_divided = nodes > 1 && nodes < 16;
                assert_eq!(has(&facts(nodes)), is_among && is_divided, "{operation:?}");
            }
            let ordered = Facts {
                order: Order::Ranks,
                ..facts(4)
            };
            let combines = operation.combines();
            assert_eq!(has(&ordered), is_among && !combines, "{operation:?}");
            let across_groups = Facts {
                smaller_group: 3,
                ..facts(4)
            };
            assert!(!has(&across_groups));
        }
        for operation in [Operation::Allgatherv, Operation::ReduceScatter] {
            let with_message = |largest| Facts {
                operation,
                largest,
                ..call(8 * MESSAGE_MAX, 16, 4)
            };
            assert!(has(&with_message(MESSAGE_MAX)));
            assert!(!has(&with_message(MESSAGE_MAX + 1)), "{operation:?}");
        }
        let force = Settings {
            force: true,
            ..Settings::default()
        };
        let forced = choose(&call(1, 16, 4), &force);
        let cut = Cut::Blocks(1);
        assert_eq!(forced, Ok(Algorithm::Leaders { cut }));
    }

    /// Blocks that suit the network of the cost model are what the choice depends on, and what is
    /// then used; a call that is forced has those of its factor.
    #[test]
    fn auto_has_blocks_for_common_networks() {
        let (auto, force) = (
            Settings::default(),
            Settings {
                force: true,
                ..Settings::default()
            },
        );
        let at = |bytes, settings: &Settings| {
            choose(&call(bytes, 16, 16), settings).map(Algorithm::blocks)
        };
        assert_eq!(at(4_000_000, &auto), Ok(67));
        assert_eq!(at(4_000_000, &force), Ok(223));
        assert_eq!(at(1_000_000, &auto), Ok(19));
        assert_eq!(at(65_536, &auto), Ok(5));
        for (f, block_size) in [(20.0, None), (18.0, Some(200_000))] {
            let of = |force| Settings {
                f,
                block_size,
                force,
                ..Settings::default()
            };
            assert_eq!(at(64_000_000, &of(false)), at(64_000_000, &of(true)));
        }
    }

    /// A call that is forced has the blocks that the factor says, however few: so has one where the
    /// environment says what the shipped factor is, too.
    #[test]
    fn these_blocks_are_for_calls_that_nothing_is_said_of() {
        let read = |variables: &[&str]| {
            let split = |text: &&str| text.split_once('=').map(|(a, b)| (a.into(), b.into()));
            Settings::read(variables.iter().filter_map(split)).0
        };
        let blocks = |bytes, variables: &[&str]| {
            choose(&call(bytes, 4, 4), &read(variables)).map(Algorithm::blocks)
        };
        assert_eq!(blocks(700, &["CIRCULANT_FORCE=1"]), Ok(3));
        assert_eq!(blocks(2_000, &["CIRCULANT_FORCE=1"]), Ok(4));
        assert_eq!(blocks(64_000_000, &[]), Ok(189));
        for f in [17, 18, 19] {
            let expected = (64e6f64 * 2.0).sqrt() / f64::from(f);
            let set = format!("CIRCULANT_F={f}");
            assert_eq!(blocks(64_000_000, &[&set]), Ok(expected.ceil() as usize));
        }
    }

    /// Native reduce-scatters take the longer, the more parts differ; of a few MB, all do.
    #[test]
    fn auto_takes_what_is_irregular() {
        let auto = Settings::default();
        let with_largest = |bytes, largest| Facts {
            operation: Operation::ReduceScatter,
            largest,
            ..call(bytes, 16, 16)
        };
        assert!(choose(&with_largest(100_000, 100_000), &auto).is_ok());
        assert!(choose(&with_largest(4_000_000, 500_000), &auto).is_ok());
        assert_eq!(
            choose(&with_largest(1_000_000, 125_000), &auto),
            Err(Reason::CostModel)
        );
    }

    /// Equal parts need few rounds, so the model's small differences must not decide.
    #[test]
    fn auto_leaves_what_native_does_as_well() {
        let auto = Settings::default();
        for processes in [4, 16, 31, 1000] {
            for operation in [
                Operation::Allgather,
                Operation::Alltoall,
                Operation::Gather,
                Operation::Scatter,
            ] {
                let bytes = 65536;
                let facts = Facts {
                    operation,
                    largest: bytes / processes as u64,
                    ..call(bytes, processes, processes)
                };
                assert_eq!(choose(&facts, &auto), Err(Reason::CostModel));
            }
            let allreduce = Facts {
                operation: Operation::Allreduce,
                ..call(4 * MIB, processes, processes)
            };
            assert!(choose(&allreduce, &auto).is_ok());
        }
    }

    /// The first rule that holds decides, by an algorithm that can run the call; a rule that names
    /// sizes holds for small calls, too.
    #[test]
    fn rules_decide_by_size_processes_and_nodes() {
        let with = |operation: Operation, rules: &str| {
            let name = format!("CIRCULANT_{}", operation.name().to_uppercase());
            let (settings, complaints) = Settings::read([(name, rules.to_owned())].into_iter());
            assert!(complaints.is_empty(), "{complaints:?}");
            settings
        };
        let rules = with(
            Operation::Bcast,
            "circulant,blocks=3:0-2K;native:2K-32K;circulant,block_size=16K:32K-1M@p=2-16,ppn=2;\
             native@p=17-inf",
        );
        let at = |bytes, processes, nodes| choose(&call(bytes, processes, nodes), &rules);
        let circulant = |blocks| Ok(Algorithm::Circulant { blocks });
        assert_eq!(at(100, 16, 16), circulant(3));
        assert_eq!(at(2048, 16, 16), Err(Reason::Chosen));
        let cut = Cut::Blocks(4);
        let leaders = Algorithm::Leaders { cut };
        assert_eq!(at(65536, 16, 8), Ok(leaders));
        assert_eq!(at(32768, 16, 16), Err(Reason::CostModel));
        assert_eq!(at(65536, 17, 9), Err(Reason::Chosen));
        let is_open = |bytes, nodes| Kind::of(&call(bytes, 16, nodes), &rules).is_some();
        assert!(is_open(65536, 16) && !is_open(65536, 8) && !is_open(4096, 16));

        let ordered = with(
            Operation::Allreduce,
            "ordered,segment=4K;doubling,segment=8K",
        );
        let reduced = |order| {
            let facts = Facts {
                operation: Operation::Allreduce,
                order,
                ..call(MIB, 16, 16)
            };
            choose(&facts, &ordered)
        };
        let (four, eight) = (4 << 10, 8 << 10);
        assert_eq!(
            reduced(Order::Ranks),
            Ok(Algorithm::Ordered { segment: four })
        );
        let doubling = Algorithm::Doubling { segment: eight };
        assert_eq!(reduced(Order::Commutative), Ok(doubling));
    }

    #[test]
    fn mode_circulant_leaves_only_the_small() {
        let ours = settings(Mode::Circulant);
        assert!(choose(&call(4096, 16, 1), &ours).is_ok());
        assert_eq!(choose(&call(4095, 16, 1), &ours), Err(Reason::Small));
    }

    #[test]
    fn force_takes_whatever_can_be_taken() {
        let force = |mode| Settings {
            force: true,
            ..settings(mode)
        };
        for mode in [Mode::Auto, Mode::Circulant] {
            let one = Algorithm::Circulant { blocks: 1 };
            assert_eq!(choose(&call(1, 2, 1), &force(mode)), Ok(one));
            assert_eq!(choose(&call(0, 2, 1), &force(mode)), Err(Reason::Empty));
            assert_eq!(
                choose(&call(1, 1, 1), &force(mode)),
                Err(Reason::OneProcess)
            );
        }
        assert_eq!(
            choose(&call(1, 2, 1), &force(Mode::Native)),
            Err(Reason::Chosen)
        );
        let disabled = Settings {
            disable: true,
            ..force(Mode::Circulant)
        };
        assert_eq!(choose(&call(1, 2, 1), &disabled), Err(Reason::Disabled));
    }

    #[test]
    fn calls_between_groups_are_native_where_they_are_not_wanted() {
        let between = Facts {
            smaller_group: 1,
            ..call(64 * MIB, 16, 16)
        };
        let choice = |inter, disable| {
            let settings = Settings {
                inter,
                disable,
                force: true,
                ..Settings::default()
            };
            choose(&between, &settings).err()
        };
        assert_eq!(choice(true, false), None);
        assert_eq!(choice(false, false), Some(Reason::InterCommunicator));
        assert_eq!(choice(false, true), Some(Reason::InterCommunicator));
    }

    #[test]
    fn a_mode_is_its_operations_own() {
        let native = settings(Mode::Native);
        for operation in Operation::VARIANTS
            .iter()
            .copied()
            .filter(|operation| !operation.is_added())
        {
            let facts = Facts {
                operation,
                ..call(1 << 40, 64, 64)
            };
            let is_chosen = choose(&facts, &native) == Err(Reason::Chosen);
            assert_eq!(is_chosen, operation == Operation::Bcast);
        }
    }

    /// Operators that do not commute have an algorithm of their own, which is taken where it is
    /// predicted to be faster; but a reduction to one root has none.
    #[test]
    fn the_order_of_ranks_is_kept_by_an_algorithm_of_its_own() {
        let facts = |operation, bytes| Facts {
            operation,
            largest: bytes / 16,
            order: Order::Ranks,
            ..call(bytes, 16, 16)
        };
        let force = Settings {
            force: true,
            ..Settings::default()
        };
        let ordered = Algorithm::Ordered { segment: 32768 };
        for operation in [
            Operation::Allreduce,
            Operation::ReduceScatter,
            Operation::ReduceScatterBlock,
        ] {
            assert_eq!(choose(&facts(operation, 100), &force), Ok(ordered));
        }
        let reduce = facts(Operation::Reduce, MIB);
        assert_eq!(choose(&reduce, &force), Err(Reason::NotCommutative));
        let auto = Settings::default();
        assert_eq!(
            choose(&facts(Operation::Allreduce, 16 * MIB), &auto),
            Ok(ordered)
        );
        let small = facts(Operation::Allreduce, 1 << 16);
        assert_eq!(choose(&small, &auto), Err(Reason::CostModel));
    }

    /// How many blocks an operation's call has if it is forced.
    fn blocks_of(operation: Operation, bytes: u64, largest: u64, processes: usize) -> usize {
        let facts = Facts {
            operation,
            largest,
            ..call(bytes, processes, processes)
        };
        let force = Settings {
            force: true,
            ..Settings::default()
        };
        choose(&facts, &force).map_or(0, Algorithm::blocks)
    }

    /// One block moves (p - 1)/p of equal parts, and up to q times a single one.
    #[test]
    fn one_block_or_several_is_a_matter_of_bytes() {
        for p in [2usize, 3, 5, 16, 17, 31, 33, 1000] {
            for each in [1u64, 100, 4_000] {
                let bytes = each * p as u64;
                assert_eq!(blocks_of(Operation::ReduceScatterBlock, bytes, each, p), 1);
            }
        }
        let single = blocks_of(Operation::Allgatherv, 4_000_000, 4_000_000, 16);
        assert_eq!(single, 167);
        // Parts of 0, 1 and 2 units: one block would move twice as much.
        let irregular = blocks_of(Operation::ReduceScatter, 4_000_000, 500_000, 16);
        assert_eq!(irregular, 168, "a multiple of q");
    }

    /// How many blocks a reduction of rounded numbers has may depend on the network, who runs it
    /// may not: what was chosen stays, and there are as many blocks in each phase.
    #[test]
    fn only_the_number_of_blocks_of_a_rounded_result_is_free() {
        let auto = Settings::default();
        for operation in Operation::VARIANTS.iter().copied() {
            for order in [Order::Any, Order::Commutative, Order::Ranks] {
                for (bytes, processes) in [(65_536, 16), (MIB, 17), (4 * MIB, 36), (MIB, 2)] {
                    let facts = Facts {
                        operation,
                        order,
                        ..call(bytes, processes, processes)
                    };
                    let choice = choose(&facts, &auto);
                    if !has_free_blocks(&choice, &facts, &auto) {
                        continue;
                    }
                    assert!(operation.combines() && order == Order::Commutative);
                    for network in Network::COMMON.into_iter().chain([Network::SHARED]) {
                        let blocks = with_free_blocks(&facts, network).blocks();
                        let q = facts.phases() as usize;
                        assert!(blocks >= q && blocks % q == 0, "{facts:?} {blocks}");
                    }
                }
            }
        }
        let reduce = Facts {
            operation: Operation::Reduce,
            ..call(MIB, 16, 16)
        };
        let choice = choose(&reduce, &auto);
        assert!(has_free_blocks(&choice, &reduce, &auto));
        let set = Settings {
            blocks: Some(17),
            ..auto
        };
        let choice = choose(&reduce, &set);
        assert_eq!(choice.map(Algorithm::blocks), Ok(20));
        assert!(!has_free_blocks(&choice, &reduce, &set));
        let force = ("CIRCULANT_FORCE", "1");
        let rules = ["circulant", "circulant,blocks=8", "circulant,block_size=9K"];
        let rules = rules.map(|rule| ("CIRCULANT_REDUCE", rule));
        for (name, value) in rules.into_iter().chain([force]) {
            let (set, complaints) = Settings::read([(name.into(), value.into())].into_iter());
            let choice = choose(&reduce, &set);
            assert!(complaints.is_empty() && choice.is_ok());
            assert!(!has_free_blocks(&choice, &reduce, &set), "{name}={value}");
        }
    }

    /// Where each node has a process, or one has all, there are no leaders.
    #[test]
    fn what_is_forced_runs_alike_without_leaders() {
        let force = Settings {
            force: true,
            ..Settings::default()
        };
        for processes in [2, 3, 4, 5, 16, 17] {
            for bytes in [100, 1000, 5000, 100_000, 4_000_000] {
                for part in [1, 2, 3, 16] {
                    let on = |nodes| Facts {
                        operation: Operation::Allgatherv,
                        largest: bytes / part,
                        ..call(bytes, processes, nodes)
                    };
                    let apart = choose(&on(processes), &force);
                    assert_eq!(choose(&on(1), &force), apart, "{:?}", on(1));
                }
            }
        }
    }

    /// What goes native before the nodes are known would be native on any number of them.
    #[test]
    fn what_is_native_without_the_nodes_is_native() {
        let settings = Settings::default();
        let (mut native, mut ours) = (0, 0);
        for operation in Operation::VARIANTS.iter().copied() {
            for processes in [2usize, 3, 4, 5, 8, 9, 16, 31, 32, 33, 48, 64, 128] {
                for bytes in [
                    4096u64,
                    12_000,
                    16_384,
                    65_536,
                    262_144,
                    MIB,
                    4 * MIB,
                    64 * MIB,
                ] {
                    for (part, order, library) in [
                        (1, Order::Any, Library::OpenMpi4),
                        (2, Order::Commutative, Library::Other),
                        (2, Order::Commutative, Library::Mpich),
                        (2, Order::Commutative, Library::OpenMpi4),
                        (128, Order::Ranks, Library::Other),
                    ] {
                        let on = |nodes| Facts {
                            operation,
                            library,
                            largest: (bytes / part).max(bytes / processes as u64),
                            order,
                            smallest_node: (processes % nodes != 0).then_some(1),
                            ..call(bytes, processes, nodes)
                        };
                        let any = choose_on_any_nodes(&on(processes), &settings);
                        // What is learned of is tried where processes share nodes before these
                        // are asked for, or never.
                        let is_learned = Kind::of(&on(processes), &settings)
                            .is_some_and(|kind| kind.is_learned(&settings));
                        let least = match (is_learned, operation.is_whole()) {
                            (true, true) => 2,
                            (true, false) => processes,
                            (false, _) => 1,
                        };
                        let taken =
                            (least..=processes).filter(|&n| choose(&on(n), &settings).is_ok());
                        let taken: Vec<_> = taken.collect();
                        assert!(any.is_ok() || taken.is_empty(), "{:?} {taken:?}", on(1));
                        native += usize::from(any.is_err());
                        ours += usize::from(!taken.is_empty());
                    }
                }
            }
        }
        assert!(native > 100 && ours > 100, "{native} {ours}");
        // Leaders gain where a flat graph does not.
        let reduce = Facts {
            operation: Operation::Reduce,
            order: Order::Any,
            ..call(128 << 10, 64, 16)
        };
        let flat = Facts {
            nodes: 64,
            ..reduce
        };
        assert!(choose(&reduce, &settings).is_ok() && choose(&flat, &settings).is_err());
        assert_eq!(choose_on_any_nodes(&flat, &settings), Ok(()));
    }

    /// Between few nodes of one process each no gain is predicted, nor for what has no parts.
    #[test]
    fn auto_leaves_few_nodes_alone() {
        let auto = Settings::default();
        for operation in Operation::VARIANTS.iter().copied() {
            for nodes in 2..=native::FEW_NODES {
                for processes in [2, 3, 4, 6, 16, 32, 48, 128] {
                    for bytes in [4096, 65_536, MIB, 64 * MIB] {
                        let facts = Facts {
                            operation,
                            largest: bytes,
                            ..call(bytes, processes, nodes.min(processes))
                        };
                        let is_alone = operation.is_whole() || facts.nodes == processes;
                        assert!(!is_alone || choose(&facts, &auto).is_err(), "{facts:?}");
                        let are_uneven = Facts {
                            smallest_node: Some(1),
                            ..facts
                        };
                        assert!(choose(&are_uneven, &auto).is_err(), "{facts:?}");
                    }
                }
            }
        }
        // On nodes of several processes, native reduce-scatters of large parts are slow.
        let scatter = |bytes| Facts::regular(Operation::ReduceScatterBlock, bytes, 16, 2);
        assert!(choose(&scatter(4_000_000), &auto).is_ok());
        assert!(choose(&scatter(65_536), &auto).is_err());
    }

    /// On one node calls are in shared memory from some size on, unless there is none; what is
    /// forced is not.
    #[test]
    fn calls_on_one_node_share_memory() {
        let (auto, none) = (
            Settings::default(),
            Settings {
                shared_max: 0,
                ..Settings::default()
            },
        );
        for operation in Operation::VARIANTS.iter().copied() {
            let on = |bytes, order, nodes| Facts {
                operation,
                order,
                ..call(bytes, 16, nodes)
            };
            for order in [Order::Any, Order::Commutative, Order::Ranks] {
                let exists = exist(&on(MIB, order, 1));
                let expected = match operation.is_added() {
                    _ if !exists => Err(Reason::NotCommutative),
                    true => Err(Reason::OneNode),
                    false => Ok(Algorithm::Shared { across: None }),
                };
                assert_eq!(choose(&on(MIB, order, 1), &auto), expected, "{operation:?}");
                assert!(choose(&on(8 << 10, order, 1), &auto).is_err());
                assert!(choose(&on(MIB, order, 1), &none).is_err());
                assert_ne!(
                    choose(&on(MIB, order, 2), &auto).map(Algorithm::name),
                    Ok("shared")
                );
                let forced = Settings {
                    force: true,
                    ..Settings::default()
                };
                assert_ne!(
                    choose(&on(MIB, order, 1), &forced).map(Algorithm::name),
                    Ok("shared")
                );
            }
        }
        assert_eq!(
            CANDIDATES[SHARED],
            Algorithm::Shared { across: None }.name()
        );
        // Two slots of a page for each process, at least.
        let largest = |processes| slot_bytes(auto.shared_max, processes);
        assert_eq!(largest(2), Some(256 << 10));
        assert_eq!(largest(128), Some(64 << 10));
        assert_eq!(largest(1000), Some(8 << 10));
        assert_eq!(largest(2048), Some(4 << 10));
        assert_eq!(largest(2049), None);
    }

    /// One block needs scratch for twice the problem.
    #[test]
    fn what_scratch_does_not_hold_is_pipelined() {
        let blocks = |each: u64| blocks_of(Operation::Allgather, each * 16, each, 16);
        assert_eq!(blocks(2 << 20), 1);
        assert!(blocks((2 << 20) + 1) > 1);
    }

    #[test]
    fn what_settings_say_of_blocks_is_done() {
        let equal = Facts {
            operation: Operation::Allgather,
            largest: 250_000,
            ..call(4_000_000, 16, 16)
        };
        for blocks in [1, 2, 30] {
            let given = Settings {
                force: true,
                blocks: Some(blocks),
                ..Settings::default()
            };
            let chosen = choose(&equal, &given).map(Algorithm::blocks);
            assert_eq!(chosen, Ok(blocks as usize));
        }
    }

    /// A broadcast goes along the tree if that was asked for, its root follows the one before, and
    /// it is short.
    #[test]
    fn successive_broadcasts_go_along_the_tree() {
        let gray = Settings {
            bcast_order: BcastOrder::Gray,
            ..Settings::default()
        };
        let along = |bytes, follows, operation, settings: &Settings| {
            let facts = Facts {
                operation,
                follows,
                ..call(bytes, 16, 16)
            };
            choose(&facts, settings) == Ok(Algorithm::Gray)
        };
        assert!(along(100, true, Operation::Bcast, &gray));
        assert!(along(65_536, true, Operation::Bcast, &gray));
        assert!(!along(65_537, true, Operation::Bcast, &gray));
        assert!(!along(100, false, Operation::Bcast, &gray));
        assert!(!along(100, true, Operation::Reduce, &gray));
        assert!(!along(100, true, Operation::Bcast, &Settings::default()));
    }

    /// What need not be looked at: small calls, unless something is said of them.
    #[test]
    fn small_calls_are_native_at_once() {
        let all = |settings: &Settings| {
            let operations = [Operation::Bcast, Operation::Allreduce];
            operations.map(|operation| native_below(operation, settings))
        };
        let with = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            all(&settings)
        };
        assert_eq!(with(|_| ()), [4096; 2]);
        assert_eq!(with(|settings| settings.min_bytes = 100), [100; 2]);
        assert_eq!(with(|settings| settings.force = true), [0; 2]);
        assert_eq!(with(|settings| settings.disable = true), [0; 2]);
        let along_the_tree = with(|settings| settings.bcast_order = BcastOrder::Gray);
        assert_eq!(along_the_tree, [0, 4096]);
        assert_eq!(all(&settings(Mode::Native)), [0, 4096]);
        assert_eq!(all(&settings(Mode::Circulant)), [4096; 2]);
    }

    /// What is said of small calls before anything else is known must be what is said in the end.
    #[test]
    fn what_is_native_at_once_is_native() {
        let mut all = vec![Settings::default()];
        for mode in [Mode::Native, Mode::Circulant] {
            all.push(settings(mode));
        }
        for force in [false, true] {
            all.push(Settings {
                force,
                disable: !force,
                bcast_order: BcastOrder::Gray,
                ..Settings::default()
            });
        }
        for settings in all {
            for operation in Operation::VARIANTS
                .iter()
                .copied()
                .filter(|operation| !operation.is_added())
            {
                let limit = native_below(operation, &settings);
                for follows in [false, true] {
                    for order in [Order::Any, Order::Commutative, Order::Ranks] {
                        let facts = Facts {
                            operation,
                            order,
                            follows: follows && operation == Operation::Bcast,
                            ..call(limit.saturating_sub(1).max(1), 16, 16)
                        };
                        let is_below = facts.bytes < limit;
                        let reason = choose(&facts, &settings).err();
                        let is_native = [Reason::Small, Reason::NotCommutative].map(Some);
                        assert!(!is_below || is_native.contains(&reason), "{facts:?}");
                    }
                }
            }
        }
    }

    /// A setting for calls between groups is none for others.
    #[test]
    fn calls_within_a_group_may_be_ours_where_others_are_not_wanted() {
        let settings = Settings {
            inter: false,
            ..Settings::default()
        };
        assert!(choose(&call(64 * MIB, 16, 16), &settings).is_ok());
    }

    /// Without trials a call is in shared memory from some size on, if others share it.
    #[test]
    fn calls_are_in_shared_memory_from_some_size_on() {
        use Operation::{
            Allgather, Allgatherv, Allreduce, Alltoall, Bcast, Gather, Reduce, ReduceScatter,
            ReduceScatterBlock, Scatter,
        };
        let auto = Settings::default();
        let is_shared = |operation, bytes, processes, nodes| {
            let facts = Facts {
                operation,
                ..call(bytes, processes, nodes)
            };
            choose(&facts, &auto) == Ok(Algorithm::Shared { across: None })
        };
        let groups = [
            (
                16 << 10,
                &[Bcast, ReduceScatterBlock, ReduceScatter, Allreduce][..],
            ),
            (32 << 10, &[Allgather, Allgatherv, Alltoall, Scatter]),
            (64 << 10, &[Gather]),
            (256 << 10, &[Reduce]),
        ];
        for (least, operations) in groups {
            for &operation in operations {
                assert!(is_shared(operation, least, 2, 1), "{operation:?}");
                assert!(!is_shared(operation, least - 1, 2, 1), "{operation:?}");
                assert!(!is_shared(operation, least, 1, 1), "{operation:?}");
                assert!(!is_shared(operation, least, 4, 2), "{operation:?}");
            }
        }
    }
}
