//! A round as data: which blocks leave and arrive, where they come from, and what is done with them.
//!
//! The [engine](crate::engine) interprets this and knows no algorithm. Everything that an algorithm
//! wants of it is said here.

use std::ops::Range;

/// Block `index` of the `of` blocks that message `message` is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// The message, `0 <= message <` [`Shape::messages`](super::Shape::messages).
    pub message: usize,
    /// The block, `0 <= index < of`.
    pub index: usize,
    /// The number of blocks of this message, at least 1.
    pub of: usize,
}

impl Block {
    /// The only block of a message.
    pub fn whole(message: usize) -> Block {
        Block {
            message,
            index: 0,
            of: 1,
        }
    }

    /// Its units, in a message of `length` units.
    pub fn range(self, length: usize) -> Range<usize> {
        block_range(length, self.of, self.index)
    }
}

/// Where a block that is sent comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The input: what this process brought to the call.
    Input,
    /// The result, where the block has its final value.
    Result,
    /// The partial result: the input combined with all that has arrived for this block.
    Partial,
    /// The result as it is now. It changes later, so a copy is sent.
    Snapshot,
    /// A snapshot, combined with the input.
    SnapshotAndInput,
}

/// What is done with a block that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is final, and stored in the result.
    Store,
    /// The same, but it takes the place of a block that is sent in this round or later.
    Replace,
    /// It is a partial result, and combined with this process's own.
    Combine,
    /// The same, at the root: the block's partial result is made in the result.
    Reduce,
    /// It is combined with what is in the result.
    Add,
    /// It stays where it was received, under this number, for the folds of a later round.
    Hold(usize),
}

/// A block that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Which block.
    pub block: Block,
    /// Where it comes from.
    pub source: Source,
}

/// A block that is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Which block.
    pub block: Block,
    /// What is done with it.
    pub arrival: Arrival,
}

/// One operand of a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The block in the input.
    Input,
    /// The block in the result.
    Result,
    /// What was held under this number.
    Held(usize),
}

/// What a fold does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `into = from`.
    Copy,
    /// `into = from op into`.
    Combine,
}

/// A local operation on a block, after the transfers of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    /// What is done.
    pub action: Action,
    /// Which block.
    pub block: Block,
    /// The operand that is read.
    pub from: Operand,
    /// The operand that is written.
    pub into: Operand,
}

/// One round of one process.
///
/// At most one message leaves and at most one arrives (one-ported). The blocks of a message are in
/// wire order, and both of its ends list the same blocks. Nothing is sent where `sends` is empty,
/// nothing is received where `receives` is.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// The process that is sent to.
    pub to: usize,
    /// The process that is received from.
    pub from: usize,
    /// The blocks of the message that leaves.
    pub sends: Vec<Outgoing>,
    /// The blocks of the message that arrives.
    pub receives: Vec<Incoming>,
    /// What is done when the message has arrived, in this order.
    pub folds: Vec<Fold>,
}

impl Round {
    /// Empties it, and keeps its memory.
    pub fn clear(&mut self) {
        self.sends.clear();
        self.receives.clear();
        self.folds.clear();
    }

    /// Appends a block to the message that leaves.
    pub fn send(&mut self, block: Block, source: Source) {
        self.sends.push(Outgoing { block, source });
    }

    /// Appends a block to the message that arrives.
    pub fn receive(&mut self, block: Block, arrival: Arrival) {
        self.receives.push(Incoming { block, arrival });
    }

    /// Appends a fold.
    pub fn fold(&mut self, action: Action, block: Block, from: Operand, into: Operand) {
        self.folds.push(Fold {
            action,
            block,
            from,
            into,
        });
    }
}

/// The units of block `block` of a message of `length` units cut into `blocks` blocks.
///
/// Block sizes differ by at most one unit, and every process computes the same cut from the same
/// `length`. Empty when there are more blocks than units and this block got none.
pub fn block_range(length: usize, blocks: usize, block: usize) -> Range<usize> {
    cut(length, blocks, block)..cut(length, blocks, block + 1)
}

/// Where block `block` starts. In 128 bits where the product does not fit into 64.
fn cut(length: usize, blocks: usize, block: usize) -> usize {
    match length.checked_mul(block) {
        Some(product) => product / blocks,
        None => (length as u128 * block as u128 / blocks as u128) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks follow each other, end where the message ends, and differ by at most one unit.
    #[test]
    fn blocks_are_a_partition() {
        let huge = usize::MAX / 3;
        for length in [0, 1, 2, 7, 100, 4_000_001, huge] {
            for blocks in [1, 2, 3, 7, 64, 1000] {
                let mut end = 0;
                for index in 0..blocks {
                    let range = block_range(length, blocks, index);
                    assert_eq!(range.start, end);
                    let sizes = length / blocks..=length.div_ceil(blocks);
                    assert!(sizes.contains(&range.len()), "{length} {blocks} {index}");
                    end = range.end;
                }
                assert_eq!(end, length);
            }
        }
    }
}
