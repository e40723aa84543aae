//! The exchange between the two groups of an inter-communicator: the data of each group goes once
//! to the other, spread over its processes. An allgather inside each group then completes
//! MPI_Allgather(v).
//!
//! Kang, Träff et al., *Scalable Algorithms for MPI Intergroup Allgather and Allgatherv*. Groups A
//! and B of p >= q processes; the bytes of all blocks of a group, one after the other in rank
//! order, are its *stream*, which is cut into a *segment* for each process of the other group.
//!
//! ```text
//! Algorithm 1 (blocks of kA and of kB bytes):
//!     A is divided into q subgroups s[j] of ceil(p/q) or floor(p/q) processes
//!     for i = 0, ..., ceil(p/q) - 1, all j at once:
//!         the i-th process of s[j] sends its block to b[j]
//!         b[j] sends the i-th of |s[j]| parts of its block to the i-th process of s[j]
//!     allgather in A of what came from B, and in B of what came from A
//! Algorithm 2 (blocks of any sizes): segments of floor(K/q) or ceil(K/q) bytes, and the same
//! allgathers;
//!     a sender sends to its receivers in the order of their ranks; a receiver receives from the
//!     sender with further receivers behind it, then from those that have no other, then from the
//!     sender with other receivers before it
//! ```
//!
//! Cost: transfer times of at most M + kB (Theorem 1) and M + max k + log(pq) (Theorem 3, for the
//! order of messages there; the last term is of the agreement on sizes), where M is the bytes of
//! the larger stream; ceil(p/q) rounds for Algorithm 1. For deviations 2 and 3 nothing is proved.
//!
//! Deviations:
//! 1. Both groups are numbered through: the processes of the first, then those of the second. So
//!    one private intra-communicator of all carries the exchange and both allgathers, where the
//!    paper uses the inter-communicator and the communicators of the groups.
//! 2. The order of receives is one of rounds: a part that is sent in a round is received in it.
//!    That is the engine's model, and no other order of a receiver's parts results. The two
//!    directions share their rounds, so a process's send may wait for a receive that it does not
//!    depend on.
//! 3. A round goes in steps of a segment size, all of its parts at once, for the reason that
//!    [`Segments`](super::Segments) gives.
//! 4. In Algorithm 2 the segments are cut as [blocks](block_range) are: longer ones are spread
//!    evenly, not first.

use std::ops::Range;
use std::sync::Arc;

use super::{Arrival, Block, Plan, Round, ScratchUse, Shape, Source, block_range};

/// The processes of the first or the second of two groups, numbered through.
pub fn numbered_through(groups: [usize; 2], group: usize) -> Range<usize> {
    let first = group * groups[0];
    first..first + groups[group]
}

/// How a stream is divided into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// Algorithm 1: for blocks of equal length.
    ByBlocks,
    /// Algorithm 2: into equal segments.
    Evenly,
}

/// The bytes of one group, from block to block and from segment to segment.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Where each sender's block starts, and the end.
    blocks: Vec<usize>,
    /// Where each receiver's segment starts, and the end.
    segments: Vec<usize>,
}

impl Stream {
    /// Blocks of `lengths` units, one a sender, for so many `receivers`.
    pub fn new(
        lengths: impl IntoIterator<Item = usize>,
        receivers: usize,
        division: Division,
    ) -> Stream {
        let (mut blocks, mut end) = (vec![0], 0);
        blocks.extend(lengths.into_iter().map(|length| {
            end += length;
            end
        }));
        let mut stream = Stream {
            blocks,
            segments: Vec::new(),
        };
        let cuts = (0..receivers).map(|receiver| match division {
            Division::ByBlocks => stream.cut_by_blocks(receivers, receiver),
            Division::Evenly => block_range(end, receivers, receiver).start,
        });
        stream.segments = cuts.chain([end]).collect();
        stream
    }

    /// Where the segment of `receiver` starts in Algorithm 1.
    fn cut_by_blocks(&self, receivers: usize, receiver: usize) -> usize {
        let senders = self.senders();
        if senders >= receivers {
            return self.blocks[subgroup(senders, receivers, receiver).start];
        }
        let sender = subgroup_of(receivers, senders, receiver);
        let (members, block) = (subgroup(receivers, senders, sender), self.block(sender));
        block.start + block_range(block.len(), members.len(), receiver - members.start).start
    }

    /// Number of senders.
    pub fn senders(&self) -> usize {
        self.blocks.len().saturating_sub(1)
    }

    /// Number of receivers.
    pub fn receivers(&self) -> usize {
        self.segments.len().saturating_sub(1)
    }

    /// Units of all blocks.
    pub fn length(&self) -> usize {
        self.blocks.last().copied().unwrap_or(0)
    }

    /// Where the block of `sender` is.
    pub fn block(&self, sender: usize) -> Range<usize> {
        self.blocks[sender]..self.blocks[sender + 1]
    }

    /// Where the segment of `receiver` is.
    pub fn segment(&self, receiver: usize) -> Range<usize> {
        self.segments[receiver]..self.segments[receiver + 1]
    }

    /// Units of the longest block.
    pub fn longest_block(&self) -> usize {
        longest(&self.blocks)
    }
}

fn longest(bounds: &[usize]) -> usize {
    let lengths = bounds.windows(2).map(|pair| pair[1] - pair[0]);
    lengths.max().unwrap_or(0)
}

/// The processes, of `processes`, that are in the `index`-th of so many subgroups: the first
/// `processes mod subgroups` of these have one more.
fn subgroup(processes: usize, subgroups: usize, index: usize) -> Range<usize> {
    let (each, more) = (processes / subgroups, processes % subgroups);
    let start = |index: usize| index * each + index.min(more);
    start(index)..start(index + 1)
}

/// Which of those subgroups a process is in.
fn subgroup_of(processes: usize, subgroups: usize, process: usize) -> usize {
    let (each, more) = (processes / subgroups, processes % subgroups);
    let in_larger = more * (each + 1);
    match process.checked_sub(in_larger) {
        None => process / (each + 1),
        Some(rest) => more + rest / each,
    }
}

/// What one process sends to one of the other group.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Rank in the sending group.
    pub sender: usize,
    /// Rank in the receiving group.
    pub receiver: usize,
    /// Where it starts in the stream.
    pub start: usize,
    /// Its units.
    pub length: usize,
    /// Its round, and then the first of its steps.
    step: usize,
}

impl Part {
    /// Its steps, of `segment` units.
    fn steps(&self, segment: usize) -> usize {
        self.length.div_ceil(segment)
    }
}

/// The parts of both streams, in rounds: what all processes have in common. Message m of the
/// exchange is part m.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    parts: Vec<Part>,
    /// How many of them are of the first group's stream.
    of_first: usize,
    /// Steps of each round, and then where each starts.
    rounds: Vec<usize>,
    /// All steps.
    steps: usize,
    /// The most steps of any part.
    most_steps: usize,
    /// The longest step, in units.
    segment: usize,
}

impl Parts {
    /// The parts of the streams of the first and of the second group, in steps of `segment` units,
    /// at least one.
    pub fn new(streams: &[Stream; 2], segment: usize) -> Parts {
        let mut parts = Parts {
            segment: segment.max(1),
            ..Parts::default()
        };
        append_parts(&streams[0], &mut parts.parts);
        parts.of_first = parts.parts.len();
        append_parts(&streams[1], &mut parts.parts);
        let (first, second) = parts.parts.split_at_mut(parts.of_first);
        assign_rounds(first);
        assign_rounds(second);
        parts.lay_out_steps();
        parts
    }

    /// The parts, in the order of the streams.
    pub fn iter(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter()
    }

    /// Whether part `message` is of the second group's stream.
    pub fn is_of_second(&self, message: usize) -> bool {
        message >= self.of_first
    }

    fn lay_out_steps(&mut self) {
        for part in &self.parts {
            let steps = part.steps(self.segment);
            if self.rounds.len() <= part.step {
                self.rounds.resize(part.step + 1, 0);
            }
            self.rounds[part.step] = steps.max(self.rounds[part.step]);
        }
        self.most_steps = self.rounds.iter().copied().max().unwrap_or(0);
        self.steps = 0;
        for round in &mut self.rounds {
            let steps = std::mem::replace(round, self.steps);
            self.steps += steps;
        }
        for part in &mut self.parts {
            part.step = self.rounds[part.step];
        }
    }
}

/// Cuts a stream wherever a block or a segment ends.
fn append_parts(stream: &Stream, parts: &mut Vec<Part>) {
    let (mut start, mut sender) = (0, 0);
    for receiver in 0..stream.receivers() {
        let end = stream.segment(receiver).end;
        while start < end {
            while stream.block(sender).end <= start {
                sender += 1;
            }
            let next = stream.block(sender).end.min(end);
            parts.push(Part {
                sender,
                receiver,
                start,
                length: next - start,
                step: 0,
            });
            start = next;
        }
    }
}

/// Gives each part of a stream its round, by the paper's order: at a receiver, first the part of
/// the sender that has further receivers, last that of the sender that had others before.
fn assign_rounds(parts: &mut [Part]) {
    let same_sender = |parts: &[Part], index: usize, other: Option<usize>| {
        let other = other.and_then(|other| parts.get(other));
        other.is_some_and(|other| other.sender == parts[index].sender)
    };
    let (mut first, mut nth) = (0, 0);
    while first < parts.len() {
        let receiver = parts[first].receiver;
        let others = parts[first..].iter();
        let count = others.take_while(|part| part.receiver == receiver).count();
        let last = first + count - 1;
        let begun_before = same_sender(parts, first, first.checked_sub(1));
        let goes_on = same_sender(parts, last, Some(last + 1));
        for index in first..=last {
            // Its index among the parts of its sender.
            let continues = same_sender(parts, index, index.checked_sub(1));
            nth = if continues { nth + 1 } else { 0 };
            parts[index].step = if continues && !(index == last && goes_on) {
                nth.max(count - 1)
            } else if index == last && goes_on {
                nth
            } else {
                index - first - usize::from(begun_before) + usize::from(goes_on)
            };
        }
        first = last + 1;
    }
}

/// The exchange of one process.
#[derive(Clone, Debug)]
pub struct Exchange {
    parts: Arc<Parts>,
    /// Processes of the first group.
    first_group: usize,
    /// The parts that this process sends and receives, in the order of their steps.
    sends: Vec<usize>,
    receives: Vec<usize>,
}

impl Exchange {
    /// For process `rank` of all, of which the first so many are the first group.
    pub fn new(parts: Arc<Parts>, first_group: usize, rank: usize) -> Exchange {
        let is_second = rank >= first_group;
        let rank = if is_second { rank - first_group } else { rank };
        let (of_first, of_second) = (0..parts.of_first, parts.of_first..parts.parts.len());
        let (outgoing, incoming) = if is_second {
            (of_second, of_first)
        } else {
            (of_first, of_second)
        };
        let sends = outgoing.filter(|&index| parts.parts[index].sender == rank);
        let receives = incoming.filter(|&index| parts.parts[index].receiver == rank);
        let (sends, mut receives): (_, Vec<_>) = (sends.collect(), receives.collect());
        receives.sort_unstable_by_key(|&index| parts.parts[index].step);
        Exchange {
            parts,
            first_group,
            sends,
            receives,
        }
    }

    /// The block that is transferred in `round`, of one of `parts` (ascending by their steps).
    fn block(&self, parts: &[usize], round: usize) -> Option<Block> {
        let begun = parts.partition_point(|&index| self.parts.parts[index].step <= round);
        let message = parts[begun.checked_sub(1)?];
        let part = &self.parts.parts[message];
        let (index, of) = (round - part.step, part.steps(self.parts.segment));
        (index < of).then_some(Block { message, index, of })
    }

    /// The number, among all processes, of rank `rank` in the group that is not, or is, the second.
    fn process(&self, rank: usize, is_second: bool) -> usize {
        if is_second {
            self.first_group + rank
        } else {
            rank
        }
    }
}

impl Plan for Exchange {
    fn shape(&self) -> Shape {
        Shape {
            messages: self.parts.parts.len(),
            blocks: self.parts.most_steps.max(1),
            rounds: self.parts.steps,
            at_once: 1,
            lanes: 1,
            span: 0,
            scratch: ScratchUse::Nothing,
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        if let Some(block) = self.block(&self.sends, index) {
            let receiver = self.parts.parts[block.message].receiver;
            round.to = self.process(receiver, !self.parts.is_of_second(block.message));
            round.send(block, Source::Input);
        }
        if let Some(block) = self.block(&self.receives, index) {
            let sender = self.parts.parts[block.message].sender;
            round.from = self.process(sender, self.parts.is_of_second(block.message));
            round.receive(block, Arrival::Store);
        }
    }

    fn width(&self, _index: usize) -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(lengths: &[usize], receivers: usize, division: Division) -> Stream {
        Stream::new(lengths.iter().copied(), receivers, division)
    }

    fn rounds(stream: &Stream) -> Vec<(usize, usize, usize)> {
        let mut parts = Vec::new();
        append_parts(stream, &mut parts);
        assign_rounds(&mut parts);
        let of_part = |part: &Part| (part.step, part.sender, part.receiver);
        let mut rounds: Vec<_> = parts.iter().map(of_part).collect();
        rounds.sort_unstable();
        rounds
    }

    /// Figure 2: p = 8, q = 3.
    #[test]
    fn subgroups_are_the_papers() {
        let subgroups: Vec<_> = (0..3).map(|index| subgroup(8, 3, index)).collect();
        assert_eq!(subgroups, [0..3, 3..6, 6..8]);
        let of_process: Vec<_> = (0..8).map(|process| subgroup_of(8, 3, process)).collect();
        assert_eq!(of_process, [0, 0, 0, 1, 1, 1, 2, 2]);
        let down = stream(&[10; 8], 3, Division::ByBlocks);
        let segments: Vec<_> = (0..3).map(|receiver| down.segment(receiver)).collect();
        assert_eq!(segments, [0..30, 30..60, 60..80]);
        let up = stream(&[12; 3], 8, Division::ByBlocks);
        let segments: Vec<_> = (0..8).map(|receiver| up.segment(receiver)).collect();
        let expected = [0..4, 4..8, 8..12, 12..16, 16..20, 20..24, 24..30, 30..36];
        assert_eq!(segments, expected);
        // Each round pairs the i-th process of s[j] with b[j], both ways.
        let both_ways = |(round, a, b)| (round, b, a);
        let pairs: Vec<_> = rounds(&down).into_iter().map(both_ways).collect();
        assert_eq!(pairs, rounds(&up));
    }

    /// Figure 3's situation: two receivers, and a sender that crosses between them.
    #[test]
    fn receivers_keep_the_papers_order() {
        // Segments of 10: sender 1 crosses 0-1, sender 4 crosses 1-2.
        let stream = stream(&[7, 5, 3, 2, 8, 4, 1], 3, Division::Evenly);
        let expected = [
            (0, 1, 0),
            (0, 4, 1),
            (0, 5, 2),
            (1, 0, 0),
            (1, 2, 1),
            (1, 6, 2),
            (2, 3, 1),
            (2, 4, 2),
            (3, 1, 1),
        ];
        assert_eq!(rounds(&stream), expected);
    }

    /// One send and one receive a process and round, at most, and Theorem 3's exchange time: max k
    /// or a segment, in an execution without rounds in which each process keeps its order.
    #[test]
    fn exchange_takes_the_papers_time() {
        for (senders, receivers) in (1..=9).flat_map(|p| (1..=9).map(move |q| (p, q))) {
            for pattern in 0..40 {
                let length = |sender: usize| match pattern {
                    0 => 360,
                    1 => 100 * sender,
                    2 => 100 * (senders - sender),
                    3 => usize::from(sender == senders / 2) * 1000,
                    seed => (sender * 7919 + seed * 104_729) % 1009 * (sender % 3),
                };
                let lengths: Vec<_> = (0..senders).map(length).collect();
                let stream = stream(&lengths, receivers, Division::Evenly);
                let mut parts = Vec::new();
                append_parts(&stream, &mut parts);
                assign_rounds(&mut parts);
                let (sent, received) = (vec![0; senders], vec![0; receivers]);
                let mut free = [sent, received];
                parts.sort_by_key(|part| part.step);
                for pair in parts.windows(2).filter(|pair| pair[0].step == pair[1].step) {
                    assert_ne!(pair[0].sender, pair[1].sender);
                    assert_ne!(pair[0].receiver, pair[1].receiver);
                }
                for part in &parts {
                    let end = free[0][part.sender].max(free[1][part.receiver]) + part.length;
                    (free[0][part.sender], free[1][part.receiver]) = (end, end);
                }
                let bound = longest(&stream.blocks).max(longest(&stream.segments));
                let end = free.concat().into_iter().max().unwrap_or(0);
                assert!(end <= bound, "{lengths:?} to {receivers}: {end} > {bound}");
            }
        }
    }

    #[test]
    fn the_second_group_follows_the_first() {
        for sizes in [[1, 1], [3, 5], [5, 3], [7, 1]] {
            let numbers = [0, 1].map(|group| numbered_through(sizes, group).collect::<Vec<_>>());
            assert_eq!(numbers.each_ref().map(Vec::len), sizes);
            let all: Vec<_> = (0..sizes[0] + sizes[1]).collect();
            assert_eq!(numbers.concat(), all);
        }
    }

    #[test]
    fn the_longest_block_is_one_of_those_given() {
        for division in [Division::ByBlocks, Division::Evenly] {
            for lengths in [
                &[7, 5, 3, 2, 8, 4, 1][..],
                &[9, 0, 0],
                &[0, 2, 11],
                &[0, 0],
                &[4],
            ] {
                let longest = lengths.iter().max().copied();
                assert_eq!(Some(stream(lengths, 3, division).longest_block()), longest);
            }
        }
        assert_eq!(stream(&[], 3, Division::Evenly).longest_block(), 0);
    }

    /// A part goes in as few steps as there can be of a segment, and no step has more units.
    #[test]
    fn steps_are_no_longer_than_segments() {
        for lengths in [
            [&[60; 5][..], &[45; 3]],
            [&[7, 90, 0, 31], &[100]],
            [&[1], &[2, 0, 200]],
        ] {
            let streams = [0, 1].map(|group: usize| {
                let receivers = lengths[1 - group].len();
                stream(lengths[group], receivers, Division::Evenly)
            });
            for segment in [1, 7, 20, 1000] {
                let parts = Arc::new(Parts::new(&streams, segment));
                let first_group = lengths[0].len();
                for rank in 0..first_group + lengths[1].len() {
                    let exchange = Exchange::new(parts.clone(), first_group, rank);
                    let mut sent = vec![0; parts.iter().count()];
                    let mut round = Round::default();
                    for index in 0..exchange.shape().rounds {
                        round.clear();
                        exchange.fill(index, &mut round);
                        for outgoing in &round.sends {
                            let Block { message, of, .. } = outgoing.block;
                            let part = parts.parts[message];
                            let units = outgoing.block.range(part.length).len();
                            assert!(units <= segment, "{units} of {segment}");
                            assert_eq!(of, part.length.div_ceil(segment));
                            sent[message] += units;
                        }
                    }
                    for (part, sent) in parts.iter().zip(sent).filter(|&(_, sent)| sent > 0) {
                        assert_eq!(part.length, sent);
                    }
                }
            }
        }
    }
}
