//! The cost model: predicted seconds of a call that circulant runs. `native` has those of the MPI
//! library's calls.
//!
//! A process sends one message and receives one message at a time (one-ported); a message of b
//! bytes takes alpha + beta b. Time for combining operands is left out: both sides spend it.
//!
//! - circulant: n - 1 + q rounds of one message of m/n bytes; or, with one block, q rounds of as
//!   many consecutive blocks as the skips say. A flat circulant graph takes no notice of nodes:
//!   nearly every message leaves its node, so the processes of a node share its port, and beta
//!   counts as often as there are processes on it.
//! - by leaders, or by lanes: the rounds of a flat graph on the nodes, and ceil(log2) of the
//!   processes of a node besides. A port carries what a process of that graph sends. Where the
//!   problem has parts, a leader has a message for each process of its node; each is a part of a
//!   start-up. What goes within the node meanwhile is left out, and so is the round by which
//!   pipelined lanes start later. How much more of a port several processes can use is not
//!   predicted: trials show it.
//!
//! The constants here are shipped. Where calls are learned of, alpha and beta are measured: between
//! nodes by one process of each, so that beta is that of a node's port; on a single node by all its
//! processes at once. The processes of a node that send at once share its port.
//!
//! **The number of blocks.** A pipeline of n blocks takes n - 1 + q rounds, q = ceil(log2 p). Small
//! blocks fill it soon, large ones cost few start-ups; with start-up time alpha and time per byte
//! beta, (n - 1 + q)(alpha + beta m/n) is least for n = sqrt((q - 1) beta m / alpha). Hence the
//! rules of Träff's paper on broadcast schedules: block size F sqrt(m/q) for broadcast and
//! reduction, block count sqrt(m q)/G for the others.
//!
//! The others need several blocks only where their parts differ in size: the algorithms with one
//! block take q rounds in which each process sends p - 1 parts, which nothing undercuts where all
//! are as large. Where one block would [move more](expected_in_one_block) than n do, which move
//! (n - 1 + q)/n times the problem, the network that G stands for decides what weighs more, bytes
//! or rounds.
//!
//! Both are one formula, since m / (F sqrt(m/q)) = sqrt(m q)/F: the factor stands for
//! sqrt(alpha/beta), if q is taken for q - 1. They stay two because a round of the others carries a
//! block of every root, which may have to be packed, so that their best values need not agree.
//!
//! The shipped F and G were measured on ports of 40 Mbit/s. Where nothing is measured, calls have
//! [fewer blocks](unmeasured_blocks).

use std::ops::Range;

use super::algorithm::{Algorithm, Cut};
use super::facts::{Facts, Operation, phases};
use super::settings::{F, G, Settings};
use super::sizes::{BLOCKS_MAX, MESSAGE_MAX};

/// What messages take on a network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Network {
    /// Start-up of one message, in seconds.
    alpha: f64,
    /// Time per byte, in seconds.
    beta: f64,
}

impl Network {
    /// The network on which a small and a large message take so long: each is bytes and
    /// nanoseconds.
    pub fn measured((small, short): (usize, u64), (large, long): (usize, u64)) -> Network {
        /// No message takes less: seconds, and seconds a byte.
        const LEAST: (f64, f64) = (50e-9, 5e-12);
        let more = long.saturating_sub(short) as f64 / (large - small) as f64;
        Network {
            alpha: (1e-9 * short as f64).max(LEAST.0),
            beta: (1e-9 * more).max(LEAST.1),
        }
    }

    /// Alpha in ps, and beta in fs a byte, for other processes.
    pub fn encode(self) -> [u64; 2] {
        [
            (self.alpha * 1e12).round() as u64,
            (self.beta * 1e15).round() as u64,
        ]
    }

    /// The network that was [encoded](Network::encode).
    pub fn decode([alpha, beta]: [u64; 2]) -> Network {
        Network {
            alpha: alpha as f64 * 1e-12,
            beta: beta as f64 * 1e-15,
        }
    }

    /// The network of a node, if this is the share of each of its `processes` when all send.
    pub fn of_node(self, processes: usize) -> Network {
        Network {
            beta: self.beta / processes.max(1) as f64,
            ..self
        }
    }

    /// The share of each of the `processes` of a node when all send.
    pub fn shared_by(self, processes: usize) -> Network {
        Network {
            beta: self.beta * processes.max(1) as f64,
            ..self
        }
    }

    /// This network, corrected by a call of this cost that took so many seconds. If it took longer
    /// than predicted, a byte takes longer: start-ups differ less between networks. If it took
    /// less, both start-ups and bytes do.
    pub fn corrected_by(self, (cost, seconds): (Cost, f64)) -> Network {
        let more = seconds - cost.on(self);
        let times = (seconds / cost.on(self)).min(1.0);
        Network {
            alpha: self.alpha * times,
            beta: self.beta * times + more.max(0.0) / cost.bytes.max(1.0),
        }
    }

    /// Seconds that `rounds` messages take, one after the other, of so many bytes in all.
    pub fn seconds(self, rounds: f64, bytes: f64) -> f64 {
        Cost::of_messages(rounds, bytes).on(self)
    }

    /// Networks that programs run on: 1 Gbit/s Ethernet, 10 Gbit/s-class Ethernet and a fabric of
    /// 100 Gbit/s. sqrt(alpha/beta) is 61, 194 and 149 on them.
    pub const COMMON: [Network; 3] = [
        Network {
            alpha: 30e-6,
            beta: 8e-9,
        },
        Network::SHIPPED,
        Network {
            alpha: 2e-6,
            beta: 0.09e-9,
        },
    ];

    /// TCP on 10 Gbit/s-class Ethernet.
    pub const SHIPPED: Network = Network {
        alpha: 30e-6,
        beta: 0.8e-9,
    };

    /// The memory that the processes of a node share.
    pub const SHARED: Network = Network {
        alpha: 1e-6,
        beta: 0.1e-9,
    };

    /// The network that blocks are sized for. On it our algorithms are compared with each other
    /// where a call is ours in any case: what the shipped constants say of many small blocks,
    /// nobody has measured.
    pub fn of_blocks(operation: Operation, settings: &Settings) -> Network {
        let factor = factor(operation, settings);
        Network {
            alpha: Network::SHIPPED.beta * factor * factor,
            ..Network::SHIPPED
        }
    }
}

/// What a call costs the port that is used most.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Cost {
    /// Messages, one after the other.
    pub(super) rounds: f64,
    /// The bytes in them.
    pub(super) bytes: f64,
    /// The bytes that a process copies in the memory of its node meanwhile, while no message is
    /// under way.
    pub(super) copied: f64,
}

impl Cost {
    /// So many messages, of so many bytes in all.
    pub(super) const fn of_messages(rounds: f64, bytes: f64) -> Cost {
        Cost {
            rounds,
            bytes,
            copied: 0.0,
        }
    }

    /// The cost of both, one after the other.
    pub fn and(self, other: Cost) -> Cost {
        Cost {
            rounds: self.rounds + other.rounds,
            bytes: self.bytes + other.bytes,
            copied: self.copied + other.copied,
        }
    }

    /// The cost of so many, one after the other.
    pub fn times(self, calls: u64) -> Cost {
        Cost {
            rounds: self.rounds * calls as f64,
            bytes: self.bytes * calls as f64,
            copied: self.copied * calls as f64,
        }
    }

    /// Predicted seconds.
    pub fn on(self, network: Network) -> f64 {
        let sent = network.alpha * self.rounds + network.beta * self.bytes;
        sent + Network::SHARED.beta * self.copied
    }
}

/// The predicted cost of `call`, run by `algorithm`.
pub fn circulant(call: &Facts, algorithm: Algorithm) -> Cost {
    match algorithm {
        Algorithm::Leaders { cut } | Algorithm::Lanes { cut, .. } => return by_leaders(call, cut),
        Algorithm::Shared { across: None } => return in_shared_memory(call),
        Algorithm::Shared { across: Some(cut) } => {
            return across(call, cut).and(within_nodes(call));
        }
        _ => {}
    }
    let is_allreduce = call.operation == Operation::Allreduce;
    let q = f64::from(call.phases());
    let (rounds, bytes) = match algorithm {
        Algorithm::Circulant { blocks } => {
            let (n, m) = (blocks as f64, call.bytes as f64);
            (n - 1.0 + q, (n - 1.0 + q) * (m / n))
        }
        Algorithm::Doubling { .. } if is_allreduce => (2.0 * q, 2.0 * expected_in_one_block(call)),
        Algorithm::Doubling { .. } => (q, expected_in_one_block(call)),
        Algorithm::Ordered { .. } if is_allreduce => {
            let (rounds, bytes) = one_to_each(call);
            (rounds + q, bytes + expected_in_one_block(call))
        }
        Algorithm::Ordered { .. } => one_to_each(call),
        Algorithm::Exchange { .. } => across_groups(call),
        // Half of the messages travel in each round.
        Algorithm::Combining => (q, q * call.bytes as f64 / 2.0),
        Algorithm::Pairwise { .. } => one_to_each(call),
        // These save start-ups, which their native forms do as well where messages are small.
        _ => (q, q * call.bytes as f64),
    };
    Cost::of_messages(rounds, bytes * call.processes_per_node() as f64)
}

/// The predicted cost of `call`, run in shared memory. A byte that a process copies there, or
/// combines, counts as half of one that is sent, which is copied twice; a meeting as a message. All
/// processes copy at once, as all send at once where the network of a node is measured.
fn in_shared_memory(call: &Facts) -> Cost {
    /// Bytes of a step, about.
    const STEP: f64 = 64e3;
    let (m, p) = (call.bytes as f64, call.processes as f64);
    let copied = match call.operation {
        Operation::Bcast => m,
        Operation::Allgather | Operation::Allgatherv => m * (1.0 + 1.0 / p),
        Operation::Gather | Operation::Scatter => m,
        Operation::Alltoall => 2.0 * m,
        Operation::ReduceScatter | Operation::ReduceScatterBlock => 2.0 * m,
        _ => 3.0 * m,
    };
    let meetings = if call.operation.combines() { 2.0 } else { 1.0 };
    Cost::of_messages(
        meetings * (m / STEP).ceil(),
        copied / 2.0 * call.processes_per_node() as f64,
    )
}

/// The part of a start-up that a message within a node takes.
pub const STEP_WITHIN: f64 = 0.05;

/// The predicted cost of `call`, run by leaders whose messages are cut so.
fn by_leaders(call: &Facts, cut: Cut) -> Cost {
    let k = call.processes_per_node();
    let within = f64::from(phases(k));
    let rounds = match call.operation {
        Operation::Allreduce => 2.0 * within,
        operation if operation.is_whole() => within,
        // A leader has a message for each process of its node, or from each.
        _ => within + STEP_WITHIN * k.saturating_sub(1) as f64,
    };
    across(call, cut).and(Cost::of_messages(rounds, 0.0))
}

/// What leaders of nodes exchange in messages that are cut so.
fn across(call: &Facts, cut: Cut) -> Cost {
    let on_nodes = Facts {
        processes: call.nodes,
        largest: expected_sum(call, call.processes_per_node() as f64) as u64,
        ..*call
    };
    let algorithm = match cut {
        Cut::Blocks(blocks) => Algorithm::Circulant { blocks },
        Cut::Segments(segment) => Algorithm::Doubling { segment },
    };
    circulant(&on_nodes, algorithm)
}

/// What processes copy and combine in the memory of their node before and after that, and the
/// rounds in which they meet. What a leader combines alone, it copies besides.
fn within_nodes(call: &Facts) -> Cost {
    let m = call.bytes as f64;
    let (meetings, copied) = match call.operation {
        Operation::Bcast => (1.0, m),
        Operation::Reduce => (2.0, 3.0 * m),
        Operation::Allgather | Operation::Allgatherv => (2.0, 2.0 * m),
        _ => (3.0, 4.0 * m),
    };
    let rounds = f64::from(phases(call.processes_per_node()));
    Cost {
        copied,
        ..Cost::of_messages(meetings * STEP_WITHIN * rounds, 0.0)
    }
}

/// Whether no number of blocks moves fewer bytes than one does, which takes the fewest rounds: n
/// blocks move the whole problem, and (q - 1)/n of it besides. Between two processes blocks may be
/// larger than steps, which is worth trying.
pub fn is_one_block_best(call: &Facts) -> bool {
    call.phases() > 1 && most_in_one_block(call) <= call.bytes as f64
}

/// Bytes of a step between nodes, for `call` by lanes on this network, or on one that nobody has
/// measured.
///
/// While a step is under way, what arrived before goes on within the node. What the last one brings
/// is still to go on when it ends: of B steps that is m/B for each process. Every step costs a
/// start-up. With beta of the memory of a node, B alpha + beta m/B is least for B = sqrt(beta m /
/// alpha). Each of the k processes of a node sends m/k in these steps.
pub fn segment_of_lanes(call: &Facts, network: Option<Network>) -> u64 {
    /// The start-up that stands for those of [common networks](Network::COMMON). An allreduce of
    /// 4 MB on 36 nodes of 32 processes takes 14 % less time on the fastest of them than with their
    /// geometric mean, and some 3 % more on one of 10 Gbit/s.
    const UNMEASURED_ALPHA: f64 = 4e-6;
    /// Smaller steps cost more than they hide.
    const LEAST_STEP: f64 = 8192.0;
    let alpha = network.map_or(UNMEASURED_ALPHA, |network| network.alpha);
    let of_node = (call.bytes as f64 * alpha / Network::SHARED.beta).sqrt();
    (of_node / call.processes_per_node() as f64).max(LEAST_STEP) as u64
}

/// Rounds and bytes where every process sends a block to every other.
fn one_to_each(call: &Facts) -> (f64, f64) {
    let (all, others) = (call.bytes as f64, call.processes.saturating_sub(1) as f64);
    (others, all * others / (others + 1.0))
}

/// Rounds and bytes of an allgather between two groups: an exchange, then an allgather in each
/// group. An allgather of the sizes may come before. The largest contribution takes the longest in
/// the exchange (Kang et al., Theorem 3).
fn across_groups(call: &Facts) -> (f64, f64) {
    let larger_group = call.processes.saturating_sub(call.smaller_group);
    let exchange = larger_group.div_ceil(call.smaller_group) + 1;
    let rounds = exchange as f64 + 2.0 * f64::from(call.phases());
    (rounds, call.bytes as f64 + call.largest as f64)
}

/// The bytes of a block between two processes: large enough to cost no more processor time than one
/// message (measured over shared memory with 16 MB), small enough for scratch.
pub const PAIR_BLOCK: u64 = 4 << 20;

/// The number of blocks n of a pipeline that runs `call`: at least 1, at most one a unit, enough
/// for [`MESSAGE_MAX`], and otherwise at most [`BLOCKS_MAX`].
///
/// An operation's own setting is stronger than the general one; within each, a block count is
/// stronger than a block size, which is stronger than a factor.
pub fn blocks(call: &Facts, settings: &Settings) -> usize {
    let own = settings.of(call.operation);
    let wanted = given(call, own.blocks, own.block_size)
        .or_else(|| own.factor.map(|factor| pipeline_blocks(call, factor)))
        .or_else(|| given(call, settings.blocks, settings.block_size))
        .unwrap_or_else(|| pipeline_blocks(call, factor(call.operation, settings)));
    bounded(call, wanted)
}

/// The factors of blocks where nothing is measured. On [common networks](Network::COMMON)
/// sqrt(alpha / beta), in sqrt(byte), is 60 to 200. With the middle, a pipeline takes at most some
/// 15 % longer than with the best number of blocks.
const MIDDLE: f64 = 110.0;
const LEAST: f64 = 60.0;

/// The largest block that is no message by rendezvous. Over TCP, Open MPI sends so what has 64 KiB
/// and more with its header, and rounds of such messages fall out of step: on ports of 40 Mbit/s, a
/// broadcast of 4 MB took 1.3 to 1.4 times what the port needs with blocks of 100 kB, and 1.05 to
/// 1.07 with blocks of 60 kB.
const EAGER: u64 = 60_000;

/// The bytes of a call that combines and may be in half as many blocks. Where they are more,
/// start-ups count less.
const HALVED: Range<u64> = 32 << 10..256 << 10;

/// The number of blocks n of a pipeline that runs `call` on a network that nobody has measured, if
/// the settings leave it open: by the middle factor, or more where only they are eager. Of a
/// [small](HALVED) call `fewer` are half of that.
pub fn unmeasured_blocks(call: &Facts, settings: &Settings, fewer: bool) -> Option<usize> {
    let [middle, most] = [MIDDLE, LEAST].map(|factor| pipeline_blocks(call, factor));
    let wanted = middle.max(most.min(call.bytes.div_ceil(EAGER)));
    let may_be_fewer = call.operation.combines() && HALVED.contains(&call.bytes);
    let wanted = match fewer && may_be_fewer {
        true => wanted / 2,
        false => wanted,
    };
    // The multiple of q that is nearest, where it has to be one.
    let wanted = match call.has_rounded_result() {
        true => wanted.saturating_sub(u64::from(call.phases()) / 2).max(2),
        false => wanted,
    };
    is_open(call.operation, settings).then(|| bounded(call, wanted))
}

/// The numbers of blocks n of pipelines that run `call`, if the settings leave that open: what is
/// best on `network` as far as the cost model says, half of that, and twice.
pub fn measured_blocks(call: &Facts, settings: &Settings, network: Network) -> Option<[usize; 3]> {
    let best = (network.alpha / network.beta).sqrt();
    let of = |factor| bounded(call, pipeline_blocks(call, factor));
    is_open(call.operation, settings).then(|| [of(best), of(2.0 * best), of(best / 2.0)])
}

/// Whether a reduction in n > 1 blocks may have any other number of them: its result stays the same
/// to the last bit, and the settings leave it open.
pub fn are_blocks_free(call: &Facts, settings: &Settings) -> bool {
    call.has_rounded_result() && is_open(call.operation, settings)
}

/// The factors of such blocks, at least and at most. No trial corrects a network that was measured
/// wrong, as while processes wait for processors: then the number of blocks is not too far off.
const FREE: [f64; 2] = [30.0, 300.0];

/// The number of them that is best on `network`: one for each phase, at least.
pub fn free_blocks(call: &Facts, network: Network) -> usize {
    let factor = (network.alpha / network.beta).sqrt();
    let wanted = pipeline_blocks(call, factor.clamp(FREE[0], FREE[1]));
    let fewer = wanted.saturating_sub(call.phases().into());
    let [n, fewer] = [wanted, fewer].map(|wanted| bounded(call, wanted.max(2)));
    let seconds = |blocks| circulant(call, Algorithm::Circulant { blocks }).on(network);
    if seconds(fewer) < seconds(n) {
        fewer
    } else {
        n
    }
}

/// Whether the number of blocks is the shipped factor's.
fn is_open(operation: Operation, settings: &Settings) -> bool {
    !are_blocks_given(operation, settings)
        && !settings.is_factor_given(operation.is_rooted())
        && factor(operation, settings) == shipped_factor(operation)
}

/// The number of blocks nearest to `wanted` that `call` can have.
fn bounded(call: &Facts, wanted: u64) -> usize {
    let between_groups = call.smaller_group > 0 && !call.operation.is_rooted();
    if !call.operation.is_pipelined() || between_groups {
        return 1;
    }
    let least = call.bytes.div_ceil(MESSAGE_MAX);
    let n = wanted
        .min(call.bytes)
        .min(BLOCKS_MAX)
        .max(least)
        .min(call.units)
        .max(1);
    let n = if call.has_rounded_result() {
        of_whole_phases(n, call, least)
    } else {
        n
    };
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A multiple of q near n > 1, of `least` blocks or more: then the result is the same to the last
/// bit however many there are (see [`Cutting`](crate::stage::Cutting)).
fn of_whole_phases(n: u64, call: &Facts, least: u64) -> u64 {
    let q = u64::from(call.phases());
    if n <= 1 || q <= 1 {
        return n;
    }
    let below = n / q * q;
    let next = if below == n { n } else { below + q };
    let is_allowed = next <= call.units && (next <= BLOCKS_MAX || below < least);
    if is_allowed { next } else { below.max(1) }
}

/// The factor that blocks of `operation` are sized by where nothing else says how many there are.
fn factor(operation: Operation, settings: &Settings) -> f64 {
    if operation.is_rooted() {
        settings.f
    } else {
        settings.g
    }
}

/// That of the shipped settings.
fn shipped_factor(operation: Operation) -> f64 {
    if operation.is_rooted() { F } else { G }
}

/// Whether the settings say how many blocks calls of `operation` have: one or more.
pub fn are_blocks_given(operation: Operation, settings: &Settings) -> bool {
    let own = settings.of(operation);
    own.blocks.is_some()
        || own.block_size.is_some()
        || own.factor.is_some()
        || settings.blocks.is_some()
        || settings.block_size.is_some()
}

/// The number of blocks where it or the size of a block is given.
fn given(call: &Facts, blocks: Option<u64>, block_size: Option<u64>) -> Option<u64> {
    blocks.or_else(|| block_size.map(|size| call.bytes.div_ceil(size.max(1))))
}

/// The bytes that a process sends in a reduce-scatter or an allgather with one block, if `sum` says
/// how many there are in so many consecutive parts. In the round in which the skip s' becomes s,
/// the half of it, it sends s' - s parts.
fn one_block_volume(call: &Facts, sum: impl Fn(f64) -> f64) -> f64 {
    let (mut volume, mut before) = (0.0, call.processes);
    while before > 1 {
        let skip = before.div_ceil(2);
        volume += sum((before - skip) as f64);
        before = skip;
    }
    volume
}

/// The mean of the parts, and the largest.
fn parts(call: &Facts) -> [f64; 2] {
    let mean = call.bytes as f64 / call.processes.max(1) as f64;
    // An allreduce is cut evenly.
    match call.operation {
        Operation::Allreduce => [mean; 2],
        _ => [mean, call.largest as f64],
    }
}

/// The most bytes that a process may send with one block.
fn most_in_one_block(call: &Facts) -> f64 {
    let [_, largest] = parts(call);
    one_block_volume(call, |parts| (parts * largest).min(call.bytes as f64))
}

/// The most bytes that a process is expected to send with one block.
fn expected_in_one_block(call: &Facts) -> f64 {
    one_block_volume(call, |parts| expected_sum(call, parts))
}

/// The most bytes that are expected in so many consecutive parts, if large and small ones are in no
/// order: how far their sum is from as many means grows with the square root of their number. Where
/// large parts are next to each other there may be up to twice as many.
fn expected_sum(call: &Facts, number: f64) -> f64 {
    let [mean, largest] = parts(call);
    (number * mean + number.sqrt() * (largest - mean)).min(call.bytes as f64)
}

/// sqrt(m q) / factor, rounded up. The conversion back to an integer saturates.
///
/// Not for two processes: q - 1 is 0, there is nobody to forward to, and every block only costs.
/// There the blocks are at least [`PAIR_BLOCK`] bytes.
fn pipeline_blocks(call: &Facts, factor: f64) -> u64 {
    let blocks = ((call.bytes as f64 * f64::from(call.phases())).sqrt() / factor).ceil() as u64;
    if call.phases() <= 1 {
        blocks.min(call.bytes.div_ceil(PAIR_BLOCK))
    } else {
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, Round};
    use crate::schedule::Rule;
    use crate::stage::{Stage, Stages, consecutive, even};
    use crate::team::Team;

    fn blocks(blocks: usize) -> Algorithm {
        Algorithm::Circulant { blocks }
    }

    fn seconds(call: &Facts, algorithm: Algorithm) -> f64 {
        circulant(call, algorithm).on(Network::SHIPPED)
    }

    const DOUBLING: Algorithm = Algorithm::Doubling { segment: 32768 };
    const ORDERED: Algorithm = Algorithm::Ordered { segment: 32768 };

    /// The number of blocks with the least predicted time is the formula's, sqrt((q - 1) beta m /
    /// alpha), found here by trying all.
    #[test]
    fn the_best_number_of_blocks_is_where_the_derivative_is_zero() {
        for (bytes, processes) in [(1_000_000, 16), (50_000_000, 17), (300_000, 1000)] {
            let bcast = Facts::regular(Operation::Bcast, bytes, processes, processes);
            let cost = |n: usize| seconds(&bcast, blocks(n));
            let best = (1..20_000).min_by(|&a, &b| cost(a).total_cmp(&cost(b)));
            let q = f64::from(bcast.phases());
            let Network { alpha, beta } = Network::SHIPPED;
            let formula = ((q - 1.0) * beta * bytes as f64 / alpha).sqrt();
            let distance = best.map(|best| (best as f64 - formula).abs());
            assert!(
                distance.is_some_and(|distance| distance <= 1.0),
                "{best:?} {formula}"
            );
        }
    }

    /// What processes measure who all send at once is their share of a port, which has as many.
    #[test]
    fn a_port_is_shared() {
        let port = Network::decode([30_000_000, 800_000]);
        let share = port.shared_by(4);
        assert_eq!(share.encode(), [30_000_000, 3_200_000]);
        assert_eq!(share.of_node(4).encode(), port.encode());
        assert_eq!(port.of_node(0).encode(), port.encode());
    }

    /// What each algorithm's file says of its rounds and bytes decides where the times cross.
    #[test]
    fn times_cross_where_rounds_and_bytes_do() {
        let at = |operation, bytes, algorithm| {
            seconds(&Facts::regular(operation, bytes, 16, 16), algorithm)
        };
        let allreduce = |bytes| {
            let census = at(Operation::Allreduce, bytes, Algorithm::Census);
            census < at(Operation::Allreduce, bytes, DOUBLING)
        };
        // 4 rounds of the whole, or 8 rounds of 15/16 of it twice.
        assert!(allreduce(1000) && !allreduce(1_000_000));
        for operation in [Operation::Allreduce, Operation::ReduceScatter] {
            let ordered = at(operation, 1_000_000, ORDERED);
            let halving = at(operation, 1_000_000, DOUBLING);
            // As many bytes, and 11 start-ups more.
            let difference = (ordered - halving) / Network::SHIPPED.alpha;
            assert!((difference - 11.0).abs() < 1e-6, "{difference}");
        }
        // In one block, a single large part goes q times over the wire, and in several about once.
        let single = Facts {
            largest: 4_000_000,
            ..Facts::regular(Operation::Allgatherv, 4_000_000, 16, 16)
        };
        let ratio = seconds(&single, DOUBLING) / seconds(&single, blocks(30));
        assert!(ratio > 2.0, "{ratio}");
    }

    #[test]
    fn processes_of_a_node_share_its_port() {
        let shared = Facts::regular(Operation::Bcast, 1_000_000, 16, 4);
        let apart = Facts::regular(Operation::Bcast, 1_000_000, 16, 16);
        let (ours, alone) = (seconds(&shared, blocks(10)), seconds(&apart, blocks(10)));
        assert!(ours > 3.0 * alone && ours < 4.0 * alone, "{ours} {alone}");
    }

    /// What the stages that `add` appends take: rounds, and the bytes that the process sends that
    /// sends most.
    fn counted(p: usize, add: impl Fn(&mut Stages, &Team)) -> Cost {
        let of = |rank| {
            let mut stages = Stages::default();
            add(&mut stages, &Team::whole(p, rank, Rule::Halving));
            let bytes: usize = stages.as_slice().iter().map(bytes_sent).sum();
            Cost::of_messages(stages.rounds() as f64, bytes as f64)
        };
        let costs = (0..p).map(of);
        costs
            .max_by(|a, b| a.bytes.total_cmp(&b.bytes))
            .unwrap_or_default()
    }

    fn bytes_sent(stage: &Stage) -> usize {
        let rounds = (0..stage.plan.shape().rounds).map(|index| {
            let mut round = Round::default();
            stage.plan.fill(index, &mut round);
            let sends = round.sends.iter();
            sends
                .map(|sent| stage.view.span(sent.block).length)
                .sum::<usize>()
        });
        rounds.sum()
    }

    #[test]
    fn rounds_and_bytes_are_those_of_the_plans() {
        for p in [2usize, 3, 5, 8, 16, 17, 31, 33] {
            for n in [1usize, 3, 20] {
                let m = 60 * p;
                let cost = |operation, algorithm| {
                    circulant(&Facts::regular(operation, m as u64, p, p), algorithm)
                };
                let parts = || even(0..m, p);
                let bcast = counted(p, |stages, team| stages.broadcast(team, 0, n, 0..m));
                let predicted = cost(Operation::Bcast, blocks(n));
                assert_eq!(predicted.rounds, bcast.rounds, "p={p} n={n}");
                // The root sends a block in each round.
                assert!((predicted.bytes - bcast.bytes).abs() < 1e-6, "p={p} n={n}");
                let each = counted(p, |stages, team| stages.allgather(team, parts(), m));
                assert_eq!(cost(Operation::Allgather, DOUBLING), each, "p={p}");
                let both = counted(p, |stages, team| stages.allreduce(team, 0..m, m, false));
                assert_eq!(cost(Operation::Allreduce, DOUBLING), both, "p={p}");
                let ordered = counted(p, |stages, team| {
                    stages.ordered_reduce_scatter(team, parts(), m, false);
                });
                let predicted = cost(Operation::ReduceScatter, ORDERED);
                assert_eq!(predicted.rounds, ordered.rounds, "p={p}");
                assert!((predicted.bytes - ordered.bytes).abs() < 1e-6, "p={p}");
            }
        }
    }

    /// Of different parts in no order no less than the process sends that sends most.
    #[test]
    fn one_block_moves_no_more_than_its_largest_part_says() {
        let p = 16;
        let single = |rank| if rank == 5 { 4_000_000 } else { 0 };
        let irregular = |rank| rank % 3 * 1000;
        for (lengths, is_exact) in [
            ((0..p).map(single).collect::<Vec<_>>(), true),
            ((0..p).map(irregular).collect(), false),
        ] {
            let facts = Facts {
                largest: lengths.iter().copied().max().unwrap_or(0) as u64,
                ..Facts::regular(
                    Operation::Allgatherv,
                    lengths.iter().sum::<usize>() as u64,
                    p,
                    p,
                )
            };
            let predicted = circulant(&facts, DOUBLING);
            let counted = counted(p, |stages, team| {
                stages.allgather(team, consecutive(lengths.iter().copied()), usize::MAX);
            });
            assert_eq!(predicted.rounds, counted.rounds);
            assert!(
                predicted.bytes >= counted.bytes,
                "{predicted:?} {counted:?}"
            );
            assert!(
                !is_exact || predicted == counted,
                "{predicted:?} {counted:?}"
            );
            assert!(predicted.bytes <= 2.0 * counted.bytes);
        }
    }

    /// The small message takes a start-up, and what the large one takes besides is for its further
    /// bytes: neither less than on the fastest networks.
    #[test]
    fn a_network_is_what_its_messages_took() {
        let of = |small, large| Network::measured(small, large).encode();
        assert_eq!(
            of((8, 60_000), (32_768, 6_612_000)),
            [60_000_000, 200_000_000]
        );
        assert_eq!(of((1000, 200), (3000, 300)), [200_000, 50_000]);
        let least = [50_000, 5_000];
        assert_eq!(of((8, 0), (32_768, 0)), least);
        assert_eq!(of((8, 40), (32_768, 20)), least);
    }

    /// What took longer has slower bytes, and what took less has also shorter start-ups: then a
    /// call takes as long as it took.
    #[test]
    fn a_network_is_corrected_by_a_call() {
        let network = Network::decode([10_000_000, 1_000_000]);
        let cost = Cost::of_messages(10.0, 1e6);
        let corrected = |seconds| network.corrected_by((cost, seconds)).encode();
        assert_eq!(corrected(1.1e-3), network.encode());
        assert_eq!(corrected(2.1e-3), [10_000_000, 2_000_000]);
        assert_eq!(corrected(0.55e-3), [5_000_000, 500_000]);
    }

    #[test]
    fn costs_are_added() {
        let cost = |rounds, bytes| Cost::of_messages(rounds, bytes);
        assert_eq!(cost(1.0, 20.0).and(cost(3.0, 5.0)), cost(4.0, 25.0));
        assert_eq!(cost(2.0, 5.0).times(3), cost(6.0, 15.0));
        let network = Network::decode([2_000_000_000_000, 3_000_000_000_000_000]);
        assert!((network.seconds(5.0, 7.0) - 31.0).abs() < 1e-9);
    }
}

#[cfg(test)]
mod blocks_tests {
    use strum::VariantArray;

    use super::super::facts::Order;
    use super::*;

    fn call(operation: Operation, bytes: u64, processes: usize) -> Facts {
        Facts {
            bytes,
            largest: bytes,
            order: Order::Any,
            ..Facts::new(operation, processes)
        }
    }

    /// Sizes around every power of two up to 2^40, and the largest of all.
    fn sizes() -> impl Iterator<Item = u64> {
        let around = |k: u32| [(1u64 << k) - 1, 1 << k, (1 << k) + 1, 3 << k >> 1];
        let mut sizes: Vec<u64> = (0..=40).flat_map(around).chain([u64::MAX]).collect();
        sizes.sort_unstable();
        sizes.into_iter()
    }

    /// Process counts around every power of two up to 2^20.
    fn process_counts() -> impl Iterator<Item = usize> {
        (1..=20)
            .flat_map(|k: u32| [(1usize << k) - 1, 1 << k, (1 << k) + 1])
            .filter(|&p| p > 1)
    }

    /// The default, every extreme of the factors, and fixed counts and sizes.
    fn every_setting() -> Vec<Settings> {
        let factor = |x| Settings {
            f: x,
            g: x,
            ..Settings::default()
        };
        let count = |n| Settings {
            blocks: Some(n),
            ..Settings::default()
        };
        let size = |b| Settings {
            block_size: Some(b),
            ..Settings::default()
        };
        vec![
            Settings::default(),
            factor(0.001),
            factor(1e6),
            count(1),
            count(BLOCKS_MAX),
            size(1),
            size(MESSAGE_MAX),
        ]
    }

    #[test]
    fn the_bounds_hold_for_every_call_and_setting() {
        for settings in every_setting() {
            for &operation in Operation::VARIANTS {
                for (m, p) in sizes().flat_map(|m| process_counts().map(move |p| (m, p))) {
                    let n = blocks(&call(operation, m, p), &settings) as u64;
                    assert!(n >= 1);
                    let fits = m.div_ceil(n) <= MESSAGE_MAX;
                    assert!(fits || !operation.is_pipelined(), "m={m} n={n}");
                    assert!(
                        n <= m.clamp(1, BLOCKS_MAX).max(m.div_ceil(MESSAGE_MAX)),
                        "m={m}"
                    );
                }
            }
        }
    }

    /// A reduction of rounded numbers has one block, or as many in each phase, if it has the units.
    #[test]
    fn rounded_results_have_whole_phases() {
        for settings in every_setting() {
            for (m, p) in sizes().flat_map(|m| process_counts().map(move |p| (m, p))) {
                let exact = call(Operation::Reduce, m, p);
                let rounded = Facts {
                    order: Order::Commutative,
                    units: m / 8,
                    ..exact
                };
                let (n, q) = (
                    blocks(&rounded, &settings) as u64,
                    u64::from(rounded.phases()),
                );
                assert!(
                    n == 1 || n % q == 0 || m > BLOCKS_MAX * MESSAGE_MAX,
                    "m={m} p={p} n={n}"
                );
                assert!(n <= rounded.units.max(1) && m.div_ceil(n) <= MESSAGE_MAX.max(8 * q));
                assert!(n.abs_diff(blocks(&exact, &settings) as u64) < q || n + q > rounded.units);
            }
        }
    }

    #[test]
    fn more_bytes_never_make_fewer_blocks() {
        for settings in every_setting() {
            for (&operation, p) in Operation::VARIANTS.iter().zip(process_counts()) {
                let counts: Vec<_> = sizes()
                    .map(|m| blocks(&call(operation, m, p), &settings))
                    .collect();
                assert!(counts.is_sorted(), "{operation:?} {p} {counts:?}");
            }
        }
    }

    #[test]
    fn more_processes_never_make_fewer_blocks() {
        for m in sizes() {
            let counts: Vec<_> = process_counts()
                .map(|p| blocks(&call(Operation::Reduce, m, p), &Settings::default()))
                .collect();
            assert!(counts.is_sorted(), "{m} {counts:?}");
        }
    }

    #[test]
    fn the_count_is_that_of_the_papers_two_rules() {
        let settings = Settings {
            f: 20.0,
            g: 10.0,
            ..Settings::default()
        };
        // Block size 20 sqrt(4,000,000 / 4) = 20,000; block count sqrt(4,000,000 * 4) / 10.
        assert_eq!(
            blocks(&call(Operation::Bcast, 4_000_000, 16), &settings),
            200
        );
        assert_eq!(
            blocks(&call(Operation::Allgatherv, 4_000_000, 16), &settings),
            400
        );
        // Rounded up: 4,000,001 bytes do not fit into 200 blocks of just under 20,000.01.
        assert_eq!(
            blocks(&call(Operation::Bcast, 4_000_001, 16), &settings),
            201
        );
    }

    #[test]
    fn an_operations_own_setting_is_the_stronger() {
        let bcast = call(Operation::Bcast, 4_000_000, 16);
        let reduce = call(Operation::Reduce, 4_000_000, 16);
        let mut settings = Settings {
            f: 20.0,
            ..Settings::default()
        };
        let mut count = |change: fn(&mut Settings)| {
            change(&mut settings);
            (blocks(&bcast, &settings), blocks(&reduce, &settings))
        };
        assert_eq!(count(|_| ()), (200, 200));
        assert_eq!(count(|s| s.block_size = Some(1_000_000)), (4, 4));
        assert_eq!(count(|s| s.blocks = Some(7)), (7, 7));
        assert_eq!(count(|s| s.operations[0].factor = Some(40.0)), (100, 7));
        assert_eq!(
            count(|s| s.operations[0].block_size = Some(2_000_000)),
            (2, 7)
        );
        assert_eq!(count(|s| s.operations[0].blocks = Some(9)), (9, 7));
    }

    /// Blocks fit into messages, so the largest problems have more of them than others may: in
    /// whole phases, and no more than that takes.
    #[test]
    fn the_largest_problems_have_as_many_blocks_as_they_need() {
        let most = Settings {
            blocks: Some(BLOCKS_MAX),
            ..Settings::default()
        };
        let reduce = |messages, processes| {
            let facts = Facts {
                order: Order::Commutative,
                ..call(Operation::Reduce, messages * MESSAGE_MAX, processes)
            };
            blocks(&facts, &most) as u64
        };
        // 2^20 is one more than a multiple of 3, the phases of 8 processes.
        assert_eq!(reduce(1, 8), BLOCKS_MAX - 1);
        assert_eq!(reduce(BLOCKS_MAX - 1, 8), BLOCKS_MAX - 1);
        assert_eq!(reduce(BLOCKS_MAX, 8), BLOCKS_MAX + 2);
        assert_eq!(reduce(BLOCKS_MAX + 3, 8), BLOCKS_MAX + 5);
        assert_eq!(reduce(BLOCKS_MAX + 3, 4), BLOCKS_MAX + 4);
    }

    /// Between groups a broadcast may have several blocks, and what has parts has one.
    #[test]
    fn parts_are_not_cut_between_groups() {
        let given = Settings {
            blocks: Some(7),
            ..Settings::default()
        };
        let blocks = |operation, smaller_group| {
            let facts = Facts {
                smaller_group,
                ..call(operation, 1 << 20, 13)
            };
            blocks(&facts, &given)
        };
        assert_eq!([0, 1].map(|group| blocks(Operation::Bcast, group)), [7, 7]);
        assert_eq!(
            [0, 4].map(|group| blocks(Operation::Allgatherv, group)),
            [7, 1]
        );
        assert_eq!(
            [0, 4].map(|group| blocks(Operation::Alltoall, group)),
            [1, 1]
        );
    }

    /// Any setting for the number of blocks, of the operation or of all, says how many there are.
    #[test]
    fn settings_say_how_many_blocks_there_are() {
        let given = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            [Operation::Bcast, Operation::Reduce].map(|of| are_blocks_given(of, &settings))
        };
        assert_eq!(given(|_| ()), [false; 2]);
        assert_eq!(given(|set| set.blocks = Some(1)), [true; 2]);
        assert_eq!(given(|set| set.block_size = Some(1)), [true; 2]);
        let own = [true, false];
        assert_eq!(given(|set| set.operations[0].blocks = Some(1)), own);
        assert_eq!(given(|set| set.operations[0].block_size = Some(1)), own);
        assert_eq!(given(|set| set.operations[0].factor = Some(1.0)), own);
    }

    /// Equal parts go best in one block, but between two processes, and parts of which one is twice
    /// the mean in several.
    #[test]
    fn one_block_is_best_for_equal_parts() {
        let is_best = |processes, times: u64| {
            let bytes = 1000 * processes as u64;
            let facts = Facts {
                largest: times * 1000,
                ..call(Operation::Allgatherv, bytes, processes)
            };
            is_one_block_best(&facts)
        };
        for processes in [3, 4, 16, 1000] {
            assert!(
                is_best(processes, 1) && !is_best(processes, 2),
                "{processes}"
            );
        }
        assert!(!is_best(2, 1));
    }
}
