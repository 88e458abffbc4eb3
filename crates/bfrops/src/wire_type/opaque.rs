// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opaque bytes: byte objects, buffers, encoded maps, pointers.
//!
//! `PMIX_BYTE_OBJECT` and similar types, frozen: append only.
//!
//! | field | content |
//! | --- | --- |
//! | size | the number of bytes, as `PMIX_SIZE` |
//! | bytes | the bytes |
//!
//! `PMIX_REGEX2`, frozen: append only (OpenPMIx `regex.rst`, "Wire Format").
//!
//! | field | content | since |
//! | --- | --- | --- |
//! | type | the encoding tag as a string, a null pointer if missing | v61 |
//! | len | the number of bytes, as `PMIX_SIZE` | v61 |
//! | bytes | the bytes; not text, no NUL is added | v61 |
//!
//! `PMIX_REGEX` has no length. The scheme of the map determines its bytes, which include a NUL if
//! the map is text. If no scheme recognizes the value, it is a pack call of one string, with its
//! count. A reader without schemes treats bytes that begin with a letter or punctuation as text,
//! because a count does not.

use std::borrow::Cow;

use pmix_types::{Bytes, DataType, RegexBytes};

use crate::wire_type::Run;
use crate::wire_type::sealed::Sealed;
use crate::wire_type::structure::structure;
use crate::{Decoder, Encoder, Error, Module, WireType, wire_type};

macro_rules! objects {
    ($($(#[$doc:meta])* $kind:ident = $data_type:ident;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind {}

        impl Sealed for $kind {}

        impl WireType for $kind {
            const TYPE: DataType = DataType::$data_type;
            const MIN_LEN: usize = 1;
            type Item<'a> = Bytes<'a>;

            #[inline]
            fn encode(encoder: &mut Encoder<'_>, item: &Bytes<'_>) -> Result<(), Error> {
                encoder.size(item.len())?;
                encoder.bytes(item);
                Ok(())
            }

            #[inline]
            fn decode<'a>(decoder: &mut Decoder<'a>, _: Run) -> Result<Bytes<'a>, Error> {
                let len = decoder.size("size")?;
                let start = decoder.offset();
                let bytes = decoder.take(len, "a byte object")?;
                decoder.note(start, || format!("{len} bytes"));
                Ok(Cow::Borrowed(bytes))
            }
        })*
    };
}

objects! {
    /// `PMIX_BYTE_OBJECT`.
    ByteObject = BYTE_OBJECT;
    /// `PMIX_COMPRESSED_STRING`.
    CompressedString = COMPRESSED_STRING;
    /// `PMIX_COMPRESSED_BYTE_OBJECT`.
    CompressedByteObject = COMPRESSED_BYTE_OBJECT;
    /// `PMIX_DATA_BUFFER`.
    DataBuffer = DATA_BUFFER;
}

/// `PMIX_BUFFER`: the kind of buffer as one byte, then the bytes as a byte object.
///
/// The data model does not store the kind: a packed buffer has the buffer kind of the message that contains it.
#[derive(Clone, Copy, Debug)]
pub enum Buffer {}

impl Sealed for Buffer {}

impl WireType for Buffer {
    const TYPE: DataType = DataType::BUFFER;
    const MIN_LEN: usize = 1;
    type Item<'a> = Bytes<'a>;

    fn encode(encoder: &mut Encoder<'_>, item: &Bytes<'_>) -> Result<(), Error> {
        encoder.buffer_kind();
        ByteObject::encode(encoder, item)
    }

    fn decode<'a>(decoder: &mut Decoder<'a>, run: Run) -> Result<Bytes<'a>, Error> {
        decoder.buffer_kind()?;
        ByteObject::decode(decoder, run)
    }
}

/// `PMIX_POINTER`: one byte with the number 1 for all consecutive pointers, as pointers are
/// meaningless in another process.
#[derive(Clone, Copy, Debug)]
pub enum Pointer {}

impl Sealed for Pointer {}

impl WireType for Pointer {
    const TYPE: DataType = DataType::POINTER;
    const MIN_LEN: usize = 0;
    type Item<'a> = ();

    fn begin(encoder: &mut Encoder<'_>) -> Result<(), Error> {
        if encoder.module() > Module::V12 {
            encoder.u8(1);
        }
        Ok(())
    }

    fn encode(_: &mut Encoder<'_>, (): &()) -> Result<(), Error> {
        Ok(())
    }

    fn start(decoder: &mut Decoder<'_>) -> Result<Run, Error> {
        let start = decoder.offset();
        decoder.u8("a pointer")?;
        decoder.note(start, || "pointers, which are not sent".to_owned());
        Ok(Run::default())
    }

    fn decode(_: &mut Decoder<'_>, _: Run) -> Result<(), Error> {
        Ok(())
    }
}

structure! {
    /// `PMIX_REGEX2`.
    Regex2: WireRegex2<'a> = REGEX2 { kind: wire_type::String, bytes: ByteObject, }
}

/// `PMIX_REGEX`: an encoded map in string form, without a length.
#[derive(Clone, Copy, Debug)]
pub enum Regex {}

impl Sealed for Regex {}

impl WireType for Regex {
    const TYPE: DataType = DataType::REGEX;
    const MIN_LEN: usize = 1;
    type Item<'a> = RegexBytes<'a>;

    fn encode(encoder: &mut Encoder<'_>, item: &RegexBytes<'_>) -> Result<(), Error> {
        if encoder.framed(&item.0)? {
            return Ok(());
        }
        if item.0.contains(&0) {
            let message = "an encoded map with a NUL inside that no active encoder owns";
            return Err(Error::unpackable(message));
        }
        encoder.head(DataType::STRING, 1)?;
        encoder.text(&item.0)
    }

    fn decode<'a>(decoder: &mut Decoder<'a>, _: Run) -> Result<RegexBytes<'a>, Error> {
        if let Some(bytes) = decoder.framed()? {
            return Ok(RegexBytes(Cow::Borrowed(bytes)));
        }
        if let Some(text) = decoder.tagged_text()? {
            return Ok(RegexBytes(Cow::Borrowed(text)));
        }
        let text = decoder.one::<wire_type::String>()?.unwrap_or_default();
        Ok(RegexBytes(text.into_bytes()))
    }
}
