//! The nodes of a team as teams: this process's node, the leaders of all nodes, and lanes.

use std::sync::Arc;

use super::{Graph, Ranks, Team};
use crate::nodes::Nodes;
use crate::schedule::Rule;

/// The nodes as one process sees them.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Which process is on which node.
    pub nodes: Arc<Nodes>,
    /// Which of the processes this one is.
    pub place: usize,
    /// The first process of each node. A call may have other leaders: it takes from this team only
    /// the number of nodes and the place of this one among them.
    pub leaders: Team,
    /// The processes of this node.
    pub node: Team,
}

impl Machine {
    /// The nodes of a team, as its process `place` sees them. `nodes` says which node each of its
    /// processes is on, and `ranks` which rank it is.
    pub fn new(nodes: Arc<Nodes>, ranks: &[usize], place: usize, rule: Rule) -> Machine {
        let node = nodes.node(place);
        let team = |processes: &[usize], place| {
            let ranks: Vec<_> = processes.iter().map(|&process| ranks[process]).collect();
            let graph = Graph::new(ranks.len(), rule);
            Team::new(Arc::new(graph), Ranks::of(&ranks), place)
        };
        Machine {
            leaders: team(&nodes.lane(0), node),
            node: team(nodes.ranks(node), nodes.place(place)),
            nodes,
            place,
        }
    }

    /// The place in this node of its leader, where a root leads its own node and the first process
    /// any other.
    pub fn head(&self, root: usize) -> usize {
        match self.nodes.node(root) == self.leaders.place() {
            true => self.nodes.place(root),
            false => 0,
        }
    }
}
