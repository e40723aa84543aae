//! The kind of a call: calls of one kind are run by the same candidate.

use strum::VariantArray;

use super::candidates::{exist, is_gray, rules};
use super::facts::{Facts, Operation, Order};
use super::rules::Mode;
use super::settings::{Select, Settings};

/// The kind of a call: calls of one kind are run by the same candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// The operation.
    pub operation: Operation,
    /// log2 of the bytes.
    pub size: u32,
    /// log2 of the largest part over the mean.
    pub irregularity: u32,
    /// In which order elements may be combined: any, where none are.
    pub order: Order,
}

impl Kind {
    /// The kind of a call that [`choose`](super::choose) would leave to the cost model. Others have
    /// none.
    pub fn of(facts: &Facts, settings: &Settings) -> Option<Kind> {
        let is_open = !settings.disable
            && !settings.force
            && rules(facts, settings)
                .next()
                .is_none_or(|rule| rule.mode == Mode::Auto)
            && facts.bytes >= settings.min_bytes.max(1)
            && facts.processes > 1
            && facts.smaller_group == 0
            && exist(facts)
            && !is_gray(facts, settings);
        let parts = (facts.largest as f64 * facts.processes as f64 / facts.bytes as f64) as u64;
        is_open.then(|| Kind {
            operation: facts.operation,
            size: facts.bytes.ilog2(),
            irregularity: if facts.operation.is_whole() {
                0
            } else {
                parts.max(1).ilog2()
            },
            order: if facts.operation.combines() {
                facts.order
            } else {
                Order::Any
            },
        })
    }

    /// Whether calls of this kind are learned of: by default those whose results do not depend on
    /// who runs them.
    pub fn is_learned(self, settings: &Settings) -> bool {
        match settings.select {
            Select::Model | Select::Native => false,
            Select::Learn | Select::Trial => self.is_exact(),
            Select::Adaptive | Select::Tune => true,
        }
    }

    /// Whether the result is the same to the last bit by all candidates.
    pub fn is_exact(self) -> bool {
        self.order == Order::Any
    }

    /// The bytes of its smallest and its largest call.
    pub fn bytes(self) -> [u64; 2] {
        let least = 1u64.checked_shl(self.size).unwrap_or(u64::MAX);
        [least, least.saturating_mul(2) - 1]
    }

    /// The kind as a word, for other processes.
    pub fn encode(self) -> u64 {
        self.operation as u64
            | u64::from(self.size) << 8
            | u64::from(self.irregularity) << 16
            | (self.order as u64) << 24
    }

    /// The kind that was [encoded](Kind::encode).
    pub fn decode(word: u64) -> Option<Kind> {
        let field = |shift: u32| (word >> shift) as u8;
        let operation = Operation::VARIANTS.get(usize::from(field(0)))?;
        Some(Kind {
            operation: *operation,
            size: field(8).into(),
            irregularity: field(16).into(),
            order: *<Order as VariantArray>::VARIANTS.get(usize::from(field(24)))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::CallRule;
    use super::*;

    /// Results that depend on the order of combination are learned of only if settings say so; what
    /// settings decide on is not.
    #[test]
    fn what_is_learned_of() {
        let of = |select| Settings {
            select,
            ..Settings::default()
        };
        let facts = |operation, order| Facts {
            operation,
            order,
            ..Facts::regular(operation, 1 << 20, 16, 16)
        };
        let is_learned = |operation, order, settings: &Settings| {
            Kind::of(&facts(operation, order), settings)
                .is_some_and(|kind| kind.is_learned(settings))
        };
        for operation in [Operation::Bcast, Operation::Allgatherv] {
            assert!(is_learned(
                operation,
                Order::Commutative,
                &of(Select::Learn)
            ));
            assert!(!is_learned(
                operation,
                Order::Commutative,
                &of(Select::Model)
            ));
        }
        for operation in [Operation::Reduce, Operation::Allreduce] {
            assert!(is_learned(operation, Order::Any, &of(Select::Learn)));
            assert!(!is_learned(
                operation,
                Order::Commutative,
                &of(Select::Learn)
            ));
            assert!(is_learned(
                operation,
                Order::Commutative,
                &of(Select::Adaptive)
            ));
        }
        for mode in [Mode::Native, Mode::Circulant] {
            let chosen = Settings {
                select: Select::Adaptive,
                rules: vec![CallRule::plain(Operation::Bcast, mode)],
                ..Settings::default()
            };
            assert!(!is_learned(Operation::Bcast, Order::Any, &chosen));
        }
    }

    /// Calls of one kind differ by less than a factor of two, in their bytes and in how far their
    /// largest part is above the mean.
    #[test]
    fn a_kind_has_a_size_and_an_irregularity() {
        let kind = |operation, bytes, largest| {
            let facts = Facts {
                largest,
                ..Facts::regular(operation, bytes, 16, 16)
            };
            let kind = Kind::of(&facts, &Settings::default());
            kind.map(|kind| (kind.size, kind.irregularity))
        };
        let mib = 1 << 20;
        for (largest, irregularity) in [(mib / 16, 0), (mib / 16 * 7, 2), (mib, 4)] {
            let expected = Some((20, irregularity));
            assert_eq!(kind(Operation::Allgatherv, mib, largest), expected);
            assert_eq!(kind(Operation::Bcast, mib, largest), Some((20, 0)));
        }
        assert_eq!(kind(Operation::Bcast, 2 * mib - 1, 1), Some((20, 0)));
        assert_eq!(kind(Operation::Bcast, 4095, 4095), None);
    }

    /// From the smallest call of a kind to the largest all are of it, and the others are not.
    #[test]
    fn a_kind_knows_the_sizes_of_its_calls() {
        let kind = |bytes| {
            let facts = Facts::regular(Operation::Bcast, bytes, 16, 16);
            Kind::of(&facts, &Settings::default()).expect("a kind")
        };
        for bytes in [4096, 5000, 8191, 1 << 20, (1 << 20) + 1, 1 << 62] {
            let [least, most] = kind(bytes).bytes();
            assert!(least <= bytes && bytes <= most);
            assert!(kind(least) == kind(bytes) && kind(most) == kind(bytes));
            assert_ne!(kind(most + 1), kind(bytes));
        }
        assert_eq!(kind(u64::MAX).bytes()[0], 1 << 63);
    }

    /// What is no kind is not taken for one.
    #[test]
    fn a_kind_is_read_as_it_was_written() {
        for &operation in Operation::VARIANTS {
            for &order in <Order as VariantArray>::VARIANTS {
                let kind = Kind {
                    operation,
                    size: 63,
                    irregularity: 42,
                    order,
                };
                assert_eq!(Kind::decode(kind.encode()), Some(kind));
            }
        }
        let operations = Operation::VARIANTS.len() as u64;
        assert_eq!(Kind::decode(operations), None);
        assert_eq!(Kind::decode(3 << 24), None);
    }

    /// A call has a kind if nobody has decided on it: of several processes of one group, with the
    /// least bytes or more.
    #[test]
    fn what_is_decided_on_has_no_kind() {
        let with = |change: fn(&mut Settings, &mut Facts)| {
            let mut settings = Settings::default();
            let mut facts = Facts::regular(Operation::Bcast, 4096, 2, 2);
            change(&mut settings, &mut facts);
            Kind::of(&facts, &settings).is_some()
        };
        assert!(with(|_, _| ()));
        assert!(!with(|_, facts| facts.processes = 1));
        assert!(!with(|_, facts| facts.smaller_group = 1));
        assert!(!with(|_, facts| facts.bytes = 4095));
        assert!(with(
            |settings, facts| (settings.min_bytes, facts.bytes) = (0, 1)
        ));
        assert!(!with(
            |settings, facts| (settings.min_bytes, facts.bytes) = (0, 0)
        ));
        assert!(!with(|settings, _| settings.disable = true));
        assert!(!with(|settings, _| settings.force = true));
        assert!(!with(|_, facts| {
            (facts.operation, facts.order) = (Operation::Reduce, Order::Ranks);
        }));
    }
}
