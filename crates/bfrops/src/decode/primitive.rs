// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unpacking of bytes, numbers and lengths, for all wire types.

use pmix_types::{DataType, memory};

use super::Decoder;
use crate::wire_type::{self, Run};
use crate::{Error, Integers, WireType, flex};

impl<'a> Decoder<'a> {
    /// Takes the next `len` bytes. `what` names them in the error.
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

    /// Inlined because most numbers in a message take one byte (lengths, types, flags).
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

    /// Unpacks the code of a type.
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

    /// Unpacks a count of elements that is packed as `PMIX_INT32`.
    #[inline]
    pub(crate) fn count(&mut self, what: &str) -> Result<usize, Error> {
        let start = self.offset();
        let number = self.i32(what)?;
        self.note(start, || format!("{what} {number}"));
        usize::try_from(number)
            .map_err(|_| Error::malformed(start, format!("{what} {number} is negative")))
    }

    /// Unpacks a count of elements or bytes that is packed as `PMIX_SIZE`.
    #[inline]
    pub(crate) fn size(&mut self, what: &str) -> Result<usize, Error> {
        let start = self.offset();
        let number = self.field::<wire_type::Size>(what)?;
        usize::try_from(number).map_err(|_| self.too_large(start, number.into(), what, usize::BITS))
    }

    /// Unpacks the type code that precedes integers of a C type, such as `PMIX_INT32` for `int`.
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

    /// Unpacks an integer of a type that the message states, and extends it to 64 bits.
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

    /// Unpacks an encoded map in string form up to its NUL, for a reader without framer. Returns
    /// `None` if the next byte is not a letter and not punctuation, because such a byte is the
    /// count of a pack call.
    ///
    /// # Errors
    /// The text is only the tag of the map, which continues after the NUL. Only its scheme can
    /// determine the end.
    pub(crate) fn tagged_text(&mut self) -> Result<Option<&'a [u8]>, Error> {
        if self.framer.is_some() || !self.rest.first().is_some_and(u8::is_ascii_graphic) {
            return Ok(None);
        }
        let start = self.offset();
        let len = self.rest.iter().position(|byte| *byte == 0);
        let len = len.unwrap_or(self.rest.len());
        let text = self.take(len, "an encoded map")?;
        self.take(1, "the NUL of an encoded map")?;
        if text.ends_with(b":") {
            let message = "an encoded map whose length only its encoder knows";
            return Err(Error::malformed(start, message));
        }
        self.note(start, || format!("encoded map of {len} bytes"));
        Ok(Some(text))
    }

    /// Unpacks the bytes of an encoded map in string form, or returns `None` if no scheme
    /// recognizes it.
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

impl<'a> Decoder<'a> {
    /// Unpacks `count` consecutive data.
    pub(crate) fn run<K: WireType>(&mut self, count: usize) -> Result<Vec<K::Item<'a>>, Error> {
        let run = K::start(self)?;
        self.claim_items(count, K::MIN_LEN, size_of::<K::Item<'a>>())?;
        if matches!(K::TYPE, DataType::PROC | DataType::PROC_INFO) {
            self.claim_procs(count)?;
        }
        if matches!(K::TYPE, DataType::INFO) {
            self.claim_infos(count)?;
        }
        if self.notes.is_none() {
            return K::decode_run(self, run, count);
        }
        (0..count)
            .map(|index| self.element::<K>(run, index))
            .collect()
    }

    /// Unpacks consecutive data one by one.
    pub(crate) fn one_by_one<K: WireType>(
        &mut self,
        run: Run,
        count: usize,
    ) -> Result<Vec<K::Item<'a>>, Error> {
        let mut items = memory::list(count)?;
        for _ in 0..count {
            items.push(K::decode(self, run)?);
        }
        Ok(items)
    }

    /// Unpacks consecutive integers in groups of seven bits. After an error it unpacks them one by
    /// one, to locate the error.
    pub(crate) fn flex_run<K: WireType, T: flex::Flexible>(
        &mut self,
        count: usize,
        from: impl Fn(T) -> K::Item<'a>,
    ) -> Result<Vec<K::Item<'a>>, Error> {
        let mut items = memory::list(count)?;
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
}
