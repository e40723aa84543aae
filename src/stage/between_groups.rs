//! Stages on an inter-communicator. The processes of both groups are numbered through.

use std::ops::Range;
use std::sync::Arc;

use super::{Span, Stages};
use crate::plan::{Exchange, Part, Parts, Stream, numbered_through};
use crate::team::{Graph, Ranks, Team};

/// The two groups: the one that leads, and the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Their sizes.
    pub sizes: [usize; 2],
    /// This process's group, 0 or 1.
    pub own: usize,
    /// Its rank there.
    pub rank: usize,
}

impl Groups {
    /// The group that this process is not in.
    pub fn other(&self) -> usize {
        1 - self.own
    }

    /// The processes of both.
    pub fn all(&self) -> usize {
        self.sizes[0] + self.sizes[1]
    }

    /// The processes of a group, numbered through.
    pub fn of(&self, group: usize) -> Range<usize> {
        numbered_through(self.sizes, group)
    }

    /// This process, numbered through.
    pub fn place(&self) -> usize {
        self.of(self.own).start + self.rank
    }

    /// The team of the process of rank `root` in `group` and all processes of the other group; the
    /// root is process 0. This process is one of them.
    pub fn rooted(&self, group: usize, root: usize, graph: Arc<Graph>) -> Team {
        let (root, others) = (self.of(group).start + root, self.of(1 - group));
        let place = if self.own == group { 0 } else { self.rank + 1 };
        let ranks: Vec<_> = [root].into_iter().chain(others).collect();
        Team::new(graph, Ranks::of(&ranks), place)
    }
}

impl Stages {
    /// The streams of the two groups, each to all processes of the other. In the input, this
    /// process's block of its own group's stream starts at 0; in the result, the other group's
    /// stream does. `whole` is the team of all processes, `group` that of this process's group.
    pub fn allgather_between(
        &mut self,
        groups: &Groups,
        [whole, group]: [&Team; 2],
        streams: &[Stream; 2],
        segment: usize,
    ) {
        let parts = Arc::new(Parts::new(streams, segment));
        let block = streams[groups.own].block(groups.rank);
        let span = |(message, part): (usize, &Part)| {
            let is_own = usize::from(parts.is_of_second(message)) == groups.own;
            Span {
                // Of no importance where another process of the group sends the part.
                input: part.start.saturating_sub(block.start),
                result: if is_own { 0 } else { part.start },
                length: part.length,
            }
        };
        self.add(whole, false, parts.iter().enumerate().map(span), |_| {
            Exchange::new(parts.clone(), groups.sizes[0], groups.place())
        });
        self.allgather_segments(group, &streams[groups.other()], segment);
    }

    /// The segments of a stream to all processes of the team that receives it.
    pub fn allgather_segments(&mut self, team: &Team, stream: &Stream, segment: usize) {
        let segments = (0..stream.receivers()).map(|receiver| Span::at(stream.segment(receiver)));
        self.allgather(team, segments, segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Rule;

    /// The root is process 0, and the processes of the other group follow in their order. All of
    /// them have the same team, each at its own place.
    #[test]
    fn a_root_precedes_the_other_group() {
        let sizes = [3, 5];
        for group in 0..2 {
            let (first, other) = ([0, 3][group], [3..8, 0..3][group].clone());
            for root in 0..sizes[group] {
                let expected: Vec<_> = [first + root].into_iter().chain(other.clone()).collect();
                let graph = Arc::new(Graph::new(expected.len(), Rule::default()));
                let members = (0..sizes[1 - group]).map(|rank| (1 - group, rank));
                for (place, (own, rank)) in [(group, root)].into_iter().chain(members).enumerate() {
                    let groups = Groups { sizes, own, rank };
                    let team = groups.rooted(group, root, graph.clone());
                    let ranks: Vec<_> =
                        (0..team.size()).map(|process| team.rank(process)).collect();
                    assert_eq!((ranks, team.place()), (expected.clone(), place));
                    assert_eq!(groups.place(), expected[place]);
                }
            }
        }
    }

    #[test]
    fn all_are_the_processes_of_both_groups() {
        for sizes in [[1, 1], [3, 5], [5, 3], [17, 2]] {
            for own in 0..2 {
                let groups = Groups {
                    sizes,
                    own,
                    rank: 0,
                };
                let of_both: Vec<_> = groups.of(0).chain(groups.of(1)).collect();
                assert_eq!(of_both, (0..groups.all()).collect::<Vec<_>>());
                assert_eq!(
                    groups.of(own).len() + groups.of(groups.other()).len(),
                    groups.all()
                );
            }
        }
    }
}
