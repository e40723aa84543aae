//! The settings in force: read from the environment, then agreed between the ranks.
//!
//! Every process reads its own environment, but all use rank 0's settings. Rank 0 sends them to the
//! others, [encoded](Settings::encode), before any decision depends on them. If two ranks had
//! different thresholds, they would wait for each other for ever.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt;

use once_cell::sync::OnceCell;

use super::CANDIDATES;
use super::facts::Operation;
use super::rules::{CallRule, RULE_WORDS, RULES_MAX};
use super::settings::Settings;
use super::variable::Variable;
use super::variables::{PREFIX, VARIABLES, variables};

/// Where a value came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The shipped default.
    Default,
    /// The environment.
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

/// The number of words of [`Settings::encode`]: the layout, the bits of the variables from the
/// environment, the number of rules, what the launcher says, and one word for each variable.
pub const ENCODED: usize = 4 + VARIABLES;

// `Settings::from_environment` has a bit for every variable.
const _: () = assert!(VARIABLES <= u64::BITS as usize);

impl Settings {
    /// Reads the settings from environment variables, in any order. Variables that do not start
    /// with `CIRCULANT_` are ignored, and an empty value counts as not set.
    ///
    /// Also returns complaints: about each value that cannot be read, each block size beside a
    /// block count, and each unknown variable.
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

    /// Reads the settings from the environment of this process.
    pub fn of_environment() -> (Settings, Vec<Complaint>) {
        Settings::of_variables(env::vars_os())
    }

    /// As [`read`](Self::read). Settings are text, so a file whose name is not UTF-8 cannot be set.
    fn of_variables(
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> (Settings, Vec<Complaint>) {
        let mut unreadable = Vec::new();
        let texts = variables.filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            match value.into_string() {
                Ok(value) => Some((name, value)),
                Err(value) if name.starts_with(PREFIX) => {
                    unreadable.push(Complaint {
                        problem: format!("{name}={value:?} cannot be read: it is not UTF-8"),
                        instead: "ignoring it".to_owned(),
                    });
                    None
                }
                Err(_) => None,
            }
        });
        let (settings, mut complaints) = Settings::read(texts);
        complaints.append(&mut unreadable);
        (settings, complaints)
    }

    /// The defaults, whatever the environment says, since the process has more rights than who
    /// wrote it; with a complaint if it says something.
    pub fn of_distrusted_environment() -> (Settings, Vec<Complaint>) {
        let names = env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
        let set: Vec<_> = names.filter(|name| name.starts_with(PREFIX)).collect();
        let complaint = (!set.is_empty()).then(|| Complaint {
            problem: format!(
                "this process has more rights than who started it, who set {}",
                set.join(", ")
            ),
            instead: "using the defaults".to_owned(),
        });
        (Settings::default(), complaint.into_iter().collect())
    }

    /// Stores the value of one variable, or returns a complaint about it.
    fn take(&mut self, index: usize, variable: &Variable, text: &str) -> Option<Complaint> {
        let name = variable.name;
        if let Some(stronger) = variable.yields_to.filter(|stronger| self.is_set(stronger)) {
            return Some(Complaint {
                problem: format!("{name}={text:?}: only one of it and {stronger} is accepted"),
                instead: format!("using {stronger}"),
            });
        }
        let Err(problem) = variable.read(text, self) else {
            self.from_environment |= 1 << index;
            return None;
        };
        let instead = match variable.value(self) {
            Some(value) => format!("using {value}"),
            None => "ignoring it".to_owned(),
        };
        Some(Complaint {
            problem: format!("{name}={text:?} cannot be read: {problem}"),
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

    /// Whether the environment says what F is, for operations that are rooted, or G, for others.
    pub fn is_factor_given(&self, is_rooted: bool) -> bool {
        static NAMES: [&str; 2] = ["CIRCULANT_G", "CIRCULANT_F"];
        static INDICES: OnceCell<[Option<usize>; 2]> = OnceCell::new();
        let index = |name| variables().position(|variable| variable.name == name);
        let indices = INDICES.get_or_init(|| NAMES.map(index));
        indices[usize::from(is_rooted)].is_some_and(|index| self.is_from_environment(index))
    }

    /// Whether rank 0 has a profile.
    pub fn has_profile(&self) -> bool {
        self.is_set("CIRCULANT_PROFILE")
    }

    /// Whether rank 0 writes a report.
    pub fn has_report(&self) -> bool {
        self.is_set("CIRCULANT_REPORT")
    }

    /// All settings that decisions depend on, for the other ranks, but for the
    /// [rules](Self::encode_rules).
    pub fn encode(&self) -> [u64; ENCODED] {
        let mut words = [0; ENCODED];
        words[0] = layout();
        words[1] = self.from_environment;
        words[2] = self.rules.len() as u64;
        words[3] = self.is_on_one_node.into();
        for (word, variable) in words[4..].iter_mut().zip(variables()) {
            *word = variable.word(self);
        }
        words
    }

    /// The settings that another process has [encoded](Self::encode), with its
    /// [rules](Self::encode_rules), and without its [report](Self::report). `None` if that process
    /// runs another version of circulant, or if a word is no value of its variable.
    pub fn decode(words: &[u64; ENCODED], rules: &[u64]) -> Option<Settings> {
        let rules = rules
            .chunks(RULE_WORDS)
            .map(|rule| CallRule::decode(rule.try_into().ok()?));
        let mut settings = Settings {
            from_environment: words[1],
            rules: rules.collect::<Option<_>>()?,
            is_on_one_node: words[3] == 1,
            ..Settings::default()
        };
        let restored = words[4..]
            .iter()
            .zip(variables())
            .all(|(word, variable)| variable.restore(*word, &mut settings));
        let has_all = Settings::words_of_rules(words) == RULE_WORDS * settings.rules.len();
        let is_own = words[0] == layout() && words[1] >> VARIABLES == 0 && words[3] <= 1;
        (is_own && has_all && restored).then_some(settings)
    }

    /// The rules, for the other ranks.
    pub fn encode_rules(&self) -> Vec<u64> {
        self.rules.iter().flat_map(CallRule::encode).collect()
    }

    /// How many words the rules of the process have that has [encoded](Self::encode) `words`.
    pub fn words_of_rules(words: &[u64; ENCODED]) -> usize {
        let most = (Operation::OF_MPI * RULES_MAX) as u64;
        let is_own = words[0] == layout();
        if is_own {
            RULE_WORDS * words[2].min(most) as usize
        } else {
            0
        }
    }

    /// Every value in force. A variable without a value, because a more general one applies, is
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

/// Counts changes of what processes tell each other.
const PROTOCOL: &str = "protocol 4";

/// A word that differs between versions of circulant, between tables of variables and of
/// candidates, and between protocols. It is an FNV-1a hash of the names of the words that are
/// encoded, of those of the candidates, in order, of the protocol and of the version. The version
/// is part of it because the ranks must also agree on the constants of the cost model.
fn layout() -> u64 {
    let names = variables().map(|variable| variable.name);
    let bytes = names
        .chain(["is_on_one_node"])
        .chain(CANDIDATES)
        .chain([PROTOCOL, env!("CARGO_PKG_VERSION")])
        .flat_map(|name| name.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// What is wrong with a variable, and what is done about it. Displayed as one line, without a line
/// end.
#[derive(Clone, Debug, PartialEq)]
pub struct Complaint {
    /// The variable, its value, and what is accepted.
    pub problem: String,
    instead: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "circulant: {}; {}", self.problem, self.instead)
    }
}

/// The complaint about a variable that does not exist. All names are in upper case, so the name is
/// compared in upper case.
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

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    /// It is not taken for another file.
    #[test]
    fn a_value_that_is_not_utf8_is_complained_about() {
        let odd = OsString::from_vec(b"/tmp/r\xe9port.json".to_vec());
        let variables = [
            ("CIRCULANT_REPORT".into(), odd.clone()),
            ("ANOTHER".into(), odd),
            ("CIRCULANT_FORCE".into(), "1".into()),
        ];
        let (settings, complaints) = Settings::of_variables(variables.into_iter());
        assert!(settings.force && settings.report.is_none());
        let lines: Vec<_> = complaints.iter().map(Complaint::to_string).collect();
        let expected = "circulant: CIRCULANT_REPORT=\"/tmp/r\\xE9port.json\" cannot be read: \
                        it is not UTF-8; ignoring it";
        assert_eq!(lines, [expected]);
    }
}
