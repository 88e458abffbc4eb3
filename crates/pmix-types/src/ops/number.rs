// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversion of numbers between types.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `PMIX_VALUE_GET_NUMBER`.

use super::{Datum, ValueError, ValueErrorKind};
use crate::{DataType, Rank, Status, Value};

/// A number of any type.
#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Real(f64),
}

/// The Rust types that a number can be converted to, see [`Value::to_number`].
pub trait Numeric: for<'a> Datum<'a> {}

macro_rules! numerics {
    ($($type:ty),*) => { $(impl Numeric for $type {})* };
}

numerics!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, Rank, Status);

/// Converts a whole number to a value of a type.
macro_rules! whole {
    ($number:expr, $variant:ident($int:ty)) => {
        <$int>::try_from($number).ok().map(Value::$variant)
    };
    ($number:expr, $variant:ident($int:ty) in $wrap:expr) => {
        <$int>::try_from($number)
            .ok()
            .map($wrap)
            .map(Value::$variant)
    };
}

impl<'a> Value<'a> {
    fn number(&self) -> Option<Number> {
        Some(match self {
            Self::Size(n) | Self::Uint64(n) => Number::Whole((*n).into()),
            Self::Int(n) | Self::Int32(n) | Self::Pid(n) => Number::Whole((*n).into()),
            Self::Uint(n) | Self::Uint32(n) => Number::Whole((*n).into()),
            Self::Int8(n) => Number::Whole((*n).into()),
            Self::Int16(n) => Number::Whole((*n).into()),
            Self::Int64(n) => Number::Whole((*n).into()),
            Self::Uint8(n) => Number::Whole((*n).into()),
            Self::Uint16(n) => Number::Whole((*n).into()),
            Self::Rank(rank) => Number::Whole(rank.as_raw().into()),
            Self::Status(status) => Number::Whole(status.as_raw().into()),
            Self::Float(x) => Number::Real((*x).into()),
            Self::Double(x) => Number::Real(*x),
            _ => return None,
        })
    }

    /// Returns `true` if [`Value::convert`] accepts the value as a number. Bytes, times and
    /// booleans are not numbers.
    #[must_use]
    pub fn is_number(&self) -> bool {
        self.number().is_some()
    }

    pub(super) fn holds_number(data_type: DataType) -> bool {
        is_real(data_type) || of_whole(data_type, 0).is_some()
    }

    /// Converts the number to another type (`PMIx_Value_get_number`).
    ///
    /// A fraction is dropped. A whole number becomes the nearest real number, even if that differs.
    /// A double never becomes a float, even if a float can represent its value, because OpenPMIx
    /// decides by the type.
    ///
    /// # Errors
    ///
    /// - `PMIX_ERR_BAD_PARAM` if either type is not numeric, or if both have a meaning beyond the
    ///   number: process id, rank, status.
    /// - `PMIX_ERR_CHANGE_SIGN` if the number is negative, even by a fraction, and the type is
    ///   unsigned; this takes precedence over the next.
    /// - `PMIX_ERR_LOST_PRECISION` if the number, including its fraction, is outside of the range
    ///   of the type.
    pub fn convert(&self, to: DataType) -> Result<Self, ValueError> {
        let from = self.data_type();
        let refused = |kind: ValueErrorKind| Err(ValueError(kind));
        let (Some(number), true) = (self.number(), Self::holds_number(to)) else {
            return refused(ValueErrorKind::NotConvertible { from, to });
        };
        if from == to {
            return Ok(self.clone());
        }
        if is_structured(from) && is_structured(to) {
            return refused(ValueErrorKind::NotConvertible { from, to });
        }
        if is_real(to) {
            let real = of_number(from, to, number);
            return real.ok_or(ValueError(ValueErrorKind::OutOfRange { from, to }));
        }
        let below_zero = match number {
            Number::Whole(n) => n < 0,
            Number::Real(x) => x < 0.0,
        };
        if below_zero && of_whole(to, -1).is_none() {
            return refused(ValueErrorKind::SignChanges { from, to });
        }
        let whole = match number {
            Number::Whole(n) => Some(n),
            Number::Real(x) => whole_of_real(to, x),
        };
        let converted = whole.and_then(|n| of_whole(to, n));
        converted.ok_or(ValueError(ValueErrorKind::OutOfRange { from, to }))
    }

    /// Converts the number to a Rust number (`PMIx_Value_get_number`); see [`Value::convert`].
    ///
    /// ```
    /// use pmix_types::{Status, Value};
    /// assert_eq!(Value::from(300u64).to_number::<i16>(), Ok(300));
    /// let error = Value::from(300u64).to_number::<u8>().unwrap_err();
    /// assert_eq!(error.status(), Status::ERR_LOST_PRECISION);
    /// let error = Value::from(-1).to_number::<u8>().unwrap_err();
    /// assert_eq!(error.status(), Status::ERR_CHANGE_SIGN);
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Value::convert`].
    pub fn to_number<T: Numeric>(&self) -> Result<T, ValueError> {
        self.convert(T::DATA_TYPE)?.unload()
    }
}

const fn is_real(data_type: DataType) -> bool {
    matches!(data_type, DataType::FLOAT | DataType::DOUBLE)
}

/// Returns `true` for types whose numbers have a meaning of their own. They are not converted into
/// each other.
const fn is_structured(data_type: DataType) -> bool {
    matches!(
        data_type,
        DataType::PID | DataType::PROC_RANK | DataType::STATUS
    )
}

/// Returns a value of an integer type, if the type holds the number.
fn of_whole<'a>(data_type: DataType, number: i128) -> Option<Value<'a>> {
    match data_type {
        DataType::SIZE => whole!(number, Size(u64)),
        DataType::PID => whole!(number, Pid(i32)),
        DataType::INT => whole!(number, Int(i32)),
        DataType::INT8 => whole!(number, Int8(i8)),
        DataType::INT16 => whole!(number, Int16(i16)),
        DataType::INT32 => whole!(number, Int32(i32)),
        DataType::INT64 => whole!(number, Int64(i64)),
        DataType::UINT => whole!(number, Uint(u32)),
        DataType::UINT8 => whole!(number, Uint8(u8)),
        DataType::UINT16 => whole!(number, Uint16(u16)),
        DataType::UINT32 => whole!(number, Uint32(u32)),
        DataType::UINT64 => whole!(number, Uint64(u64)),
        DataType::PROC_RANK => whole!(number, Rank(u32) in Rank::new),
        DataType::STATUS => whole!(number, Status(i32) in Status::from_raw),
        _ => None,
    }
}

/// Returns a value of a real type, if the number converts to it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a real number is rounded to the nearest"
)]
fn of_number<'a>(from: DataType, to: DataType, number: Number) -> Option<Value<'a>> {
    match number {
        Number::Whole(n) if to == DataType::FLOAT => Some(Value::Float(n as f32)),
        Number::Whole(n) => Some(Value::Double(n as f64)),
        Number::Real(x) if to == DataType::DOUBLE => Some(Value::Double(x)),
        Number::Real(x) => (from == DataType::FLOAT).then_some(Value::Float(x as f32)),
    }
}

/// Returns a real number without its fraction, if the number including the fraction is in the range
/// of the type. DEVIATION: NaN and numbers outside of the range are rejected for every type;
/// OpenPMIx compares with rounded limits, or with none if a float is converted to a process id or a
/// status, and returns the processor's result of the cast; reals_outside_the_range_are_refused
#[expect(
    clippy::cast_possible_truncation,
    reason = "whole and within 65 bits once tested"
)]
fn whole_of_real(to: DataType, number: f64) -> Option<i128> {
    const BEYOND_64_BITS: f64 = 18_446_744_073_709_551_616.0;
    if !(-BEYOND_64_BITS..BEYOND_64_BITS).contains(&number) {
        return None;
    }
    let whole = number.trunc() as i128;
    // A number with a fraction must also fit if it is rounded away from zero: 255.5 is outside of a
    // byte.
    let outward = match number - number.trunc() {
        fraction if fraction > 0.0 => whole + 1,
        fraction if fraction < 0.0 => whole - 1,
        _ => whole,
    };
    of_whole(to, outward).map(|_| whole)
}
