//! The layout of scratch: messages that were received, then packed messages that are sent.
//!
//! Messages that hold partial results stay for the span of their blocks. With many blocks they are
//! in a ring of steps, which are used again: a step is the rounds that are run at once, each with
//! as much memory as it takes. Where they stay to the end, the messages of all rounds lie one after
//! the other. All other messages stay for a step, in a ring as long as the window.

use super::pacing::Pacing;
use crate::plan::{Block, Plan, ScratchUse, Shape};
use crate::stage::Stage;

/// Where messages are in scratch, in units.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    /// Rounds that are run at once: a step. Those at the same place of their steps have messages of
    /// the same memory.
    at_once: usize,
    /// Steps whose messages are kept.
    steps: usize,
    /// Units of the messages of a step.
    step: usize,
    /// Whether each round's message has memory of its own.
    is_apart: bool,
    /// Units of all messages that are received.
    received: usize,
    /// An upper bound on the units of any message.
    message: usize,
    /// Slots of packed messages that are sent.
    sends: usize,
}

impl Layout {
    /// For the messages of `stage`. The same on every process of its team.
    pub(super) fn new(stage: &Stage, pacing: Pacing) -> Layout {
        let shape = stage.plan.shape();
        if shape.scratch == ScratchUse::Nothing || shape.rounds == 0 {
            return Layout::default();
        }
        let pacing = pacing.of(&shape);
        let (mut widest, mut message, mut step) = (0, 0, 0usize);
        for (place, sizes) in places(stage, shape.at_once) {
            let width = widest_at(place, stage);
            let units = sizes.of(width);
            (widest, message) = (widest.max(width), message.max(units));
            step = step.saturating_add(units);
        }
        let (is_packed, has_partials) = (
            widest > 1 || shape.scratch == ScratchUse::Copies,
            shape.scratch == ScratchUse::Partials,
        );
        let slots = if has_partials {
            // Sends that are not finished may still read from a message when its span is over.
            pacing.window + shape.span + pacing.sends
        } else if is_packed {
            pacing.window
        } else {
            0
        };
        let all = shape.rounds / shape.at_once;
        let steps = slots.div_ceil(shape.at_once).min(all);
        let is_apart = steps == all;
        Layout {
            at_once: shape.at_once,
            steps,
            step,
            is_apart,
            received: if is_apart {
                let rounds = places(stage, shape.rounds);
                let units = rounds.map(|(round, sizes)| sizes.of(stage.plan.width(round)));
                units.fold(0, usize::saturating_add)
            } else {
                step.saturating_mul(steps)
            },
            message,
            sends: if is_packed {
                pacing.sends.min(shape.rounds)
            } else {
                0
            },
        }
    }

    /// Units of scratch.
    pub(super) fn units(&self) -> usize {
        let packed = self.message.saturating_mul(self.sends);
        self.received.saturating_add(packed)
    }

    /// Fills `starts` with where each round's message is received, if each has memory of its own;
    /// otherwise with where those of a step are. With nothing, if nothing is received in scratch.
    pub(super) fn fill_starts(&self, stage: &Stage, starts: &mut Vec<usize>) {
        starts.clear();
        if self.steps == 0 {
            return;
        }
        let rounds = match self.is_apart {
            true => stage.plan.shape().rounds,
            false => self.at_once,
        };
        starts.resize(rounds, 0);
        for (round, sizes) in places(stage, rounds) {
            starts[round] = sizes.of(match self.is_apart {
                true => stage.plan.width(round),
                false => widest_at(round, stage),
            });
        }
        let mut end = 0usize;
        for start in starts {
            let units = std::mem::replace(start, end);
            end = end.saturating_add(units);
        }
    }

    /// Where the message of `round` is received.
    pub(super) fn receive(&self, round: usize, starts: &[usize]) -> usize {
        match self.steps {
            0 => 0,
            _ if self.is_apart => starts[round],
            steps => round / self.at_once % steps * self.step + starts[round % self.at_once],
        }
    }

    /// Where the message of `round` is packed.
    pub(super) fn send(&self, round: usize) -> usize {
        self.received + round % self.sends.max(1) * self.message
    }
}

/// The most blocks of a message at this place of its step.
fn widest_at(place: usize, stage: &Stage) -> usize {
    let shape = stage.plan.shape();
    let rounds = (place..shape.rounds).step_by(shape.at_once);
    let widths = rounds.map(|round| stage.plan.width(round));
    widths.max().unwrap_or(0)
}

/// The first `rounds` rounds, lane by lane, with what bounds the messages of each.
fn places(stage: &Stage, rounds: usize) -> impl Iterator<Item = (usize, Sizes)> {
    let lanes = stage.plan.shape().lanes;
    (0..lanes).flat_map(move |lane| {
        let sizes = Sizes::of_lane(stage, lane);
        (lane..rounds)
            .step_by(lanes)
            .map(move |round| (round, sizes))
    })
}

/// How large the messages of a lane can be.
#[derive(Clone, Copy)]
struct Sizes {
    /// The sum of the largest blocks of all messages of the lane, and the largest of them.
    all: usize,
    largest: usize,
}

impl Sizes {
    fn of_lane(stage: &Stage, lane: usize) -> Sizes {
        let (shape, view) = (stage.plan.shape(), &stage.view);
        let each = view.messages.len() / shape.lanes;
        let (mut all, mut largest) = (0usize, 0);
        for span in view.messages.iter().skip(lane * each).take(each) {
            let block = view.cutting.longest(shape.blocks.max(1), span.length);
            all = all.saturating_add(block);
            largest = largest.max(block);
        }
        Sizes { all, largest }
    }

    /// An upper bound on the units of a message of `width` blocks.
    fn of(&self, width: usize) -> usize {
        self.largest.saturating_mul(width).min(self.all)
    }
}

/// Which blocks of a reduction have arrived, and where their partial results are.
///
/// A message has as many entries as blocks of it can be between their first arrival and their last
/// round ([`Shape::blocks_kept`]), so the memory does not grow with the number of blocks. Entries
/// of earlier stages are left where they are: a stage numbers its blocks on from theirs.
#[derive(Debug, Default)]
pub(super) struct Accumulators {
    /// Entries a message.
    kept: usize,
    /// The blocks of a message: of this stage, and of all that were before.
    blocks: u64,
    before: u64,
    /// Block b of a message is at b mod kept.
    entries: Vec<Accumulator>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Accumulator {
    /// The number of its block, from 1: 0 if there is none.
    number: u64,
    offset: usize,
}

impl Accumulators {
    /// Forgets all blocks, and makes room for those of a plan of this shape.
    pub(super) fn clear(&mut self, shape: &Shape) {
        self.before += self.blocks;
        self.blocks = shape.blocks as u64;
        let has_partials = shape.scratch == ScratchUse::Partials;
        self.kept = if has_partials { shape.blocks_kept() } else { 0 };
        let needed = shape.messages * self.kept;
        if self.entries.len() < needed {
            self.entries.resize(needed, Accumulator::default());
        }
    }

    /// Where the partial result of `block` is, if one has arrived.
    pub(super) fn of(&self, block: Block) -> Option<usize> {
        if self.kept == 0 {
            return None;
        }
        let entry = self.entries[self.index(block)];
        (entry.number == self.number(block)).then_some(entry.offset)
    }

    pub(super) fn set(&mut self, block: Block, offset: usize) {
        let (index, number) = (self.index(block), self.number(block));
        self.entries[index] = Accumulator { number, offset };
    }

    fn index(&self, block: Block) -> usize {
        block.message * self.kept + block.index % self.kept
    }

    fn number(&self, block: Block) -> u64 {
        self.before + block.index as u64 + 1
    }
}
