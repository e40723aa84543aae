//! The rounds of a reduction whose operand grows: merging, concatenation, union.
//!
//! An operand is the combination of the blocks of an *interval* of ranks i, i + 1, ..., j, modulo
//! p. In each round a process sends one of its operands, and combines what it receives with
//! another. The lengths of operands are not known before. So there are no blocks of a known size,
//! and the rounds are no [`Plan`](crate::plan::Plan); [`Growth`](super::growth::Growth) runs them.
//!
//! Process r has up to three operands, which begin with its own rank or the next:
//!
//! - its own block, the interval r;
//! - what it has *accumulated*: an interval r, ... with its own block, or r + 1, ... without it;
//! - a *part* of that: a shorter interval r, ....
//!
//! What arrives continues the interval of the operand that it is combined with.
//!
//! **Algorithm 2** of Lang, *Modified Bruck/Dissemination Algorithm for Commutative Reduction in
//! MPI*, is the [census](Census) with operands that grow.
//!
//! **Algorithm 1**, the corrected dissemination, for process r out of p with the operand V:
//!
//! ```text
//! q = floor(log2 p);  l = p - 2^q;  A = V
//! for k = 0, ..., q-1:
//!     t, f = r - 2^k, r + 2^k;  x = l mod 2^k
//!     bit k of l is 0:         Send(A, t)     ||  Recv(T, f)
//!     bit k of l is 1, x = 0:  Send(A, t)     ||  Recv(T, f);       P = A
//!     bit k of l is 1, x > 0:  Send(A P, t)   ||  Recv(T T', f);    P = A + T'
//!     A = A + T
//! if l > 0:
//!     Send(P, r - 2^q)  ||  Recv(T, r + 2^q);  A = A + T
//! result: A
//! ```
//!
//! Before round k, A covers the 2^k processes r, ..., r + 2^k - 1. If p is no power of two, the
//! last round adds the l processes r + 2^q, ..., r + p - 1. So r then has to send an operand of
//! exactly r, ..., r + l - 1. A is not that: it covers processes that the receiver has already. P
//! is that operand. It is put together along the binary digits of l, from the lowest. Before round
//! k it covers the processes r, ..., r + x - 1, with x = l mod 2^k. Where bit k of l is 1, A covers
//! the 2^k processes before the T' of the sender, which covers r + 2^k, ..., r + 2^k + x - 1.
//!
//! Cost of Algorithm 1: ceil(log2 p) rounds, and p - 1 blocks sent, besides the x of all bits of l.
//! Each x is below its bit, so these are fewer than l <= (p - 1)/2. Together they are at most
//! 1.5 (p - 1) blocks.
//!
//! Deviations from the paper's Algorithm 1:
//! 1. The paper's list L of special rounds begins with the last one (n falls while R is taken
//!    apart). Its main loop, whose k rises, only looks at the front of L. If l has two bits or
//!    more, it would meet no special round before the highest, and would send a P without the lower
//!    bits. Here each bit of l is looked at in its own round.
//! 2. Where L is empty or used up, the paper reads behind its end. Here there is no list.
//! 3. In line 29 the `local` that is merged is meant to be without the appended `partial` (see the
//!    text, 3.1). Here A and P are two operands of one message.
//! 4. P = A makes no copy: A + T is put into other memory anyway, so A stays where it is, as P.

use std::sync::Arc;

use crate::plan::{Census, Sent, minus, plus};
use crate::schedule::Skips;

/// What a process sends in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Its own block.
    Own,
    /// What it has accumulated, without its own block.
    Others,
    /// Its own block and what it has accumulated, combined.
    Both,
    /// What it has accumulated, with its own block.
    Accumulated,
    /// The same, which becomes the part.
    AccumulatedKept,
    /// What it has accumulated, and behind it the part. Of the two that arrive, the second is
    /// combined with what was accumulated before this round, which makes the new part.
    AccumulatedAndPart,
    /// The part.
    Part,
}

/// One round of one process. What arrives (of two operands, the first) is accumulated.
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
#[derive(Clone, Debug)]
pub struct Rounds {
    /// The process.
    pub rank: usize,
    /// Its rounds; none for a single process.
    pub steps: Vec<Step>,
    /// Whether what is accumulated is without the own block, which is combined at the end.
    pub keeps_own_apart: bool,
}

impl Rounds {
    /// Algorithm 2 for process `rank`.
    pub fn circulant(skips: Arc<Skips>, rank: usize) -> Rounds {
        let rounds = 0..skips.q();
        let census = Census::new(skips, rank);
        let step = |round| {
            let (to, from) = census.neighbours(round);
            let content = match census.content(round) {
                Sent::Own => Content::Own,
                Sent::Others => Content::Others,
                Sent::Both => Content::Both,
            };
            Step { to, from, content }
        };
        Rounds {
            rank,
            steps: rounds.map(step).collect(),
            keeps_own_apart: true,
        }
    }

    /// Algorithm 1 for process `rank` of `processes`, at least 1.
    pub fn dissemination(processes: usize, rank: usize) -> Rounds {
        let q = processes.ilog2() as usize;
        let missing = processes - (1 << q);
        let step = |round: usize| Step {
            to: minus(rank, 1usize << round, processes),
            from: plus(rank, 1usize << round, processes),
            content: if round == q {
                Content::Part
            } else if missing >> round & 1 == 0 {
                Content::Accumulated
            } else if missing % (1usize << round) == 0 {
                Content::AccumulatedKept
            } else {
                Content::AccumulatedAndPart
            },
        };
        Rounds {
            rank,
            steps: (0..q + usize::from(missing > 0)).map(step).collect(),
            keeps_own_apart: false,
        }
    }
}
