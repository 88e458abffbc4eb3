// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of one session, job or application, by key.

use std::collections::BTreeMap;

use pmix_types::{Info, IntoOwned, Key, Measure, QualifiedValue, Value};

use super::qualified::Qualified;

/// The only index of the qualified values of a table.
const ONE: u32 = 0;

/// Values by key; a key may have several with different qualifiers.
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

    /// Returns the bytes that a copy of all values takes.
    pub(crate) fn measure(&self) -> usize {
        let plain = self.plain.iter().map(|(key, value)| {
            let info = size_of::<Info<'_>>() + key.as_bytes().len();
            value.measure(Measure::All).saturating_add(info)
        });
        plain
            .sum::<usize>()
            .saturating_add(self.qualified.memory_bytes())
    }

    /// The value of a key that has no qualifiers.
    pub(crate) fn plain(&self, key: &[u8]) -> Option<&Value<'static>> {
        self.plain.get(key)
    }

    /// Returns the value of a key with the requested qualifiers, or without any.
    pub(crate) fn get(&self, key: &[u8], asked: &[Info<'_>]) -> Option<&Value<'static>> {
        let qualified = self.qualified.get(ONE, key, asked);
        qualified.or_else(|| self.plain(key))
    }

    /// Stores a value; it replaces the previous one.
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

    /// Stores a value with qualifiers; it replaces the one with equal qualifiers.
    pub(crate) fn qualify(&mut self, value: QualifiedValue<'static>) {
        self.qualified.set(ONE, value);
    }
}
