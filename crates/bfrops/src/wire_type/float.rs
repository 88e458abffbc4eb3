// SPDX-License-Identifier: MIT OR Apache-2.0
//! Floating point numbers, which are packed as text.
//!
//! The text is the output of C's `%f`, as a string.
//!
//! DEVIATION: an absolute value below 0.000001 is written with an exponent, because six decimals
//! would lose it. Every peer parses both forms; `small_floats_keep_their_digits`.
//!
//! Source: OpenPMIx, recorded in `testdata/bfrops`.

use pmix_types::{DataType as Type, Text};

use crate::wire_type::Run;
use crate::wire_type::sealed::Sealed;
use crate::{Decoder, Encoder, Error, WireType};

macro_rules! floats {
    ($($(#[$doc:meta])* $kind:ident: $item:ty = $data_type:ident;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind {}

        impl Sealed for $kind {}

        impl WireType for $kind {
            const TYPE: Type = Type::$data_type;
            const MIN_LEN: usize = 1;
            type Item<'a> = $item;

            fn encode(encoder: &mut Encoder<'_>, item: &$item) -> Result<(), Error> {
                if let Some(decimal) = Decimal::new(f64::from(*item)) {
                    return encoder.text(decimal.as_bytes());
                }
                let number = *item;
                let text = if number.is_nan() {
                    String::from(if number.is_sign_negative() { "-nan" } else { "nan" })
                } else if number != 0.0 && number.abs() < 1e-6 {
                    format!("{number:e}")
                } else {
                    format!("{number:.6}")
                };
                encoder.text(text.as_bytes())
            }

            fn decode(decoder: &mut Decoder<'_>, _: Run) -> Result<$item, Error> {
                let start = decoder.offset();
                let text = decoder.text()?;
                let number = text.as_ref().and_then(|text| text.as_str());
                let number = number.and_then(|text| read_float::<$item>(text.trim_start()));
                number.ok_or_else(|| no_float(start, text.as_ref()))
            }
        })*
    };
}

floats! {
    /// `PMIX_FLOAT`.
    Float: f32 = FLOAT;
    /// `PMIX_DOUBLE`.
    Double: f64 = DOUBLE;
}

/// A number as text with six decimals.
struct Decimal {
    /// The text, aligned to the end.
    bytes: [u8; 32],
    start: usize,
}

impl Decimal {
    /// Formats a number, rounded as C does: to the nearest, ties to even. Returns `None` unless it
    /// is zero or its absolute value is from 0.000001 to 2^63.
    fn new(number: f64) -> Option<Self> {
        const MANTISSA: u64 = (1 << 52) - 1;
        let bits = number.abs().to_bits();
        // The number is its mantissa divided by 2^`power`.
        let power = 1075_u64.checked_sub(bits >> 52)?;
        let mantissa = match bits {
            0 => 0,
            _ => (bits & MANTISSA) | (MANTISSA + 1),
        };
        let (mut whole, mut micro) = match power {
            _ if bits == 0 => (0, 0),
            0 => (mantissa, 0),
            1..=72 => {
                let whole = if power < 64 { mantissa >> power } else { 0 };
                let rest = u128::from(mantissa) & ((1 << power) - 1);
                (whole, nearest(rest * 1_000_000, power))
            }
            _ => return None,
        };
        if micro == 1_000_000 {
            (whole, micro) = (whole + 1, 0);
        }
        Some(Self::written(number.is_sign_negative(), whole, micro))
    }

    fn written(negative: bool, mut whole: u64, mut micro: u64) -> Self {
        let mut bytes = [b'.'; 32];
        let mut start = bytes.len();
        let mut put = |digit: u64| {
            start -= 1;
            bytes[start] = b"0123456789"[usize::try_from(digit % 10).unwrap_or_default()];
        };
        for _ in 0..6 {
            put(micro);
            micro /= 10;
        }
        start -= 1;
        let mut put = |byte| {
            start -= 1;
            bytes[start] = byte;
        };
        loop {
            put(b"0123456789"[usize::try_from(whole % 10).unwrap_or_default()]);
            whole /= 10;
            if whole == 0 {
                break;
            }
        }
        if negative {
            put(b'-');
        }
        Self { bytes, start }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Divides a number by 2^`power` and rounds to the nearest, ties to even.
fn nearest(number: u128, power: u64) -> u64 {
    let floor = number >> power;
    let (rest, half) = (number & ((1 << power) - 1), 1 << (power - 1));
    let up = rest > half || (rest == half && floor & 1 == 1);
    u64::try_from(floor).unwrap_or_default() + u64::from(up)
}

/// The maximum number of bytes of a text that an error quotes.
const QUOTED: usize = 32;

/// Creates the error for a text that is not a number, or for a missing text.
#[cold]
fn no_float(start: usize, text: Option<&Text<'_>>) -> Error {
    let found = match text.map(Text::as_bytes) {
        None => "a null pointer".to_owned(),
        Some(text) if text.len() > QUOTED => format!("{} bytes", text.len()),
        Some(text) => format!("\"{}\"", text.escape_ascii()),
    };
    Error::malformed(start, format!("expected a number as text, found {found}"))
}

fn read_float<T: std::str::FromStr + std::ops::Neg<Output = T>>(text: &str) -> Option<T> {
    // C prints a sign before NaN; Rust parses NaN only without it.
    match text {
        "-nan" | "-nan(ind)" => "nan".parse().ok().map(T::neg),
        text => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layout, Module};

    fn packed(number: f64) -> String {
        let mut out = Vec::new();
        let layout = Layout::new(Module::V41);
        Encoder::new(layout, &mut out)
            .one::<Double>(&number)
            .unwrap();
        let back = Decoder::new(layout, &out).one::<Double>().unwrap();
        let text = String::from_utf8(out[2..out.len() - 1].to_vec()).unwrap();
        let same = text.parse::<f64>().unwrap();
        assert!(same == back || (same.is_nan() && back.is_nan()));
        assert_eq!(number.is_sign_negative(), back.is_sign_negative());
        text
    }

    #[test]
    fn floats_are_what_c_prints() {
        for (number, text) in [
            (0.0, "0.000000"),
            (-0.0, "-0.000000"),
            (2.5, "2.500000"),
            (0.1, "0.100000"),
            (1e15, "1000000000000000.000000"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "-nan"),
            (1e-6, "0.000001"),
        ] {
            assert_eq!(packed(number), text);
        }
    }

    #[test]
    fn small_floats_keep_their_digits() {
        assert_eq!(packed(1.25e-7), "1.25e-7");
        assert_eq!(packed(-5e-324), "-5e-324");
    }

    #[test]
    fn every_number_is_rounded_as_the_standard_library_rounds_it() {
        let mut seed = 88_172_645_463_325_252_u64;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let halves = (0..4_000).map(|n| f64::from(n) / 8192.0);
        let ties = (0..4_000).map(|n| f64::from(n) * 0.5e-6);
        let random: Vec<f64> = (0..200_000).map(|_| f64::from_bits(next())).collect();
        let near: Vec<f64> = (0..200_000)
            .map(|_| f64::from_bits((next() >> 12) | ((1003 + next() % 80) << 52)))
            .collect();
        let mut exact = 0;
        for number in halves.chain(ties).chain(random).chain(near) {
            for number in [number, -number] {
                if let Some(decimal) = Decimal::new(number) {
                    let text = std::str::from_utf8(decimal.as_bytes()).unwrap();
                    assert_eq!(text, format!("{number:.6}"));
                    exact += 1;
                }
            }
        }
        assert!(exact > 300_000, "{exact}");
    }
}
