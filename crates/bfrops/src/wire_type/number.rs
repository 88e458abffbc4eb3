// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers: truth values, integers, states and directives, times.
//!
//! Source: OpenPMIx, recorded in `testdata/bfrops`.

use pmix_types::{DataType as Type, Rank as RankNumber, Status as StatusNumber};

use crate::legacy::code::{LegacyForm, low_u8, low_u16, low_u32};
use crate::wire_type::Run;
use crate::wire_type::sealed::Sealed;
use crate::wire_type::structure::structure;
use crate::{Decoder, Encoder, Error, Integers, Layout, Module, WireType};

/// Implements packing of consecutive integers: in one step in groups of seven bits, else one by
/// one.
macro_rules! runs {
    ($item:ty, $method:ident, $to:expr, $from:expr) => {
        fn encode_run(encoder: &mut Encoder<'_>, items: &[$item]) -> Result<(), Error> {
            if encoder.layout().integers == Integers::Fixed {
                return items
                    .iter()
                    .try_for_each(|item| Self::encode(encoder, item));
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
    };
}

/// Defines wire types with a method of the encoder for packing and one of the decoder for
/// unpacking.
macro_rules! numbers {
    ($($(#[$doc:meta])* $kind:ident: $item:ty = $data_type:ident, $method:ident, $min:literal,
        $to:expr, $from:expr;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind {}

        impl Sealed for $kind {}

        impl WireType for $kind {
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

            runs!($item, $method, $to, $from);
        })*
    };
}

/// A packed representation of numbers, with faster methods for consecutive numbers.
trait Word: Sized {
    fn put_run(encoder: &mut Encoder<'_>, words: impl ExactSizeIterator<Item = Self>);

    fn take_run<'a, K: WireType>(
        decoder: &mut Decoder<'a>,
        count: usize,
        from: impl Fn(Self) -> K::Item<'a>,
    ) -> Result<Vec<K::Item<'a>>, Error>;
}

impl Word for u8 {
    fn put_run(encoder: &mut Encoder<'_>, words: impl ExactSizeIterator<Item = Self>) {
        encoder.byte_run(words);
    }

    fn take_run<'a, K: WireType>(
        decoder: &mut Decoder<'a>,
        count: usize,
        from: impl Fn(Self) -> K::Item<'a>,
    ) -> Result<Vec<K::Item<'a>>, Error> {
        let bytes = decoder.take(count, "a run of bytes")?;
        let mut items = pmix_types::memory::list(count)?;
        items.extend(bytes.iter().map(|byte| from(*byte)));
        Ok(items)
    }
}

macro_rules! words {
    ($($word:ty),*) => {
        $(impl Word for $word {
            fn put_run(encoder: &mut Encoder<'_>, words: impl ExactSizeIterator<Item = Self>) {
                encoder.flex_run(words);
            }

            fn take_run<'a, K: WireType>(
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

/// Defines wire types for enumerations of the data model that keep unknown numbers.
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
    /// `PMIX_BOOL`: one byte, zero or nonzero.
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

/// Defines wire types whose form in v12 and v20 differs.
macro_rules! aged_numbers {
    ($($(#[$doc:meta])* $kind:ident: $item:ty = $data_type:ident, $method:ident, $to:expr,
        $from:expr; up to $last:ident: $old:ident, $wide:expr, $narrow:expr;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind {}

        impl Sealed for $kind {}

        impl WireType for $kind {
            const TYPE: Type = Type::$data_type;
            const MIN_LEN: usize = 1;
            type Item<'a> = $item;

            #[inline]
            fn begin(encoder: &mut Encoder<'_>) -> Result<(), Error> {
                if encoder.module() <= Module::$last {
                    LegacyForm::$old.begin(encoder);
                }
                Ok(())
            }

            #[inline]
            fn encode(encoder: &mut Encoder<'_>, item: &$item) -> Result<(), Error> {
                let number = $to(*item);
                if encoder.module() <= Module::$last {
                    LegacyForm::$old.put(encoder, $wide(number));
                } else {
                    encoder.$method(number);
                }
                Ok(())
            }

            #[inline]
            fn start(decoder: &mut Decoder<'_>) -> Result<Run, Error> {
                match decoder.module() <= Module::$last {
                    true => LegacyForm::$old.start(decoder),
                    false => Ok(Run::default()),
                }
            }

            #[inline]
            fn decode(decoder: &mut Decoder<'_>, run: Run) -> Result<$item, Error> {
                let start = decoder.offset();
                let number = match decoder.module() <= Module::$last {
                    true => $narrow(LegacyForm::$old.get(decoder, run, stringify!($kind))?),
                    false => decoder.$method(stringify!($kind))?,
                };
                decoder.note(start, || format!("{} {number}", Self::TYPE));
                Ok($from(number))
            }

            runs!($item, $method, $to, $from);
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

/// Defines wire types whose C type has no fixed width. If integers are packed with fixed width, the
/// code of the actual type precedes consecutive data. `PMIX_PID` always has this code.
macro_rules! native_integers {
    ($($(#[$doc:meta])* $kind:ident: $item:ty = $data_type:ident as $real:ident, $method:ident,
        $says:ident, $to:expr, $from:expr, $foreign:expr;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind {}

        impl Sealed for $kind {}

        impl WireType for $kind {
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

            runs!($item, $method, $to, $from);
        })*
    };
}

/// Returns `true` if the code of the actual type precedes integers of a C type.
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
    /// `PMIX_UINT`, a C `unsigned int` of 32 bits. It is packed as a signed number.
    Uint: u32 = UINT as INT32, i32, fixed, u32::cast_signed, i32::cast_unsigned, low_u32;
    /// `PMIX_SIZE`, a C `size_t` of 64 bits.
    Size: u64 = SIZE as UINT64, u64, fixed, same, same, same;
    /// `PMIX_PID`, a C `pid_t` of 32 bits. It is packed as an unsigned number.
    Pid: i32 = PID as UINT32, u32, always, i32::cast_unsigned, u32::cast_signed, low_i32;
}

structure! {
    /// `PMIX_TIMEVAL`: seconds, then microseconds, both as `PMIX_INT64`.
    Timeval: Timeval = TIMEVAL { tv_sec: Int64, tv_usec: Int64, }
}
