// SPDX-License-Identifier: MIT OR Apache-2.0
//! Upcalls and answers as bytes, for a host whose nodes are separate processes.
//!
//! ```text
//! node: Host::group ── Upcall::pack ──> controller: Upcall::unpack, GroupAssembler::take
//! node: Completion  <── HostReply::unpack ── controller: HostReply::pack
//! ```
//!
//! | part | form |
//! | --- | --- |
//! | version | `PMIX_BYTE`: 1 |
//! | name of the upcall, or kind of the answer | `PMIX_STRING` |
//! | fields, in the order of [`Upcall`] or [`HostReply`] | a pack call for each; an optional field has a `PMIX_BOOL` before it, a result a `PMIX_STATUS` |
//!
//! All processes of a host run one version of this crate: another version is refused.
//!
//! Source: this project; the pack calls are those of `bfrops`, PMIx 6.1 with the types of all releases.

use std::borrow::Cow;
use std::sync::Arc;

use bfrops::{Decoder, Encoder, Layout, Module, wire_type};
use pmix_types::{
    AllocDirective, App, DataRange, DeviceDistance, FabricOperation, GroupOperation, Info,
    IntoOwned, IofChannel, Nspace, Pdata, Proc, Query, ResourceBlockDirective, ResourceUnit,
    Status, Text,
};

use super::{HostObject, HostReply};
use crate::Error;

/// The version of the form.
const VERSION: u8 = 1;

type Result<T> = std::result::Result<T, bfrops::Error>;

/// A field of an upcall or a reply.
pub(super) trait Field: Sized {
    fn pack(&self, encoder: &mut Encoder<'_>) -> Result<()>;
    fn unpack(decoder: &mut Decoder<'_>) -> Result<Self>;
}

/// Implements [`Field`] for a type that is one datum of a wire type, and for lists of it.
macro_rules! data {
    ($($field:ty = $wire:ident;)*) => {
        $(
            impl Field for $field {
                fn pack(&self, encoder: &mut Encoder<'_>) -> Result<()> {
                    encoder.one::<wire_type::$wire>(self)
                }

                fn unpack(decoder: &mut Decoder<'_>) -> Result<Self> {
                    Ok(decoder.one::<wire_type::$wire>()?.into_owned())
                }
            }

            impl Field for Vec<$field> {
                fn pack(&self, encoder: &mut Encoder<'_>) -> Result<()> {
                    encoder.call::<wire_type::$wire>(self)
                }

                fn unpack(decoder: &mut Decoder<'_>) -> Result<Self> {
                    let items = decoder.all::<wire_type::$wire>()?;
                    Ok(items.into_iter().map(IntoOwned::into_owned).collect())
                }
            }
        )*
    };
}

data! {
    Proc<'static> = Proc;
    Info<'static> = Info;
    App<'static> = App;
    Query<'static> = Query;
    Pdata<'static> = Pdata;
    DeviceDistance<'static> = DeviceDistance;
    Nspace<'static> = Nspace;
}

/// Implements [`Field`] for numbers.
macro_rules! numbers {
    ($($field:ty = $wire:ident, $to:expr, $from:expr;)*) => {
        $(
            impl Field for $field {
                fn pack(&self, encoder: &mut Encoder<'_>) -> Result<()> {
                    encoder.one::<wire_type::$wire>(&$to(*self))
                }

                fn unpack(decoder: &mut Decoder<'_>) -> Result<Self> {
                    decoder.one::<wire_type::$wire>().map($from)
                }
            }
        )*
    };
}

const fn same<T: Copy>(number: T) -> T {
    number
}

numbers! {
    bool = Bool, same, same;
    u8 = Byte, same, same;
    u32 = Uint32, same, same;
    HostObject = Uint64, |object: HostObject| object.0, HostObject;
    Status = Status, same, same;
    DataRange = DataRange, same, same;
    AllocDirective = AllocDirective, same, same;
    IofChannel = IofChannel, same, same;
    ResourceBlockDirective = ResourceBlockDirective, same, same;
    GroupOperation = Uint32, GroupOperation::as_raw, GroupOperation::from_raw;
    FabricOperation = Uint32, FabricOperation::as_raw, FabricOperation::from_raw;
}

impl Field for Vec<Status> {
    fn pack(&self, encoder: &mut Encoder<'_>) -> Result<()> {
        encoder.call::<wire_type::Status>(self)
    }

    fn unpack(decoder: &mut Decoder<'_>) -> Result<Self> {
        decoder.all::<wire_type::Status>()
    }
}

impl Field for Vec<ResourceUnit> {
    fn pack(&self, encoder: &mut Encoder<'_>) -> Result<()> {
        encoder.call::<wire_type::ResourceUnit>(self)
    }

    fn unpack(decoder: &mut Decoder<'_>) -> Result<Self> {
        decoder.all::<wire_type::ResourceUnit>()
    }
}

impl Field for Text<'static> {
    fn pack(&self, encoder: &mut Encoder<'_>) -> Result<()> {
        encoder.one::<wire_type::String>(&Some(self.clone()))
    }

    fn unpack(decoder: &mut Decoder<'_>) -> Result<Self> {
        let text = decoder.one::<wire_type::String>()?;
        Ok(text.unwrap_or_default().into_owned())
    }
}

impl Field for Vec<Text<'static>> {
    fn pack(&self, encoder: &mut Encoder<'_>) -> Result<()> {
        let texts: Vec<_> = self.iter().cloned().map(Some).collect();
        encoder.call::<wire_type::String>(&texts)
    }

    fn unpack(decoder: &mut Decoder<'_>) -> Result<Self> {
        let texts = decoder.all::<wire_type::String>()?.into_iter();
        let texts = texts.map(|text| text.unwrap_or_default().into_owned());
        Ok(texts.collect())
    }
}

impl Field for Vec<u8> {
    fn pack(&self, encoder: &mut Encoder<'_>) -> Result<()> {
        encoder.one::<wire_type::ByteObject>(&Cow::Borrowed(self))
    }

    fn unpack(decoder: &mut Decoder<'_>) -> Result<Self> {
        let bytes = decoder.one::<wire_type::ByteObject>()?;
        Ok(bytes.into_owned())
    }
}

impl<T: Field> Field for Option<T> {
    fn pack(&self, encoder: &mut Encoder<'_>) -> Result<()> {
        self.is_some().pack(encoder)?;
        self.as_ref().map_or(Ok(()), |field| field.pack(encoder))
    }

    fn unpack(decoder: &mut Decoder<'_>) -> Result<Self> {
        match bool::unpack(decoder)? {
            true => T::unpack(decoder).map(Some),
            false => Ok(None),
        }
    }
}

impl<T: Field> Field for std::result::Result<T, Status> {
    fn pack(&self, encoder: &mut Encoder<'_>) -> Result<()> {
        match self {
            Ok(field) => {
                true.pack(encoder)?;
                field.pack(encoder)
            }
            Err(status) => {
                false.pack(encoder)?;
                status.pack(encoder)
            }
        }
    }

    fn unpack(decoder: &mut Decoder<'_>) -> Result<Self> {
        match bool::unpack(decoder)? {
            true => T::unpack(decoder).map(Ok),
            false => Status::unpack(decoder).map(Err),
        }
    }
}

impl Field for Vec<Arc<Pdata<'static>>> {
    fn pack(&self, encoder: &mut Encoder<'_>) -> Result<()> {
        encoder.call_shared::<wire_type::Pdata>(self)
    }

    fn unpack(decoder: &mut Decoder<'_>) -> Result<Self> {
        let data = Vec::<Pdata<'static>>::unpack(decoder)?;
        Ok(data.into_iter().map(Arc::new).collect())
    }
}

const fn layout() -> Layout {
    Layout::new(Module::V61)
}

/// Packs the version, a name and the fields.
pub(super) fn pack(
    name: &'static str,
    fields: impl FnOnce(&mut Encoder<'_>) -> Result<()>,
) -> std::result::Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(layout(), &mut bytes).with_all_types();
    VERSION.pack(&mut encoder)?;
    Text::from(name).pack(&mut encoder)?;
    fields(&mut encoder)?;
    Ok(bytes)
}

/// Unpacks the version and a name, then the fields, and checks that no bytes follow.
pub(super) fn unpack<T>(
    bytes: &[u8],
    kind: &'static str,
    fields: impl FnOnce(&[u8], &mut Decoder<'_>) -> Option<Result<T>>,
) -> std::result::Result<T, Error> {
    let mut decoder = Decoder::new(layout(), bytes).with_all_types();
    let version = u8::unpack(&mut decoder)?;
    if version != VERSION {
        return Err(Error::bad(format!(
            "{kind} of version {version}, expected {VERSION}: run one version of the host on all nodes"
        )));
    }
    let name = Text::unpack(&mut decoder)?;
    let Some(found) = fields(name.as_bytes(), &mut decoder) else {
        return Err(Error::bad(format!("{name} is not the name of {kind}")));
    };
    let found = found?;
    // Further bytes would be fields of another version.
    decoder.finish()?;
    Ok(found)
}

/// Declares the packed fields of each variant of [`HostReply`].
macro_rules! answers {
    ($($variant:ident($($field:ident),*);)*) => {
        impl HostReply {
            /// Packs the reply, for the node that holds the completion handle.
            ///
            /// # Errors
            ///
            /// Returns `PMIX_ERR_BAD_PARAM` for values that cannot be packed.
            pub fn pack(&self) -> std::result::Result<Vec<u8>, Error> {
                match self {
                    Self::NotSupported => pack("NotSupported", |_| Ok(())),
                    $(Self::$variant($($field),*) => pack(stringify!($variant), |encoder| {
                        $($field.pack(encoder)?;)*
                        Ok(())
                    }),)*
                }
            }

            /// Unpacks a reply packed by [`pack`](Self::pack).
            ///
            /// # Errors
            ///
            /// Returns `PMIX_ERR_BAD_PARAM` for another version or kind, and the status of the decoder for damaged
            /// bytes.
            pub fn unpack(bytes: &[u8]) -> std::result::Result<Self, Error> {
                unpack(bytes, "a reply of the host", |name, decoder| {
                    if name == b"NotSupported" {
                        return Some(Ok(Self::NotSupported));
                    }
                    $(if name == stringify!($variant).as_bytes() {
                        return Some((|| {
                            $(let $field = Field::unpack(decoder)?;)*
                            Ok(Self::$variant($($field),*))
                        })());
                    })*
                    None
                })
            }
        }
    };
}

answers! {
    Done(status);
    Data(data);
    Found(status, data);
    Spawned(status, nspace);
    Infos(status, infos);
    Credential(credential, infos);
    Distances(distances);
    Tool(proc);
}

#[cfg(test)]
mod tests {
    use pmix_types::{DataArray, Rank, Value, keys};

    use super::super::{Group, Lookup, Publish, Upcall};
    use super::*;

    fn proc(rank: u32) -> Proc<'static> {
        Proc::new("job@1", Rank::new(rank))
    }

    fn infos() -> Vec<Info<'static>> {
        vec![
            Info::new(keys::USERID, 7_u32),
            Info::new(
                keys::GROUP_MEMBERSHIP,
                Value::DataArray(DataArray::Proc(vec![proc(0), proc(3)])),
            ),
        ]
    }

    fn upcalls() -> Vec<Upcall> {
        use super::super::{
            Abort, Alloc, ClientConnected, Connect, DeregisterEvents, DeviceDistances, Fabric,
            Fence, Monitor, NotifyEvent, PushStdin, ResourceBlock, SessionControl, Spawn,
        };
        let range = DataRange::SESSION;
        vec![
            Group::new(
                GroupOperation::CONSTRUCT,
                "g".into(),
                vec![proc(1)],
                infos(),
            )
            .into(),
            Abort::new(
                proc(0),
                HostObject(9),
                Status::ERROR,
                Some("why".into()),
                vec![],
            )
            .into(),
            Abort::new(proc(0), HostObject(9), Status::ERROR, None, vec![proc(2)]).into(),
            ClientConnected::new(proc(4), HostObject(u64::MAX), infos()).into(),
            Fence::new(vec![proc(0), proc(1)], infos(), vec![1, 2, 3]).into(),
            Connect::new(vec![proc(0)], vec![], Some(Status::ERR_TIMEOUT)).into(),
            DeregisterEvents::new(vec![Status::ERROR, Status::ERR_TIMEOUT]).into(),
            NotifyEvent::new(Status::ERR_LOST_CONNECTION, proc(0), range, infos()).into(),
            Publish::new(proc(0), infos()).into(),
            Lookup::new(proc(0), vec!["a".into(), "b".into()], vec![]).into(),
            Spawn::new(proc(0), infos(), vec![App::default()]).into(),
            Alloc::new(proc(0), AllocDirective::NEW, infos()).into(),
            Monitor::new(proc(0), Info::new("m", true), Status::ERROR, vec![]).into(),
            PushStdin::new(proc(0), vec![], vec![], b"in".to_vec()).into(),
            Fabric::new(proc(0), FabricOperation::from_raw(1), vec![]).into(),
            SessionControl::new(proc(0), 5, vec![]).into(),
            ResourceBlock::new(
                proc(0),
                ResourceBlockDirective::from_raw(1),
                "block".into(),
                vec![ResourceUnit::default()],
                vec![],
            )
            .into(),
            DeviceDistances::new(proc(0), Some("0,2-3".into()), vec![]).into(),
        ]
    }

    fn answers() -> Vec<HostReply> {
        vec![
            HostReply::Done(Status::ERR_NOT_FOUND),
            HostReply::NotSupported,
            HostReply::Data(Ok(vec![1, 2])),
            HostReply::Data(Err(Status::ERR_TIMEOUT)),
            HostReply::Found(Status::SUCCESS, vec![Arc::new(Pdata::default())]),
            HostReply::Spawned(Status::SUCCESS, "job@2".into()),
            HostReply::Infos(Status::ERR_PARTIAL_SUCCESS, infos()),
            HostReply::Credential(Ok(b"c".to_vec()), infos()),
            HostReply::Distances(Ok(vec![])),
            HostReply::Tool(Ok(proc(0))),
        ]
    }

    #[test]
    fn packing_round_trips() {
        for upcall in upcalls() {
            let bytes = upcall.pack().unwrap();
            assert_eq!(Upcall::unpack(&bytes).unwrap(), upcall);
        }
        for answer in answers() {
            let bytes = answer.pack().unwrap();
            assert_eq!(HostReply::unpack(&bytes).unwrap(), answer);
        }
    }

    #[test]
    fn damaged_bytes_are_refused() {
        for upcall in upcalls() {
            let bytes = upcall.pack().unwrap();
            for len in 0..bytes.len() {
                assert!(
                    Upcall::unpack(&bytes[..len]).is_err(),
                    "{upcall:?} to {len}"
                );
            }
            let longer = [&bytes[..], b"x"].concat();
            assert!(Upcall::unpack(&longer).is_err());
            for place in 0..bytes.len() {
                let mut other = bytes.clone();
                other[place] ^= 0xff;
                // Any result is valid; the decoder must only terminate without a panic.
                _ = Upcall::unpack(&other);
            }
        }
    }

    #[test]
    fn an_error_names_another_version_or_kind() {
        let mut bytes = HostReply::NotSupported.pack().unwrap();
        let error = Upcall::unpack(&bytes).unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
        assert_eq!(
            error.to_string(),
            "NotSupported is not the name of an upcall"
        );
        // The count of the pack call precedes the version.
        bytes[1] = 2;
        let error = HostReply::unpack(&bytes).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("a reply of the host of version 2, expected 1")
        );
    }
}
