// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of strings, such as the arguments and the environment of a program.
//!
//! Source: OpenPMIx, the functions `PMIx_Argv_*`, which the Standard has as macros in chapter "Data
//! Structures and Types".

use std::ops::Deref;

use super::{ValueError, ValueErrorKind};
use crate::{IntoOwned, Measure, Text};

/// A list of strings (in C an array of `char *` with a null at its end).
///
/// The type wraps a `Vec<Text>`, converts to and from it without cost, and dereferences to a slice.
/// `PMIx_Argv_count` is `len`, `PMIx_Argv_copy` is `clone`, `PMIx_Argv_free` is `drop`. C
/// distinguishes a null pointer from an empty array. Both are the empty list here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Argv<'a>(Vec<Text<'a>>);

impl<'a> Argv<'a> {
    /// Creates an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Splits a text at delimiters and omits empty parts (`PMIx_Argv_split`).
    ///
    /// The parts borrow from the text.
    ///
    /// ```
    /// use pmix_types::Argv;
    /// assert_eq!(*Argv::split("a,,b,", b','), ["a", "b"]);
    /// assert_eq!(*Argv::split_with_empty("a,,b,", b','), ["a", "", "b"]);
    /// ```
    #[must_use]
    pub fn split(text: &'a (impl AsRef<[u8]> + ?Sized), delimiter: u8) -> Self {
        Self::split_inter(text, delimiter, false)
    }

    /// Splits a text at delimiters and keeps empty parts (`PMIx_Argv_split_with_empty`).
    ///
    /// A delimiter ends a part, so no part follows a delimiter at the end: `a,` has one part, `,`
    /// has one empty part, and the empty text has none.
    #[must_use]
    pub fn split_with_empty(text: &'a (impl AsRef<[u8]> + ?Sized), delimiter: u8) -> Self {
        Self::split_inter(text, delimiter, true)
    }

    /// Splits a text with or without empty parts (`PMIx_Argv_split_inter`).
    ///
    /// The text ends before its first NUL, as every [`Text`] does.
    #[must_use]
    pub fn split_inter(
        text: &'a (impl AsRef<[u8]> + ?Sized),
        delimiter: u8,
        include_empty: bool,
    ) -> Self {
        let text = text.as_ref();
        let end = text.iter().position(|byte| *byte == 0);
        let text = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
        let mut parts: Vec<_> = text.split(|byte| *byte == delimiter).collect();
        if parts.last().is_some_and(|last| last.is_empty()) {
            parts.pop();
        }
        let wanted = parts
            .into_iter()
            .filter(|part| include_empty || !part.is_empty());
        Self(wanted.map(Text::without_nul).collect())
    }

    /// Appends a string (`PMIx_Argv_append_nosize`).
    pub fn append(&mut self, text: impl Into<Text<'a>>) {
        self.0.push(text.into());
    }

    /// Prepends a string (`PMIx_Argv_prepend_nosize`).
    pub fn prepend(&mut self, text: impl Into<Text<'a>>) {
        self.0.insert(0, text.into());
    }

    /// Appends a string unless the list contains it (`PMIx_Argv_append_unique_nosize`). Returns
    /// `true` if the string was appended.
    pub fn append_unique(&mut self, text: impl Into<Text<'a>>) -> bool {
        let text = text.into();
        let new = !self.0.contains(&text);
        if new {
            self.0.push(text);
        }
        new
    }

    /// Returns the list as a vector, for the fields of the model.
    #[must_use]
    pub fn into_vec(self) -> Vec<Text<'a>> {
        self.0
    }

    pub(super) const fn vec_mut(&mut self) -> &mut Vec<Text<'a>> {
        &mut self.0
    }
}

impl Argv<'_> {
    /// Returns all strings with a delimiter between them (`PMIx_Argv_join`).
    ///
    /// The empty list gives the empty text, and so does a list of one empty string. Delimiters
    /// inside a string and empty strings are not escaped: only a list without them is restored by
    /// [`Argv::split`].
    #[must_use]
    pub fn join(&self, delimiter: u8) -> Text<'static> {
        Text::new(self.0.join(&delimiter))
    }

    /// Joins the strings from index `start` up to, but not including, index `end`
    /// (`pmix_argv_join_range`). An `end` beyond the last string means all strings from `start` on.
    /// The text is empty if `start` is beyond `end`.
    #[must_use]
    pub fn join_range(&self, start: usize, end: usize, delimiter: u8) -> Text<'static> {
        let range = self.0.get(start..end.min(self.0.len())).unwrap_or_default();
        Text::new(range.join(&delimiter))
    }
}

impl<'a> Deref for Argv<'a> {
    type Target = [Text<'a>];

    fn deref(&self) -> &[Text<'a>] {
        &self.0
    }
}

impl<'a> From<Vec<Text<'a>>> for Argv<'a> {
    fn from(texts: Vec<Text<'a>>) -> Self {
        Self(texts)
    }
}

impl<'a> From<Argv<'a>> for Vec<Text<'a>> {
    fn from(argv: Argv<'a>) -> Self {
        argv.0
    }
}

impl<'a, T: Into<Text<'a>>> FromIterator<T> for Argv<'a> {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        Self(texts.into_iter().map(Into::into).collect())
    }
}

impl<'a, T: Into<Text<'a>>> Extend<T> for Argv<'a> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, texts: I) {
        self.0.extend(texts.into_iter().map(Into::into));
    }
}

impl<'a> IntoIterator for Argv<'a> {
    type Item = Text<'a>;
    type IntoIter = std::vec::IntoIter<Text<'a>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl IntoOwned for Argv<'_> {
    type Owned = Argv<'static>;

    fn into_owned(self) -> Argv<'static> {
        Argv(self.0.into_owned())
    }

    fn measure(&self, what: Measure) -> usize {
        self.0.measure(what)
    }
}

// Environments: lists of `NAME=VALUE`.
//
// Source: OpenPMIx, `PMIx_Setenv`.

/// Returns the value of an entry, if the entry sets the variable `name`.
fn value_of<'e>(entry: &'e Text<'_>, name: &[u8]) -> Option<&'e [u8]> {
    entry.as_bytes().strip_prefix(name)?.strip_prefix(b"=")
}

impl<'a> Argv<'a> {
    /// Returns the value of a variable. If several entries have its name, the first one counts.
    #[must_use]
    pub fn var(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let name = name.as_ref();
        self.iter().find_map(|entry| value_of(entry, name))
    }

    /// Sets a variable in the list (`PMIx_Setenv` with a list other than the process's
    /// environment).
    ///
    /// The first entry with the name is replaced in place. Otherwise the variable is appended.
    /// Names are not checked, so an empty name or one with `=` is accepted.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_EXISTS` if the variable is set and `overwrite` is false; then the list is
    /// unchanged.
    pub fn set_var(
        &mut self,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        overwrite: bool,
    ) -> Result<(), ValueError> {
        let name = name.as_ref();
        let found = self
            .vec_mut()
            .iter_mut()
            .find(|entry| value_of(entry, name).is_some());
        if found.is_some() && !overwrite {
            return Err(ValueError(ValueErrorKind::VariableExists));
        }
        let entry = Text::new([name, value.as_ref()].join(&b'='));
        match found {
            Some(place) => *place = entry,
            None => self.append(entry),
        }
        Ok(())
    }

    /// Removes the first entry of a variable (`pmix_unsetenv`).
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if no entry has the name.
    pub fn unset_var(&mut self, name: impl AsRef<[u8]>) -> Result<(), ValueError> {
        let name = name.as_ref();
        let place = self
            .iter()
            .position(|entry| value_of(entry, name).is_some());
        let place = place.ok_or(ValueError(ValueErrorKind::NoVariable))?;
        self.vec_mut().remove(place);
        Ok(())
    }
}
