//! What this process has learned on its communicators, or was told by a profile. New communicators
//! of as many processes, on as many nodes, begin with what their rank 0 knows. What is learned on
//! others afterwards does not change them.

use std::path::Path;

use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::job;
use crate::allocator;
use crate::files;
use crate::message::say;
use crate::mpi::{self, Error};
use crate::select::{Kind, Known, Lesson, Select, load_profile, read_profile, store_profile};

/// What was learned here.
static LEARNED: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// What the profile says.
static PROFILE: OnceCell<Vec<Known>> = OnceCell::new();

/// What rank 0 knows of communicators like this one, of which this process is `rank`: also from its
/// profile, if the agreed settings say that there is one. `share` gives everybody rank 0's words.
/// Collective.
///
/// # Errors
/// Those of `share`.
pub(super) fn share(
    rank: usize,
    (processes, nodes): (usize, usize),
    has_profile: bool,
    share: impl Fn(&mut [u64]) -> Result<(), Error>,
) -> Result<Option<Known>, Error> {
    let mut words = Vec::new();
    if rank == 0 {
        let known = find(processes, nodes, has_profile);
        words = known.map(|known| known.encode()).unwrap_or_default();
    }
    let mut length = [words.len() as u64];
    share(&mut length)?;
    words.resize(usize::try_from(length[0]).unwrap_or(0), 0);
    if !words.is_empty() {
        share(&mut words)?;
    }
    Ok(Known::decode(processes, nodes, &words))
}

/// What was learned here; or what the profile says of communicators of about as many processes and
/// nodes.
fn find(processes: usize, nodes: usize, has_profile: bool) -> Option<Known> {
    let distance = |known: &&Known| known.distance(processes, nodes);
    let learned = LEARNED.lock();
    if let Some(known) = learned.iter().find(|known| known.is_of(processes, nodes)) {
        return Some(known.clone());
    }
    drop(learned);
    let profile = if has_profile { profile() } else { &[] };
    let near = profile
        .iter()
        .filter(|known| !known.is_lent && distance(known) < 1.0);
    let nearest = near.min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let own = profile.iter().find(|known| known.is_of(processes, nodes));
    let mut known = nearest.or(own)?.lent_to(processes, nodes);
    let own = own.into_iter().flat_map(|own| &own.lessons);
    own.for_each(|lesson| known.learn(*lesson));
    Some(known)
}

/// What the profile says: nothing, if there is none. It is read once. Rank 0 says what is wrong
/// with it.
pub(super) fn profile() -> &'static [Known] {
    PROFILE.get_or_init(|| {
        let file = job::process().settings.profile.as_deref();
        file.map(read).unwrap_or_default()
    })
}

/// What a profile says: nothing, if it cannot be read.
fn read(file: &str) -> Vec<Known> {
    let text = files::read(Path::new(file)).map_err(|error| error.to_string());
    let known = text.and_then(|text| read_profile(&text, &mpi::native().version));
    known.unwrap_or_else(|problem| {
        if job::process().rank == 0 {
            say(&format!(
                "circulant: CIRCULANT_PROFILE={file} is not used: {problem}"
            ));
        }
        Vec::new()
    })
}

/// Whether a network of so many processes is known here, on whatever nodes they are.
pub(super) fn is_known(processes: usize) -> bool {
    LEARNED
        .lock()
        .iter()
        .any(|known| known.processes == processes)
}

/// Remembers a network, and what is known of calls on it, unless such communicators are known
/// already.
pub(super) fn remember(known: &Known) {
    let mut all = LEARNED.lock();
    let is_same = |other: &Known| other.is_of(known.processes, known.nodes);
    if !all.iter().any(is_same) {
        all.push(known.clone());
    }
}

/// Remembers who runs the calls of a kind on communicators of these dimensions.
pub(super) fn learn(processes: usize, nodes: usize, lesson: Lesson) {
    let mut all = LEARNED.lock();
    let mut such = all.iter_mut();
    if let Some(known) = such.find(|known| known.is_of(processes, nodes)) {
        known.learn(lesson);
    }
}

/// The candidate that runs such calls on communicators of so many processes, if one was measured to
/// be the fastest.
pub fn choice(is_such: impl Fn(&Kind) -> bool, processes: usize) -> Option<usize> {
    let all = LEARNED.lock();
    let known = all.iter().filter(|known| known.processes == processes);
    let mut lessons = known.flat_map(|known| &known.lessons);
    let lesson = lessons.find(|lesson| lesson.is_measured && is_such(&lesson.kind));
    lesson.map(|lesson| lesson.candidate)
}

/// All that was learned here, for the report.
pub(super) fn all() -> Vec<Known> {
    LEARNED.lock().clone()
}

/// Adds what was learned here to the profile in `file`.
pub(super) fn save(file: &str) {
    if let Err(problem) = merge(Path::new(file)) {
        say(&format!(
            "circulant: CIRCULANT_PROFILE_SAVE={file} cannot be written: {problem}"
        ));
    }
}

fn merge(file: &Path) -> Result<(), String> {
    allocator::check_left(allocator::PLENTY)?;
    let mpi = &mpi::native().version;
    let mut known = load_profile(file, mpi)?;
    let has_inexact = matches!(job::settings().select, Select::Adaptive | Select::Tune);
    for mut learned in all() {
        if !learned.keep_measured(has_inexact) {
            continue;
        }
        let is_same = |other: &&mut Known| other.is_of(learned.processes, learned.nodes);
        match known.iter_mut().find(is_same) {
            None => known.push(learned),
            Some(known) => {
                if !learned.is_lent {
                    (known.network, known.is_lent) = (learned.network, false);
                }
                learned
                    .lessons
                    .into_iter()
                    .for_each(|lesson| known.learn(lesson));
            }
        }
    }
    store_profile(file, &known, mpi).map_err(|error| error.to_string())
}
