// SPDX-License-Identifier: MIT OR Apache-2.0
//! Strings, keys and nspaces.
//!
//! | field | content |
//! | --- | --- |
//! | length | the number of bytes including the NUL, as `PMIX_INT32`; 0 is a null pointer |
//! | bytes | the text and its NUL |
//!
//! Frozen: append only.
//!
//! Source: OpenPMIx, recorded in `testdata/bfrops`.

use pmix_types::{DataType, Text};

use crate::wire_type::Run;
use crate::wire_type::sealed::Sealed;
use crate::{Decoder, Encoder, Error, WireType};

/// `PMIX_STRING`: a length including the NUL, then the bytes.
#[derive(Clone, Copy, Debug)]
pub enum String {}

impl Sealed for String {}

impl WireType for String {
    const TYPE: DataType = DataType::STRING;
    const MIN_LEN: usize = 1;
    type Item<'a> = Option<Text<'a>>;

    #[inline]
    fn encode(encoder: &mut Encoder<'_>, item: &Option<Text<'_>>) -> Result<(), Error> {
        match item {
            Some(text) => encoder.text(text.as_bytes()),
            None => encoder.count(0),
        }
    }

    #[inline]
    fn decode<'a>(decoder: &mut Decoder<'a>, _: Run) -> Result<Option<Text<'a>>, Error> {
        decoder.text()
    }
}

/// A string in a structure that cannot be a null pointer.
pub(crate) enum Word {}

impl Sealed for Word {}

impl WireType for Word {
    const TYPE: DataType = DataType::STRING;
    const MIN_LEN: usize = 1;
    type Item<'a> = Text<'a>;

    #[inline]
    fn encode(encoder: &mut Encoder<'_>, item: &Text<'_>) -> Result<(), Error> {
        encoder.text(item.as_bytes())
    }

    #[inline]
    fn decode<'a>(decoder: &mut Decoder<'a>, _: Run) -> Result<Text<'a>, Error> {
        let start = decoder.offset();
        decoder
            .text()?
            .ok_or_else(|| Error::malformed(start, "expected a string, found a null pointer"))
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $kind:ident = $data_type:ident;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind {}

        impl Sealed for $kind {}

        impl WireType for $kind {
            const TYPE: DataType = DataType::$data_type;
            const MIN_LEN: usize = 1;
            type Item<'a> = pmix_types::$kind<'a>;

            #[inline]
            fn encode(encoder: &mut Encoder<'_>, item: &Self::Item<'_>) -> Result<(), Error> {
                let (len, most) = (item.as_bytes().len(), pmix_types::$kind::MAX_LEN);
                if len > most {
                    let name = stringify!($kind);
                    let message = format!("{name} of {len} bytes, more than {most}");
                    return Err(Error::unpackable(message));
                }
                encoder.text(item.as_bytes())
            }

            #[inline]
            fn decode<'a>(decoder: &mut Decoder<'a>, _: Run) -> Result<Self::Item<'a>, Error> {
                let start = decoder.offset();
                let text = decoder.text()?.unwrap_or_default();
                let (len, most) = (text.len(), pmix_types::$kind::MAX_LEN);
                if len > most {
                    let name = stringify!($kind);
                    let message = format!("{name} of {len} bytes, more than {most}");
                    return Err(Error::malformed(start, message));
                }
                Ok(pmix_types::$kind::new(text))
            }
        })*
    };
}

names! {
    /// `PMIX_PROC_NSPACE`: a string of at most 255 bytes.
    Nspace = PROC_NSPACE;
    /// A key: a string of at most 511 bytes. Keys have no type of their own.
    Key = STRING;
}

impl Encoder<'_> {
    /// Packs a string that is not a null pointer.
    #[inline]
    pub(crate) fn text(&mut self, text: &[u8]) -> Result<(), Error> {
        self.count(text.len().saturating_add(1))?;
        self.bytes(text);
        self.u8(0);
        Ok(())
    }
}

impl<'a> Decoder<'a> {
    /// Unpacks a string or a null pointer.
    #[inline]
    pub(crate) fn text(&mut self) -> Result<Option<Text<'a>>, Error> {
        let start = self.offset();
        let len = self.i32("string length")?;
        let len = usize::try_from(len)
            .map_err(|_| Error::malformed(start, format!("string length {len} is negative")))?;
        if len == 0 {
            self.note(start, || "null pointer".to_owned());
            return Ok(None);
        }
        let bytes = self.take(len, "a string")?;
        let Some((0, text)) = bytes.split_last() else {
            return Err(Error::malformed(
                start,
                "a string without the NUL at its end",
            ));
        };
        // A C string ends at its first NUL, even if the length field is greater.
        let text = match memchr::memchr(0, text) {
            Some(end) => text.get(..end).unwrap_or_default(),
            None => text,
        };
        let text = Text::without_nul(text);
        self.note(start, || format!("string {text:?}"));
        Ok(Some(text))
    }
}
