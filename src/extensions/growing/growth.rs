//! The executor of reductions whose operand grows.
//!
//! ```text
//! for each round:
//!     send the operand that the round says  ||  receive one of any length
//!     accumulate what arrived
//! result: all operands that are left, combined
//! ```
//!
//! **Rank order.** An operator that is associative but not commutative needs its operands in the
//! order of ranks. So does a merge in which equal elements keep that order. Therefore an operand of
//! an interval i, ..., j (mod p) that passes rank p - 1 is kept in two: `first`, of the ranks i,
//! ..., p - 1, and `second`, of the ranks 0, ..., j. Both are in one message. The operand of
//! process r begins with r (or r + 1), what it receives from f continues it, and both together
//! cover p ranks at most. So
//!
//! - if f > r, no rank from r to f is beyond p - 1, and r has no second. The first of f continues
//!   the first of r, and the second of f becomes the second of r;
//! - if f < r, the interval of f ends before r. It does not pass p - 1 and has no second. Its first
//!   begins at f and continues the second of r, or becomes it, if the first of r ends at p - 1.
//!
//! In both cases two operands are combined only if the last rank of one is just before the first
//! rank of the other. At the end the second, of the lowest ranks, goes before the first. Any such
//! sequence of combinations is a way to put brackets around the p blocks in rank order. So for
//! every associative operator the result is that of the serial computation, and for a merge that of
//! a stable merge, whatever the rounds are. The cost is two lengths in each message; no more
//! elements are sent. An operator for which order makes no difference does without this
//! ([`Rules::ordered`]).
//!
//! **Memory.** The paper's: its `local` or W, `merged` and `recvblocks`, and `partial` or V.
//! Operands move from one to another by name. Only the own block is copied, and the part where it
//! is sent behind what is accumulated. The last round accumulates nothing. All operands that are
//! left are combined at once, the smallest neighbours first, the last two of them into the result.
//!
//! **Long messages** go in pieces. The first one has the header, which says how much there is. Each
//! piece is received before the next is sent, so that neighbours keep pace.
//!
//! **If a combination fails**, or would be too long to count, its process goes on with messages
//! that hold a status and no elements. A process that receives such a message does the same, so
//! nobody waits. Lengths are still added up. So for a merge, where nothing else can fail, all
//! processes find that the result is too long.

use super::rounds::{Content, Rounds, Step};
use super::stores::{Combined, Header, Joining, Limit, Places, Stores, Stretch, Target};
use crate::transport::Progress;

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

/// An operand: two stretches, one behind the other in one store.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    first: Stretch,
    second: Stretch,
}

impl Held {
    fn new((store, start): (usize, usize), first: usize, second: usize) -> Held {
        let stretch = |start, count| Stretch {
            store,
            start,
            count,
        };
        Held {
            first: stretch(start, first),
            second: stretch(start.saturating_add(first), second),
        }
    }

    fn store(&self) -> usize {
        self.first.store
    }

    fn all(&self) -> Stretch {
        Stretch {
            count: self.first.count.saturating_add(self.second.count),
            ..self.first
        }
    }
}

/// The exchange of a round.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    /// What is sent.
    header: Header,
    message: Stretch,
    /// What is received. It is empty until its header is there.
    arriving: Header,
    arrival: Stretch,
    /// The current piece, and how far it is.
    piece: usize,
    is_sending: bool,
    has_arrived: bool,
}

/// One call in progress on one process.
pub struct Growth<'a, S> {
    rounds: &'a Rounds,
    rules: Rules,
    joining: Joining<'a, S>,
    round: usize,
    exchange: Option<Exchange>,
    own: Held,
    accumulated: Held,
    part: Held,
    /// The own block and what is accumulated, combined to be sent.
    both: Held,
    /// The store that the next message goes to, and one that is free.
    received: usize,
    free: usize,
    /// The elements of the result.
    elements: usize,
}

impl<'a, S: Stores> Growth<'a, S> {
    /// Prepares `rounds` for an own block of `elements` elements, which are in store 0.
    pub fn new(
        rounds: &'a Rounds,
        stores: &'a mut S,
        elements: usize,
        (rules, places): (Rules, Places),
    ) -> Self {
        let own = Held::new((0, 0), elements, 0);
        let nothing = |store| Held::new((store, 0), 0, 0);
        let apart = rounds.keeps_own_apart;
        Growth {
            rounds,
            rules,
            joining: Joining::new(stores, places, rules.limit),
            round: 0,
            exchange: None,
            own,
            accumulated: if apart { nothing(1) } else { own },
            part: nothing(2),
            both: Held::default(),
            received: 3,
            free: if apart { 4 } else { 1 },
            elements: 0,
        }
    }

    /// Runs until the end, or until the transport has to be waited for. At the end returns the
    /// outcome.
    ///
    /// # Errors
    /// Those of the stores. The call is then over, and transfers may be outstanding.
    pub fn advance(&mut self) -> Result<Option<Combined>, S::Error> {
        while let Some(&step) = self.rounds.steps.get(self.round) {
            let mut exchange = match self.exchange {
                Some(exchange) => exchange,
                None => self.prepare(step.content)?,
            };
            let progress = self.transfer(step, &mut exchange)?;
            self.exchange = Some(exchange);
            if progress == Progress::Pending {
                return Ok(None);
            }
            self.exchange = None;
            self.take(step, exchange.arriving)?;
            self.round += 1;
        }
        if self.rounds.steps.is_empty() {
            self.finish(&[self.own.first])?;
        }
        Ok(Some(Combined {
            elements: self.elements,
            status: self.joining.status,
        }))
    }

    /// Prepares the operands that a round sends.
    fn prepare(&mut self, content: Content) -> Result<Exchange, S::Error> {
        if content == Content::Both {
            self.both = self.combined(self.own, self.accumulated, self.free)?;
        }
        let operand = match content {
            Content::Own => self.own,
            Content::Both => self.both,
            Content::Part => self.part,
            _ => self.accumulated,
        };
        let part = match content {
            Content::AccumulatedAndPart => self.part,
            _ => Held::default(),
        };
        let (store, behind) = (operand.store(), operand.all().count);
        let mut message = Stretch {
            count: behind.saturating_add(part.all().count),
            ..operand.all()
        };
        let status = self.joining.status;
        if status != 0 {
            message.count = 0;
            // The store may never have been reserved, and the header needs its place in front.
            self.joining.stores.reserve(store, 0, 0);
        } else if message.count > behind {
            let stores = &mut *self.joining.stores;
            stores.reserve(store, message.count, behind);
            stores.copy(part.all(), Target::Store(store, behind))?;
        }
        let stretches = [operand.first, operand.second, part.first, part.second];
        Ok(Exchange {
            header: Header {
                status,
                counts: stretches.map(|stretch| stretch.count),
            },
            message,
            arriving: Header::default(),
            arrival: Held::new((self.received, 0), 0, 0).first,
            piece: 0,
            is_sending: false,
            has_arrived: false,
        })
    }

    /// Sends and receives, one piece after the other.
    fn transfer(&mut self, step: Step, exchange: &mut Exchange) -> Result<Progress, S::Error> {
        loop {
            let outgoing = self.piece(exchange.message, exchange.piece);
            let incoming = self.piece(exchange.arrival, exchange.piece);
            if outgoing.is_none() && incoming.is_none() {
                return Ok(Progress::Ready);
            }
            if let Some(piece) = outgoing.filter(|_| !exchange.is_sending) {
                let header = (exchange.piece == 0).then_some(&exchange.header);
                self.joining.stores.start_send(step.to, header, piece)?;
                exchange.is_sending = true;
            }
            if let Some(piece) = incoming.filter(|_| !exchange.has_arrived) {
                if self.receive(step.from, piece, exchange)? == Progress::Pending {
                    return Ok(Progress::Pending);
                }
                exchange.has_arrived = true;
            }
            if exchange.is_sending && self.joining.stores.finish_send()? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            exchange.piece += 1;
            exchange.is_sending = false;
            exchange.has_arrived = false;
        }
    }

    /// A piece of a message, if the message has it. Every message has a first piece.
    fn piece(&self, message: Stretch, piece: usize) -> Option<Stretch> {
        let before = self.rules.step.saturating_mul(piece);
        (piece == 0 || before < message.count).then(|| Stretch {
            start: message.start + before,
            count: self.rules.step.min(message.count - before),
            ..message
        })
    }

    fn receive(
        &mut self,
        from: usize,
        piece: Stretch,
        exchange: &mut Exchange,
    ) -> Result<Progress, S::Error> {
        let stores = &mut *self.joining.stores;
        if exchange.piece > 0 {
            return stores.receive(from, piece);
        }
        let Some(header) = stores.receive_first(from, self.received)? else {
            return Ok(Progress::Pending);
        };
        exchange.arriving = header;
        if header.status == 0 {
            let all = header.counts.into_iter().fold(0, usize::saturating_add);
            exchange.arrival.count = all;
            if all > self.rules.step {
                stores.reserve(self.received, all, self.rules.step);
            }
        }
        Ok(Progress::Ready)
    }

    /// Accumulates what arrived in a round.
    fn take(&mut self, step: Step, header: Header) -> Result<(), S::Error> {
        self.joining.note(header.status);
        let [first, second, part_first, part_second] = header.counts;
        let arrived = self.placed(step.from, 0, first, second);
        if self.round + 1 == self.rounds.steps.len() {
            return self.finish_with(step.content, arrived);
        }
        let (before, part) = (self.accumulated, self.part);
        if step.content == Content::Own {
            // Nothing was accumulated before.
            self.accumulated = arrived;
            self.received = before.store();
            return Ok(());
        }
        if step.content == Content::AccumulatedAndPart {
            let behind = self.placed(step.from, arrived.all().count, part_first, part_second);
            self.part = self.combined(before, behind, part.store())?;
        }
        self.accumulated = self.combined(before, arrived, self.free)?;
        self.free = before.store();
        if step.content == Content::AccumulatedKept {
            self.part = before;
            self.free = part.store();
        }
        Ok(())
    }

    /// What arrived, seen from here: the first of a lower rank comes after rank p - 1.
    fn placed(&self, from: usize, start: usize, first: usize, second: usize) -> Held {
        let has_passed = self.rules.ordered && from < self.rounds.rank;
        if !has_passed {
            return Held::new((self.received, start), first, second);
        }
        Held::new((self.received, start), second, first)
    }

    /// Two operands, one after the other in rank order, combined in another store.
    fn combined(&mut self, one: Held, next: Held, store: usize) -> Result<Held, S::Error> {
        let most = one.all().count.saturating_add(next.all().count);
        let joining = &mut self.joining;
        joining.make_room(store, most, 0);
        let first = joining.join(one.first, next.first, Target::Store(store, 0))?;
        let second = joining.join(one.second, next.second, Target::Store(store, first))?;
        Ok(Held::new((store, 0), first, second))
    }

    /// Combines what there is and what the last round brought into the result.
    fn finish_with(&mut self, content: Content, arrived: Held) -> Result<(), S::Error> {
        let is_both = content == Content::Both;
        let there = if is_both {
            self.free = self.accumulated.store();
            self.both
        } else {
            self.accumulated
        };
        let own = if self.rounds.keeps_own_apart && !is_both {
            self.own.first
        } else {
            Stretch::default()
        };
        // In the order of ranks.
        self.finish(&[
            there.second,
            arrived.second,
            own,
            there.first,
            arrived.first,
        ])
    }

    /// Combines neighbours, the smallest first, until they are the result.
    fn finish(&mut self, operands: &[Stretch]) -> Result<(), S::Error> {
        let mut operands = operands.to_vec();
        operands.retain(|operand| operand.count > 0);
        let mut used = 0;
        while operands.len() > 2 {
            let pairs = operands.windows(2);
            let sums = pairs.map(|pair| pair[0].count.saturating_add(pair[1].count));
            let smallest = sums.enumerate().min_by_key(|&(_, sum)| sum);
            let index = smallest.map_or(0, |(index, _)| index);
            let (left, right) = (operands[index], operands.remove(index + 1));
            operands[index] = self.joining.aside(left, right, (self.free, used))?;
            used += operands[index].count;
        }
        self.elements = self.joining.last(&operands, (self.free, used))?;
        Ok(())
    }
}
