// SPDX-License-Identifier: MIT OR Apache-2.0
//! The encoder of pack calls.
//!
//! Source: PMIx Standard, chapter "Data Packing and Unpacking", `PMIx_Data_pack`; the bytes are
//! those that releases of OpenPMIx unpack, recorded in `testdata/bfrops`.

use std::borrow::Borrow;

use pmix_types::memory::{self, OutOfMemory};
use pmix_types::{DataArray, DataType, Status};

use crate::legacy::code;
use crate::module::Types;
use crate::refusal::Place;
use crate::{
    BufferKind, Error, Integers, Layout, Limits, Module, RegexFramer, WireType, flex, wire_type,
};

/// An encoder that appends data to a buffer in pack calls.
///
/// A failed call leaves the buffer unchanged.
pub struct Encoder<'o> {
    out: &'o mut Vec<u8>,
    layout: Layout,
    framer: Option<&'o dyn RegexFramer>,
    /// The types that are packed although the module does not have them, see
    /// [`Self::with_all_types`].
    beyond: Types,
    /// The number of arrays that contain the next datum.
    depth: u32,
    /// The failed allocation, if the process had no memory for bytes of the current call. `whole`
    /// then fails the call.
    shortage: Option<OutOfMemory>,
    /// `true` if any call has failed because the process had no memory.
    is_short: bool,
}

impl<'o> Encoder<'o> {
    /// Creates an encoder that appends to `out`.
    pub fn new(layout: Layout, out: &'o mut Vec<u8>) -> Self {
        Self {
            out,
            layout,
            framer: None,
            beyond: Types::NONE,
            depth: 0,
            shortage: None,
            is_short: false,
        }
    }

    /// Returns `true` if any call failed because the process had no memory. A caller that omits
    /// data after an error checks this: the data may be missing although the peer could unpack
    /// them.
    #[must_use]
    pub const fn is_short(&self) -> bool {
        self.is_short
    }

    /// Records that the process had no memory for bytes of the message, if `is_short`.
    pub(crate) const fn note_shortage(&mut self, is_short: bool) {
        self.is_short |= is_short;
    }

    /// Sets the framer, which determines the length of encoded maps in string form. Without it,
    /// they cannot be packed.
    #[must_use]
    pub fn with_framer(mut self, framer: &'o dyn RegexFramer) -> Self {
        self.framer = Some(framer);
        self
    }

    /// Also packs types that the module does not have, as the newest module packs them. The reader
    /// must use [`crate::Decoder::with_all_types`]. Has no effect for modules before v4.
    #[must_use]
    pub const fn with_all_types(mut self) -> Self {
        self.beyond = self.layout.module.beyond();
        self
    }

    /// Checks that a type is allowed at this place.
    #[inline]
    pub(crate) fn check(&self, data_type: DataType, place: Place) -> Result<(), Error> {
        match self.module().check(data_type, place, None) {
            Err(_) if self.beyond.contains(data_type) => Ok(()),
            checked => checked,
        }
    }

    /// Returns the layout in which the data are packed.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the module for which the data are packed.
    #[must_use]
    pub const fn module(&self) -> Module {
        self.layout.module
    }

    /// Packs one datum in its own call.
    ///
    /// # Errors
    ///
    /// As for all calls: the module does not have the type, or no peer could unpack the datum;
    /// `PMIX_ERR_BAD_PARAM` for arrays nested deeper than [`Limits::DEPTH`]; `PMIX_ERR_NOMEM` if
    /// the process has no memory for the bytes.
    #[inline]
    pub fn one<K: WireType>(&mut self, item: &K::Item<'_>) -> Result<(), Error> {
        self.whole(|encoder| {
            encoder.head(K::TYPE, 1)?;
            encoder.field::<K>(item)
        })
    }

    /// Packs data in one call.
    ///
    /// # Errors
    ///
    /// The module does not have the type, or no peer could unpack one of the data.
    #[inline]
    pub fn call<K: WireType>(&mut self, items: &[K::Item<'_>]) -> Result<(), Error> {
        self.whole(|encoder| {
            encoder.head(K::TYPE, items.len())?;
            encoder.run::<K>(items)
        })
    }

    /// Packs data that the caller shares or borrows in one call, with the bytes of [`call`](Self::call).
    ///
    /// # Errors
    ///
    /// The module does not have the type, or no peer could unpack one of the data.
    pub fn call_shared<'i, K: WireType>(
        &mut self,
        items: &[impl Borrow<K::Item<'i>>],
    ) -> Result<(), Error> {
        self.whole(|encoder| {
            encoder.head(K::TYPE, items.len())?;
            K::begin(encoder)?;
            let mut items = items.iter();
            items.try_for_each(|item| K::encode(encoder, item.borrow()))
        })
    }

    /// Packs the start of a call with one `PMIX_BYTE_OBJECT`: all but its `len` bytes, which the
    /// caller appends.
    ///
    /// # Errors
    ///
    /// The process has no memory for the bytes.
    pub fn byte_object_head(&mut self, len: usize) -> Result<(), Error> {
        self.whole(|encoder| {
            encoder.head(DataType::BYTE_OBJECT, 1)?;
            encoder.size(len)
        })
    }

    /// Packs the elements of an array in one call.
    ///
    /// # Errors
    ///
    /// The module does not have the type, or no peer could unpack one of the data.
    pub fn array(&mut self, array: &DataArray<'_>) -> Result<(), Error> {
        self.whole(|encoder| {
            encoder.head(array.data_type(), array.len())?;
            wire_type::encode_elements(encoder, array)
        })
    }

    /// Packs a field of a structure.
    #[inline]
    pub(crate) fn field<K: WireType>(&mut self, item: &K::Item<'_>) -> Result<(), Error> {
        K::begin(self)?;
        K::encode(self, item)
    }

    /// Packs consecutive data.
    #[inline]
    pub(crate) fn run<K: WireType>(&mut self, items: &[K::Item<'_>]) -> Result<(), Error> {
        K::begin(self)?;
        K::encode_run(self, items)
    }

    /// Packs the elements of an array. Rejects arrays nested deeper than [`Limits::DEPTH`].
    #[inline]
    pub(crate) fn nested(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.depth >= Limits::DEPTH {
            return Err(Error::too_deep());
        }
        self.depth += 1;
        let result = write(self);
        self.depth -= 1;
        result
    }

    /// Runs `call`, and removes its bytes from the buffer if it fails.
    #[inline]
    pub(crate) fn whole(
        &mut self,
        call: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let start = self.out.len();
        let mut result = call(self);
        if self.shortage.is_some() {
            result = self.take_shortage();
        }
        if let Err(error) = &result {
            self.is_short |= error.status() == Status::ERR_NOMEM;
            self.out.truncate(start);
        }
        result
    }

    #[cold]
    fn take_shortage(&mut self) -> Result<(), Error> {
        self.shortage
            .take()
            .map_or(Ok(()), |error| Err(error.into()))
    }

    /// Reserves memory for `len` bytes. Returns `false` if the process has none;
    /// [`whole`](Self::whole) reports that, so the methods for numbers return no result.
    #[inline(always)]
    fn has_room(&mut self, len: usize) -> bool {
        self.out.capacity() - self.out.len() >= len || self.grow(len)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, len: usize) -> bool {
        let grown = memory::reserve(self.out, len);
        if let Err(error) = grown {
            self.shortage.get_or_insert(error);
        }
        grown.is_ok()
    }

    /// Packs the count of a call, and its type in a described buffer.
    #[inline]
    pub(crate) fn head(&mut self, data_type: DataType, count: usize) -> Result<(), Error> {
        self.check(data_type, Place::Pack)?;
        let count = i32::try_from(count)
            .map_err(|_| Error::unpackable(format!("{count} data are too many for one call")))?;
        let described = self.layout.buffer == BufferKind::Described;
        if described {
            self.type_code(DataType::INT32);
        }
        self.i32(count);
        if described {
            self.type_code(code::declared(self.module(), data_type));
        }
        Ok(())
    }

    /// Packs the code of a type.
    #[inline]
    pub(crate) fn type_code(&mut self, data_type: DataType) {
        match self.layout.integers {
            Integers::Flex => self.flex(data_type.as_raw().into()),
            Integers::Fixed => self.fixed_type_code(data_type),
        }
    }

    /// Packs the type code that precedes integers of a C type, such as `PMIX_INT32` for `int`.
    #[inline]
    pub(crate) fn real_type(&mut self, data_type: DataType) {
        self.type_code(data_type);
        self.repeated_type_code(data_type);
    }

    #[inline]
    pub(crate) fn u8(&mut self, number: u8) {
        if self.has_room(1) {
            self.out.push(number);
        }
    }

    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        if self.has_room(bytes.len()) {
            self.out.extend_from_slice(bytes);
        }
    }

    #[inline]
    pub(crate) fn u16(&mut self, number: u16) {
        match self.layout.integers {
            Integers::Flex => self.flex(number.into()),
            Integers::Fixed => self.bytes(&number.to_be_bytes()),
        }
    }

    #[inline]
    pub(crate) fn u32(&mut self, number: u32) {
        match self.layout.integers {
            Integers::Flex => self.flex(number.into()),
            Integers::Fixed => self.bytes(&number.to_be_bytes()),
        }
    }

    #[inline]
    pub(crate) fn u64(&mut self, number: u64) {
        match self.layout.integers {
            Integers::Flex => self.flex(number),
            Integers::Fixed => self.bytes(&number.to_be_bytes()),
        }
    }

    #[inline]
    pub(crate) fn i16(&mut self, number: i16) {
        match self.layout.integers {
            Integers::Flex => self.flex(flex::fold(number.into())),
            Integers::Fixed => self.bytes(&number.to_be_bytes()),
        }
    }

    #[inline]
    pub(crate) fn i32(&mut self, number: i32) {
        match self.layout.integers {
            Integers::Flex => self.flex(flex::fold(number.into())),
            Integers::Fixed => self.bytes(&number.to_be_bytes()),
        }
    }

    #[inline]
    pub(crate) fn i64(&mut self, number: i64) {
        match self.layout.integers {
            Integers::Flex => self.flex(flex::fold(number)),
            Integers::Fixed => self.bytes(&number.to_be_bytes()),
        }
    }

    /// Packs the number of elements of a list as `PMIX_INT32`.
    #[inline]
    pub(crate) fn count(&mut self, count: usize) -> Result<(), Error> {
        let count = i32::try_from(count)
            .map_err(|_| Error::unpackable(format!("{count} elements are too many for a list")))?;
        self.i32(count);
        Ok(())
    }

    /// Packs the number of elements or bytes as `PMIX_SIZE`.
    #[inline]
    pub(crate) fn size(&mut self, size: usize) -> Result<(), Error> {
        self.field::<wire_type::Size>(&u64::try_from(size).unwrap_or(u64::MAX))
    }

    /// Appends an encoded map in string form. Returns `false` if no scheme recognizes it.
    pub(crate) fn framed(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        let Some(framer) = self.framer else {
            return Ok(false);
        };
        let start = self.out.len();
        memory::reserve(self.out, bytes.len() + 1)?;
        self.out.extend_from_slice(bytes);
        self.out.push(0);
        let value = self.out.get(start..).unwrap_or_default();
        let extent = framer.regex_extent(value).map_err(Error::unpackable)?;
        let Some(extent) = extent else {
            self.out.truncate(start);
            return Ok(false);
        };
        if extent.len != bytes.len() {
            let (len, given) = (extent.len, bytes.len());
            let message = format!("an encoded map of {len} bytes was given as {given}");
            return Err(Error::unpackable(message));
        }
        self.out
            .truncate(start + extent.len + usize::from(extent.terminated));
        Ok(true)
    }

    /// Packs consecutive bytes.
    pub(crate) fn byte_run(&mut self, bytes: impl ExactSizeIterator<Item = u8>) {
        if self.has_room(bytes.len()) {
            self.out.extend(bytes);
        }
    }

    /// Packs consecutive integers in groups of seven bits.
    pub(crate) fn flex_run<T: flex::Flexible>(
        &mut self,
        numbers: impl ExactSizeIterator<Item = T>,
    ) {
        flex::encode_run(numbers.map(T::to_flex), |bytes| self.bytes(bytes));
    }

    /// Inlined because most numbers in a message take one byte (lengths, types, flags).
    #[inline]
    fn flex(&mut self, number: u64) {
        match u8::try_from(number) {
            Ok(byte) if byte < 0x80 => self.u8(byte),
            _ => self.long_flex(number),
        }
    }

    /// Appends eight bytes and truncates, which is faster than a copy of variable length.
    fn long_flex(&mut self, number: u64) {
        let (low, top, len) = flex::encode(number);
        if !self.has_room(flex::MAX_LEN) {
            return;
        }
        let start = self.out.len();
        self.out.extend_from_slice(&low);
        if len == flex::MAX_LEN {
            self.out.push(top);
        } else {
            self.out.truncate(start + len);
        }
    }
}
