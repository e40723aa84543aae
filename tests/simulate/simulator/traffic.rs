//! What goes from process to process, and over the ports of nodes.

use std::collections::HashMap;

use circulant::nodes::Nodes;

/// Messages, and the units in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// The messages.
    pub messages: usize,
    /// Their units.
    pub units: usize,
}

impl Carried {
    fn add(&mut self, more: Carried) {
        self.messages += more.messages;
        self.units += more.units;
    }
}

/// What the processes of a node exchanged: with those of other nodes, and among themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// What came from other nodes.
    pub entered: Carried,
    /// What went to other nodes.
    pub left: Carried,
    /// What stayed in the node.
    pub stayed: Carried,
}

/// What was delivered from each process to each other.
#[derive(Clone, Debug, Default)]
pub struct Traffic(HashMap<(usize, usize), Carried>);

impl Traffic {
    /// A message of `units` units was delivered.
    pub(super) fn add(&mut self, from: usize, to: usize, units: usize) {
        let message = Carried { messages: 1, units };
        self.0.entry((from, to)).or_default().add(message);
    }

    /// By node, what went over its port.
    pub fn ports(&self, nodes: &Nodes) -> Vec<Port> {
        let mut ports = vec![Port::default(); nodes.count()];
        for (&(from, to), &carried) in &self.0 {
            let (sender, receiver) = (nodes.node(from), nodes.node(to));
            if sender == receiver {
                ports[sender].stayed.add(carried);
            } else {
                ports[sender].left.add(carried);
                ports[receiver].entered.add(carried);
            }
        }
        ports
    }
}
