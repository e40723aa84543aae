//! The one executor of plans.
//!
//! ```text
//! for each round i:
//!     post receives up to round i + window - 1
//!     finish send i - sends, start send i        (what it needs arrived before round i)
//!     finish receive i; store it, or combine it
//! finish all sends
//! ```
//!
//! **Pacing.** The papers' rounds are one-ported. What keeps them so over MPI: receives are posted
//! a bounded window ahead, so that a block always finds its receiver ready; a bounded number of
//! sends is outstanding; and a round's receive is complete before the next round's send starts.
//! So a process that received in a round is paced by it: it sends no more than it receives. One
//! that did not (a broadcast's root, above all) would run ahead into buffers, and several flows
//! would share a port. Its sends are synchronous-mode: they end when their receive has begun. The
//! others do without, because the handshake costs a message.
//!
//! **Where blocks live.**
//! - *Store* (broadcast, all-broadcast): a message of one block is received where it belongs and
//!   sent from there; one of several blocks goes through a window of packed messages in scratch.
//! - *Combine* (reduction, all-reduction): messages are received into a ring in scratch. The first
//!   partial result of a block is combined with the process' own contribution where it was
//!   received (`received = own op received`), and stays there, the block's *accumulator*, until it
//!   is sent; later ones are combined into it. So the input is never copied, and a block that only
//!   leaves is sent straight from the input. The ring holds a received message for the plan's
//!   [`holding`](Plan::holding) rounds, and for the sends that may lag behind them. Where the process
//!   is the block's root, the result buffer is the accumulator; a single block is received straight
//!   into it unless the input is there.
//!
//! The engine can be advanced in steps: it returns `Pending` where the transport does.

#![forbid(unsafe_code)]

use crate::plan::{Arrival, Piece, Plan, block_range, largest_block};
use crate::transport::{Place, Progress, SendMode, Transport};

/// How far rounds may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// Receives posted ahead, at least 1.
    pub window: usize,
    /// Sends outstanding, at least 1.
    pub sends: usize,
    /// Which of them are synchronous-mode.
    pub synchronous: Synchronous,
}

/// Which sends are synchronous-mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    /// Those of a process that received nothing in the round before.
    Unpaced,
    /// All.
    All,
    /// None.
    None,
}

/// Bookkeeping that is kept between calls, so that a call in a steady state allocates nothing.
#[derive(Debug, Default)]
pub struct Workspace {
    outgoing: Vec<Piece>,
    incoming: Vec<Piece>,
    /// Of a reduction.
    accumulators: Accumulators,
    /// Per round in the receive ring: whether its one block was received into the result.
    direct: Vec<bool>,
}

/// Which blocks of a reduction have arrived, and where in scratch their accumulators are.
///
/// A message has as many entries as blocks of it can be between their first arrival and their last
/// round ([`Plan::holding`]), so the memory does not grow with the number of blocks.
#[derive(Debug, Default)]
struct Accumulators {
    /// Entries a message.
    span: usize,
    /// Block b of a message is at b mod span.
    entries: Vec<Option<Accumulator>>,
}

#[derive(Clone, Copy, Debug)]
struct Accumulator {
    block: usize,
    offset: usize,
}

impl Accumulators {
    fn clear(&mut self, plan: &impl Plan) {
        self.span = plan.holding().min(plan.blocks());
        self.entries.clear();
        self.entries.resize(plan.messages() * self.span, None);
    }

    fn of(&self, piece: Piece) -> Option<usize> {
        let entry = self.entries[self.index(piece)];
        let accumulator = entry.filter(|accumulator| accumulator.block == piece.block);
        accumulator.map(|accumulator| accumulator.offset)
    }

    fn set(&mut self, piece: Piece, offset: usize) {
        let index = self.index(piece);
        self.entries[index] = Some(Accumulator {
            block: piece.block,
            offset,
        });
    }

    fn index(&self, piece: Piece) -> usize {
        piece.message * self.span + piece.block % self.span
    }
}

/// Units of scratch that `plan` needs: the packed messages of the window, or the ring of partial
/// results. `lengths` are the units of each message; the same result on every process.
pub fn scratch_units(
    plan: &impl Plan,
    lengths: impl Iterator<Item = usize>,
    pacing: Pacing,
) -> usize {
    Ring::new(plan, lengths, pacing).units()
}

/// The layout of scratch: `receives` messages of at most `message` units, then `sends` of them.
#[derive(Clone, Copy, Debug)]
struct Ring {
    message: usize,
    receives: usize,
    sends: usize,
}

impl Ring {
    fn new(plan: &impl Plan, lengths: impl Iterator<Item = usize>, pacing: Pacing) -> Ring {
        let (mut message, mut filled) = (0usize, 0);
        for length in lengths.filter(|&length| length > 0) {
            message = message.saturating_add(largest_block(length, plan.blocks()));
            filled += 1;
        }
        let packs = filled > 1;
        let receives = match plan.arrival() {
            Arrival::Store if packs => pacing.window,
            Arrival::Store => 0,
            // A block may still be read by sends that are not finished when its time is up.
            Arrival::Combine => pacing.window + plan.holding() + pacing.sends,
        };
        let sends = if packs { pacing.sends } else { 0 };
        Ring {
            message,
            receives: receives.min(plan.rounds()),
            sends: sends.min(plan.rounds()),
        }
    }

    fn units(&self) -> usize {
        self.message.saturating_mul(self.receives + self.sends)
    }

    fn receive(&self, round: usize) -> usize {
        round % self.receives.max(1) * self.message
    }

    fn send(&self, round: usize) -> usize {
        (self.receives + round % self.sends.max(1)) * self.message
    }
}

/// The block of a message that has one only.
fn alone(pieces: &[Piece]) -> Option<Piece> {
    if let &[piece] = pieces {
        Some(piece)
    } else {
        None
    }
}

/// One collective call in progress on one process.
pub struct Engine<'a, P, T> {
    plan: P,
    transport: &'a mut T,
    workspace: &'a mut Workspace,
    pacing: Pacing,
    ring: Ring,
    /// Rounds whose receive has been posted.
    posted: usize,
    /// Rounds whose send has been started.
    started: usize,
    /// Rounds that are done but for their send.
    done: usize,
    /// Sends that have been finished.
    finished: usize,
    /// Whether something was received in the latest round that is done.
    received: bool,
}

impl<'a, P: Plan, T: Transport> Engine<'a, P, T> {
    /// Sets out to run `plan`. The transport's scratch holds [`scratch_units`] units.
    pub fn new(
        plan: P,
        transport: &'a mut T,
        workspace: &'a mut Workspace,
        pacing: Pacing,
    ) -> Self {
        let lengths = (0..plan.messages()).map(|message| transport.length(message));
        let ring = Ring::new(&plan, lengths, pacing);
        if plan.arrival() == Arrival::Combine {
            workspace.accumulators.clear(&plan);
        }
        workspace.direct.clear();
        workspace.direct.resize(pacing.window, false);
        Engine {
            plan,
            transport,
            workspace,
            pacing,
            ring,
            posted: 0,
            started: 0,
            done: 0,
            finished: 0,
            received: false,
        }
    }

    /// Runs until the end, or until the transport has to be waited for.
    ///
    /// # Errors
    /// The transport's; the call is then over, with transfers possibly outstanding.
    pub fn advance(&mut self) -> Result<Progress, T::Error> {
        while self.done < self.plan.rounds() {
            self.post_receives()?;
            if self.start_send()? == Progress::Pending
                || self.finish_receive()? == Progress::Pending
            {
                return Ok(Progress::Pending);
            }
            self.done += 1;
        }
        self.finish_sends(self.started)
    }

    fn post_receives(&mut self) -> Result<(), T::Error> {
        let end = self.plan.rounds().min(self.done + self.pacing.window);
        while self.posted < end {
            self.post_receive(self.posted)?;
            self.posted += 1;
        }
        Ok(())
    }

    fn post_receive(&mut self, round: usize) -> Result<(), T::Error> {
        let from = self.incoming(round);
        let length = self.length(&self.workspace.incoming);
        if length == 0 {
            return Ok(());
        }
        let place = match alone(&self.workspace.incoming) {
            Some(piece) if self.receives_in_result(piece, round) => self.result(piece),
            _ => Place::Scratch {
                offset: self.ring.receive(round),
            },
        };
        let slot = round % self.pacing.window;
        self.workspace.direct[slot] = matches!(place, Place::Result { .. });
        self.transport.start_receive(slot, from, place, length)
    }

    /// Whether a block that arrives alone may be received where its result belongs.
    fn receives_in_result(&mut self, piece: Piece, round: usize) -> bool {
        self.plan.arrival() == Arrival::Store
            || self.plan.is_root(piece.message)
                && !self.transport.in_place()
                && self.is_first_arrival(piece, round)
    }

    /// Whether no round from `done` to before `round` brings the same block, nor did one before.
    fn is_first_arrival(&mut self, piece: Piece, round: usize) -> bool {
        if self.workspace.accumulators.of(piece).is_some() {
            return false;
        }
        let earlier = &mut self.workspace.outgoing;
        earlier.clear();
        for posted in self.done..round {
            self.plan.receive(posted, earlier);
        }
        !earlier.contains(&piece)
    }

    fn start_send(&mut self) -> Result<Progress, T::Error> {
        let round = self.done;
        if self.started > round {
            return Ok(Progress::Ready);
        }
        if self.finish_sends((round + 1).saturating_sub(self.pacing.sends))? == Progress::Pending {
            return Ok(Progress::Pending);
        }
        let to = self.outgoing(round);
        let length = self.length(&self.workspace.outgoing);
        if length > 0 {
            let place = self.gather(round)?;
            let (slot, mode) = (round % self.pacing.sends, self.send_mode());
            self.transport.start_send(slot, to, place, length, mode)?;
        }
        self.started = round + 1;
        Ok(Progress::Ready)
    }

    fn send_mode(&self) -> SendMode {
        match self.pacing.synchronous {
            Synchronous::Unpaced if self.received => SendMode::Standard,
            Synchronous::Unpaced | Synchronous::All => SendMode::Synchronous,
            Synchronous::None => SendMode::Standard,
        }
    }

    /// Waits for the sends of rounds before `end`.
    fn finish_sends(&mut self, end: usize) -> Result<Progress, T::Error> {
        while self.finished < end {
            let slot = self.finished % self.pacing.sends;
            if self.transport.finish_send(slot)? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            self.finished += 1;
        }
        Ok(Progress::Ready)
    }

    /// Makes the outgoing blocks one contiguous message, and says where it is.
    fn gather(&mut self, round: usize) -> Result<Place, T::Error> {
        if let Some(piece) = alone(&self.workspace.outgoing) {
            return self.source(piece);
        }
        let start = self.ring.send(round);
        let mut offset = start;
        for index in 0..self.workspace.outgoing.len() {
            let piece = self.workspace.outgoing[index];
            let from = self.source(piece)?;
            let length = self.range(piece).len();
            self.transport
                .copy(from, Place::Scratch { offset }, length)?;
            offset += length;
        }
        Ok(Place::Scratch { offset: start })
    }

    /// Where the block that is to be sent now is.
    fn source(&mut self, piece: Piece) -> Result<Place, T::Error> {
        if self.plan.arrival() == Arrival::Store {
            if self.plan.is_root(piece.message) {
                let range = self.range(piece);
                self.transport
                    .about_to_send(piece.message, range.start, range.len())?;
            }
            return Ok(self.result(piece));
        }
        Ok(match self.workspace.accumulators.of(piece) {
            None => self.input(piece),
            Some(offset) => Place::Scratch { offset },
        })
    }

    fn finish_receive(&mut self) -> Result<Progress, T::Error> {
        let round = self.done;
        let slot = round % self.pacing.window;
        if self.transport.finish_receive(slot)? == Progress::Pending {
            return Ok(Progress::Pending);
        }
        self.incoming(round);
        self.received = !self.workspace.incoming.is_empty();
        let direct = self.workspace.direct[slot];
        let mut offset = self.ring.receive(round);
        for index in 0..self.workspace.incoming.len() {
            let piece = self.workspace.incoming[index];
            match self.plan.arrival() {
                Arrival::Store => self.store(piece, offset, direct)?,
                Arrival::Combine if self.plan.is_root(piece.message) => {
                    self.combine_at_root(piece, offset, direct)?;
                }
                Arrival::Combine => self.combine(piece, offset)?,
            }
            offset += self.range(piece).len();
        }
        Ok(Progress::Ready)
    }

    fn store(&mut self, piece: Piece, offset: usize, direct: bool) -> Result<(), T::Error> {
        let range = self.range(piece);
        if !direct {
            self.transport
                .copy(Place::Scratch { offset }, self.result(piece), range.len())?;
        }
        self.transport
            .arrived(piece.message, range.start, range.len())
    }

    /// A partial result that arrives on its way to the root.
    fn combine(&mut self, piece: Piece, offset: usize) -> Result<(), T::Error> {
        let length = self.range(piece).len();
        let received = Place::Scratch { offset };
        match self.workspace.accumulators.of(piece) {
            None => {
                self.workspace.accumulators.set(piece, offset);
                self.transport.combine(self.input(piece), received, length)
            }
            Some(offset) => {
                let accumulator = Place::Scratch { offset };
                self.transport.combine(received, accumulator, length)
            }
        }
    }

    /// A partial result that arrives at its root. The root's accumulator is the result, which
    /// holds the input from the start where the input is in place.
    fn combine_at_root(
        &mut self,
        piece: Piece,
        offset: usize,
        direct: bool,
    ) -> Result<(), T::Error> {
        let length = self.range(piece).len();
        let received = Place::Scratch { offset };
        let first = self.workspace.accumulators.of(piece).is_none();
        self.workspace.accumulators.set(piece, offset);
        if !first || self.transport.in_place() {
            return self.transport.combine(received, self.result(piece), length);
        }
        if !direct {
            self.transport.copy(received, self.result(piece), length)?;
        }
        self.transport
            .combine(self.input(piece), self.result(piece), length)
    }

    /// Lists the blocks sent in `round` that are not empty; returns the receiver.
    fn outgoing(&mut self, round: usize) -> usize {
        let mut pieces = std::mem::take(&mut self.workspace.outgoing);
        pieces.clear();
        let to = self.plan.send(round, &mut pieces);
        pieces.retain(|&piece| !self.range(piece).is_empty());
        self.workspace.outgoing = pieces;
        to
    }

    /// Lists the blocks received in `round` that are not empty; returns the sender.
    fn incoming(&mut self, round: usize) -> usize {
        let mut pieces = std::mem::take(&mut self.workspace.incoming);
        pieces.clear();
        let from = self.plan.receive(round, &mut pieces);
        pieces.retain(|&piece| !self.range(piece).is_empty());
        self.workspace.incoming = pieces;
        from
    }

    fn length(&self, pieces: &[Piece]) -> usize {
        pieces.iter().map(|&piece| self.range(piece).len()).sum()
    }

    fn range(&self, piece: Piece) -> std::ops::Range<usize> {
        block_range(
            self.transport.length(piece.message),
            self.plan.blocks(),
            piece.block,
        )
    }

    fn result(&self, piece: Piece) -> Place {
        Place::Result {
            message: piece.message,
            offset: self.range(piece).start,
        }
    }

    fn input(&self, piece: Piece) -> Place {
        Place::Input {
            message: piece.message,
            offset: self.range(piece).start,
        }
    }
}
