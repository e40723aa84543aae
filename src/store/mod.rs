//! The launcher's store: what processes tell each other before any of them may send a message.
//!
//! A process puts keys and values into it before MPI_Init's barrier, and reads those of the others
//! after it. So a process that has come out of MPI_Init, and finds no entry of another, knows that
//! the other never made one. MPI libraries exchange addresses in this way.
//!
//! | file | store | of |
//! | --- | --- | --- |
//! | `pmix` | PMIx, by the functions that the MPI library itself calls | Open MPI |
//! | `pmi` | PMI-1, on the connection to the launcher | Hydra: MPICH, Intel MPI |
//!
//! An entry is text without spaces, in parts, since PMI's values are short.

mod pmi;
#[cfg(any(feature = "mpi", feature = "bindings"))]
mod pmix;

pub use pmi::Pmi;
#[cfg(any(feature = "mpi", feature = "bindings"))]
pub use pmix::{Pmix, commit};

/// The most characters of a part: PMI-1 has 1,023 for the value.
const PART: usize = 900;

/// The key of a part of the entry of a rank.
fn key(rank: usize, part: usize) -> String {
    format!("circulant-{rank}-{part}")
}

/// The parts of an entry, each with its key. The first says how many there are.
fn parts(rank: usize, entry: &str) -> impl Iterator<Item = (String, String)> {
    let count = entry.len().div_ceil(PART).max(1);
    (0..count).map(move |part| {
        let text = entry.get(part * PART..).unwrap_or_default();
        let text = text.get(..PART).unwrap_or(text);
        let text = match part {
            0 => format!("{count}:{text}"),
            _ => text.to_owned(),
        };
        (key(rank, part), text)
    })
}

/// The entry of `rank`, where `get` reads keys. None, if there is none, or if a part of it cannot
/// be read.
fn joined(rank: usize, mut get: impl FnMut(&str) -> Option<String>) -> Option<String> {
    let first = get(&key(rank, 0))?;
    let (count, text) = first.split_once(':')?;
    let mut entry = text.to_owned();
    for part in 1..count.parse().ok()? {
        entry.push_str(&get(&key(rank, part))?);
    }
    Some(entry)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{PART, joined, parts};

    #[test]
    fn entries_survive_being_cut_into_parts() {
        for length in [0, 1, PART - 1, PART, PART + 1, 3 * PART + 7] {
            let text = (0..length).map(|index| char::from(b'a' + (index % 26) as u8));
            let entry: String = text.collect();
            let stored: HashMap<String, String> = parts(7, &entry).collect();
            assert!(stored.values().all(|text| text.len() < 1000));
            assert_eq!(joined(7, |key| stored.get(key).cloned()), Some(entry));
            assert_eq!(joined(8, |key| stored.get(key).cloned()), None);
            let first = stored.get("circulant-7-0").cloned();
            let incomplete = joined(7, |key| first.clone().filter(|_| key.ends_with("-0")));
            assert_eq!(incomplete.is_some(), length <= PART);
        }
    }
}
