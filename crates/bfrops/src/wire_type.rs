// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire types: how each PMIx type is packed and unpacked.
//!
//! A wire type is a name without a value: `decoder.one::<wire_type::Proc>()`. Where two types hold the same
//! Rust type (`PMIX_SIZE` and `PMIX_UINT64`) the kind tells them apart.
//!
//! Source: PMIx Standard, chapter "Data Packing and Unpacking", for the types; OpenPMIx for their
//! bytes, recorded in `testdata/bfrops`.

pub(crate) mod dispatch;
mod fabric;
mod float;
mod info;
mod number;
mod opaque;
mod process;
mod stats;
mod structure;
mod text;

use pmix_types::DataType as Type;

use crate::{Decoder, Encoder, Error};

pub use fabric::{Coord, Cpuset, Device, DeviceDistance, Geometry, ResourceUnit, Topology};
pub use float::{Double, Float};
pub use info::{App, DataArray, Info, Kval, Pdata, Query, Regattr, Value};
pub use number::*;
pub use opaque::{
    Buffer, ByteObject, CompressedByteObject, CompressedString, DataBuffer, Pointer, Regex, Regex2,
};
pub use process::{Endpoint, Envar, NodePid, Proc, ProcInfo};
pub use stats::{DiskStats, NetStats, NodeStats, ProcStats};
pub use text::{Key, Nspace, String};

pub(crate) use dispatch::{decode_elements, encode_elements};

/// Packs and unpacks data of one PMIx type.
///
/// No other crate can implement it.
pub trait WireType: sealed::Sealed + Sized {
    /// The PMIx type that it packs.
    const TYPE: Type;
    /// The fewest bytes a datum takes, which bounds how many a message can hold.
    const MIN_LEN: usize;
    /// The datum in Rust.
    type Item<'a>;

    /// Packs what stands once in front of a run of data.
    #[doc(hidden)]
    #[inline]
    fn begin(encoder: &mut Encoder<'_>) -> Result<(), Error> {
        let _ = encoder;
        Ok(())
    }

    /// Packs a datum.
    #[doc(hidden)]
    fn encode(encoder: &mut Encoder<'_>, item: &Self::Item<'_>) -> Result<(), Error>;

    /// Packs data one behind the other.
    #[doc(hidden)]
    #[inline]
    fn encode_run(encoder: &mut Encoder<'_>, items: &[Self::Item<'_>]) -> Result<(), Error> {
        items
            .iter()
            .try_for_each(|item| Self::encode(encoder, item))
    }

    /// Unpacks what stands once in front of a run of data.
    #[doc(hidden)]
    #[inline]
    fn start(decoder: &mut Decoder<'_>) -> Result<Run, Error> {
        let _ = decoder;
        Ok(Run::default())
    }

    /// Unpacks a datum.
    #[doc(hidden)]
    fn decode<'a>(decoder: &mut Decoder<'a>, run: Run) -> Result<Self::Item<'a>, Error>;

    /// Unpacks data one behind the other; memory for so many is taken already.
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

/// Says what stands in front of a run of data: the type they really have, if it is said.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Run(pub(crate) Option<Type>);

pub(crate) mod sealed {
    /// Keeps other crates from implementing wire types.
    pub trait Sealed {}
}
