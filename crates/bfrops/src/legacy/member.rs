// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields of structures that the first releases pack differently or not at all.

use pmix_types::{DataType, Rank, Text};

use crate::wire_type::sealed::Sealed;
use crate::wire_type::{self, Run, WireType};
use crate::{BufferKind, Decoder, Encoder, Error, Module};

/// The rank of a process. In v12 the special ranks are at the top of the signed numbers.
pub(crate) enum ProcRank {}

impl Sealed for ProcRank {}

impl WireType for ProcRank {
    const TYPE: DataType = DataType::PROC_RANK;
    const MIN_LEN: usize = 1;
    type Item<'a> = Rank;

    #[inline]
    fn begin(encoder: &mut Encoder<'_>) -> Result<(), Error> {
        wire_type::Rank::begin(encoder)
    }

    #[inline]
    fn encode(encoder: &mut Encoder<'_>, item: &Rank) -> Result<(), Error> {
        wire_type::Rank::encode(encoder, item)
    }

    #[inline]
    fn start(decoder: &mut Decoder<'_>) -> Result<Run, Error> {
        wire_type::Rank::start(decoder)
    }

    #[inline]
    fn decode(decoder: &mut Decoder<'_>, run: Run) -> Result<Rank, Error> {
        let rank = wire_type::Rank::decode(decoder, run)?;
        if decoder.module() > Module::V12 {
            return Ok(rank);
        }
        Ok(match rank.as_raw() {
            0x7fff_ffff => Rank::UNDEF,
            0x7fff_fffe => Rank::WILDCARD,
            _ => rank,
        })
    }
}

/// The working directory of an app, which v12 does not have.
pub(crate) enum Cwd {}

impl Sealed for Cwd {}

impl WireType for Cwd {
    const TYPE: DataType = DataType::STRING;
    const MIN_LEN: usize = 0;
    type Item<'a> = Option<Text<'a>>;

    fn encode(encoder: &mut Encoder<'_>, item: &Self::Item<'_>) -> Result<(), Error> {
        match encoder.module() {
            Module::V12 => Ok(()),
            _ => wire_type::String::encode(encoder, item),
        }
    }

    fn decode<'a>(decoder: &mut Decoder<'a>, run: Run) -> Result<Self::Item<'a>, Error> {
        match decoder.module() {
            Module::V12 => Ok(None),
            _ => wire_type::String::decode(decoder, run),
        }
    }
}

impl Encoder<'_> {
    /// Packs the kind of a buffer before its size, which v12 and v20 omit.
    pub(crate) fn buffer_kind(&mut self) {
        if self.module() > Module::V20 {
            self.u8(self.layout().buffer.as_raw());
        }
    }
}

impl Decoder<'_> {
    /// Unpacks the kind of a buffer before its size, which v12 and v20 omit.
    pub(crate) fn buffer_kind(&mut self) -> Result<(), Error> {
        if self.module() <= Module::V20 {
            return Ok(());
        }
        let start = self.offset();
        let kind = self.u8("the kind of a buffer")?;
        self.note(start, || match BufferKind::from_raw(kind) {
            Some(BufferKind::NonDescribed) => "not described".to_owned(),
            Some(BufferKind::Described) => "described".to_owned(),
            None => format!("kind {kind}"),
        });
        Ok(())
    }
}
