// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several values of one key, told apart by qualifiers.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use pmix_types::{Info, Key, QualifiedValue, Value, keys};

use crate::Error;

/// The key under which such a value is given.
pub(crate) static KEY: LazyLock<Key<'static>> = LazyLock::new(|| Key::new(keys::QUALIFIED_VALUE));

/// Qualified values by the number of the process or node that has them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Qualified(BTreeMap<u32, Vec<QualifiedValue<'static>>>);

/// Takes the info apart that carries a qualified value.
pub(crate) fn qualified(info: Info<'static>) -> Result<QualifiedValue<'static>, Error> {
    QualifiedValue::from_info(info).map_err(|e| Error::new(e.status(), e.to_string()))
}

impl Qualified {
    /// Stores a value; the one of the same key with the same qualifiers is replaced.
    pub(crate) fn set(&mut self, index: u32, value: QualifiedValue<'static>) {
        let values = self.0.entry(index).or_default();
        match values
            .iter_mut()
            .find(|known| is_in_place_of(&value, known))
        {
            Some(known) => *known = value,
            None => values.push(value),
        }
    }

    /// The value of a key that has the qualifiers which are asked for.
    pub(crate) fn get(
        &self,
        index: u32,
        key: &[u8],
        asked: &[Info<'_>],
    ) -> Option<&Value<'static>> {
        let mut values = self.0.get(&index)?.iter();
        let found = values.find(|value| value.answers(key, asked));
        found.map(|value| &value.primary().value)
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
        let values = self.0.get(&index).into_iter().flatten();
        values.map(|value| value.clone().into_info())
    }

    /// Takes over the values of another.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (index, values) in &other.0 {
            for value in values {
                self.set(*index, value.clone());
            }
        }
    }

    /// About how many bytes of heap the values take.
    pub(crate) fn memory_bytes(&self) -> usize {
        let infos = self.0.values().flatten();
        let infos = infos.map(|value| 1 + value.qualifiers().len());
        infos.sum::<usize>() * size_of::<Info<'_>>()
    }
}

/// Whether two values have the same key and the same qualifiers, in whatever order.
fn is_in_place_of(new: &QualifiedValue<'_>, known: &QualifiedValue<'_>) -> bool {
    let (a, b) = (new.qualifiers(), known.qualifiers());
    new.primary().key == known.primary().key
        && a.len() == b.len()
        && a.iter().all(|one| b.contains(one))
        && b.iter().all(|one| a.contains(one))
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
