//! The rounds in which the processes of a communicator agree on the largest of everybody's words.
//!
//! ```text
//! node:     up a binomial tree to its first process, the leader
//! leaders:  in round k = 0, ..., q-1 to leader + skip[k], from leader - skip[k], mod their number
//! node:     down the same tree
//! ```
//!
//! In each round a process sends the largest words that it knows, and takes the larger of these and
//! those that it receives. Any distance between leaders is a sum of different skips (Lemma 2 of the
//! paper on broadcast schedules), so after q rounds each of them has the largest of all. It may
//! have come twice, which changes nothing. Processes of one node are all leaders.
//!
//! Cost: ⌈log₂ n⌉ rounds between n nodes, and 2⌈log₂ m⌉ on a node of m processes.

use super::{Machine, Team};

/// What a process does at once: the ranks, where it sends or receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Round {
    /// Whom it sends to.
    pub to: Option<usize>,
    /// Whom it receives from.
    pub from: Option<usize>,
}

/// The rounds of a process of a team, as if each were on a node of its own.
#[must_use]
pub fn agreement(team: &Team) -> Vec<Round> {
    around(team).collect()
}

/// The rounds of a process, by nodes.
#[must_use]
pub fn agreement_on_nodes(machine: &Machine) -> Vec<Round> {
    if machine.nodes.count() == 1 {
        return agreement(&machine.node);
    }
    let up: Vec<_> = up(&machine.node).collect();
    let down = up.iter().rev().map(|round| Round {
        to: round.from,
        from: round.to,
    });
    let is_leader = machine.node.place() == 0;
    let across = is_leader.then(|| around(&machine.leaders));
    let across = across.into_iter().flatten();
    up.iter().copied().chain(across).chain(down).collect()
}

/// Up a binomial tree: from each process that is a power of two farther on, until it sends itself.
fn up(team: &Team) -> impl Iterator<Item = Round> {
    let (place, size) = (team.place(), team.size());
    let last = match place {
        0 => usize::BITS - 1,
        _ => place.trailing_zeros(),
    };
    let rounds = (0..=last).filter_map(move |bit| match place & 1 << bit {
        0 => (place + (1 << bit) < size).then_some((None, Some(place + (1 << bit)))),
        _ => Some((Some(place - (1 << bit)), None)),
    });
    rounds.map(|(to, from)| Round {
        to: to.map(|place| team.rank(place)),
        from: from.map(|place| team.rank(place)),
    })
}

/// By the skips of a circulant graph.
fn around(team: &Team) -> impl Iterator<Item = Round> {
    let (place, size, skips) = (team.place(), team.size(), team.skips());
    (0..skips.q()).map(move |round| {
        let skip = skips.skip(round);
        Round {
            to: Some(team.rank((place + skip) % size)),
            from: Some(team.rank((place + size - skip) % size)),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, VecDeque};
    use std::sync::Arc;

    use super::*;
    use crate::nodes::{Nodes, Placement};
    use crate::schedule::Rule;

    /// Runs the rounds of all processes, whose words are their own alone. A process goes on as soon
    /// as what it receives was sent.
    fn assert_all_agree(nodes: Nodes) {
        let p = nodes.processes();
        let nodes = Arc::new(nodes);
        let ranks: Vec<_> = (0..p).collect();
        let of = |place| {
            agreement_on_nodes(&Machine::new(nodes.clone(), &ranks, place, Rule::default()))
        };
        let mut left: Vec<VecDeque<_>> = (0..p).map(|place| of(place).into()).collect();
        let own = |rank: usize| [rank as u64, (p - rank) as u64, u64::from(rank == p / 2)];
        let mut words: Vec<_> = (0..p).map(own).collect();
        let mut sent = HashMap::<_, VecDeque<[u64; 3]>>::new();
        let mut is_sent = vec![false; p];
        loop {
            let mut has_moved = false;
            for rank in 0..p {
                let Some(round) = left[rank].front().copied() else {
                    continue;
                };
                if let Some(to) = round.to.filter(|_| !is_sent[rank]) {
                    sent.entry((rank, to)).or_default().push_back(words[rank]);
                    is_sent[rank] = true;
                }
                if let Some(from) = round.from {
                    let message = sent.get_mut(&(from, rank)).and_then(VecDeque::pop_front);
                    let Some(message) = message else { continue };
                    let pairs = words[rank].iter_mut().zip(message);
                    pairs.for_each(|(own, other)| *own = (*own).max(other));
                }
                left[rank].pop_front();
                is_sent[rank] = false;
                has_moved = true;
            }
            if !has_moved {
                break;
            }
        }
        assert!(left.iter().all(VecDeque::is_empty), "{nodes:?}: it hangs");
        assert!(sent.values().all(VecDeque::is_empty), "{nodes:?}: too many");
        let largest = [p as u64 - 1, p as u64, 1];
        assert!(words.iter().all(|words| *words == largest), "{nodes:?}");
    }

    #[test]
    fn all_have_the_largest_on_any_nodes() {
        let most = if cfg!(miri) { 7 } else { 40 };
        for p in 1..=most {
            for size in 1..=p {
                for placement in [Placement::Blocked, Placement::Cyclic, Placement::Shuffled] {
                    assert_all_agree(Nodes::of_size(p, size, placement));
                }
            }
        }
        if !cfg!(miri) {
            assert_all_agree(Nodes::of_size(1000, 7, Placement::Shuffled));
        }
    }

    /// Without nodes it is as if each process were on one of its own.
    #[test]
    fn a_team_agrees_as_nodes_of_one_process() {
        for p in [1, 2, 7, 16, 33] {
            let nodes = Arc::new(Nodes::of_size(p, 1, Placement::Blocked));
            let ranks: Vec<_> = (0..p).collect();
            for place in 0..p {
                let machine = Machine::new(nodes.clone(), &ranks, place, Rule::default());
                let team = Team::whole(p, place, Rule::default());
                assert_eq!(
                    agreement(&team),
                    agreement_on_nodes(&machine),
                    "{p} {place}"
                );
            }
        }
    }

    /// Between nodes each leader sends once in each of q rounds, and nobody else does.
    #[test]
    fn few_messages_cross_nodes() {
        let nodes = Arc::new(Nodes::of_size(17 * 5, 5, Placement::Blocked));
        let ranks: Vec<_> = (0..17 * 5).collect();
        for place in 0..17 * 5 {
            let machine = Machine::new(nodes.clone(), &ranks, place, Rule::default());
            let all = agreement_on_nodes(&machine);
            let crosses = |round: &&Round| round.to.is_some_and(|to| to / 5 != place / 5);
            let expected = if place % 5 == 0 { 5 } else { 0 };
            assert_eq!(all.iter().filter(crosses).count(), expected, "{place}");
            assert!(all.len() <= 5 + 2 * 3, "{place}");
        }
    }
}
