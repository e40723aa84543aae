//! The broadcast of one process along the tree of successive broadcasts.
//!
//! Desprez, Fraigniaud and Tourancheau, *Successive Broadcasts on Hypercube*, section 3 ([`Tree`]
//! has the tree, for every p):
//!
//! ```text
//! Recv(buf, parent)
//! for each child, the next root first: Send(buf, child)
//! ```
//!
//! The next root receives first and sends nothing on. So it can start its own broadcast while
//! others are still in this one.
//!
//! Cost: at most floor(log2 p) messages from the root to any process. The rounds are each process's
//! own: one to receive, and one for each child.

use super::{Arrival, Block, Plan, Round, ScratchUse, Shape, Source, Tree};

/// The broadcast along a tree, for process `rank`.
#[derive(Clone, Copy, Debug)]
pub struct TreeBroadcast {
    tree: Tree,
    rank: usize,
}

impl TreeBroadcast {
    /// From the root of `tree`.
    pub fn new(tree: Tree, rank: usize) -> TreeBroadcast {
        TreeBroadcast { tree, rank }
    }
}

impl Plan for TreeBroadcast {
    fn shape(&self) -> Shape {
        Shape {
            messages: 1,
            blocks: 1,
            rounds: 1 + self.tree.most_children(),
            at_once: 1,
            lanes: 1,
            span: 0,
            scratch: ScratchUse::Nothing,
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        let parent = self.tree.parent(self.rank);
        match index.checked_sub(1) {
            None => {
                if let Some(parent) = parent {
                    round.from = parent;
                    round.receive(Block::whole(0), Arrival::Store);
                }
            }
            Some(child) => {
                if let Some(child) = self.tree.children(self.rank).nth(child) {
                    round.to = child;
                    let is_root = parent.is_none();
                    let source = if is_root {
                        Source::Input
                    } else {
                        Source::Result
                    };
                    round.send(Block::whole(0), source);
                }
            }
        }
    }

    fn width(&self, _index: usize) -> usize {
        1
    }
}
