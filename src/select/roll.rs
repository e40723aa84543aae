//! The roll of a job: whether each of its processes has this circulant, and rank 0's settings.
//!
//! Each process has an entry in the launcher's store, or none if it is without circulant. A process
//! looks up its neighbours in a binomial tree, and exchanges messages with those that have the same
//! circulant as itself; they are in the same place, so that nothing else can match these.
//!
//! ```text
//! parent(r) = r without its lowest 1 bit; children(r) = r + 2^j < p, 2^j below that bit
//! finding   = what is wrong among the neighbours, and what the children say; to the parent
//! verdict   = the parent's, with rank 0's settings, or this process's own finding if the
//!             parent is not here; to the children
//! ```
//!
//! Each process looks up at most log2(p) + 1 entries besides its own, most of them of its own node.
//! A process that is not here cuts off the subtrees of its children. But it is a neighbour of their
//! roots and of its parent, so that all find it out.

use super::{ENCODED, Settings};

/// What is known of the processes of a job.
#[derive(Clone, PartialEq, Debug)]
pub enum Roll {
    /// All have this circulant. These are rank 0's settings.
    Complete(Box<Settings>),
    /// This one has no circulant, and perhaps others have none.
    Absent(usize),
    /// These two have different ones.
    Mixed([usize; 2]),
}

/// The processes of a job, as one of them sees the others.
pub trait Peers {
    /// What a process has in the launcher's store; none, if it is without circulant.
    fn entry(&self, rank: usize) -> Option<String>;

    /// Sends words to a process that receives as many. Whether that could be done.
    fn send(&self, words: &[u64], to: usize) -> bool;

    /// Receives words from a process that sends as many. Whether that could be done.
    fn receive(&self, words: &mut [u64], from: usize) -> bool;
}

/// What the process tells the others: which circulant it has. A version, and a hash of which
/// settings there are and what processes tell each other.
pub fn entry(settings: &Settings) -> String {
    let layout = settings.encode()[0];
    format!("{}-{layout:x}", env!("CARGO_PKG_VERSION"))
}

/// Calls the roll, and has the line for the owner of the job said by one process, should there be
/// one. None, if there is no store. `settings` are this process's own. Collective over the
/// processes that have this circulant.
pub fn call_roll(
    rank: usize,
    size: usize,
    settings: &Settings,
    peers: &impl Peers,
    say: impl FnOnce(&str),
) -> Option<Roll> {
    let vertex = Vertex { rank, size, peers };
    let Some(own) = peers.entry(rank) else {
        // Without any entry the store is not what it is taken for. But if this process's alone is
        // not there, it must come to the conclusion that the others come to.
        let is_alone = vertex.neighbours().all(|peer| peers.entry(peer).is_none());
        return (!is_alone).then_some(Roll::Absent(rank));
    };
    let parent = vertex
        .parent()
        .map(|rank| (rank, vertex.fault_of(rank, &own)));
    let roll = vertex.agree(&own, parent, settings);
    // A process with a parent that has any circulant is not the first that has.
    let may_be_first = parent.is_none_or(|(_, fault)| matches!(fault, Some(Finding::Absent(_))));
    let complaint = || vertex.complaint(&roll, settings.require);
    if let Some(line) = may_be_first.then(complaint).flatten() {
        say(&line);
    }
    Some(roll)
}

/// A process in the tree.
struct Vertex<'a, P> {
    rank: usize,
    size: usize,
    peers: &'a P,
}

impl<P: Peers> Vertex<'_, P> {
    fn parent(&self) -> Option<usize> {
        (self.rank > 0).then(|| self.rank & (self.rank - 1))
    }

    /// In the order of their ranks.
    fn children(&self) -> impl Iterator<Item = usize> + use<P> {
        let (rank, size) = (self.rank, self.size);
        // Of rank 0: all.
        let bits = rank.trailing_zeros();
        let child = move |bit| rank.checked_add(1_usize << bit);
        let children = (0..bits).map_while(child);
        children.take_while(move |child| *child < size)
    }

    fn neighbours(&self) -> impl Iterator<Item = usize> + use<'_, P> {
        self.parent().into_iter().chain(self.children())
    }

    /// What is wrong with a neighbour of a process whose entry is `own`.
    fn fault_of(&self, peer: usize, own: &str) -> Option<Finding> {
        match self.peers.entry(peer) {
            None => Some(Finding::Absent(peer)),
            Some(entry) if entry != own => {
                let pair = [self.rank.min(peer), self.rank.max(peer)];
                Some(Finding::Mixed(pair))
            }
            Some(_) => None,
        }
    }

    /// The conclusion of all processes that are here. `parent` has what is wrong with it.
    fn agree(
        &self,
        own: &str,
        parent: Option<(usize, Option<Finding>)>,
        settings: &Settings,
    ) -> Roll {
        // Before any message, so that those who wait for one have looked theirs up meanwhile.
        let children = self
            .children()
            .map(|child| (child, self.fault_of(child, own)));
        let children: Vec<_> = children.collect();
        let here = || children.iter().filter(|(_, fault)| fault.is_none());

        let mut finding = Finding::Here;
        for (child, fault) in &children {
            finding = finding.or(fault.unwrap_or_else(|| self.hear(*child)));
        }
        let mut words = words_of(settings);
        let verdict = match parent {
            None => finding,
            Some((_, Some(fault))) => fault.or(finding),
            Some((parent, None)) => self.ask(parent, finding, &mut words),
        };
        here().for_each(|(child, _)| self.tell(*child, verdict, &words));
        verdict.roll(&words)
    }

    /// A child's finding.
    fn hear(&self, child: usize) -> Finding {
        let mut words = [0; FINDING];
        match self.peers.receive(&mut words, child) {
            true => Finding::decode(words),
            false => Finding::Absent(child),
        }
    }

    /// The parent's verdict, and rank 0's settings in `words`.
    fn ask(&self, parent: usize, finding: Finding, words: &mut Vec<u64>) -> Finding {
        let mut verdict = [0; FINDING];
        let mut length = [0];
        let receive = |words: &mut [u64]| self.peers.receive(words, parent);
        let is_heard = self.peers.send(&finding.encode(), parent)
            && receive(&mut verdict)
            && receive(&mut length);
        // None has so many rules: a length beyond that was not sent by this circulant.
        let fits = length[0] <= MOST_WORDS;
        words.resize(if fits { length[0] as usize } else { 0 }, 0);
        match is_heard && fits && receive(words) {
            true => Finding::decode(verdict),
            false => Finding::Absent(parent),
        }
    }

    fn tell(&self, child: usize, verdict: Finding, words: &[u64]) {
        let send = |words: &[u64]| self.peers.send(words, child);
        // A child that cannot be told anything is no more.
        let _ = send(&verdict.encode()) && send(&[words.len() as u64]) && send(words);
    }

    /// The line for the owner of the job, which the first process says that has any circulant, and
    /// that may require that all have it.
    fn complaint(&self, roll: &Roll, requires: bool) -> Option<String> {
        let conclusion = match requires {
            true => "and CIRCULANT_REQUIRE=1, so the job ends",
            false => "so all calls of the job go to the MPI library",
        };
        let has = |rank| self.peers.entry(rank).unwrap_or_default();
        let is_first = || (0..self.rank).all(|rank| self.peers.entry(rank).is_none());
        match roll {
            Roll::Complete(_) => None,
            _ if !is_first() => None,
            Roll::Absent(absent) => Some(format!(
                "circulant: rank {absent} runs without circulant (perhaps others, too), \
                 {conclusion}; preload libcirculant.so on every rank, from a path that every node \
                 has"
            )),
            Roll::Mixed([one, other]) => Some(format!(
                "circulant: rank {one} has circulant {}, and rank {other} has {}, {conclusion}; \
                 install one version on all nodes",
                has(*one),
                has(*other)
            )),
        }
    }
}

/// The words of a finding.
const FINDING: usize = 3;

/// The most words of settings that are accepted.
const MOST_WORDS: u64 = 1 << 20;

/// What a part of the processes has found out of the roll.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Finding {
    Here,
    Absent(usize),
    Mixed([usize; 2]),
}

impl Finding {
    /// This and another: what is worse, and then what was found first.
    fn or(self, other: Finding) -> Finding {
        let badness = |finding| match finding {
            Finding::Here => 0,
            Finding::Mixed(_) => 1,
            Finding::Absent(_) => 2,
        };
        match badness(other) > badness(self) {
            true => other,
            false => self,
        }
    }

    fn encode(self) -> [u64; FINDING] {
        match self {
            Finding::Here => [0, 0, 0],
            Finding::Absent(rank) => [1, rank as u64, 0],
            Finding::Mixed([one, other]) => [2, one as u64, other as u64],
        }
    }

    fn decode([kind, one, other]: [u64; FINDING]) -> Finding {
        let rank = |word| usize::try_from(word).unwrap_or(usize::MAX);
        match kind {
            0 => Finding::Here,
            1 => Finding::Absent(rank(one)),
            _ => Finding::Mixed([rank(one), rank(other)]),
        }
    }

    /// What follows from it, if rank 0's settings are in `words`.
    fn roll(self, words: &[u64]) -> Roll {
        match self {
            Finding::Absent(rank) => Roll::Absent(rank),
            Finding::Mixed(ranks) => Roll::Mixed(ranks),
            Finding::Here => match read(words) {
                Some(settings) => Roll::Complete(Box::new(settings)),
                None => Roll::Absent(0),
            },
        }
    }
}

fn words_of(settings: &Settings) -> Vec<u64> {
    let words = settings.encode().into_iter();
    words.chain(settings.encode_rules()).collect()
}

fn read(words: &[u64]) -> Option<Settings> {
    let (words, rules) = words.split_first_chunk::<ENCODED>()?;
    Settings::decode(words, rules)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;
    use std::time::Duration;

    use super::{Peers, Roll, call_roll, entry};
    use crate::select::Settings;

    fn settings(text: &[(&str, &str)]) -> Settings {
        let pairs = text
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let (settings, complaints) = Settings::read(pairs);
        assert!(complaints.is_empty(), "{complaints:?}");
        settings
    }

    /// One process: the entries of all, and a channel to and from each. A message to a process that
    /// is not here fails the test at its end, as does one that nobody receives.
    struct Process<'a> {
        entries: &'a [Option<String>],
        looked_up: Mutex<Vec<usize>>,
        to: HashMap<usize, Sender<Vec<u64>>>,
        from: HashMap<usize, Receiver<Vec<u64>>>,
    }

    impl Peers for Process<'_> {
        fn entry(&self, rank: usize) -> Option<String> {
            self.looked_up.lock().expect("a list").push(rank);
            self.entries[rank].clone()
        }

        fn send(&self, words: &[u64], to: usize) -> bool {
            self.to[&to].send(words.to_vec()).is_ok()
        }

        fn receive(&self, words: &mut [u64], from: usize) -> bool {
            let patience = Duration::from_secs(5);
            let received = self.from[&from].recv_timeout(patience).expect("a message");
            words.copy_from_slice(&received);
            true
        }
    }

    /// What one process concludes, what it says, and which entries it looks up before it knows.
    #[derive(Debug)]
    struct Outcome {
        roll: Option<Roll>,
        said: Option<String>,
        looked_up: Vec<usize>,
    }

    /// The outcomes of processes with these entries and settings, of those that take part.
    fn outcomes(
        entries: &[Option<String>],
        settings: &[Settings],
        takes_part: impl Fn(usize) -> bool,
    ) -> Vec<(usize, Outcome)> {
        let size = entries.len();
        let mut processes: Vec<Process> = (0..size)
            .map(|_| Process {
                entries,
                looked_up: Mutex::default(),
                to: HashMap::new(),
                from: HashMap::new(),
            })
            .collect();
        for from in 0..size {
            for to in 0..size {
                let (sender, receiver) = channel();
                processes[from].to.insert(to, sender);
                processes[to].from.insert(from, receiver);
            }
        }
        let run = |rank: usize, process: &Process| {
            let mut said = None;
            let say = |line: &str| said = Some(line.to_owned());
            let roll = call_roll(rank, size, &settings[rank], process, say);
            let looked_up = process.looked_up.lock().expect("a list").clone();
            Outcome {
                roll,
                said,
                looked_up,
            }
        };
        let outcomes = thread::scope(|scope| {
            let here = processes
                .iter_mut()
                .enumerate()
                .filter(|(rank, _)| takes_part(*rank));
            let started: Vec<_> = here
                .map(|(rank, process)| (rank, scope.spawn(move || run(rank, process))))
                .collect();
            let end = |(rank, thread): (usize, thread::ScopedJoinHandle<Outcome>)| {
                (rank, thread.join().expect("no failure"))
            };
            started.into_iter().map(end).collect()
        });
        for process in &processes {
            for receiver in process.from.values() {
                assert!(
                    receiver.try_recv().is_err(),
                    "a message that nobody receives"
                );
            }
        }
        outcomes
    }

    fn all_with(size: usize) -> Vec<Option<String>> {
        vec![Some(entry(&Settings::default())); size]
    }

    fn defaults(size: usize) -> Vec<Settings> {
        vec![Settings::default(); size]
    }

    #[test]
    fn an_entry_says_which_circulant_it_is() {
        let [one, other] = [&[][..], &[("CIRCULANT_F", "31.5")]].map(settings);
        assert_eq!(entry(&one), entry(&other), "not what is set");
        let own = entry(&one);
        let parts: Vec<_> = own.split('-').collect();
        assert_eq!(parts[0], env!("CARGO_PKG_VERSION"));
        assert_eq!(u64::from_str_radix(parts[1], 16), Ok(one.encode()[0]));
        assert_eq!(parts.len(), 2);
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
        for size in (1..=20).chain([31, 33, 64]) {
            let mut settings = defaults(size);
            settings[0] = given.clone();
            let outcomes = outcomes(&all_with(size), &settings, |_| true);
            assert_eq!(outcomes.len(), size);
            for (rank, outcome) in outcomes {
                let complete = Roll::Complete(Box::new(given.clone()));
                assert_eq!(outcome.roll, Some(complete), "rank {rank} of {size}");
                assert_eq!(outcome.said, None);
                let most = 2 + size.ilog2() as usize;
                assert!(outcome.looked_up.len() <= most + 1, "{outcome:?}");
            }
        }
    }

    /// Checks that all who take part know that one is absent, and that the first of them says so.
    fn check_absent(entries: &[Option<String>]) {
        let size = entries.len();
        let outcomes = outcomes(entries, &defaults(size), |rank| entries[rank].is_some());
        for (index, (rank, outcome)) in outcomes.iter().enumerate() {
            let Some(Roll::Absent(absent)) = outcome.roll else {
                panic!("rank {rank} of {size}: {outcome:?}");
            };
            assert!(entries[absent].is_none(), "rank {absent} has circulant");
            assert_eq!(outcome.said.is_some(), index == 0, "rank {rank}");
            let line = format!("rank {absent} runs without");
            assert!(
                outcome
                    .said
                    .as_ref()
                    .is_none_or(|said| said.contains(&line))
            );
        }
    }

    #[test]
    fn whoever_is_absent_is_known_to_all() {
        for size in 2..=12 {
            for absent in 1..(1_usize << size.min(8)) - 1 {
                let mut entries = all_with(size);
                let is_absent = |rank: &usize| absent >> (rank % 8) & 1 == 1;
                for rank in (0..size).filter(is_absent) {
                    entries[rank] = None;
                }
                if entries.contains(&None) {
                    check_absent(&entries);
                }
            }
        }
        for size in [31, 33, 64] {
            for absent in 0..size {
                let mut entries = all_with(size);
                entries[absent] = None;
                check_absent(&entries);
                let mut entries = all_with(size);
                entries[absent..].fill(None);
                check_absent(&entries);
            }
        }
    }

    #[test]
    fn who_cannot_make_an_entry_concludes_what_the_others_do() {
        for size in 2..=9 {
            for absent in 0..size {
                let mut entries = all_with(size);
                entries[absent] = None;
                for (rank, outcome) in outcomes(&entries, &defaults(size), |_| true) {
                    assert_eq!(
                        outcome.roll,
                        Some(Roll::Absent(absent)),
                        "rank {rank} of {size}"
                    );
                }
            }
            let without_a_store = outcomes(&vec![None; size], &defaults(size), |_| true);
            assert!(
                without_a_store
                    .iter()
                    .all(|(_, outcome)| outcome.roll.is_none())
            );
        }
    }

    #[test]
    fn another_version_is_named() {
        for size in 2..=17 {
            for other in 0..size {
                let mut entries = all_with(size);
                entries[other] = Some("0.0.9-abc".to_owned());
                let outcomes = outcomes(&entries, &defaults(size), |rank| rank != other);
                for (rank, outcome) in outcomes {
                    let Some(Roll::Mixed(ranks)) = outcome.roll else {
                        panic!("rank {rank} of {size}: {outcome:?}");
                    };
                    assert!(ranks.contains(&other));
                    // Where rank 0 is another version, it says so in its own way.
                    assert_eq!(outcome.said.is_some(), rank == 0);
                    let line = format!("rank {other} has 0.0.9-abc");
                    assert!(outcome.said.is_none_or(|said| said.contains(&line)));
                }
            }
        }
    }
}
