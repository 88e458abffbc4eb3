// SPDX-License-Identifier: MIT OR Apache-2.0
//! Environments: lists of `NAME=VALUE`.
//!
//! Source: OpenPMIx, `PMIx_Setenv`.

use super::error::ValueErrorKind;
use super::{Argv, ValueError};
use crate::Text;

/// Returns the value of an entry, if the entry sets the variable `name`.
fn value_of<'e>(entry: &'e Text<'_>, name: &[u8]) -> Option<&'e [u8]> {
    entry.as_bytes().strip_prefix(name)?.strip_prefix(b"=")
}

impl<'a> Argv<'a> {
    /// Returns the value of a variable; the first entry counts if several have its name.
    #[must_use]
    pub fn var(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let name = name.as_ref();
        self.iter().find_map(|entry| value_of(entry, name))
    }

    /// Sets a variable in the list (`PMIx_Setenv` with a list other than the process's
    /// environment).
    ///
    /// The first entry with the name is replaced in place; otherwise the variable is appended.
    /// Names are not checked, so an empty name or one with `=` is accepted.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_EXISTS` if the variable is set and `overwrite` is false; the list is unchanged
    /// then.
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
