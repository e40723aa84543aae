//! How one call ended: who ran it, and what it took.

use strum::{EnumCount, IntoEnumIterator};

use crate::select::{Algorithm, Reason};

/// Who ran a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// circulant.
    Circulant,
    /// The MPI library.
    Native(Reason),
}

impl Outcome {
    pub(super) const COUNT: usize = 1 + Reason::COUNT;

    /// Who runs what circulant does not.
    pub(super) const NATIVE: &str = "native";

    pub(super) fn all() -> impl Iterator<Item = Outcome> {
        [Outcome::Circulant]
            .into_iter()
            .chain(Reason::iter().map(Outcome::Native))
    }

    pub(super) fn index(self) -> usize {
        match self {
            Outcome::Circulant => 0,
            Outcome::Native(reason) => 1 + reason as usize,
        }
    }

    pub(super) fn algorithm(self) -> &'static str {
        match self {
            Outcome::Circulant => "circulant",
            Outcome::Native(_) => Self::NATIVE,
        }
    }
}

/// The work of one call, or the sums over many.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Work {
    /// The bytes of the whole problem, as in [`Facts::bytes`](crate::select::Facts::bytes).
    pub bytes: u64,
    /// The time in the call.
    pub nanoseconds: u64,
    /// The communication rounds. 0 if the call went native.
    pub rounds: u64,
    /// The blocks into which the message was cut. 0 if the call went native.
    pub blocks: u64,
    /// How it ran, if it was one call of ours.
    pub algorithm: Option<Algorithm>,
}

impl Work {
    /// The call has run by `algorithm`.
    pub fn record(&mut self, algorithm: Algorithm, rounds: u64, blocks: u64) {
        self.algorithm = Some(algorithm);
        (self.rounds, self.blocks) = (rounds, blocks);
    }

    pub(super) fn seconds(&self) -> f64 {
        self.nanoseconds as f64 / 1e9
    }
}

/// A call, for tests.
#[cfg(test)]
pub(super) const CALL: Work = Work {
    bytes: 4_000_000,
    nanoseconds: 101_234_567,
    rounds: 128,
    blocks: 125,
    algorithm: Some(Algorithm::Circulant { blocks: 125 }),
};
