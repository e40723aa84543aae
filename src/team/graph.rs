//! What is computed once for a number of processes, and shared by all teams of that size.

use std::sync::Arc;

use once_cell::sync::OnceCell;

use crate::plan::Routes;
use crate::schedule::{Rule, Sequence, Skips, Table};

/// The circulant graph on p processes.
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

    pub(super) fn skips(&self) -> Arc<Skips> {
        self.skips.clone()
    }

    pub(super) fn sequence(&self) -> Arc<Sequence> {
        self.sequence.clone()
    }

    pub(super) fn table(&self) -> Arc<Table> {
        let table = self.table.get_or_init(|| Arc::new(Table::new(&self.skips)));
        table.clone()
    }

    pub(super) fn routes(&self) -> Arc<Routes> {
        let routes = self
            .routes
            .get_or_init(|| Arc::new(Routes::new(&self.sequence)));
        routes.clone()
    }
}
