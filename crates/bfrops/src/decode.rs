// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes pack calls off bytes.

use std::marker::PhantomData;

use pmix_types::{DataArray, DataType, Status};

use crate::kind::Run;
use crate::legacy::code;
use crate::refusal::Place;
use crate::{
    BufferKind, Error, Integers, Kind, Layout, Limits, Module, Notes, RegexFramer, flex, kind,
};

/// Takes pack calls off bytes.
///
/// After an error the position is unspecified: what a message holds beyond a fault cannot be
/// read, and the next message is not touched by it.
pub struct Decoder<'a> {
    rest: &'a [u8],
    total: usize,
    layout: Layout,
    limits: Limits,
    /// The memory that may still be taken.
    memory: usize,
    depth: u32,
    framer: Option<&'a dyn RegexFramer>,
    notes: Option<Box<Notes>>,
}

impl<'a> Decoder<'a> {
    /// A decoder of these bytes with default limits.
    #[must_use]
    pub fn new(layout: Layout, bytes: &'a [u8]) -> Self {
        let limits = Limits::default();
        Self {
            rest: bytes,
            total: bytes.len(),
            layout,
            limits,
            memory: limits.memory(bytes.len()),
            depth: 0,
            framer: None,
            notes: None,
        }
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self.memory = limits.memory(self.total);
        self
    }

    /// The same with someone who knows the length of old encoded maps.
    #[must_use]
    pub fn with_framer(mut self, framer: &'a dyn RegexFramer) -> Self {
        self.framer = Some(framer);
        self
    }

    /// The same, and every field is noted.
    #[must_use]
    pub fn with_notes(mut self) -> Self {
        self.notes = Some(Box::default());
        self
    }

    /// The fields seen so far, if they are noted.
    #[must_use]
    pub fn notes(&self) -> Option<&Notes> {
        self.notes.as_deref()
    }

    /// How the bytes are packed.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// The module that packed the bytes.
    #[must_use]
    pub const fn module(&self) -> Module {
        self.layout.module
    }

    /// How many bytes were read.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.total - self.rest.len()
    }

    /// The bytes that are left.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether no bytes are left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Says that nothing is to follow.
    ///
    /// # Errors
    ///
    /// If bytes are left: how many, and where they start.
    pub fn finish(&self) -> Result<(), Error> {
        match self.rest.len() {
            0 => Ok(()),
            left => {
                let message = format!("{left} bytes are left behind the last datum");
                Err(Error::malformed(self.offset(), message))
            }
        }
    }

    /// Unpacks a call of one datum.
    ///
    /// # Errors
    ///
    /// What the bytes have wrong and where, or that the call has more or fewer data than one.
    #[inline]
    pub fn one<K: Kind>(&mut self) -> Result<K::Item<'a>, Error> {
        let start = self.offset();
        match self.head(K::TYPE)? {
            1 => {
                let run = K::start(self)?;
                K::decode(self, run)
            }
            count => {
                let message = format!("expected one {}, found {count}", K::TYPE);
                Err(Error::malformed(start, message))
            }
        }
    }

    /// Starts to unpack a call: an iterator over its data, which takes nothing from the heap
    /// itself.
    ///
    /// # Errors
    ///
    /// What the bytes in front of the data have wrong and where.
    #[inline]
    pub fn call<K: Kind>(&mut self) -> Result<Call<'_, 'a, K>, Error> {
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

    /// Unpacks a call of any number of data.
    ///
    /// # Errors
    ///
    /// What the bytes have wrong and where.
    pub fn all<K: Kind>(&mut self) -> Result<Vec<K::Item<'a>>, Error> {
        let count = self.head(K::TYPE)?;
        self.run::<K>(count)
    }

    /// Unpacks a call whose type is known only now.
    ///
    /// # Errors
    ///
    /// What the bytes have wrong and where.
    pub fn array(&mut self, data_type: DataType) -> Result<DataArray<'a>, Error> {
        let count = self.head(data_type)?;
        kind::decode_elements(self, data_type, count)
    }

    /// Unpacks a call of a described buffer, whatever type it says it has.
    ///
    /// # Errors
    ///
    /// What the bytes have wrong and where, or that the buffer is not described.
    pub fn described(&mut self) -> Result<DataArray<'a>, Error> {
        let count = self.described_count()?;
        let start = self.offset();
        let data_type = self.type_code()?;
        let place = Place::Unpack;
        self.module().check(data_type, place, Some(start))?;
        kind::decode_elements(self, data_type, count)
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

    /// What stands before the data of a call: how many there are.
    #[inline]
    fn head(&mut self, data_type: DataType) -> Result<usize, Error> {
        let start = self.offset();
        let place = Place::Unpack;
        self.module().check(data_type, place, Some(start))?;
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

    /// A type that no value of a peer can have.
    #[cold]
    pub(crate) fn not_in_a_value(&self, data_type: DataType, offset: usize) -> Error {
        Error::not_in_a_value(Some(offset), data_type)
    }

    /// A type that the module has and the data model does not.
    #[cold]
    pub(crate) fn unknown_type(&self, data_type: DataType) -> Error {
        let status = Status::ERR_UNKNOWN_DATA_TYPE;
        Error::unknown_type(status, Some(self.offset()), data_type, self.module())
    }

    /// A run of data, one behind the other.
    pub(crate) fn run<K: Kind>(&mut self, count: usize) -> Result<Vec<K::Item<'a>>, Error> {
        let run = K::start(self)?;
        self.claim_items(count, K::MIN_LEN, size_of::<K::Item<'a>>())?;
        if self.notes.is_none() {
            return K::decode_run(self, run, count);
        }
        (0..count)
            .map(|index| self.element::<K>(run, index))
            .collect()
    }

    /// A run of data, one after the other.
    pub(crate) fn one_by_one<K: Kind>(
        &mut self,
        run: Run,
        count: usize,
    ) -> Result<Vec<K::Item<'a>>, Error> {
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(K::decode(self, run)?);
        }
        Ok(items)
    }

    /// A run of integers in groups of seven bits; where it has a fault, one by one.
    pub(crate) fn flex_run<K: Kind, T: flex::Flexible>(
        &mut self,
        count: usize,
        from: impl Fn(T) -> K::Item<'a>,
    ) -> Result<Vec<K::Item<'a>>, Error> {
        let mut items = Vec::with_capacity(count);
        let mut run = flex::Run::new(self.rest);
        let mut block = [T::default(); 64];
        while items.len() < count {
            let wanted = block.len().min(count - items.len());
            let filled = run.fill(&mut block[..wanted]);
            items.extend(block[..filled].iter().map(|number| from(*number)));
            if filled < wanted {
                break;
            }
        }
        self.rest = run.rest();
        for _ in items.len()..count {
            items.push(K::decode(self, Run::default())?);
        }
        Ok(items)
    }

    /// One of several data.
    #[inline]
    fn element<K: Kind>(&mut self, run: Run, index: usize) -> Result<K::Item<'a>, Error> {
        if self.notes.is_some() {
            return self.inside(&format!("[{index}]"), |decoder| K::decode(decoder, run));
        }
        K::decode(self, run)
    }

    /// A run of one datum: a part of a structure.
    #[inline]
    pub(crate) fn field<K: Kind>(&mut self, name: &str) -> Result<K::Item<'a>, Error> {
        if self.notes.is_some() {
            return self.inside(name, |decoder| {
                K::start(decoder).and_then(|run| K::decode(decoder, run))
            });
        }
        let run = K::start(self)?;
        K::decode(self, run)
    }

    /// Reads a part whose fields are noted under its name.
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

    /// Notes what was read since `start`.
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

    /// Goes one level down and comes back.
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

    /// Checks that so many data can be in the bytes that are left, and takes memory for them.
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
        // What takes no memory takes time.
        self.claim(count.saturating_mul(size.max(1)))
    }

    /// Takes memory.
    #[inline]
    pub(crate) fn claim(&mut self, bytes: usize) -> Result<(), Error> {
        match self.memory.checked_sub(bytes) {
            Some(left) => {
                self.memory = left;
                Ok(())
            }
            None => {
                let most = self.limits.memory(self.total);
                let message =
                    format!("the message takes more than {most} bytes of memory; raise the limit");
                Err(Error::limit(self.offset(), message))
            }
        }
    }

    /// Takes bytes.
    #[inline]
    pub(crate) fn take(&mut self, len: usize, what: &str) -> Result<&'a [u8], Error> {
        match self.rest.split_at_checked(len) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => {
                let needed = u64::try_from(len).unwrap_or(u64::MAX);
                Err(Error::past_end(
                    self.offset(),
                    needed,
                    self.rest.len(),
                    what,
                ))
            }
        }
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Error> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(self.short(N, what)),
        }
    }

    #[cold]
    fn short(&self, needed: usize, what: &str) -> Error {
        let needed = u64::try_from(needed).unwrap_or(u64::MAX);
        Error::past_end(self.offset(), needed, self.rest.len(), what)
    }

    #[inline]
    pub(crate) fn u8(&mut self, what: &str) -> Result<u8, Error> {
        self.fixed::<1>(what).map(|[byte]| byte)
    }

    /// Most numbers of a message are small: a length, a type, a flag.
    #[inline]
    fn flex(&mut self, what: &str) -> Result<u64, Error> {
        match self.rest.split_first() {
            Some((byte, rest)) if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_flex(what),
        }
    }

    fn long_flex(&mut self, what: &str) -> Result<u64, Error> {
        match flex::decode(self.rest) {
            Some((number, len)) => {
                self.rest = self.rest.get(len..).unwrap_or_default();
                Ok(number)
            }
            None => Err(self.short(self.rest.len() + 1, what)),
        }
    }

    #[cold]
    fn too_large(&self, start: usize, number: i128, what: &str, bits: u32) -> Error {
        Error::malformed(start, format!("{what} {number} does not fit {bits} bits"))
    }

    #[inline]
    pub(crate) fn u16(&mut self, what: &str) -> Result<u16, Error> {
        if self.layout.integers == Integers::Fixed {
            return self.fixed(what).map(u16::from_be_bytes);
        }
        let start = self.offset();
        let number = self.flex(what)?;
        u16::try_from(number).map_err(|_| self.too_large(start, number.into(), what, 16))
    }

    #[inline]
    pub(crate) fn u32(&mut self, what: &str) -> Result<u32, Error> {
        if self.layout.integers == Integers::Fixed {
            return self.fixed(what).map(u32::from_be_bytes);
        }
        let start = self.offset();
        let number = self.flex(what)?;
        u32::try_from(number).map_err(|_| self.too_large(start, number.into(), what, 32))
    }

    #[inline]
    pub(crate) fn u64(&mut self, what: &str) -> Result<u64, Error> {
        if self.layout.integers == Integers::Fixed {
            return self.fixed(what).map(u64::from_be_bytes);
        }
        self.flex(what)
    }

    #[inline]
    pub(crate) fn i16(&mut self, what: &str) -> Result<i16, Error> {
        if self.layout.integers == Integers::Fixed {
            return self.fixed(what).map(i16::from_be_bytes);
        }
        let start = self.offset();
        let number = flex::unfold(self.flex(what)?);
        i16::try_from(number).map_err(|_| self.too_large(start, number.into(), what, 16))
    }

    #[inline]
    pub(crate) fn i32(&mut self, what: &str) -> Result<i32, Error> {
        if self.layout.integers == Integers::Fixed {
            return self.fixed(what).map(i32::from_be_bytes);
        }
        let start = self.offset();
        let number = flex::unfold(self.flex(what)?);
        i32::try_from(number).map_err(|_| self.too_large(start, number.into(), what, 32))
    }

    #[inline]
    pub(crate) fn i64(&mut self, what: &str) -> Result<i64, Error> {
        if self.layout.integers == Integers::Fixed {
            return self.fixed(what).map(i64::from_be_bytes);
        }
        self.flex(what).map(flex::unfold)
    }

    /// The code of a type.
    #[inline]
    pub(crate) fn type_code(&mut self) -> Result<DataType, Error> {
        let start = self.offset();
        let data_type = match self.layout.integers {
            Integers::Flex => DataType::from_raw(self.u16("type code")?),
            Integers::Fixed => self.fixed_type_code()?,
        };
        self.note(start, || format!("type {data_type}"));
        Ok(data_type)
    }

    /// How many elements follow, as a number of 32 bits.
    #[inline]
    pub(crate) fn count(&mut self, what: &str) -> Result<usize, Error> {
        let start = self.offset();
        let number = self.i32(what)?;
        self.note(start, || format!("{what} {number}"));
        usize::try_from(number)
            .map_err(|_| Error::malformed(start, format!("{what} {number} is negative")))
    }

    /// How many elements or bytes follow, as a size.
    #[inline]
    pub(crate) fn size(&mut self, what: &str) -> Result<usize, Error> {
        let start = self.offset();
        let number = self.field::<kind::Size>(what)?;
        usize::try_from(number).map_err(|_| self.too_large(start, number.into(), what, usize::BITS))
    }

    /// The code of the type that integers of a C type really have.
    #[inline]
    pub(crate) fn real_type(&mut self) -> Result<DataType, Error> {
        let start = self.offset();
        let data_type = self.type_code()?;
        match data_type {
            DataType::UINT8 | DataType::UINT16 | DataType::UINT32 | DataType::UINT64 => {}
            DataType::INT8 | DataType::INT16 | DataType::INT32 | DataType::INT64 => {}
            other => return Err(Error::no_integer(start, other)),
        }
        self.repeated_type_code(data_type)?;
        Ok(data_type)
    }

    /// An integer of the type that a run says it has, as the bits of 64.
    pub(crate) fn integer(&mut self, data_type: DataType, what: &str) -> Result<u64, Error> {
        let start = self.offset();
        Ok(match data_type {
            DataType::UINT8 => self.u8(what)?.into(),
            DataType::UINT16 => self.u16(what)?.into(),
            DataType::UINT32 => self.u32(what)?.into(),
            DataType::UINT64 => self.u64(what)?,
            DataType::INT8 => i64::from(self.u8(what)?.cast_signed()).cast_unsigned(),
            DataType::INT16 => i64::from(self.i16(what)?).cast_unsigned(),
            DataType::INT32 => i64::from(self.i32(what)?).cast_unsigned(),
            DataType::INT64 => self.i64(what)?.cast_unsigned(),
            other => return Err(Error::no_integer(start, other)),
        })
    }

    /// The bytes of an old encoded map at the front, if an encoder owns them.
    pub(crate) fn framed(&mut self) -> Result<Option<&'a [u8]>, Error> {
        let Some(framer) = self.framer else {
            return Ok(None);
        };
        let start = self.offset();
        let extent = framer.regex_extent(self.rest);
        let Some(extent) = extent.map_err(|message| Error::malformed(start, message))? else {
            return Ok(None);
        };
        let bytes = self.take(extent.len, "an encoded map")?;
        if extent.terminated {
            self.take(1, "the NUL of an encoded map")?;
        }
        self.note(start, || format!("encoded map of {} bytes", extent.len));
        Ok(Some(bytes))
    }
}

/// The data of one pack call.
pub struct Call<'d, 'a, K> {
    decoder: &'d mut Decoder<'a>,
    run: Run,
    left: usize,
    index: usize,
    kind: PhantomData<K>,
}

impl<'a, K: Kind> Iterator for Call<'_, 'a, K> {
    type Item = Result<K::Item<'a>, Error>;

    #[inline]
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
        // What is said is not believed: a count that the bytes do not hold reserves nothing.
        let least = K::MIN_LEN.max(1);
        (0, Some(self.left.min(self.decoder.rest.len() / least)))
    }
}

impl<K> Call<'_, '_, K> {
    /// How many data are left, as the message says.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.left
    }
}
