//! One call in progress on one process: its stages, one after the other.

use super::{Engine, Pacing};
use crate::stage::Stages;
use crate::transport::{Progress, Transport};

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
    /// Sets out to run `stages`. Their scratch holds [`scratch_units`](super::scratch_units) units.
    pub fn new(stages: Stages, engine: Engine, transport: T) -> Call<T> {
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
    let units = stages.map(|stage| super::Layout::new(stage, pacing).units());
    units.max().unwrap_or(0)
}
