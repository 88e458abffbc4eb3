// SPDX-License-Identifier: MIT OR Apache-2.0
//! A list of infos with incremental construction, and the directives of an info.
//!
//! Source: OpenPMIx, the functions `PMIx_Info_list_*`.

use std::collections::{VecDeque, vec_deque};

use crate::{DataArray, Info, InfoFlags, IntoOwned, Key, Measure, Value};

/// A growable list of infos (the object of `PMIx_Info_list_start`).
///
/// `PMIx_Info_list_get_size` is [`InfoList::len`], `PMIx_Info_list_get_info` is
/// [`InfoList::iter`], `PMIx_Info_list_release` is `drop`.
///
/// ```
/// use pmix_types::{DataType, InfoList};
/// let mut list = InfoList::new();
/// list.append("pmix.job.size", 4u32).append("pmix.wdir", "/tmp").prepend("pmix.mapby", "slot");
/// let array = list.into_array();
/// assert_eq!((array.data_type(), array.len()), (DataType::INFO, 3));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InfoList<'a>(VecDeque<Info<'a>>);

impl<'a> InfoList<'a> {
    /// Creates an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Returns the number of infos (`PMIx_Info_list_get_size`).
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if the list has no infos.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends an info without directives (`PMIx_Info_list_add`, `PMIx_Info_list_add_value`).
    pub fn append(&mut self, key: impl Into<Key<'a>>, value: impl Into<Value<'a>>) -> &mut Self {
        self.0.push_back(Info::new(key, value));
        self
    }

    /// Prepends an info without directives (`PMIx_Info_list_prepend`).
    pub fn prepend(&mut self, key: impl Into<Key<'a>>, value: impl Into<Value<'a>>) -> &mut Self {
        self.0.push_front(Info::new(key, value));
        self
    }

    /// Appends an info unless the list has its key (`PMIx_Info_list_add_unique`,
    /// `PMIx_Info_list_add_value_unique`). If the list has the key, `overwrite` replaces the value.
    /// The directives of the existing info are always kept.
    ///
    /// Returns `true` if the list now has the new value. C returns success in all cases.
    pub fn append_unique(
        &mut self,
        key: impl Into<Key<'a>>,
        value: impl Into<Value<'a>>,
        overwrite: bool,
    ) -> bool {
        self.transfer_unique(Info::new(key, value), overwrite)
    }

    /// Appends an info with its directives and marks it persistent (`PMIx_Info_list_insert`). In C,
    /// this flag means that the caller still owns the value.
    pub fn insert(&mut self, info: Info<'a>) -> &mut Self {
        self.0.push_back(info);
        if let Some(last) = self.0.back_mut() {
            last.set_persistent();
        }
        self
    }

    /// Appends an info with its directives (`PMIx_Info_list_xfer`).
    pub fn transfer(&mut self, info: Info<'a>) -> &mut Self {
        self.0.push_back(info);
        self
    }

    /// Appends an info with its directives unless the list has its key
    /// (`PMIx_Info_list_xfer_unique`); see [`InfoList::append_unique`].
    pub fn transfer_unique(&mut self, info: Info<'a>, overwrite: bool) -> bool {
        match self
            .0
            .iter_mut()
            .find(|known| known.key.is(info.key.as_bytes()))
        {
            Some(known) if overwrite => known.value = info.value,
            Some(_) => return false,
            None => self.0.push_back(info),
        }
        true
    }

    /// Returns the infos in their order (`PMIx_Info_list_get_info`).
    #[must_use]
    pub fn iter(&self) -> vec_deque::Iter<'_, Info<'a>> {
        self.0.iter()
    }

    /// Returns the list as an array of infos (`PMIx_Info_list_convert`, which also returns
    /// `PMIX_ERR_EMPTY` if the list is empty).
    #[must_use]
    pub fn into_array(self) -> DataArray<'a> {
        DataArray::Info(self.into())
    }
}

impl<'a> From<InfoList<'a>> for Vec<Info<'a>> {
    fn from(list: InfoList<'a>) -> Self {
        list.0.into()
    }
}

impl<'a> From<Vec<Info<'a>>> for InfoList<'a> {
    fn from(infos: Vec<Info<'a>>) -> Self {
        Self(infos.into())
    }
}

impl<'a> FromIterator<Info<'a>> for InfoList<'a> {
    fn from_iter<I: IntoIterator<Item = Info<'a>>>(infos: I) -> Self {
        Self(infos.into_iter().collect())
    }
}

impl<'a> Extend<Info<'a>> for InfoList<'a> {
    fn extend<I: IntoIterator<Item = Info<'a>>>(&mut self, infos: I) {
        self.0.extend(infos);
    }
}

impl<'a> IntoIterator for InfoList<'a> {
    type Item = Info<'a>;
    type IntoIter = vec_deque::IntoIter<Info<'a>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'l, 'a> IntoIterator for &'l InfoList<'a> {
    type Item = &'l Info<'a>;
    type IntoIter = vec_deque::Iter<'l, Info<'a>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoOwned for InfoList<'_> {
    type Owned = InfoList<'static>;

    fn into_owned(self) -> InfoList<'static> {
        self.0.into_iter().map(IntoOwned::into_owned).collect()
    }

    fn measure(&self, what: Measure) -> usize {
        self.iter().map(|item| item.measure(what)).sum()
    }
}

// The directives of an info: setters and tests.
//
// Source: PMIx Standard, chapter "Data Structures and Types", "Info structure" and its directives
// (`PMIx_Info_required` and others).

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
