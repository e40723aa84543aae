//! Gather and scatter of one process, without others in between: p - 1 rounds, in each of which one
//! process sends its message to the root, or receives it from there.
//!
//! ```text
//! round i = 0, ..., p - 2:  j = root + 1 + i mod p
//!     gather:   j sends its message to the root
//!     scatter:  the root sends j its message
//! ```
//!
//! Cost: p - 1 rounds and as many messages at the root, one message at the others. No process holds
//! what is another's. So nothing is packed, and the messages may be anywhere: this is for messages
//! of different lengths on one node, where a message costs little.

use super::{Arrival, Block, Plan, Round, ScratchUse, Shape, Source, plus};

/// The rounds of one process.
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    processes: usize,
    rank: usize,
    root: usize,
    gathers: bool,
}

impl Direct {
    /// Message j from process j to `root`, for all j.
    pub fn gather(processes: usize, rank: usize, root: usize) -> Direct {
        Direct {
            processes,
            rank,
            root,
            gathers: true,
        }
    }

    /// Message j from `root` to process j, for all j.
    pub fn scatter(processes: usize, rank: usize, root: usize) -> Direct {
        Direct {
            gathers: false,
            ..Direct::gather(processes, rank, root)
        }
    }
}

impl Plan for Direct {
    fn shape(&self) -> Shape {
        Shape {
            messages: self.processes,
            blocks: 1,
            rounds: self.processes.saturating_sub(1),
            at_once: 1,
            lanes: 1,
            span: 0,
            scratch: ScratchUse::Nothing,
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        let other = plus(self.root, index + 1, self.processes);
        let block = Block::whole(other);
        let is_at = |process| self.rank == process;
        let (sender, receiver) = match self.gathers {
            true => (other, self.root),
            false => (self.root, other),
        };
        (round.to, round.from) = (receiver, sender);
        if is_at(sender) {
            round.send(block, Source::Input);
        }
        if is_at(receiver) {
            round.receive(block, Arrival::Store);
        }
    }

    fn width(&self, _index: usize) -> usize {
        1
    }
}
