//! Choices that the bytes of an input make, one byte each, so that a change of one byte changes one
//! choice. When all bytes are read, the first alternative is chosen.

use strum::VariantArray;

use circulant::engine::{Pacing, Synchronous};
use circulant::plan::Division;
use circulant::schedule::Rule;

use crate::serial::{Drawn, DrawnCall, DrawnStage, KINDS};
use crate::simulator::{Chance, Intergroup};

pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// A number below `end`, which is 256 at most.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// A number of so many bits as the first byte says, by the next eight.
    pub fn number(&mut self) -> u64 {
        let bits = self.below(64);
        let bytes = std::array::from_fn(|_| self.byte());
        u64::from_le_bytes(bytes) & (u64::MAX >> (63 - bits))
    }

    fn is_so(&mut self) -> bool {
        self.below(2) == 1
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// At least one.
    fn several<T>(&mut self, most: usize, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = 1 + self.below(most);
        (0..count).map(|_| one(self)).collect()
    }

    fn pacing(&mut self) -> Pacing {
        Pacing {
            window: 1 + self.below(64),
            sends: 1 + self.below(64),
            synchronous: self.of(&[Synchronous::None, Synchronous::Unpaced, Synchronous::All]),
        }
    }

    /// All bytes that are left, in order.
    fn chance(&mut self) -> Option<Chance> {
        let is_drawn = self.below(8) != 7;
        let seed = self.byte().into();
        let chosen = self.0.iter().rev().copied().collect();
        is_drawn.then_some(Chance { chosen, seed })
    }

    pub fn calls(&mut self) -> Drawn {
        let processes = 1 + self.below(40);
        Drawn {
            processes,
            keeps_order: self.is_so(),
            pacing: self.pacing(),
            calls: self.several(3, |choices| choices.call(processes)),
            chance: self.chance(),
        }
    }

    fn call(&mut self, processes: usize) -> DrawnCall {
        DrawnCall {
            ranks: self.team(processes),
            rule: self.of(<Rule as VariantArray>::VARIANTS),
            nodes: self.several(16, |choices| choices.below(9) as u64),
            length: self.below(120),
            stages: self.several(3, Self::stage),
        }
    }

    /// All, those at a distance, or any in any order.
    fn team(&mut self, processes: usize) -> Vec<usize> {
        let mut left: Vec<_> = (0..processes).collect();
        match self.below(3) {
            0 => left,
            1 => {
                let (first, step) = (self.below(processes), 1 + self.below(3));
                left.drain(first..).step_by(step).collect()
            }
            _ => {
                let count = 1 + self.below(processes);
                let take = |_| left.swap_remove(self.below(left.len()));
                (0..count).map(take).collect()
            }
        }
    }

    fn stage(&mut self) -> DrawnStage {
        DrawnStage {
            kind: self.of(&KINDS),
            root: self.below(40),
            blocks: 1 + self.below(19),
            segment: 1 + self.below(39),
            in_place: self.is_so(),
            weights: match self.is_so() {
                true => Some(self.several(8, |choices| choices.below(5))),
                false => None,
            },
        }
    }

    pub fn intergroup(&mut self) -> Intergroup {
        let division = self.of(&[Division::Evenly, Division::ByBlocks]);
        let lengths = [0, 1].map(|_| match division {
            Division::Evenly => self.several(15, |choices| choices.below(30)),
            Division::ByBlocks => {
                let length = self.below(30);
                self.several(15, |_| length)
            }
        });
        Intergroup {
            lengths,
            division,
            segment: 1 + self.below(39),
            rule: self.of(<Rule as VariantArray>::VARIANTS),
            pacing: self.pacing(),
            chance: self.chance(),
        }
    }
}
