// SPDX-License-Identifier: MIT OR Apache-2.0
//! The codes of types and the forms of numbers in the first releases.
//!
//! | type | code since v20 | code in v12 |
//! | --- | --- | --- |
//! | `PMIX_STATUS`, `PMIX_PROC_RANK` | 20, 40 | 6, `PMIX_INT` |
//! | array of infos, `PMIX_DATA_ARRAY` | 44, 39 | 22 |
//! | `PMIX_PROC` to `PMIX_PERSIST` | 22 to 30 | 23 to 31, one more |
//! | any other | | the same |
//!
//! In described buffers v12 and v20 repeat three codes: the code of the actual type before integers
//! of a C type, the code of the datum of a value, and the code of the elements of an array.

use pmix_types::DataType;

use crate::wire_type::Run;
use crate::{BufferKind, Decoder, Encoder, Error, Layout, Module};

/// The type of an array of infos before general arrays existed.
pub(crate) const INFO_ARRAY: DataType = DataType::from_raw(44);

/// The code of [`INFO_ARRAY`] in v12.
const OLD_INFO_ARRAY: i32 = 22;

/// Returns `true` if the layout repeats type codes.
pub(crate) fn repeats(layout: Layout) -> bool {
    layout.buffer == BufferKind::Described && layout.module <= Module::V20
}

/// Returns the type that a described call of `data_type` has on the wire, which may be another
/// type.
pub(crate) const fn declared(module: Module, data_type: DataType) -> DataType {
    match (module, data_type) {
        (Module::V12 | Module::V20, DataType::COMMAND) => DataType::UINT32,
        (Module::V12, DataType::SCOPE | DataType::DATA_RANGE) => DataType::UINT,
        (Module::V12, DataType::PROC_RANK | DataType::PERSIST | DataType::STATUS) => DataType::INT,
        _ => data_type,
    }
}

/// Returns the code of a type in v12.
///
/// DEVIATION: OpenPMIx packs 22 for `PMIX_PROC`, which readers of v12, including its own, treat as
/// an array of infos. This project writes 23, as PMIx 1.2 does, and accepts both;
/// `a_described_process_of_v12_says_its_own_code`.
pub(crate) fn to_v12(data_type: DataType) -> i32 {
    let number = i32::from(data_type.as_raw());
    match number {
        20 | 40 => i32::from(DataType::INT.as_raw()),
        39 | 44 => OLD_INFO_ARRAY,
        22..=30 => number + 1,
        _ => number,
    }
}

/// Returns the type for a code of v12, or `None` if the code is unknown.
pub(crate) fn from_v12(code: i32) -> Option<DataType> {
    let number = match code {
        20 => 0,
        OLD_INFO_ARRAY => 44,
        23..=31 => code - 1,
        _ => code,
    };
    u16::try_from(number).ok().map(DataType::from_raw)
}

impl Encoder<'_> {
    /// Packs the code of a type for a module before v4.
    #[inline(never)]
    pub(crate) fn fixed_type_code(&mut self, data_type: DataType) {
        match self.module() {
            Module::V12 => self.i32(to_v12(data_type)),
            _ => self.u16(data_type.as_raw()),
        }
    }

    /// Packs the code of a type again, in v12 and v20.
    #[inline]
    pub(crate) fn repeated_type_code(&mut self, data_type: DataType) {
        if repeats(self.layout()) {
            self.type_code(data_type);
        }
    }
}

impl Decoder<'_> {
    /// Unpacks the code of a type from a module before v4.
    #[inline(never)]
    pub(crate) fn fixed_type_code(&mut self) -> Result<DataType, Error> {
        if self.module() != Module::V12 {
            return self.u16("type code").map(DataType::from_raw);
        }
        let start = self.offset();
        let code = self.i32("type code")?;
        from_v12(code).ok_or_else(|| Error::unknown_code(start, code))
    }

    /// Unpacks the repeated code of a type, in v12 and v20.
    #[inline]
    pub(crate) fn repeated_type_code(&mut self, expected: DataType) -> Result<(), Error> {
        if !repeats(self.layout()) {
            return Ok(());
        }
        let start = self.offset();
        let found = self.type_code()?;
        if self.is_code_of(found, expected) {
            return Ok(());
        }
        Err(Error::mismatch(start, expected, found))
    }

    /// Returns `true` if the unpacked code is a code of the expected type.
    pub(crate) fn is_code_of(&self, found: DataType, expected: DataType) -> bool {
        // OpenPMIx packs `PMIX_PROC` with the code of an array of infos.
        let process = self.module() == Module::V12 && expected == DataType::PROC;
        found == expected || (process && found == INFO_ARRAY)
    }
}

/// The form of an 8-bit or 16-bit number in a module before v21, where it takes 32 bits.
///
/// DEVIATION: OpenPMIx reads 32 bits at the address of each number, even if the number is shorter.
/// It therefore packs bytes of neighboring numbers, and loses all numbers but the first. This
/// project extends each number to 32 bits with leading zeros; `old_numbers_have_zeros_in_front`.
/// Unpacking ignores the upper bytes, as a C reader does.
#[derive(Clone, Copy)]
pub(crate) enum LegacyForm {
    /// As `PMIX_INT`: the code of the actual type once, then 32 bits for each number.
    Coded,
    /// 32 bits for each number.
    Wide,
    /// No bytes: the value is not packed.
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
    use pmix_types::{Command, Persistence, Proc, Rank};

    use super::*;
    use crate::{Decoder, Encoder, Layout, Module, wire_type};

    #[test]
    fn codes_of_v12_survive_unless_two_types_share_one() {
        for number in 1..=46 {
            let data_type = DataType::from_raw(number);
            let back = from_v12(to_v12(data_type));
            match number {
                20 | 40 => assert_eq!(back, Some(DataType::INT)),
                39 => assert_eq!(back, Some(INFO_ARRAY)),
                31 => assert_eq!(back, Some(DataType::PERSIST)),
                _ => assert_eq!(back, Some(data_type)),
            }
        }
        assert_eq!(from_v12(-1), None);
        assert_eq!(from_v12(65_536), None);
    }

    #[test]
    fn a_described_process_of_v12_says_its_own_code() {
        let layout = Layout::new(Module::V12).with_buffer(BufferKind::Described);
        let proc = Proc::new("ns", Rank::new(3));
        let mut out = Vec::new();
        Encoder::new(layout, &mut out)
            .one::<wire_type::Proc>(&proc)
            .unwrap();
        assert_eq!(out[8..12], [0, 0, 0, 23]);
        for code in [22, 23] {
            out[11] = code;
            let mut decoder = Decoder::new(layout, &out);
            assert_eq!(decoder.one::<wire_type::Proc>().unwrap(), proc);
            decoder.finish().unwrap();
        }
    }

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
