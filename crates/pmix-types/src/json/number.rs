// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON form of booleans and numbers. Floating point numbers are printed like C's `%.9g` and
//! `%.17g`.
//!
//! A floating point number is printed as a string, because JSON cannot express infinity, and
//! because a parser of JSON may lose digits. Different numbers have different digits. A monitor's
//! measurement is a JSON number, without a decimal point if it is an integer.

use std::fmt;
use std::str::FromStr;

use serde::ser::{Serialize, Serializer};

use super::form::Form;
use super::node::Node;
use super::path::{At, Fault};

/// Prints a number as C's `%.{digits}g` does.
fn spell(number: f64, digits: usize) -> String {
    if !number.is_finite() {
        let sign = if number.is_sign_negative() { "-" } else { "" };
        let word = if number.is_nan() { "nan" } else { "inf" };
        return format!("{sign}{word}");
    }
    // The format is: one digit, a point, the other digits, `e` and the exponent.
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let wide = i32::try_from(digits).unwrap_or(i32::MAX);
    if (-4..wide).contains(&exponent) {
        let places = usize::try_from(wide - 1 - exponent).unwrap_or_default();
        return bare(&format!("{number:.places$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", bare(mantissa), exponent.unsigned_abs())
}

/// Returns a number without the trailing zeros of its fraction.
fn bare(number: &str) -> &str {
    if !number.contains('.') {
        return number;
    }
    number.trim_end_matches('0').trim_end_matches('.')
}

/// Reads a number of either width from a string or a JSON number.
fn read<F>(node: &Node<'_>, at: &At<'_>, is_infinite: impl Fn(&F) -> bool) -> Result<F, Fault>
where
    F: FromStr + fmt::Debug,
{
    // A JSON number is converted through its digits: that rounds once, where `f64` to `f32` would
    // round twice.
    let text = match node {
        Node::Text(text) => text.clone().into_owned(),
        Node::Whole(number) => number.to_string(),
        Node::Number(number) => format!("{number:e}"),
        _ => return Err(at.expected("a number or a string that holds one", node)),
    };
    let parsed = text.parse::<F>();
    let number =
        parsed.map_err(|_| at.expected("a number such as \"0.5\", \"inf\" or \"nan\"", node))?;
    if is_infinite(&number) && text.contains(|c: char| c.is_ascii_digit()) {
        return Err(at.misfit(text, "it would be infinite"));
    }
    Ok(number)
}

impl Form for f32 {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&spell((*self).into(), 9))
    }

    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
        read(&node, at, |number: &Self| number.is_infinite())
    }
}

impl Form for f64 {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&spell(*self, 17))
    }

    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
        read(&node, at, |number: &Self| number.is_infinite())
    }
}

/// A measurement of a monitor. It prints as a JSON number if JSON can express it.
pub(crate) struct Measure(f32);

impl From<&f32> for Measure {
    fn from(number: &f32) -> Self {
        Self(*number)
    }
}

impl From<Measure> for f32 {
    fn from(measure: Measure) -> Self {
        measure.0
    }
}

impl Form for Measure {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = self.0;
        let is_whole = number.fract() == 0.0 && number.abs() < 1e9;
        if !number.is_finite() {
            number.write(serializer)
        } else if let (true, Ok(whole)) = (is_whole, format!("{number:.0}").parse::<i64>()) {
            serializer.serialize_i64(whole)
        } else {
            serializer.serialize_f32(number)
        }
    }

    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
        f32::read(node, at).map(Self)
    }
}

impl Form for bool {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(*self)
    }

    fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
        match node {
            Node::Bool(flag) => Ok(flag),
            _ => Err(at.expected("true or false", node)),
        }
    }
}

macro_rules! whole {
    ($($int:ty),*) => {
        $(impl Form for $int {
            fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Serialize::serialize(self, serializer)
            }

            fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
                let number = node.whole(at)?;
                Self::try_from(number).map_err(|_| {
                    at.misfit(number, format_args!("{} to {}", Self::MIN, Self::MAX))
                })
            }
        })*
    };
}

whole!(u8, u16, u32, u64, i8, i16, i32, i64);

/// Implements `Form` for open numbers. They print as numbers, and are read from numbers or names. A
/// number with `or` may be omitted and then has this default.
macro_rules! named {
    ($($name:ident $(or $absent:expr)?),* $(,)?) => {
        $(impl Form for crate::$name {
            fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Serialize::serialize(&self.as_raw(), serializer)
            }

            fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
                match &node {
                    Node::Text(name) => name.parse().map_err(|e| at.fault(e)),
                    _ => Form::read(node, at).map(Self::from_raw),
                }
            }

            $(fn absent() -> Option<Self> {
                Some($absent)
            })?
        })*
    };
}

named!(
    AllocDirective,
    AllocInheritance,
    Command,
    CoordView,
    DataRange,
    DataType,
    DeviceType,
    InfoFlags or Self::default(),
    IofChannel,
    JobState,
    LinkState,
    Locality,
    Persistence,
    ProcState,
    Rank,
    ResourceBlockDirective,
    Scope,
    Status,
    StorageAccessType,
    StorageAccessibility,
    StorageMedium,
    StoragePersistence,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_numbers_as_c_does() {
        let doubles = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (1e15, "1000000000000000"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (0.1, "0.10000000000000001"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (1e-7, "9.9999999999999995e-08"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "4.9406564584124654e-324"),
            (-f64::INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "-nan"),
            // A tie: the digit before the last half is even.
            (0.500_000_000_000_000_1, "0.50000000000000011"),
        ];
        for (number, text) in doubles {
            assert_eq!(spell(number, 17), text);
        }
        let floats = [
            (f32::MAX, "3.40282347e+38"),
            (0.1, "0.100000001"),
            (2_097_151.1, "2097151.12"),
            (999_999_999.0, "1e+09"),
        ];
        for (number, text) in floats {
            assert_eq!(spell(number.into(), 9), text);
        }
    }

    #[test]
    fn every_printed_number_reads_back() {
        let mut bits = 1_u64;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = f64::from_bits(bits);
            let back: f64 = spell(number, 17).parse().unwrap();
            assert!(back.to_bits() == bits || number.is_nan(), "{bits:#x}");
            let number = f32::from_bits(u32::try_from(bits >> 32).unwrap());
            let back: f32 = spell(number.into(), 9).parse().unwrap();
            assert!(back.to_bits() == number.to_bits() || number.is_nan());
        }
    }
}
