//! All processes of a private communicator, and how they agree: by the largest of everybody's
//! words, in the rounds of `team/agreement.rs`.
//!
//! Collective operations of the MPI library would do. But on a new communicator it first makes what
//! these need: with Open MPI 5 on several nodes of several processes that took 20 ms, beside 0.5 ms
//! for the operation. And it opens connections that circulant's algorithms do not use.

use super::Stop;
use crate::mpi::{Communicator, Error, Private};
use crate::pool::Agreement;
use crate::team::{Machine, Round, Team, agreement, agreement_on_nodes};

/// The processes of a private communicator.
pub struct Members {
    private: Private,
    /// The rounds of this process when they agree.
    rounds: Vec<Round>,
}

impl Members {
    /// `team` is all of them.
    pub(super) fn new(private: Private, team: &Team) -> Members {
        Members {
            private,
            rounds: agreement(team),
        }
    }

    /// Their nodes are known: on all of them, from the same call on.
    pub(super) fn divide(&mut self, machine: &Machine) {
        self.rounds = agreement_on_nodes(machine);
    }

    /// Their communicator.
    pub fn communicator(&self) -> Communicator {
        self.private.communicator()
    }

    /// MPI has failed in a call on it, so it is not used any more.
    pub(super) fn give_up(&mut self) {
        self.private.give_up();
    }

    /// Takes the largest of everybody's words, place by place. All have as many. Collective.
    ///
    /// # Errors
    /// MPI's.
    pub(super) fn take_largest(&self, words: &mut [u64]) -> Result<(), Error> {
        let communicator = self.communicator();
        let mut received = vec![0; words.len()];
        for &round in &self.rounds {
            run(communicator, round, words, &mut received)?;
            if round.from.is_some() {
                let pairs = words.iter_mut().zip(&received);
                pairs.for_each(|(own, other)| *own = (*own).max(*other));
            }
        }
        Ok(())
    }
}

impl Agreement for Members {
    type Stop = Stop;

    fn all_agree(&self, yes: bool) -> Result<bool, Stop> {
        let mut objections = [u64::from(!yes)];
        self.take_largest(&mut objections)?;
        Ok(objections == [0])
    }

    fn abort(&self) {
        self.communicator().abort(1);
    }
}

fn run(
    communicator: Communicator,
    round: Round,
    words: &[u64],
    received: &mut [u64],
) -> Result<(), Error> {
    match (round.to, round.from) {
        (Some(to), Some(from)) => communicator.exchange_words(words, to, received, from),
        (Some(to), None) => communicator.send_words(words, to),
        (None, Some(from)) => communicator.receive_words(received, from),
        (None, None) => Ok(()),
    }
}
