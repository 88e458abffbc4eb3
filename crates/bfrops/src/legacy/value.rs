// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values and fields of structures in the form of v12 and v20.

use pmix_types::{DataArray, DataType, Rank, Text, Value};

use super::code::low_u16;
use crate::legacy::code::INFO_ARRAY;
use crate::refusal::Place;
use crate::wire_type::sealed::Sealed;
use crate::wire_type::{self, Run, WireType};
use crate::{BufferKind, Decoder, Encoder, Error, Module};

/// The place of a value, on which its form in v12 and v20 depends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueContext {
    /// A value by itself, or in a kval.
    Alone,
    /// The value of an info or a published datum.
    OfInfo,
}

/// Returns `true` if a value of v12 or v20 can have this type.
pub(crate) const fn holds(module: Module, data_type: DataType) -> bool {
    let number = data_type.as_raw();
    match module {
        Module::V12 => matches!(number, 1..=18 | 27 | 39 | 40),
        _ => matches!(number, 0..=20 | 22 | 27 | 30..=33 | 37..=40 | 42),
    }
}

/// Returns the packed type of a value, and the packed type of its datum.
fn said(module: Module, value: &Value<'_>) -> (DataType, DataType) {
    match (module, value.data_type()) {
        (Module::V12, DataType::PROC_RANK) => (DataType::INT, DataType::INT),
        (Module::V12, DataType::DATA_ARRAY) => (INFO_ARRAY, INFO_ARRAY),
        (_, DataType::COMPRESSED_STRING) => (DataType::COMPRESSED_STRING, DataType::BYTE_OBJECT),
        (_, data_type) => (data_type, data_type),
    }
}

impl Encoder<'_> {
    /// Packs the bytes of a value before its datum, for v12 and v20.
    #[inline(never)]
    pub(crate) fn old_value_head(
        &mut self,
        value: &Value<'_>,
        context: ValueContext,
    ) -> Result<(), Error> {
        let module = self.module();
        module.check(value.data_type(), Place::PackValue, None)?;
        let (own, datum) = said(module, value);
        match (module, context) {
            (Module::V12, _) => self.field::<wire_type::Int>(&super::code::to_v12(own))?,
            (_, ValueContext::OfInfo) => self.field::<wire_type::Int>(&own.as_raw().into())?,
            (_, ValueContext::Alone) => self.type_code(own),
        }
        if value.data_type() != DataType::UNDEF {
            self.repeated_type_code(datum);
        }
        Ok(())
    }

    /// Packs an array of infos, the only array that a value of v12 can have.
    pub(crate) fn info_array(&mut self, array: &DataArray<'_>) -> Result<(), Error> {
        match array {
            DataArray::Info(infos) => {
                self.size(infos.len())?;
                self.nested(|encoder| encoder.run::<wire_type::Info>(infos))
            }
            other => Err(Error::only_infos(other.data_type())),
        }
    }
}

impl<'a> Decoder<'a> {
    /// Unpacks the bytes of a value before its datum, from v12 and v20. Returns the type.
    #[inline(never)]
    pub(crate) fn old_value_head(&mut self, context: ValueContext) -> Result<DataType, Error> {
        let start = self.offset();
        let own = self.old_value_type(context)?;
        let data_type = match (self.module(), own) {
            (Module::V12, INFO_ARRAY) => DataType::DATA_ARRAY,
            // v12 packs these types as others, so no peer sends them.
            (Module::V12, DataType::DATA_ARRAY | DataType::PROC_RANK) => INFO_ARRAY,
            (_, own) => own,
        };
        self.module()
            .check(data_type, Place::UnpackValue, Some(start))?;
        match own {
            DataType::UNDEF => {}
            DataType::COMPRESSED_STRING => self.repeated_type_code(DataType::BYTE_OBJECT)?,
            own => self.repeated_type_code(own)?,
        }
        Ok(data_type)
    }

    /// Unpacks the type of a value. Peers set only the low 16 bits of its 32 bits.
    fn old_value_type(&mut self, context: ValueContext) -> Result<DataType, Error> {
        if self.module() == Module::V20 && context == ValueContext::Alone {
            return self.type_code();
        }
        let start = self.offset();
        let bits = self.field::<wire_type::Int>("type")?;
        let number = low_u16(bits.cast_unsigned());
        if self.module() == Module::V20 {
            return Ok(DataType::from_raw(number));
        }
        super::code::from_v12(number.into()).ok_or_else(|| Error::unknown_code(start, bits))
    }

    /// Unpacks an array of infos, the only array that a value of v12 can have.
    pub(crate) fn info_array(&mut self) -> Result<DataArray<'a>, Error> {
        let count = self.size("count")?;
        self.nested(|decoder| decoder.run::<wire_type::Info>(count))
            .map(DataArray::Info)
    }
}

/// The rank of a process. v12 has other numbers for the special ranks: the highest signed ones.
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
    /// Packs the kind of a buffer before its size, except for v12 and v20, which omit it.
    pub(crate) fn buffer_kind(&mut self) {
        if self.module() > Module::V20 {
            self.u8(self.layout().buffer.as_raw());
        }
    }
}

impl Decoder<'_> {
    /// Unpacks the kind of a buffer before its size, except from v12 and v20, which omit it.
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
