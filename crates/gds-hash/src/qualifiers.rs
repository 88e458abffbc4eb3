// SPDX-License-Identifier: MIT OR Apache-2.0
//! The qualifiers of a value as a set of hashes.
//!
//! Peers may send values with many similar qualifiers. Two sets of hashes are compared in a single
//! pass. The time to store or find a value is therefore proportional to the number of its
//! qualifiers.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;

use bfrops::{Encoder, Layout, Module, wire_type};
use pmix_types::{Info, Value};

/// A random key per process, so that no peer can choose two qualifiers with equal hashes.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The qualifiers of a value as ascending hashes without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Qualifiers(Box<[u64]>);

impl Qualifiers {
    /// Returns the set of these qualifiers, regardless of order and repetitions.
    pub(crate) fn of<'i, 'a: 'i>(infos: impl IntoIterator<Item = &'i Info<'a>>) -> Self {
        let mut scratch = Vec::new();
        let hashes = infos.into_iter().map(|info| hash(info, &mut scratch));
        let mut hashes: Vec<_> = hashes.collect();
        hashes.sort_unstable();
        hashes.dedup();
        Self(hashes.into())
    }

    /// Returns `true` if the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if a get with the qualifiers `asked` finds a value with these qualifiers: the
    /// value must have every qualifier of `asked`, and none if `asked` is empty.
    pub(crate) fn answer(&self, asked: &Self) -> bool {
        if asked.is_empty() || asked.0.len() > self.0.len() {
            return asked.is_empty() && self.is_empty();
        }
        let mut own = self.0.iter();
        asked.0.iter().all(|hash| own.any(|own| own == hash))
    }

    /// Returns the bytes of heap memory of the set.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// Returns the hash of a qualifier. Qualifiers with the same key and equal values have equal
/// hashes.
fn hash(info: &Info<'_>, scratch: &mut Vec<u8>) -> u64 {
    let mut hasher = HASHER.build_hasher();
    info.key.as_bytes().hash(&mut hasher);
    info.value.data_type().as_raw().hash(&mut hasher);
    match &info.value {
        Value::String(text) => text.as_ref().map(|text| text.as_bytes()).hash(&mut hasher),
        // Adding zero converts -0.0 to 0.0, because both are equal.
        Value::Float(number) => (*number + 0.0).to_bits().hash(&mut hasher),
        Value::Double(number) => (*number + 0.0).to_bits().hash(&mut hasher),
        other => {
            scratch.clear();
            let mut encoder = Encoder::new(Layout::new(Module::V61), scratch);
            // A value that cannot be packed is identified by its type only.
            if encoder.one::<wire_type::Value>(other).is_ok() {
                scratch.hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[u32]) -> Qualifiers {
        let infos: Vec<_> = (numbers.iter())
            .map(|n| Info::new("unit", Value::Uint32(*n)))
            .collect();
        Qualifiers::of(&infos)
    }

    #[test]
    fn order_and_repetition_do_not_count() {
        assert_eq!(set(&[1, 2, 3]), set(&[3, 1, 2, 1]));
        assert_ne!(set(&[1, 2, 3]), set(&[1, 2]));
        assert_ne!(set(&[1]), set(&[]));
    }

    #[test]
    fn a_value_must_have_all_requested_qualifiers() {
        let own = set(&[1, 2, 3]);
        assert!(own.answer(&set(&[2])) && own.answer(&set(&[1, 3])) && own.answer(&own));
        assert!(!own.answer(&set(&[4])) && !own.answer(&set(&[1, 4])));
        assert!(!own.answer(&set(&[])) && !set(&[]).answer(&own));
        assert!(set(&[]).answer(&set(&[])));
        assert!(!set(&[1]).answer(&own));
    }

    #[test]
    fn values_that_compare_equal_are_one_qualifier() {
        let of = |value: Value<'static>| Qualifiers::of(&[Info::new("k", value)]);
        assert_eq!(of(Value::Double(0.0)), of(Value::Double(-0.0)));
        assert_eq!(of(Value::Float(-0.0)), of(Value::Float(0.0)));
        assert_ne!(of(Value::Uint32(1)), of(Value::Uint64(1)));
        assert_ne!(of(Value::from("1")), of(Value::Uint64(1)));
        assert_ne!(of(Value::String(None)), of(Value::from("")));
        // The flag that marks an info as a qualifier is not compared.
        let marked = Info::new("k", "v").qualifier();
        assert_eq!(Qualifiers::of(&[marked]), of(Value::from("v")));
    }
}
