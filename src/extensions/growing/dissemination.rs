//! A reduction whose operand grows, by the corrected dissemination.
//!
//! Lang, *Modified Bruck/Dissemination Algorithm for Commutative Reduction in MPI*, Algorithm 1, for
//! process r out of p with the operand V:
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
//! Before round k, A is of the 2^k processes r, ..., r + 2^k - 1. The last round, if p is no power of
//! two, is to add the l processes r + 2^q, ..., r + p - 1: so what r sends then has to be of exactly r,
//! ..., r + l - 1, which A is not (it would bring what is there already), and that is P. It is put
//! together along the binary digits of l, from the lowest: before round k it is of the processes r, ...,
//! r + x - 1, x = l mod 2^k, and where bit k of l is 1, A is of the 2^k processes before the T' of the
//! sender, which are r + 2^k, ..., r + 2^k + x - 1.
//!
//! Cost: ceil(log2 p) rounds; p - 1 blocks sent, and the x of all bits of l besides. Each x is below its
//! bit, so that they are fewer than l, and l <= (p - 1)/2: at most 1.5 (p - 1) blocks.
//!
//! Deviations:
//! 1. The paper's list L of special rounds begins with the last of them (n falls while R is taken
//!    apart), and its main loop, whose k rises, looks at the front of L only: for l with two bits or more
//!    it would meet no special round before the highest, and send a P in which the lower bits are missing.
//!    Here the bits of l are looked at where they stand.
//! 2. Where L is empty or used up, the paper reads behind its end. Here there is no list.
//! 3. In line 29 the `local` that is merged is meant to be without the appended `partial` (so the text,
//!    3.1): here A and P are two operands of one message.
//! 4. P = A is no copy: A + T is put into other memory anyway, so A stays, as P.

use super::rounds::{Content, Growing, Step};
use crate::plan::{minus, plus};

/// Algorithm 1 for process `rank` of `processes`.
#[derive(Clone, Copy, Debug)]
pub struct Dissemination {
    processes: usize,
    rank: usize,
}

impl Dissemination {
    /// For process `rank` of `processes`, at least 1.
    pub fn new(processes: usize, rank: usize) -> Self {
        Dissemination { processes, rank }
    }

    /// q = floor(log2 p).
    fn doublings(&self) -> usize {
        self.processes.ilog2() as usize
    }

    /// l.
    fn missing(&self) -> usize {
        self.processes - (1 << self.doublings())
    }

    fn content(&self, round: usize) -> Content {
        if round == self.doublings() {
            Content::Part
        } else if self.missing() >> round & 1 == 0 {
            Content::Accumulated
        } else if self.missing() % (1 << round) == 0 {
            Content::AccumulatedKept
        } else {
            Content::AccumulatedAndPart
        }
    }
}

impl Growing for Dissemination {
    fn processes(&self) -> usize {
        self.processes
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn rounds(&self) -> usize {
        self.doublings() + usize::from(self.missing() > 0)
    }

    fn step(&self, round: usize) -> Step {
        let distance = 1 << round;
        Step {
            to: minus(self.rank, distance, self.processes),
            from: plus(self.rank, distance, self.processes),
            content: self.content(round),
        }
    }

    fn keeps_own_apart(&self) -> bool {
        false
    }
}
