// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values with qualifiers.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIX_QUALIFIED_VALUE`.

use super::{ValueComparison, ValueError, ValueErrorKind};
use crate::{DataArray, Info, IntoOwned, Measure, Value, keys};

/// A value with the qualifiers under which it is valid (OpenPMIx, heading "Qualified Values").
///
/// The packed form is an info with the key `pmix.qual.val` and an array of infos. The first info of
/// the array is the value with its key. The others are the qualifiers, each marked as a qualifier.
/// A get of the key finds the value only if all qualifiers of the get are among those of the value.
///
/// ```
/// use pmix_types::{Info, QualifiedValue};
/// let mut speed = QualifiedValue::new(Info::new("app.speed", 100u32));
/// speed.qualify("app.unit", "gbps");
/// let asked = [Info::new("app.unit", "gbps").qualifier()];
/// assert!(speed.answers("app.speed", &asked));
/// assert!(!speed.answers("app.speed", &[]));
///
/// let info = speed.clone().into_info();
/// assert_eq!(info.key, "pmix.qual.val");
/// assert_eq!(QualifiedValue::from_info(info), Ok(speed));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct QualifiedValue<'a> {
    primary: Info<'a>,
    qualifiers: Vec<Info<'a>>,
}

impl<'a> QualifiedValue<'a> {
    /// Creates a value without qualifiers.
    #[must_use]
    pub const fn new(primary: Info<'a>) -> Self {
        Self {
            primary,
            qualifiers: Vec::new(),
        }
    }

    /// Adds a qualifier.
    pub fn qualify(
        &mut self,
        key: impl Into<crate::Key<'a>>,
        value: impl Into<Value<'a>>,
    ) -> &mut Self {
        self.qualifiers.push(Info::new(key, value).qualifier());
        self
    }

    /// Returns the value with its own key.
    #[must_use]
    pub const fn primary(&self) -> &Info<'a> {
        &self.primary
    }

    /// Returns the qualifiers, each marked as a qualifier.
    #[must_use]
    pub fn qualifiers(&self) -> &[Info<'a>] {
        &self.qualifiers
    }

    /// Returns the value and its qualifiers.
    #[must_use]
    pub fn into_parts(self) -> (Info<'a>, Vec<Info<'a>>) {
        (self.primary, self.qualifiers)
    }

    /// Returns the info that holds the value and its qualifiers.
    #[must_use]
    pub fn into_info(self) -> Info<'a> {
        let mut infos = vec![self.primary];
        infos.extend(self.qualifiers);
        Info::new(keys::QUALIFIED_VALUE, infos)
    }

    /// Reads the value and its qualifiers from an info with the key `pmix.qual.val`. Every info
    /// after the value is a qualifier, marked or not.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` if the key is a different one, or if the value is not an array of at
    /// least one info.
    pub fn from_info(info: Info<'a>) -> Result<Self, ValueError> {
        let refused = |why| Err(ValueError(ValueErrorKind::NotQualified(why)));
        if !info.key.is(keys::QUALIFIED_VALUE) {
            return refused("its key is not pmix.qual.val");
        }
        let Value::DataArray(DataArray::Info(infos)) = info.value else {
            return refused("its value is not an array of infos");
        };
        let mut infos = infos.into_iter();
        let Some(primary) = infos.next() else {
            return refused("its array is empty");
        };
        let qualifiers = infos.map(Info::qualifier).collect();
        Ok(Self {
            primary,
            qualifiers,
        })
    }

    /// Returns `true` if a get of `key` with these infos finds this value.
    ///
    /// Infos that are not marked as qualifiers are ignored. Each of them must be among the
    /// qualifiers of the value, with the same key and a value that compares equal. A get without
    /// qualifiers matches only values without qualifiers.
    #[must_use]
    pub fn answers(&self, key: impl AsRef<[u8]>, asked: &[Info<'_>]) -> bool {
        let mut wanted = asked.iter().filter(|info| info.is_qualifier()).peekable();
        if !self.primary.key.is(key) || wanted.peek().is_some() == self.qualifiers.is_empty() {
            return false;
        }
        wanted.all(|info| self.qualifiers.iter().any(|own| same_qualifier(own, info)))
    }
}

fn same_qualifier(a: &Info<'_>, b: &Info<'_>) -> bool {
    a.key.is(b.key.as_bytes()) && a.value.compare(&b.value) == ValueComparison::Equal
}

impl IntoOwned for QualifiedValue<'_> {
    type Owned = QualifiedValue<'static>;

    fn into_owned(self) -> QualifiedValue<'static> {
        QualifiedValue {
            primary: self.primary.into_owned(),
            qualifiers: self.qualifiers.into_owned(),
        }
    }

    fn measure(&self, what: Measure) -> usize {
        self.primary.measure(what) + self.qualifiers.measure(what)
    }
}
