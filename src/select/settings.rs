//! The settings in force: read from the environment, then agreed between the ranks.
//!
//! Every process reads its own environment, but rank 0's settings are the job's: it sends them,
//! [encoded](Settings::encode), to the others before any decision depends on them. A threshold
//! that differed between two ranks would be a deadlock.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt;

use super::Operation;
use super::variable::Variable;
use super::variables::{PREFIX, VARIABLES, variables};
use crate::schedule::Rule;

/// The settings in force. Plain data, with public fields; every value within its variable's bounds
/// if it came from [`Settings::read`] or [`Settings::decode`].
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Every call goes to the MPI library.
    pub disable: bool,
    /// Every call that can be circulant's is.
    pub force: bool,
    /// Problems of fewer bytes go to the MPI library.
    pub min_bytes: u64,
    /// The number of blocks of every message, where it is fixed.
    pub blocks: Option<u64>,
    /// The size of a block in bytes, where it is fixed and `blocks` is not.
    pub block_size: Option<u64>,
    /// Broadcast and reduction: blocks of F sqrt(m/q) bytes. Its unit is the root of a byte.
    pub f: f64,
    /// The other operations: sqrt(m q)/G blocks. Its unit is the root of a byte.
    pub g: f64,
    /// The skips of the algorithms whose messages are one block.
    pub skips: Rule,
    /// The largest message of those, in bytes.
    pub segment: u64,
    /// The largest MPI_Allreduce in q rounds of the whole operand, in bytes.
    pub census_max: u64,
    /// How operands that grow are exchanged.
    pub merging: Merging,
    /// Receives posted ahead.
    pub window: usize,
    /// Sends outstanding at a time.
    pub sends: usize,
    /// How sends are kept in step with their receives.
    pub pacing: Pacing,
    /// The most scratch memory of one communicator, in bytes.
    pub scratch_max: u64,
    /// The most private communicators that a process has at once: MPICH has about 2,000
    /// communicators in all, and most of them are the program's.
    pub communicators: usize,
    /// What is made of the roots of successive broadcasts.
    pub bcast_order: BcastOrder,
    /// How values of circulant_successive_bcast go.
    pub successive: Successive,
    /// The most bytes in a message to the next owner of successive broadcasts, unless a value has more.
    pub relayed: u64,
    /// So many consecutive ranks count as a node, whatever machines they are on.
    pub node_size: Option<u64>,
    /// Calls in progress at once that a broadcast is cut into.
    pub chunks: usize,
    /// Whether calls on inter-communicators may be ours.
    pub inter: bool,
    /// Whether it is asked of buffers if they are in the memory of a device.
    pub gpu: bool,
    /// One line a call on rank 0's standard error.
    pub trace: bool,
    /// The settings in force on rank 0's standard error, at the start.
    pub verbose: bool,
    /// What each operation has of its own, indexed by [`Operation`].
    pub operations: [OperationSettings; Operation::COUNT],
    /// Where the report goes, as it was set. Each process's own: it is not encoded.
    pub report: Option<String>,
    /// Bit i is set if the value of variable i, in the order of [`describe`](super::describe), is
    /// from the environment.
    pub from_environment: u64,
}

/// The settings of one operation; what is `None` is as the general settings say.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct OperationSettings {
    /// Who runs it.
    pub mode: Mode,
    /// The number of blocks.
    pub blocks: Option<u64>,
    /// The size of a block in bytes.
    pub block_size: Option<u64>,
    /// F if the operation is [rooted](Operation::is_rooted), else G.
    pub factor: Option<f64>,
}

/// Who runs an operation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u64)]
pub enum Mode {
    /// circulant where it does no harm: where the cost model predicts a gain.
    #[default]
    Auto,
    /// The MPI library.
    Native,
    /// circulant, except for small messages.
    Circulant,
}

impl Mode {
    /// Every mode, in the order of the discriminants.
    pub(super) const ALL: [Mode; 3] = [Mode::Auto, Mode::Native, Mode::Circulant];
}

/// How operands that grow are exchanged, by the algorithms of Lang, *Modified Bruck/Dissemination
/// Algorithm for Commutative Reduction in MPI*.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u64)]
pub enum Merging {
    /// As it is fastest, as far as that is known.
    #[default]
    Auto,
    /// Algorithm 0: all of them on all processes, by MPI_Allgatherv, and then combined.
    Allgather,
    /// Algorithm 1, the corrected dissemination.
    Dissemination,
    /// Algorithm 2, on a circulant graph.
    Circulant,
}

impl Merging {
    /// Every one, in the order of the discriminants.
    pub(super) const ALL: [Merging; 4] = [
        Merging::Auto,
        Merging::Allgather,
        Merging::Dissemination,
        Merging::Circulant,
    ];
}

/// How values of circulant_successive_bcast go.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u64)]
pub enum Successive {
    /// The faster way: where both may be, that is measured.
    #[default]
    Auto,
    /// By broadcasts of the MPI library.
    Native,
    /// Each along a tree of its own.
    Trees,
    /// From owner to owner, several in a message.
    Relay,
}

impl Successive {
    /// Every one, in the order of the discriminants.
    pub(super) const ALL: [Successive; 4] = [
        Successive::Auto,
        Successive::Native,
        Successive::Trees,
        Successive::Relay,
    ];
}

/// How sends are kept in step with their receives.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u64)]
pub enum Pacing {
    /// Synchronous where nothing else paces a rank: where it received nothing in the round before.
    #[default]
    Auto,
    /// Synchronous-mode sends: complete once the receive has begun, so that no rank runs ahead.
    Synchronous,
    /// Ordinary sends: complete as soon as the message is buffered.
    Eager,
}

impl Pacing {
    /// Every pacing, in the order of the discriminants.
    pub(super) const ALL: [Pacing; 3] = [Pacing::Auto, Pacing::Synchronous, Pacing::Eager];
}

/// What is made of the roots of successive broadcasts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u64)]
pub enum BcastOrder {
    /// Nothing.
    #[default]
    Auto,
    /// Small broadcasts whose roots follow each other go along trees that overlap.
    Gray,
}

impl BcastOrder {
    /// Every order, in the order of the discriminants.
    pub(super) const ALL: [BcastOrder; 2] = [BcastOrder::Auto, BcastOrder::Gray];
}

/// Where a value came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It is shipped.
    Default,
    /// It was set in the environment.
    Environment,
}

/// One variable's value in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InForce {
    /// The variable's full name.
    pub name: &'static str,
    /// The value, as it would be written in the environment.
    pub value: String,
    /// Where the value came from.
    pub origin: Origin,
}

impl Default for Settings {
    /// The shipped settings. F and G are as measured on a cluster of emulated hosts with 40 Mbit/s
    /// ports, window and sends likewise.
    fn default() -> Self {
        Settings {
            disable: false,
            force: false,
            min_bytes: 64 << 10,
            blocks: None,
            block_size: None,
            f: 18.0,
            g: 24.0,
            skips: Rule::default(),
            segment: 32 << 10,
            census_max: 4 << 10,
            merging: Merging::default(),
            window: 1,
            sends: 2,
            pacing: Pacing::default(),
            scratch_max: 64 << 20,
            communicators: 32,
            bcast_order: BcastOrder::default(),
            successive: Successive::default(),
            relayed: 1 << 10,
            node_size: None,
            chunks: 1,
            inter: true,
            gpu: true,
            trace: false,
            verbose: false,
            operations: [OperationSettings::default(); Operation::COUNT],
            report: None,
            from_environment: 0,
        }
    }
}

/// The words of [`Settings::encode`]: the layout, the variables from the environment, and one word
/// a variable.
pub const ENCODED: usize = 2 + VARIABLES;

// A bit of `Settings::from_environment` for every variable.
const _: () = assert!(VARIABLES <= u64::BITS as usize);

impl Settings {
    /// Reads the settings from environment variables, in any order; those that do not start with
    /// `CIRCULANT_` are passed over, and an empty value counts as not set.
    ///
    /// Also returns the complaints: about every value that cannot be read, a block size beside a
    /// block count, and every unknown variable.
    pub fn read(variables: impl Iterator<Item = (String, String)>) -> (Settings, Vec<Complaint>) {
        let mut environment: BTreeMap<String, String> = variables
            .filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty())
            .collect();
        let mut settings = Settings::default();
        let mut complaints = Vec::new();
        for (index, variable) in self::variables().enumerate() {
            if let Some(text) = environment.remove(variable.name) {
                complaints.extend(settings.take(index, variable, &text));
            }
        }
        complaints.extend(environment.iter().map(|(name, value)| unknown(name, value)));
        (settings, complaints)
    }

    /// Reads the settings from this process' environment.
    pub fn of_environment() -> (Settings, Vec<Complaint>) {
        let text = |value: OsString| value.to_string_lossy().into_owned();
        Settings::read(env::vars_os().map(|(name, value)| (text(name), text(value))))
    }

    /// Takes the value of one variable, or returns the complaint about it.
    fn take(&mut self, index: usize, variable: &Variable, text: &str) -> Option<Complaint> {
        let name = variable.name;
        if let Some(stronger) = variable.yields_to.filter(|stronger| self.is_set(stronger)) {
            return Some(Complaint {
                problem: format!("{name}={text:?}: only one of it and {stronger} is accepted"),
                instead: format!("using {stronger}"),
            });
        }
        if variable.read(text, self) {
            self.from_environment |= 1 << index;
            return None;
        }
        let instead = match variable.value(self) {
            Some(value) => format!("using {value}"),
            None => "ignoring it".to_owned(),
        };
        let accepts = &variable.accepts;
        Some(Complaint {
            problem: format!("{name}={text:?} cannot be read: accepted is {accepts}"),
            instead,
        })
    }

    fn is_set(&self, name: &str) -> bool {
        let index = variables().position(|variable| variable.name == name);
        index.is_some_and(|index| self.is_from_environment(index))
    }

    fn is_from_environment(&self, index: usize) -> bool {
        self.from_environment >> index & 1 == 1
    }

    /// The settings of one operation.
    pub fn of(&self, operation: Operation) -> &OperationSettings {
        &self.operations[operation as usize]
    }

    /// Everything on which a decision depends, for the other ranks.
    pub fn encode(&self) -> [u64; ENCODED] {
        let mut words = [0; ENCODED];
        words[0] = layout();
        words[1] = self.from_environment;
        for (word, variable) in words[2..].iter_mut().zip(variables()) {
            *word = variable.word(self);
        }
        words
    }

    /// The settings that another process [encoded](Self::encode), without its
    /// [report](Self::report). `None` if it runs another version of circulant, or a word is no
    /// value of its variable.
    pub fn decode(words: &[u64; ENCODED]) -> Option<Settings> {
        let mut settings = Settings {
            from_environment: words[1],
            ..Settings::default()
        };
        let restored = words[2..]
            .iter()
            .zip(variables())
            .all(|(word, variable)| variable.restore(*word, &mut settings));
        (words[0] == layout() && words[1] >> VARIABLES == 0 && restored).then_some(settings)
    }

    /// Every value in force; a variable that has none, because a more general one applies, is
    /// left out.
    pub fn in_force(&self) -> Vec<InForce> {
        variables()
            .enumerate()
            .filter_map(|(index, variable)| {
                let value = variable.value(self)?;
                let origin = if self.is_from_environment(index) {
                    Origin::Environment
                } else {
                    Origin::Default
                };
                Some(InForce {
                    name: variable.name,
                    value,
                    origin,
                })
            })
            .collect()
    }
}

/// A word that differs between versions of circulant and between tables of variables: an FNV-1a
/// hash of the version and of the variables' names in order. The version is in it because the
/// ranks must also agree on the constants of the cost model.
fn layout() -> u64 {
    let names = variables().map(|variable| variable.name);
    let bytes = names
        .chain([env!("CARGO_PKG_VERSION")])
        .flat_map(|name| name.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// What is wrong with a variable, and what is done; both, as one line without its end, when displayed.
#[derive(Clone, Debug, PartialEq)]
pub struct Complaint {
    /// Which variable, what was found, and what is accepted.
    pub problem: String,
    instead: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "circulant: {}; {}", self.problem, self.instead)
    }
}

/// The complaint about a variable that does not exist. Names are upper case; one in lower case is
/// nearest to the same in upper case.
fn unknown(name: &str, value: &str) -> Complaint {
    let upper = name.to_uppercase();
    let nearest = variables()
        .map(|variable| variable.name)
        .min_by_key(|known| strsim::damerau_levenshtein(known, &upper))
        .unwrap_or_default();
    Complaint {
        problem: format!(
            "{name}={value:?}: there is no such variable, the nearest name is {nearest}"
        ),
        instead: "ignoring it".to_owned(),
    }
}
