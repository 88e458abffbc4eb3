// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that had another form in the first releases.

use pmix_types::DataType;

use crate::wire_type::Run;
use crate::{Decoder, Encoder, Error};

/// The form of a number in an old module.
///
/// DEVIATION: OpenPMIx reads 32 bits from each number in the caller's memory even if it has 8 or 16
/// bits, so bytes of other numbers are packed, and all but the first number are lost. This project
/// packs each number with leading zeros; `old_numbers_have_zeros_in_front`. On unpacking those
/// bytes are ignored, as in the memory of a C reader.
#[derive(Clone, Copy)]
pub(crate) enum LegacyForm {
    /// A run of `PMIX_INT`: the code of the actual type, then 32 bits each.
    Coded,
    /// 32 bits each.
    Wide,
    /// Not packed.
    Absent,
}

impl LegacyForm {
    pub(crate) fn begin(self, encoder: &mut Encoder<'_>) {
        if matches!(self, Self::Coded) {
            encoder.real_type(DataType::INT32);
        }
    }

    pub(crate) fn put(self, encoder: &mut Encoder<'_>, number: u32) {
        if !matches!(self, Self::Absent) {
            encoder.u32(number);
        }
    }

    pub(crate) fn start(self, decoder: &mut Decoder<'_>) -> Result<Run, Error> {
        if !matches!(self, Self::Coded) {
            return Ok(Run::default());
        }
        let real = decoder.real_type()?;
        Ok(Run((real != DataType::INT32).then_some(real)))
    }

    pub(crate) fn get(self, decoder: &mut Decoder<'_>, run: Run, what: &str) -> Result<u32, Error> {
        match (self, run.0) {
            (Self::Absent, _) => Ok(0),
            (_, None) => decoder.u32(what),
            (_, Some(real)) => decoder.integer(real, what).map(low_u32),
        }
    }
}

/// Returns the low 32 bits, as a C conversion does.
pub(crate) fn low_u32(bits: u64) -> u32 {
    u32::try_from(bits & u64::from(u32::MAX)).unwrap_or_default()
}

/// Returns the low 16 bits, as a C conversion does.
pub(crate) fn low_u16(bits: u32) -> u16 {
    u16::try_from(bits & u32::from(u16::MAX)).unwrap_or_default()
}

/// Returns the low 8 bits, as a C conversion does.
pub(crate) fn low_u8(bits: u32) -> u8 {
    u8::try_from(bits & u32::from(u8::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pmix_types::{Command, Persistence};

    use crate::{Decoder, Encoder, Layout, Module, wire_type};

    #[test]
    fn old_numbers_have_zeros_in_front() {
        let layout = Layout::new(Module::V12);
        let values = [1, 4, 255].map(Persistence::from_raw);
        let mut out = Vec::new();
        Encoder::new(layout, &mut out)
            .call::<wire_type::Persistence>(&values)
            .unwrap();
        let bytes = [0, 0, 0, 3, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 255];
        assert_eq!(out, bytes);
        let mut decoder = Decoder::new(layout, &out);
        assert_eq!(decoder.all::<wire_type::Persistence>().unwrap(), values);
        decoder.finish().unwrap();
    }

    #[test]
    fn ignores_bytes_of_other_numbers() {
        for module in [Module::V12, Module::V20] {
            let bytes = [0, 0, 0, 1, 0xff, 4, 1, 27];
            let mut decoder = Decoder::new(Layout::new(module), &bytes);
            let command = decoder.one::<wire_type::Command>().unwrap();
            assert_eq!(command, Command::from_raw(27));
        }
    }
}
