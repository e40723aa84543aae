//! What was learned on communicators of so many processes and nodes; and the profile, the TOML file
//! that holds that.
//!
//! ```toml
//! version = 1
//! mpi = "Open MPI v4.1.4"
//!
//! [[network]]
//! processes = 16
//! nodes = 16
//! alpha = 92.1   # microseconds of a message
//! beta = 0.21    # and of each further byte
//!
//! [[network.calls]]
//! operation = "bcast"
//! bytes = 524288 # to twice as many
//! run = "n"
//! seconds = [1.95, 0.215]
//! ```

use std::fmt::Write;
use std::io::{self, ErrorKind};
use std::path::Path;

use serde::Deserialize;
use strum::{VariantArray, VariantNames};

use super::{CANDIDATES, Kind, Network, Operation, Order, PLACES};
use crate::{allocator, files};

/// What is known of communicators of as many processes on as many nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// p
    pub processes: usize,
    /// Of the communicator.
    pub nodes: usize,
    /// What messages take there.
    pub network: Network,
    /// Who runs the calls of each kind.
    pub lessons: Vec<Lesson>,
    /// Whether the network is that of others, which are alike. It is not lent once more.
    pub is_lent: bool,
}

/// Who runs the calls of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lesson {
    /// The kind.
    pub kind: Kind,
    /// The candidate, an index of [`CANDIDATES`].
    pub candidate: usize,
    /// Nanoseconds of a call by the MPI library, and by the fastest of ours. 0: not known.
    pub times: [u64; 2],
    /// Nanoseconds of a call by each candidate that was tried here. 0: it was not.
    pub tried: [u64; PLACES],
    /// Whether they were measured. Else the cost model predicts them.
    pub is_measured: bool,
}

impl Lesson {
    /// What its candidate is called.
    pub fn name(&self) -> &'static str {
        CANDIDATES[self.candidate.min(CANDIDATES.len() - 1)]
    }
}

/// The words before the lessons, and of a lesson.
const HEADER: usize = 3;
const LESSON: usize = 5;

impl Known {
    /// Nothing yet, but the network.
    pub fn new(processes: usize, nodes: usize, network: Network) -> Known {
        Known {
            processes,
            nodes,
            network,
            lessons: Vec::new(),
            is_lent: false,
        }
    }

    /// The same, where it serves for communicators of these dimensions.
    pub fn lent_to(&self, processes: usize, nodes: usize) -> Known {
        Known {
            is_lent: self.is_lent || !self.is_of(processes, nodes),
            ..self.clone()
        }
    }

    /// How far it is from communicators of these dimensions: 0, if it is of the same. What is known
    /// serves for them, if it is less than 1.
    #[expect(clippy::disallowed_methods, reason = "only rank 0 asks")]
    pub fn distance(&self, processes: usize, nodes: usize) -> f64 {
        let apart = |a: usize, b: usize| (a.max(1) as f64 / b.max(1) as f64).log2().abs();
        apart(self.processes, processes) + apart(self.nodes, nodes)
    }

    /// Whether it is of communicators of these dimensions.
    pub fn is_of(&self, processes: usize, nodes: usize) -> bool {
        (self.processes, self.nodes) == (processes, nodes)
    }

    /// Takes a lesson, in the place of an earlier one. A prediction does not take the place of a
    /// measurement.
    pub fn learn(&mut self, lesson: Lesson) {
        let mut others = self.lessons.iter_mut();
        match others.find(|other| other.kind == lesson.kind) {
            Some(other) if other.is_measured && !lesson.is_measured => {}
            Some(other) => *other = lesson,
            None => self.lessons.push(lesson),
        }
    }

    /// Keeps what was measured: of calls whose result depends on who runs them only where
    /// `has_inexact`, so that a profile does not change a program's results unasked; and of what is
    /// lent, what was tried here. Returns whether there is something to keep.
    pub fn keep_measured(&mut self, has_inexact: bool) -> bool {
        let is_lent = self.is_lent;
        self.lessons.retain(|lesson| {
            let is_own = !is_lent || lesson.tried.iter().any(|&seconds| seconds > 0);
            is_own && lesson.is_measured && (lesson.kind.is_exact() || has_inexact)
        });
        !is_lent || !self.lessons.is_empty()
    }

    /// Its network and its lessons, for other processes.
    pub fn encode(&self) -> Vec<u64> {
        let lessons = self.lessons.iter().flat_map(|lesson| {
            let ([native, own], is_measured) = (lesson.times, lesson.is_measured.into());
            let (kind, candidate) = (lesson.kind.encode(), lesson.candidate as u64);
            [kind, candidate, native, own, is_measured]
        });
        let header = self.network.encode().into_iter();
        header
            .chain([u64::from(self.is_lent)])
            .chain(lessons)
            .collect()
    }

    /// What was encoded so.
    pub fn decode(processes: usize, nodes: usize, words: &[u64]) -> Option<Known> {
        let (&[alpha, beta, is_lent], lessons) = words.split_first_chunk::<HEADER>()?;
        let lessons = lessons.chunks_exact(LESSON).filter_map(|words| {
            let &[kind, candidate, native, own, is_measured] = words else {
                return None;
            };
            Some(Lesson {
                kind: Kind::decode(kind)?,
                candidate: usize::try_from(candidate).ok()?,
                times: [native, own],
                tried: [0; _],
                is_measured: is_measured != 0,
            })
        });
        Some(Known {
            lessons: lessons.collect(),
            is_lent: is_lent != 0,
            ..Known::new(processes, nodes, Network::decode([alpha, beta]))
        })
    }
}

/// The version of the format.
const VERSION: u64 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Profile {
    version: u64,
    mpi: String,
    #[serde(default)]
    network: Vec<OfNetwork>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfNetwork {
    processes: usize,
    nodes: usize,
    /// Microseconds, and microseconds a byte.
    alpha: f64,
    beta: f64,
    #[serde(default)]
    lent: bool,
    #[serde(default)]
    calls: Vec<Calls>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Calls {
    operation: String,
    bytes: u64,
    #[serde(default = "one")]
    irregularity: u64,
    #[serde(default = "any")]
    order: String,
    run: String,
    #[serde(default)]
    seconds: [f64; 2],
}

fn any() -> String {
    "any".to_owned()
}

fn one() -> u64 {
    1
}

/// Reads a profile that was measured with this MPI library.
///
/// # Errors
/// What is wrong with it, in one line.
pub fn read_profile(text: &str, mpi: &str) -> Result<Vec<Known>, String> {
    // Some text takes 80 times its length.
    allocator::check_left(allocator::PLENTY.max(100 * text.len()))?;
    let profile: Profile = toml::from_str(text).map_err(|error| {
        let line = error
            .span()
            .map(|span| text[..span.start].lines().count().max(1));
        let line = line
            .map(|line| format!("line {line}: "))
            .unwrap_or_default();
        format!("{line}{}", error.message())
    })?;
    if profile.version != VERSION {
        let found = profile.version;
        return Err(format!(
            "its version is {found}; version {VERSION} is accepted"
        ));
    }
    if profile.mpi != mpi {
        let found = profile.mpi;
        return Err(format!("it was measured with {found:?}; this is {mpi:?}"));
    }
    profile.network.into_iter().map(OfNetwork::known).collect()
}

/// The profile in `file`, which may not be there yet.
///
/// # Errors
/// What is wrong with it, in one line.
pub fn load_profile(file: &Path, mpi: &str) -> Result<Vec<Known>, String> {
    match files::read(file) {
        Ok(text) => read_profile(&text, mpi),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    }
}

/// Writes a profile to `file`. Who reads it meanwhile finds the old one or the new one.
///
/// # Errors
/// Those of the file system.
pub fn store_profile(file: &Path, all: &[Known], mpi: &str) -> io::Result<()> {
    files::replace(file, write_profile(all, mpi).as_bytes())
}

impl OfNetwork {
    fn known(self) -> Result<Known, String> {
        // From the least on that a network keeps, picoseconds, and femtoseconds a byte, up to what
        // a number of 53 bits has exactly, and so is read again as it was written.
        let is_valid = (1e-6..1e9).contains(&self.alpha) && (1e-9..1e6).contains(&self.beta);
        if self.processes < 2 || self.nodes < 1 || !is_valid {
            return Err(format!(
                "a network of {} processes on {} nodes, alpha {} and beta {}, is none",
                self.processes, self.nodes, self.alpha, self.beta
            ));
        }
        let network = Network::decode([
            (self.alpha * 1e6).round() as u64,
            (self.beta * 1e9).round() as u64,
        ]);
        let lessons = self
            .calls
            .iter()
            .map(Calls::lesson)
            .collect::<Result<_, _>>()?;
        Ok(Known {
            lessons,
            is_lent: self.lent,
            ..Known::new(self.processes, self.nodes, network)
        })
    }
}

impl Calls {
    fn lesson(&self) -> Result<Lesson, String> {
        let all = Operation::VARIANTS[..Operation::OF_MPI].iter();
        let names: Vec<_> = all.clone().map(|operation| operation.name()).collect();
        let operation = all
            .copied()
            .find(|operation| operation.name() == self.operation);
        let operation = operation.ok_or_else(|| unknown("operation", &self.operation, &names))?;
        let candidate = CANDIDATES.iter().position(|name| *name == self.run);
        let candidate = candidate.ok_or_else(|| unknown("run", &self.run, &CANDIDATES))?;
        let names = <Order as VariantNames>::VARIANTS;
        let order = names.iter().position(|name| *name == self.order);
        let order = order.and_then(|index| <Order as VariantArray>::VARIANTS.get(index).copied());
        let order = order.ok_or_else(|| unknown("order", &self.order, names))?;
        if self.bytes == 0 || self.irregularity == 0 {
            return Err("bytes and irregularity are 1 or more".to_owned());
        }
        if !self.seconds.iter().all(|time| (0.0..1e6).contains(time)) {
            return Err(format!(
                "seconds = {:?}: a call takes 0 or more, and less than 1e6",
                self.seconds
            ));
        }
        Ok(Lesson {
            kind: Kind {
                operation,
                size: self.bytes.ilog2(),
                irregularity: self.irregularity.ilog2(),
                order,
            },
            candidate,
            times: self.seconds.map(|seconds| (seconds * 1e9).round() as u64),
            tried: [0; _],
            is_measured: true,
        })
    }
}

fn unknown(what: &str, found: &str, accepted: &[&str]) -> String {
    format!(
        "{what} = {found:?} is not known: accepted is {}",
        accepted.join(", ")
    )
}

/// A profile of what was measured with this MPI library.
pub fn write_profile(all: &[Known], mpi: &str) -> String {
    let mut text = format!(
        "# What circulant measured: CIRCULANT_PROFILE says where this file is. A table of calls\n\
         # says who runs those of so many bytes, and less than twice as many.\n\
         version = {VERSION}\nmpi = {}\n",
        quoted(mpi)
    );
    for known in all {
        let [alpha, beta] = known.network.encode();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n[[network]]\nprocesses = {}\nnodes = {}\n\
             alpha = {:?} # microseconds of a message\n\
             beta = {:?} # and of each byte in it\n",
            known.processes,
            known.nodes,
            alpha as f64 / 1e6,
            beta as f64 / 1e9,
        );
        if known.is_lent {
            text += "lent = true # by others, which are alike\n";
        }
        let mut lessons = known.lessons.clone();
        lessons.sort_by_key(|lesson| lesson.kind.encode().rotate_right(8));
        for lesson in lessons {
            let _ = text.write_str(&table(&lesson));
        }
    }
    text
}

/// A text as TOML has it, whose escapes are not those of Rust.
fn quoted(text: &str) -> String {
    let character = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(character).collect::<String>())
}

fn table(lesson: &Lesson) -> String {
    let kind = lesson.kind;
    let irregularity = match kind.irregularity {
        0 => String::new(),
        of => format!(
            "irregularity = {} # the largest part over the mean\n",
            1u64 << of.min(63)
        ),
    };
    let order = match <Order as VariantNames>::VARIANTS[kind.order as usize] {
        "any" => String::new(),
        order => format!("order = {order:?} # in which elements may be combined\n"),
    };
    let seconds = match lesson.times {
        [0, 0] => "# as the nearest smaller and larger calls that were measured\n".to_owned(),
        [native, own] => format!(
            "seconds = [{:?}, {:?}] # of the MPI library, and of the fastest of circulant's\n",
            native as f64 / 1e9,
            own as f64 / 1e9,
        ),
    };
    format!(
        "\n[[network.calls]]\noperation = {:?}\nbytes = {}\n{irregularity}{order}run = {:?}\n\
         {seconds}{}",
        kind.operation.name(),
        kind.bytes()[0],
        lesson.name(),
        comparison(lesson),
    )
}

/// A comment with the times of all candidates that were tried.
fn comparison(lesson: &Lesson) -> String {
    let tried = CANDIDATES.iter().zip(lesson.tried);
    let times = tried.filter(|(_, nanoseconds)| *nanoseconds > 0);
    let times: Vec<_> = times
        .map(|(name, nanoseconds)| format!("{name} {:?} ms", nanoseconds as f64 / 1e6))
        .collect();
    if times.is_empty() {
        return String::new();
    }
    format!("# Measured: {}.\n", times.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        let kinds = [0x1400, 0x0002_0f05, 0x0103_1806].into_iter();
        let lessons = kinds.filter_map(Kind::decode).zip(1..);
        let lessons = lessons.map(|(kind, candidate)| Lesson {
            kind,
            candidate,
            times: [7_000, 1 << 40],
            tried: [0; _],
            is_measured: true,
        });
        Known {
            lessons: lessons.collect(),
            ..Known::new(17, 3, Network::decode([30_000_000, 800_000]))
        }
    }

    /// Half or twice as many processes are as far as half or twice as many nodes.
    #[test]
    fn what_is_known_of_others_serves_if_they_are_alike() {
        let known = known();
        assert_eq!(known.distance(17, 3), 0.0);
        assert_eq!((known.distance(34, 3), known.distance(17, 6)), (1.0, 1.0));
        assert!(known.distance(20, 3) < 1.0 && known.distance(20, 2) > known.distance(17, 2));
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let known = known();
        assert_eq!(known.lessons.len(), 3);
        assert_eq!(Known::decode(17, 3, &known.encode()), Some(known));
        assert_eq!(Known::decode(17, 3, &[]), None);
    }

    /// A new communicator predicts what another one has measured meanwhile.
    #[test]
    fn a_prediction_does_not_replace_a_measurement() {
        let mut known = known();
        let measured = known.lessons[0];
        let of = |is_measured, candidate| {
            let mut lesson = measured;
            (lesson.is_measured, lesson.candidate) = (is_measured, candidate);
            lesson
        };
        known.learn(of(false, 0));
        assert_eq!(known.lessons[0], measured);
        known.learn(of(true, 4));
        assert_eq!(known.lessons[0], of(true, 4));
        assert_eq!(known.lessons.len(), 3);
    }

    #[test]
    fn a_profile_holds_what_was_learned() {
        let known = known();
        let text = write_profile(std::slice::from_ref(&known), "MPI 1");
        let mut read = read_profile(&text, "MPI 1").unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].network, known.network);
        for lesson in known.lessons {
            assert!(read[0].lessons.contains(&lesson), "{lesson:?} in\n{text}");
            read[0].learn(lesson);
        }
        assert_eq!(read[0].lessons.len(), 3);
    }

    /// If seconds were cut instead of rounded, a tenth of the times below would become a nanosecond
    /// less.
    #[test]
    fn a_profile_that_is_read_and_written_again_stays_as_it_is() {
        let mut known = known();
        let mut lesson = known.lessons[0];
        known.lessons.clear();
        for nth in 1..60 {
            lesson.kind.irregularity = nth;
            lesson.times = [519_062 + u64::from(nth), 123_031 * u64::from(nth)];
            known.lessons.push(lesson);
        }
        known.network = Network::decode([519_063_000, 123_457]);
        let text = write_profile(&[known], "MPI 1");
        let read = read_profile(&text, "MPI 1").unwrap();
        assert_eq!(write_profile(&read, "MPI 1"), text);
    }

    /// A number that is not kept exactly would be another when the profile is read again.
    #[test]
    fn numbers_that_cannot_be_kept_are_refused() {
        let text = write_profile(&[known()], "MPI 1");
        let problem = |from: &str, to: &str| {
            assert!(text.contains(from), "{text}");
            read_profile(&text.replace(from, to), "MPI 1").err()
        };
        for beta in ["beta = 1e6", "beta = nan", "beta = -1.0", "beta = 1e-10"] {
            let found = problem("beta = 0.0008", beta).unwrap_or_default();
            assert!(found.contains("beta"), "{beta}: {found}");
        }
        for seconds in ["seconds = [-1.0, ", "seconds = [nan, ", "seconds = [1e6, "] {
            let found = problem("seconds = [7e-6, ", seconds).unwrap_or_default();
            assert!(found.contains("less than 1e6"), "{seconds}: {found}");
        }
        assert_eq!(problem("alpha = 30.0", "alpha = 31.0"), None);
    }

    #[test]
    fn what_depends_on_the_order_is_kept_only_if_asked_for() {
        let (mut exact, mut all) = (known(), known());
        exact.keep_measured(false);
        all.keep_measured(true);
        assert_eq!((exact.lessons.len(), all.lessons.len()), (2, 3));
        assert!(exact.lessons.iter().all(|lesson| lesson.kind.is_exact()));
    }

    /// What a profile says of others is not written as measured here, unless it was.
    #[test]
    fn what_is_lent_is_kept_only_where_it_was_tried() {
        let known = known();
        assert!(!known.lent_to(17, 3).is_lent);
        let mut lent = known.lent_to(20, 3);
        let mut told = Known::decode(20, 3, &lent.encode()).unwrap();
        assert!(told.is_lent && told.processes == 20);
        assert!(!told.keep_measured(true));
        lent.lessons[1].tried[0] = 5;
        assert!(lent.keep_measured(true));
        assert_eq!(lent.lessons.len(), 1);
        let text = write_profile(&[lent, known.clone()], "MPI 1");
        let read = read_profile(&text, "MPI 1").unwrap();
        assert_eq!(
            read.iter().map(|known| known.is_lent).collect::<Vec<_>>(),
            [true, false]
        );
    }

    #[test]
    fn a_broken_profile_is_named() {
        let text = write_profile(&[known()], "MPI 1");
        let complaint = |text: &str| read_profile(text, "MPI 1").unwrap_err();
        assert!(read_profile(&text, "MPI 2").unwrap_err().contains("MPI 1"));
        for (from, to, part) in [
            ("version = 1", "version = 2", "version 1"),
            ("version = 1", "", "version"),
            ("processes = 17", "processes = -1", "line"),
            ("processes = 17", "processes = 1", "1 processes"),
            ("alpha = ", "alpha = -", "alpha -30"),
            (
                "operation = \"bcast\"",
                "operation = \"cast\"",
                "bcast, reduce",
            ),
            ("run = \"n\"", "run = \"m\"", "native, one-block"),
            ("run = \"n\"", "run = ", "line"),
            ("bytes = 1048576", "bytes = 0", "bytes"),
        ] {
            let broken = text.replacen(from, to, 1);
            assert_ne!(broken, text, "{from}");
            assert!(complaint(&broken).contains(part), "{}", complaint(&broken));
        }
        assert!(complaint("\u{0}\u{1}").contains("line 1"));
    }

    /// What is cut off is missed, with the line where the text ends; or there is nothing of the
    /// last tables, and the others are as written. A number that lost digits is another one.
    #[test]
    fn the_start_of_a_profile_is_refused_or_read_as_it_is() {
        let text = write_profile(&[known(), Known::new(2, 1, Network::SHIPPED)], "MPI 1");
        let whole = read_profile(&text, "MPI 1").unwrap();
        let ends_number = |length: usize| {
            let is_digit = |c: char| c.is_ascii_digit() || c == '.';
            text[..length].ends_with(is_digit) && text[length..].starts_with(is_digit)
        };
        let mut read = 0;
        for length in (0..text.len()).filter(|&length| !ends_number(length)) {
            let start = &text[..length];
            match read_profile(start, "MPI 1") {
                Ok(all) => {
                    read += 1;
                    assert!(is_start(&all, &whole), "{all:?} of\n{start}");
                }
                Err(complaint) => {
                    let is_placed = complaint.starts_with("line ");
                    assert!(is_placed, "{complaint} of\n{start}");
                }
            }
        }
        // At least at the end of each table: of three calls, and of two networks.
        assert!(read > 5, "{read}");
    }

    /// Whether some networks are the first of `whole`, and the last has its first lessons. The last
    /// line of a lesson may not be there: its times.
    fn is_start(some: &[Known], whole: &[Known]) -> bool {
        let Some((last, others)) = some.split_last() else {
            return true;
        };
        let Some(cut) = whole.get(others.len()) else {
            return false;
        };
        let mut lessons = cut.lessons[..last.lessons.len().min(cut.lessons.len())].to_vec();
        if let (Some(read), Some(whole)) = (last.lessons.last(), lessons.last_mut()) {
            let has_times = read.times != [0; 2];
            whole.times = if has_times { whole.times } else { [0; 2] };
        }
        let is_cut = lessons == last.lessons;
        let lessons = cut.lessons.clone();
        others == &whole[..others.len()]
            && is_cut
            && Known {
                lessons,
                ..last.clone()
            } == *cut
    }

    /// No profile is an empty one. One that cannot be read is named.
    #[cfg(feature = "cli")]
    #[test]
    fn only_a_profile_that_is_not_there_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let missing = load_profile(&folder.path().join("none.toml"), "MPI 1");
        assert_eq!(missing, Ok(Vec::new()));
        assert!(load_profile(folder.path(), "MPI 1").is_err());
        let file = folder.path().join("some.toml");
        store_profile(&file, &[known()], "MPI 1").unwrap();
        assert_eq!(load_profile(&file, "MPI 1"), Ok(vec![known()]));
    }

    /// A profile is for people, too: names stand in it as they are, and beside a choice stands what
    /// it was made by, if that was measured.
    #[test]
    fn a_profile_says_what_was_tried() {
        let mut known = known();
        known.lessons[0].tried[0] = 7_000;
        known.lessons[0].tried[2] = 1;
        let text = write_profile(&[known], "Open \"MPI\" \u{7}");
        let comments: Vec<_> = text
            .lines()
            .filter(|line| line.contains("Measured"))
            .collect();
        assert_eq!(comments, ["# Measured: native 0.007 ms, n 1e-6 ms."]);
        assert!(
            text.contains("mpi = \"Open \\\"MPI\\\" \\u0007\"\n"),
            "{text}"
        );
    }

    #[test]
    fn dimensions_are_processes_and_nodes() {
        let known = known();
        assert!(known.is_of(17, 3));
        assert!(!known.is_of(17, 4) && !known.is_of(16, 3) && !known.is_of(3, 17));
    }
}
