//! The algorithms that can run a call, each at a place of its own: the candidates.
//!
//! ```text
//! place   0       1          2  3    4   5 to 8             9       10
//!         native  one block  n  n/2  2n  the same four,     shared  lanes
//!                                        by leaders
//! ```
//!
//! Not every call has all of them. A candidate has the same place in trials, in reports, in
//! profiles and in `circulant_choice`, so places do not change.

use super::algorithm::{Algorithm, Cut};
use super::cost::{self, Cost, Network, blocks};
use super::facts::{Facts, Library, Operation, Order, phases};
use super::learned::NATIVE;
use super::native;
use super::rules::CallRule;
use super::settings::{BcastOrder, ROUNDS_OF_LANE, Settings, TRANSFERS_MAX};
use super::sizes::MESSAGE_MAX;
use crate::schedule::Sequence;

/// The most candidates of ours on a flat circulant graph, and as many by leaders of nodes.
const FLAT: usize = 4;

/// The most candidates of ours: one more is in shared memory, and one by lanes.
const SLOTS: usize = 2 * FLAT + 2;

/// The most candidates by lanes, of which one is tried.
const LANES: usize = 1 + FLAT;

/// The most candidates, the MPI library among them.
pub const PLACES: usize = 1 + SLOTS;

/// The place of the candidate in shared memory. That by lanes is the last.
pub const SHARED: usize = PLACES - 2;

/// What the candidates are called, the MPI library first: by their places.
pub const CANDIDATES: [&str; PLACES] = [
    "native",
    "one-block",
    "n",
    "n/2",
    "2n",
    "leaders-one-block",
    "leaders-n",
    "leaders-n/2",
    "leaders-2n",
    "shared",
    "lanes",
];

/// An algorithm that can run a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Candidate {
    /// The algorithm, with its parameters.
    pub algorithm: Algorithm,
    /// Its predicted cost.
    pub cost: Cost,
}

impl Candidate {
    fn new(facts: &Facts, algorithm: Algorithm) -> Candidate {
        Candidate {
            algorithm,
            cost: cost::circulant(facts, algorithm),
        }
    }
}

/// The fastest candidate on `network`.
pub(super) fn fastest(
    candidates: impl Iterator<Item = Candidate>,
    network: Network,
) -> Option<Candidate> {
    let seconds = |candidate: &Candidate| candidate.cost.on(network);
    candidates.min_by(|a, b| seconds(a).total_cmp(&seconds(b)))
}

/// What the cost model predicts for calls of the kind of `facts` on a network that was measured:
/// seconds of each candidate, the MPI library's first.
pub fn predicted(facts: &Facts, settings: &Settings, network: Network) -> [f64; PLACES] {
    let ours = slots(facts, settings, Sizing::Measured(network)).map(|algorithm| match algorithm {
        Some(algorithm) => cost::circulant(facts, algorithm).on(network),
        None => f64::INFINITY,
    });
    // As if its processes shared their port in all that they send: until its time is known, trials
    // may take a part of what is predicted here, and with less they would begin late. Here it does
    // not matter whose collectives these are.
    let of_process = network.shared_by(facts.processes_per_node());
    let any = Facts {
        library: Library::Other,
        ..*facts
    };
    let native = native::seconds(&any, of_process);
    let mut all = [native; PLACES];
    all[NATIVE + 1..].copy_from_slice(&ours);
    all
}

/// The algorithm by which a candidate runs a call of these facts: none, if that is the MPI library.
/// If the call has no such candidate, as where nodes are not alike, the fastest that it has.
pub fn candidate(
    facts: &Facts,
    settings: &Settings,
    network: Network,
    candidate: usize,
) -> Option<Algorithm> {
    let slot = candidate.checked_sub(NATIVE + 1)?;
    let slots = slots(facts, settings, Sizing::Measured(network));
    let own = slots.get(slot).copied().flatten();
    own.or_else(|| {
        let candidates = candidates(facts, settings, Sizing::Measured(network));
        fastest(candidates, network).map(|candidate| candidate.algorithm)
    })
}

/// The rules that hold for a call, or may hold while something is unknown. One that names an
/// algorithm is left out if that cannot run the call.
pub(super) fn rules<'a>(
    facts: &Facts,
    settings: &'a Settings,
) -> impl Iterator<Item = &'a CallRule> {
    let facts = *facts;
    let can_run = move |rule: &&CallRule| {
        rule.algorithm.is_none() || {
            let slots = slots(&facts, settings, Sizing::Given);
            let mut all = slots.into_iter().flatten();
            all.any(|algorithm| is_of(algorithm, rule.algorithm))
        }
    };
    let rules = settings.rules_of(facts.operation);
    rules.filter(move |rule| rule.covers(&facts) && can_run(rule))
}

/// Whether an algorithm is the one that a rule names, if it does.
pub(super) fn is_of(algorithm: Algorithm, named: Option<usize>) -> bool {
    named.is_none_or(|index| algorithm.index() == index)
}

/// From how many bytes on calls are by lanes rather than by leaders where no time was taken. Lanes
/// send more messages: on emulated nodes of four processes, which share two processors,
/// reduce-scatters of 64 KiB take 1.5 times as long by lanes, and of 128 KiB 0.95 times.
const LANES_FROM: u64 = 128 << 10;

/// From how many processes of a node on smaller ones are, too, since a leader combines what all of
/// them have. In simulation, where each process has a processor of its own, reduce-scatters of
/// 37 kB take 1.06 times as long by lanes on nodes of 4, 0.8 times on nodes of 8 and 0.7 times on
/// nodes of 32 processes. Nodes of 16 and more were not emulated.
const LANES_FROM_PROCESSES: usize = 16;

/// From how many bytes on broadcasts and reductions are by lanes where no time was taken, and from
/// where all that is by lanes of some processes of a node, its heads, is tried so. With the blocks
/// that they then have, lanes take up to 1.02 times as long on the same emulated nodes. In
/// simulation they take 0.96 times as long, and half as long where a process has no more than 0.4
/// of a port.
const HEADS_FROM: u64 = 256 << 10;

/// Whether a call is rather by these lanes than by leaders where the cost model sees no difference.
/// A forced call in several blocks has so many that the messages of lanes are too small. Forced
/// calls are by lanes of some processes of a node only if a rule names them.
fn are_preferred(by_lanes: Algorithm, facts: &Facts, sizing: Sizing) -> bool {
    let is_of_all = matches!(
        by_lanes,
        Algorithm::Lanes { cut: Cut::Segments(_), lanes } if lanes == facts.processes_per_node()
    );
    match facts.operation.is_rooted() {
        _ if !is_of_all && matches!(sizing, Sizing::Given) => false,
        true => facts.bytes >= HEADS_FROM,
        false => facts.bytes >= LANES_FROM || facts.processes_per_node() >= LANES_FROM_PROCESSES,
    }
}

/// The candidates for a call of MPI's.
///
/// - A broadcast whose root follows the one before goes along the tree, if that was asked for.
/// - What is pipelined has as many blocks as [`Sizing`] says, unless settings say how many.
/// - An allgather and a reduce-scatter have one block or several, unless settings say how many, or
///   scratch does not hold what one block needs: twice the problem. If all parts are of
///   about the same size, they have one: it takes the fewest rounds and moves the fewest bytes.
/// - An allreduce of few bytes for which the order makes no difference is a census.
/// - An all-to-all combines messages, of a step at most unless settings ask for it, or sends each
///   straight.
/// - Where there are several nodes with several processes, the same by leaders.
/// - Where all nodes have several processes, the same by lanes. By the cost model they take as long
///   as by leaders. [Large](LANES_FROM) ones come first, since several processes of a node combine,
///   copy and use the port.
/// - On one node, all are in shared memory, if there may be any. On several, small ones by leaders
///   are also in the memory of each node.
pub(super) fn candidates(
    facts: &Facts,
    settings: &Settings,
    sizing: Sizing,
) -> impl Iterator<Item = Candidate> {
    let facts = *facts;
    let (others, by_lanes) = all(&facts, settings, sizing);
    // Of candidates that cost the same the first counts.
    let is_preferred = move |&by_lanes: &Algorithm| are_preferred(by_lanes, &facts, sizing);
    let [preferred, less] = [by_lanes, by_lanes].map(|all| all.into_iter().flatten());
    let first = preferred.filter(is_preferred);
    let last = less.filter(move |by_lanes| !is_preferred(by_lanes));
    let all = first.chain(others.into_iter().flatten()).chain(last);
    all.map(move |algorithm| Candidate::new(&facts, algorithm))
}

/// How many blocks the candidates have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sizing {
    /// What the settings say, or the shipped factors.
    Given,
    /// What the settings say, or [what suits common networks](cost::unmeasured_blocks).
    Unmeasured,
    /// The same, or half as many if the call is small and combines.
    Fewer,
    /// What is best on this network, half as many and twice as many.
    Measured(Network),
}

/// The algorithms of a call, each at a place of its own: of those by lanes the fastest, on the
/// network that is known or that is shipped.
fn slots(facts: &Facts, settings: &Settings, sizing: Sizing) -> [Option<Algorithm>; SLOTS] {
    let (others, by_lanes) = all(facts, settings, sizing);
    let network = match sizing {
        Sizing::Measured(network) => network,
        Sizing::Unmeasured | Sizing::Fewer => Network::SHIPPED,
        Sizing::Given => Network::of_blocks(facts.operation, settings),
    };
    let by_lanes = by_lanes.into_iter().flatten();
    let by_lanes = by_lanes.map(|algorithm| Candidate::new(facts, algorithm));
    let by_lanes = fastest(by_lanes, network).map(|candidate| candidate.algorithm);
    let mut all = others.into_iter().chain([by_lanes]);
    std::array::from_fn(|_| all.next().flatten())
}

/// The algorithms of a call: each at its place, and those by lanes, which have one place together.
fn all(
    facts: &Facts,
    settings: &Settings,
    sizing: Sizing,
) -> ([Option<Algorithm>; SLOTS - 1], [Option<Algorithm>; LANES]) {
    let of_process = match sizing {
        Sizing::Measured(network) => {
            Sizing::Measured(network.shared_by(facts.processes_per_node()))
        }
        other => other,
    };
    let by_leaders = by_leaders(facts, settings, sizing);
    let by_lanes = by_lanes(facts, settings, sizing, &by_leaders);
    let flat = flat(facts, settings, of_process);
    let on_one_node = shared(facts, settings);
    let shared = on_one_node.or_else(|| shared_on_nodes(facts, settings, sizing, &by_leaders));
    let is_beside = |algorithm: &Algorithm| {
        let is_tried = matches!(sizing, Sizing::Measured(_));
        !is_tried || shared.is_none_or(|shared| is_tried_beside(shared, *algorithm, facts))
    };
    let messages = flat.into_iter().chain(by_leaders);
    let messages = messages.map(|algorithm| algorithm.filter(is_beside));
    let mut others = messages.chain([shared]);
    let by_lanes = by_lanes.map(|algorithm| algorithm.filter(is_beside));
    (std::array::from_fn(|_| others.next().flatten()), by_lanes)
}

/// Whether messages within nodes are tried beside memory that their processes share. On one node
/// they take as many copies, or more. On several, of small ones those are that differ in nothing
/// else, and lanes of [many processes](LANES_FROM_PROCESSES): so the choice is soon made.
fn is_tried_beside(shared: Algorithm, messages: Algorithm, facts: &Facts) -> bool {
    match (shared, messages) {
        (Algorithm::Shared { across: None }, _) => false,
        _ if facts.bytes >= LANES_FROM => true,
        (Algorithm::Shared { across: Some(cut) }, _) => {
            messages == Algorithm::Leaders { cut }
                || matches!(messages, Algorithm::Lanes { .. })
                    && facts.processes_per_node() >= LANES_FROM_PROCESSES
        }
        _ => true,
    }
}

/// Those on a flat circulant graph: one that is not pipelined, and pipelines of n blocks, and of
/// other numbers of them.
fn flat(facts: &Facts, settings: &Settings, sizing: Sizing) -> [Option<Algorithm>; FLAT] {
    let segment = usize::try_from(settings.segment).unwrap_or(usize::MAX);
    let pipelined = |single| {
        let [n, others @ ..] = numbers_of_blocks(facts, settings, sizing);
        let of = |blocks| Some(Algorithm::Circulant { blocks });
        let others = others.map(|blocks| of(blocks).filter(|_| blocks != n));
        [single, of(n), others[0], others[1]]
    };
    let doubling = Algorithm::Doubling { segment };
    let one_or_several = || {
        let is_allowed = facts.bytes.saturating_mul(2) <= settings.scratch_max;
        let may_be_one = is_allowed && !cost::are_blocks_given(facts.operation, settings);
        match pipelined(Some(doubling).filter(|_| may_be_one)) {
            [_, Some(Algorithm::Circulant { blocks: 1 }), ..] => only(doubling),
            [Some(_), ..] if facts.smallest_node.is_none() && cost::is_one_block_best(facts) => {
                only(doubling)
            }
            all => all,
        }
    };
    let keeps_order = facts.order == Order::Ranks;
    match facts.operation {
        Operation::Bcast if is_gray(facts, settings) => only(Algorithm::Gray),
        _ if !exist(facts) => [None; FLAT],
        Operation::Bcast | Operation::Reduce => pipelined(None),
        Operation::Allgather | Operation::Allgatherv if facts.smaller_group > 0 => {
            let are_equal = facts.operation == Operation::Allgather;
            let by_blocks = are_equal && goes_by_blocks(facts.largest, settings.segment);
            only(Algorithm::Exchange { segment, by_blocks })
        }
        Operation::Allgather | Operation::Allgatherv => one_or_several(),
        Operation::ReduceScatter | Operation::ReduceScatterBlock | Operation::Allreduce
            if keeps_order =>
        {
            only(Algorithm::Ordered { segment })
        }
        Operation::ReduceScatter | Operation::ReduceScatterBlock => one_or_several(),
        Operation::Allreduce if facts.order == Order::Any && facts.bytes <= settings.census_max => {
            only(Algorithm::Census)
        }
        Operation::Allreduce => only(doubling),
        Operation::Alltoall => {
            // It copies every message, up to q times.
            let combining =
                Some(Algorithm::Combining).filter(|_| facts.largest <= settings.segment);
            [combining, Some(Algorithm::Pairwise { segment }), None, None]
        }
        Operation::Gather | Operation::Scatter => only(Algorithm::Tree),
        Operation::SuccessiveBcast | Operation::AllgatherMerge | Operation::AllreduceV => {
            [None; FLAT]
        }
    }
}

/// Whether a call may be by leaders of nodes or by lanes: there are nodes, and the order of the
/// ranks need not be kept.
fn may_be_on_nodes(facts: &Facts, settings: &Settings) -> bool {
    let has_nodes = facts.nodes > 1 && facts.nodes < facts.processes && facts.smaller_group == 0;
    let keeps_order = facts.operation.combines() && facts.order == Order::Ranks;
    has_nodes && !keeps_order && !is_gray(facts, settings)
}

/// The same by leaders of nodes.
pub(super) fn by_leaders(
    facts: &Facts,
    settings: &Settings,
    sizing: Sizing,
) -> [Option<Algorithm>; FLAT] {
    // In its node, the message of a rank is one transfer.
    let is_whole = matches!(
        facts.operation,
        Operation::Bcast | Operation::Reduce | Operation::Allreduce
    );
    let is_short = is_whole || facts.largest <= MESSAGE_MAX;
    let may_be = is_short && may_be_on_nodes(facts, settings);
    let segment = usize::try_from(settings.segment).unwrap_or(usize::MAX);
    // Leaders have no strips: any number of blocks will do.
    let evenly = Facts {
        order: Order::Any,
        ..*facts
    };
    flat(&evenly, settings, sizing).map(|algorithm| {
        let cut = match algorithm.filter(|_| may_be)? {
            Algorithm::Circulant { blocks } => Cut::Blocks(blocks),
            Algorithm::Doubling { .. } | Algorithm::Census => Cut::Segments(segment),
            _ => return None,
        };
        Some(Algorithm::Leaders { cut })
    })
}

/// By lanes, where all nodes have several processes.
///
/// - A broadcast or a reduction in as many blocks as by leaders. Where one process has, or gets,
///   all that is gathered or scattered, that is one, if it is large.
/// - What has one block, by all processes of equal nodes.
/// - What has parts, and is large, as by leaders besides: where nodes differ in size, or one block
///   would move more than several do. What more lanes are worth is not predicted. So where all
///   processes of a node may have one, some have only if they move [less](MOVED_BY_ALL).
fn by_lanes(
    facts: &Facts,
    settings: &Settings,
    sizing: Sizing,
    by_leaders: &[Option<Algorithm>; FLAT],
) -> [Option<Algorithm>; LANES] {
    let lanes = settings.lanes.min(facts.least_processes_per_node());
    let is_given = matches!(sizing, Sizing::Given);
    let may_be = lanes > 1 && (facts.bytes >= HEADS_FROM || is_given);
    if may_be && facts.is_of_one() {
        let blocks = by_leaders[1].map(Algorithm::blocks);
        return only(blocks.and_then(|n| in_blocks_by_lanes(facts, settings, n, lanes)));
    }
    let by_all = in_one_block_by_lanes(facts, settings, sizing);
    let is_by_all = is_given && by_all.is_some();
    if !may_be || is_by_all {
        return only(by_all);
    }
    let are_all = facts.smallest_node.is_none() && lanes == facts.processes_per_node();
    let move_enough_less = |by_heads: Algorithm| {
        let moved = |algorithm| cost::circulant(facts, algorithm).bytes;
        let by_all = by_all.filter(|_| !are_all);
        by_all.is_none_or(|by_all| moved(by_heads) * MOVED_BY_ALL <= moved(by_all))
    };
    let by_heads = by_leaders.iter().map(|&leaders| {
        let cut = match leaders? {
            // These would be by all.
            Algorithm::Leaders {
                cut: Cut::Segments(_),
            } if are_all => return None,
            Algorithm::Leaders { cut } => cut,
            _ => return None,
        };
        let by_heads = Algorithm::Lanes { cut, lanes };
        let is_worth = || are_blocks_long(facts, cut, lanes) && move_enough_less(by_heads);
        (is_given || is_worth()).then_some(by_heads)
    });
    let mut all = [by_all].into_iter().chain(by_heads);
    std::array::from_fn(|_| all.next().flatten())
}

/// How many times as much one block by all processes moves as several blocks by some, at least, if
/// these are to run a call. In simulation, on 16 nodes of 16 processes, of which each has 0.12 of
/// the port, a call of 4 MB takes 1.7 times as long by 4 of them. On 8 nodes of 4 processes, where
/// all are 4, unequal parts take 0.55 to 0.85 times as long in several blocks.
const MOVED_BY_ALL: f64 = 1.15;

/// Whether the blocks of parts have 64 bytes on average. A process handles a block of each message
/// on each lane in a step; if blocks are shorter, that takes longer than what crosses the port.
fn are_blocks_long(facts: &Facts, cut: Cut, lanes: usize) -> bool {
    const LEAST: u64 = 64;
    match cut {
        Cut::Segments(_) => true,
        Cut::Blocks(n) => {
            let blocks = n.saturating_mul(lanes).saturating_mul(facts.processes);
            facts.bytes / LEAST >= blocks as u64
        }
    }
}

/// This algorithm in the first place, and no other.
fn only<const N: usize>(algorithm: impl Into<Option<Algorithm>>) -> [Option<Algorithm>; N] {
    let mut all = [None; N];
    all[0] = algorithm.into();
    all
}

/// In so many blocks, if there is scratch.
fn in_blocks_by_lanes(
    facts: &Facts,
    settings: &Settings,
    blocks: usize,
    lanes: usize,
) -> Option<Algorithm> {
    let scratch = match facts.operation.combines() {
        true => scratch_of_lanes(facts, settings, (blocks, lanes)),
        false => 0,
    };
    let cut = Cut::Blocks(blocks);
    (scratch <= settings.scratch_max).then_some(Algorithm::Lanes { cut, lanes })
}

/// Scratch of a reduction by so many lanes. What arrives in a step is kept as long as its block is
/// under way, or to the end. A step brings a part of a block across, one from each other head, and
/// for each lane one from another process; and a whole block in the place of one of these.
fn scratch_of_lanes(facts: &Facts, settings: &Settings, (n, lanes): (usize, usize)) -> u64 {
    /// From its feed to its last transfer, besides 2 q steps across and 2 q' within.
    const STEPS_OF_BLOCK: usize = 4;
    let rounds_of = |steps: usize| {
        let rounds = steps * ROUNDS_OF_LANE * lanes;
        rounds.min(TRANSFERS_MAX)
    };
    let steps_of = |rounds: usize| rounds.div_ceil(ROUNDS_OF_LANE * lanes);
    let (across, within) = (phases(facts.nodes), phases(facts.processes_per_node()));
    let depth = (across + within) as usize;
    let outstanding = rounds_of(settings.window) + rounds_of(settings.sends);
    let steps = (2 * depth + STEPS_OF_BLOCK + steps_of(outstanding)).min(n + depth);
    let parts = steps * (3 * lanes - 1) + rounds_of(settings.sends) * lanes;
    let part = facts.bytes.div_ceil((n * lanes) as u64);
    part.saturating_mul(parts as u64)
}

/// The algorithm with one block by lanes, on nodes with equal numbers of processes.
///
/// A quarter of scratch is for the messages of a step, which are not one stretch of memory. A
/// reduce-scatter keeps all that it receives in the rest: up to the largest part, once for each
/// process. An allreduce that has too little of it goes in pieces.
fn in_one_block_by_lanes(facts: &Facts, settings: &Settings, sizing: Sizing) -> Option<Algorithm> {
    let fits = match facts.operation {
        Operation::Allgather | Operation::Allgatherv | Operation::Allreduce => true,
        Operation::ReduceScatter | Operation::ReduceScatterBlock => {
            let received = facts.largest.saturating_mul(facts.processes as u64);
            received <= settings.scratch_max / 4 * 3
        }
        _ => false,
    };
    if !fits || facts.smallest_node.is_some() || !may_be_on_nodes(facts, settings) {
        return None;
    }
    let has_one_block = !facts.operation.is_pipelined()
        || !cost::are_blocks_given(facts.operation, settings)
        || blocks(facts, settings) == 1;
    let k = facts.processes_per_node();
    let at_once = 1 + Sequence::of_rule(settings.skips, k).rounds();
    if !has_one_block || at_once > TRANSFERS_MAX {
        return None;
    }
    let network = match sizing {
        Sizing::Measured(network) => Some(network),
        Sizing::Given | Sizing::Unmeasured | Sizing::Fewer => None,
    };
    let messages = (settings.window + settings.sends) * at_once;
    // Those of a step are of up to a segment for each process of the node.
    let most = settings.scratch_max / 4 / (messages * k) as u64;
    let wanted = cost::segment_of_lanes(facts, network);
    let segment = wanted.min(settings.segment).min(most).max(1);
    let segment = usize::try_from(segment).unwrap_or(usize::MAX);
    let cut = Cut::Segments(segment);
    Some(Algorithm::Lanes { cut, lanes: k })
}

/// In memory that the processes of one node share.
pub(super) fn shared(facts: &Facts, settings: &Settings) -> Option<Algorithm> {
    let is_on_one_node = facts.nodes == 1 && facts.processes > 1 && facts.smaller_group == 0;
    let may_be =
        !facts.operation.is_added() && is_on_one_node && exist(facts) && !is_gray(facts, settings);
    let has_slots = slot_bytes(settings.shared_max, facts.processes).is_some();
    (may_be && has_slots).then_some(Algorithm::Shared { across: None })
}

/// The most bytes of a call on several nodes in memory that the processes of a node share. They are
/// copied there before and after messages, not meanwhile, so larger calls take longer than by
/// [leaders](by_leaders).
const SHARED_MOST: u64 = 256 << 10;

/// Bytes of a slot that there always are, if it may be so large.
const SLOT_LEAST: usize = 16 << 10;

/// Whether a slot holds a unit of each part: of all processes, if the parts are bytes; of those of
/// a node, if they are numbers, of eight bytes at most. Twice, so that there are few steps.
fn hold_parts(facts: &Facts, settings: &Settings) -> bool {
    let of_other_nodes = facts.least_processes_per_node() * facts.nodes.saturating_sub(1);
    let most = facts.processes.saturating_sub(of_other_nodes);
    let needed = 2 * facts.processes.max(8 * most);
    slot_bytes(settings.shared_max, most).is_some_and(|slot| slot.min(SLOT_LEAST) >= needed)
}

/// The same on several nodes, with messages between them cut as is fastest by leaders. If one
/// process finds that it cannot run there, the others do not know. So only operands of the MPI
/// library's own datatypes are combined: those that may be in any order.
///
/// Nothing is known yet of how fast a node's memory is where nothing is measured, so there are none
/// then.
fn shared_on_nodes(
    facts: &Facts,
    settings: &Settings,
    sizing: Sizing,
    by_leaders: &[Option<Algorithm>; FLAT],
) -> Option<Algorithm> {
    let network = match sizing {
        Sizing::Measured(network) => network,
        Sizing::Given => Network::of_blocks(facts.operation, settings),
        Sizing::Unmeasured | Sizing::Fewer => return None,
    };
    let may_be = facts.bytes <= SHARED_MOST
        && (!facts.operation.combines() || facts.order == Order::Any)
        && hold_parts(facts, settings);
    let cut = |algorithm: &Algorithm| match *algorithm {
        Algorithm::Leaders { cut } if may_be => Some(cut),
        _ => None,
    };
    let cuts = by_leaders.iter().flatten().filter_map(cut);
    let all = cuts.map(|cut| Candidate::new(facts, Algorithm::Shared { across: Some(cut) }));
    fastest(all, network).map(|candidate| candidate.algorithm)
}

/// Bytes of a slot of the memory that so many processes share, of which there are two for each, if
/// they may share so much. Larger slots would not stay in the processors' caches.
pub fn slot_bytes(most: u64, processes: usize) -> Option<usize> {
    const LEAST: u64 = 4 << 10;
    const MOST: u64 = 256 << 10;
    let each = most / (2 * processes.max(1) as u64);
    let bytes = each.min(MOST) / LEAST * LEAST;
    usize::try_from(bytes).ok().filter(|&bytes| bytes > 0)
}

/// n, and other numbers of blocks. Where settings say how many there are, these.
fn numbers_of_blocks(facts: &Facts, settings: &Settings, sizing: Sizing) -> [usize; 3] {
    let given = blocks(facts, settings);
    let others = match sizing {
        Sizing::Given => None,
        Sizing::Unmeasured | Sizing::Fewer => {
            let is_fewer = matches!(sizing, Sizing::Fewer);
            cost::unmeasured_blocks(facts, settings, is_fewer).map(|n| [n; 3])
        }
        Sizing::Measured(network) => cost::measured_blocks(facts, settings, network),
    };
    others.unwrap_or([given; 3])
}

/// Whether what a group sends to the other is divided by blocks, which are equal in each group, or
/// else evenly. By blocks takes the fewest messages, which counts if the longest fits into a step
/// of `segment` bytes. If it is longer, the bytes count.
pub fn goes_by_blocks(longest: u64, segment: u64) -> bool {
    longest <= segment
}

/// Whether an algorithm can run a call of MPI's. None reduces to one root in the order of the
/// ranks.
pub(super) fn exist(facts: &Facts) -> bool {
    facts.operation != Operation::Reduce || facts.order != Order::Ranks
}

/// The largest broadcast that goes along the tree of successive broadcasts, in bytes: larger ones
/// gain from being cut.
const GRAY_MAX: u64 = 64 << 10;

/// Whether a call goes along the tree of successive broadcasts, also where it is small.
pub(super) fn is_gray(facts: &Facts, settings: &Settings) -> bool {
    settings.bcast_order == BcastOrder::Gray
        && facts.operation == Operation::Bcast
        && facts.follows
        && (1..=GRAY_MAX).contains(&facts.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Rule;

    /// A regular call in any order.
    fn call(operation: Operation, bytes: u64, processes: usize, nodes: usize) -> Facts {
        Facts {
            order: Order::Any,
            ..Facts::regular(operation, bytes, processes, nodes)
        }
    }

    /// A step of two lanes brings 5 parts, and of eight 23. A block of 8 nodes of 4 processes takes
    /// 14 steps, and 8 nodes of 8 take 16; so many steps are under way besides as rounds may be. A
    /// call of few blocks has fewer steps. What is sent has a part for each lane.
    #[test]
    fn a_reduction_by_lanes_has_the_scratch_that_it_needs() {
        for (processes, lanes, [window, sends], blocks, parts) in [
            (32, 2, [1, 2], 100, 5 * (14 + 3) + 2 * 8),
            (32, 2, [1, 2], 12, 5 * (14 + 3) + 2 * 8),
            (32, 2, [1, 2], 11, 5 * (11 + 5) + 2 * 8),
            (32, 2, [1, 2], 1, 5 * (1 + 5) + 2 * 8),
            (64, 8, [4, 5], 100, 23 * (16 + 8) + 8 * 64),
            (64, 8, [3, 2], 100, 23 * (16 + 5) + 8 * 32),
        ] {
            let facts = call(Operation::Reduce, 3_000_000, processes, 8);
            let cut = Cut::Blocks(blocks);
            let by_lanes = |scratch_max| {
                let settings = Settings {
                    lanes,
                    window,
                    sends,
                    scratch_max,
                    ..Settings::default()
                };
                in_blocks_by_lanes(&facts, &settings, blocks, lanes)
            };
            let needed = parts * 3_000_000u64.div_ceil((blocks * lanes) as u64);
            let all = Algorithm::Lanes { cut, lanes };
            assert_eq!(
                by_lanes(needed),
                Some(all),
                "{blocks} blocks, {lanes} lanes"
            );
            assert_eq!(by_lanes(needed - 1), None, "{blocks} blocks, {lanes} lanes");
        }
    }

    #[test]
    fn a_broadcast_by_lanes_needs_no_scratch() {
        let settings = Settings {
            scratch_max: 0,
            ..Settings::default()
        };
        let bcast = call(Operation::Bcast, 1 << 20, 64, 8);
        let by_lanes = slots(&bcast, &settings, Sizing::Unmeasured)[SLOTS - 1];
        assert!(matches!(by_lanes, Some(Algorithm::Lanes { lanes: 4, .. })));
    }

    /// What one process has, or gets, alone is by lanes as a broadcast or a reduction is. So is
    /// nearly everything, unless it is small or settings say so.
    #[test]
    fn what_is_of_one_process_is_by_lanes_in_blocks() {
        let settings = Settings::default();
        let lanes_of = |operation, bytes, largest, sizing| {
            let facts = Facts {
                largest,
                ..call(operation, bytes, 64, 8)
            };
            slots(&facts, &settings, sizing)[SLOTS - 1]
        };
        let is_in_blocks = |algorithm: Option<Algorithm>| match algorithm {
            Some(Algorithm::Lanes { cut, lanes }) => {
                let is_in_blocks = matches!(cut, Cut::Blocks(2..));
                assert_eq!(lanes, if is_in_blocks { 4 } else { 8 });
                Some(is_in_blocks)
            }
            _ => None,
        };
        for operation in [Operation::Allgatherv, Operation::ReduceScatter] {
            let of =
                |bytes, largest, sizing| is_in_blocks(lanes_of(operation, bytes, largest, sizing));
            let (least, unmeasured) = (256 << 10, Sizing::Unmeasured);
            assert_eq!(of(least, least, unmeasured), Some(true));
            assert_eq!(of(least, least - 1, unmeasured), Some(true));
            assert_eq!(of(least, least / 2 + 1, unmeasured), Some(true));
            assert_eq!(of(least, least / 64, unmeasured), Some(false));
            assert_eq!(of(least - 1, least - 1, unmeasured), Some(false));
            assert_eq!(of(least - 1, least - 1, Sizing::Given), Some(true));
            assert_eq!(of(least, least - 1, Sizing::Given), Some(false));
        }
        let allreduce = lanes_of(Operation::Allreduce, 1 << 20, 1 << 20, Sizing::Unmeasured);
        assert_eq!(is_in_blocks(allreduce), Some(false));
    }

    /// The bytes of a step of a call by lanes of all processes in one block, if it may be by them.
    fn step_by_lanes(facts: &Facts, change: impl Fn(&mut Settings)) -> Option<usize> {
        let mut settings = Settings::default();
        change(&mut settings);
        let all = facts.processes_per_node();
        match slots(facts, &settings, Sizing::Unmeasured)[SLOTS - 1]? {
            Algorithm::Lanes {
                cut: Cut::Segments(segment),
                lanes,
            } => (lanes == all).then_some(segment),
            _ => None,
        }
    }

    /// Where settings ask for several blocks, what can have several is not by lanes in one.
    #[test]
    fn lanes_of_calls_with_parts_have_one_block() {
        let is_by_lanes = |operation, blocks| {
            let facts = call(operation, 1 << 20, 64, 8);
            step_by_lanes(&facts, |settings| settings.blocks = blocks).is_some()
        };
        for operation in [Operation::Allgatherv, Operation::ReduceScatter] {
            assert!(is_by_lanes(operation, None) && is_by_lanes(operation, Some(1)));
            assert!(!is_by_lanes(operation, Some(2)), "{operation:?}");
        }
        assert!(is_by_lanes(Operation::Allreduce, Some(2)));
    }

    /// A process has one message at a time for each round within its node, and one across: 64 at
    /// most.
    #[test]
    fn lanes_have_no_more_messages_at_a_time_than_are_allowed() {
        for (skips, k, is_allowed) in [
            (Rule::Linear, 64, true),
            (Rule::Linear, 65, false),
            (Rule::Halving, 65, true),
        ] {
            let facts = call(Operation::Allgather, 1 << 20, 4 * k, 4);
            let step = step_by_lanes(&facts, |settings| settings.skips = skips);
            assert_eq!(step.is_some(), is_allowed, "{skips:?} {k}");
        }
    }

    /// Scratch holds the parts that a reduce-scatter by lanes receives in three quarters, and in
    /// the other the messages of a step: here of 3 rounds of 3 messages for each of 4 processes.
    #[test]
    fn steps_of_lanes_fit_into_scratch() {
        let scatter = call(Operation::ReduceScatterBlock, 3_000_000, 32, 8);
        let allgather = call(Operation::Allgather, 3_000_000, 32, 8);
        let step = |facts, scratch_max| {
            step_by_lanes(facts, |settings: &mut Settings| {
                settings.scratch_max = scratch_max;
            })
        };
        let received = scatter.largest * 32;
        let least = received.div_ceil(3) * 4;
        assert!(step(&scatter, least).is_some());
        assert_eq!(step(&scatter, least - 4), None);
        let messages = 3 * 3 * 4;
        assert_eq!(step(&allgather, 4 * messages * 1000), Some(1000));
        assert_eq!(step(&allgather, 4 * messages * 1000 - 1), Some(999));
        assert_eq!(step(&allgather, 0), Some(1));
        let of_settings = step_by_lanes(&allgather, |settings| settings.segment = 500);
        assert_eq!(of_settings, Some(500));
    }

    /// Large calls come by lanes first, and smaller ones on nodes of many processes, unless they
    /// have one root.
    #[test]
    fn large_calls_are_rather_by_lanes() {
        let is_first = |operation, bytes, k: usize, sizing| {
            let facts = call(operation, bytes, 4 * k, 4);
            let settings = Settings::default();
            let mut all = candidates(&facts, &settings, sizing);
            let first = all.next().map(|candidate| candidate.algorithm);
            matches!(first, Some(Algorithm::Lanes { .. }))
        };
        let from = |operation, least, k, sizing| {
            assert!(is_first(operation, least, k, sizing), "{operation:?}");
            assert!(!is_first(operation, least - 1, k, sizing), "{operation:?}");
        };
        from(Operation::Bcast, 256 << 10, 4, Sizing::Unmeasured);
        from(Operation::Reduce, 256 << 10, 32, Sizing::Unmeasured);
        from(Operation::Allreduce, 128 << 10, 15, Sizing::Unmeasured);
        from(Operation::Allgather, 128 << 10, 4, Sizing::Given);
        assert!(is_first(Operation::Allgather, 8192, 16, Sizing::Unmeasured));
        assert!(!is_first(Operation::Bcast, 1 << 30, 4, Sizing::Given));
    }

    /// Messages that are combined are of a step at most; between groups blocks are.
    #[test]
    fn short_messages_are_combined_and_not_cut() {
        let settings = Settings::default();
        let of = |operation, largest, smaller_group| {
            let facts = Facts {
                largest,
                smaller_group,
                ..call(operation, 1 << 20, 16, 16)
            };
            flat(&facts, &settings, Sizing::Given)[0]
        };
        for (largest, is_short) in [(settings.segment, true), (settings.segment + 1, false)] {
            let combining = of(Operation::Alltoall, largest, 0);
            assert_eq!(combining, Some(Algorithm::Combining).filter(|_| is_short));
            for (operation, by_blocks) in [
                (Operation::Allgather, is_short),
                (Operation::Allgatherv, false),
            ] {
                let segment = settings.segment as usize;
                let exchange = Algorithm::Exchange { segment, by_blocks };
                assert_eq!(of(operation, largest, 4), Some(exchange));
            }
        }
    }

    /// Nobody shares memory with a process that is alone, nor across groups or nodes.
    #[test]
    fn memory_is_shared_by_several_processes_of_one_node() {
        let may_be = |processes, nodes, smaller_group| {
            let facts = Facts {
                smaller_group,
                ..call(Operation::Bcast, 1 << 20, processes, nodes)
            };
            shared(&facts, &Settings::default()).is_some()
        };
        assert!(may_be(2, 1, 0) && may_be(16, 1, 0));
        assert!(!may_be(1, 1, 0) && !may_be(16, 2, 0) && !may_be(16, 1, 4));
    }

    /// Nor on several nodes where a process could find that it cannot combine there, and the others
    /// would not know; nor what would gain more by overlap; nor before anything is measured.
    #[test]
    fn small_calls_on_several_nodes_may_be_in_their_memory() {
        let settings = Settings::default();
        let measured = Sizing::Measured(Network::SHIPPED);
        let cut_of =
            |facts: &Facts, settings: &Settings, sizing| match slots(facts, settings, sizing)
                [SHARED - 1]?
            {
                Algorithm::Shared { across } => across,
                other => panic!("{other:?}"),
            };
        let may_be = |facts: &Facts| cut_of(facts, &settings, measured).is_some();
        for operation in [
            Operation::Bcast,
            Operation::Reduce,
            Operation::Allgather,
            Operation::Allgatherv,
            Operation::ReduceScatterBlock,
            Operation::ReduceScatter,
            Operation::Allreduce,
        ] {
            let facts = Facts {
                order: Order::Any,
                ..Facts::regular(operation, 1 << 16, 32, 8)
            };
            let cut = cut_of(&facts, &settings, measured);
            let in_blocks = matches!(cut, Some(Cut::Blocks(_)));
            assert_eq!(in_blocks, operation.is_rooted(), "{operation:?}");
            for order in [Order::Commutative, Order::Ranks] {
                let moves = may_be(&Facts { order, ..facts });
                assert_eq!(moves, !operation.combines(), "{operation:?} {order:?}");
            }
            assert!(!may_be(&Facts { nodes: 32, ..facts }));
            let with = |bytes| Facts { bytes, ..facts };
            assert!(may_be(&with(SHARED_MOST)) && !may_be(&with(SHARED_MOST + 1)));
            let none = Settings {
                shared_max: 0,
                ..Settings::default()
            };
            assert_eq!(cut_of(&facts, &none, measured), None);
            assert_eq!(cut_of(&facts, &settings, Sizing::Unmeasured), None);
            assert!(cut_of(&facts, &settings, Sizing::Given).is_some());
        }
        for operation in [Operation::Alltoall, Operation::Gather, Operation::Scatter] {
            assert!(!may_be(&Facts::regular(operation, 1 << 16, 32, 8)));
        }
        // A slot has room for a unit of each process.
        let many = |processes, nodes| {
            may_be(&Facts::regular(
                Operation::Allgather,
                1 << 16,
                processes,
                nodes,
            ))
        };
        assert!(many(8192, 64) && !many(8256, 64));
        assert!(many(1024, 2) && !many(2048, 2));
        let few_bytes = Settings {
            shared_max: 1 << 20,
            ..Settings::default()
        };
        let large = Facts::regular(Operation::Allgather, 1 << 16, 4352, 34);
        assert!(may_be(&large) && cut_of(&large, &few_bytes, measured).is_none());
        // The largest node of several that differ may have nearly all.
        let uneven = |smallest_node| Facts {
            smallest_node,
            ..Facts::regular(Operation::Allgather, 1 << 16, 2048, 4)
        };
        assert!(may_be(&uneven(None)) && !may_be(&uneven(Some(1))));
    }

    /// Beside memory of nodes small calls have no other candidate than leaders with the same
    /// messages, and lanes where a node has many processes.
    #[test]
    fn small_calls_on_several_nodes_have_few_candidates() {
        let settings = Settings::default();
        let of = |bytes, processes| {
            let facts = Facts::regular(Operation::Bcast, bytes, processes, 8);
            let slots = slots(&facts, &settings, Sizing::Measured(Network::SHIPPED));
            slots.into_iter().flatten().collect::<Vec<_>>()
        };
        let [leaders, shared] = of(LANES_FROM - 1, 32)[..] else {
            panic!("{:?}", of(LANES_FROM - 1, 32));
        };
        assert_eq!(leaders.blocks(), shared.blocks());
        assert_eq!([leaders.name(), shared.name()], ["leaders", "shared"]);
        assert!(of(LANES_FROM, 32).len() > 4);
        let gathered = |processes| {
            let facts = Facts::regular(Operation::Allgather, 1 << 16, processes, 8);
            slots(&facts, &settings, Sizing::Measured(Network::SHIPPED))[SLOTS - 1]
        };
        assert_eq!(gathered(8 * (LANES_FROM_PROCESSES - 1)), None);
        assert!(gathered(8 * LANES_FROM_PROCESSES).is_some());
    }
}
