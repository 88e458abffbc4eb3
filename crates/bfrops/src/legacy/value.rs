// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values as the first releases write them.

use pmix_types::{DataArray, DataType, Value};

use crate::legacy::code::INFO_ARRAY;
use crate::legacy::number::low_u16;
use crate::refusal::Place;
use crate::{Decoder, Encoder, Error, Module, wire_type};

/// What a value is a part of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Of nothing, or of a key with a value.
    Alone,
    /// Of an info or a published datum.
    OfInfo,
}

/// Whether a value of v12 or v20 can have a type.
pub(crate) const fn holds(module: Module, data_type: DataType) -> bool {
    let number = data_type.as_raw();
    match module {
        Module::V12 => matches!(number, 1..=18 | 27 | 39 | 40),
        _ => matches!(number, 0..=20 | 22 | 27 | 30..=33 | 37..=40 | 42),
    }
}

/// The type that a value says it has, and the type that its datum says it has.
fn said(module: Module, value: &Value<'_>) -> (DataType, DataType) {
    match (module, value.data_type()) {
        (Module::V12, DataType::PROC_RANK) => (DataType::INT, DataType::INT),
        (Module::V12, DataType::DATA_ARRAY) => (INFO_ARRAY, INFO_ARRAY),
        (_, DataType::COMPRESSED_STRING) => (DataType::COMPRESSED_STRING, DataType::BYTE_OBJECT),
        (_, data_type) => (data_type, data_type),
    }
}

impl Encoder<'_> {
    /// What stands in front of the datum of a value in v12 and v20.
    #[inline(never)]
    pub(crate) fn old_value_head(&mut self, value: &Value<'_>, part: Part) -> Result<(), Error> {
        let module = self.module();
        module.check(value.data_type(), Place::PackValue, None)?;
        let (own, datum) = said(module, value);
        match (module, part) {
            (Module::V12, _) => self.field::<wire_type::Int>(&super::code::to_v12(own))?,
            (_, Part::OfInfo) => self.field::<wire_type::Int>(&own.as_raw().into())?,
            (_, Part::Alone) => self.type_code(own),
        }
        if value.data_type() != DataType::UNDEF {
            self.repeated_type_code(datum);
        }
        Ok(())
    }

    /// An array in a value of v12.
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
    /// What stands in front of the datum of a value in v12 and v20: its type.
    #[inline(never)]
    pub(crate) fn old_value_head(&mut self, part: Part) -> Result<DataType, Error> {
        let start = self.offset();
        let own = self.old_value_type(part)?;
        let data_type = match (self.module(), own) {
            (Module::V12, INFO_ARRAY) => DataType::DATA_ARRAY,
            // These are what we make of others, not what a peer can say.
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

    /// The type of a value, of which peers fill the low 16 bits only.
    fn old_value_type(&mut self, part: Part) -> Result<DataType, Error> {
        if self.module() == Module::V20 && part == Part::Alone {
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

    /// An array in a value of v12.
    pub(crate) fn info_array(&mut self) -> Result<DataArray<'a>, Error> {
        let count = self.size("count")?;
        self.nested(|decoder| decoder.run::<wire_type::Info>(count))
            .map(DataArray::Info)
    }
}
