//! Outstanding transfers, by slot. A transfer stays in its slot until it has ended: whoever asks
//! whether all have ended gets the truth, and memory is freed by that.

use super::SLOTS;

/// The sends, or the receives, of a transport. A transfer is what MPI calls a request.
pub struct Transfers<R> {
    slots: [R; SLOTS],
    /// What is in a slot that is free.
    none: R,
}

impl<R: Copy + PartialEq> Transfers<R> {
    /// All free. `none` is no transfer.
    pub fn new(none: R) -> Transfers<R> {
        Transfers {
            slots: [none; SLOTS],
            none,
        }
    }

    /// The place for a transfer in `slot`. None if there is no such slot, or it is not free.
    pub fn free(&mut self, slot: usize) -> Option<&mut R> {
        let none = self.none;
        let transfer = self.slots.get_mut(slot);
        transfer.filter(|transfer| **transfer == none)
    }

    /// The transfer in `slot`, if there is one.
    pub fn outstanding(&self, slot: usize) -> Option<R> {
        let transfer = self.slots.get(slot).copied();
        transfer.filter(|transfer| *transfer != self.none)
    }

    /// The transfer in `slot` has ended.
    pub fn end(&mut self, slot: usize) {
        if let Some(transfer) = self.slots.get_mut(slot) {
            *transfer = self.none;
        }
    }

    /// Whether no transfer is outstanding.
    pub fn is_idle(&self) -> bool {
        self.slots.iter().all(|transfer| *transfer == self.none)
    }

    /// All outstanding transfers.
    pub fn all(&mut self) -> impl Iterator<Item = &mut R> {
        let none = self.none;
        let transfers = self.slots.iter_mut();
        transfers.filter(move |transfer| **transfer != none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_holds_one_transfer_until_that_has_ended() {
        let mut transfers = Transfers::new(0);
        assert!(transfers.is_idle());
        *transfers.free(3).unwrap() = 7;
        assert!(transfers.free(3).is_none() && !transfers.is_idle());
        assert_eq!(
            (transfers.outstanding(3), transfers.outstanding(4)),
            (Some(7), None)
        );
        *transfers.free(SLOTS - 1).unwrap() = 8;
        assert_eq!(transfers.all().map(|transfer| *transfer).sum::<i32>(), 15);
        transfers.end(3);
        assert_eq!(transfers.outstanding(3), None);
        assert!(transfers.free(3).is_some() && !transfers.is_idle());
        transfers.end(SLOTS - 1);
        assert!(transfers.is_idle());
    }

    /// The settings and a plan may ask for more slots than there are.
    #[test]
    fn there_is_nothing_in_slots_that_there_are_not() {
        let mut transfers = Transfers::new(0);
        for slot in [SLOTS, 2 * SLOTS - 1, usize::MAX] {
            assert!(transfers.free(slot).is_none());
            assert_eq!(transfers.outstanding(slot), None);
            transfers.end(slot);
        }
        assert!(transfers.is_idle());
    }
}
