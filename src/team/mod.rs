//! Teams: lists of ranks of one communicator that a plan runs on.
//!
//! The processes of a plan are numbered 0 to p - 1. A [`Team`] says which rank each of them is, and
//! which of them this process is. It also keeps what was computed for its size: skips and
//! schedules. The whole communicator, the ranks of a node, one rank of each node, a group of an
//! inter-communicator, a root and the other group: all are teams. A team costs no communication.

#![forbid(unsafe_code)]

mod agreement;
mod machine;

pub use agreement::{Round, agreement, agreement_on_nodes};
pub use machine::Machine;

use std::sync::Arc;

use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use crate::plan::{Routes, Schedules};
use crate::schedule::{Rule, Sequence, Skips, Table};

/// Which rank each process of a team is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// Process i is rank `first + i * stride`.
    Strided {
        /// The rank of process 0.
        first: usize,
        /// From one process to the next.
        stride: usize,
    },
    /// Process i is the i-th of these.
    Listed(Arc<[usize]>),
}

impl Ranks {
    /// Process i is rank i.
    pub const ALL: Ranks = Ranks::from(0);

    /// Process i is rank `first + i`.
    pub const fn from(first: usize) -> Ranks {
        Ranks::Strided { first, stride: 1 }
    }

    /// A table of `ranks`, or the stride that they have.
    pub fn of(ranks: &[usize]) -> Ranks {
        let first = ranks.first().copied().unwrap_or(0);
        let stride = match ranks {
            [a, b, ..] if b > a => b - a,
            _ => 1,
        };
        let is_strided = |(index, &rank): (usize, &usize)| rank == first + index * stride;
        if ranks.iter().enumerate().all(is_strided) {
            Ranks::Strided { first, stride }
        } else {
            Ranks::Listed(ranks.into())
        }
    }
}

/// A list of ranks, with this process's place in it.
#[derive(Clone, Debug)]
pub struct Team {
    ranks: Ranks,
    /// Which process of the team this one is.
    place: usize,
    graph: Arc<Graph>,
    kept: Arc<Kept>,
}

/// What a process keeps of the calls on a team.
#[derive(Debug, Default)]
struct Kept {
    /// Schedules for the roots seen last, the latest first.
    schedules: Mutex<Vec<Arc<Schedules>>>,
    /// The messages with data of the latest call, for its memory.
    filled: Mutex<Arc<Vec<usize>>>,
}

/// The roots whose schedules are kept, the latest first.
const ROOTS: usize = 16;

impl Team {
    /// The processes of `graph`, of which this one is `place`, at these ranks.
    pub fn new(graph: Arc<Graph>, ranks: Ranks, place: usize) -> Team {
        Team {
            ranks,
            place,
            graph,
            kept: Arc::default(),
        }
    }

    /// `size` processes, of which this one is `place`, that are the ranks from 0 on.
    pub fn whole(size: usize, place: usize, rule: Rule) -> Team {
        Team::new(Arc::new(Graph::new(size, rule)), Ranks::ALL, place)
    }

    /// The number of its processes, p.
    pub fn size(&self) -> usize {
        self.graph.processes()
    }

    /// Which of its processes this one is.
    pub fn place(&self) -> usize {
        self.place
    }

    /// The rank of process `process` on the communicator.
    pub fn rank(&self, process: usize) -> usize {
        match &self.ranks {
            Ranks::Strided { first, stride } => first + process * stride,
            Ranks::Listed(ranks) => ranks[process],
        }
    }

    /// The skips for its size.
    pub fn skips(&self) -> Arc<Skips> {
        self.graph.skips()
    }

    /// The skips of the algorithms with one block.
    pub fn sequence(&self) -> Arc<Sequence> {
        self.graph.sequence()
    }

    /// The receive schedules of all its processes, computed when first needed.
    pub fn table(&self) -> Arc<Table> {
        self.graph.table()
    }

    /// The routes of an all-to-all exchange, computed when first needed.
    pub fn routes(&self) -> Arc<Routes> {
        self.graph.routes()
    }

    /// This process's schedules for `root`, computed unless they are kept.
    pub fn schedules(&self, root: usize) -> Arc<Schedules> {
        let mut kept = self.kept.schedules.lock();
        match kept.iter().position(|schedules| schedules.root() == root) {
            Some(index) => kept[..=index].rotate_right(1),
            None => {
                kept.truncate(ROOTS - 1);
                let schedules = Schedules::new(&self.skips(), self.place, root);
                kept.insert(0, Arc::new(schedules));
            }
        }
        kept[0].clone()
    }

    /// The messages, ascending, whose length is not 0.
    pub fn filled(&self, lengths: impl Iterator<Item = usize>) -> Arc<Vec<usize>> {
        let mut kept = self.kept.filled.lock();
        // A call in progress may still use the list.
        if Arc::get_mut(&mut kept).is_none() {
            *kept = Arc::default();
        }
        if let Some(filled) = Arc::get_mut(&mut kept) {
            let lengths = lengths.enumerate();
            filled.clear();
            filled.extend(
                lengths
                    .filter(|&(_, length)| length > 0)
                    .map(|(message, _)| message),
            );
        }
        kept.clone()
    }
}

/// The circulant graph on p processes: what is computed once for their number, and shared by all
/// teams of that size.
#[derive(Debug)]
pub struct Graph {
    skips: Arc<Skips>,
    /// The skips of the algorithms with one block.
    sequence: Arc<Sequence>,
    table: OnceCell<Arc<Table>>,
    routes: OnceCell<Arc<Routes>>,
}

impl Graph {
    /// For `processes >= 1`. `rule` is that of the algorithms with one block.
    pub fn new(processes: usize, rule: Rule) -> Graph {
        Graph {
            skips: Arc::new(Skips::new(processes)),
            sequence: Arc::new(Sequence::of_rule(rule, processes)),
            table: OnceCell::new(),
            routes: OnceCell::new(),
        }
    }

    /// p.
    pub fn processes(&self) -> usize {
        self.skips.processes()
    }

    fn skips(&self) -> Arc<Skips> {
        self.skips.clone()
    }

    fn sequence(&self) -> Arc<Sequence> {
        self.sequence.clone()
    }

    fn table(&self) -> Arc<Table> {
        let table = self.table.get_or_init(|| Arc::new(Table::new(&self.skips)));
        table.clone()
    }

    fn routes(&self) -> Arc<Routes> {
        let routes = self
            .routes
            .get_or_init(|| Arc::new(Routes::new(&self.sequence)));
        routes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn team(ranks: &[usize], place: usize) -> Team {
        let graph = Graph::new(ranks.len(), Rule::default());
        Team::new(Arc::new(graph), Ranks::of(ranks), place)
    }

    #[test]
    fn ranks_are_those_that_were_listed() {
        let lists = [
            vec![0],
            vec![7],
            vec![0, 1, 2, 3],
            vec![5, 6, 7],
            vec![1, 4, 7, 10],
            vec![1, 4, 7, 11],
            vec![3, 2, 1, 0],
            vec![9, 0, 1, 2],
            vec![2, 2],
        ];
        for list in lists {
            let team = team(&list, 0);
            let ranks: Vec<_> = (0..list.len()).map(|process| team.rank(process)).collect();
            assert_eq!(ranks, list);
            let is_strided = matches!(team.ranks, Ranks::Strided { .. });
            let steps: Vec<_> = list
                .windows(2)
                .map(|pair| pair[1].checked_sub(pair[0]))
                .collect();
            let is_even = steps.windows(2).all(|pair| pair[0] == pair[1]);
            let ascends = steps.iter().all(|step| step.is_some_and(|step| step > 0));
            assert_eq!(is_strided, is_even && ascends, "{list:?}");
        }
    }

    /// More roots than are kept, some of them again and again.
    #[test]
    fn schedules_are_those_of_their_root() {
        let team = team(&(0..37).collect::<Vec<_>>(), 11);
        for call in 0..200 {
            let root = if call % 3 == 0 { 5 } else { call * 7 % 37 };
            let (kept, fresh) = (
                team.schedules(root),
                Schedules::new(&team.skips(), 11, root),
            );
            assert_eq!(kept.root(), root);
            assert_eq!(format!("{kept:?}"), format!("{fresh:?}"));
            assert!(team.kept.schedules.lock().len() <= ROOTS);
        }
    }

    #[test]
    fn messages_with_data_are_those_of_some_length() {
        let team = team(&(0..7).collect::<Vec<_>>(), 3);
        let held = team.filled([0, 4, 1, 0, 0, 9, 0].into_iter());
        assert_eq!(*held, [1, 2, 5]);
        // Whoever still has the list of a call keeps it.
        assert!(team.filled([0; 7].into_iter()).is_empty());
        assert_eq!(*team.filled([2; 7].into_iter()), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(*held, [1, 2, 5]);
    }
}
