//! The rounds of a reduction whose operand grows: merging, concatenation, union.
//!
//! An operand is what the processes of an *interval* contributed, combined: the ranks i, i + 1, ..., j,
//! modulo p. A plan says which of its operands a process sends in each round, and what becomes of what
//! it receives; how long they are, nobody knows before. So there are no blocks, and this is no
//! [`Plan`]; the [executor](super::Growth) of these is one of its own.
//!
//! A process r has up to three operands, all of which begin with its own rank or the next:
//!
//! - its own block, of the interval r;
//! - what it has *accumulated*: with the own block an interval r, ..., or without it r + 1, ...;
//! - a *part* of that: an interval r, ..., shorter than the other.
//!
//! What arrives continues the interval of what it is combined with.

use crate::plan::{Census, Plan, Sent};

/// What a process sends in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Its own block.
    Own,
    /// What it has accumulated, which is without the own block.
    Others,
    /// Both, combined.
    Both,
    /// What it has accumulated, with the own block.
    Accumulated,
    /// The same, which is the part from then on.
    AccumulatedKept,
    /// The same, and behind it the part. Of the two that arrive, the second is combined with what was
    /// accumulated before, which makes the new part.
    AccumulatedAndPart,
    /// The part.
    Part,
}

/// One round of one process. (The first that arrives is combined with what is accumulated.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The receiver of what is sent.
    pub to: usize,
    /// The sender of what is received.
    pub from: usize,
    /// What is sent; the same on all processes.
    pub content: Content,
}

/// The rounds of one process.
pub trait Growing {
    /// Number of processes, p.
    fn processes(&self) -> usize;
    /// This process.
    fn rank(&self) -> usize;
    /// Number of rounds; 0 for a single process.
    fn rounds(&self) -> usize;
    /// Round `round`, below [`rounds`](Self::rounds).
    fn step(&self, round: usize) -> Step;
    /// Whether the own block is combined at the end only: what is accumulated is without it.
    fn keeps_own_apart(&self) -> bool;
}

impl Growing for Census {
    fn processes(&self) -> usize {
        self.shape().processes
    }

    fn rank(&self) -> usize {
        self.place()
    }

    fn rounds(&self) -> usize {
        self.shape().rounds
    }

    fn step(&self, round: usize) -> Step {
        let (to, from) = self.neighbours(round);
        let content = match self.content(round) {
            Sent::Own => Content::Own,
            Sent::Others => Content::Others,
            Sent::Both => Content::Both,
        };
        Step { to, from, content }
    }

    fn keeps_own_apart(&self) -> bool {
        true
    }
}
