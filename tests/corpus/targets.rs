//! The targets. Each reads what others wrote, or runs what the bytes of an input say, and fails where
//! a promise is broken. Not to panic is the least of these.

use std::cell::Cell;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use strum::VariantArray;

use circulant::schedule::{MAX_Q, Skips};
use circulant::select::{
    Complaint, ENCODED, Facts, Known, Operation, Origin, Peers, Roll, Settings, call_roll, choose,
    entry, read_profile, write_profile,
};

use crate::builds::Version;
use crate::choices::Choices;
use crate::library::{of_process, within_bounds};
use crate::oracle::{self, Paper};
use crate::simulator::simulate_intergroup;
use crate::{compare, contents, elf, report as tables, serial, xml};

/// A target, by its name.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 7] = [
    ("settings", settings),
    ("words", words),
    ("profile", profile),
    ("report", report),
    ("program", program),
    ("schedule", schedule),
    ("simulate", simulate),
];

/// Variables of the environment, one on a line and without their prefix. Those that are accepted are
/// the same when they are shown and read again, and on other ranks.
pub fn settings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let variables = text.lines().filter_map(|line| line.split_once('='));
    let variables = variables.map(|(name, value)| (format!("CIRCULANT_{name}"), value.to_owned()));
    let variables: Vec<_> = variables.collect();
    let (settings, complaints) = Settings::read(variables.iter().cloned());
    for complaint in &complaints {
        assert_eq!(complaint.to_string().lines().count(), 1, "{complaint}");
        assert_place(complaint, &variables);
    }
    let shown = settings.in_force().into_iter();
    let shown = shown.filter(|setting| setting.origin == Origin::Environment);
    let shown = shown.map(|setting| (setting.name.to_owned(), setting.value));
    assert_eq!(Settings::read(shown), (settings.clone(), Vec::new()));
    assert_agreed(&settings);
}

/// Where a complaint says at which character something stands, it stands there.
fn assert_place(complaint: &Complaint, variables: &[(String, String)]) {
    let of = |(name, value): &(String, String)| {
        let problem = complaint
            .problem
            .strip_prefix(&format!("{name}={value:?} "))?;
        let problem = problem.strip_prefix("cannot be read: ")?;
        let (part, place) = problem.rsplit_once(" at character ")?;
        let place = place.split_once(':')?.0.parse::<usize>().ok()?;
        Some((value.clone(), part.to_owned(), place))
    };
    // Of a name that is given twice, the last value is read.
    if let Some((value, part, place)) = variables.iter().rev().find_map(of) {
        let start = value.char_indices().map(|(index, _)| index);
        let start = start.chain([value.len()]).nth(place.wrapping_sub(1));
        let after = start
            .and_then(|start| value.get(start..))
            .unwrap_or_default();
        let mut ends = (0..=after.len()).filter_map(|end| after.get(..end));
        let stands_there = start.is_some() && ends.any(|text| format!("{text:?}") == part);
        assert!(stands_there, "{complaint}");
    }
}

/// Other ranks get these settings, and choose by them.
fn assert_agreed(settings: &Settings) {
    let received = Settings {
        report: None,
        profile: None,
        profile_save: None,
        ..settings.clone()
    };
    let (words, rules) = (settings.encode(), settings.encode_rules());
    let decoded = Settings::decode(&words, &rules);
    assert_eq!(decoded.as_ref(), Some(&received));
    let told = call_roll(0, 1, settings, &Fuzzed::new(&[0]), |_| ());
    assert_eq!(told, Some(Roll::Complete(Box::new(received.clone()))));
    choose_calls(settings, &received);
}

/// Whatever the settings are, an algorithm or a reason is chosen for calls that there are rules for,
/// and the same with equal settings.
fn choose_calls(settings: &Settings, received: &Settings) {
    let has_rules = |operation: &&Operation| settings.rules_of(**operation).next().is_some();
    for operation in Operation::VARIANTS.iter().filter(has_rules) {
        for processes in [2, 7, 64usize] {
            for bytes in [1, 5000, 1 << 20, 1 << 40] {
                for nodes in [1, processes.div_ceil(2)] {
                    let facts = Facts {
                        bytes,
                        largest: bytes.div_ceil(processes as u64),
                        nodes,
                        ..Facts::new(*operation, processes)
                    };
                    assert_eq!(choose(&facts, settings), choose(&facts, received));
                }
            }
        }
    }
}

/// What other processes have sent: settings and rules, what was learned, or messages of the roll.
pub fn words(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u64::from(byte))
    };
    let words: Vec<u64> = data.chunks_exact(8).map(word).collect();
    match kind % 3 {
        0 => settings_of_words(&words),
        1 => known_of_words(&words),
        _ => roll(data),
    }
}

/// The words of variables are those by which they differ from the defaults, so that an input
/// outlives a change of what a word means.
fn settings_of_words(words: &[u64]) {
    let mut all = Settings::default().encode();
    let (own, rules) = words.split_at(words.len().min(ENCODED - 1));
    for (word, changed) in all[1..].iter_mut().zip(own) {
        *word ^= changed;
    }
    let Some(settings) = Settings::decode(&all, rules) else {
        return;
    };
    assert_eq!(settings.encode(), all);
    assert_eq!(settings.encode_rules(), rules);
    for setting in settings.in_force() {
        assert!(!setting.value.is_empty(), "{}", setting.name);
    }
    choose_calls(&settings, &settings);
}

fn known_of_words(words: &[u64]) {
    let Some(known) = Known::decode(16, 4, words) else {
        return;
    };
    let names = known.lessons.iter().map(|lesson| lesson.name());
    assert!(names.into_iter().all(|name| !name.is_empty()));
    let again = Known::decode(16, 4, &known.encode());
    // A network whose numbers are exact: the sender's are.
    let is_small = |word: &u64| *word < 1 << 50;
    if words.iter().take(2).all(is_small) {
        assert_eq!(again, Some(known));
    }
}

/// The launcher's store, and the messages of other processes, out of some bytes.
struct Fuzzed<'a> {
    data: &'a [u8],
    /// How many bytes were received.
    received: Cell<usize>,
}

impl Fuzzed<'_> {
    fn new(data: &[u8]) -> Fuzzed<'_> {
        let received = Cell::new(0);
        Fuzzed { data, received }
    }

    fn byte(&self, index: usize) -> u8 {
        self.data.get(index).copied().unwrap_or_default()
    }
}

impl Peers for Fuzzed<'_> {
    fn entry(&self, rank: usize) -> Option<String> {
        match self.byte(2 + rank) % 16 {
            1 => None,
            2 => Some(format!("0.0.9-{rank}")),
            _ => Some(entry(&Settings::default())),
        }
    }

    fn send(&self, _words: &[u64], to: usize) -> bool {
        self.byte(to) != 3
    }

    fn receive(&self, words: &mut [u64], from: usize) -> bool {
        for word in words {
            let byte = self.received.replace(self.received.get() + 1);
            // Mostly small words, as ranks and lengths are, and a few of any size.
            *word = match self.byte(byte) {
                255 => u64::MAX - u64::from(self.byte(byte + 1)),
                small => u64::from(small),
            };
        }
        self.byte(from) != 4
    }
}

/// A roll, as one process gets it.
fn roll(data: &[u8]) {
    let [rank, size, ..] = data else {
        return;
    };
    let size = 1 + usize::from(*size);
    let rank = usize::from(*rank) % size;
    let say = |line: &str| assert_eq!(line.lines().count(), 1, "{line}");
    let roll = call_roll(rank, size, &Settings::default(), &Fuzzed::new(data), say);
    if let Some(Roll::Complete(settings)) = roll {
        assert_agreed(&settings);
    }
}

/// A profile. One that is accepted is the same when it is written and read again.
pub fn profile(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let table = toml::from_str::<toml::Table>(text).unwrap_or_default();
    let mpi = table.get("mpi").and_then(toml::Value::as_str);
    let mpi = mpi.unwrap_or_default();
    let mut known = match read_profile(text, mpi) {
        Ok(known) => known,
        Err(problem) => {
            assert_eq!(problem.lines().count(), 1, "{problem}");
            let line = problem
                .strip_prefix("line ")
                .and_then(|rest| rest.split_once(':'));
            let line = line.map(|(line, _)| line.parse().unwrap_or(0));
            let lines = 1..=text.lines().count().max(1);
            assert!(line.is_none_or(|line| lines.contains(&line)), "{problem}");
            return;
        }
    };
    let written = write_profile(&known, mpi);
    // As it is written.
    for network in &mut known {
        let lessons = &mut network.lessons;
        lessons.sort_by_key(|lesson| lesson.kind.encode().rotate_right(8));
    }
    let again = read_profile(&written, mpi);
    assert_eq!(again, Ok(known), "of\n{written}");
}

/// A report in JSON, or two with a NUL between them.
pub fn report(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (first, second) = text.split_once('\0').unwrap_or((text, text));
    let (Ok(first), Ok(second)) = (contents::parse(first), contents::parse(second)) else {
        return;
    };
    let mut out = Vec::new();
    assert!(tables::print(&mut out, &first).is_ok());
    let page = tables::paged(&first);
    let problem = page.as_ref().ok().and_then(|page| xml::problem(page));
    assert_eq!(problem, None, "{page:?}");
    let files = [Path::new("first"), Path::new("second")];
    assert!(compare::print(&mut out, files, &[first, second]).is_ok());
    assert!(String::from_utf8(out).is_ok());
}

/// An ELF file; or what a dynamic linker lists, or an MPI library says of itself.
pub fn program(data: &[u8]) {
    if let Some(linker) = elf::interpreter(data) {
        let name = [linker.as_os_str().as_bytes(), &[0]].concat();
        assert!(elf::is_elf(data));
        assert!(
            data.windows(name.len()).any(|part| part == name),
            "{linker:?}"
        );
        assert_eq!(
            name.iter().filter(|byte| **byte == 0).count(),
            1,
            "{linker:?}"
        );
    }
    let text = String::from_utf8_lossy(data);
    for line in text.lines() {
        if let Some(file) = elf::mpi_library(line) {
            assert!(line.contains(&*file.to_string_lossy()), "{file:?}");
        }
        if let Some(name) = elf::missing_library(line) {
            assert!(line.contains(&name) && name.starts_with("libmpi"), "{name}");
        }
    }
    let version = Version::find(&text);
    assert_eq!(Version::find(&version.to_string()), version);
}

/// A number of processes, and one of these: the conditions, the paper's algorithms and its bounds.
pub fn schedule(data: &[u8]) {
    let mut choices = Choices(data);
    let p = 1 + (choices.number() as usize).min((1 << MAX_Q) - 1);
    let r = choices.number() as usize % p;
    let (skips, mut paper) = (Skips::new(p), Paper::new(p));
    assert_eq!(skips.as_slice(), paper.skip, "p = {p}");
    let (recv, send) = of_process(&skips, r);
    assert_eq!(recv, paper.receive(r), "p = {p}, r = {r}");
    if p <= oracle::ALGORITHM_6_HOLDS {
        assert_eq!(send, paper.send(r), "p = {p}, r = {r}");
    }
    assert_eq!(skips.baseblock(r), paper.baseblock(r), "p = {p}, r = {r}");
    let received = |r, k: usize| of_process(&skips, r).0[k];
    let sent = |r, k: usize| of_process(&skips, r).1[k];
    let violated = oracle::violation_of(r, skips.as_slice(), (&recv, &send), (received, sent));
    assert_eq!(violated, None, "p = {p}, r = {r}");
    within_bounds(&skips, r);
    if (2..=64).contains(&p) {
        let (recv, send) = (0..p).map(|r| of_process(&skips, r)).unzip();
        let n = 1 + choices.below(40);
        assert!(
            oracle::broadcast(&paper.skip, &recv, &send, n),
            "p = {p}, n = {n}"
        );
    }
}

/// Calls on teams, or an allgather between groups: the engine, in a simulator as unkind as the input
/// says, leaves what a serial computation does.
pub fn simulate(data: &[u8]) {
    let mut choices = Choices(data);
    if choices.below(5) == 4 {
        let problem = choices.intergroup();
        let done = simulate_intergroup(&problem);
        assert!(done.is_ok(), "{done:?} of {problem:?}");
    } else {
        let drawn = choices.calls();
        assert_eq!(serial::check(&drawn), Ok(()), "{drawn:?}");
    }
}
