// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers: truth values, integers, states and directives, times, and floats, which travel as
//! text.

use pmix_types::{DataType as Type, Rank as RankNumber, Status as StatusNumber, Text};

use crate::kind::Run;
use crate::kind::sealed::Sealed;
use crate::kind::structure::structure;
use crate::legacy::number::{Old, low_u8, low_u16, low_u32};
use crate::{Decoder, Encoder, Error, Integers, Kind, Layout, Module};

/// A kind that is written by one method of the encoder and read by one of the decoder.
macro_rules! numbers {
    ($($(#[$doc:meta])* $kind:ident: $item:ty = $data_type:ident, $method:ident, $min:literal,
        $to:expr, $from:expr;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind {}

        impl Sealed for $kind {}

        impl Kind for $kind {
            const TYPE: Type = Type::$data_type;
            const MIN_LEN: usize = $min;
            type Item<'a> = $item;

            #[inline]
            fn encode(encoder: &mut Encoder<'_>, item: &Self::Item<'_>) -> Result<(), Error> {
                encoder.$method($to(*item));
                Ok(())
            }

            #[inline]
            fn decode<'a>(decoder: &mut Decoder<'a>, _: Run) -> Result<Self::Item<'a>, Error> {
                let start = decoder.offset();
                let number = decoder.$method(stringify!($kind))?;
                decoder.note(start, || format!("{} {number}", Self::TYPE));
                Ok($from(number))
            }

            fn encode_run(encoder: &mut Encoder<'_>, items: &[$item]) -> Result<(), Error> {
                if encoder.layout().integers == Integers::Fixed {
                    return items.iter().try_for_each(|item| Self::encode(encoder, item));
                }
                <$method as Word>::put_run(encoder, items.iter().map(|item| $to(*item)));
                Ok(())
            }

            fn decode_run<'a>(
                decoder: &mut Decoder<'a>,
                run: Run,
                count: usize,
            ) -> Result<Vec<$item>, Error> {
                if decoder.layout().integers == Integers::Fixed {
                    return decoder.one_by_one::<Self>(run, count);
                }
                <$method as Word>::take_run::<Self>(decoder, count, $from)
            }
        })*
    };
}

/// What numbers are made of; a run of them is faster than one by one.
trait Word: Sized {
    fn put_run(encoder: &mut Encoder<'_>, words: impl ExactSizeIterator<Item = Self>);

    fn take_run<'a, K: Kind>(
        decoder: &mut Decoder<'a>,
        count: usize,
        from: impl Fn(Self) -> K::Item<'a>,
    ) -> Result<Vec<K::Item<'a>>, Error>;
}

impl Word for u8 {
    fn put_run(encoder: &mut Encoder<'_>, words: impl ExactSizeIterator<Item = Self>) {
        encoder.byte_run(words);
    }

    fn take_run<'a, K: Kind>(
        decoder: &mut Decoder<'a>,
        count: usize,
        from: impl Fn(Self) -> K::Item<'a>,
    ) -> Result<Vec<K::Item<'a>>, Error> {
        let bytes = decoder.take(count, "a run of bytes")?;
        Ok(bytes.iter().map(|byte| from(*byte)).collect())
    }
}

macro_rules! words {
    ($($word:ty),*) => {
        $(impl Word for $word {
            fn put_run(encoder: &mut Encoder<'_>, words: impl ExactSizeIterator<Item = Self>) {
                encoder.flex_run(words);
            }

            fn take_run<'a, K: Kind>(
                decoder: &mut Decoder<'a>,
                count: usize,
                from: impl Fn(Self) -> K::Item<'a>,
            ) -> Result<Vec<K::Item<'a>>, Error> {
                decoder.flex_run::<K, Self>(count, from)
            }
        })*
    };
}

words!(u16, u32, u64, i16, i32, i64);

/// A kind that is an open number of the data model.
macro_rules! open_numbers {
    ($($(#[$doc:meta])* $kind:ident = $data_type:ident, $method:ident;)*) => {
        numbers! {
            $($(#[$doc])* $kind: pmix_types::$kind = $data_type, $method, 1,
                pmix_types::$kind::as_raw, pmix_types::$kind::from_raw;)*
        }
    };
}

const fn same<T: Copy>(number: T) -> T {
    number
}

numbers! {
    /// `PMIX_BOOL`: one byte, zero or not.
    Bool: bool = BOOL, u8, 1, u8::from, |byte| byte != 0;
    /// `PMIX_BYTE`: one byte.
    Byte: u8 = BYTE, u8, 1, same, same;
    /// `PMIX_INT8`: one byte.
    Int8: i8 = INT8, u8, 1, i8::cast_unsigned, u8::cast_signed;
    /// `PMIX_UINT8`: one byte.
    Uint8: u8 = UINT8, u8, 1, same, same;
    /// `PMIX_INT16`.
    Int16: i16 = INT16, i16, 1, same, same;
    /// `PMIX_UINT16`.
    Uint16: u16 = UINT16, u16, 1, same, same;
    /// `PMIX_INT32`.
    Int32: i32 = INT32, i32, 1, same, same;
    /// `PMIX_UINT32`.
    Uint32: u32 = UINT32, u32, 1, same, same;
    /// `PMIX_INT64`.
    Int64: i64 = INT64, i64, 1, same, same;
    /// `PMIX_UINT64`.
    Uint64: u64 = UINT64, u64, 1, same, same;
    /// `PMIX_TIME`, a C `time_t`.
    Time: i64 = TIME, u64, 1, i64::cast_unsigned, u64::cast_signed;
}

open_numbers! {
    /// `PMIX_ALLOC_DIRECTIVE`.
    AllocDirective = ALLOC_DIRECTIVE, u8;
    /// `PMIX_IOF_CHANNEL`.
    IofChannel = IOF_CHANNEL, u16;
    /// `PMIX_JOB_STATE`.
    JobState = JOB_STATE, u8;
    /// `PMIX_LINK_STATE`.
    LinkState = LINK_STATE, u8;
    /// `PMIX_DEVTYPE`.
    DeviceType = DEVTYPE, u64;
    /// `PMIX_LOCTYPE`.
    Locality = LOCTYPE, u16;
    /// `PMIX_STOR_MEDIUM`.
    StorageMedium = STOR_MEDIUM, u64;
    /// `PMIX_STOR_ACCESS`.
    StorageAccessibility = STOR_ACCESS, u64;
    /// `PMIX_STOR_PERSIST`.
    StoragePersistence = STOR_PERSIST, u64;
    /// `PMIX_STOR_ACCESS_TYPE`.
    StorageAccessType = STOR_ACCESS_TYPE, u16;
    /// `PMIX_RESBLOCK_DIRECTIVE`.
    ResourceBlockDirective = RESBLOCK_DIRECTIVE, u8;
    /// `PMIX_ALLOC_INHERIT`.
    AllocInheritance = ALLOC_INHERIT, u8;
}

/// A kind that had another form in the first releases.
macro_rules! aged_numbers {
    ($($(#[$doc:meta])* $kind:ident: $item:ty = $data_type:ident, $method:ident, $to:expr,
        $from:expr; up to $last:ident: $old:ident, $wide:expr, $narrow:expr;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind {}

        impl Sealed for $kind {}

        impl Kind for $kind {
            const TYPE: Type = Type::$data_type;
            const MIN_LEN: usize = 1;
            type Item<'a> = $item;

            #[inline]
            fn begin(encoder: &mut Encoder<'_>) -> Result<(), Error> {
                if encoder.module() <= Module::$last {
                    Old::$old.begin(encoder);
                }
                Ok(())
            }

            #[inline]
            fn encode(encoder: &mut Encoder<'_>, item: &$item) -> Result<(), Error> {
                let number = $to(*item);
                if encoder.module() <= Module::$last {
                    Old::$old.put(encoder, $wide(number));
                } else {
                    encoder.$method(number);
                }
                Ok(())
            }

            #[inline]
            fn start(decoder: &mut Decoder<'_>) -> Result<Run, Error> {
                match decoder.module() <= Module::$last {
                    true => Old::$old.start(decoder),
                    false => Ok(Run::default()),
                }
            }

            #[inline]
            fn decode(decoder: &mut Decoder<'_>, run: Run) -> Result<$item, Error> {
                let start = decoder.offset();
                let number = match decoder.module() <= Module::$last {
                    true => $narrow(Old::$old.get(decoder, run, stringify!($kind))?),
                    false => decoder.$method(stringify!($kind))?,
                };
                decoder.note(start, || format!("{} {number}", Self::TYPE));
                Ok($from(number))
            }

            fn encode_run(encoder: &mut Encoder<'_>, items: &[$item]) -> Result<(), Error> {
                if encoder.layout().integers == Integers::Fixed {
                    return items.iter().try_for_each(|item| Self::encode(encoder, item));
                }
                <$method as Word>::put_run(encoder, items.iter().map(|item| $to(*item)));
                Ok(())
            }

            fn decode_run<'a>(
                decoder: &mut Decoder<'a>,
                run: Run,
                count: usize,
            ) -> Result<Vec<$item>, Error> {
                if decoder.layout().integers == Integers::Fixed {
                    return decoder.one_by_one::<Self>(run, count);
                }
                <$method as Word>::take_run::<Self>(decoder, count, $from)
            }
        })*
    };
}

aged_numbers! {
    /// `PMIX_STATUS`.
    Status: StatusNumber = STATUS, i32, StatusNumber::as_raw, StatusNumber::from_raw;
        up to V12: Coded, i32::cast_unsigned, u32::cast_signed;
    /// `PMIX_PROC_RANK`.
    Rank: RankNumber = PROC_RANK, u32, RankNumber::as_raw, RankNumber::new;
        up to V12: Coded, same, same;
    /// `PMIX_PERSIST`.
    Persistence: pmix_types::Persistence = PERSIST, u8, pmix_types::Persistence::as_raw,
        pmix_types::Persistence::from_raw; up to V12: Coded, u32::from, low_u8;
    /// `PMIX_SCOPE`.
    Scope: pmix_types::Scope = SCOPE, u8, pmix_types::Scope::as_raw, pmix_types::Scope::from_raw;
        up to V12: Coded, u32::from, low_u8;
    /// `PMIX_DATA_RANGE`.
    DataRange: pmix_types::DataRange = DATA_RANGE, u8, pmix_types::DataRange::as_raw,
        pmix_types::DataRange::from_raw; up to V12: Coded, u32::from, low_u8;
    /// `PMIX_COMMAND`.
    Command: pmix_types::Command = COMMAND, u8, pmix_types::Command::as_raw,
        pmix_types::Command::from_raw; up to V20: Wide, u32::from, low_u8;
    /// `PMIX_INFO_DIRECTIVES`.
    InfoFlags: pmix_types::InfoFlags = INFO_DIRECTIVES, u32, pmix_types::InfoFlags::as_raw,
        pmix_types::InfoFlags::from_raw; up to V12: Absent, same, same;
    /// `PMIX_PROC_STATE`.
    ProcState: pmix_types::ProcState = PROC_STATE, u8, pmix_types::ProcState::as_raw,
        pmix_types::ProcState::from_raw; up to V12: Absent, u32::from, low_u8;
    /// `PMIX_DATA_TYPE`.
    DataType: Type = DATA_TYPE, u16, Type::as_raw, Type::from_raw;
        up to V12: Wide, u32::from, low_u16;
}

/// Kinds whose C type has another width on other machines: where integers have a fixed width, the
/// code of the type they really have stands in front of a run. A process id always says it.
macro_rules! native_integers {
    ($($(#[$doc:meta])* $kind:ident: $item:ty = $data_type:ident as $real:ident, $method:ident,
        $says:ident, $to:expr, $from:expr, $foreign:expr;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind {}

        impl Sealed for $kind {}

        impl Kind for $kind {
            const TYPE: Type = Type::$data_type;
            const MIN_LEN: usize = 1;
            type Item<'a> = $item;

            #[inline]
            fn begin(encoder: &mut Encoder<'_>) -> Result<(), Error> {
                if $says(encoder.layout()) {
                    encoder.real_type(Type::$real);
                }
                Ok(())
            }

            #[inline]
            fn encode(encoder: &mut Encoder<'_>, item: &$item) -> Result<(), Error> {
                encoder.$method($to(*item));
                Ok(())
            }

            #[inline]
            fn start(decoder: &mut Decoder<'_>) -> Result<Run, Error> {
                if !$says(decoder.layout()) {
                    return Ok(Run::default());
                }
                let real = decoder.real_type()?;
                let ours = real == Type::$real;
                Ok(Run((!ours).then_some(real)))
            }

            #[inline]
            fn decode(decoder: &mut Decoder<'_>, run: Run) -> Result<$item, Error> {
                let start = decoder.offset();
                let number = match run.0 {
                    None => $from(decoder.$method(stringify!($kind))?),
                    Some(real) => $foreign(decoder.integer(real, stringify!($kind))?),
                };
                decoder.note(start, || format!("{} {number}", Self::TYPE));
                Ok(number)
            }

            fn encode_run(encoder: &mut Encoder<'_>, items: &[$item]) -> Result<(), Error> {
                if encoder.layout().integers == Integers::Fixed {
                    return items.iter().try_for_each(|item| Self::encode(encoder, item));
                }
                <$method as Word>::put_run(encoder, items.iter().map(|item| $to(*item)));
                Ok(())
            }

            fn decode_run<'a>(
                decoder: &mut Decoder<'a>,
                run: Run,
                count: usize,
            ) -> Result<Vec<$item>, Error> {
                if run.0.is_some() || decoder.layout().integers == Integers::Fixed {
                    return decoder.one_by_one::<Self>(run, count);
                }
                <$method as Word>::take_run::<Self>(decoder, count, $from)
            }
        })*
    };
}

/// Whether integers of a C type are preceded by the code of the type they really have.
fn fixed(layout: Layout) -> bool {
    layout.integers == Integers::Fixed
}

const fn always(_: Layout) -> bool {
    true
}

fn low_i32(bits: u64) -> i32 {
    low_u32(bits).cast_signed()
}

native_integers! {
    /// `PMIX_INT`, a C `int` of 32 bits.
    Int: i32 = INT as INT32, i32, fixed, same, same, low_i32;
    /// `PMIX_UINT`, a C `unsigned int` of 32 bits; it travels as a signed number.
    Uint: u32 = UINT as INT32, i32, fixed, u32::cast_signed, i32::cast_unsigned, low_u32;
    /// `PMIX_SIZE`, a C `size_t` of 64 bits.
    Size: u64 = SIZE as UINT64, u64, fixed, same, same, same;
    /// `PMIX_PID`, a C `pid_t` of 32 bits; it travels as an unsigned number.
    Pid: i32 = PID as UINT32, u32, always, i32::cast_unsigned, u32::cast_signed, low_i32;
}

structure! {
    /// `PMIX_TIMEVAL`: seconds, then microseconds, both as `PMIX_INT64`.
    Timeval: Timeval = TIMEVAL { tv_sec: Int64, tv_usec: Int64, }
}

/// Floats travel as text: what C prints for `%f`, as a string.
///
/// DEVIATION: a number nearer to zero than a millionth is written with an exponent instead of
/// six decimals: every peer reads both, and the value is not lost; `small_floats_keep_their_digits`.
macro_rules! floats {
    ($($(#[$doc:meta])* $kind:ident: $item:ty = $data_type:ident;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind {}

        impl Sealed for $kind {}

        impl Kind for $kind {
            const TYPE: Type = Type::$data_type;
            const MIN_LEN: usize = 1;
            type Item<'a> = $item;

            fn encode(encoder: &mut Encoder<'_>, item: &$item) -> Result<(), Error> {
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

/// The longest text that an error repeats.
const QUOTED: usize = 32;

/// A text that is no number, or none at all.
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
    // C prints a sign in front of what is no number; Rust reads it only with the sign away.
    match text {
        "-nan" | "-nan(ind)" => "nan".parse().ok().map(T::neg),
        text => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Module;

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
}
