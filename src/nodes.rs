//! Which rank is on which node.

#![forbid(unsafe_code)]

use std::collections::HashMap;

use strum::{FromRepr, VariantNames};

/// How ranks are placed on nodes, where a setting says so.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromRepr, VariantNames)]
#[strum(serialize_all = "lowercase")]
#[repr(u64)]
pub enum Placement {
    /// Consecutive ranks are a node.
    #[default]
    Blocked,
    /// Consecutive ranks are on consecutive nodes.
    Cyclic,
    /// Ranks are on nodes without an order, of different sizes.
    Shuffled,
}

/// The nodes of a communicator, numbered by their lowest ranks, and the ranks of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// By node: its ranks, ascending.
    ranks: Vec<Vec<usize>>,
    /// By rank: its node, and its place among the ranks of that node.
    places: Vec<(usize, usize)>,
    /// The most ranks of a node.
    largest: usize,
}

impl Nodes {
    /// Ranks with the same key are on one node.
    pub fn of_keys(keys: &[u64]) -> Nodes {
        let mut known = HashMap::new();
        let (mut ranks, mut places) = (Vec::<Vec<usize>>::new(), Vec::new());
        for (rank, key) in keys.iter().enumerate() {
            let node = *known.entry(key).or_insert(ranks.len());
            if node == ranks.len() {
                ranks.push(Vec::new());
            }
            places.push((node, ranks[node].len()));
            ranks[node].push(rank);
        }
        let largest = ranks.iter().map(Vec::len).max().unwrap_or(0);
        Nodes {
            ranks,
            places,
            largest,
        }
    }

    /// Nodes of `size >= 1` ranks. One of them may have fewer; if they are shuffled, every other
    /// one.
    pub fn of_size(processes: usize, size: usize, placement: Placement) -> Nodes {
        let count = processes.div_ceil(size).max(1);
        let places = shuffled(processes);
        let key = |rank: usize| match placement {
            Placement::Blocked => rank / size,
            Placement::Cyclic => rank % count,
            Placement::Shuffled => {
                let place = places[rank];
                place / size + count * usize::from(place % (2 * size) == 0)
            }
        };
        let keys: Vec<_> = (0..processes).map(|rank| key(rank) as u64).collect();
        Nodes::of_keys(&keys)
    }

    /// How many nodes there are.
    pub fn count(&self) -> usize {
        self.ranks.len()
    }

    /// How many ranks there are.
    pub fn processes(&self) -> usize {
        self.places.len()
    }

    /// The most ranks of a node.
    pub fn largest(&self) -> usize {
        self.largest
    }

    /// ceil(log2) of the most ranks of a node: the rounds in which one block reaches all of them.
    pub fn depth(&self) -> usize {
        let most = self.largest.saturating_sub(1);
        (usize::BITS - most.leading_zeros()) as usize
    }

    /// The fewest ranks of a node.
    pub fn smallest(&self) -> usize {
        let sizes = self.ranks.iter().map(Vec::len);
        sizes.min().unwrap_or(0)
    }

    /// Whether all have as many ranks.
    pub fn are_equal(&self) -> bool {
        self.ranks.iter().all(|ranks| ranks.len() == self.largest)
    }

    /// The node of a rank.
    pub fn node(&self, rank: usize) -> usize {
        self.places[rank].0
    }

    /// The place of a rank among those of its node.
    pub fn place(&self, rank: usize) -> usize {
        self.places[rank].1
    }

    /// The ranks of a node, ascending.
    pub fn ranks(&self, node: usize) -> &[usize] {
        &self.ranks[node]
    }

    /// A lane: of each node the rank at `place`, if it has so many.
    pub fn lane(&self, place: usize) -> Vec<usize> {
        let ranks = self.ranks.iter();
        ranks
            .filter_map(|ranks| ranks.get(place).copied())
            .collect()
    }
}

/// The numbers below `processes` without an order.
fn shuffled(processes: usize) -> Vec<usize> {
    let mut all: Vec<_> = (0..processes).collect();
    all.sort_by_key(|&number| (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_where_its_key_says() {
        let placements: [&[u64]; 6] = [
            &[9],
            &[5, 5, 5],
            &[3, 1, 2],
            &[7, 7, 4, 4, 7, 4, 9],
            &[0, 1, 2, 0, 1, 2, 0, 1],
            &[],
        ];
        for keys in placements {
            let nodes = Nodes::of_keys(keys);
            for (rank, key) in keys.iter().enumerate() {
                let node = nodes.node(rank);
                assert_eq!(nodes.ranks(node)[nodes.place(rank)], rank);
                let same: Vec<_> = (0..keys.len())
                    .filter(|&other| keys[other] == *key)
                    .collect();
                assert_eq!(nodes.ranks(node), same, "{keys:?}");
            }
            let firsts: Vec<_> = (0..nodes.count())
                .map(|node| nodes.ranks(node)[0])
                .collect();
            assert!(
                firsts.is_sorted(),
                "nodes are numbered by their lowest ranks"
            );
        }
    }

    #[test]
    fn lanes_have_a_rank_of_each_node_that_is_large_enough() {
        let nodes = Nodes::of_keys(&[7, 7, 4, 4, 7, 4, 9]);
        assert_eq!(nodes.lane(0), [0, 2, 6]);
        assert_eq!(nodes.lane(1), [1, 3]);
        assert_eq!(nodes.lane(2), [4, 5]);
        assert!(nodes.lane(3).is_empty());
    }

    #[test]
    fn nodes_of_a_size_are_where_the_placement_says() {
        let ranks = |placement| {
            let nodes = Nodes::of_size(7, 3, placement);
            let ranks = (0..nodes.count()).map(|node| nodes.ranks(node).to_vec());
            ranks.collect::<Vec<_>>()
        };
        let blocked = [vec![0, 1, 2], vec![3, 4, 5], vec![6]];
        assert_eq!(ranks(Placement::Blocked), blocked);
        let cyclic = [vec![0, 3, 6], vec![1, 4], vec![2, 5]];
        assert_eq!(ranks(Placement::Cyclic), cyclic);
        let mut sizes: Vec<_> = ranks(Placement::Shuffled).iter().map(Vec::len).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [1, 1, 2, 3]);
        for placement in [Placement::Blocked, Placement::Cyclic] {
            assert_eq!(Nodes::of_size(4, 100, placement).count(), 1);
        }
    }
}
