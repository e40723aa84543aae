//! The engine: it runs a plan over a transport.
//!
//! ```text
//! for each round i:
//!     post the receives of the rounds up to i + window - 1
//!     finish the send of round i - sends; start send i    (all that it needs has arrived before)
//!     finish receive i; store it, combine it, or hold it; do the folds of the round
//! finish all sends
//! ```
//!
//! Where a plan runs several rounds [at once](Shape::at_once), their sends are all started before a
//! receive of them is waited for, and window and sends count so many rounds as one.
//!
//! The engine interprets [`Round`]s. It knows no algorithm, no buffer and no MPI.
//!
//! **Pacing.** The papers' rounds are one-ported. Three things keep them so over MPI. Receives are
//! posted a bounded window ahead, so a block finds its receiver ready. A bounded number of sends is
//! outstanding. And a round's receive is complete before the next round's send starts. So a process
//! that received in a round is paced by it: it sends no more than it receives. A process that did
//! not (above all a broadcast's root) would run ahead into buffers, and several flows would share a
//! port. Its sends are synchronous-mode: they end when their receive has begun. The others do
//! without, because the handshake costs a message.
//!
//! **Where blocks are.**
//! - A message of final blocks that belong next to each other is received where they belong, and
//!   sent from there. Other messages are packed in scratch (`scratch.rs`).
//! - The first partial result of a block is combined with the input where it was received
//!   (`received = input op received`), and stays there until it is sent; later ones are combined
//!   into it (`scratch.rs`). So the input is never copied, and a block that only leaves is sent
//!   straight from the input.
//! - At a block's root the result is where its partial result is made. A single block is received
//!   straight into it, unless the input is there.
//!
//! Stretches of memory that follow each other are sent, copied and combined at once.
//!
//! The engine can be advanced in steps: it returns `Pending` where the transport does.

#![forbid(unsafe_code)]

mod located;
mod pacing;
mod scratch;

pub use pacing::{Pacing, Synchronous};

use located::{Located, LocatedRound, units};
use scratch::{Accumulators, Layout};

use crate::plan::{Action, AnyPlan, Arrival, Block, Fold, Operand, Plan, Round, Shape, Source};
use crate::stage::{Stage, Stages, View};
use crate::transport::{Place, Progress, SendMode, Transport};

/// Memory that is to be copied or combined into other memory.
#[derive(Clone, Copy)]
struct Stretch {
    action: Action,
    from: Place,
    into: Place,
    length: usize,
}

/// One stage in progress on one process.
///
/// It keeps its memory from one stage to the next, so that a call in a steady state allocates
/// nothing.
#[derive(Debug)]
pub struct Engine {
    /// That of every stage.
    given: Pacing,
    /// That of the current one.
    pacing: Pacing,
    shape: Shape,
    layout: Layout,
    /// Where each round's message is received, if each has memory of its own.
    starts: Vec<usize>,
    accumulators: Accumulators,
    /// The rounds from the current one to the last whose receive is posted; round i is at i mod
    /// window.
    rounds: Vec<LocatedRound>,
    /// The latest of them, as the plan has filled it in.
    filled: Round,
    /// For each of them, whether its message is received into the result.
    direct: Vec<bool>,
    /// Where in scratch the held blocks are, by their numbers.
    held: Vec<usize>,
    /// Rounds whose receive has been posted.
    posted: usize,
    /// Rounds whose send has been started.
    started: usize,
    /// Rounds whose receive has been finished.
    arrived: usize,
    /// Rounds that are done except for their sends. Those that are run at once count together.
    done: usize,
    /// Rounds whose send has been finished.
    finished: usize,
    /// Whether something was received in the latest of the rounds that are done.
    received: bool,
}

impl Engine {
    /// An engine with this pacing.
    pub fn new(pacing: Pacing) -> Engine {
        Engine {
            given: pacing,
            pacing,
            shape: AnyPlan::Nothing.shape(),
            layout: Layout::default(),
            starts: Vec::new(),
            accumulators: Accumulators::default(),
            rounds: vec![LocatedRound::default(); pacing.window],
            filled: Round::default(),
            direct: vec![false; pacing.window],
            held: Vec::new(),
            posted: 0,
            started: 0,
            arrived: 0,
            done: 0,
            finished: 0,
            received: false,
        }
    }

    /// Sets out to run `stage`.
    pub fn start(&mut self, stage: &Stage) {
        self.shape = stage.plan.shape();
        self.pacing = self.given.of(&self.shape);
        self.layout = Layout::new(stage, self.given);
        self.layout.fill_starts(stage, &mut self.starts);
        self.accumulators.clear(&self.shape);
        let window = self.pacing.window;
        if self.rounds.len() < window {
            self.rounds.resize_with(window, LocatedRound::default);
            self.direct.resize(window, false);
        }
        (self.posted, self.started, self.finished) = (0, 0, 0);
        (self.arrived, self.done) = (0, 0);
    }

    /// Runs the stage that was started until the end, or until the transport has to be waited for.
    ///
    /// # Errors
    /// The transport's; the stage is then over, with transfers possibly outstanding.
    pub fn advance<T: Transport>(
        &mut self,
        stage: &Stage,
        transport: &mut T,
    ) -> Result<Progress, T::Error> {
        if self.shape.rounds == 0 {
            return keep_input(&stage.view, transport);
        }
        while self.done < self.shape.rounds {
            self.post_receives(stage, transport)?;
            let end = self.done + self.shape.at_once;
            if self.start_sends(end, stage, transport)? == Progress::Pending
                || self.finish_receives(end, &stage.view, transport)? == Progress::Pending
            {
                return Ok(Progress::Pending);
            }
            self.received = (self.done..end).any(|index| !self.round(index).receives.is_empty());
            self.done = end;
        }
        self.finish_sends(self.started, transport)
    }

    fn round(&self, index: usize) -> &LocatedRound {
        &self.rounds[index % self.pacing.window]
    }

    /// Fills in round `index`.
    fn fill(&mut self, index: usize, stage: &Stage) {
        let slot = index % self.pacing.window;
        self.filled.clear();
        stage.plan.fill(index, &mut self.filled);
        self.rounds[slot].locate(&self.filled, &stage.view);
    }

    fn post_receives<T: Transport>(
        &mut self,
        stage: &Stage,
        transport: &mut T,
    ) -> Result<(), T::Error> {
        let end = self.shape.rounds.min(self.done + self.pacing.window);
        while self.posted < end {
            self.fill(self.posted, stage);
            self.post_receive(self.posted, stage, transport)?;
            self.posted += 1;
        }
        Ok(())
    }

    fn post_receive<T: Transport>(
        &mut self,
        index: usize,
        Stage { team, view, .. }: &Stage,
        transport: &mut T,
    ) -> Result<(), T::Error> {
        let round = self.round(index);
        let length = units(&round.receives);
        if length == 0 {
            return Ok(());
        }
        let from = team.rank(round.from);
        let direct = self.place_in_result(index, view, transport);
        let scratch = Place::scratch(self.layout.receive(index, &self.starts));
        let slot = index % self.pacing.window;
        self.direct[slot] = direct.is_some();
        transport.start_receive(slot, from, direct.unwrap_or(scratch), length)
    }

    /// Where in the result the message of round `index` may be received, if it may.
    fn place_in_result<T: Transport>(
        &self,
        index: usize,
        view: &View,
        transport: &T,
    ) -> Option<Place> {
        let receives = &self.round(index).receives;
        let first = receives.first()?;
        let is_allowed = match (first.what, receives.len()) {
            (Arrival::Reduce, 1) => !view.in_place && self.is_first_arrival(first.block, index),
            _ => {
                let is_stored = |incoming: &Located<_>| incoming.what == Arrival::Store;
                let places = receives
                    .iter()
                    .map(|Located { span, .. }| (view.result(*span), span.length));
                receives.iter().all(is_stored) && is_one_stretch(places, transport)
            }
        };
        is_allowed.then(|| view.result(first.span))
    }

    /// Whether no round before `index` brings the same block.
    fn is_first_arrival(&self, block: Block, index: usize) -> bool {
        let brings = |round: &LocatedRound| round.receives.iter().any(|other| other.block == block);
        self.accumulators.of(block).is_none()
            && !(self.arrived..index).any(|earlier| brings(self.round(earlier)))
    }

    /// Starts the sends of rounds before `end`.
    fn start_sends<T: Transport>(
        &mut self,
        end: usize,
        Stage { team, view, .. }: &Stage,
        transport: &mut T,
    ) -> Result<Progress, T::Error> {
        while self.started < end {
            let index = self.started;
            let earlier = (index + 1).saturating_sub(self.pacing.sends);
            if self.finish_sends(earlier, transport)? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            if let Some((place, length)) = self.gather(index, view, transport)? {
                let (slot, mode) = (index % self.pacing.sends, self.send_mode());
                let to = team.rank(self.round(index).to);
                transport.start_send(slot, to, place, length, mode)?;
            }
            self.started = index + 1;
        }
        Ok(Progress::Ready)
    }

    fn send_mode(&self) -> SendMode {
        match self.pacing.synchronous {
            // One block does not run far ahead, and is worth no handshake.
            Synchronous::Unpaced if self.received || self.shape.blocks == 1 => SendMode::Standard,
            Synchronous::Unpaced | Synchronous::All => SendMode::Synchronous,
            Synchronous::None => SendMode::Standard,
        }
    }

    /// Waits for the sends of rounds before `end`.
    fn finish_sends<T: Transport>(
        &mut self,
        end: usize,
        transport: &mut T,
    ) -> Result<Progress, T::Error> {
        while self.finished < end {
            let slot = self.finished % self.pacing.sends;
            if transport.finish_send(slot)? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            self.finished += 1;
        }
        Ok(Progress::Ready)
    }

    /// Makes the blocks that leave in round `index` one contiguous message; says where it is and
    /// how long. None if there is nothing to send.
    fn gather<T: Transport>(
        &self,
        index: usize,
        view: &View,
        transport: &mut T,
    ) -> Result<Option<(Place, usize)>, T::Error> {
        let sends = &self.round(index).sends;
        let Some(first) = sends.first() else {
            return Ok(None);
        };
        for Located { what, span, .. } in sends {
            if *what == Source::Input {
                transport.pack(view.input(*span), span.length)?;
            }
        }
        let is_fixed = |outgoing: &Located<_>| {
            !matches!(outgoing.what, Source::Snapshot | Source::SnapshotAndInput)
        };
        let places = sends
            .iter()
            .map(|outgoing| (self.source(outgoing, view), outgoing.span.length));
        let place = if sends.iter().all(is_fixed) && is_one_stretch(places, transport) {
            self.source(first, view)
        } else {
            self.pack(index, view, transport)?
        };
        Ok(Some((place, units(sends))))
    }

    /// Copies the blocks that leave in round `index` to where messages are packed.
    fn pack<T: Transport>(
        &self,
        index: usize,
        view: &View,
        transport: &mut T,
    ) -> Result<Place, T::Error> {
        let (sends, start) = (&self.round(index).sends, self.layout.send(index));
        let (mut stretch, mut offset) = (None, start);
        for outgoing in sends {
            let next = Stretch {
                action: Action::Copy,
                from: self.source(outgoing, view),
                into: Place::scratch(offset),
                length: outgoing.span.length,
            };
            offset += next.length;
            stretch = continued(stretch, next, transport)?;
        }
        perform(stretch, transport)?;
        let mut offset = start;
        for Located { what, span, .. } in sends {
            if *what == Source::SnapshotAndInput {
                transport.combine(view.input(*span), Place::scratch(offset), span.length)?;
            }
            offset += span.length;
        }
        Ok(Place::scratch(start))
    }

    /// Where a block that leaves is.
    fn source(&self, outgoing: &Located<Source>, view: &View) -> Place {
        let span = outgoing.span;
        match outgoing.what {
            Source::Input => view.input(span),
            Source::Result | Source::Snapshot | Source::SnapshotAndInput => view.result(span),
            Source::Partial => match self.accumulators.of(outgoing.block) {
                Some(offset) => Place::scratch(offset),
                None => view.input(span),
            },
        }
    }

    /// Finishes the receives of rounds before `end`, and does their folds.
    fn finish_receives<T: Transport>(
        &mut self,
        end: usize,
        view: &View,
        transport: &mut T,
    ) -> Result<Progress, T::Error> {
        while self.arrived < end {
            let slot = self.arrived % self.pacing.window;
            if transport.finish_receive(slot)? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            let receives = std::mem::take(&mut self.rounds[slot].receives);
            self.take(&receives, view, transport)?;
            self.settle(&receives, view, transport)?;
            self.rounds[slot].receives = receives;
            for fold in &self.rounds[slot].folds {
                self.fold(fold, view, transport)?;
            }
            self.arrived += 1;
        }
        Ok(Progress::Ready)
    }

    /// Where the message that has just arrived was received, if not in the result.
    fn received_at(&self) -> Option<usize> {
        let is_direct = self.direct[self.arrived % self.pacing.window];
        (!is_direct).then(|| self.layout.receive(self.arrived, &self.starts))
    }

    /// Stores or combines the blocks that have arrived.
    fn take<T: Transport>(
        &self,
        receives: &[Located<Arrival>],
        view: &View,
        transport: &mut T,
    ) -> Result<(), T::Error> {
        let (mut stretch, mut offset) = (None, self.received_at());
        for incoming in receives {
            let received = match offset {
                Some(offset) => Place::scratch(offset),
                None => view.result(incoming.span),
            };
            let length = incoming.span.length;
            if let Some((action, from, into)) = self.operation(incoming, received, view) {
                let next = Stretch {
                    action,
                    from,
                    into,
                    length,
                };
                stretch = continued(stretch, next, transport)?;
            }
            offset = offset.map(|offset| offset + length);
        }
        perform(stretch, transport)
    }

    /// What is done with a block that has arrived at `received`, if anything.
    fn operation(
        &self,
        incoming: &Located<Arrival>,
        received: Place,
        view: &View,
    ) -> Option<(Action, Place, Place)> {
        let (input, result) = (view.input(incoming.span), view.result(incoming.span));
        let partial = self.accumulators.of(incoming.block);
        match incoming.what {
            Arrival::Store | Arrival::Replace => {
                (received != result).then_some((Action::Copy, received, result))
            }
            Arrival::Add => Some((Action::Combine, received, result)),
            Arrival::Hold(_) => None,
            // With the input in place, the result is a partial result from the start.
            Arrival::Reduce if partial.is_some() || view.in_place => {
                Some((Action::Combine, received, result))
            }
            Arrival::Combine | Arrival::Reduce => Some(match partial {
                Some(offset) => (Action::Combine, received, Place::scratch(offset)),
                None => (Action::Combine, input, received),
            }),
        }
    }

    /// Remembers where blocks that have arrived stay, and says which are final.
    fn settle<T: Transport>(
        &mut self,
        receives: &[Located<Arrival>],
        view: &View,
        transport: &mut T,
    ) -> Result<(), T::Error> {
        let received_at = self.received_at();
        let mut offset = received_at.unwrap_or(0);
        for &Located {
            block,
            what: arrival,
            span,
        } in receives
        {
            match arrival {
                Arrival::Store | Arrival::Replace => {
                    transport.unpack(view.result(span), span.length)?
                }
                Arrival::Combine | Arrival::Reduce if self.accumulators.of(block).is_none() => {
                    let is_aside = received_at.is_some() && !view.in_place;
                    if arrival == Arrival::Reduce && is_aside {
                        transport.copy(Place::scratch(offset), view.result(span), span.length)?;
                    }
                    self.accumulators.set(block, offset);
                }
                Arrival::Combine | Arrival::Reduce | Arrival::Add => {}
                Arrival::Hold(number) => self.hold(number, offset),
            }
            offset += span.length;
        }
        Ok(())
    }

    fn hold(&mut self, number: usize, offset: usize) {
        if self.held.len() <= number {
            self.held.resize(number + 1, 0);
        }
        self.held[number] = offset;
    }

    fn fold<T: Transport>(
        &self,
        &Located { what, span, .. }: &Located<Fold>,
        view: &View,
        transport: &mut T,
    ) -> Result<(), T::Error> {
        let place = |operand| match operand {
            Operand::Input => view.input(span),
            Operand::Result => view.result(span),
            Operand::Held(number) => Place::scratch(self.held[number]),
        };
        let stretch = Stretch {
            action: what.action,
            from: place(what.from),
            into: place(what.into),
            length: span.length,
        };
        if stretch.from == stretch.into {
            // A copy of the input, in place.
            return Ok(());
        }
        perform(Some(stretch), transport)
    }
}

/// The end of a process that is alone in its team: its input is its result.
fn keep_input<T: Transport>(view: &View, transport: &mut T) -> Result<Progress, T::Error> {
    for message in 0..view.messages.len() {
        let span = view.span(Block::whole(message));
        let (input, result) = (view.input(span), view.result(span));
        if input != result && span.length > 0 {
            transport.copy(input, result, span.length)?;
        }
    }
    Ok(Progress::Ready)
}

/// Whether places, of so many units each, follow each other in one piece of memory.
fn is_one_stretch<T: Transport>(
    places: impl Iterator<Item = (Place, usize)>,
    transport: &T,
) -> bool {
    let (mut start, mut end): (Option<Place>, usize) = (None, 0);
    for (place, length) in places {
        let first = *start.get_or_insert(place);
        if place != first {
            let follows = place.space == first.space && place.offset == end;
            if !follows || !transport.is_one_piece(first, place.offset + length - first.offset) {
                return false;
            }
        }
        end = place.offset + length;
    }
    true
}

/// `stretch` with `next` behind it, if both can be done at once. Else does `stretch`, and `next`
/// remains.
fn continued<T: Transport>(
    stretch: Option<Stretch>,
    next: Stretch,
    transport: &mut T,
) -> Result<Option<Stretch>, T::Error> {
    if let Some(stretch) = stretch.filter(|stretch| stretch.action == next.action) {
        let length = stretch.length + next.length;
        let joins = |place, next| {
            is_one_stretch(
                [(place, stretch.length), (next, length - stretch.length)].into_iter(),
                transport,
            )
        };
        if joins(stretch.from, next.from) && joins(stretch.into, next.into) {
            return Ok(Some(Stretch { length, ..stretch }));
        }
    }
    perform(stretch, transport)?;
    Ok(Some(next))
}

fn perform<T: Transport>(stretch: Option<Stretch>, transport: &mut T) -> Result<(), T::Error> {
    match stretch {
        Some(stretch) if stretch.action == Action::Copy => {
            transport.copy(stretch.from, stretch.into, stretch.length)
        }
        Some(stretch) => transport.combine(stretch.from, stretch.into, stretch.length),
        None => Ok(()),
    }
}

/// A call. It owns its stages, the engine's bookkeeping and its transport, so several can be in
/// progress at once on one communicator.
pub struct Call<T> {
    stages: Stages,
    /// The stage that is in progress.
    current: usize,
    has_started: bool,
    engine: Engine,
    /// What the stages run over.
    pub transport: T,
}

impl<T: Transport> Call<T> {
    /// Sets out to run `stages`. Their scratch holds [`scratch_units`] units.
    pub fn new(stages: Stages, mut engine: Engine, transport: T) -> Call<T> {
        engine.received = false;
        Call {
            stages,
            current: 0,
            has_started: false,
            engine,
            transport,
        }
    }

    /// Runs until the end, or until the transport has to be waited for.
    ///
    /// # Errors
    /// The transport's; the call is then over, with transfers possibly outstanding.
    pub fn advance(&mut self) -> Result<Progress, T::Error> {
        while let Some(stage) = self.stages.as_slice().get(self.current) {
            if !self.has_started {
                self.engine.start(stage);
                self.has_started = true;
            }
            if self.engine.advance(stage, &mut self.transport)? == Progress::Pending {
                return Ok(Progress::Pending);
            }
            self.current += 1;
            self.has_started = false;
        }
        Ok(Progress::Ready)
    }

    /// After the end: the memory of stages and engine, for another call, and the transport.
    pub fn finish(mut self) -> (Stages, Engine, T) {
        self.stages.clear();
        (self.stages, self.engine, self.transport)
    }
}

/// Units of scratch that the stages need; they use the same. The same on every process of a team.
pub fn scratch_units(stages: &Stages, pacing: Pacing) -> usize {
    let stages = stages.as_slice().iter();
    let units = stages.map(|stage| Layout::new(stage, pacing).units());
    units.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::plan::{Doubling, Outgoing, ScratchUse, Segments};
    use crate::schedule::{Rule, Sequence};
    use crate::stage::Span;
    use crate::team::Team;
    use crate::transport::Space;

    /// What a transport is asked to do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Asked {
        Send(Place, usize),
        Receive(Place, usize),
        Copy(Place, Place, usize),
        Combine(Place, Place, usize),
        Pack(Place, usize),
    }

    /// Memory in pieces of so many units, and others that send and receive at once.
    struct Pieces {
        piece: usize,
        asked: Vec<Asked>,
    }

    impl Transport for Pieces {
        type Error = ();

        fn is_one_piece(&self, place: Place, length: usize) -> bool {
            let last = place.offset + length.max(1) - 1;
            place.space != Space::Result || place.offset / self.piece == last / self.piece
        }

        fn start_send(
            &mut self,
            _: usize,
            _: usize,
            place: Place,
            length: usize,
            _: SendMode,
        ) -> Result<(), ()> {
            self.asked.push(Asked::Send(place, length));
            Ok(())
        }

        fn start_receive(
            &mut self,
            _: usize,
            _: usize,
            place: Place,
            length: usize,
        ) -> Result<(), ()> {
            self.asked.push(Asked::Receive(place, length));
            Ok(())
        }

        fn finish_send(&mut self, _: usize) -> Result<Progress, ()> {
            Ok(Progress::Ready)
        }

        fn finish_receive(&mut self, _: usize) -> Result<Progress, ()> {
            Ok(Progress::Ready)
        }

        fn copy(&mut self, from: Place, to: Place, length: usize) -> Result<(), ()> {
            self.asked.push(Asked::Copy(from, to, length));
            Ok(())
        }

        fn combine(&mut self, from: Place, into: Place, length: usize) -> Result<(), ()> {
            self.asked.push(Asked::Combine(from, into, length));
            Ok(())
        }

        fn pack(&mut self, place: Place, length: usize) -> Result<(), ()> {
            self.asked.push(Asked::Pack(place, length));
            Ok(())
        }

        fn unpack(&mut self, _: Place, _: usize) -> Result<(), ()> {
            Ok(())
        }
    }

    const PACING: Pacing = Pacing {
        window: 1,
        sends: 1,
        synchronous: Synchronous::None,
    };

    /// What is asked of a transport by a stage on a team with messages of these lengths.
    fn asked<P: Into<AnyPlan>>(
        team: &Team,
        messages: impl IntoIterator<Item = Span>,
        in_place: bool,
        plan: P,
        piece: usize,
    ) -> Vec<Asked> {
        let mut stages = Stages::default();
        stages.add(team, in_place, messages, |_| plan);
        let pieces = Pieces {
            piece,
            asked: Vec::new(),
        };
        let mut call = Call::new(stages, Engine::new(PACING), pieces);
        assert_eq!(call.advance(), Ok(Progress::Ready));
        call.finish().2.asked
    }

    fn in_result(offset: usize) -> Place {
        Place {
            space: Space::Result,
            offset,
        }
    }

    fn in_input(offset: usize) -> Place {
        Place {
            space: Space::Input,
            offset,
        }
    }

    /// The allgather of process 0 of 4, with messages of 5 units.
    fn allgather(piece: usize) -> Vec<Asked> {
        let team = Team::whole(4, 0, Rule::Halving);
        let sequence = Arc::new(Sequence::of_rule(Rule::Halving, 4));
        let plan = Doubling::new(sequence, 0, Segments::WHOLE);
        let messages = crate::stage::consecutive([5; 4]);
        asked(&team, messages, true, plan, piece)
    }

    /// The own message, and no other, is packed before it is sent.
    #[test]
    fn what_is_brought_to_a_call_is_packed_before_it_is_sent() {
        let asked = allgather(20);
        let is_packed = |asked: &&Asked| matches!(asked, Asked::Pack(..) | Asked::Send(..));
        let packed: Vec<_> = asked.iter().filter(is_packed).copied().collect();
        let expected = [
            Asked::Pack(in_result(0), 5),
            Asked::Send(in_result(0), 5),
            Asked::Pack(in_result(0), 5),
            Asked::Send(in_result(0), 10),
        ];
        assert_eq!(packed, expected);
    }

    /// Two messages of one piece are sent and received where they are. Those of two pieces are
    /// copied, each for itself.
    #[test]
    fn messages_of_several_pieces_go_by_scratch() {
        let aside = |asked: &[Asked]| asked.iter().filter(|asked| is_copy(asked)).count();
        assert_eq!(aside(&allgather(20)), 0);
        assert_eq!(aside(&allgather(10)), 0);
        assert_eq!(aside(&allgather(5)), 4);
        let two_pieces = allgather(15);
        // Messages 2 and 3 are received at once, and do not belong into one piece.
        assert_eq!(aside(&two_pieces), 2);
        assert_eq!(two_pieces.iter().filter(|asked| is_send(asked)).count(), 2);
    }

    fn is_copy(asked: &Asked) -> bool {
        matches!(asked, Asked::Copy(..))
    }

    fn is_send(asked: &Asked) -> bool {
        matches!(asked, Asked::Send(..))
    }

    #[test]
    fn a_stretch_is_in_one_piece_without_gaps() {
        let pieces = Pieces {
            piece: 10,
            asked: Vec::new(),
        };
        let is_one = |places: &[(usize, usize)]| {
            let places = places
                .iter()
                .map(|&(offset, length)| (in_result(offset), length));
            is_one_stretch(places, &pieces)
        };
        assert!(is_one(&[]));
        assert!(is_one(&[(3, 4)]));
        assert!(is_one(&[(0, 4), (4, 6)]));
        assert!(is_one(&[(13, 2), (15, 4), (19, 1)]));
        assert!(!is_one(&[(13, 2), (15, 4), (19, 2)]));
        assert!(!is_one(&[(8, 2), (10, 1)]));
        assert!(!is_one(&[(0, 4), (5, 1)]));
        assert!(!is_one(&[(4, 4), (0, 4)]));
        let spaces = [(in_result(0), 4), (in_input(4), 4)];
        assert!(!is_one_stretch(spaces.into_iter(), &pieces));
    }

    /// Stretches are joined where both their ends go on in one piece. The others are done in turn.
    #[test]
    fn stretches_are_joined_where_both_ends_go_on() {
        let stretch = |action, from, into, length| Stretch {
            action,
            from: in_input(from),
            into: in_result(into),
            length,
        };
        let copy = |from, into, length| stretch(Action::Copy, from, into, length);
        let first = copy(3, 13, 2);
        for (next, joined) in [
            (copy(5, 15, 5), Some(7)),
            (copy(5, 15, 6), None),
            (copy(6, 15, 1), None),
            (copy(5, 16, 1), None),
            (stretch(Action::Combine, 5, 15, 1), None),
        ] {
            let mut pieces = Pieces {
                piece: 10,
                asked: Vec::new(),
            };
            let rest = continued(Some(first), next, &mut pieces).unwrap().unwrap();
            let done = Asked::Copy(first.from, first.into, first.length);
            match joined {
                Some(length) => {
                    assert_eq!(
                        (rest.from, rest.into, rest.length),
                        (first.from, first.into, length)
                    );
                    assert_eq!(pieces.asked, []);
                }
                None => {
                    assert_eq!(
                        (rest.from, rest.into, rest.length),
                        (next.from, next.into, next.length)
                    );
                    assert_eq!(pieces.asked, [done]);
                }
            }
        }
    }

    /// One process alone copies what it has, and nothing where it has nothing.
    #[test]
    fn nothing_is_copied_where_nothing_is() {
        let span = |input, result, length| Span {
            input,
            result,
            length,
        };
        let messages = [span(0, 3, 4), span(4, 7, 0), span(4, 9, 2)];
        let alone = Team::whole(1, 0, Rule::Halving);
        let copied = asked(&alone, messages, false, AnyPlan::Nothing, 100);
        let expected = [
            Asked::Copy(in_input(0), in_result(3), 4),
            Asked::Copy(in_input(4), in_result(9), 2),
        ];
        assert_eq!(copied, expected);
        assert_eq!(
            asked(&alone, messages, true, AnyPlan::Nothing, 100),
            [
                Asked::Copy(in_result(0), in_result(3), 4),
                Asked::Copy(in_result(4), in_result(9), 2),
            ]
        );
    }

    /// One round, in which several snapshots leave, each with the input.
    struct Snapshots(usize);

    impl Plan for Snapshots {
        fn shape(&self) -> Shape {
            Shape {
                messages: self.0,
                blocks: 1,
                rounds: 1,
                at_once: 1,
                lanes: 1,
                span: 0,
                scratch: ScratchUse::Copies,
            }
        }

        fn fill(&self, _: usize, round: &mut Round) {
            round.to = 1;
            let snapshot = |message| Outgoing {
                block: Block::whole(message),
                source: Source::SnapshotAndInput,
            };
            round.sends.extend((0..self.0).map(snapshot));
        }

        fn width(&self, _: usize) -> usize {
            self.0
        }
    }

    /// Each snapshot is combined where it was copied, with the input of its own message.
    #[test]
    fn snapshots_are_combined_one_by_one() {
        let team = Team::whole(2, 0, Rule::Halving);
        let plan = AnyPlan::Other(Box::new(Snapshots(3)));
        let messages = crate::stage::consecutive([5, 3, 4]);
        let asked = asked(&team, messages, false, plan, 100);
        let Asked::Copy(from, packed, 12) = asked[0] else {
            panic!("{asked:?}");
        };
        assert_eq!(from, in_result(0));
        let at = |offset| Place::scratch(packed.offset + offset);
        let expected = [
            Asked::Combine(in_input(0), at(0), 5),
            Asked::Combine(in_input(5), at(5), 3),
            Asked::Combine(in_input(8), at(8), 4),
            Asked::Send(at(0), 12),
        ];
        assert_eq!(asked[1..], expected);
    }

    /// The first that arrives of a block at its root is received where the result goes, and
    /// combined there: nothing is copied. With the input there, it is received aside.
    #[test]
    fn a_root_receives_straight_into_its_result() {
        for p in [2, 3, 5, 8] {
            let team = Team::whole(p, 0, Rule::Halving);
            let plan = || {
                let schedules = team.schedules(0);
                let broadcast = crate::plan::Broadcast::new(team.skips(), schedules, 0, 1);
                crate::plan::Reversed(broadcast)
            };
            let whole = [Span::at(0..6)];
            let apart = asked(&team, whole, false, plan(), 6);
            let first = [
                Asked::Receive(in_result(0), 6),
                Asked::Combine(in_input(0), in_result(0), 6),
            ];
            assert_eq!(apart[..2], first, "p={p}");
            assert!(!apart.iter().any(is_copy), "p={p}");
            let in_place = asked(&team, whole, true, plan(), 6);
            let is_aside = |asked: &Asked| match asked {
                Asked::Receive(place, _) => place.space == Space::Scratch,
                Asked::Combine(from, into, _) => {
                    from.space == Space::Scratch && *into == in_result(0)
                }
                _ => false,
            };
            assert!(in_place.iter().all(is_aside), "p={p}: {in_place:?}");
        }
    }
}
