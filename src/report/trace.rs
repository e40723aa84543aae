//! The trace: a line for each call.

use super::outcome::{Outcome, Work};
use crate::select::{Algorithm, Operation};

/// One call, for the trace.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    /// The operation.
    pub operation: Operation,
    /// Which call of the operation it was in this process, counted from 1.
    pub number: u64,
    /// The processes of the communicator.
    pub processes: usize,
    /// The root, of an operation that has one.
    pub root: Option<usize>,
    /// Who ran it.
    pub outcome: Outcome,
    /// Its work.
    pub work: Work,
}

/// One call as one line, without its end.
pub fn trace_line(trace: &Trace) -> String {
    let Trace {
        operation,
        number,
        processes,
        root,
        outcome,
        work,
    } = trace;
    let (operation, bytes) = (operation.name(), work.bytes);
    let root = root.map(|root| format!(" root={root}")).unwrap_or_default();
    let outcome = match outcome {
        Outcome::Circulant => {
            let name = work.algorithm.map_or("circulant", Algorithm::name);
            let (n, rounds) = (work.blocks, work.rounds);
            format!(
                "{name} n={n} rounds={rounds} {}",
                duration(work.nanoseconds)
            )
        }
        Outcome::Native(reason) => format!("native ({})", reason.name()),
    };
    format!("circulant: {operation} #{number} {bytes} B p={processes}{root} -> {outcome}")
}

/// A time with one decimal, in the unit that keeps it short.
fn duration(nanoseconds: u64) -> String {
    let ns = nanoseconds as f64;
    match nanoseconds {
        0..1_000_000 => format!("{:.1} us", ns / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.1} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::CALL;
    use super::*;
    use crate::select::Reason;

    #[test]
    fn a_trace_line_says_what_was_called_and_who_ran_it() {
        let mut trace = Trace {
            operation: Operation::Bcast,
            number: 12,
            processes: 16,
            root: Some(3),
            outcome: Outcome::Circulant,
            work: CALL,
        };
        assert_eq!(
            trace_line(&trace),
            "circulant: bcast #12 4000000 B p=16 root=3 -> circulant n=125 rounds=128 101.2 ms"
        );
        trace.operation = Operation::ReduceScatter;
        trace.root = None;
        trace.outcome = Outcome::Native(Reason::Small);
        assert_eq!(
            trace_line(&trace),
            "circulant: reduce_scatter #12 4000000 B p=16 -> native (small)"
        );
    }

    #[test]
    fn durations_have_the_unit_that_keeps_them_short() {
        let durations = [0, 1_500, 999_900, 1_000_000, 2_500_000_000].map(duration);
        assert_eq!(
            durations,
            ["0.0 us", "1.5 us", "999.9 us", "1.0 ms", "2.5 s"]
        );
    }
}
