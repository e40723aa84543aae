//! Successive broadcasts in few messages: each owner passes on to later owners the values that they
//! lack.
//!
//! The trees of the paper ([`Tree`](crate::plan::Tree)) send every value to every process in a
//! message of its own: p - 1 messages a step. But a process needs no value before the next step
//! that it owns. At that time the owners before it have all values that it lacks. With skips
//! 1 = s[0] < s[1] < ... < s[q] = p, on the circulant graph of the steps:
//!
//! ```text
//! turn v of a process, a step that it owns, with the values up to v - p:
//!   for k = q-1, ..., 0:  Recv(values v - s[k+1] + 1, ..., v - s[k]; owner(v - s[k])); store them
//!   v < n:                produce value v
//!   for k = 0, ..., q-1:  Send(values v + s[k] - s[k+1] + 1, ..., v; owner(v + s[k]))
//! ```
//!
//! Of each range, only the values within 0, ..., n - 1 are sent; no message is sent for an empty
//! range. Each process has one *last turn*: the first with v >= n - 1, which leaves nothing to be
//! received. Turns with v >= n produce nothing.
//!
//! **Each value arrives once.** The ranges that turn v receives are disjoint. Together they are
//! v - p + 1, ..., v - 1, the values since the turn before. The sender's turn v - s[k] comes before
//! v, and after it the sender has all values up to v - s[k] (induction over the turns). So s[q] = p
//! is all that is asked of the skips. The k-th send of turn v is the k-th receive of turn v + s[k]:
//! both are the values above v + s[k] - s[k+1], up to v.
//!
//! **Cost.** q messages a step instead of p - 1, for as many bytes: in p steps each process sends
//! and receives q messages of p - 1 values. In the paper's port model a process sends to all its
//! children at once and a message takes one unit. There, turn v sends at time v. It receives at the
//! times v - s[k], which are all different and before v, so there are no conflicts. The chain from
//! owner to owner advances by one step a unit; trees need two units. After step n - 1 the last
//! value needs one unit a hop on the way to the last turns. The last hop of each way is over the
//! largest skip that fits. So the time is n - 1 + the most [`Relay::hops`] of the distances
//! 1, ..., p - 1. That is at most floor(log2 p) hops with skips that double, and less than q times
//! their factor with others.
//!
//! Where ports are slow, a step takes longer. The last message of turn v ends s[q] - 1 values after
//! it, and is waited for s[q-1] steps later. So with skips that grow by a factor of r, a step takes
//! as long as r values at the port. Stores cost the same: the values of a message are stored when
//! it arrives, and nearer messages wait for that. Trees spread both over all steps.
//!
//! Values are stored late: a process has stored value i when its next turn comes, up to p - 1 steps
//! later, and turns wait for each other. So a callback must not wait for a callback of another
//! process.

use std::ops::Range;

use crate::plan::Succession;

/// The messages of successive broadcasts from owner to owner.
#[derive(Clone, Debug)]
pub struct Relay {
    order: Succession,
    /// s[0], ..., s[q].
    skips: Vec<usize>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The other process.
    pub peer: usize,
    /// The steps whose values it holds; not empty.
    pub steps: Range<usize>,
}

impl Relay {
    /// With skips that grow by `factor >= 2`. The last factor may be smaller.
    pub fn new(order: Succession, factor: usize) -> Relay {
        let mut skips = vec![1];
        let mut skip = 1usize;
        while skip < order.processes() {
            skip = skip.saturating_mul(factor.max(2)).min(order.processes());
            skips.push(skip);
        }
        Relay { order, skips }
    }

    /// q: messages a step.
    pub fn messages(&self) -> usize {
        self.skips.len() - 1
    }

    /// The first step from `from` on that `rank` owns.
    pub fn turn(&self, rank: usize, from: usize) -> usize {
        let p = self.order.processes();
        from + (self.order.place(rank) + p - from % p) % p
    }

    /// The k-th message that `turn` receives, with those of its values that are of `steps`.
    pub fn receive(&self, turn: usize, k: usize, steps: &Range<usize>) -> Option<Parcel> {
        let sender = turn.checked_sub(self.skips[k])?;
        let values = (turn + 1).saturating_sub(self.skips[k + 1])..sender + 1;
        self.parcel(sender, values, steps)
    }

    /// The k-th message that `turn` sends, with those of its values that are of `steps`.
    pub fn send(&self, turn: usize, k: usize, steps: &Range<usize>) -> Option<Parcel> {
        let receiver = turn + self.skips[k];
        let values = (receiver + 1).saturating_sub(self.skips[k + 1])..turn + 1;
        self.parcel(receiver, values, steps)
    }

    fn parcel(&self, step: usize, values: Range<usize>, steps: &Range<usize>) -> Option<Parcel> {
        let within = values.start.max(steps.start)..values.end.min(steps.end);
        (!within.is_empty()).then(|| Parcel {
            peer: self.order.owner(step),
            steps: within,
        })
    }

    /// Messages on the way of a value to the turn `distance < p` steps later. The largest skip that
    /// fits comes last.
    pub fn hops(&self, distance: usize) -> usize {
        let each = |(hops, left): (usize, usize), skip: &usize| (hops + left / skip, left % skip);
        self.skips.iter().rev().fold((0, distance), each).0
    }

    /// The most hops of the distances below p. They are those of p - 1 or, for some skip, those of
    /// the last distance before a multiple of the skip: all shorter skips then occur as often as
    /// they can.
    fn most_hops(&self) -> usize {
        let farthest = self.order.processes() - 1;
        let before = |skip: &usize| (farthest / skip * skip).saturating_sub(1);
        let distances = self.skips.iter().map(before).chain([farthest]);
        let hops = distances.map(|distance| self.hops(distance));
        hops.max().unwrap_or(0)
    }

    /// The time of `steps` steps in the port model: one unit a message, whatever it holds.
    pub fn time(&self, steps: usize) -> usize {
        match steps.checked_sub(1) {
            Some(last) if self.order.processes() > 1 => last + self.most_hops(),
            _ => 0,
        }
    }
}
