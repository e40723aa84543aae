//! Which blocks of a reduction have arrived, and where in scratch their accumulators are.
//!
//! A message has as many entries as blocks of it can be between their first arrival and their last
//! round ([`Plan::holding`]), so the memory does not grow with the number of blocks.

use crate::plan::{Piece, Plan};

#[derive(Debug, Default)]
pub(super) struct Accumulators {
    /// Entries a message.
    span: usize,
    /// Block b of a message is at b mod span.
    entries: Vec<Option<Accumulator>>,
}

#[derive(Clone, Copy, Debug)]
struct Accumulator {
    block: usize,
    offset: usize,
}

impl Accumulators {
    pub(super) fn clear(&mut self, plan: &dyn Plan) {
        self.span = plan.holding().min(plan.blocks());
        self.entries.clear();
        self.entries.resize(plan.messages() * self.span, None);
    }

    pub(super) fn of(&self, piece: Piece) -> Option<usize> {
        let entry = self.entries[self.index(piece)];
        let accumulator = entry.filter(|accumulator| accumulator.block == piece.block);
        accumulator.map(|accumulator| accumulator.offset)
    }

    pub(super) fn set(&mut self, piece: Piece, offset: usize) {
        let index = self.index(piece);
        self.entries[index] = Some(Accumulator {
            block: piece.block,
            offset,
        });
    }

    fn index(&self, piece: Piece) -> usize {
        piece.message * self.span + piece.block % self.span
    }
}
