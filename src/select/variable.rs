//! One environment variable: its text, the word that holds its value, its place in the settings.

use std::fmt;
use std::ops::RangeInclusive;

use super::Settings;

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
    place: Place,
}

/// Where a variable's value is kept.
enum Place {
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
            place: Place::Agreed { get, set },
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
            place: Place::Own { get, set },
        }
    }

    /// The same variable, without effect if the variable `stronger` is set.
    pub const fn yielding_to(mut self, stronger: &'static str) -> Self {
        self.yields_to = Some(stronger);
        self
    }

    /// The word of this variable in `settings`. It is 0 for the variable that is not agreed on.
    pub fn word(&self, settings: &Settings) -> u64 {
        match self.place {
            Place::Agreed { get, .. } => get(settings),
            Place::Own { .. } => 0,
        }
    }

    /// Reads `text` into `settings`. Returns false, and changes nothing, if it is not accepted.
    pub fn read(&self, text: &str, settings: &mut Settings) -> bool {
        match self.place {
            Place::Agreed { set, .. } => match self.accepts.parse(text) {
                Some(word) => set(settings, word),
                None => return false,
            },
            Place::Own { set, .. } => set(settings, text.to_owned()),
        }
        true
    }

    /// Stores a word from another process. Returns false if it is no value of this variable.
    pub fn restore(&self, word: u64, settings: &mut Settings) -> bool {
        if word != self.word(settings) {
            match self.place {
                Place::Agreed { set, .. } if self.accepts.admits(word) => set(settings, word),
                _ => return false,
            }
        }
        true
    }

    /// The value in `settings`, as it would be written in the environment. `None` if it has no
    /// value, because a more general setting applies.
    pub fn value(&self, settings: &Settings) -> Option<String> {
        match self.place {
            Place::Agreed { get, .. } => self.accepts.show(get(settings)),
            Place::Own { get, .. } => get(settings).clone(),
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
    /// `stderr` or the name of a file.
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
            Accepts::Destination | Accepts::File => return None,
        };
        self.admits(word).then_some(word)
    }

    fn admits(&self, word: u64) -> bool {
        match self {
            Accepts::OneOf(names) => word < names.len() as u64,
            Accepts::Number(bounds) | Accepts::Size(bounds) => bounds.contains(&word),
            Accepts::Decimal(bounds) => bounds.contains(&f64::from_bits(word)),
            Accepts::Destination | Accepts::File => false,
        }
    }

    fn show(&self, word: u64) -> Option<String> {
        self.admits(word).then(|| match self {
            Accepts::OneOf(names) => names[word as usize].to_owned(),
            Accepts::Size(_) => show_size(word),
            Accepts::Decimal(_) => f64::from_bits(word).to_string(),
            Accepts::Number(_) | Accepts::Destination | Accepts::File => word.to_string(),
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
            Accepts::Destination => f.write_str("stderr or a file name"),
            Accepts::File => f.write_str("a file name"),
        }
    }
}

/// The suffixes of sizes and their shifts, the largest first.
const UNITS: [(char, u32); 3] = [('G', 30), ('M', 20), ('K', 10)];

/// A number of bytes, with an optional suffix. `None` if it is no number or does not fit.
fn parse_size(text: &str) -> Option<u64> {
    let unit = UNITS
        .iter()
        .find(|(suffix, _)| text.ends_with([*suffix, suffix.to_ascii_lowercase()]));
    let (number, shift) = match unit {
        Some((_, shift)) => (&text[..text.len() - 1], *shift),
        None => (text, 0),
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A number of bytes, with the largest suffix that needs no fraction.
fn show_size(bytes: u64) -> String {
    let whole = |shift: &u32| bytes != 0 && bytes.trailing_zeros() >= *shift;
    match UNITS.iter().find(|(_, shift)| whole(shift)) {
        Some((suffix, shift)) => format!("{}{suffix}", bytes >> shift),
        None => bytes.to_string(),
    }
}
