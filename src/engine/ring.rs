//! The layout of scratch: messages that were received, then packed messages that are sent.
//!
//! In the rounds that combine, a message stays until its blocks have been sent on. With many blocks
//! that is a ring of slots, which are used again; where it is to the end, the messages of all rounds
//! lie one after the other, each in as much memory as it takes. In the rounds
//! that store, which come after those and use the same memory, it is a ring as long as the window.

use crate::engine::Pacing;
use crate::plan::{Operand, Plan, largest_block};

/// Where messages are in scratch, in units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    /// Rounds that combine.
    combining: usize,
    /// Slots in which messages of those are held; as many as there are such rounds, where each has
    /// memory of its own.
    held: usize,
    /// Slots of the rounds that store.
    stored: usize,
    /// An upper bound on the units of any message.
    message: usize,
    /// Units of all messages that are received.
    receives: usize,
    /// Slots of packed messages that are sent.
    sends: usize,
}

impl Ring {
    /// For `plan` with messages of `lengths` units; the same on every process.
    pub(super) fn new(
        plan: &dyn Plan,
        lengths: impl Iterator<Item = usize>,
        pacing: Pacing,
    ) -> Ring {
        let sizes = Sizes::new(plan, lengths);
        let (rounds, combining) = (plan.rounds(), plan.combining());
        let message = (0..rounds)
            .map(|round| sizes.of(plan, round))
            .max()
            .unwrap_or(0);
        // A block may still be read by sends that are not finished when its time is up.
        let held = (pacing.window + plan.holding() + pacing.sends).min(combining);
        let all_held = if held == combining {
            let of_round = |round| sizes.of(plan, round);
            (0..combining).map(of_round).fold(0, usize::saturating_add)
        } else {
            message.saturating_mul(held)
        };
        let stored = if sizes.packs {
            pacing.window.min(rounds - combining)
        } else {
            0
        };
        let packs = sizes.packs || plan.operand(0) != Operand::Accumulated;
        Ring {
            combining,
            held,
            stored,
            message,
            receives: all_held.max(message.saturating_mul(stored)),
            sends: if packs { pacing.sends.min(rounds) } else { 0 },
        }
    }

    pub(super) fn units(&self) -> usize {
        self.receives
            .saturating_add(self.message.saturating_mul(self.sends))
    }

    /// Fills `starts` with where each round's message starts, of those that have memory of their own.
    pub(super) fn lay_out(
        &self,
        plan: &dyn Plan,
        lengths: impl Iterator<Item = usize>,
        starts: &mut Vec<usize>,
    ) {
        starts.clear();
        if self.held < self.combining {
            return;
        }
        let sizes = Sizes::new(plan, lengths);
        let mut start = 0usize;
        for round in 0..self.combining {
            starts.push(start);
            start = start.saturating_add(sizes.of(plan, round));
        }
    }

    /// Where the message of `round` is received.
    pub(super) fn receive(&self, round: usize, starts: &[usize]) -> usize {
        match round.checked_sub(self.combining) {
            Some(round) => round % self.stored.max(1) * self.message,
            None => match starts.get(round) {
                Some(&start) => start,
                None => round % self.held * self.message,
            },
        }
    }

    /// Where the message of `round` is packed.
    pub(super) fn send(&self, round: usize) -> usize {
        self.receives + round % self.sends.max(1) * self.message
    }
}

/// How large messages can be.
struct Sizes {
    /// The sum of the largest blocks of all messages of the problem, and the largest of them.
    all: usize,
    largest: usize,
    /// Whether a round's message may be made of several blocks.
    packs: bool,
}

impl Sizes {
    fn new(plan: &dyn Plan, lengths: impl Iterator<Item = usize>) -> Sizes {
        let (mut all, mut largest, mut filled) = (0usize, 0, 0);
        let with_data = lengths.enumerate().filter(|&(_, length)| length > 0);
        for (message, length) in with_data {
            let block = largest_block(length, plan.blocks_of(message));
            all = all.saturating_add(block);
            largest = largest.max(block);
            filled += 1;
        }
        Sizes {
            all,
            largest,
            packs: filled > 1,
        }
    }

    /// An upper bound on the units of the message of `round`.
    fn of(&self, plan: &dyn Plan, round: usize) -> usize {
        self.largest.saturating_mul(plan.width(round)).min(self.all)
    }
}
