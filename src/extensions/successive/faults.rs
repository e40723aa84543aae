//! Errors of callbacks in successive broadcasts: how all processes learn of them, and of the same one.
//!
//! Every message starts with a header: the first fault that its sender knows of, and whether the operation
//! ends with this step. A process that knows of a fault calls no more callbacks, but goes on
//! sending: what it forwards gets the fault (so that others learn of it early), and the next step that it owns
//! is the last, for all. So
//!
//! - all processes go through the same steps, and no message is left: which step is the last is said
//!   by its owner's message alone, which reaches all, and a process sends nothing of later steps before it has seen it;
//! - the operation ends at most p steps after a fault, along trees in most cases a few.
//!
//! Faults of which the last messages said nothing (those in the last stores, above all) are found in an
//! agreement at the end. The first fault counts: that of the least step, then of the least rank.

/// Why the callbacks of one process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The step.
    pub step: usize,
    /// The process whose callback it was.
    pub rank: usize,
    /// What the callback returned: not 0.
    pub code: i32,
}

/// Bytes of a header.
pub const HEADER: usize = 16;

/// Whether more steps follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// They do.
    GoesOn,
    /// This was the last for all processes.
    Ends,
}

/// Which fault came first, and no fault after all: the step from bit 31 on, the rank below.
const NONE: u64 = u64::MAX;
const LAST: u64 = 1 << 63;

impl Fault {
    /// Steps and ranks are less than 2^31, so that bit 62 is clear even in the greatest key.
    fn key(self) -> u64 {
        (self.step as u64) << 31 | self.rank as u64
    }

    fn of(key: u64, code: u64) -> Fault {
        Fault {
            step: (key >> 31) as usize,
            rank: (key & ((1 << 31) - 1)) as usize,
            code: code as u32 as i32,
        }
    }
}

/// The faults that one process knows of.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    rank: usize,
    first: Option<Fault>,
    /// Whether a step was the last for all.
    ended: bool,
}

impl Faults {
    /// Of process `rank`, which knows of none.
    pub fn new(rank: usize) -> Faults {
        Faults {
            rank,
            first: None,
            ended: false,
        }
    }

    /// Whether a step was the last for all processes: all that have gone through it know.
    pub fn have_ended(&self) -> bool {
        self.ended
    }

    /// Whether it knows of none: then callbacks are called.
    pub fn are_none(&self) -> bool {
        self.first.is_none()
    }

    /// What a callback of this process returned in `step`.
    pub fn note(&mut self, step: usize, code: i32) {
        let rank = self.rank;
        if code != 0 {
            self.learn(Fault { step, rank, code });
        }
    }

    fn learn(&mut self, fault: Fault) {
        if self.first.is_none_or(|first| fault.key() < first.key()) {
            self.first = Some(fault);
        }
    }

    /// For the agreement at the end: a number that is the less the earlier the fault, and its code.
    pub fn words(&self) -> [u64; 2] {
        match self.first {
            Some(fault) => [fault.key(), u64::from(fault.code as u32)],
            None => [NONE, 0],
        }
    }

    /// The code of the first fault of all processes' [`words`](Faults::words), or 0.
    pub fn agreed(words: impl Iterator<Item = [u64; 2]>) -> i32 {
        let first = words.min().filter(|words| words[0] != NONE);
        first.map_or(0, |[key, code]| Fault::of(key, code).code)
    }

    /// The header of a step that this process owns.
    pub fn own_header(&mut self) -> ([u8; HEADER], Course) {
        match self.first {
            None => (encode([NONE, 0]), Course::GoesOn),
            Some(_) => {
                self.ended = true;
                let [key, code] = self.words();
                (encode([key | LAST, code]), Course::Ends)
            }
        }
    }

    /// Takes in the header of a message that arrived; returns what it says when the message is sent on.
    pub fn merge(&mut self, header: [u8; HEADER]) -> ([u8; HEADER], Course) {
        let [word, code] = decode(header);
        let course = if word != NONE && word & LAST != 0 {
            self.ended = true;
            Course::Ends
        } else {
            Course::GoesOn
        };
        if word != NONE {
            self.learn(Fault::of(word & !LAST, code));
        }
        let [key, code] = self.words();
        let last = if course == Course::Ends { LAST } else { 0 };
        (encode([key | last, code]), course)
    }
}

fn encode(words: [u64; 2]) -> [u8; HEADER] {
    (u128::from(words[1]) << 64 | u128::from(words[0])).to_le_bytes()
}

fn decode(header: [u8; HEADER]) -> [u64; 2] {
    let both = u128::from_le_bytes(header);
    // A code has 32 bits.
    [both as u64, u64::from((both >> 64) as u32)]
}
