// SPDX-License-Identifier: MIT OR Apache-2.0
//! The decoder of pack calls.
//!
//! Source: PMIx Standard, chapter "Data Packing and Unpacking", `PMIx_Data_unpack`; the bytes are
//! those that releases of OpenPMIx pack, recorded in `testdata/bfrops`.

mod primitive;

use std::marker::PhantomData;

use pmix_types::{DataArray, DataType, Status};

use crate::legacy::code;
use crate::module::Types;
use crate::refusal::Place;
use crate::wire_type::Run;
use crate::{
    BufferKind, Error, FieldTrace, Layout, Limits, Module, RegexFramer, WireType, wire_type,
};

/// A decoder that unpacks pack calls from the bytes of a message.
///
/// After an error the position is unspecified: the rest of the message cannot be unpacked. Later
/// messages are not affected.
pub struct Decoder<'a> {
    rest: &'a [u8],
    total: usize,
    layout: Layout,
    /// The types that are allowed at every place, so that `check` need not look at the place.
    types: Types,
    limits: Limits,
    /// The limit of memory for unpacked data in bytes, and how much of it is left.
    most_memory: usize,
    memory: usize,
    /// The limits for processes and infos in lists, and how much of each is left.
    max_procs: usize,
    procs_left: usize,
    max_infos: usize,
    infos_left: usize,
    depth: u32,
    framer: Option<&'a dyn RegexFramer>,
    notes: Option<Box<FieldTrace>>,
}

impl<'a> Decoder<'a> {
    /// Creates a decoder for `bytes` with default limits.
    #[must_use]
    pub fn new(layout: Layout, bytes: &'a [u8]) -> Self {
        let limits = Limits::default();
        Self {
            rest: bytes,
            total: bytes.len(),
            layout,
            types: layout.module.everywhere(),
            limits,
            most_memory: limits.memory(bytes.len()),
            memory: limits.memory(bytes.len()),
            max_procs: usize::MAX,
            procs_left: usize::MAX,
            max_infos: usize::MAX,
            infos_left: usize::MAX,
            depth: 0,
            framer: None,
            notes: None,
        }
    }

    /// Sets the limits on the cost of unpacking.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self.allow_memory(limits.memory(self.total));
        self
    }

    /// Sets the memory limit of the following data to `bytes`. The memory of earlier data does not
    /// count. A caller that drops each datum after use calls this function.
    pub const fn allow_memory(&mut self, bytes: usize) {
        self.most_memory = bytes;
        self.memory = bytes;
    }

    /// Sets the number of processes that all lists of the message may have together, including
    /// arrays in values. Without it, only the memory is limited.
    #[must_use]
    pub const fn with_max_procs(mut self, count: usize) -> Self {
        self.max_procs = count;
        self.procs_left = count;
        self
    }

    /// Sets the number of infos that all lists of the message may have together, including arrays
    /// in values. Without it, only the memory is limited.
    #[must_use]
    pub const fn with_max_infos(mut self, count: usize) -> Self {
        self.max_infos = count;
        self.infos_left = count;
        self
    }

    /// Sets the framer, which determines the length of encoded maps in string form. Without it,
    /// most of them cannot be unpacked.
    #[must_use]
    pub fn with_framer(mut self, framer: &'a dyn RegexFramer) -> Self {
        self.framer = Some(framer);
        self
    }

    /// Also unpacks types that the module does not have, as [`crate::Encoder::with_all_types`]
    /// packs them.
    #[must_use]
    pub const fn with_all_types(mut self) -> Self {
        self.types = self.types.union(self.layout.module.beyond());
        self
    }

    /// Records every field that is unpacked, for [`Self::trace`].
    #[must_use]
    pub fn with_trace(mut self) -> Self {
        self.notes = Some(Box::default());
        self
    }

    /// Returns the fields unpacked so far, or `None` without [`Self::with_trace`].
    #[must_use]
    pub fn trace(&self) -> Option<&FieldTrace> {
        self.notes.as_deref()
    }

    /// Returns the layout in which the bytes are packed.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the module that packed the bytes.
    #[must_use]
    pub const fn module(&self) -> Module {
        self.layout.module
    }

    /// Returns the number of unpacked bytes.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.total - self.rest.len()
    }

    /// Returns the remaining bytes.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns `true` if no bytes remain.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks that no bytes remain.
    ///
    /// # Errors
    ///
    /// Bytes remain. The message of the error has their number and offset.
    pub fn finish(&self) -> Result<(), Error> {
        match self.rest.len() {
            0 => Ok(()),
            left => {
                let message = format!("{left} bytes are left after the last datum");
                Err(Error::malformed(self.offset(), message))
            }
        }
    }

    /// Unpacks a call that has one datum.
    ///
    /// # Errors
    ///
    /// The bytes are invalid, or the call does not have exactly one datum.
    #[inline]
    pub fn one<K: WireType>(&mut self) -> Result<K::Item<'a>, Error> {
        self.one_head(K::TYPE)?;
        let run = K::start(self)?;
        K::decode(self, run)
    }

    /// Unpacks the bytes before the data of a call, which must have exactly one datum.
    #[inline]
    pub(crate) fn one_head(&mut self, data_type: DataType) -> Result<(), Error> {
        let start = self.offset();
        match self.head(data_type)? {
            1 => Ok(()),
            count => {
                let message = format!("expected one {data_type}, found {count}");
                Err(Error::malformed(start, message))
            }
        }
    }

    /// Starts to unpack a call and returns an iterator over its data. The iterator itself does not
    /// allocate.
    ///
    /// # Errors
    ///
    /// The bytes before the data are invalid.
    #[inline]
    pub fn call<K: WireType>(&mut self) -> Result<Call<'_, 'a, K>, Error> {
        let left = self.head(K::TYPE)?;
        let run = K::start(self)?;
        Ok(Call {
            decoder: self,
            run,
            left,
            index: 0,
            kind: PhantomData,
        })
    }

    /// Unpacks all data of a call.
    ///
    /// # Errors
    ///
    /// The bytes are invalid.
    pub fn all<K: WireType>(&mut self) -> Result<Vec<K::Item<'a>>, Error> {
        let count = self.head(K::TYPE)?;
        self.run::<K>(count)
    }

    /// Unpacks a call whose type is known only at run time.
    ///
    /// # Errors
    ///
    /// The bytes are invalid.
    pub fn array(&mut self, data_type: DataType) -> Result<DataArray<'a>, Error> {
        let count = self.head(data_type)?;
        wire_type::decode_elements(self, data_type, count)
    }

    /// Unpacks the data of one pack call from a described buffer, which also states their type.
    ///
    /// # Errors
    ///
    /// The bytes are invalid, or the buffer is not described.
    pub fn described(&mut self) -> Result<DataArray<'a>, Error> {
        let count = self.described_count()?;
        let start = self.offset();
        let data_type = self.type_code()?;
        let place = Place::Unpack;
        self.check(data_type, place, start)?;
        wire_type::decode_elements(self, data_type, count)
    }

    fn described_count(&mut self) -> Result<usize, Error> {
        let start = self.offset();
        if self.layout.buffer != BufferKind::Described {
            let message = "the type must be known: the buffer does not say it";
            return Err(Error::malformed(start, message));
        }
        let found = self.type_code()?;
        if found != DataType::INT32 {
            let message = format!("expected a count of PMIX_INT32, found {found}");
            return Err(Error::malformed(start, message));
        }
        self.count("count")
    }

    /// Checks that a type is allowed at this place.
    #[inline]
    pub(crate) fn check(
        &self,
        data_type: DataType,
        place: Place,
        start: usize,
    ) -> Result<(), Error> {
        match self.types.contains(data_type) {
            true => Ok(()),
            false => self.module().check(data_type, place, Some(start)),
        }
    }

    /// Unpacks the bytes before the data of a call, and returns the number of the data.
    #[inline]
    fn head(&mut self, data_type: DataType) -> Result<usize, Error> {
        let start = self.offset();
        let place = Place::Unpack;
        self.check(data_type, place, start)?;
        if self.layout.buffer == BufferKind::NonDescribed {
            return self.count("count");
        }
        let count = self.described_count()?;
        let start = self.offset();
        let expected = code::declared(self.module(), data_type);
        let found = self.type_code()?;
        if !self.is_code_of(found, expected) {
            return Err(Error::mismatch(start, expected, found));
        }
        Ok(count)
    }

    /// Creates the error for a type that the peer's module does not allow in a value.
    #[cold]
    pub(crate) fn not_in_a_value(&self, data_type: DataType, offset: usize) -> Error {
        Error::not_in_a_value(Some(offset), data_type)
    }

    /// Creates the error for a type that the module has but the data model does not.
    #[cold]
    pub(crate) fn unknown_type(&self, data_type: DataType) -> Error {
        let status = Status::ERR_UNKNOWN_DATA_TYPE;
        Error::unknown_type(status, Some(self.offset()), data_type, self.module())
    }

    /// Unpacks the datum with this index.
    #[inline(always)]
    fn element<K: WireType>(&mut self, run: Run, index: usize) -> Result<K::Item<'a>, Error> {
        if self.notes.is_some() {
            return self.inside(&format!("[{index}]"), |decoder| K::decode(decoder, run));
        }
        K::decode(self, run)
    }

    /// Unpacks a field of a structure.
    #[inline(always)]
    pub(crate) fn field<K: WireType>(&mut self, name: &str) -> Result<K::Item<'a>, Error> {
        if self.notes.is_some() {
            return self.inside(name, |decoder| {
                K::start(decoder).and_then(|run| K::decode(decoder, run))
            });
        }
        let run = K::start(self)?;
        K::decode(self, run)
    }

    /// Unpacks a field. If fields are recorded, those inside it have `part` in their path.
    #[cold]
    #[inline(never)]
    fn inside<T>(
        &mut self,
        part: &str,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let back = self.notes.as_mut().map(|notes| notes.enter(part));
        let item = read(self);
        if let (Some(notes), Some(back)) = (&mut self.notes, back) {
            notes.leave(back);
        }
        item
    }

    /// Records the field whose bytes begin at `start` and end here, if fields are recorded.
    #[inline]
    pub(crate) fn note(&mut self, start: usize, meaning: impl FnOnce() -> String) {
        if self.notes.is_some() {
            self.add_note(start, meaning);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_note(&mut self, start: usize, meaning: impl FnOnce() -> String) {
        let end = self.offset();
        if let Some(notes) = &mut self.notes {
            notes.add(start..end, meaning());
        }
    }

    /// Unpacks the elements of an array. Rejects arrays nested deeper than the limit.
    #[inline]
    pub(crate) fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.depth >= self.limits.depth {
            let depth = self.limits.depth;
            let message = format!("arrays are nested more than {depth} deep; raise the limit");
            return Err(Error::limit(self.offset(), message));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Checks that the remaining bytes can hold `count` data of at least `least` bytes, and counts
    /// `size` bytes of memory for each.
    #[inline]
    fn claim_items(&mut self, count: usize, least: usize, size: usize) -> Result<(), Error> {
        let needed = count.saturating_mul(least);
        if needed > self.rest.len() {
            let what = format!("a list of {count}");
            let needed = u64::try_from(needed).unwrap_or(u64::MAX);
            return Err(Error::past_end(
                self.offset(),
                needed,
                self.rest.len(),
                &what,
            ));
        }
        // Unpacking takes time even for data without memory, so each datum counts at least one
        // byte.
        self.claim(count.saturating_mul(size.max(1)))
    }

    /// Counts the processes of a list against the limit, before any of them is unpacked.
    fn claim_procs(&mut self, count: usize) -> Result<(), Error> {
        match self.procs_left.checked_sub(count) {
            Some(left) => {
                self.procs_left = left;
                Ok(())
            }
            None => {
                let (named, most) = (self.max_procs - self.procs_left, self.max_procs);
                let named = named.saturating_add(count);
                let message = format!(
                    "{named} processes are listed, more than {most}: name all processes of a job by \
                     PMIX_RANK_WILDCARD, or list fewer in each message"
                );
                Err(Error::limit(self.offset(), message))
            }
        }
    }

    /// Counts the infos of a list against the limit, before any of them is unpacked.
    fn claim_infos(&mut self, count: usize) -> Result<(), Error> {
        match self.infos_left.checked_sub(count) {
            Some(left) => {
                self.infos_left = left;
                Ok(())
            }
            None => {
                let (listed, most) = (self.max_infos - self.infos_left, self.max_infos);
                let listed = listed.saturating_add(count);
                let message = format!(
                    "{listed} infos are listed, more than {most}: list fewer in each message"
                );
                Err(Error::limit(self.offset(), message))
            }
        }
    }

    /// Returns the bytes of memory that data took, besides the message, since the limit was set.
    #[must_use]
    pub fn memory_taken(&self) -> usize {
        self.most_memory.saturating_sub(self.memory)
    }

    /// Counts memory against the limit.
    #[inline]
    pub(crate) fn claim(&mut self, bytes: usize) -> Result<(), Error> {
        match self.memory.checked_sub(bytes) {
            Some(left) => {
                self.memory = left;
                Ok(())
            }
            None => {
                let most = self.most_memory;
                let message =
                    format!("the message takes more than {most} bytes of memory; raise the limit");
                Err(Error::limit(self.offset(), message))
            }
        }
    }
}

/// An iterator over the data of one pack call.
pub struct Call<'d, 'a, K> {
    decoder: &'d mut Decoder<'a>,
    run: Run,
    left: usize,
    index: usize,
    kind: PhantomData<K>,
}

impl<'a, K: WireType> Iterator for Call<'_, 'a, K> {
    type Item = Result<K::Item<'a>, Error>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let item = self.decoder.element::<K>(self.run, self.index);
        self.index += 1;
        if item.is_err() {
            self.left = 0;
        }
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // The stated count may be wrong, so it is capped by what the remaining bytes can hold.
        let least = K::MIN_LEN.max(1);
        (0, Some(self.left.min(self.decoder.rest.len() / least)))
    }
}

impl<K> Call<'_, '_, K> {
    /// Returns the number of data not yet unpacked, by the count in the message.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.left
    }
}
