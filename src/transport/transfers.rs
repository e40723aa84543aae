//! Outstanding transfers, by slot. A transfer stays in its slot until it has ended: whoever asks
//! whether all have ended gets the truth, and memory is freed by that.

use super::SLOTS;

/// The sends, or the receives, of a transport. A transfer is what MPI calls a request.
pub struct Slots<R> {
    transfers: [R; SLOTS],
    /// What is in a slot that is free.
    none: R,
}

impl<R: Copy + PartialEq> Slots<R> {
    /// All free. `none` is no transfer.
    pub fn new(none: R) -> Slots<R> {
        let transfers = [none; SLOTS];
        Slots { transfers, none }
    }

    /// The place for a transfer in `slot`. None if there is no such slot, or it is not free.
    pub fn free(&mut self, slot: usize) -> Option<&mut R> {
        let none = self.none;
        let transfer = self.transfers.get_mut(slot);
        transfer.filter(|transfer| **transfer == none)
    }

    /// The transfer in `slot`, if there is one.
    pub fn outstanding(&self, slot: usize) -> Option<R> {
        let transfer = self.transfers.get(slot).copied();
        transfer.filter(|transfer| *transfer != self.none)
    }

    /// The transfer in `slot` has ended.
    pub fn end(&mut self, slot: usize) {
        if let Some(transfer) = self.transfers.get_mut(slot) {
            *transfer = self.none;
        }
    }

    /// Whether no transfer is outstanding.
    pub fn is_idle(&self) -> bool {
        self.transfers.iter().all(|transfer| *transfer == self.none)
    }

    /// All outstanding transfers.
    pub fn all(&mut self) -> impl Iterator<Item = &mut R> {
        let none = self.none;
        let transfers = self.transfers.iter_mut();
        transfers.filter(move |transfer| **transfer != none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_holds_one_transfer_until_that_has_ended() {
        let mut slots = Slots::new(0);
        assert!(slots.is_idle());
        *slots.free(3).unwrap() = 7;
        assert!(slots.free(3).is_none() && !slots.is_idle());
        assert_eq!(
            (slots.outstanding(3), slots.outstanding(4)),
            (Some(7), None)
        );
        *slots.free(SLOTS - 1).unwrap() = 8;
        assert_eq!(slots.all().map(|transfer| *transfer).sum::<i32>(), 15);
        slots.end(3);
        assert_eq!(slots.outstanding(3), None);
        assert!(slots.free(3).is_some() && !slots.is_idle());
        slots.end(SLOTS - 1);
        assert!(slots.is_idle());
    }

    /// The settings and a plan may ask for more slots than there are.
    #[test]
    fn there_is_nothing_in_slots_that_there_are_not() {
        let mut slots = Slots::new(0);
        for slot in [SLOTS, 2 * SLOTS - 1, usize::MAX] {
            assert!(slots.free(slot).is_none());
            assert_eq!(slots.outstanding(slot), None);
            slots.end(slot);
        }
        assert!(slots.is_idle());
    }
}
