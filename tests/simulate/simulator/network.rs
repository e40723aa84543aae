//! Messages between the processes of a simulation.

use std::collections::{HashMap, HashSet, VecDeque};

/// Sender, receiver and tag.
pub(super) type Route = (usize, usize, usize);

/// One end of a message, in the order in which it was started.
pub(super) type Ticket = usize;

/// What was sent and not received, and what was asked for and not sent. `S` says where a message is
/// on its sender, `R` where it goes on its receiver.
pub(super) struct Network<S, R> {
    sends: HashMap<Route, VecDeque<(Ticket, S)>>,
    receives: HashMap<Route, VecDeque<(Ticket, R)>>,
    /// Sends and receives that are not finished.
    unfinished: HashSet<Ticket>,
    /// The next ticket. Also counts what happened, to tell a deadlock.
    pub(super) events: usize,
}

impl<S, R> Default for Network<S, R> {
    fn default() -> Self {
        Network {
            sends: HashMap::new(),
            receives: HashMap::new(),
            unfinished: HashSet::new(),
            events: 0,
        }
    }
}

impl<S, R> Network<S, R> {
    fn ticket(&mut self) -> Ticket {
        self.events += 1;
        self.unfinished.insert(self.events);
        self.events
    }

    pub(super) fn send(&mut self, route: Route, message: S) -> Ticket {
        let ticket = self.ticket();
        let queue = self.sends.entry(route).or_default();
        queue.push_back((ticket, message));
        ticket
    }

    pub(super) fn receive(&mut self, route: Route, place: R) -> Ticket {
        let ticket = self.ticket();
        let queue = self.receives.entry(route).or_default();
        queue.push_back((ticket, place));
        ticket
    }

    /// The oldest message on `route`, and where it was asked for; both are then finished. None if
    /// one of them is not there. Messages between two processes keep their order.
    pub(super) fn matched(&mut self, route: Route) -> Option<(S, R)> {
        let sends = self.sends.get_mut(&route)?;
        let receives = self.receives.get_mut(&route)?;
        if sends.is_empty() || receives.is_empty() {
            return None;
        }
        let ((sent, message), (asked, place)) = (sends.pop_front()?, receives.pop_front()?);
        self.unfinished.remove(&sent);
        self.unfinished.remove(&asked);
        self.events += 1;
        Some((message, place))
    }

    pub(super) fn is_finished(&self, ticket: Ticket) -> bool {
        !self.unfinished.contains(&ticket)
    }

    /// Whether nobody waits for anything.
    pub(super) fn is_quiet(&self) -> bool {
        self.unfinished.is_empty()
    }
}
