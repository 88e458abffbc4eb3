// SPDX-License-Identifier: MIT OR Apache-2.0
//! Structures: consecutive fields without separators.
//!
//! Source: OpenPMIx, recorded in `testdata/bfrops`.

use std::marker::PhantomData;

use pmix_types::DataType;

use crate::{Decoder, Encoder, Error, WireType, wire_type};

/// Defines a wire type for a structure. Lists the fields in packed order. Omitted fields are not
/// packed, and are unpacked as their default.
macro_rules! structure {
    ($(#[$doc:meta])* $kind:ident: $type:ident<'a> = $data_type:ident { $($fields:tt)* }) => {
        structure!(@kind $(#[$doc])* $kind, pmix_types::$type<'a>, $type, $data_type, $($fields)*);
    };
    ($(#[$doc:meta])* $kind:ident: $type:ident = $data_type:ident { $($fields:tt)* }) => {
        structure!(@kind $(#[$doc])* $kind, pmix_types::$type, $type, $data_type, $($fields)*);
    };
    (@kind $(#[$doc:meta])* $kind:ident, $item:ty, $type:ident, $data_type:ident,
        $($field:ident: $field_kind:ty,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind {}

        impl crate::wire_type::sealed::Sealed for $kind {}

        impl crate::WireType for $kind {
            const TYPE: pmix_types::DataType = pmix_types::DataType::$data_type;
            const MIN_LEN: usize = 0 $(+ <$field_kind as crate::WireType>::MIN_LEN)*;
            type Item<'a> = $item;

            #[inline]
            fn encode(
                encoder: &mut crate::Encoder<'_>,
                item: &Self::Item<'_>,
            ) -> Result<(), crate::Error> {
                $(encoder.field::<$field_kind>(&item.$field)?;)*
                Ok(())
            }

            #[inline]
            #[allow(clippy::needless_update, reason = "some structures pack every field")]
            fn decode<'a>(
                decoder: &mut crate::Decoder<'a>,
                _: crate::wire_type::Run,
            ) -> Result<Self::Item<'a>, crate::Error> {
                Ok(pmix_types::$type {
                    $($field: decoder.field::<$field_kind>(stringify!($field))?,)*
                    ..Default::default()
                })
            }
        }
    };
}
pub(crate) use structure;

/// A list in a structure: the number of elements as a `C`, then the elements as `K`.
pub(crate) struct List<C, K>(PhantomData<(C, K)>);

/// A wire type for the length of a list.
pub(crate) trait Count {
    fn put(encoder: &mut Encoder<'_>, count: usize) -> Result<(), Error>;
    fn get(decoder: &mut Decoder<'_>) -> Result<usize, Error>;
}

impl Count for wire_type::Size {
    fn put(encoder: &mut Encoder<'_>, count: usize) -> Result<(), Error> {
        encoder.size(count)
    }

    fn get(decoder: &mut Decoder<'_>) -> Result<usize, Error> {
        decoder.size("count")
    }
}

impl Count for wire_type::Int32 {
    fn put(encoder: &mut Encoder<'_>, count: usize) -> Result<(), Error> {
        encoder.count(count)
    }

    fn get(decoder: &mut Decoder<'_>) -> Result<usize, Error> {
        decoder.count("count")
    }
}

impl Count for wire_type::Int {
    fn put(encoder: &mut Encoder<'_>, count: usize) -> Result<(), Error> {
        Self::begin(encoder)?;
        encoder.count(count)
    }

    fn get(decoder: &mut Decoder<'_>) -> Result<usize, Error> {
        let start = decoder.offset();
        let count = decoder.field::<Self>("count")?;
        usize::try_from(count)
            .map_err(|_| Error::malformed(start, format!("count {count} is negative")))
    }
}

impl<C, K> wire_type::sealed::Sealed for List<C, K> {}

impl<C: Count, K: WireType> WireType for List<C, K> {
    const TYPE: DataType = K::TYPE;
    const MIN_LEN: usize = 1;
    type Item<'a> = Vec<K::Item<'a>>;

    fn encode(encoder: &mut Encoder<'_>, items: &Self::Item<'_>) -> Result<(), Error> {
        C::put(encoder, items.len())?;
        if items.is_empty() {
            return Ok(());
        }
        encoder.run::<K>(items)
    }

    fn decode<'a>(decoder: &mut Decoder<'a>, _: wire_type::Run) -> Result<Self::Item<'a>, Error> {
        match C::get(decoder)? {
            0 => Ok(Vec::new()),
            count => decoder.run::<K>(count),
        }
    }
}
