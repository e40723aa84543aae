//! The functions that MPI does not have: how they run.

use std::time::Duration;

use super::{Algorithm, Facts, MESSAGE_MAX, Merging, Reason, Settings, Successive};

/// The largest value of successive broadcasts that may go from owner to owner without being asked
/// for, in bytes: larger ones wait for ports, and not for messages. 4 KiB and what goes before
/// them.
const RELAYED_VALUE: usize = (4 << 10) + 64;
/// The most memory for values that go from owner to owner, in bytes.
const RELAYED_MEMORY: u64 = 16 << 20;
/// The two ways are compared if there are so many steps for each process.
const COMPARED_STEPS: usize = 12;
/// Callbacks are short if they take at most one of this many parts of the time.
const CALLBACKS_SHARE: u32 = 4;

/// How the values of `steps` successive broadcasts are sent. Each takes up `bytes` bytes, with its
/// header. Both ways are measured only if each process has many steps, and not for two processes,
/// which send as much either way.
///
/// # Errors
/// The reason to run by MPI's broadcasts.
pub fn successive(
    facts: &Facts,
    settings: &Settings,
    steps: usize,
    bytes: usize,
) -> Result<Algorithm, Reason> {
    let is_native = settings.successive == Successive::Native;
    may_be_ours(facts, settings, is_native)?;
    let memory = bytes.saturating_mul(2).saturating_mul(facts.processes) as u64;
    if memory > RELAYED_MEMORY.min(settings.scratch_max) {
        return Ok(Algorithm::Trees);
    }
    let are_many = facts.processes > 2 && steps / COMPARED_STEPS >= facts.processes;
    Ok(match settings.successive {
        Successive::Relay => Algorithm::Relay,
        Successive::Auto if are_many && bytes <= RELAYED_VALUE => Algorithm::Measured,
        _ => Algorithm::Trees,
    })
}

/// Whether, after some steps by trees, some are tried by relay; to be agreed on by all processes.
/// They are not, if callbacks took long. Storing is then better spread over all steps, as it is by
/// trees. Or the callbacks wait for those of other processes, which they must not do in a relay.
pub fn tries_relay(by_trees: Duration, in_callbacks: Duration) -> bool {
    CALLBACKS_SHARE * in_callbacks <= by_trees
}

/// The faster of the two ways, by each of which the same number of steps took so long; to be agreed
/// on by all processes.
pub fn faster_way(by_trees: Duration, by_relay: Duration) -> Algorithm {
    if by_relay < by_trees {
        Algorithm::Relay
    } else {
        Algorithm::Trees
    }
}

/// How operands that grow are exchanged. Their lengths cannot decide: each process knows only that
/// of its own. Algorithm 2 sends the least, in as few rounds as any. It also combines the least: at
/// most three times as many elements as there are, where Algorithm 0 combines log2 p times as many.
///
/// Between nodes long messages are sent in steps, so that neighbours do not get ahead of each
/// other. On one node a further message costs more than that gains, so messages are as long as MPI
/// counts.
///
/// # Errors
/// The reason to run Algorithm 0, by MPI's allgather.
pub fn growing(facts: &Facts, settings: &Settings) -> Result<Algorithm, Reason> {
    may_be_ours(facts, settings, settings.merging == Merging::Allgather)?;
    let segment = if settings.force || facts.nodes > 1 {
        settings.segment
    } else {
        MESSAGE_MAX
    };
    let segment = usize::try_from(segment).unwrap_or(usize::MAX);
    Ok(match settings.merging {
        Merging::Dissemination => Algorithm::Dissemination { segment },
        _ => Algorithm::Growing { segment },
    })
}

fn may_be_ours(facts: &Facts, settings: &Settings, is_native: bool) -> Result<(), Reason> {
    if facts.processes <= 1 {
        Err(Reason::OneProcess)
    } else if settings.disable {
        Err(Reason::Disabled)
    } else if is_native {
        Err(Reason::Chosen)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Operation;
    use super::*;

    /// If both ways take as long, they need not change.
    #[test]
    fn the_faster_way_is_taken() {
        let way = |by_trees, by_relay| {
            let [by_trees, by_relay] = [by_trees, by_relay].map(Duration::from_micros);
            faster_way(by_trees, by_relay)
        };
        assert_eq!(way(7, 5), Algorithm::Relay);
        assert_eq!(way(5, 7), Algorithm::Trees);
        assert_eq!(way(7, 7), Algorithm::Trees);
    }

    /// Callbacks may take a quarter of the time.
    #[test]
    fn relay_is_tried_where_callbacks_are_short() {
        let tries =
            |callbacks| tries_relay(Duration::from_millis(8), Duration::from_millis(callbacks));
        assert!(tries(0) && tries(2) && !tries(3));
    }

    fn of(operation: Operation, processes: usize, nodes: usize) -> Facts {
        Facts {
            nodes,
            ..Facts::new(operation, processes)
        }
    }

    /// How values of so many bytes are sent in four steps by four processes.
    fn sent(
        successive_by: Successive,
        scratch_max: u64,
        bytes: usize,
    ) -> Result<Algorithm, Reason> {
        let settings = Settings {
            successive: successive_by,
            scratch_max,
            ..Settings::default()
        };
        successive(&of(Operation::SuccessiveBcast, 4, 4), &settings, 4, bytes)
    }

    /// Where each of three processes or more has a dozen steps, with values of 4 KiB at most.
    #[test]
    fn both_ways_are_measured_where_small_values_have_many_steps() {
        let is_measured = |processes, steps, bytes| {
            let facts = of(Operation::SuccessiveBcast, processes, processes);
            let way = successive(&facts, &Settings::default(), steps, bytes);
            assert!(matches!(way, Ok(Algorithm::Measured | Algorithm::Trees)));
            way == Ok(Algorithm::Measured)
        };
        let largest = 4096 + 64;
        assert!(is_measured(3, 36, largest) && is_measured(100, 1200, 8));
        assert!(!is_measured(3, 35, largest) && !is_measured(100, 1199, 8));
        assert!(!is_measured(3, 36, largest + 1));
        assert!(!is_measured(2, 1200, 8));
    }

    /// Two values of each process may take 16 MiB, or what scratch may be if that is less.
    #[test]
    fn values_that_memory_does_not_hold_go_along_trees() {
        let mib = 1 << 20;
        for (scratch_max, largest) in [(64 * mib, 2 << 20), (8000, 1000)] {
            let by_relay = |bytes| sent(Successive::Relay, scratch_max, bytes);
            assert_eq!(by_relay(largest), Ok(Algorithm::Relay));
            assert_eq!(by_relay(largest + 1), Ok(Algorithm::Trees));
            assert_eq!(by_relay(usize::MAX), Ok(Algorithm::Trees));
        }
        assert_eq!(sent(Successive::Trees, 64 * mib, 8), Ok(Algorithm::Trees));
    }

    /// Messages are cut between nodes, and within one only if that is forced.
    #[test]
    fn growing_operands_go_as_settings_say() {
        let with = |merging, force, nodes| {
            let settings = Settings {
                merging,
                force,
                segment: 1000,
                ..Settings::default()
            };
            growing(&of(Operation::AllreduceV, 16, nodes), &settings)
        };
        let whole = MESSAGE_MAX as usize;
        for (force, nodes, segment) in [
            (false, 1, whole),
            (false, 2, 1000),
            (false, 16, 1000),
            (true, 1, 1000),
            (true, 2, 1000),
        ] {
            let (growing, disseminated) = (
                Algorithm::Growing { segment },
                Algorithm::Dissemination { segment },
            );
            assert_eq!(with(Merging::Auto, force, nodes), Ok(growing));
            assert_eq!(with(Merging::Circulant, force, nodes), Ok(growing));
            assert_eq!(with(Merging::Dissemination, force, nodes), Ok(disseminated));
            assert_eq!(with(Merging::Allgather, force, nodes), Err(Reason::Chosen));
        }
    }

    /// By MPI's collectives go calls of one process, and what settings leave to them.
    #[test]
    fn what_is_not_ours_has_a_reason() {
        let reasons = |processes, settings: &Settings| {
            let facts = |operation| of(operation, processes, processes);
            [
                successive(&facts(Operation::SuccessiveBcast), settings, 4, 8).err(),
                growing(&facts(Operation::AllreduceV), settings).err(),
            ]
        };
        let auto = Settings::default();
        assert_eq!(reasons(1, &auto), [Some(Reason::OneProcess); 2]);
        assert_eq!(reasons(2, &auto), [None; 2]);
        let native = Settings {
            successive: Successive::Native,
            merging: Merging::Allgather,
            ..Settings::default()
        };
        assert_eq!(reasons(2, &native), [Some(Reason::Chosen); 2]);
        let disabled = Settings {
            disable: true,
            ..native
        };
        assert_eq!(reasons(2, &disabled), [Some(Reason::Disabled); 2]);
    }
}
