//! What processes tell each other of themselves at the start of a job, and what follows from that.

use super::{ENCODED, Settings};

/// What is known of the processes of a job.
#[derive(Clone, PartialEq, Debug)]
pub enum Roll {
    /// All have this circulant. These are rank 0's settings.
    Complete(Box<Settings>),
    /// A process has no circulant.
    Absent {
        /// The first that has one.
        first: usize,
        /// The first that has none.
        absent: usize,
    },
    /// Processes have different ones.
    Mixed {
        /// The first process, and the first that has another than it.
        ranks: [usize; 2],
        /// Which these have.
        builds: [String; 2],
    },
}

/// What the process of this rank tells the others: which circulant it has, and rank 0 its settings.
/// Text of letters, digits, dots, dashes and colons.
pub fn entry(settings: &Settings, rank: usize) -> String {
    let words = settings.encode();
    let mut entry = build(words[0]);
    if rank == 0 {
        for word in words.into_iter().chain(settings.encode_rules()) {
            entry.push_str(&format!(":{word:x}"));
        }
    }
    entry
}

/// A version, and a hash of which settings there are.
fn build(layout: u64) -> String {
    format!("{}-{layout:x}", env!("CARGO_PKG_VERSION"))
}

impl Roll {
    /// What follows from the entries of all processes, some of whom have one. The same wherever the
    /// entries are.
    pub fn of(entries: &[Option<String>]) -> Roll {
        let build = |rank: usize| {
            let entry = entries.get(rank).and_then(Option::as_deref);
            entry.map(|entry| entry.split(':').next().unwrap_or_default())
        };
        let first = entries.iter().position(Option::is_some).unwrap_or(0);
        if let Some(absent) = entries.iter().position(Option::is_none) {
            return Roll::Absent { first, absent };
        }
        let has_another = |rank: &usize| build(*rank) != build(0);
        if let Some(other) = (0..entries.len()).find(has_another) {
            let name = |rank| build(rank).unwrap_or_default().to_owned();
            return Roll::Mixed {
                ranks: [0, other],
                builds: [name(0), name(other)],
            };
        }
        let settings = entries.first().and_then(|entry| read(entry.as_deref()?));
        match settings {
            Some(settings) => Roll::Complete(Box::new(settings)),
            None => Roll::Absent { first, absent: 0 },
        }
    }

    /// The line for the owner of the job, and the rank that says it.
    pub fn complaint(&self) -> Option<(usize, String)> {
        match self {
            Roll::Complete(_) => None,
            Roll::Absent { first, absent } => Some((
                *first,
                format!(
                    "circulant: rank {absent} runs without circulant (perhaps others, too), so all \
                     calls of the job go to the MPI library; preload libcirculant.so on every \
                     rank, from a path that every node has"
                ),
            )),
            Roll::Mixed { ranks, builds } => Some((
                ranks[0],
                format!(
                    "circulant: rank {} has circulant {}, and rank {} has {}, so all calls of the \
                     job go to the MPI library; install one version on all nodes",
                    ranks[0], builds[0], ranks[1], builds[1]
                ),
            )),
        }
    }
}

/// The settings in rank 0's entry.
fn read(entry: &str) -> Option<Settings> {
    let words = entry.split(':').skip(1);
    let words: Vec<u64> = words
        .map(|word| u64::from_str_radix(word, 16).ok())
        .collect::<Option<_>>()?;
    let (words, rules) = words.split_first_chunk::<ENCODED>()?;
    Settings::decode(words, rules)
}

#[cfg(test)]
mod tests {
    use super::{Roll, entry};
    use crate::select::Settings;

    fn settings(text: &[(&str, &str)]) -> Settings {
        let pairs = text
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let (settings, complaints) = Settings::read(pairs);
        assert!(complaints.is_empty(), "{complaints:?}");
        settings
    }

    fn entries(settings: &Settings, count: usize) -> Vec<Option<String>> {
        let other = Settings::default();
        let of = |rank| if rank == 0 { settings } else { &other };
        (0..count).map(|rank| Some(entry(of(rank), rank))).collect()
    }

    #[test]
    fn all_get_the_settings_of_rank_0() {
        let given = settings(&[
            ("CIRCULANT_F", "31.5"),
            ("CIRCULANT_NODE_SIZE", "3"),
            (
                "CIRCULANT_BCAST",
                "native:0-32K;circulant,blocks=17:32K-1M;auto@p=2-64",
            ),
        ]);
        for count in [1, 2, 9] {
            let all = entries(&given, count);
            assert_eq!(Roll::of(&all), Roll::Complete(Box::new(given.clone())));
            let entry = all[0].as_deref().unwrap_or_default();
            let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-:".contains(c);
            assert!(entry.chars().all(is_plain), "{entry}");
        }
    }

    #[test]
    fn a_process_without_an_entry_is_named() {
        for (absent, first) in [(0, 1), (1, 0), (4, 0)] {
            let mut all = entries(&Settings::default(), 5);
            all[absent] = None;
            let roll = Roll::of(&all);
            assert_eq!(roll, Roll::Absent { first, absent });
            let (speaker, line) = roll.complaint().expect("a complaint");
            assert_eq!(speaker, first);
            assert!(
                line.contains(&format!("rank {absent} runs without")),
                "{line}"
            );
        }
    }

    #[test]
    fn processes_with_another_version_are_named() {
        let mut all = entries(&Settings::default(), 4);
        all[2] = Some("0.0.9-abc".to_owned());
        let (speaker, line) = Roll::of(&all).complaint().expect("a complaint");
        assert_eq!(speaker, 0);
        assert!(line.contains("rank 2 has 0.0.9-abc"), "{line}");
        // A rank 0 of another version is another to all.
        all.swap(0, 2);
        let (_, line) = Roll::of(&all).complaint().expect("a complaint");
        assert!(
            line.contains("rank 0 has circulant 0.0.9-abc, and rank 1 has"),
            "{line}"
        );
    }

    #[test]
    fn settings_that_cannot_be_read_are_no_entry() {
        let mut all = entries(&Settings::default(), 3);
        let whole = all[0].clone().unwrap_or_default();
        let cut = whole.rsplit_once(':').map(|(start, _)| start.to_owned());
        all[0] = cut;
        assert_eq!(
            Roll::of(&all),
            Roll::Absent {
                first: 0,
                absent: 0
            }
        );
    }
}
