// SPDX-License-Identifier: MIT OR Apache-2.0
//! The qualifiers of a value as a set of hashes.
//!
//! A peer chooses how many qualifiers a value has and how alike they are. Two sets of hashes are
//! told apart by a walk along both, so storing and finding a value costs as much as its
//! qualifiers, not each of them compared with each of another value.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;

use bfrops::{Encoder, Layout, Module, wire_type};
use pmix_types::{Info, Value};

/// Keyed anew in each process, so that no peer can choose two qualifiers with one hash.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The qualifiers of a value: in ascending order, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Qualifiers(Box<[u64]>);

impl Qualifiers {
    /// The set of these qualifiers; order and repetition do not count.
    pub(crate) fn of<'i, 'a: 'i>(infos: impl IntoIterator<Item = &'i Info<'a>>) -> Self {
        let mut scratch = Vec::new();
        let hashes = infos.into_iter().map(|info| hash(info, &mut scratch));
        let mut hashes: Vec<_> = hashes.collect();
        hashes.sort_unstable();
        hashes.dedup();
        Self(hashes.into())
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a value with these qualifiers is one for somebody who names the others: it has
    /// all of them, and has none if none are named.
    pub(crate) fn answer(&self, asked: &Self) -> bool {
        if asked.is_empty() || asked.0.len() > self.0.len() {
            return asked.is_empty() && self.is_empty();
        }
        let mut own = self.0.iter();
        asked.0.iter().all(|hash| own.any(|own| own == hash))
    }

    /// The bytes of heap that the set takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// A hash of a qualifier: the same for the same key with values that compare equal.
fn hash(info: &Info<'_>, scratch: &mut Vec<u8>) -> u64 {
    let mut hasher = HASHER.build_hasher();
    info.key.as_bytes().hash(&mut hasher);
    info.value.data_type().as_raw().hash(&mut hasher);
    match &info.value {
        Value::String(text) => text.as_ref().map(|text| text.as_bytes()).hash(&mut hasher),
        // Zero has two signs and is one number.
        Value::Float(number) => (*number + 0.0).to_bits().hash(&mut hasher),
        Value::Double(number) => (*number + 0.0).to_bits().hash(&mut hasher),
        other => {
            scratch.clear();
            let mut encoder = Encoder::new(Layout::new(Module::V61), scratch);
            // What cannot be packed is known by its type alone.
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
    fn who_names_some_is_answered_by_who_has_all_of_them() {
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
        // A mark that something is a qualifier is no part of it.
        let marked = Info::new("k", "v").qualifier();
        assert_eq!(Qualifiers::of(&[marked]), of(Value::from("v")));
    }
}
