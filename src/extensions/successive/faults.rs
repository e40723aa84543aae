//! Errors of callbacks in successive broadcasts: all processes learn of them and return the same
//! one.
//!
//! Every message starts with a header. It holds the first fault that the sender knows of, and says
//! whether this step is the last. A process that knows of a fault calls no more callbacks, but it
//! keeps sending. It puts the fault into the headers that it forwards, so others learn of it early.
//! The next step that it owns is the last step for all processes. So
//!
//! - all processes run the same steps, and no message is left over: only the owner's message says
//!   which step is the last, it reaches every process, and a process sends nothing of later steps
//!   before it has seen that message;
//! - the operation ends at most p steps after a fault; along trees it mostly ends after a few.
//!
//! Some faults are in no message, above all those of the last stores. An agreement at the end finds
//! them. The first fault counts: that of the least step, and among those that of the least rank.

/// A fault in two words: its key, and the code that the callback returned. The key has the step
/// from bit 31 on, and the rank below. Both are less than 2^31. In a header, bit 63 of the key says
/// whether this step is the last.
pub type Header = [u64; 2];

/// No fault. Its key is greater than that of any fault.
const NONE: Header = [LAST - 1, 0];
const LAST: u64 = 1 << 63;

/// The faults that one process knows of.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    rank: usize,
    first: Header,
    have_ended: bool,
}

impl Faults {
    /// For process `rank`, which knows of no fault.
    pub fn new(rank: usize) -> Faults {
        Faults {
            rank,
            first: NONE,
            have_ended: false,
        }
    }

    /// Whether a step was the last for all processes. All that went through it know.
    pub fn have_ended(&self) -> bool {
        self.have_ended
    }

    /// Whether this process knows of no fault. Only then it calls callbacks.
    pub fn are_none(&self) -> bool {
        self.first == NONE
    }

    /// Takes the code that a callback of this process returned in `step`.
    pub fn note(&mut self, step: usize, code: i32) {
        if code != 0 {
            let key = (step as u64) << 31 | self.rank as u64;
            self.first = self.first.min([key, u64::from(code as u32)]);
        }
    }

    /// The first fault, for the agreement at the end.
    pub fn first(&self) -> Header {
        self.first
    }

    /// The code of the first fault on any process, or 0.
    pub fn agreed(firsts: impl Iterator<Item = Header>) -> i32 {
        firsts.min().map_or(0, |[_, code]| code as i32)
    }

    /// The header of a step that this process owns.
    pub fn own_header(&mut self) -> Header {
        self.have_ended = !self.are_none();
        self.header()
    }

    /// Takes the header of a message that arrived. Returns the header to forward the message with.
    pub fn merge(&mut self, [key, code]: Header) -> Header {
        self.have_ended = key & LAST != 0;
        self.first = self.first.min([key & !LAST, code]);
        self.header()
    }

    fn header(&self) -> Header {
        let [key, code] = self.first;
        [if self.have_ended { key | LAST } else { key }, code]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a process that has noted these faults, and what another makes of it.
    fn forwarded(noted: &[(usize, i32)], own: bool) -> (Header, Faults) {
        let (mut first, mut second) = (Faults::new(3), Faults::new(1));
        noted
            .iter()
            .for_each(|&(step, code)| first.note(step, code));
        let header = if own {
            first.own_header()
        } else {
            first.merge(NONE)
        };
        (second.merge(header), second)
    }

    #[test]
    fn a_header_brings_the_first_fault_and_whether_it_ends() {
        const MOST: usize = (1 << 31) - 1;
        for (step, code) in [(0, 1), (7, -1), (MOST, i32::MIN), (1, i32::MAX)] {
            for own in [false, true] {
                let (header, faults) = forwarded(&[(step, code)], own);
                assert_eq!(faults.have_ended(), own, "only an owner ends the operation");
                assert!(!faults.are_none());
                assert_eq!(Faults::agreed([faults.first()].into_iter()), code);
                assert_eq!(header[0] & !LAST, (step as u64) << 31 | 3);
                assert_eq!(header[0] & LAST != 0, own);
            }
        }
    }

    #[test]
    fn without_a_fault_nothing_ends() {
        for own in [false, true] {
            let (header, faults) = forwarded(&[(4, 0)], own);
            assert_eq!((header, faults.first()), (NONE, NONE));
            assert!(faults.are_none() && !faults.have_ended());
        }
        assert_eq!(Faults::agreed(std::iter::empty()), 0);
        assert_eq!(Faults::agreed([NONE, NONE].into_iter()), 0);
    }

    /// The least step, and of one step the least rank, whoever hears of it in which order.
    #[test]
    fn the_first_fault_counts() {
        let of = |rank, step, code| {
            let mut faults = Faults::new(rank);
            faults.note(step, code);
            faults.first()
        };
        let (early, later, other) = (of(5, 2, 20), of(0, 3, 30), of(6, 2, 60));
        for order in [[early, later, other], [other, later, early]] {
            assert_eq!(Faults::agreed(order.into_iter()), 20);
            let mut faults = Faults::new(9);
            let headers = order.map(|header| faults.merge(header));
            assert_eq!((headers[2], faults.first()), (early, early));
        }
        // A code does not decide: -1 is the greatest of all as a word.
        assert_eq!(Faults::agreed([of(1, 2, -1), of(2, 2, 1)].into_iter()), -1);
        let mut faults = Faults::new(4);
        faults.note(6, 1);
        faults.note(5, 2);
        faults.note(7, 3);
        assert_eq!(Faults::agreed([faults.first()].into_iter()), 2);
    }
}
