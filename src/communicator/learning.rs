//! What is measured of a communicator's calls, so that the fastest candidate runs them.
//!
//! Which call is tried, and by which candidate, is [`Learned`]'s choice. Here its time is taken, and
//! made the same on all processes. A trial begins when all processes have come to the call, so that
//! late ones do not count, and ends when the last has left it. So durations are compared and never
//! clocks: the longest of all processes counts.
//!
//! The processes agree by themselves. All see the same calls, of the same facts, with the same
//! outcomes. What only one of them can know is in no decision but by the times.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::{State, Stop};
use crate::report::Outcome;
use crate::select::{
    self, Algorithm, Facts, Kind, Learned, NATIVE, Reason, Select, Settings, Turn,
};

/// What was measured of the calls of one communicator.
pub(super) struct Learning {
    kinds: Mutex<Vec<(Kind, Learned)>>,
    /// The call that is being tried.
    trial: Mutex<Option<Trial>>,
    /// Set where nothing can be agreed on.
    is_over: AtomicBool,
}

struct Trial {
    kind: Kind,
    candidate: usize,
    start: Instant,
}

impl Learning {
    /// None, if nothing is to be learned. (Under SMPI the time of a clock is not that of the
    /// program.)
    pub(super) fn new(settings: &Settings, is_other: bool) -> Option<Learning> {
        let learns = settings.select != Select::Model && !is_other && !cfg!(smpi);
        learns.then(|| Learning {
            kinds: Mutex::new(Vec::new()),
            trial: Mutex::new(None),
            is_over: AtomicBool::new(false),
        })
    }

    /// The choice for a call of these facts, if there is something to learn of it. Collective where
    /// it is tried.
    ///
    /// # Errors
    /// MPI's.
    #[cold]
    pub(super) fn choose(
        &self,
        state: &State,
        facts: Facts,
    ) -> Result<Option<Result<Algorithm, Reason>>, Stop> {
        let settings = state.settings();
        let Some(kind) = select::learns(&facts, settings) else {
            return Ok(None);
        };
        if self.is_over.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let nodes = state.nodes()?.count();
        let facts = Facts { nodes, ..facts };
        let (candidate, reason) = match self.turn(kind, &facts, settings) {
            Turn::Use(candidate) => (candidate, Reason::Measured),
            Turn::Try(candidate) => match self.begin(state, kind, candidate) {
                Ok(()) => (candidate, Reason::Trial),
                Err(Stop::Native(_)) => {
                    self.is_over.store(true, Ordering::Relaxed);
                    return Ok(None);
                }
                Err(stop) => return Err(stop),
            },
        };
        let algorithm = select::candidate(&facts, settings, candidate);
        Ok(Some(algorithm.ok_or(reason)))
    }

    fn turn(&self, kind: Kind, facts: &Facts, settings: &Settings) -> Turn {
        let mut kinds = self.kinds.lock();
        let index = match kinds.iter().position(|(known, _)| *known == kind) {
            Some(index) => index,
            None => {
                kinds.push((kind, select::unlearned(facts, settings)));
                kinds.len() - 1
            }
        };
        kinds[index].1.turn()
    }

    /// Waits until all processes have come to the call.
    fn begin(&self, state: &State, kind: Kind, candidate: usize) -> Result<(), Stop> {
        state.serve([None, None], |service| {
            Ok(service.communicator().all_agree(true)?)
        })?;
        *self.trial.lock() = Some(Trial {
            kind,
            candidate,
            start: Instant::now(),
        });
        Ok(())
    }

    /// The end of a call with this outcome. Collective, if it was tried.
    #[cold]
    pub(super) fn end(&self, state: &State, outcome: Outcome) {
        let Some(trial) = self.trial.lock().take() else {
            return;
        };
        let taken = u64::try_from(trial.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let was_run = match outcome {
            Outcome::Circulant => trial.candidate != NATIVE,
            Outcome::Native(reason) => reason == Reason::Trial,
        };
        let longest = was_run.then(|| {
            state.serve([None, None], |service| {
                let times = service.communicator().gather_all(taken)?;
                Ok(times.into_iter().max().unwrap_or(taken))
            })
        });
        let mut kinds = self.kinds.lock();
        let known = kinds.iter_mut().find(|(kind, _)| *kind == trial.kind);
        match (known, longest) {
            (Some((_, learned)), Some(Ok(longest))) => {
                learned.tell(trial.candidate, longest as f64 * 1e-9);
            }
            (Some((_, learned)), None) => learned.give_up(trial.candidate),
            _ => self.is_over.store(true, Ordering::Relaxed),
        }
    }
}
