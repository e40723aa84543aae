//! Rules of the environment: who runs which calls of an operation.
//!
//! ```text
//! CIRCULANT_BCAST=native:0-32K;circulant,blocks=17:32K-1M;auto@p=2-64
//!
//! rules     = rule, { ";", rule }            the first that holds for a call decides; else auto
//! rule      = who, { ",", parameter }, [ ":", bytes ], [ "@", condition, { ",", condition } ]
//! who       = "auto" | "native" | "circulant" | the name of an algorithm
//! parameter = "blocks=", count | "block_size=", size | "segment=", size
//! bytes     = size, "-", ( size | "inf" )    from the first on, and below the second
//! condition = ( "p=" | "ppn=" ), count, [ "-", ( count | "inf" ) ]     with both ends
//! ```

use std::fmt;

use strum::{FromRepr, VariantArray, VariantNames};

use super::algorithm::{Algorithm, Cut};
use super::facts::{Facts, Operation, Unknown};
use super::sizes::{BLOCKS_MAX, MESSAGE_MAX, parse_size, show_size};

/// Who runs a call.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromRepr, VariantNames)]
#[strum(serialize_all = "lowercase")]
#[repr(u64)]
pub enum Mode {
    /// circulant, where that was measured or is predicted to be faster.
    #[default]
    Auto,
    /// The MPI library.
    Native,
    /// circulant, except for small messages.
    Circulant,
}

/// Who runs some calls of one operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallRule {
    /// Of its calls.
    pub operation: Operation,
    /// Who runs them.
    pub mode: Mode,
    /// The algorithm that does, by its [place](Algorithm::index), where the rule names one.
    pub algorithm: Option<usize>,
    /// The number of blocks, the bytes of a block, and the bytes of a step; 0: as without the rule.
    pub parameters: [u64; PARAMETERS.len()],
    /// The calls of so many bytes (m), from the first number on and below the second; 0 and 0: all
    /// but what is small.
    pub bytes: [u64; 2],
    /// p is within these.
    pub processes: [u64; 2],
    /// The most processes of a node are within these.
    pub per_node: [u64; 2],
}

/// The parameters' names and their bounds.
const PARAMETERS: [(&str, [u64; 2]); 3] = [
    ("blocks", [1, BLOCKS_MAX]),
    ("block_size", [1, MESSAGE_MAX]),
    ("segment", [256, MESSAGE_MAX]),
];
const SEGMENT: usize = 2;

/// Any number of processes.
const ANY: [u64; 2] = [1, u64::MAX];

/// The words of a rule.
pub const RULE_WORDS: usize = 10;

/// The most rules of an operation.
pub const RULES_MAX: usize = 64;

/// What is wrong with the text of rules: a part of it, from which character on; and what may stand
/// there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misread {
    /// None, if it is all of the text.
    part: Option<(usize, String)>,
    accepted: String,
}

impl fmt::Display for Misread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((place, found)) = &self.part {
            write!(f, "{found:?} at character {place}: ")?;
        }
        write!(f, "accepted is {}", self.accepted)
    }
}

impl CallRule {
    /// The rule that all calls of an operation are run by `mode`.
    pub fn plain(operation: Operation, mode: Mode) -> CallRule {
        CallRule {
            operation,
            mode,
            algorithm: None,
            parameters: [0; PARAMETERS.len()],
            bytes: [0, 0],
            processes: ANY,
            per_node: ANY,
        }
    }

    /// Whether it is for a call of its operation with these facts; or may be, while some of them
    /// are unknown.
    pub fn covers(&self, facts: &Facts) -> bool {
        let is_open = |of: Unknown| facts.unknown >= of;
        let is_within = |[least, most]: [u64; 2], count: usize, is_open: bool| {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            least <= count && (is_open || count <= most)
        };
        let per_node = if is_open(Unknown::Nodes) {
            facts.processes
        } else {
            facts.processes_per_node()
        };
        let [from, below] = self.bytes;
        let has_bytes = facts.bytes >= from && facts.bytes < below;
        (!self.names_bytes() || is_open(Unknown::Sizes) || has_bytes)
            && is_within(self.processes, facts.processes, is_open(Unknown::Processes))
            && (self.per_node == ANY || is_within(self.per_node, per_node, is_open(Unknown::Nodes)))
    }

    /// Whether it holds for a call that it covers, whatever its unknown facts are.
    pub fn is_sure(&self, facts: &Facts) -> bool {
        let conditions = [
            (self.asks_for_nodes(), Unknown::Nodes),
            (self.names_bytes(), Unknown::Sizes),
            (self.processes != ANY, Unknown::Processes),
        ];
        conditions
            .iter()
            .all(|&(is_asked, of)| !is_asked || facts.unknown < of)
    }

    /// Whether it says of how many bytes calls are, so that it holds for small ones, too.
    pub fn names_bytes(&self) -> bool {
        self.bytes != [0, 0]
    }

    /// Whether it depends on the nodes: on how many processes they have, or on whether there are
    /// leaders, lanes, or shared memory.
    pub fn asks_for_nodes(&self) -> bool {
        let cut = Cut::Blocks(1);
        let of_nodes = [
            Algorithm::Leaders { cut },
            Algorithm::Lanes { cut, lanes: 1 },
            Algorithm::Shared { across: None },
        ];
        let is_of_nodes = |index| of_nodes.iter().any(|algorithm| algorithm.index() == index);
        self.per_node != ANY || self.algorithm.is_some_and(is_of_nodes)
    }

    /// The number of blocks, the size of a block and the size of a step, as far as it says them.
    pub fn given(&self) -> [Option<u64>; PARAMETERS.len()] {
        self.parameters
            .map(|value| Some(value).filter(|_| value != 0))
    }

    /// The rule as words, for other processes.
    pub fn encode(&self) -> [u64; RULE_WORDS] {
        let algorithm = self.algorithm.map_or(0, |index| 1 + index as u64);
        let who = self.operation as u64 | (self.mode as u64) << 8 | algorithm << 16;
        let ([a, b, c], [from, below]) = (self.parameters, self.bytes);
        let ([p, to_p], [ppn, to_ppn]) = (self.processes, self.per_node);
        [who, a, b, c, from, below, p, to_p, ppn, to_ppn]
    }

    /// What was encoded so.
    pub fn decode(words: &[u64; RULE_WORDS]) -> Option<CallRule> {
        let &[who, a, b, c, from, below, p, to_p, ppn, to_ppn] = words;
        let algorithm = (who >> 16) as usize;
        if algorithm > Algorithm::VARIANTS.len() {
            return None;
        }
        Some(CallRule {
            operation: *Operation::VARIANTS.get(usize::from(who as u8))?,
            mode: Mode::from_repr(who >> 8 & 0xff)?,
            algorithm: algorithm.checked_sub(1),
            parameters: [a, b, c],
            bytes: [from, below],
            processes: [p, to_p],
            per_node: [ppn, to_ppn],
        })
    }
}

/// The rules of `operation` that `text` says.
///
/// # Errors
/// The first thing that is wrong.
pub fn read(operation: Operation, text: &str) -> Result<Vec<CallRule>, Misread> {
    let reader = Reader { operation, text };
    let rules: Vec<_> = text.split(';').map(|rule| reader.rule(rule)).collect();
    if rules.len() > RULES_MAX {
        return Err(reader.misread(text, &format!("{RULES_MAX} rules at most")));
    }
    rules.into_iter().collect()
}

/// The names of algorithms that run `operation` where the facts of a call allow it.
fn algorithms(operation: Operation) -> &'static [&'static str] {
    match operation {
        Operation::Bcast | Operation::Reduce => &["leaders", "lanes", "shared"],
        Operation::Allgather | Operation::Allgatherv => {
            &["doubling", "exchange", "leaders", "lanes", "shared"]
        }
        Operation::ReduceScatter | Operation::ReduceScatterBlock => {
            &["doubling", "ordered", "leaders", "lanes", "shared"]
        }
        Operation::Allreduce => &[
            "doubling", "ordered", "census", "leaders", "lanes", "shared",
        ],
        Operation::Alltoall => &["combining", "pairwise", "shared"],
        Operation::Gather | Operation::Scatter => &["tree", "shared"],
        _ => &[],
    }
}

/// Reads the text of an operation's rules. Every part that it is asked for is a part of that text.
struct Reader<'a> {
    operation: Operation,
    text: &'a str,
}

impl Reader<'_> {
    fn misread(&self, part: &str, accepted: &str) -> Misread {
        let start = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let before = self.text.get(..start).unwrap_or_default();
        let place = 1 + before.chars().count();
        Misread {
            part: (part != self.text).then(|| (place, part.to_owned())),
            accepted: accepted.to_owned(),
        }
    }

    fn rule(&self, text: &str) -> Result<CallRule, Misread> {
        let (rest, conditions) = parted(text, '@');
        let (who, bytes) = parted(rest, ':');
        let mut parts = who.split(',').map(str::trim);
        let mut rule = self.who(parts.next().unwrap_or_default())?;
        for parameter in parts {
            self.parameter(parameter, &mut rule)?;
        }
        if let Some(bytes) = bytes {
            rule.bytes = self.bytes(bytes.trim())?;
        }
        let mut named = Vec::new();
        for condition in conditions.into_iter().flat_map(|all| all.split(',')) {
            let condition = condition.trim();
            let (name, _) = parted(condition, '=');
            if named.contains(&name) {
                return Err(self.misread(condition, &format!("{name}= once")));
            }
            named.push(name);
            self.condition(condition, &mut rule)?;
        }
        Ok(rule)
    }

    fn who(&self, name: &str) -> Result<CallRule, Misread> {
        let named = |names: &[&str]| names.iter().position(|known| *known == name);
        if let Some(mode) = named(Mode::VARIANTS) {
            let mode = Mode::from_repr(mode as u64).unwrap_or_default();
            return Ok(CallRule::plain(self.operation, mode));
        }
        let own = algorithms(self.operation);
        let algorithm = named(own).and_then(|_| named(Algorithm::VARIANTS));
        if algorithm.is_none() {
            let all = [Mode::VARIANTS, own].concat();
            return Err(self.misread(name, &one_of(&all)));
        }
        Ok(CallRule {
            algorithm,
            ..CallRule::plain(self.operation, Mode::Circulant)
        })
    }

    fn parameter(&self, text: &str, rule: &mut CallRule) -> Result<(), Misread> {
        let accepted = self.parameters_of(rule);
        let (name, value) = parted(text, '=');
        let known = PARAMETERS.iter().position(|(known, _)| *known == name);
        if known.is_some_and(|index| rule.parameters[index] != 0) {
            return Err(self.misread(text, &format!("{name}= once")));
        }
        let known = known.filter(|_| accepted.contains(&name));
        let (Some(index), Some(value)) = (known, value) else {
            let accepted = match accepted.as_slice() {
                [] => "no parameter here".to_owned(),
                names => format!("{}=", names.join("=, ")),
            };
            return Err(self.misread(text, &accepted));
        };
        let [least, most] = PARAMETERS[index].1;
        let read = parse_size(value).filter(|value| (least..=most).contains(value));
        let within = || format!("a number from {least} to {most}");
        rule.parameters[index] = read.ok_or_else(|| self.misread(value, &within()))?;
        Ok(())
    }

    fn parameters_of(&self, rule: &CallRule) -> Vec<&'static str> {
        let mut names = Vec::new();
        if rule.mode != Mode::Circulant {
            return names;
        }
        let has_blocks = rule.parameters[..SEGMENT] == [0, 0];
        if rule.algorithm.is_none() && self.operation.is_pipelined() && has_blocks {
            names.extend(["blocks", "block_size"]);
        }
        let goes_in_steps = !self.operation.is_rooted() && self.operation.is_pipelined();
        if goes_in_steps || matches!(self.operation, Operation::Allreduce | Operation::Alltoall) {
            names.push(PARAMETERS[SEGMENT].0);
        }
        names
    }

    fn bytes(&self, text: &str) -> Result<[u64; 2], Misread> {
        let (from, below) = parted(text, '-');
        let range = below.and_then(|below| Some([parse_size(from)?, or_infinite(below)?]));
        let range = range.filter(|[from, below]| from < below);
        range.ok_or_else(|| self.misread(text, "bytes, as in 32K-1M or 1M-inf"))
    }

    fn condition(&self, text: &str, rule: &mut CallRule) -> Result<(), Misread> {
        let (name, range) = parted(text, '=');
        let place = match name {
            "p" => &mut rule.processes,
            "ppn" => &mut rule.per_node,
            _ => return Err(self.misread(text, "p= or ppn=")),
        };
        let range = range.unwrap_or_default();
        let (least, most) = parted(range, '-');
        let most = most.map_or_else(|| parse_size(least), or_infinite);
        let read = parse_size(least).zip(most);
        let read = read.filter(|(least, most)| (1..=*most).contains(least));
        let (least, most) = read.ok_or_else(|| {
            let of = if range.is_empty() { text } else { range };
            self.misread(of, "a number of processes, as in 16, 2-64 or 3-inf")
        })?;
        *place = [least, most];
        Ok(())
    }
}

/// What stands before a character and after it.
fn parted(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn or_infinite(text: &str) -> Option<u64> {
    if text == "inf" {
        Some(u64::MAX)
    } else {
        parse_size(text)
    }
}

fn one_of(names: &[&str]) -> String {
    match names {
        [names @ .., last] => format!("{} or {last}", names.join(", ")),
        [] => String::new(),
    }
}

/// As it would be written in the environment.
impl fmt::Display for CallRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |most: u64| match most {
            u64::MAX => "inf".to_owned(),
            most => show_size(most),
        };
        f.write_str(match self.algorithm {
            Some(index) => Algorithm::VARIANTS[index],
            None => Mode::VARIANTS[self.mode as usize],
        })?;
        for ((name, _), value) in PARAMETERS.iter().zip(self.parameters) {
            if value != 0 {
                write!(f, ",{name}={}", show_size(value))?;
            }
        }
        if self.names_bytes() {
            let [from, below] = self.bytes;
            write!(f, ":{}-{}", show_size(from), end(below))?;
        }
        let conditions = [("p", self.processes), ("ppn", self.per_node)].into_iter();
        let conditions = conditions.filter(|(_, range)| *range != ANY);
        for (index, (name, [least, most])) in conditions.enumerate() {
            let mark = if index == 0 { '@' } else { ',' };
            let most = match most {
                u64::MAX => "inf".to_owned(),
                most => most.to_string(),
            };
            write!(f, "{mark}{name}={least}-{most}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bcast(text: &str) -> Result<Vec<CallRule>, String> {
        read(Operation::Bcast, text).map_err(|misread| misread.to_string())
    }

    #[test]
    fn rules_say_who_runs_which_calls() {
        let rules = bcast("native:0-32K; circulant,blocks=17:32K-1M ;auto:1M-inf@p=2-64,ppn=4");
        let plain = |mode| CallRule::plain(Operation::Bcast, mode);
        let expected = vec![
            CallRule {
                bytes: [0, 32 << 10],
                ..plain(Mode::Native)
            },
            CallRule {
                bytes: [32 << 10, 1 << 20],
                parameters: [17, 0, 0],
                ..plain(Mode::Circulant)
            },
            CallRule {
                bytes: [1 << 20, u64::MAX],
                processes: [2, 64],
                per_node: [4, 4],
                ..plain(Mode::Auto)
            },
        ];
        assert_eq!(rules, Ok(expected));
    }

    /// What is wrong is named, with its place.
    #[test]
    fn what_cannot_be_read_is_named_with_its_place() {
        for (text, place, part) in [
            ("native;", 8, ""),
            ("native;doubling", 8, "doubling"),
            ("native,blocks=3", 8, "blocks=3"),
            ("circulant,blocks=0", 18, "0"),
            ("circulant,blocks", 11, "blocks"),
            ("circulant,blocks=3,block_size=4", 20, "block_size=4"),
            ("circulant,segment=1M", 11, "segment=1M"),
            ("auto:32q-1M", 6, "32q-1M"),
            ("auto:1M-1M", 6, "1M-1M"),
            ("auto:1M", 6, "1M"),
            ("auto@q=3", 6, "q=3"),
            ("auto@p=3-2", 8, "3-2"),
            ("auto@p=0", 8, "0"),
            ("auto@p", 6, "p"),
            ("auto@p=2,ppn=x", 14, "x"),
            ("auto@p=2,p=3", 10, "p=3"),
            ("auto@p=1-inf,p=4", 14, "p=4"),
            ("auto@p=+2", 8, "+2"),
            ("circulant,blocks=3,blocks=4", 20, "blocks=4"),
            ("ä;auto@p=0", 1, "ä"),
        ] {
            let problem = bcast(text).expect_err(text);
            let start = format!("{part:?} at character {place}: accepted is ");
            assert!(problem.starts_with(&start), "{text}: {problem}");
        }
        let whole = bcast("nativ").expect_err("no rule");
        assert_eq!(
            whole,
            "accepted is auto, native, circulant, leaders, lanes or shared"
        );
        let doubling = read(Operation::Allgatherv, "doubling,segment=64K");
        let name =
            |rules: Vec<CallRule>| rules[0].algorithm.map(|index| Algorithm::VARIANTS[index]);
        assert_eq!(doubling.map(name), Ok(Some("doubling")));
    }

    #[test]
    fn a_rule_covers_what_it_says() {
        let rules = bcast("native:10-20@p=4-8,ppn=2").expect("rules");
        let covers = |bytes, processes, nodes| {
            let facts = Facts {
                bytes,
                nodes,
                ..Facts::new(Operation::Bcast, processes)
            };
            rules[0].covers(&facts)
        };
        assert!(covers(10, 4, 2) && covers(19, 8, 4) && covers(15, 7, 4));
        assert!(!covers(9, 4, 2) && !covers(20, 4, 2));
        assert!(!covers(15, 3, 2) && !covers(15, 9, 5));
        assert!(!covers(15, 4, 4) && !covers(15, 4, 1));
    }

    /// What is said of a call while something is unknown, for all that it may turn out to be.
    #[test]
    fn what_is_unknown_may_hold_or_not() {
        let all = |unknown, processes| {
            let sizes = if unknown < Unknown::Sizes {
                vec![15]
            } else {
                vec![1, 9, 10, 15, 19, 20, 1 << 40]
            };
            let counts = if unknown < Unknown::Processes {
                vec![processes]
            } else {
                (2..=processes).collect()
            };
            let mut calls = Vec::new();
            for (&bytes, &count) in sizes
                .iter()
                .flat_map(|size| counts.iter().map(move |c| (size, c)))
            {
                let most_nodes = if unknown < Unknown::Nodes { 1 } else { count };
                calls.extend((1..=most_nodes).map(|nodes| Facts {
                    bytes,
                    nodes,
                    ..Facts::new(Operation::Bcast, count)
                }));
            }
            calls
        };
        for text in [
            "native",
            "native:10-20",
            "native:10-inf",
            "native@p=4-8",
            "native@ppn=2",
            "native@p=9-inf",
            "native:10-20@p=3-5,ppn=2-3",
        ] {
            let rule = bcast(text).expect(text)[0];
            for unknown in [
                Unknown::Nothing,
                Unknown::Nodes,
                Unknown::Sizes,
                Unknown::Processes,
            ] {
                for processes in [2, 6, 12] {
                    let calls = all(unknown, processes);
                    let most = Facts {
                        unknown,
                        bytes: calls.iter().map(|call| call.bytes).max().unwrap(),
                        nodes: calls.iter().map(|call| call.nodes).max().unwrap(),
                        ..Facts::new(Operation::Bcast, processes)
                    };
                    let covers = |call: &Facts| rule.covers(call);
                    let what = format!("{text} of {most:?}");
                    assert!(rule.covers(&most) || !calls.iter().any(covers), "{what}");
                    let is_sure = rule.covers(&most) && rule.is_sure(&most);
                    assert!(!is_sure || calls.iter().all(covers), "{what}");
                    let is_decided = unknown == Unknown::Nothing;
                    assert!(!is_decided || rule.is_sure(&most), "{what}");
                }
            }
        }
    }

    fn drawn() -> impl Strategy<Value = CallRule> {
        let who = (0usize..Operation::OF_MPI, any::<prop::sample::Index>());
        let range = |least: u64| {
            (least..1 << 40, 1u64..1 << 40, any::<bool>()).prop_map(|(from, more, is_open)| {
                [from, if is_open { u64::MAX } else { from + more }]
            })
        };
        let conditions = (
            prop::option::of(range(0)),
            range(1),
            prop::option::of(range(1)),
        );
        (who, 1u64..BLOCKS_MAX, conditions).prop_map(|((operation, who), value, conditions)| {
            let operation = Operation::VARIANTS[operation];
            let names = [Mode::VARIANTS, algorithms(operation)].concat();
            let reader = Reader {
                operation,
                text: names[who.index(names.len())],
            };
            let mut rule = reader.who(reader.text).expect("a name");
            if let Some(name) = reader.parameters_of(&rule).first() {
                let index = PARAMETERS.iter().position(|(known, _)| known == name);
                rule.parameters[index.expect("a parameter")] = value.max(256);
            }
            let (bytes, processes, per_node) = conditions;
            CallRule {
                bytes: bytes.unwrap_or([0, 0]),
                processes,
                per_node: per_node.unwrap_or(ANY),
                ..rule
            }
        })
    }

    proptest! {
        /// What is in force is shown as it would be written; and the other processes get all of it.
        #[test]
        fn a_rule_is_read_as_it_is_shown(rules in prop::collection::vec(drawn(), 1..5)) {
            for rule in &rules {
                prop_assert_eq!(read(rule.operation, &rule.to_string()), Ok(vec![*rule]));
                prop_assert_eq!(CallRule::decode(&rule.encode()), Some(*rule));
            }
        }

        /// No text makes it panic.
        #[test]
        fn any_text_is_read_or_misread(text in "[a-zä0-9=:;,@. -]{0,40}") {
            let _ = bcast(&text).map_err(|problem| assert!(!problem.is_empty()));
        }
    }
}
