//! The executor of reductions whose operand grows.
//!
//! ```text
//! for each round:
//!     send the operand that the plan says  ||  receive one of any length
//!     accumulate what arrived
//! result: all that is there, combined
//! ```
//!
//! **Rank order.** An operator that is associative but not commutative needs its operands in the order of
//! ranks, and so does a merge in which equal elements keep that order. An operand of the interval i, ...,
//! j (mod p) that passes rank p - 1 is therefore kept in two: `first` of the ranks i, ..., p - 1, and
//! `second` of 0, ..., j, next to each other in one message. What r has begins with r (or r + 1), and
//! what it receives from f continues it, and both together are of p ranks at most. So
//!
//! - if f > r, no rank from r to f is beyond p - 1, and r has no second; the first of f continues the
//!   first of r, and the second of f becomes that of r;
//! - if f < r, the interval of f ends before r, so it does not pass p - 1 and has no second; its first
//!   begins at f and continues the second of r (or begins it, where r has none because its own ends at p - 1).
//!
//! Either way two operands are combined only where one's last rank is just before the other's first,
//! and the second, of the lowest ranks, goes before the first at the end. Any such sequence of
//! combinations is one way to put brackets around the p blocks in rank order: so the result is that of
//! the serial computation for every associative operator, and of a stable merge, whatever the pattern.
//! The elements sent are the same as without all this: two lengths a message are what it costs. An
//! operator for which order makes no difference does without ([`Rules::ordered`]).
//!
//! **Memory.** The paper's: its `local` or W, `merged` and `recvblocks`, and `partial` or V. What moves from
//! one to another does so by name; only the own block and, to be sent behind what is accumulated, the part
//! are copied. In the last round nothing is accumulated: all that is there is combined at once, the
//! smallest neighbours first, the last two of them into the result.
//!
//! **Long messages** go in steps, the first with the header that says how much there is. Every step is
//! received before the next is sent, so that neighbours stay in step.
//!
//! **When a combination fails**, or would be too long to count, its process goes through the other rounds
//! with messages that hold a status and no elements, and who receives one does the same: nobody waits.
//! Lengths are still added up, so that of a merge, where nothing else can fail, all processes find that it
//! is too long.

use super::rounds::{Content, Growing};
use super::stores::{Joining, Limit, Outcome, Stores, Stretch, Target};
use crate::transport::Progress;

/// What the first message of a round says before its elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// 0, or why there are no elements.
    pub status: i32,
    /// The elements of the operand, of its `first` and its `second`, and those of the one behind it.
    pub counts: [usize; 4],
}

/// What the executor runs over: stores, and one transfer each way.
pub trait Links {
    /// Why an operation failed.
    type Error;
    /// Where elements are.
    type Stores: Stores<Error = Self::Error>;
    /// Where elements are. Not to be given other room while it is sent from or received into.
    fn stores(&mut self) -> &mut Self::Stores;
    /// Starts to send elements to process `to`, behind a header if there is one (then they are the first
    /// of their store). They stay until the send is finished.
    ///
    /// # Errors
    /// The transport's.
    fn start_send(
        &mut self,
        to: usize,
        header: Option<&Header>,
        elements: Stretch,
    ) -> Result<(), Self::Error>;
    /// Finishes the send that was started.
    ///
    /// # Errors
    /// The transport's.
    fn finish_send(&mut self) -> Result<Progress, Self::Error>;
    /// Receives a header, and elements behind it into `store`, for which it makes room; `None` if it has
    /// to be waited for.
    ///
    /// # Errors
    /// The transport's.
    fn receive_first(&mut self, from: usize, store: usize) -> Result<Option<Header>, Self::Error>;
    /// Receives elements.
    ///
    /// # Errors
    /// The transport's.
    fn receive(&mut self, from: usize, elements: Stretch) -> Result<Progress, Self::Error>;
}

/// How operands are combined and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether the order of ranks is kept.
    pub ordered: bool,
    /// The most elements of one message, at least 1; the same on all processes.
    pub step: usize,
    /// The longest operand.
    pub limit: Limit,
}

/// An operand in a store: the elements of its first, then of its second.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    store: usize,
    start: usize,
    first: usize,
    second: usize,
}

impl Held {
    fn empty(store: usize) -> Held {
        Held {
            store,
            ..Held::default()
        }
    }

    fn count(&self) -> usize {
        self.first.saturating_add(self.second)
    }

    fn first(&self) -> Stretch {
        Stretch {
            store: self.store,
            start: self.start,
            count: self.first,
        }
    }

    fn second(&self) -> Stretch {
        Stretch {
            store: self.store,
            start: self.start + self.first,
            count: self.second,
        }
    }

    fn all(&self) -> Stretch {
        Stretch {
            count: self.count(),
            ..self.first()
        }
    }
}

/// The exchange of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Exchange {
    /// What is sent, and how many of its elements have been; none if not even the header.
    message: Stretch,
    sent: Option<usize>,
    /// The elements of the send that is not finished.
    sending: Option<usize>,
    /// How many elements arrive, once that is known, and how many have.
    arriving: Option<usize>,
    arrived: usize,
    /// The header of what arrives.
    header: Header,
}

/// One call in progress on one process.
pub struct Growth<'a, L> {
    plan: &'a dyn Growing,
    links: &'a mut L,
    rules: Rules,
    round: usize,
    exchange: Option<Exchange>,
    own: Held,
    accumulated: Held,
    part: Held,
    /// Own block and accumulated, combined to be sent.
    both: Held,
    /// The stores that nothing is kept in from round to round.
    received: usize,
    free: usize,
    /// 0, or why there will be no result.
    status: i32,
    /// The elements of the result.
    elements: usize,
}

impl<'a, L: Links> Growth<'a, L> {
    /// Sets out to run `plan` with an own block of `elements` elements, which are in store 0.
    pub fn new(plan: &'a dyn Growing, links: &'a mut L, elements: usize, rules: Rules) -> Self {
        let own = Held {
            first: elements,
            ..Held::empty(0)
        };
        let apart = plan.keeps_own_apart();
        Growth {
            plan,
            links,
            rules,
            round: 0,
            exchange: None,
            own,
            accumulated: if apart { Held::empty(1) } else { own },
            part: Held::empty(2),
            both: Held::default(),
            received: 3,
            free: if apart { 4 } else { 1 },
            status: 0,
            elements: 0,
        }
    }

    /// Runs until the end, or until the transport has to be waited for; then how it ended.
    ///
    /// # Errors
    /// Those of the stores; the call is then over, with transfers possibly outstanding.
    pub fn advance(&mut self) -> Result<Option<Outcome>, L::Error> {
        while self.round < self.plan.rounds() {
            if self.exchange.is_none() {
                self.exchange = Some(self.prepare()?);
            }
            match self.transfer()? {
                Some(header) => self.take(header)?,
                None => return Ok(None),
            }
            self.exchange = None;
            self.round += 1;
        }
        if self.plan.rounds() == 0 {
            self.finish(&[self.own.first()])?;
        }
        Ok(Some(Outcome {
            elements: self.elements,
            status: self.status,
        }))
    }

    fn content(&self) -> Content {
        self.plan.step(self.round).content
    }

    /// Puts together what is sent in this round.
    fn prepare(&mut self) -> Result<Exchange, L::Error> {
        let message = match self.content() {
            Content::Own => self.own,
            Content::Others | Content::Accumulated | Content::AccumulatedKept => self.accumulated,
            Content::Both => {
                self.both = self.combined(self.own, self.accumulated, self.free)?;
                self.both
            }
            Content::AccumulatedAndPart => return self.prepare_with_part(),
            Content::Part => self.part,
        };
        Ok(self.exchange(message.all(), [message.first, message.second, 0, 0]))
    }

    /// Appends the part to what is accumulated.
    fn prepare_with_part(&mut self) -> Result<Exchange, L::Error> {
        let (accumulated, part) = (self.accumulated, self.part);
        let message = Stretch {
            count: accumulated.count().saturating_add(part.count()),
            ..accumulated.all()
        };
        if self.status == 0 {
            let behind = accumulated.count();
            self.links
                .stores()
                .reserve(message.store, message.count, behind);
            let end = Target::Store(message.store, behind);
            self.links.stores().copy(part.all(), end)?;
        }
        let counts = [
            accumulated.first,
            accumulated.second,
            part.first,
            part.second,
        ];
        Ok(self.exchange(message, counts))
    }

    fn exchange(&mut self, message: Stretch, counts: [usize; 4]) -> Exchange {
        let status = self.status;
        if status != 0 {
            // Nothing may ever have been put into this store, and a header needs its place in front of one.
            self.links.stores().reserve(message.store, 0, 0);
        }
        Exchange {
            message: Stretch {
                count: if status == 0 { message.count } else { 0 },
                ..message
            },
            // What is sent until its place is taken by what is received.
            header: Header { status, counts },
            ..Exchange::default()
        }
    }

    /// Sends and receives; the header of what was received, when all is done.
    fn transfer(&mut self) -> Result<Option<Header>, L::Error> {
        let Some(mut exchange) = self.exchange else {
            return Ok(None);
        };
        let done = loop {
            self.start_send(&mut exchange)?;
            if self.receive(&mut exchange)? == Progress::Pending {
                break false;
            }
            if let Some(sending) = exchange.sending {
                if self.links.finish_send()? == Progress::Pending {
                    break false;
                }
                exchange.sending = None;
                exchange.sent = Some(exchange.sent.unwrap_or(0) + sending);
            }
            if exchange.sent == Some(exchange.message.count)
                && exchange.arriving == Some(exchange.arrived)
            {
                break true;
            }
        };
        self.exchange = Some(exchange);
        Ok(done.then_some(exchange.header))
    }

    /// Starts to send the next step, if none is under way and there is one.
    fn start_send(&mut self, exchange: &mut Exchange) -> Result<(), L::Error> {
        let sent = exchange.sent.unwrap_or(0);
        if exchange.sending.is_some() || exchange.sent == Some(exchange.message.count) {
            return Ok(());
        }
        let step = Stretch {
            start: exchange.message.start + sent,
            count: self.rules.step.min(exchange.message.count - sent),
            ..exchange.message
        };
        // Nothing has arrived before the header was sent.
        let header = exchange.sent.is_none().then_some(&exchange.header);
        let to = self.plan.step(self.round).to;
        self.links.start_send(to, header, step)?;
        exchange.sending = Some(step.count);
        Ok(())
    }

    /// Receives the next step, if there is one.
    fn receive(&mut self, exchange: &mut Exchange) -> Result<Progress, L::Error> {
        let from = self.plan.step(self.round).from;
        let Some(arriving) = exchange.arriving else {
            let Some(header) = self.links.receive_first(from, self.received)? else {
                return Ok(Progress::Pending);
            };
            let all = header
                .counts
                .into_iter()
                .fold(0, |sum: usize, count| sum.saturating_add(count));
            let all = if header.status == 0 { all } else { 0 };
            exchange.header = header;
            exchange.arriving = Some(all);
            exchange.arrived = all.min(self.rules.step);
            if all > exchange.arrived {
                self.links
                    .stores()
                    .reserve(self.received, all, exchange.arrived);
            }
            return Ok(Progress::Ready);
        };
        if exchange.arrived == arriving {
            return Ok(Progress::Ready);
        }
        let step = Stretch {
            store: self.received,
            start: exchange.arrived,
            count: self.rules.step.min(arriving - exchange.arrived),
        };
        let progress = self.links.receive(from, step)?;
        if progress == Progress::Ready {
            exchange.arrived += step.count;
        }
        Ok(progress)
    }

    /// Accumulates what arrived in this round.
    fn take(&mut self, header: Header) -> Result<(), L::Error> {
        if self.status == 0 {
            self.status = header.status;
        }
        let [first, second, part_first, part_second] = header.counts;
        let arrived = self.placed(0, first, second);
        if self.round + 1 == self.plan.rounds() {
            return self.finish_with(arrived);
        }
        let before = self.accumulated;
        match self.content() {
            Content::Own => {
                // Nothing was accumulated before.
                self.accumulated = arrived;
                self.received = before.store;
            }
            Content::AccumulatedKept => {
                self.accumulated = self.combined(before, arrived, self.free)?;
                self.free = self.part.store;
                self.part = before;
            }
            Content::AccumulatedAndPart => {
                let behind = self.placed(arrived.count(), part_first, part_second);
                self.part = self.combined(before, behind, self.part.store)?;
                self.accumulated = self.combined(before, arrived, self.free)?;
                self.free = before.store;
            }
            _ => {
                self.accumulated = self.combined(before, arrived, self.free)?;
                self.free = before.store;
            }
        }
        Ok(())
    }

    /// What arrived, seen from here: the first of a lower rank comes after rank p - 1.
    fn placed(&self, start: usize, first: usize, second: usize) -> Held {
        let passed = self.rules.ordered && self.plan.step(self.round).from < self.plan.rank();
        let (first, second) = if passed {
            (second, first)
        } else {
            (first, second)
        };
        Held {
            store: self.received,
            start,
            first,
            second,
        }
    }

    /// Runs `action` on operands, and remembers if that fails.
    fn joining<R>(
        &mut self,
        action: impl FnOnce(&mut Joining<'_, L::Stores>) -> Result<R, L::Error>,
    ) -> Result<R, L::Error> {
        let mut joining = Joining::new(self.links.stores(), self.rules.limit);
        joining.status = self.status;
        let result = action(&mut joining);
        self.status = joining.status;
        result
    }

    /// Two operands, one after the other, combined in another store.
    fn combined(&mut self, one: Held, next: Held, store: usize) -> Result<Held, L::Error> {
        let most = one.count().saturating_add(next.count());
        let (first, second) = self.joining(|joining| {
            joining.make_room(store, most, 0);
            let first = joining.join(one.first(), next.first(), Target::Store(store, 0))?;
            let second = Target::Store(store, first);
            let second = joining.join(one.second(), next.second(), second)?;
            Ok((first, second))
        })?;
        Ok(Held {
            store,
            start: 0,
            first,
            second,
        })
    }

    /// The result, of what there is and what the last round brought.
    fn finish_with(&mut self, arrived: Held) -> Result<(), L::Error> {
        let apart = self.plan.keeps_own_apart();
        let was_combined = self.content() == Content::Both;
        let there = if was_combined {
            self.free = self.accumulated.store;
            self.both
        } else {
            self.accumulated
        };
        let own = if apart && !was_combined {
            self.own.first()
        } else {
            Stretch::default()
        };
        // In the order of ranks.
        self.finish(&[
            there.second(),
            arrived.second(),
            own,
            there.first(),
            arrived.first(),
        ])
    }

    /// Combines neighbours, the smallest first, until they are the result.
    fn finish(&mut self, operands: &[Stretch]) -> Result<(), L::Error> {
        let mut operands: Vec<Stretch> = operands.to_vec();
        operands.retain(|operand| operand.count > 0);
        let free = self.free;
        self.elements = self.joining(|joining| {
            let mut used = 0;
            while operands.len() > 2 {
                let pairs = operands.windows(2);
                let sums = pairs.map(|pair| pair[0].count.saturating_add(pair[1].count));
                let smallest = sums.enumerate().min_by_key(|&(_, sum)| sum);
                let index = smallest.map_or(0, |(index, _)| index);
                let (left, right) = (operands[index], operands.remove(index + 1));
                operands[index] = joining.aside(left, right, (free, used))?;
                used += operands[index].count;
            }
            joining.last(&operands, (free, used))
        })?;
        Ok(())
    }
}
