//! A problem and the ports over which it goes: what a pattern of messages costs there.

use super::super::cost::{Cost, Network, STEP_WITHIN};
use super::super::facts::{Facts, Operation, phases};

/// The part of a start-up that a step around takes between nodes. With half of it a reduce-scatter
/// of 64 KiB on 8 nodes of 4 processes is charged what the one by leaders is. Native it takes 0.8
/// to 1 times as long (emulated, Open MPI 4.1.4).
pub const STEP: f64 = 0.5;

/// The bytes of a piece of an allgatherv around: MPICH's default of
/// `MPIR_CVAR_ALLGATHERV_PIPELINE_MSG_SIZE`.
const PIECE: f64 = (32 << 10) as f64;

/// A problem, the processes that exchange it, and the ports over which they do.
pub struct Spread {
    pub bytes: f64,
    pub processes: f64,
    /// Those of different nodes; if there is one node, all processes.
    pub ports: f64,
    /// The processes that share one, in the mean.
    pub per_port: f64,
    /// q = ceil(log2 p), and the same of the ports.
    pub phases: f64,
    pub port_phases: f64,
    /// k = floor(log2 p), or q where p may as well be a power of two.
    pub whole_phases: f64,
    /// The largest power of two of ports.
    pub power_of_ports: f64,
    /// 1 if p is no power of two, and that matters; else 0.
    pub excess: f64,
}

impl Spread {
    pub fn of(call: &Facts) -> Spread {
        let processes = call.processes.max(1);
        let ports = if call.nodes > 1 {
            call.nodes
        } else {
            processes
        };
        let q = call.phases();
        let has_excess = ports == processes && !processes.is_power_of_two();
        let whole_phases = if has_excess { q - 1 } else { q };
        Spread {
            bytes: call.bytes as f64,
            processes: processes as f64,
            ports: ports as f64,
            per_port: processes as f64 / ports as f64,
            phases: f64::from(q),
            port_phases: f64::from(phases(ports)),
            whole_phases: f64::from(whole_phases),
            power_of_ports: (1u64 << ports.ilog2()) as f64,
            excess: f64::from(u8::from(has_excess)),
        }
    }

    /// What a port takes for so many messages that are together so many times the problem.
    pub fn cost(&self, rounds: f64, volume: f64) -> Cost {
        Cost::of_messages(rounds, volume * self.bytes)
    }

    /// Where each process sends so much of the problem to other nodes, in so many rounds: that;
    /// or a gather to one root, or a scatter from it, and a tree; or what leaders exchange, and
    /// their nodes before and after it.
    pub fn unaware_of_nodes(&self, rounds: f64, volume: f64) -> [Cost; 3] {
        if self.per_port <= 1.0 {
            return [self.cost(rounds, volume); 3];
        }
        let q = self.phases;
        [
            self.cost(rounds, self.per_port * volume),
            self.cost(2.0 * q, self.others() + self.port_phases),
            self.cost(3.0 * q, 3.0 * volume),
        ]
    }

    /// The part of a problem of many parts that a port sends or receives.
    pub fn others(&self) -> f64 {
        1.0 - 1.0 / self.ports
    }

    /// Start-ups of a ring of all processes, of which each sends to the next.
    pub fn around(&self) -> f64 {
        STEP * (self.ports - 1.0) + STEP_WITHIN * (self.processes - self.ports)
    }

    /// What it takes besides that the last piece of the largest part goes around, too, after all
    /// others have left. Equal parts are as many pieces. Within nodes it goes through memory, which
    /// may be no faster than this network.
    pub fn piece_around(&self, call: &Facts, network: Network) -> Cost {
        let mean = self.bytes / self.processes;
        let piece = (call.largest as f64 - mean).clamp(0.0, PIECE);
        let seconds_of_byte = |network: Network| network.seconds(0.0, 1.0);
        let slower = seconds_of_byte(Network::SHARED) / seconds_of_byte(network);
        let within = slower.min(1.0) * (self.processes - self.ports);
        Cost::of_messages(0.0, piece * (self.ports - 1.0 + within))
    }

    /// The part of the problem that a process sends to other nodes in an allgather by doubling: in
    /// each phase as many parts as it has, or those that are missing, among which the largest may
    /// be.
    pub fn doubled(&self, call: &Facts) -> f64 {
        let largest = match call.operation {
            Operation::Allgatherv => call.largest as f64 / self.bytes.max(1.0),
            _ => 0.0,
        };
        let (mut has, mut sent) = (1.0, 0.0);
        while has < self.ports {
            let parts = has.min(self.ports - has);
            sent += (parts / self.ports).max(largest);
            has += parts;
        }
        sent
    }
}

/// Whether nodes have 2^i processes each.
pub fn are_nodes_aligned(call: &Facts) -> bool {
    let k = call.processes / call.nodes.max(1);
    call.smallest_node.is_none() && k * call.nodes == call.processes && k.is_power_of_two()
}
