//! An algorithm on nodes with several processes: one process of each node, its leader, runs the
//! rounds of a plan with the leaders of the other nodes. What a leader receives in a round goes on
//! to the processes of its node while the next rounds are run.
//!
//! The paper on broadcast schedules (Träff, *Optimal Broadcast Schedules in Logarithmic Time*)
//! names circulant graphs on nodes with several processes as future work. For a node of k
//! processes, q' = ceil(log2 k), and for B rounds across:
//!
//! ```text
//! step t = 0, ..., B - 1 + q', at once:
//!     across: if this process leads its node: round t of the plan of the leaders (if t < B)
//!     within: round t - 1 of Algorithm 1 on the node, from the leader, of B blocks:
//!             block b is what the leader received in round b across
//! ```
//!
//! **Cost.** B + q' steps, each of one message across and one within, for the largest node's q'. A
//! broadcast of n blocks on N nodes has B = n - 1 + ceil(log2 N). With k processes on every node,
//! that is at most one step more than the n - 1 + ceil(log2 N k) rounds of a flat circulant graph:
//! one more for N = 3 and k = 5, none more if N or k is a power of two. Each
//! byte comes into a node once, and what leaves a node is what a process of the plan across sends.
//! Within, each process receives every byte once; of an allgather also its own message, unless it
//! leads.
//!
//! **Reversed**, this is a reduction or a reduce-scatter: the contributions of a node are combined
//! on the way to its leader, and the leaders combine those.
//!
//! Deviations, and why:
//! 1. A block within is a round across, not a block of the message. So the order in which blocks
//!    arrive at a leader does not matter, and any plan will do. A round in which a leader receives
//!    nothing is a block without data, of which nothing is sent.
//! 2. Processes compute the rounds of their leader, so nothing is said of what a message within
//!    holds.
//! 3. What the leader has from the start does not arrive. It sends block b of that within as if it
//!    had come in round b.
//! 4. A message across may stand for those of all ranks of its node, which the leader has gathered.
//!    They need not be next to each other, so any placement of ranks will do.

use super::{Across, Arrival, Block, Broadcast, Heads, Messages, Plan, Round, Shape, Source};

/// The rounds of one process: those across nodes, of plan `P`, and those within, in turn.
pub struct Leaders<P> {
    across: Across<P>,
    /// The broadcast of what the leader of this process's node receives, round by round.
    within: Broadcast,
}

/// A step is a round across and a round within.
const ROUNDS_OF_STEP: usize = 2;

impl<P: Plan> Leaders<P> {
    /// `within` is the broadcast on the node of this process from its leader, of as many blocks as
    /// `across` has rounds.
    pub fn new(across: Across<P>, within: Broadcast) -> Leaders<P> {
        Leaders { across, within }
    }

    /// The number across of the message that this node's leader has from the start, if it has one.
    fn own_message(&self) -> Option<usize> {
        let Across {
            nodes,
            rank,
            heads,
            messages,
            ..
        } = &self.across;
        let node = nodes.node(*rank);
        match (messages, heads) {
            (Messages::OfRanks, _) => Some(node),
            (Messages::Whole, Heads::Root(root)) if nodes.node(*root) == node => Some(0),
            (Messages::Whole, _) => None,
        }
    }

    fn fill_within(&self, index: usize, round: &mut Round) {
        self.within.fill(index, round);
        let Across { nodes, rank, .. } = &self.across;
        let ranks = nodes.ranks(nodes.node(*rank));
        (round.to, round.from) = (ranks[round.to], ranks[round.from]);
        let sent = round.sends.pop().map(|sent| sent.block.index);
        let received = round.receives.pop().map(|received| received.block.index);
        if let Some(index) = sent {
            let leads = self.across.leads();
            self.visit_arrived(index, round, &mut |round, block, is_own| {
                let source = if is_own && leads {
                    Source::Input
                } else {
                    Source::Result
                };
                round.send(block, source);
            });
        }
        if let Some(index) = received {
            self.visit_arrived(index, round, &mut |round, block, _| {
                round.receive(block, Arrival::Store);
            });
        }
    }

    /// Calls `visit` with the blocks that the leader has after round `index` across and not before,
    /// and with whether it had them from the start: one block of those a round.
    fn visit_arrived(
        &self,
        index: usize,
        round: &mut Round,
        visit: &mut impl FnMut(&mut Round, Block, bool),
    ) {
        let of = self.across.shape().blocks;
        if let Some(message) = self.own_message().filter(|_| index < of) {
            let block = Block { message, index, of };
            self.across
                .visit_blocks(block, |block| visit(round, block, true));
        }
        let (to, from) = (round.to, round.from);
        let (sends, first) = (round.sends.len(), round.receives.len());
        self.across.plan.fill(index, round);
        (round.to, round.from) = (to, from);
        // What the leader sends in that round is dropped. What it receives is visited, and taken
        // out.
        round.sends.truncate(sends);
        let end = round.receives.len();
        for index in first..end {
            let block = round.receives[index].block;
            self.across
                .visit_blocks(block, |block| visit(round, block, false));
        }
        round.receives.drain(first..end);
    }
}

impl<P: Plan> Plan for Leaders<P> {
    fn shape(&self) -> Shape {
        let (across, depth) = (self.across.shape(), self.across.nodes.depth());
        // A block arrives within up to 2 q' steps after it has arrived at the leader.
        let span = across.span + 2 * depth + 2;
        Shape {
            rounds: ROUNDS_OF_STEP * (across.rounds + depth),
            at_once: ROUNDS_OF_STEP,
            span: ROUNDS_OF_STEP * span,
            ..across
        }
    }

    fn fill(&self, index: usize, round: &mut Round) {
        let (step, is_within) = (index / ROUNDS_OF_STEP, index % ROUNDS_OF_STEP == 1);
        if !is_within {
            if step < self.across.shape().rounds {
                self.across.fill(step, round);
            }
        } else if (1..=self.within.shape().rounds).contains(&step) {
            self.fill_within(step - 1, round);
        }
    }

    fn width(&self, index: usize) -> usize {
        let (step, is_within) = (index / ROUNDS_OF_STEP, index % ROUNDS_OF_STEP == 1);
        let rounds = self.across.shape().rounds;
        let of = |round| self.across.width(round);
        if !is_within {
            return if step < rounds { of(step) } else { 0 };
        }
        // In round t of Algorithm 1 on p processes, only blocks t - 2q + 1 to t are sent.
        let first = step.saturating_sub(2 * self.across.nodes.depth());
        let widths = (first..step.min(rounds)).map(of);
        let own = match self.across.messages {
            Messages::Whole => 0,
            Messages::OfRanks => self.across.together(),
        };
        widths.max().map_or(0, |width| width.saturating_add(own))
    }
}
