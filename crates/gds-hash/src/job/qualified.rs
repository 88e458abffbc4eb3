// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of one session, job or application, by key and qualifiers.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use pmix_types::{Info, IntoOwned, Key, Measure, QualifiedValue, Value, keys};

use crate::Error;
use crate::qualifiers::Qualifiers;

/// The key of an info with a qualified value.
pub(crate) static KEY: LazyLock<Key<'static>> = LazyLock::new(|| Key::new(keys::QUALIFIED_VALUE));

/// Qualified values by the number of their process or node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Qualified(BTreeMap<u32, Variants>);

/// The qualified values of one process or node.
#[derive(Clone, Debug, Default)]
struct Variants {
    /// The values in the order in which they were given.
    values: Vec<QualifiedValue<'static>>,
    /// The indices of the values by key and qualifiers.
    places: HashMap<Key<'static>, HashMap<Qualifiers, usize>>,
}

/// Extracts the qualified value from its info.
pub(crate) fn qualified(info: Info<'static>) -> Result<QualifiedValue<'static>, Error> {
    Ok(QualifiedValue::from_info(info)?)
}

impl Qualified {
    /// Stores a value. It replaces a value of the same key with equal qualifiers.
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

    /// Returns the first value of a key that has the requested qualifiers.
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

    /// Returns `true` if there are no values.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the processes or nodes with values, in ascending order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }

    /// Returns all values of a process or node, each in its info.
    pub(crate) fn infos(&self, index: u32) -> impl Iterator<Item = Info<'static>> {
        let values = self.0.get(&index).into_iter().flat_map(|of| &of.values);
        values.map(|value| value.clone().into_info())
    }

    /// Copies the values of another object.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (index, variants) in &other.0 {
            for value in &variants.values {
                self.set(*index, value.clone());
            }
        }
    }

    /// Returns the approximate bytes of heap memory of the values.
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

/// The index under which a table stores its qualified values.
const ONE: u32 = 0;

/// Values by key. A key may have several values with different qualifiers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    plain: BTreeMap<Key<'static>, Value<'static>>,
    qualified: Qualified,
}

impl Table {
    /// Returns all values without qualifiers, in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key<'static>, &Value<'static>)> {
        self.plain.iter()
    }

    /// Returns the bytes of memory for a copy of all values.
    pub(crate) fn measure(&self) -> usize {
        let plain = self.plain.iter().map(|(key, value)| {
            let info = size_of::<Info<'_>>() + key.as_bytes().len();
            value.measure(Measure::All).saturating_add(info)
        });
        plain
            .sum::<usize>()
            .saturating_add(self.qualified.memory_bytes())
    }

    /// Returns the value without qualifiers of a key.
    pub(crate) fn plain(&self, key: &[u8]) -> Option<&Value<'static>> {
        self.plain.get(key)
    }

    /// Returns the value of a key with the requested qualifiers. If none are requested, returns the
    /// value without qualifiers.
    pub(crate) fn get(&self, key: &[u8], asked: &[Info<'_>]) -> Option<&Value<'static>> {
        let qualified = self.qualified.get(ONE, key, asked);
        qualified.or_else(|| self.plain(key))
    }

    /// Stores a value. It replaces the previous value of the key.
    pub(crate) fn set(&mut self, key: &Key<'_>, value: Value<'_>) {
        let value = value.into_owned();
        match self.plain.get_mut(key.as_bytes()) {
            Some(known) => *known = value,
            None => drop(self.plain.insert(key.clone().into_owned(), value)),
        }
    }

    /// Copies the values of another table.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (key, value) in &other.plain {
            self.set(key, value.clone());
        }
        self.qualified.merge(&other.qualified);
    }

    /// Returns all values, qualified ones last.
    pub(crate) fn infos(&self) -> impl Iterator<Item = Info<'static>> {
        let plain = self.plain.iter().map(|(key, value)| Info {
            key: key.clone(),
            value: value.clone(),
            ..Info::default()
        });
        plain.chain(self.qualified.infos(ONE))
    }

    /// Stores a value with qualifiers. It replaces the value with equal qualifiers.
    pub(crate) fn qualify(&mut self, value: QualifiedValue<'static>) {
        self.qualified.set(ONE, value);
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
    fn a_value_replaces_only_the_one_with_equal_qualifiers() {
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
