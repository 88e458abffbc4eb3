// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directives of an info: setters and tests.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", "Info structure" and its directives
//! (`PMIx_Info_required` and others).

use crate::{Info, InfoFlags};

impl Info<'_> {
    fn set(&mut self, bits: InfoFlags) {
        self.flags |= bits;
    }

    /// Requires the info: the request must fail if it cannot be honored (`PMIx_Info_required`).
    pub fn set_required(&mut self) {
        self.set(InfoFlags::REQD);
    }

    /// Makes the info optional (`PMIx_Info_optional`): clears the flag of [`Info::set_required`]
    /// and no other.
    pub fn set_optional(&mut self) {
        self.flags = self.flags.without(InfoFlags::REQD);
    }

    /// Marks the info as honored (`PMIx_Info_processed`).
    pub fn set_processed(&mut self) {
        self.set(InfoFlags::REQD_PROCESSED);
    }

    /// Marks the last info of an array (`PMIx_Info_set_end`).
    pub fn set_end(&mut self) {
        self.set(InfoFlags::ARRAY_END);
    }

    /// Marks the info as a qualifier of another info (`PMIx_Info_qualifier`).
    pub fn set_qualifier(&mut self) {
        self.set(InfoFlags::QUALIFIER);
    }

    /// Marks the value as owned elsewhere (`PMIx_Info_persistent`). Only C programs use the mark;
    /// Rust expresses ownership in types.
    pub fn set_persistent(&mut self) {
        self.set(InfoFlags::PERSISTENT);
    }

    /// Returns the info, marked as required.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.set_required();
        self
    }

    /// Returns the info, marked as a qualifier.
    #[must_use]
    pub fn qualifier(mut self) -> Self {
        self.set_qualifier();
        self
    }

    /// Returns `true` if the info must be honored (`PMIx_Info_is_required`).
    #[must_use]
    pub const fn is_required(&self) -> bool {
        self.flags.contains(InfoFlags::REQD)
    }

    /// Returns `true` if a request may proceed without the info (`PMIx_Info_is_optional`).
    #[must_use]
    pub const fn is_optional(&self) -> bool {
        !self.is_required()
    }

    /// Returns `true` if the info has been honored (`PMIx_Info_was_processed`).
    #[must_use]
    pub const fn was_processed(&self) -> bool {
        self.flags.contains(InfoFlags::REQD_PROCESSED)
    }

    /// Returns `true` if a call has to fail unless it obeys the info: the info is required, and no
    /// layer has processed it yet.
    #[must_use]
    pub const fn must_be_obeyed(&self) -> bool {
        self.is_required() && !self.was_processed()
    }

    /// Returns `true` if this is the last info of an array (`PMIx_Info_is_end`).
    #[must_use]
    pub const fn is_end(&self) -> bool {
        self.flags.contains(InfoFlags::ARRAY_END)
    }

    /// Returns `true` if this is a qualifier of another info (`PMIx_Info_is_qualifier`).
    #[must_use]
    pub const fn is_qualifier(&self) -> bool {
        self.flags.contains(InfoFlags::QUALIFIER)
    }

    /// Returns `true` if the value is owned elsewhere (`PMIx_Info_is_persistent`).
    #[must_use]
    pub const fn is_persistent(&self) -> bool {
        self.flags.contains(InfoFlags::PERSISTENT)
    }
}
