//! One environment variable: its text, the word that holds its value, its place in the settings.

use std::fmt;
use std::ops::RangeInclusive;

use super::facts::Operation;
use super::rules::{self, CallRule, Mode};
use super::settings::Settings;
use super::sizes::{parse_size, show_size};

/// One environment variable.
pub(super) struct Variable {
    /// The full name.
    pub name: &'static str,
    /// The values that are accepted.
    pub accepts: Accepts,
    /// One line on what it does, for the documentation.
    pub meaning: &'static str,
    /// The variable that is used if both are set.
    pub yields_to: Option<&'static str>,
    place: Storage,
}

/// Where a variable's value is kept.
enum Storage {
    /// In the part of the settings that the ranks agree on. There it is one word.
    Agreed {
        get: fn(&Settings) -> u64,
        set: fn(&mut Settings, u64),
    },
    /// In a part of the settings of which each process has its own.
    Own {
        get: fn(&Settings) -> &Option<String>,
        set: fn(&mut Settings, String),
    },
    /// Among the rules, which the ranks agree on by themselves.
    Rules { operation: Operation },
}

impl Variable {
    /// A variable on whose value the ranks agree.
    pub const fn agreed(
        name: &'static str,
        accepts: Accepts,
        meaning: &'static str,
        get: fn(&Settings) -> u64,
        set: fn(&mut Settings, u64),
    ) -> Self {
        Variable {
            name,
            accepts,
            meaning,
            yields_to: None,
            place: Storage::Agreed { get, set },
        }
    }

    /// A variable with the name of a file, of which each process has its own.
    pub const fn own(
        name: &'static str,
        accepts: Accepts,
        meaning: &'static str,
        get: fn(&Settings) -> &Option<String>,
        set: fn(&mut Settings, String),
    ) -> Self {
        Variable {
            name,
            accepts,
            meaning,
            yields_to: None,
            place: Storage::Own { get, set },
        }
    }

    /// A variable with the rules of an operation.
    pub const fn rules(name: &'static str, operation: Operation, meaning: &'static str) -> Self {
        Variable {
            name,
            accepts: Accepts::Rules,
            meaning,
            yields_to: None,
            place: Storage::Rules { operation },
        }
    }

    /// The same variable, without effect if the variable `stronger` is set.
    pub const fn yielding_to(mut self, stronger: &'static str) -> Self {
        self.yields_to = Some(stronger);
        self
    }

    /// The word of this variable in `settings`. It is 0 for one that is not agreed on by a word.
    pub fn word(&self, settings: &Settings) -> u64 {
        match self.place {
            Storage::Agreed { get, .. } => get(settings),
            Storage::Own { .. } | Storage::Rules { .. } => 0,
        }
    }

    /// Reads `text` into `settings`.
    ///
    /// # Errors
    /// What is accepted, if that is not. Nothing is changed then.
    pub fn read(&self, text: &str, settings: &mut Settings) -> Result<(), String> {
        match self.place {
            Storage::Agreed { set, .. } => {
                let word = self.accepts.parse(text);
                let accepted = || format!("accepted is {}", self.accepts);
                set(settings, word.ok_or_else(accepted)?);
            }
            Storage::Own { set, .. } => set(settings, text.to_owned()),
            Storage::Rules { operation } => {
                let rules = rules::read(operation, text);
                let rules = rules.map_err(|misread| misread.to_string())?;
                settings.rules.extend(rules);
            }
        }
        Ok(())
    }

    /// Stores a word from another process. Returns false if it is no value of this variable.
    pub fn restore(&self, word: u64, settings: &mut Settings) -> bool {
        if word != self.word(settings) {
            match self.place {
                Storage::Agreed { set, .. } if self.accepts.admits(word) => set(settings, word),
                _ => return false,
            }
        }
        true
    }

    /// The value in `settings`, as it would be written in the environment. `None` if it has no
    /// value, because a more general setting applies.
    pub fn value(&self, settings: &Settings) -> Option<String> {
        match self.place {
            Storage::Agreed { get, .. } => self.accepts.show(get(settings)),
            Storage::Own { get, .. } => get(settings).clone(),
            Storage::Rules { operation } => {
                let rules: Vec<_> = settings
                    .rules_of(operation)
                    .map(CallRule::to_string)
                    .collect();
                let auto = || CallRule::plain(operation, Mode::Auto).to_string();
                Some(if rules.is_empty() {
                    auto()
                } else {
                    rules.join(";")
                })
            }
        }
    }
}

/// What a variable accepts, and how its value is kept in one word.
///
/// Some variables may have no value. Their word is 0 then, which their kind does not accept.
pub(super) enum Accepts {
    /// One of a few names. The word is the index.
    OneOf(&'static [&'static str]),
    /// A whole number within bounds.
    Number(RangeInclusive<u64>),
    /// Bytes within bounds, with an optional suffix K, M or G.
    Size(RangeInclusive<u64>),
    /// A decimal number within bounds. The word is its bits.
    Decimal(RangeInclusive<f64>),
    /// [Rules](rules).
    Rules,
    /// `stdout`, `stderr` or the name of a file.
    Destination,
    /// The name of a file.
    File,
}

impl Accepts {
    fn parse(&self, text: &str) -> Option<u64> {
        let text = text.trim();
        let word = match self {
            Accepts::OneOf(names) => names.iter().position(|name| *name == text)? as u64,
            Accepts::Number(_) => text.parse().ok()?,
            Accepts::Size(_) => parse_size(text)?,
            Accepts::Decimal(_) => text.parse::<f64>().ok()?.to_bits(),
            Accepts::Rules | Accepts::Destination | Accepts::File => return None,
        };
        self.admits(word).then_some(word)
    }

    fn admits(&self, word: u64) -> bool {
        match self {
            Accepts::OneOf(names) => word < names.len() as u64,
            Accepts::Number(bounds) | Accepts::Size(bounds) => bounds.contains(&word),
            Accepts::Decimal(bounds) => bounds.contains(&f64::from_bits(word)),
            Accepts::Rules | Accepts::Destination | Accepts::File => false,
        }
    }

    fn show(&self, word: u64) -> Option<String> {
        self.admits(word).then(|| match self {
            Accepts::OneOf(names) => names[word as usize].to_owned(),
            Accepts::Size(_) => show_size(word),
            Accepts::Decimal(_) => f64::from_bits(word).to_string(),
            Accepts::Number(_) => word.to_string(),
            Accepts::Rules | Accepts::Destination | Accepts::File => String::new(),
        })
    }
}

impl fmt::Display for Accepts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Accepts::OneOf([names @ .., last]) => write!(f, "{} or {last}", names.join(", ")),
            Accepts::OneOf([]) => f.write_str("nothing"),
            Accepts::Number(bounds) => {
                let (least, most) = (bounds.start(), bounds.end());
                write!(f, "a whole number from {least} to {most}")
            }
            Accepts::Size(bounds) => {
                let (least, most) = (show_size(*bounds.start()), show_size(*bounds.end()));
                f.write_str("bytes, with K, M or G for powers of 1024, ")?;
                write!(f, "from {least} to {most}")
            }
            Accepts::Decimal(bounds) => {
                let (least, most) = (bounds.start(), bounds.end());
                write!(f, "a decimal number from {least} to {most}")
            }
            Accepts::Rules => f.write_str("auto, native or circulant, or rules"),
            Accepts::Destination => f.write_str("stdout, stderr or a file name"),
            Accepts::File => f.write_str("a file name"),
        }
    }
}
