// SPDX-License-Identifier: MIT OR Apache-2.0
//! Environments: lists of `NAME=VALUE`.
//!
//! Source: OpenPMIx, `PMIx_Setenv`.

use super::error::ValueErrorKind;
use super::{Argv, ValueError};
use crate::Text;

/// The value, if the entry is of the variable.
fn value_of<'e>(entry: &'e Text<'_>, name: &[u8]) -> Option<&'e [u8]> {
    entry.as_bytes().strip_prefix(name)?.strip_prefix(b"=")
}

impl<'a> Argv<'a> {
    /// Returns the value of a variable; of the first entry, if several have its name.
    #[must_use]
    pub fn var(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let name = name.as_ref();
        self.iter().find_map(|entry| value_of(entry, name))
    }

    /// Sets a variable in the list (`PMIx_Setenv` on a list that is not the program's own).
    ///
    /// The first entry with the name is replaced where it stands, else the variable goes to the
    /// end. Names are taken as they are, even one that is empty or holds a `=`.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_EXISTS` if the variable is set and `overwrite` is false; nothing changes then.
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
