//! One environment variable: its text, its value as a word, and its place in the settings.

use std::fmt;
use std::ops::RangeInclusive;

use super::Settings;

/// One environment variable.
pub(super) struct Variable {
    pub name: &'static str,
    pub accepts: Accepts,
    pub meaning: &'static str,
    /// The variable that wins where both are set.
    pub yields_to: Option<&'static str>,
    place: Place,
}

/// Where a variable's value is kept.
enum Place {
    /// In the part of the settings that the ranks agree on, where it is one word.
    Agreed {
        get: fn(&Settings) -> u64,
        set: fn(&mut Settings, u64),
    },
    /// In [`Settings::report`], which is each process's own.
    Report,
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

    /// The variable that says where the report goes.
    pub const fn report(name: &'static str, meaning: &'static str) -> Self {
        let accepts = Accepts::Destination;
        Variable {
            name,
            accepts,
            meaning,
            yields_to: None,
            place: Place::Report,
        }
    }

    /// The same variable, without effect where the variable `stronger` is set.
    pub const fn yielding_to(mut self, stronger: &'static str) -> Self {
        self.yields_to = Some(stronger);
        self
    }

    /// The word of this variable in `settings`; 0 for the one that is not agreed.
    pub fn word(&self, settings: &Settings) -> u64 {
        match self.place {
            Place::Agreed { get, .. } => get(settings),
            Place::Report => 0,
        }
    }

    /// Reads `text` into `settings`; false if it is not accepted, and nothing has changed.
    pub fn read(&self, text: &str, settings: &mut Settings) -> bool {
        match self.place {
            Place::Agreed { set, .. } => match self.accepts.parse(text) {
                Some(word) => set(settings, word),
                None => return false,
            },
            Place::Report => settings.report = Some(text.to_owned()),
        }
        true
    }

    /// Takes over a word from another process; false if that cannot be a value of this variable.
    pub fn restore(&self, word: u64, settings: &mut Settings) -> bool {
        if word != self.word(settings) {
            match self.place {
                Place::Agreed { set, .. } if self.accepts.admits(word) => set(settings, word),
                _ => return false,
            }
        }
        true
    }

    /// The value in `settings`, as it would be written in the environment; `None` where there is
    /// none, because a more general setting applies.
    pub fn value(&self, settings: &Settings) -> Option<String> {
        match self.place {
            Place::Agreed { get, .. } => self.accepts.show(get(settings)),
            Place::Report => settings.report.clone(),
        }
    }
}

/// What a variable accepts, and how its value is kept in one word. A variable that may be without
/// a value has the word 0 then, which is no value of any kind that such a variable has.
pub(super) enum Accepts {
    /// One of a few names; the word is the index.
    OneOf(&'static [&'static str]),
    /// A whole number within bounds.
    Number(RangeInclusive<u64>),
    /// Bytes within bounds, with an optional suffix K, M or G.
    Size(RangeInclusive<u64>),
    /// A decimal number within bounds; the word is its bits.
    Decimal(RangeInclusive<f64>),
    /// `stderr` or a file's name.
    Destination,
}

impl Accepts {
    fn parse(&self, text: &str) -> Option<u64> {
        let text = text.trim();
        let word = match self {
            Accepts::OneOf(names) => names.iter().position(|name| *name == text)? as u64,
            Accepts::Number(_) => text.parse().ok()?,
            Accepts::Size(_) => parse_size(text)?,
            Accepts::Decimal(_) => text.parse::<f64>().ok()?.to_bits(),
            Accepts::Destination => return None,
        };
        self.admits(word).then_some(word)
    }

    fn admits(&self, word: u64) -> bool {
        match self {
            Accepts::OneOf(names) => word < names.len() as u64,
            Accepts::Number(bounds) | Accepts::Size(bounds) => bounds.contains(&word),
            Accepts::Decimal(bounds) => bounds.contains(&f64::from_bits(word)),
            Accepts::Destination => false,
        }
    }

    fn show(&self, word: u64) -> Option<String> {
        self.admits(word).then(|| match self {
            Accepts::OneOf(names) => names[word as usize].to_owned(),
            Accepts::Size(_) => show_size(word),
            Accepts::Decimal(_) => f64::from_bits(word).to_string(),
            Accepts::Number(_) | Accepts::Destination => word.to_string(),
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
        }
    }
}

/// The suffixes of sizes, with the shifts that they stand for, the largest first.
const UNITS: [(char, u32); 3] = [('G', 30), ('M', 20), ('K', 10)];

/// Bytes, with an optional suffix; `None` if it is no number or does not fit.
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

/// Bytes, with the largest suffix that needs no fraction.
fn show_size(bytes: u64) -> String {
    let whole = |shift: &u32| bytes != 0 && bytes.trailing_zeros() >= *shift;
    match UNITS.iter().find(|(_, shift)| whole(shift)) {
        Some((suffix, shift)) => format!("{}{suffix}", bytes >> shift),
        None => bytes.to_string(),
    }
}
