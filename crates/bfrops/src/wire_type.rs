// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire types: the packed form of each PMIx type.
//!
//! A wire type is a name without a value, as in `decoder.one::<wire_type::Proc>()`. It
//! distinguishes types with the same Rust type (`PMIX_SIZE` and `PMIX_UINT64`).
//!
//! Source: PMIx Standard, chapter "Data Packing and Unpacking", for the types; OpenPMIx for their
//! bytes, recorded in `testdata/bfrops`.

pub(crate) mod dispatch;
mod fabric;
mod float;
mod info;
mod number;
mod opaque;
mod stats;
mod structure;
mod text;

use pmix_types::DataType as Type;

use crate::{Decoder, Encoder, Error};

pub(crate) use dispatch::{decode_elements, encode_elements};
pub use fabric::{Coord, Cpuset, Device, DeviceDistance, Geometry, ResourceUnit, Topology};
pub use float::{Double, Float};
pub use info::{
    App, DataArray, Endpoint, Envar, Info, Kval, NodePid, Pdata, Proc, ProcInfo, Query, Regattr,
    Value,
};
pub use number::*;
pub use opaque::{
    Buffer, ByteObject, CompressedByteObject, CompressedString, DataBuffer, Pointer, Regex, Regex2,
};
pub use stats::{DiskStats, NetStats, NodeStats, ProcStats};
pub use text::{Key, Nspace, String};

/// The packing and unpacking of one PMIx type.
///
/// Other crates cannot implement it.
pub trait WireType: sealed::Sealed + Sized {
    /// The PMIx type.
    const TYPE: Type;
    /// The minimum length of a packed datum in bytes. It bounds the number of data in a message.
    const MIN_LEN: usize;
    /// The Rust type of a datum.
    type Item<'a>;

    /// Packs the bytes that precede consecutive data once.
    #[doc(hidden)]
    #[inline]
    fn begin(encoder: &mut Encoder<'_>) -> Result<(), Error> {
        let _ = encoder;
        Ok(())
    }

    /// Packs a datum.
    #[doc(hidden)]
    fn encode(encoder: &mut Encoder<'_>, item: &Self::Item<'_>) -> Result<(), Error>;

    /// Packs consecutive data.
    #[doc(hidden)]
    #[inline]
    fn encode_run(encoder: &mut Encoder<'_>, items: &[Self::Item<'_>]) -> Result<(), Error> {
        items
            .iter()
            .try_for_each(|item| Self::encode(encoder, item))
    }

    /// Unpacks the bytes that precede consecutive data once.
    #[doc(hidden)]
    #[inline]
    fn start(decoder: &mut Decoder<'_>) -> Result<Run, Error> {
        let _ = decoder;
        Ok(Run::default())
    }

    /// Unpacks a datum.
    #[doc(hidden)]
    fn decode<'a>(decoder: &mut Decoder<'a>, run: Run) -> Result<Self::Item<'a>, Error>;

    /// Unpacks consecutive data, whose memory the caller has already counted.
    #[doc(hidden)]
    #[inline]
    fn decode_run<'a>(
        decoder: &mut Decoder<'a>,
        run: Run,
        count: usize,
    ) -> Result<Vec<Self::Item<'a>>, Error> {
        decoder.one_by_one::<Self>(run, count)
    }
}

/// The actual type of consecutive data, if the message has its code.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Run(pub(crate) Option<Type>);

pub(crate) mod sealed {
    /// Keeps other crates from implementing wire types.
    pub trait Sealed {}
}
