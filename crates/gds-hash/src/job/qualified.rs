// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several values of one key, told apart by qualifiers.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use pmix_types::{Info, Key, QualifiedValue, Value, keys};

use crate::Error;
use crate::qualifiers::Qualifiers;

/// The key under which such a value is given.
pub(crate) static KEY: LazyLock<Key<'static>> = LazyLock::new(|| Key::new(keys::QUALIFIED_VALUE));

/// Qualified values by the number of the process or node that has them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Qualified(BTreeMap<u32, Variants>);

/// The qualified values of one process or node.
#[derive(Clone, Debug, Default)]
struct Variants {
    /// In the order in which they were given.
    values: Vec<QualifiedValue<'static>>,
    /// By key the qualifiers of its values and where they are.
    places: HashMap<Key<'static>, HashMap<Qualifiers, usize>>,
}

/// Takes the info apart that carries a qualified value.
pub(crate) fn qualified(info: Info<'static>) -> Result<QualifiedValue<'static>, Error> {
    Ok(QualifiedValue::from_info(info)?)
}

impl Qualified {
    /// Stores a value; the one of the same key with the same qualifiers is replaced.
    pub(crate) fn set(&mut self, index: u32, value: QualifiedValue<'static>) {
        let variants = self.0.entry(index).or_default();
        let qualifiers = Qualifiers::of(value.qualifiers());
        let key = value.primary().key.clone();
        let places = variants.places.entry(key).or_default();
        match places.get(&qualifiers) {
            Some(place) => variants.values[*place] = value,
            None => {
                places.insert(qualifiers, variants.values.len());
                variants.values.push(value);
            }
        }
    }

    /// The value of a key that has the qualifiers which are asked for; of several the first.
    pub(crate) fn get(
        &self,
        index: u32,
        key: &[u8],
        asked: &[Info<'_>],
    ) -> Option<&Value<'static>> {
        let variants = self.0.get(&index)?;
        let places = variants.places.get(key)?;
        let asked = Qualifiers::of(asked.iter().filter(|info| info.is_qualifier()));
        let answers = places.iter().filter(|(own, _)| own.answer(&asked));
        let place = answers.map(|(_, place)| *place).min()?;
        Some(&variants.values.get(place)?.primary().value)
    }

    /// Whether there are no values.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The processes or nodes that have values, in ascending order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }

    /// All values of one, each in the info that carries it.
    pub(crate) fn infos(&self, index: u32) -> impl Iterator<Item = Info<'static>> {
        let values = self.0.get(&index).into_iter().flat_map(|of| &of.values);
        values.map(|value| value.clone().into_info())
    }

    /// Takes over the values of another.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (index, variants) in &other.0 {
            for value in &variants.values {
                self.set(*index, value.clone());
            }
        }
    }

    /// About how many bytes of heap the values take.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of_value = |value: &QualifiedValue<'_>| {
            let infos = 1 + value.qualifiers().len();
            infos * size_of::<Info<'_>>()
        };
        let of_places = |places: &HashMap<Qualifiers, usize>| {
            let sets = places.keys().map(Qualifiers::memory_bytes);
            sets.sum::<usize>() + places.capacity() * size_of::<(Qualifiers, usize)>()
        };
        let variants = self.0.values().map(|variants| {
            let values = variants.values.iter().map(of_value);
            let places = variants.places.values().map(of_places);
            values.sum::<usize>() + places.sum::<usize>()
        });
        variants.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(number: u32, units: &[&'static str]) -> QualifiedValue<'static> {
        let mut value = QualifiedValue::new(Info::new("speed", number));
        for unit in units {
            value.qualify("unit", *unit);
        }
        value
    }

    #[test]
    fn a_value_replaces_the_one_with_its_qualifiers_alone() {
        let mut values = Qualified::default();
        values.set(3, speed(1, &["kb", "s"]));
        values.set(3, speed(2, &["mb", "s"]));
        values.set(3, speed(3, &["s", "kb"]));
        values.set(4, speed(4, &["kb", "s"]));
        let asked = |unit: &'static str| [Info::new("unit", unit).qualifier()];
        let get = |index, unit| values.get(index, b"speed", &asked(unit)).cloned();
        assert_eq!(get(3, "kb"), Some(Value::Uint32(3)));
        assert_eq!(get(3, "mb"), Some(Value::Uint32(2)));
        assert_eq!(get(4, "kb"), Some(Value::Uint32(4)));
        assert_eq!(get(4, "mb"), None);
        assert_eq!(values.infos(3).count(), 2);
    }
}
