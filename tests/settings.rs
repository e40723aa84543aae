//! The settings as a user meets them: the variables of the environment, good and bad values, the
//! complaints about them, and the agreement between ranks. And their documentation: what is
//! generated there is current, and no page names a variable that does not exist.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on panics, helpers included"
)]

use std::fs;
use std::path::{Path, PathBuf};

use strum::{EnumCount, IntoEnumIterator, VariantArray, VariantNames};

use circulant::nodes::Placement;
use circulant::schedule::Rule;
use circulant::select::{
    Algorithm, BcastOrder, CANDIDATES, CallRule, Description, ENCODED, FIRST, Facts, Merging, Mode,
    Operation, OperationSettings, Origin, Pacing, Reason, Select, Settings, Successive, Unknown,
    choose, describe,
};

/// The operations that have variables of their own.
fn of_mpi() -> impl Iterator<Item = Operation> {
    let all = Operation::VARIANTS.iter().copied();
    all.filter(|operation| !operation.is_added())
}

/// Reads `NAME=value` pairs, the names without their prefix.
fn read(variables: &[&str]) -> (Settings, Vec<String>) {
    let (settings, complaints) = Settings::read(variables.iter().map(|variable| {
        let (name, value) = variable.split_once('=').unwrap();
        (format!("CIRCULANT_{name}"), value.to_owned())
    }));
    (
        settings,
        complaints.iter().map(ToString::to_string).collect(),
    )
}

/// The settings of one variable that must be accepted.
fn accepted(variable: &str) -> Settings {
    let (settings, complaints) = read(&[variable]);
    assert_eq!(complaints, [""; 0], "{variable}");
    settings
}

/// The complaint about one variable, which must leave the defaults in force.
fn complaint(variable: &str) -> String {
    let (settings, mut complaints) = read(&[variable]);
    assert_eq!(complaints.len(), 1, "{variable} {complaints:?}");
    assert_eq!(settings, Settings::default(), "{variable}");
    complaints.remove(0)
}

/// The defaults, but for what `change` does, as if the variable `name` had done it.
fn changed(name: &str, change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings);
    let name = format!("CIRCULANT_{name}");
    let index = describe()
        .position(|description| description.name == name)
        .unwrap();
    settings.from_environment = 1 << index;
    settings
}

#[test]
fn the_defaults_are_the_documented_ones() {
    let (settings, complaints) = read(&[]);
    assert_eq!(complaints, [""; 0]);
    let expected = Settings {
        disable: false,
        force: false,
        min_bytes: 4_096,
        blocks: None,
        block_size: None,
        f: 18.0,
        g: 24.0,
        skips: Rule::Halving,
        segment: 32_768,
        census_max: 4_096,
        merging: Merging::Auto,
        window: 1,
        sends: 2,
        pacing: Pacing::Auto,
        scratch_max: 67_108_864,
        shared_max: 16_777_216,
        communicators: 32,
        bcast_order: BcastOrder::Auto,
        successive: Successive::Auto,
        relayed: 1_024,
        lanes: 4,
        node_size: None,
        is_on_one_node: false,
        placement: Placement::Blocked,
        select: Select::Learn,
        chunks: 1,
        inter: true,
        gpu: true,
        check: 0,
        check_operators: false,
        trace: false,
        verbose: false,
        require: false,
        rules: Vec::new(),
        operations: [OperationSettings {
            blocks: None,
            block_size: None,
            factor: None,
        }; Operation::COUNT],
        report: None,
        profile: None,
        profile_save: None,
        from_environment: 0,
    };
    assert_eq!(settings, expected);
}

#[test]
fn good_values_of_the_general_variables() {
    type Change = fn(&mut Settings);
    let cases: &[(&str, Change)] = &[
        ("DISABLE=1", |s| s.disable = true),
        ("DISABLE=0", |_| ()),
        ("FORCE=1", |s| s.force = true),
        ("INTER=0", |s| s.inter = false),
        ("CHECK=0", |_| ()),
        ("CHECK=1", |s| s.check = 1),
        ("CHECK=20", |s| s.check = 20),
        ("CHECK_OPERATORS=1", |s| s.check_operators = true),
        ("BCAST_ORDER=gray", |s| s.bcast_order = BcastOrder::Gray),
        ("BCAST_ORDER=auto", |_| ()),
        ("SUCCESSIVE_BCAST=native", |s| {
            s.successive = Successive::Native
        }),
        ("SUCCESSIVE_BCAST=trees", |s| {
            s.successive = Successive::Trees
        }),
        ("SUCCESSIVE_BCAST=relay", |s| {
            s.successive = Successive::Relay
        }),
        ("SELECT=model", |s| s.select = Select::Model),
        ("SELECT=native", |s| s.select = Select::Native),
        ("SELECT=trial", |s| s.select = Select::Trial),
        ("SELECT=adaptive", |s| s.select = Select::Adaptive),
        ("NODE_SIZE=3", |s| s.node_size = Some(3)),
        ("PLACEMENT=cyclic", |s| s.placement = Placement::Cyclic),
        ("CHUNKS=2", |s| s.chunks = 2),
        ("RELAYED=0", |s| s.relayed = 0),
        ("RELAYED=1M", |s| s.relayed = 1 << 20),
        ("GPU=0", |s| s.gpu = false),
        ("TRACE=1", |s| s.trace = true),
        ("VERBOSE=1", |s| s.verbose = true),
        ("REQUIRE=1", |s| s.require = true),
        ("MIN_BYTES=0", |s| s.min_bytes = 0),
        ("MIN_BYTES=1048576G", |s| s.min_bytes = 1 << 50),
        ("BLOCKS=1", |s| s.blocks = Some(1)),
        ("BLOCKS=1048576", |s| s.blocks = Some(1 << 20)),
        ("BLOCK_SIZE=1", |s| s.block_size = Some(1)),
        ("BLOCK_SIZE=24k", |s| s.block_size = Some(24 << 10)),
        ("BLOCK_SIZE=3M", |s| s.block_size = Some(3 << 20)),
        ("BLOCK_SIZE=1G", |s| s.block_size = Some(1 << 30)),
        ("F=0.001", |s| s.f = 0.001),
        ("F=12.5", |s| s.f = 12.5),
        ("G=1e6", |s| s.g = 1e6),
        ("SKIPS=power2", |s| s.skips = Rule::Power2),
        ("SKIPS=sqrt", |s| s.skips = Rule::Sqrt),
        ("SKIPS=linear", |s| s.skips = Rule::Linear),
        ("SEGMENT=9K", |s| s.segment = 9216),
        ("CENSUS_MAX=0", |s| s.census_max = 0),
        ("CENSUS_MAX=1G", |s| s.census_max = 1 << 30),
        ("MERGE=allgather", |s| s.merging = Merging::Allgather),
        ("MERGE=dissemination", |s| {
            s.merging = Merging::Dissemination
        }),
        ("MERGE=circulant", |s| s.merging = Merging::Circulant),
        ("MERGE=auto", |_| ()),
        ("WINDOW=2", |s| s.window = 2),
        ("WINDOW= 64 ", |s| s.window = 64),
        ("SENDS=64", |s| s.sends = 64),
        ("PACING=eager", |s| s.pacing = Pacing::Eager),
        ("PACING=synchronous", |s| s.pacing = Pacing::Synchronous),
        ("PACING=auto", |_| ()),
        ("LANES=1", |s| s.lanes = 1),
        ("LANES=32", |s| s.lanes = 32),
        ("SCRATCH_MAX=1G", |s| s.scratch_max = 1 << 30),
        ("SCRATCH_MAX=0", |s| s.scratch_max = 0),
        ("SHARED_MAX=1M", |s| s.shared_max = 1 << 20),
        ("COMMUNICATORS=0", |s| s.communicators = 0),
    ];
    for (variable, change) in cases {
        let name = variable.split('=').next().unwrap();
        assert_eq!(accepted(variable), changed(name, change), "{variable}");
    }
}

#[test]
fn good_values_of_each_operations_variables() {
    for operation in of_mpi() {
        let name = operation.name().to_uppercase();
        let factor = if operation.is_rooted() { "F" } else { "G" };
        let own = |variable: String| accepted(&variable).operations;
        let with = |settings: OperationSettings| {
            let mut operations = [OperationSettings::default(); Operation::COUNT];
            operations[operation as usize] = settings;
            operations
        };
        let default = OperationSettings::default();
        for (mode, value) in [
            (Mode::Auto, "auto"),
            (Mode::Native, "native"),
            (Mode::Circulant, "circulant"),
        ] {
            let rules = accepted(&format!("{name}={value}")).rules;
            assert_eq!(rules, [CallRule::plain(operation, mode)]);
        }
        if !operation.is_pipelined() {
            continue;
        }
        assert_eq!(
            own(format!("{name}_BLOCKS=7")),
            with(OperationSettings {
                blocks: Some(7),
                ..default
            })
        );
        assert_eq!(
            own(format!("{name}_BLOCK_SIZE=16K")),
            with(OperationSettings {
                block_size: Some(16384),
                ..default
            })
        );
        assert_eq!(
            own(format!("{name}_{factor}=2.5")),
            with(OperationSettings {
                factor: Some(2.5),
                ..default
            })
        );
    }
}

#[test]
fn a_report_goes_where_it_is_sent() {
    for stream in ["stdout", "stderr"] {
        let variable = format!("REPORT={stream}");
        assert_eq!(accepted(&variable).report.as_deref(), Some(stream));
    }
    assert_eq!(
        accepted("REPORT=run %r.json").report.as_deref(),
        Some("run %r.json")
    );
}

#[test]
fn bad_values_are_refused_and_the_default_stays() {
    let switches =
        ["DISABLE", "FORCE", "TRACE", "VERBOSE", "REQUIRE"].map(|name| (name, ["2", "yes", "-1"]));
    let others = [
        ("MIN_BYTES", ["-1", "1048577G", "64KB"]),
        ("BLOCKS", ["0", "1048577", "many"]),
        ("BLOCK_SIZE", ["0", "2G", "1T"]),
        ("F", ["0", "nan", "-18"]),
        ("G", ["inf", "1000001", "18,5"]),
        ("WINDOW", ["0", "65", "4.0"]),
        ("SENDS", ["0", "65", "two"]),
        ("PACING", ["Eager", "0", "fast"]),
        ("MERGE", ["bruck", "1", "Circulant"]),
        ("SHARED_MAX", ["1025M", "-1", "none"]),
        ("LANES", ["0", "33", "all"]),
        ("SCRATCH_MAX", ["1025M", "G", "99999999999999999999"]),
        ("NODE_SIZE", ["0", "1048577", "all"]),
        ("PLACEMENT", ["Blocked", "1", "random"]),
        ("CHUNKS", ["0", "17", "many"]),
        ("BCAST", ["ours", "1", "Native"]),
        ("REDUCE_BLOCKS", ["0", "1048577", "K"]),
        (
            "ALLGATHER_BLOCK_SIZE",
            ["0", "1025M", "18446744073709551615G"],
        ),
        ("REDUCE_SCATTER_BLOCK_G", ["0", "1e7", "g"]),
    ];
    for (name, values) in switches.into_iter().chain(others) {
        let described = describe()
            .find(|d| d.name == format!("CIRCULANT_{name}"))
            .unwrap();
        for value in values {
            let line = complaint(&format!("{name}={value}"));
            let instead = match &described.default {
                Some(default) => format!("using {default}"),
                None => "ignoring it".to_owned(),
            };
            assert_eq!(
                line,
                format!(
                    "circulant: CIRCULANT_{name}=\"{value}\" cannot be read: accepted is {}; \
                     {instead}",
                    if name == "BCAST" {
                        "auto, native, circulant, leaders, lanes or shared"
                    } else {
                        &described.accepted
                    }
                )
            );
        }
    }
}

#[test]
fn complaints_in_full() {
    assert_eq!(
        complaint("WINDOW=0"),
        "circulant: CIRCULANT_WINDOW=\"0\" cannot be read: accepted is a whole number from 1 to \
         64; using 1"
    );
    assert_eq!(
        complaint("BCAST=on"),
        "circulant: CIRCULANT_BCAST=\"on\" cannot be read: accepted is auto, native, circulant, \
         leaders, lanes or shared; using auto"
    );
    assert_eq!(
        complaint("BCAST=native:0-32q;auto"),
        "circulant: CIRCULANT_BCAST=\"native:0-32q;auto\" cannot be read: \"0-32q\" at character 8: \
         accepted is bytes, as in 32K-1M or 1M-inf; using auto"
    );
    assert_eq!(
        complaint("SCRATCH_MAX=2G"),
        "circulant: CIRCULANT_SCRATCH_MAX=\"2G\" cannot be read: accepted is bytes, with K, M or \
         G for powers of 1024, from 0 to 1G; using 64M"
    );
    assert_eq!(
        complaint("REDUCE_F=x"),
        "circulant: CIRCULANT_REDUCE_F=\"x\" cannot be read: accepted is a decimal number from \
         0.001 to 1000000; ignoring it"
    );
    // One line, whatever the value holds.
    assert_eq!(
        complaint("FORCE=1\n2"),
        "circulant: CIRCULANT_FORCE=\"1\\n2\" cannot be read: accepted is 0 or 1; using 0"
    );
}

#[test]
fn an_unknown_variable_is_answered_with_the_nearest_name() {
    for (name, nearest) in [
        ("BLOCKSIZE", "BLOCK_SIZE"),
        ("BROADCAST", "BCAST"),
        ("FORCED", "FORCE"),
        ("DISABLED", "DISABLE"),
        ("ALLGATHERV_F", "ALLGATHERV_G"),
        ("REDUCESCATTER", "REDUCE_SCATTER"),
        ("force", "FORCE"),
        ("Window", "WINDOW"),
        ("MINBYTES", "MIN_BYTES"),
    ] {
        assert_eq!(
            complaint(&format!("{name}=1")),
            format!(
                "circulant: CIRCULANT_{name}=\"1\": there is no such variable, the nearest name \
                 is CIRCULANT_{nearest}; ignoring it"
            )
        );
    }
}

#[test]
fn the_variables_of_others_and_empty_ones_are_passed_over() {
    let variables = [
        ("PATH", "/bin"),
        ("circulant_FORCE", "1"),
        ("XCIRCULANT_FORCE", "1"),
        ("FORCE", "1"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(
        Settings::read(variables.into_iter()),
        (Settings::default(), vec![])
    );
    assert_eq!(
        read(&["FORCE=", "WINDOW=", "NO_SUCH_NAME="]),
        (Settings::default(), vec![])
    );
}

#[test]
fn a_block_count_wins_over_a_block_size_of_the_same_scope() {
    for scope in ["", "BCAST_", "REDUCE_SCATTER_", "REDUCE_SCATTER_BLOCK_"] {
        let (count, size) = (format!("{scope}BLOCKS"), format!("{scope}BLOCK_SIZE"));
        let only_count = accepted(&format!("{count}=5"));
        for order in [[0, 1], [1, 0]] {
            let both = [format!("{count}=5"), format!("{size}=64K")];
            let (settings, complaints) = read(&order.map(|i| both[i].as_str()));
            assert_eq!(settings, only_count);
            assert_eq!(
                complaints,
                [format!(
                    "circulant: CIRCULANT_{size}=\"64K\": only one of it and CIRCULANT_{count} is \
                     accepted; using CIRCULANT_{count}"
                )]
            );
        }
    }
    // In different scopes, and beside a block count that cannot be read, both are fine.
    assert_eq!(read(&["BLOCKS=5", "BCAST_BLOCK_SIZE=64K"]).1, [""; 0]);
    let (settings, complaints) = read(&["BLOCKS=x", "BLOCK_SIZE=64K"]);
    assert_eq!((settings.block_size, complaints.len()), (Some(65536), 1));
}

/// Settings in which every variable that the ranks agree on differs from its default.
fn everything_set() -> Settings {
    let general = [
        "DISABLE=1",
        "FORCE=1",
        "SELECT=adaptive",
        "MIN_BYTES=1K",
        "BLOCK_SIZE=3",
        "F=1.5",
        "G=0.7",
        "SKIPS=sqrt",
        "SEGMENT=300",
        "CENSUS_MAX=11",
        "MERGE=dissemination",
        "BCAST_ORDER=gray",
        "SUCCESSIVE_BCAST=relay",
        "RELAYED=12",
        "WINDOW=9",
        "SENDS=8",
        "PACING=eager",
        "LANES=3",
        "SCRATCH_MAX=7",
        "SHARED_MAX=7",
        "NODE_SIZE=6",
        "PLACEMENT=shuffled",
        "CHUNKS=7",
        "COMMUNICATORS=7",
        "GPU=0",
        "INTER=0",
        "CHECK=3",
        "CHECK_OPERATORS=1",
        "TRACE=1",
        "VERBOSE=1",
        "REQUIRE=1",
    ];
    let own = of_mpi().flat_map(|operation| {
        let name = operation.name().to_uppercase();
        let factor = if operation.is_rooted() { "F" } else { "G" };
        let index = operation as usize + 1;
        let mode = ["native", "circulant"][index % 2];
        let blocks = ["BLOCKS", "BLOCK_SIZE"][index % 2];
        let variables = [
            format!("{name}={mode}"),
            format!("{name}_{blocks}={index}"),
            format!("{name}_{factor}=0.{index}"),
        ];
        let count = if operation.is_pipelined() { 3 } else { 1 };
        variables.into_iter().take(count)
    });
    let variables: Vec<_> = general.map(str::to_owned).into_iter().chain(own).collect();
    let variables: Vec<_> = variables.iter().map(String::as_str).collect();
    let (settings, complaints) = read(&variables);
    assert_eq!(complaints, [""; 0]);
    settings
}

#[test]
fn decoding_gives_back_what_was_encoded() {
    for settings in [Settings::default(), everything_set()] {
        assert_eq!(
            Settings::decode(&settings.encode(), &settings.encode_rules()),
            Some(settings)
        );
    }
}

#[test]
fn every_single_word_counts() {
    let default = Settings::default().encode();
    let all = everything_set().encode();
    let same = default.iter().zip(&all).filter(|(a, b)| a == b).count();
    // The layout; the names of files; the rules; what the launcher says; BLOCKS, or its counterpart, of each scope.
    assert_eq!(same, 2 + 3 + Operation::OF_MPI + 1 + Operation::PIPELINED);
}

#[test]
fn a_report_is_not_sent_to_the_others() {
    let settings = accepted("REPORT=stderr");
    let received = Settings::decode(&settings.encode(), &settings.encode_rules()).unwrap();
    assert_eq!(
        received,
        Settings {
            report: None,
            profile: None,
            profile_save: None,
            ..settings
        }
    );
}

#[test]
fn words_that_are_no_settings_are_refused() {
    let good = Settings::default().encode();
    let with = |index: usize, word: u64| {
        let mut words = good;
        words[index] = word;
        Settings::decode(&words, &[])
    };
    assert_eq!(Settings::decode(&[0; ENCODED], &[]), None);
    assert_eq!(with(0, good[0] ^ 1), None);
    assert_eq!(with(1, u64::MAX), None);
    for index in 2..ENCODED {
        assert_eq!(with(index, u64::MAX), None, "word {index}");
    }
}

#[test]
fn the_dump_shows_every_value_and_where_it_came_from() {
    let settings = accepted("BCAST_BLOCK_SIZE=16384");
    let in_force = settings.in_force();
    let find = |name: &str| in_force.iter().find(|setting| setting.name == name);
    let own = find("CIRCULANT_BCAST_BLOCK_SIZE").unwrap();
    assert_eq!(
        (own.value.as_str(), own.origin),
        ("16K", Origin::Environment)
    );
    let shipped = find("CIRCULANT_SCRATCH_MAX").unwrap();
    assert_eq!(
        (shipped.value.as_str(), shipped.origin),
        ("64M", Origin::Default)
    );
    assert_eq!(find("CIRCULANT_BLOCK_SIZE"), None);
    assert_eq!(find("CIRCULANT_REPORT"), None);
}

#[test]
fn the_dump_of_a_file_name_and_its_origin() {
    let in_force = accepted("REPORT=a.json").in_force();
    let report = in_force
        .iter()
        .find(|setting| setting.name == "CIRCULANT_REPORT")
        .unwrap();
    assert_eq!(
        (report.value.as_str(), report.origin),
        ("a.json", Origin::Environment)
    );
}

#[test]
fn what_the_dump_shows_can_be_read_again() {
    let settings = everything_set();
    let dumped = settings
        .in_force()
        .into_iter()
        .map(|s| (s.name.to_owned(), s.value));
    let (again, complaints) = Settings::read(dumped);
    assert_eq!(complaints, []);
    assert_eq!(again.encode()[2..], settings.encode()[2..]);
}

#[test]
fn names_are_unique_and_every_operation_has_its_own() {
    let names: Vec<_> = describe().map(|description| description.name).collect();
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len());
    assert_eq!(names.len(), ENCODED - 4);
    for operation in of_mpi() {
        let name = format!("CIRCULANT_{}", operation.name().to_uppercase());
        let factor = if operation.is_rooted() { "F" } else { "G" };
        assert!(names.contains(&name.as_str()), "{name}");
        for suffix in ["_BLOCKS", "_BLOCK_SIZE", &format!("_{factor}")] {
            assert_eq!(
                names.contains(&format!("{name}{suffix}").as_str()),
                operation.is_pipelined(),
                "{name}{suffix}"
            );
        }
    }
}

/// The page of the settings, and the man page of the library.
const PAGE: &str = "docs/users/settings.md";
const MANUAL: &str = "docs/man/circulant.7";

fn read_file(name: impl AsRef<Path>) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// Variables of a section that differ in nothing but their names.
struct Row {
    section: &'static str,
    names: Vec<&'static str>,
    default: Option<String>,
    accepted: String,
    meaning: &'static str,
}

impl Row {
    fn is_of(&self, other: &Description) -> bool {
        (self.section, self.meaning) == (other.section, other.meaning)
            && (&self.default, &self.accepted) == (&other.default, &other.accepted)
    }
}

fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for variable in describe() {
        match rows.iter_mut().find(|row| row.is_of(&variable)) {
            Some(row) => row.names.push(variable.name),
            None => rows.push(Row {
                section: variable.section,
                names: vec![variable.name],
                default: variable.default,
                accepted: variable.accepted,
                meaning: variable.meaning,
            }),
        }
    }
    rows
}

/// The sections of the table of variables, in order.
fn sections() -> Vec<&'static str> {
    let mut sections: Vec<_> = describe().map(|variable| variable.section).collect();
    sections.dedup();
    sections
}

/// The variables of a section as a table in Markdown.
fn table(section: &str) -> String {
    let mut text = "\n| variable | default | accepted | meaning |\n".to_owned();
    text += "| --- | --- | --- | --- |\n";
    for row in rows().iter().filter(|row| row.section == section) {
        let code = |text: &str| format!("`{text}`");
        let names: Vec<_> = row.names.iter().map(|name| code(name)).collect();
        let default = row.default.as_deref().map(code).unwrap_or_default();
        let (names, accepted, meaning) = (names.join(", "), &row.accepted, row.meaning);
        text += &format!("| {names} | {default} | {accepted} | {meaning} |\n");
    }
    text + "\n"
}

/// The name of the generated part with the variables to begin with.
const FIRST_PART: &str = "the five you need";

/// The variables to begin with as a table in Markdown.
fn first_table() -> String {
    let mut text = "\n| to | set | or | values |\n| --- | --- | --- | --- |\n".to_owned();
    for first in &FIRST {
        let (name, value) = (first.name, first.value);
        let option = name.trim_start_matches("CIRCULANT_");
        let variable = describe().find(|variable| variable.name == name).unwrap();
        text += &format!(
            "| {} | `{name}={value}` | `--set {option}={value}` | {} |\n",
            first.purpose, variable.accepted
        );
    }
    text + "\n"
}

/// The variables to begin with as a list in mdoc.
fn first_list() -> String {
    let mut text = ".Bl -tag -width Ds\n".to_owned();
    for first in &FIRST {
        text += &format!(".It Ev {} Ns ={}\n", first.name, first.value);
        text += &wrapped(&format!("To {}.", first.purpose));
    }
    text + ".El\n"
}

#[test]
fn the_variables_to_begin_with_are_accepted() {
    for first in &FIRST {
        let name = first.name.trim_start_matches("CIRCULANT_");
        accepted(&format!("{name}={}", first.value));
    }
}

/// The variables of a section as a list in mdoc.
fn list(section: &str) -> String {
    let mut text = ".Bl -tag -width Ds\n".to_owned();
    for row in rows().iter().filter(|row| row.section == section) {
        text += &format!(".It Ev {}\n", row.names.join(" , "));
        text += &wrapped(&sentence(row.meaning));
        text += &wrapped(&format!("Values: {}.", row.accepted));
        let default = row.default.as_deref().unwrap_or("none");
        text += &wrapped(&format!("Default: {default}."));
    }
    text + ".El\n"
}

/// The reasons as a list in mdoc, as [`PAGE`] explains them.
fn reasons() -> String {
    let page = read_file(PAGE);
    let mut text = ".Bl -tag -width inter_communicator -compact\n".to_owned();
    for reason in Reason::iter() {
        let name = reason.name();
        let (_, row) = page.split_once(&format!("\n| `{name}` | ")).unwrap();
        let (meaning, _) = row.split_once(" |\n").unwrap();
        text += &format!(".It Sy {name}\n{}", wrapped(&plain(meaning)));
    }
    text + ".El\n"
}

/// Markdown without its marks: of code and of a link, the text.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, link)) = rest.split_once('[') {
        let (shown, target) = link.split_once("](").unwrap();
        text += before;
        text += shown;
        (_, rest) = target.split_once(')').unwrap();
    }
    (text + rest).replace('`', "")
}

/// A line of source that is continued without a mark has its indentation in it.
#[test]
fn meanings_have_single_spaces() {
    for variable in describe() {
        assert!(!variable.meaning.contains("  "), "{}", variable.name);
    }
}

/// With a capital letter, unless it starts with a value, and a full stop.
fn sentence(text: &str) -> String {
    let first = text.split(' ').next().unwrap_or_default();
    if first.ends_with(':') {
        return format!("{text}.");
    }
    let (initial, rest) = text.split_at(1);
    format!("{}{rest}.", initial.to_uppercase())
}

/// In lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut length = 0;
    for word in text.split(' ') {
        if length > 0 && length + 1 + word.len() > 100 {
            lines.push('\n');
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines += word;
        length += word.len();
    }
    lines + "\n"
}

/// `text` with these generated parts, each between two comments.
fn renewed(
    text: &str,
    comment: impl Fn(&str) -> String,
    parts: impl Iterator<Item = (&'static str, String)>,
) -> String {
    let (mut text, end) = (text.to_owned(), comment("end generated"));
    let mut count = 0;
    for (name, part) in parts {
        let begin = comment(&format!("begin generated: {name}"));
        assert_eq!(text.matches(&begin).count(), 1, "{begin}");
        let (before, rest) = text.split_once(&begin).unwrap();
        let (_, after) = rest.split_once(&end).unwrap();
        text = format!("{before}{begin}{part}{end}{after}");
        count += 1;
    }
    assert_eq!(text.matches("begin generated: ").count(), count);
    text
}

/// The page and the man page, with what is in them and what should be.
fn documentation() -> [(&'static str, String, String); 2] {
    let (page, manual) = (read_file(PAGE), read_file(MANUAL));
    let tables = sections().into_iter().map(|name| (name, table(name)));
    let tables = tables.chain([(FIRST_PART, first_table())]);
    let lists = sections().into_iter().map(|name| (name, list(name)));
    let lists = lists.chain([("reasons", reasons()), (FIRST_PART, first_list())]);
    let new_page = renewed(&page, |text| format!("<!-- {text} -->\n"), tables);
    let new_manual = renewed(&manual, |text| format!(".\\\" {text}\n"), lists);
    [(PAGE, page, new_page), (MANUAL, manual, new_manual)]
}

#[test]
fn the_documentation_is_current() {
    for (name, text, new) in documentation() {
        assert_eq!(text, new, "{name} is out of date: run `make settings`");
    }
}

/// Not a check: `make settings` runs it to write the generated parts anew.
#[test]
#[ignore = "writes docs/users/settings.md and docs/man/circulant.7"]
fn bless() {
    for (name, _, new) in documentation() {
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(name), new).unwrap();
    }
}

#[test]
fn the_documentation_lists_every_algorithm() {
    let (page, manual) = (read_file("docs/users/running.md"), read_file(MANUAL));
    for name in Algorithm::VARIANTS {
        assert!(
            page.contains(&format!("`{name}`")),
            "docs/users/running.md: {name}"
        );
        let is_listed = |line: &str| {
            let names = line.strip_prefix(".It Sy ").unwrap_or_default();
            names.split(" , ").any(|listed| listed == *name)
        };
        assert!(manual.lines().any(is_listed), "{MANUAL}: {name}");
    }
}

/// The files below `folder` that are documentation.
fn pages_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut pages = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            pages.extend(pages_in(&path));
        } else if path
            .extension()
            .is_some_and(|end| ["md", "1", "7"].iter().any(|e| end == *e))
        {
            pages.push(path);
        }
    }
    pages
}

/// The variables that a line names, without their prefix: in full, or for `circulant run --set`.
fn named(line: &str) -> Vec<String> {
    let line = line.replace("\\-", "-");
    let is_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let in_full = line.split("CIRCULANT_").skip(1);
    let in_full = in_full.map(|rest| rest.split(|c| !is_of_name(c)).next().unwrap());
    let settings = line.split("-set ").skip(1);
    let set = settings.filter_map(|setting| Some(setting.split_once('=')?.0));
    let set = set.filter(|name| name.chars().all(is_of_name));
    let names = in_full.chain(set.map(|name| name.trim_start_matches("CIRCULANT_")));
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn no_variable_is_named_that_does_not_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "include/circulant.h",
    ];
    let pages = pages.map(|name| root.join(name)).into_iter();
    // The guard of the header, what tells examples where the library is, and a placeholder.
    let others = ["H", "LIBRARY", "NAME"];
    let mut wrong = Vec::new();
    for path in pages.chain(pages_in(&root.join("docs"))) {
        let text = read_file(&path);
        let is_complaint = |line: &&str| line.contains("there is no such variable");
        let names = text
            .lines()
            .filter(|line| !is_complaint(line))
            .flat_map(named);
        for name in names.filter(|name| !others.contains(&name.as_str())) {
            let full = format!("CIRCULANT_{name}");
            if !describe().any(|variable| variable.name == full) {
                wrong.push(format!("{}: {full}", path.display()));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// A call between groups of 4 and 2 processes, of which this is unknown; or, where it is nothing, of
/// so many bytes, on so many nodes.
fn between_groups(operation: Operation, unknown: Unknown, bytes: u64, nodes: usize) -> Facts {
    Facts {
        bytes,
        smaller_group: if operation == Operation::Bcast { 1 } else { 2 },
        nodes,
        unknown,
        ..Facts::new(operation, if operation == Operation::Bcast { 5 } else { 6 })
    }
}

/// Rules with sizes hold between groups as soon as sizes are known. Before, a call is refused only
/// where none could be circulant's.
#[test]
fn rules_hold_between_groups_when_all_is_known() {
    const SIZES: [u64; 5] = [1, 1023, 1024, 65536, 1 << 30];
    let texts = [
        ("circulant:0-inf", vec![true; 5]),
        (
            "circulant:0-1K;native",
            vec![true, true, false, false, false],
        ),
        (
            "native:0-1K;circulant",
            vec![false, false, false, true, true],
        ),
        (
            "native:0-1K;circulant:1K-64K;native",
            vec![false, false, true, false, false],
        ),
        ("circulant:0-inf@ppn=1;native", vec![true; 5]),
        ("native@ppn=2-inf;circulant:1-inf", vec![true; 5]),
        ("native", vec![false; 5]),
        ("native@p=2-inf;circulant:0-inf", vec![false; 5]),
    ];
    for operation in [Operation::Bcast, Operation::Allgatherv] {
        for (text, expected) in &texts {
            let variable = format!("{}={text}", operation.name().to_uppercase());
            let settings = accepted(&variable);
            let of = |unknown, bytes, nodes| {
                choose(&between_groups(operation, unknown, bytes, nodes), &settings)
            };
            let ours = |bytes| of(Unknown::Nothing, bytes, 6).is_ok();
            assert_eq!(&SIZES.map(ours).to_vec(), expected, "{variable}");
            let mut nodes = 1..=6;
            let any = nodes.any(|nodes| {
                let mut sizes = SIZES.iter();
                sizes.any(|&bytes| of(Unknown::Nothing, bytes, nodes).is_ok())
            });
            for unknown in [Unknown::Sizes, Unknown::Processes] {
                let may_be = of(unknown, u64::MAX, 6).is_ok();
                // All are refused for sure by a rule that asks for nothing, or for what is known.
                let is_refused = *text == "native"
                    || text.starts_with("native@p=2-inf") && unknown == Unknown::Sizes;
                assert!(may_be || !any, "{variable}, {unknown:?}");
                assert_eq!(may_be, !is_refused, "{variable}, {unknown:?}");
            }
        }
    }
}

/// A rule's parameters are those of the calls that it holds for.
#[test]
fn a_segment_between_groups_is_that_of_the_rule() {
    let settings = accepted("ALLGATHERV=exchange,segment=512:0-1K;exchange,segment=4K");
    let segment = |bytes| {
        let facts = between_groups(Operation::Allgatherv, Unknown::Nothing, bytes, 6);
        choose(&facts, &settings).map(Algorithm::segment)
    };
    assert_eq!([1000, 5000].map(segment), [Ok(512), Ok(4096)]);
}

/// What other ranks say is read with the same care as the environment.
#[test]
fn a_word_beyond_the_names_is_refused() {
    let words = Settings::default().encode();
    let set = accepted("SELECT=tune").encode();
    let index = (4..ENCODED).find(|&index| words[index] != set[index]);
    for (word, is_accepted) in [(0, true), (5, true), (6, false), (u64::MAX, false)] {
        let mut words = words;
        words[index.unwrap()] = word;
        assert_eq!(
            Settings::decode(&words, &[]).is_some(),
            is_accepted,
            "{word}"
        );
    }
}

/// Every operation may have as many rules as one may have.
#[test]
fn all_rules_are_agreed_on() {
    let rules = vec!["native:1K-2K"; 64].join(";");
    let all = of_mpi().map(|operation| format!("{}={rules}", operation.name().to_uppercase()));
    let all: Vec<_> = all.collect();
    let (settings, complaints) = read(&all.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(complaints, [""; 0]);
    let (words, rules) = (settings.encode(), settings.encode_rules());
    assert_eq!(Settings::words_of_rules(&words), rules.len());
    assert_eq!(Settings::decode(&words, &rules), Some(settings));
}

/// Ranks have the same circulant if their first words agree: a hash (FNV-1a) of the names of all
/// variables, of the word that is none, of candidates and of the protocol, each with a zero after it, and of the version.
#[test]
fn the_first_word_says_which_circulant_it_is() {
    let names = describe().map(|variable| variable.name);
    let names = names
        .chain(["is_on_one_node"])
        .chain(CANDIDATES)
        .chain(["protocol 4"]);
    let mut hash = 14_695_981_039_346_656_037_u64;
    for name in names.chain([env!("CARGO_PKG_VERSION")]) {
        for byte in format!("{name}\0").into_bytes() {
            hash = (u128::from(hash ^ u64::from(byte)) * 1_099_511_628_211 % (1 << 64)) as u64;
        }
    }
    assert_eq!(Settings::default().encode()[0], hash);
}

/// Files are of rank 0 alone; the others have to know whether there are any.
#[test]
fn that_there_is_a_profile_is_known() {
    let has = |settings: Settings| [settings.has_profile(), settings.has_report()];
    assert_eq!(has(accepted("PROFILE=a.toml")), [true, false]);
    assert_eq!(has(accepted("REPORT=a.json")), [false, true]);
    assert_eq!(has(Settings::default()), [false, false]);
}

/// With these settings the MPI library runs all calls that settings do not decide on.
#[test]
fn native_and_trial_observe() {
    let observing = ["native", "trial"];
    for name in Select::VARIANTS {
        let settings = accepted(&format!("SELECT={name}"));
        assert_eq!(
            settings.select.observes(),
            observing.contains(name),
            "{name}"
        );
    }
}

/// A rule asks for the nodes where they matter to it.
#[test]
fn rules_that_ask_for_nodes() {
    for (rule, asks) in [
        ("leaders", true),
        ("lanes", true),
        ("shared", true),
        ("native@ppn=2-inf", true),
        ("doubling", false),
        ("census", false),
        ("ordered", false),
        ("circulant:1K-2M@p=3-9", false),
        ("native", false),
    ] {
        let settings = accepted(&format!("ALLREDUCE={rule}"));
        assert_eq!(
            settings.asks_for_nodes(Operation::Allreduce),
            asks,
            "{rule}"
        );
        assert!(!settings.asks_for_nodes(Operation::Bcast));
    }
}

/// Every algorithm can be named that runs an operation.
#[test]
fn the_algorithms_of_each_operation_can_be_named() {
    let all = [
        ("BCAST", "leaders lanes shared"),
        ("REDUCE", "leaders lanes shared"),
        ("ALLGATHER", "doubling exchange leaders lanes shared"),
        ("ALLGATHERV", "doubling exchange leaders lanes shared"),
        ("REDUCE_SCATTER", "doubling ordered leaders lanes shared"),
        (
            "REDUCE_SCATTER_BLOCK",
            "doubling ordered leaders lanes shared",
        ),
        ("ALLREDUCE", "doubling ordered census leaders lanes shared"),
        ("ALLTOALL", "combining pairwise shared"),
        ("GATHER", "tree shared"),
        ("SCATTER", "tree shared"),
    ];
    let names = <Algorithm as VariantNames>::VARIANTS;
    for (variable, accepted_names) in all {
        let own: Vec<_> = accepted_names.split(' ').collect();
        for name in names {
            let (_, complaints) = read(&[&format!("{variable}={name}")]);
            let is_named = own.contains(name) || *name == "circulant";
            assert_eq!(
                complaints.is_empty(),
                is_named,
                "{variable}={name} {complaints:?}"
            );
        }
    }
}
