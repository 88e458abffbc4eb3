// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values, arrays, processes, and structures of keys and values.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", for the fields; OpenPMIx for their
//! packed order.

use pmix_types::DataType;

use super::{Byte, ByteObject, Nspace, Pid, ProcState, Uint32};
use crate::legacy::code;
use crate::legacy::value::{Cwd, ProcRank, ValueContext};
use crate::refusal::Place;
use crate::wire_type::sealed::Sealed;
use crate::wire_type::structure::{List, structure};
use crate::wire_type::text::Word;
use crate::wire_type::{self, InfoFlags, Int, Int32, Key, Run, Size, dispatch};
use crate::{Decoder, Encoder, Error, Module, UntypedArrays, WireType};

/// Defines a wire type for values in a [`ValueContext`].
macro_rules! values {
    ($($(#[$doc:meta])* $visibility:vis $kind:ident = $part:ident;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $visibility enum $kind {}

        impl Sealed for $kind {}

        impl WireType for $kind {
            const TYPE: DataType = DataType::VALUE;
            const MIN_LEN: usize = 1;
            type Item<'a> = pmix_types::Value<'a>;

            #[inline]
            fn encode(encoder: &mut Encoder<'_>, item: &Self::Item<'_>) -> Result<(), Error> {
                let data_type = item.data_type();
                if encoder.module() <= Module::V20 {
                    encoder.old_value_head(item, ValueContext::$part)?;
                } else {
                    if data_type != DataType::UNDEF {
                        encoder.check(data_type, Place::PackValue)?;
                    }
                    encoder.type_code(data_type);
                }
                dispatch::encode_value(encoder, item)
            }

            #[inline]
            fn decode<'a>(decoder: &mut Decoder<'a>, _: Run) -> Result<Self::Item<'a>, Error> {
                let start = decoder.offset();
                let data_type = match decoder.module() {
                    Module::V12 | Module::V20 => decoder.old_value_head(ValueContext::$part)?,
                    _ => decoder.type_code()?,
                };
                dispatch::decode_value(decoder, data_type, start)
            }

            fn decode_run<'a>(
                decoder: &mut Decoder<'a>,
                run: Run,
                count: usize,
            ) -> Result<Vec<Self::Item<'a>>, Error> {
                match decoder.module() {
                    Module::V12 | Module::V20 => decoder.one_by_one::<Self>(run, count),
                    _ => dispatch::decode_values(decoder, count),
                }
            }
        })*
    };
}

values! {
    /// `PMIX_VALUE`: the code of the type, then the datum.
    pub Value = Alone;
    /// The value of an info or a published datum. Only modules before v21 distinguish it.
    pub(crate) InfoValue = OfInfo;
}

impl Encoder<'_> {
    /// Packs the rest of an array without elements, after the code of its type.
    fn no_data(&mut self, data_type: DataType, len: u64) -> Result<(), Error> {
        match data_type {
            DataType::UNDEF if self.layout().untyped == UntypedArrays::Bare => Ok(()),
            DataType::UNDEF => self.field::<Size>(&len),
            _ if len == 0 => self.size(0),
            _ => {
                let message = format!("an array of {len} {data_type} that are not there");
                Err(Error::unpackable(message))
            }
        }
    }
}

/// `PMIX_DATA_ARRAY`: the code of the element type, the number of elements as `PMIX_SIZE`, the
/// elements.
///
/// An array of type `PMIX_UNDEF` is packed without elements; since release 6.1 also without their
/// number ([`UntypedArrays`]).
#[derive(Clone, Copy, Debug)]
pub enum DataArray {}

impl Sealed for DataArray {}

impl WireType for DataArray {
    const TYPE: DataType = DataType::DATA_ARRAY;
    // An array of type `PMIX_UNDEF` may consist of its type code only.
    const MIN_LEN: usize = 1;
    type Item<'a> = pmix_types::DataArray<'a>;

    fn encode(encoder: &mut Encoder<'_>, item: &Self::Item<'_>) -> Result<(), Error> {
        if encoder.module() == Module::V12 {
            return encoder.info_array(item);
        }
        encoder.type_code(item.data_type());
        if let pmix_types::DataArray::Untyped { data_type, len } = item {
            return encoder.no_data(*data_type, *len);
        }
        encoder.size(item.len())?;
        if item.is_empty() {
            return Ok(());
        }
        let module = encoder.module();
        encoder.check(item.data_type(), Place::PackElement)?;
        encoder.repeated_type_code(code::declared(module, item.data_type()));
        encoder.nested(|encoder| dispatch::encode_elements(encoder, item))
    }

    fn decode<'a>(decoder: &mut Decoder<'a>, _: Run) -> Result<Self::Item<'a>, Error> {
        if decoder.module() == Module::V12 {
            return decoder.info_array();
        }
        let start = decoder.offset();
        let data_type = decoder.type_code()?;
        if data_type == DataType::UNDEF {
            let len = match decoder.layout().untyped {
                UntypedArrays::Sized => decoder.field::<wire_type::Size>("size")?,
                UntypedArrays::Bare => 0,
            };
            return Ok(pmix_types::DataArray::Untyped { data_type, len });
        }
        let len = decoder.size("size")?;
        if len == 0 {
            return Ok(pmix_types::DataArray::empty(data_type));
        }
        let (module, place) = (decoder.module(), Place::UnpackElement);
        decoder.check(data_type, place, start)?;
        decoder.repeated_type_code(code::declared(module, data_type))?;
        decoder.nested(|decoder| dispatch::decode_elements(decoder, data_type, len))
    }
}

structure! {
    /// `PMIX_INFO`: the key as a string, the directives, the value.
    Info: Info<'a> = INFO { key: Key, flags: InfoFlags, value: InfoValue, }
}

structure! {
    /// `PMIX_KVAL`: the key as a string, the value.
    Kval: Kval<'a> = KVAL { key: Key, value: Value, }
}

structure! {
    /// `PMIX_PDATA`: the process, the key as a string, the value.
    Pdata: Pdata<'a> = PDATA { proc: Proc, key: Key, value: InfoValue, }
}

structure! {
    /// `PMIX_QUERY`.
    Query: Query<'a> = QUERY { keys: List<Int32, Word>, qualifiers: List<Size, Info>, }
}

structure! {
    /// `PMIX_APP`.
    App: App<'a> = APP {
        cmd: wire_type::String,
        argv: List<Int, Word>,
        env: List<Int32, Word>,
        cwd: Cwd,
        maxprocs: Int,
        info: List<Size, Info>,
    }
}

structure! {
    /// `PMIX_REGATTR`.
    Regattr: Regattr<'a> = REGATTR {
        name: wire_type::String,
        string: Key,
        data_type: wire_type::DataType,
        description: List<Int32, Word>,
    }
}

structure! {
    /// `PMIX_PROC`: the nspace as a string, the rank.
    Proc: Proc<'a> = PROC { nspace: Nspace, rank: ProcRank, }
}

structure! {
    /// `PMIX_PROC_INFO`. The exit code is not packed.
    ProcInfo: ProcInfo<'a> = PROC_INFO {
        proc: Proc,
        hostname: wire_type::String,
        executable_name: wire_type::String,
        pid: Pid,
        state: ProcState,
    }
}

structure! {
    /// `PMIX_NODE_PID`.
    NodePid: NodePid<'a> = NODE_PID { hostname: wire_type::String, nodeid: Uint32, pid: Pid, }
}

structure! {
    /// `PMIX_ENVAR`.
    Envar: Envar<'a> = ENVAR { envar: wire_type::String, value: wire_type::String, separator: Byte, }
}

structure! {
    /// `PMIX_ENDPOINT`.
    Endpoint: Endpoint<'a> = ENDPOINT {
        uuid: wire_type::String,
        osname: wire_type::String,
        endpt: ByteObject,
    }
}
