//! Which blocks of a reduction have arrived, and where in scratch their partial results are.
//!
//! A message has as many entries as blocks of it can be between their first arrival and their last
//! round ([`Shape::span`]), so the memory does not grow with the number of blocks.

use crate::plan::{Block, ScratchUse, Shape};

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
    /// Forgets all entries, and makes room for those of a plan of this shape.
    pub(super) fn clear(&mut self, shape: &Shape) {
        let has_partials = shape.scratch == ScratchUse::Partials;
        self.span = if has_partials {
            shape.span.min(shape.blocks)
        } else {
            0
        };
        self.entries.clear();
        self.entries.resize(shape.messages * self.span, None);
    }

    /// Where the partial result of `block` is, if one has arrived.
    pub(super) fn of(&self, block: Block) -> Option<usize> {
        if self.span == 0 {
            return None;
        }
        let entry = self.entries[self.index(block)];
        let accumulator = entry.filter(|accumulator| accumulator.block == block.index);
        accumulator.map(|accumulator| accumulator.offset)
    }

    pub(super) fn set(&mut self, block: Block, offset: usize) {
        let index = self.index(block);
        self.entries[index] = Some(Accumulator {
            block: block.index,
            offset,
        });
    }

    fn index(&self, block: Block) -> usize {
        block.message * self.span + block.index % self.span
    }
}
