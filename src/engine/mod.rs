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
//! - *Store* (broadcast, allgather): a message whose blocks belong next to each other is received
//!   where they belong, and sent from there; others go through packed messages in scratch.
//! - *Combine* (reduction, reduce-scatter): messages are received into scratch (`ring.rs`). The first
//!   partial result of a block is combined with the process' own contribution where it was
//!   received (`received = own op received`), and stays there, the block's *accumulator*, until it
//!   is sent; later ones are combined into it. So the input is never copied, and a block that only
//!   leaves is sent straight from the input. A received message stays for the plan's
//!   [`holding`](Plan::holding) rounds, and for the sends that may lag behind them. Where the process
//!   is the block's root, the result buffer is the accumulator; a single block is received straight
//!   into it unless the input is there.
//! - *Both* (allreduce): all sends of the rounds that combine are finished before the first block is
//!   stored, because in place the results overwrite the input.
//! - *In order* ([`keeps_order`](Plan::keeps_order)): all contributions stay where they were received,
//!   and are combined when the last is there.
//! - *Own contribution apart* (census): what others contributed is combined in the result buffer, and
//!   the own contribution only in copies that are sent ([`Operand`]), and at the end.
//!
//! Stretches of memory that follow each other are sent, copied and combined at once.
//!
//! The engine can be advanced in steps: it returns `Pending` where the transport does.

#![forbid(unsafe_code)]

mod accumulators;
mod faults;
mod growing;
mod ring;
mod stores;
mod successive;
mod trees;
mod turns;

pub use faults::{Course, Fault, Faults, HEADER};
pub use growing::{Growth, Header, Links, Rules};
pub use stores::{Limit, Outcome, Room, STORES, Stores, Stretch, Target, pairwise};
pub use successive::{Flow, Steps, Successive, Way};
pub use trees::Trees;
pub use turns::Turns;

use accumulators::Accumulators;
use ring::Ring;

use crate::plan::{Operand, Piece, Plan, block_range};
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
    /// Where in scratch the messages of its rounds start, where each has memory of its own.
    starts: Vec<usize>,
    /// Where order is kept: the round that brought each process' contribution.
    rounds_of: Vec<usize>,
    /// Per receive slot: whether the message was received into the result.
    direct: Vec<bool>,
}

/// Units of scratch that `plan` needs: the packed messages of the window, or the ring of partial
/// results. `lengths` are the units of each message; the same result on every process.
pub fn scratch_units(
    plan: &dyn Plan,
    lengths: impl Iterator<Item = usize>,
    pacing: Pacing,
) -> usize {
    Ring::new(plan, lengths, pacing).units()
}

/// Memory that is to be copied or combined into other memory.
#[derive(Clone, Copy)]
struct Run {
    from: Place,
    into: Place,
    length: usize,
}

/// [`Transport::copy`] or [`Transport::combine`].
type Action<T> = fn(&mut T, Place, Place, usize) -> Result<(), <T as Transport>::Error>;

/// The block of a message that has one only.
fn alone(pieces: &[Piece]) -> Option<Piece> {
    if let &[piece] = pieces {
        Some(piece)
    } else {
        None
    }
}

/// One collective call in progress on one process.
pub struct Engine<'a, T> {
    plan: &'a dyn Plan,
    transport: &'a mut T,
    workspace: &'a mut Workspace,
    pacing: Pacing,
    ring: Ring,
    /// The plan's rounds, and those that combine, which not every plan has at hand.
    rounds: usize,
    combining: usize,
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
    /// Whether own contributions are kept apart.
    apart: bool,
}

impl<'a, T: Transport> Engine<'a, T> {
    /// Sets out to run `plan`. The transport's scratch holds [`scratch_units`] units.
    pub fn new(
        plan: &'a dyn Plan,
        transport: &'a mut T,
        workspace: &'a mut Workspace,
        pacing: Pacing,
    ) -> Self {
        let lengths = || (0..plan.messages()).map(|message| transport.length(message));
        let ring = Ring::new(plan, lengths(), pacing);
        let (rounds, combining) = (plan.rounds(), plan.combining());
        if combining > 0 {
            workspace.accumulators.clear(plan);
        }
        ring.lay_out(plan, lengths(), &mut workspace.starts);
        workspace.direct.clear();
        workspace.direct.resize(pacing.window, false);
        let apart = plan.operand(0) != Operand::Accumulated;
        Engine {
            plan,
            transport,
            workspace,
            pacing,
            ring,
            rounds,
            combining,
            posted: 0,
            started: 0,
            done: 0,
            finished: 0,
            received: false,
            apart,
        }
    }

    /// Runs until the end, or until the transport has to be waited for.
    ///
    /// # Errors
    /// The transport's; the call is then over, with transfers possibly outstanding.
    pub fn advance(&mut self) -> Result<Progress, T::Error> {
        while self.done < self.rounds {
            if self.done == self.combining && self.finish_sends(self.done)? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            self.post_receives()?;
            if self.start_send()? == Progress::Pending
                || self.finish_receive()? == Progress::Pending
            {
                return Ok(Progress::Pending);
            }
            self.done += 1;
            if self.done == self.combining && self.plan.keeps_order() {
                self.combine_in_order()?;
            }
        }
        let progress = self.finish_sends(self.started)?;
        if progress == Progress::Ready && self.apart {
            self.combine_own()?;
        }
        Ok(progress)
    }

    /// Whether what arrives in `round` is combined.
    fn combines(&self, round: usize) -> bool {
        round < self.combining
    }

    fn post_receives(&mut self) -> Result<(), T::Error> {
        let last = if self.combines(self.done) {
            self.combining
        } else {
            self.rounds
        };
        let end = last.min(self.done + self.pacing.window);
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
        let place = self.place_in_result(round).unwrap_or(Place::Scratch {
            offset: self.ring.receive(round, &self.workspace.starts),
        });
        let slot = round % self.pacing.window;
        self.workspace.direct[slot] = matches!(place, Place::Result { .. });
        self.transport.start_receive(slot, from, place, length)
    }

    /// Where in the result the blocks that arrive in `round` may be received, if they may.
    fn place_in_result(&mut self, round: usize) -> Option<Place> {
        let first = *self.workspace.incoming.first()?;
        let allowed = if self.combines(round) {
            alone(&self.workspace.incoming).is_some()
                && self.plan.is_root(first.message)
                && !self.plan.keeps_order()
                && !self.transport.in_place()
                && self.is_first_arrival(first, round)
        } else {
            !self.plan.replaces() && self.follow_in_result()
        };
        allowed.then(|| self.result(first))
    }

    /// Whether the blocks that arrive follow each other in the result.
    fn follow_in_result(&self) -> bool {
        self.workspace.incoming.windows(2).all(|pair| {
            let (place, next) = (self.result(pair[0]), self.result(pair[1]));
            let length = self.range(pair[0]).len();
            self.transport.follows(place, length, next)
        })
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
            // One block does not run far ahead, and is worth no handshake.
            Synchronous::Unpaced if self.received || self.plan.blocks() == 1 => SendMode::Standard,
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
        if self.apart {
            return self.gather_operand(round);
        }
        let start = self.ring.send(round);
        let mut offset = start;
        let mut run: Option<(Place, usize)> = None;
        for index in 0..self.workspace.outgoing.len() {
            let piece = self.workspace.outgoing[index];
            let from = self.source(piece, round)?;
            let length = self.range(piece).len();
            run = Some(match run {
                Some((first, joined)) if self.transport.follows(first, joined, from) => {
                    (first, joined + length)
                }
                Some((first, joined)) => {
                    let into = Place::Scratch { offset };
                    self.transport.copy(first, into, joined)?;
                    offset += joined;
                    (from, length)
                }
                None => (from, length),
            });
        }
        match run {
            Some((first, _)) if offset == start && !self.plan.replaces() => Ok(first),
            run => {
                if let Some((first, joined)) = run {
                    let into = Place::Scratch { offset };
                    self.transport.copy(first, into, joined)?;
                }
                Ok(Place::Scratch { offset: start })
            }
        }
    }

    /// Where the block that is to be sent now is.
    fn source(&mut self, piece: Piece, round: usize) -> Result<Place, T::Error> {
        if !self.combines(round) {
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

    /// The operand of a plan that keeps own contributions apart. It is copied, because the result
    /// changes while it is sent.
    fn gather_operand(&mut self, round: usize) -> Result<Place, T::Error> {
        let piece = self.workspace.outgoing[0];
        let operand = self.plan.operand(round);
        if operand == Operand::Own {
            return Ok(self.input(piece));
        }
        let length = self.range(piece).len();
        let copy = Place::Scratch {
            offset: self.ring.send(round),
        };
        self.transport.copy(self.result(piece), copy, length)?;
        if operand == Operand::Both {
            self.transport.combine(self.input(piece), copy, length)?;
        }
        Ok(copy)
    }

    /// The end of a plan that keeps own contributions apart.
    fn combine_own(&mut self) -> Result<(), T::Error> {
        let piece = Piece {
            message: 0,
            block: 0,
        };
        let length = self.range(piece).len();
        self.transport
            .combine(self.input(piece), self.result(piece), length)
    }

    fn finish_receive(&mut self) -> Result<Progress, T::Error> {
        let round = self.done;
        let slot = round % self.pacing.window;
        if self.transport.finish_receive(slot)? == Progress::Pending {
            return Ok(Progress::Pending);
        }
        let from = self.incoming(round);
        self.received = !self.workspace.incoming.is_empty();
        let direct = self.workspace.direct[slot];
        let offset = self.ring.receive(round, &self.workspace.starts);
        if self.combines(round) && self.plan.keeps_order() {
            let processes = self.plan.processes();
            self.workspace.rounds_of.resize(processes, 0);
            self.workspace.rounds_of[from] = round;
        } else if self.combines(round) {
            self.combine(offset, direct)?;
        } else {
            self.store(offset, direct)?;
        }
        Ok(Progress::Ready)
    }

    /// Final values that have arrived at `offset` in scratch, unless they were received where they
    /// belong.
    fn store(&mut self, mut offset: usize, direct: bool) -> Result<(), T::Error> {
        if !direct {
            let mut run = None;
            for index in 0..self.workspace.incoming.len() {
                let piece = self.workspace.incoming[index];
                let (from, length) = (Place::Scratch { offset }, self.range(piece).len());
                let into = self.result(piece);
                run = self.continued(run, Run { from, into, length }, T::copy)?;
                offset += length;
            }
            self.perform(run, T::copy)?;
        }
        for index in 0..self.workspace.incoming.len() {
            let piece = self.workspace.incoming[index];
            let range = self.range(piece);
            self.transport
                .arrived(piece.message, range.start, range.len())?;
        }
        Ok(())
    }

    /// Partial results that have arrived at `offset` in scratch, or directly in the result.
    fn combine(&mut self, start: usize, direct: bool) -> Result<(), T::Error> {
        let (mut offset, mut run) = (start, None);
        for index in 0..self.workspace.incoming.len() {
            let piece = self.workspace.incoming[index];
            if let Some(next) = self.combination(piece, offset, direct) {
                run = self.continued(run, next, T::combine)?;
            }
            offset += self.range(piece).len();
        }
        self.perform(run, T::combine)?;
        self.settle(start, direct)
    }

    /// Combines the contributions to this process' message, all of which are here, from the last rank's
    /// to the first's: `own op received` has the operand of the lower rank on the left.
    fn combine_in_order(&mut self) -> Result<(), T::Error> {
        let roots = 0..self.plan.messages();
        let Some(message) = roots
            .into_iter()
            .find(|&message| self.plan.is_root(message))
        else {
            return Ok(());
        };
        let piece = Piece { message, block: 0 };
        let (result, length) = (self.result(piece), self.range(piece).len());
        if length == 0 {
            return Ok(());
        }
        let mut accumulator = None;
        for process in (0..self.plan.processes()).rev() {
            let operand = if process == message {
                self.input(piece)
            } else {
                let round = self.workspace.rounds_of[process];
                Place::Scratch {
                    offset: self.ring.receive(round, &self.workspace.starts),
                }
            };
            accumulator = Some(match accumulator {
                Some(accumulator) => {
                    self.transport.combine(operand, accumulator, length)?;
                    accumulator
                }
                // The input is not written, unless the result belongs there.
                None if process == message && self.transport.in_place() => result,
                None if process == message => {
                    self.transport.copy(operand, result, length)?;
                    result
                }
                None => operand,
            });
        }
        match accumulator {
            Some(from) if from != result => self.transport.copy(from, result, length),
            _ => Ok(()),
        }
    }

    /// What is to be combined into what when `piece` has arrived at `offset`.
    fn combination(&self, piece: Piece, offset: usize, direct: bool) -> Option<Run> {
        let length = self.range(piece).len();
        let at_root = self.plan.is_root(piece.message);
        let received = if direct {
            self.result(piece)
        } else {
            Place::Scratch { offset }
        };
        let accumulated = self.workspace.accumulators.of(piece);
        let (from, into) = match accumulated {
            // The root's accumulator is the result, which holds the input from the start where the
            // input is in place.
            Some(_) if at_root => (received, self.result(piece)),
            None if at_root && self.transport.in_place() => (received, self.result(piece)),
            Some(offset) => (received, Place::Scratch { offset }),
            None if self.apart => return None,
            None => (self.input(piece), received),
        };
        Some(Run { from, into, length })
    }

    /// Remembers where the accumulators of blocks are that have arrived for the first time, and moves
    /// those that are rooted here to the result.
    fn settle(&mut self, mut offset: usize, direct: bool) -> Result<(), T::Error> {
        for index in 0..self.workspace.incoming.len() {
            let piece = self.workspace.incoming[index];
            let length = self.range(piece).len();
            if self.workspace.accumulators.of(piece).is_none() {
                self.workspace.accumulators.set(piece, offset);
                let moves = self.plan.is_root(piece.message) && !self.transport.in_place();
                if moves && !direct {
                    let (from, into) = (Place::Scratch { offset }, self.result(piece));
                    self.transport.copy(from, into, length)?;
                }
            }
            offset += length;
        }
        Ok(())
    }

    /// `run` with `next` behind it, if that can be done at once; else does `run`, and `next` remains.
    fn continued(
        &mut self,
        run: Option<Run>,
        next: Run,
        action: Action<T>,
    ) -> Result<Option<Run>, T::Error> {
        if let Some(run) = run {
            let follows = |place, next| self.transport.follows(place, run.length, next);
            if follows(run.from, next.from) && follows(run.into, next.into) {
                let length = run.length + next.length;
                return Ok(Some(Run { length, ..run }));
            }
        }
        self.perform(run, action)?;
        Ok(Some(next))
    }

    fn perform(&mut self, run: Option<Run>, action: Action<T>) -> Result<(), T::Error> {
        match run {
            Some(run) => action(self.transport, run.from, run.into, run.length),
            None => Ok(()),
        }
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
            self.plan.blocks_of(piece.message),
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
