//! Who runs which call by default, what the cost model predicts, and when a network is measured, for
//! calls on some networks and layouts of processes: a table that is kept in `tables/choices.txt`.
//!
//! It does not show that a choice is good: `scripts/bench-default` measures that. It shows in a diff
//! what a change of the model does to the defaults, so that none changes unseen.

mod tables;

use std::fmt::Write;

use circulant::select::{
    Algorithm, Facts, Kind, Library, Network, Operation, Order, Preparation, Prospect, Settings,
    Survey, SurveyedCall, candidate, choose, choose_on_any_nodes, has_free_blocks, predicted,
    with_free_blocks,
};
use strum::VariantArray;

/// Processes, nodes, and the fewest processes of a node, if they differ.
const LAYOUTS: [(usize, usize, Option<usize>); 8] = [
    (3, 3, None),
    (4, 1, None),
    (16, 16, None),
    (17, 17, None),
    (32, 8, None),
    (36, 36, None),
    (10, 4, Some(2)),
    (1152, 36, None),
];

const SIZES: [u64; 5] = [4096, 20_000, 100_000, 1_000_000, 16_000_000];

/// Picoseconds of a message and femtoseconds of a byte: a port of 160 Mbit/s, and one of 100 Gbit/s.
const NETWORKS: [[u64; 2]; 2] = [[60_000_000, 50_000_000], [1_500_000, 85_000]];

/// The inputs of an operation: their names, and the largest part over the mean.
fn inputs(operation: Operation, processes: usize) -> Vec<(&'static str, u64)> {
    match operation {
        Operation::Allgatherv | Operation::ReduceScatter => {
            vec![
                ("regular", 1),
                ("irregular", 2),
                ("degenerate", processes as u64),
            ]
        }
        _ => vec![("regular", 1)],
    }
}

/// All orders on a power of two of nodes, with one process and with several, and elsewhere the common one.
fn orders(operation: Operation, nodes: usize) -> &'static [Order] {
    match operation.combines() {
        true if nodes.is_power_of_two() && nodes > 4 => <Order as VariantArray>::VARIANTS,
        true => &[Order::Commutative],
        false => &[Order::Any],
    }
}

/// All calls of a layout, each with its name.
fn calls((processes, nodes, smallest_node): (usize, usize, Option<usize>)) -> Vec<(String, Facts)> {
    let mut all = Vec::new();
    for &operation in &Operation::VARIANTS[..Operation::OF_MPI] {
        for (input, times) in inputs(operation, processes) {
            for &order in orders(operation, nodes) {
                for bytes in SIZES {
                    let largest = match operation.is_whole() {
                        true => bytes,
                        false => times * bytes / processes as u64,
                    };
                    let facts = Facts {
                        bytes,
                        largest,
                        units: bytes / 4,
                        order,
                        nodes,
                        smallest_node,
                        ..Facts::new(operation, processes)
                    };
                    let name = format!("{} {input} {order:?} {bytes}", operation.name());
                    all.push((name, facts));
                }
            }
        }
    }
    all
}

/// Calls between groups of 8 and 4 processes; a broadcast is from one process to 12.
fn calls_between_groups() -> Vec<(String, Facts)> {
    let mut all = Vec::new();
    for (operation, smaller_group) in [
        (Operation::Bcast, 1),
        (Operation::Allgather, 4),
        (Operation::Allgatherv, 4),
    ] {
        for bytes in SIZES {
            let facts = Facts {
                bytes,
                largest: if operation.is_whole() {
                    bytes
                } else {
                    bytes / 8
                },
                units: bytes / 4,
                order: Order::Any,
                smaller_group,
                ..Facts::new(operation, if operation.is_whole() { 13 } else { 12 })
            };
            all.push((format!("{} {bytes}", operation.name()), facts));
        }
    }
    all
}

fn is_by_blocks(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::Exchange { by_blocks, .. } if by_blocks)
}

/// An algorithm with its parameters.
fn named(algorithm: Algorithm) -> String {
    match (algorithm.blocks(), algorithm.segment()) {
        (1, usize::MAX) => algorithm.name().to_owned(),
        (blocks, usize::MAX) => format!("{}:{blocks}", algorithm.name()),
        (_, segment) if is_by_blocks(algorithm) => format!("{}/{segment}/blocks", algorithm.name()),
        (_, segment) => format!("{}/{segment}", algorithm.name()),
    }
}

/// At which call of these facts the nodes are asked for, and the network is measured, where a call takes so long, and
/// a small operation so long; of the first thousands.
fn milestones(facts: &Facts, seconds: f64, operation: f64) -> [Option<u64>; 2] {
    let (mut prospect, mut known) = (Prospect::default(), None);
    // Until the nodes are known, each process may be on its own.
    let (nodes, facts) = (
        facts.nodes,
        &Facts {
            nodes: facts.processes,
            ..*facts
        },
    );
    let [mut surveyed, mut measured] = [None; 2];
    for call in 1..3000 {
        prospect.count(facts);
        if prospect.step(facts, known) == Preparation::Survey {
            (known, surveyed) = (Some(nodes), surveyed.or(Some(call)));
            prospect.tell(Survey {
                timed: SurveyedCall {
                    seconds,
                    is_native: true,
                },
                compared: SurveyedCall::default(),
                operations: vec![operation],
                has_known: false,
            });
        }
        match prospect.step(facts, known) {
            Preparation::Meet => prospect.met(facts),
            Preparation::Measure => measured = measured.or(Some(call)),
            _ => {}
        }
    }
    [surveyed, measured]
}

/// What is chosen where no network was measured, and what each candidate is predicted to take, in
/// microseconds, on those that were.
fn row(facts: &Facts, settings: &Settings) -> String {
    let choice = choose(facts, settings);
    let mut row = match choice {
        Ok(algorithm) => named(algorithm),
        Err(reason) => reason.name().to_owned(),
    };
    if choose_on_any_nodes(facts, settings).is_err() {
        row.push_str(", on any nodes");
    }
    let kind = Kind::of(facts, settings);
    let is_learned = kind.is_some_and(|kind| kind.is_learned(settings));
    row.push_str(if is_learned { "; learned" } else { ";" });
    let force = Settings {
        force: true,
        ..settings.clone()
    };
    let forced = choose(facts, &force);
    _ = write!(row, " forced {}", forced.map_or("never".to_owned(), named));
    for network in NETWORKS.map(Network::decode) {
        row.push_str(" |");
        let seconds = predicted(facts, settings, network);
        for (place, &seconds) in seconds.iter().enumerate().filter(|(_, s)| s.is_finite()) {
            let algorithm = candidate(facts, settings, network, place);
            let name = algorithm.map_or("native".to_owned(), named);
            _ = write!(row, " {name} {:.5e}", 1e6 * seconds);
        }
        let names = ["nodes", "network"].into_iter();
        let rounds = facts.processes.next_power_of_two().trailing_zeros();
        let survey = network.seconds(f64::from(rounds), 0.0);
        for (name, call) in names.zip(milestones(facts, seconds[0], survey)) {
            if let Some(call) = call.filter(|_| is_learned) {
                _ = write!(row, ", {name} at {call}");
            }
        }
        if has_free_blocks(&choice, facts, settings) {
            _ = write!(row, " then {}", named(with_free_blocks(facts, network)));
        }
    }
    row
}

#[test]
fn defaults_are_what_they_were() {
    let settings = Settings::default();
    let mut table = String::new();
    for layout in LAYOUTS {
        let (processes, nodes, smallest) = layout;
        let equal = if smallest.is_none() {
            ""
        } else {
            " of different sizes"
        };
        _ = writeln!(table, "{processes} processes on {nodes} nodes{equal}");
        for (name, facts) in calls(layout) {
            let with = |library| row(&Facts { library, ..facts }, &settings);
            let others = with(Library::Other);
            let [mpich, open_mpi_4, open_mpi_5] =
                [Library::Mpich, Library::OpenMpi4, Library::OpenMpi5].map(with);
            _ = writeln!(table, "{name}: {others}");
            for (library, row, usual) in [
                ("MPICH", &mpich, &others),
                ("Open MPI 4", &open_mpi_4, &others),
                ("Open MPI 5", &open_mpi_5, &open_mpi_4),
            ] {
                if row != usual {
                    _ = writeln!(table, "{name}, {library}: {row}");
                }
            }
        }
    }
    table.push_str("Between groups\n");
    for (name, facts) in calls_between_groups() {
        _ = writeln!(table, "{name}: {}", row(&facts, &settings));
    }
    tables::compare("choices.txt", include_str!("tables/choices.txt"), &table);
}
