//! How the messages of a stage are cut into blocks: evenly; in strips; or evenly, and each block
//! into the parts that the lanes of nodes carry.
//!
//! **Strips** leave the bits of a reduction alone: the result does not depend on how many blocks
//! there are. In Träff, *Optimal Broadcast Schedules in Logarithmic Time*, Algorithm 1, process r
//! receives block b in the round whose schedule entry is b + x modulo q, with x = (q - (n-1) mod q)
//! mod q (see [`Broadcast`](crate::plan::Broadcast)). So of n blocks, all with the same b mod q go
//! along one tree, in the same order of arrivals, and so do their partial results in the reversal.
//! Only the last block has a tree of its own, since larger numbers stand for it, too.
//!
//! ```text
//! n = q, 2q, 3q, ... blocks, and an empty last one: n + 1 blocks, so x = 0
//! the message is cut into q strips, and each strip into n/q blocks
//! block b < n is block floor(b / q) of strip b mod q; block n has no units
//! ```
//!
//! Whatever n is, an element is in the same strip, and its operands are combined along the same
//! tree. So how many blocks there are may depend on a clock, where results have to be the same in
//! each run.
//!
//! Cost: one round more than with n blocks, in which nothing is sent.

use std::ops::Range;

use crate::plan::{Block, block_range};

/// How the messages of a stage are cut into blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cutting {
    /// Evenly.
    #[default]
    Even,
    /// Into so many strips, q, and these evenly. The last block is empty.
    Strips(usize),
    /// Evenly, and each block evenly into so many parts: message j is part j of every block.
    Parts(usize),
}

impl Cutting {
    /// In strips for q phases, if n is a multiple of q. With one phase there is one tree.
    pub fn in_strips(n: usize, q: usize) -> Cutting {
        if q > 1 && n > 0 && n % q == 0 {
            Cutting::Strips(q)
        } else {
            Cutting::Even
        }
    }

    /// The blocks of a plan for n blocks with data.
    pub fn blocks_of_plan(self, n: usize) -> usize {
        match self {
            Cutting::Even | Cutting::Parts(_) => n,
            Cutting::Strips(_) => n + 1,
        }
    }

    /// The units of a block of a message of `length` units.
    #[inline]
    pub(super) fn range(self, block: Block, length: usize) -> Range<usize> {
        match self {
            Cutting::Even => block.range(length),
            Cutting::Strips(q) => {
                let n = self.with_data(block.of);
                if block.index == n {
                    return length..length;
                }
                block_range(length, n, block.index % q * (n / q) + block.index / q)
            }
            Cutting::Parts(parts) => {
                let whole = block.range(length);
                let part = block_range(whole.len(), parts, block.message);
                whole.start + part.start..whole.start + part.end
            }
        }
    }

    /// n, if a plan has so many blocks.
    pub(super) fn with_data(self, blocks: usize) -> usize {
        match self {
            Cutting::Even | Cutting::Parts(_) => blocks,
            Cutting::Strips(_) => blocks - 1,
        }
    }

    /// The most units of a block, in a message of `length` units, if a plan has so many blocks.
    pub fn longest(self, blocks: usize, length: usize) -> usize {
        let block = length.div_ceil(self.with_data(blocks).max(1));
        match self {
            Cutting::Parts(parts) => block.div_ceil(parts),
            Cutting::Even | Cutting::Strips(_) => block,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Stages, consecutive};
    use super::*;
    use crate::plan::{Plan, Round};
    use crate::schedule::Rule;
    use crate::team::Team;

    /// The transfers of each unit, in the order of the rounds: who sends it to whom.
    fn transfers(p: usize, add: impl Fn(&mut Stages, &Team)) -> Vec<Vec<(usize, usize)>> {
        let mut all: Vec<Vec<(usize, usize, usize)>> = Vec::new();
        for rank in 0..p {
            let mut stages = Stages::default();
            add(&mut stages, &Team::whole(p, rank, Rule::Halving));
            for stage in stages.as_slice() {
                for index in 0..stage.plan.shape().rounds {
                    let mut round = Round::default();
                    stage.plan.fill(index, &mut round);
                    for sent in &round.sends {
                        let span = stage.view.span(sent.block);
                        let (start, units) = (span.input, span.length);
                        all.resize(all.len().max(start + units), Vec::new());
                        for unit in &mut all[start..start + units] {
                            unit.push((index, rank, round.to));
                        }
                    }
                }
            }
        }
        let in_order = |mut unit: Vec<(usize, usize, usize)>| {
            unit.sort_unstable();
            unit.into_iter().map(|(_, from, to)| (from, to)).collect()
        };
        all.into_iter().map(in_order).collect()
    }

    /// What each process receives of a unit, in order.
    fn arrivals(p: usize, transfers: &[Vec<(usize, usize)>]) -> Vec<Vec<Vec<usize>>> {
        let at = |unit: &Vec<(usize, usize)>, rank| {
            let of_rank = unit.iter().filter(|(_, to)| *to == rank);
            of_rank.map(|(from, _)| *from).collect()
        };
        transfers
            .iter()
            .map(|unit| (0..p).map(|rank| at(unit, rank)).collect())
            .collect()
    }

    const PROCESSES: [usize; 11] = [2, 3, 4, 5, 7, 9, 11, 16, 17, 31, 33];

    #[test]
    fn a_reduction_combines_alike_in_any_number_of_blocks() {
        for p in PROCESSES {
            let q = (usize::BITS - (p - 1).leading_zeros()) as usize;
            for root in [0, p / 2, p - 1] {
                let of = |n: usize| {
                    arrivals(
                        p,
                        &transfers(p, |stages, team| {
                            stages.reduction(
                                team,
                                root,
                                (n, Cutting::in_strips(n, q)),
                                0..97,
                                false,
                            );
                        }),
                    )
                };
                let expected = of(q);
                assert_eq!(expected.len(), 97);
                for times in [2, 3, 5, 40] {
                    assert!(of(times * q) == expected, "p={p} root={root} n={times} q");
                }
            }
        }
    }

    #[test]
    fn a_reduce_scatter_combines_alike_in_any_number_of_blocks() {
        for p in PROCESSES {
            let q = (usize::BITS - (p - 1).leading_zeros()) as usize;
            let lengths = (0..p).map(|rank| rank % 3 * 20 + 1);
            let of = |n: usize| {
                arrivals(
                    p,
                    &transfers(p, |stages, team| {
                        let messages = consecutive(lengths.clone());
                        stages.pipelined_reduce_scatter(
                            team,
                            messages,
                            (n, Cutting::in_strips(n, q)),
                            false,
                        );
                    }),
                )
            };
            let expected = of(q);
            for times in [2, 3, 7] {
                assert!(of(times * q) == expected, "p={p} n={times} q");
            }
        }
    }

    /// Cut evenly, they are not combined alike: otherwise the tests above would show nothing.
    #[test]
    fn blocks_that_are_even_are_combined_otherwise() {
        let of = |n: usize| {
            arrivals(
                16,
                &transfers(16, |stages, team| {
                    stages.reduction(team, 0, (n, Cutting::Even), 0..97, false);
                }),
            )
        };
        assert!(of(4) != of(8));
    }

    /// Every unit is in one block of one message, whatever the length.
    #[test]
    fn blocks_are_a_partition() {
        let strips = [(2, 2), (3, 3), (12, 4), (40, 5), (300, 6)];
        let strips = strips.map(|(n, q)| (Cutting::in_strips(n, q), n, 1));
        let parts = [(1, 1), (1, 4), (7, 2), (40, 3), (300, 32)];
        let parts = parts.map(|(n, parts)| (Cutting::Parts(parts), n, parts));
        for (cutting, n, messages) in strips.into_iter().chain(parts) {
            let of = cutting.blocks_of_plan(n);
            for length in [0, 1, 2, 7, 100, 4_000_001] {
                let blocks = (0..of).flat_map(|index| {
                    (0..messages).map(move |message| Block { message, index, of })
                });
                let ranges = blocks.map(|block| cutting.range(block, length));
                let mut ranges: Vec<_> = ranges.collect();
                let longest = ranges.iter().map(ExactSizeIterator::len).max();
                assert_eq!(longest, Some(cutting.longest(of, length)), "{cutting:?}");
                ranges.sort_by_key(|range| (range.start, range.end));
                let end = ranges.iter().fold(0, |end, range| {
                    assert_eq!(range.start, end, "{n} {cutting:?} {length}");
                    range.end
                });
                assert_eq!(end, length);
            }
        }
    }

    #[test]
    fn one_tree_needs_no_strips() {
        assert_eq!(Cutting::in_strips(4, 1), Cutting::Even);
        assert_eq!(Cutting::in_strips(7, 4), Cutting::Even);
    }

    #[test]
    fn no_blocks_need_no_strips() {
        assert_eq!(Cutting::in_strips(0, 4), Cutting::Even);
        assert_eq!(Cutting::in_strips(4, 4), Cutting::Strips(4));
        assert_eq!(Cutting::in_strips(2, 2), Cutting::Strips(2));
    }
}
