// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directives of an info, set and tested one by one.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", "Info structure" and its directives
//! (`PMIx_Info_required` and others).

use crate::{Info, InfoFlags};

impl Info<'_> {
    fn set(&mut self, bits: InfoFlags) {
        self.flags |= bits;
    }

    /// Asks for failure if the info cannot be honoured (`PMIx_Info_required`).
    pub fn set_required(&mut self) {
        self.set(InfoFlags::REQD);
    }

    /// Lets a request go on without the info (`PMIx_Info_optional`); takes back
    /// [`Info::set_required`] and nothing else.
    pub fn set_optional(&mut self) {
        self.flags = self.flags.without(InfoFlags::REQD);
    }

    /// Notes that the info has been honoured (`PMIx_Info_processed`).
    pub fn set_processed(&mut self) {
        self.set(InfoFlags::REQD_PROCESSED);
    }

    /// Marks the last info of an array (`PMIx_Info_set_end`).
    pub fn set_end(&mut self) {
        self.set(InfoFlags::ARRAY_END);
    }

    /// Makes the info a qualifier of another one (`PMIx_Info_qualifier`).
    pub fn set_qualifier(&mut self) {
        self.set(InfoFlags::QUALIFIER);
    }

    /// Marks that the value belongs to somebody else (`PMIx_Info_persistent`). It says so to C
    /// programs; here ownership is in the types.
    pub fn set_persistent(&mut self) {
        self.set(InfoFlags::PERSISTENT);
    }

    /// Returns the same info, required.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.set_required();
        self
    }

    /// Returns the same info as a qualifier.
    #[must_use]
    pub fn qualifier(mut self) -> Self {
        self.set_qualifier();
        self
    }

    /// Returns whether the info must be honoured (`PMIx_Info_is_required`).
    #[must_use]
    pub const fn is_required(&self) -> bool {
        self.flags.contains(InfoFlags::REQD)
    }

    /// Returns whether a request may go on without the info (`PMIx_Info_is_optional`).
    #[must_use]
    pub const fn is_optional(&self) -> bool {
        !self.is_required()
    }

    /// Returns whether the info has been honoured (`PMIx_Info_was_processed`).
    #[must_use]
    pub const fn was_processed(&self) -> bool {
        self.flags.contains(InfoFlags::REQD_PROCESSED)
    }

    /// Returns whether a call has to fail unless it obeys the info: the info is required, and no layer has
    /// processed it yet.
    #[must_use]
    pub const fn must_be_obeyed(&self) -> bool {
        self.is_required() && !self.was_processed()
    }

    /// Returns whether it is the last info of an array (`PMIx_Info_is_end`).
    #[must_use]
    pub const fn is_end(&self) -> bool {
        self.flags.contains(InfoFlags::ARRAY_END)
    }

    /// Returns whether it is a qualifier of another info (`PMIx_Info_is_qualifier`).
    #[must_use]
    pub const fn is_qualifier(&self) -> bool {
        self.flags.contains(InfoFlags::QUALIFIER)
    }

    /// Returns whether the value belongs to somebody else (`PMIx_Info_is_persistent`).
    #[must_use]
    pub const fn is_persistent(&self) -> bool {
        self.flags.contains(InfoFlags::PERSISTENT)
    }
}
