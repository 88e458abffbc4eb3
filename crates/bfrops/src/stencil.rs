// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many calls that differ in one datum alone.

use std::marker::PhantomData;

use pmix_types::{DataArray, DataType, Info, Key, Kval, Value};

use crate::kind::dispatch;
use crate::{Encoder, Error, Kind, Layout, kind};

/// A call of one `PMIX_KVAL` up to the datum of its value: key and type are packed once, for any
/// number of calls.
///
/// ```
/// use bfrops::{Encoder, KvalStencil, Layout, Module, kind};
/// use pmix_types::{Key, Kval, Value};
///
/// let layout = Layout::new(Module::V41);
/// let stencil = KvalStencil::new(layout, &Key::new("pmix.lrank"), &Value::Uint16(0))?;
/// let mut out = Vec::new();
/// Encoder::new(layout, &mut out).fill(&stencil, &Value::Uint16(7))?;
///
/// let mut whole = Vec::new();
/// let kval = Kval { key: Key::new("pmix.lrank"), value: Value::Uint16(7) };
/// Encoder::new(layout, &mut whole).one::<kind::Kval>(&kval)?;
/// assert_eq!(out, whole);
/// # Ok::<(), bfrops::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KvalStencil {
    layout: Layout,
    data_type: DataType,
    bytes: Box<[u8]>,
}

impl KvalStencil {
    /// The stencil of a key with values of the type that `like` has.
    ///
    /// # Errors
    ///
    /// If the module does not have the type.
    pub fn new(layout: Layout, key: &Key<'_>, like: &Value<'_>) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(layout, &mut bytes);
        encoder.one::<kind::Kval>(&Kval {
            key: key.clone(),
            value: like.clone(),
        })?;
        let mut datum = Vec::new();
        dispatch::encode_value(&mut Encoder::new(layout, &mut datum), like)?;
        bytes.truncate(bytes.len().saturating_sub(datum.len()));
        Ok(Self {
            layout,
            data_type: like.data_type(),
            bytes: bytes.into(),
        })
    }
}

impl KvalStencil {
    /// It is not for this, or not for the layout.
    #[cold]
    fn refuses(&self, found: DataType) -> Error {
        let expected = self.data_type;
        let message = format!("a stencil for {expected} in another layout, or for {found}");
        Error::unpackable(message)
    }
}

/// A call of one datum of a kind: what stands in front of it is packed once, for any number of
/// calls.
#[derive(Clone, Debug)]
pub struct CallStencil<K> {
    layout: Layout,
    head: Box<[u8]>,
    kind: PhantomData<K>,
}

impl<K: Kind> CallStencil<K> {
    /// The stencil of a kind.
    ///
    /// # Errors
    ///
    /// If the module does not have the type.
    pub fn new(layout: Layout) -> Result<Self, Error> {
        let mut head = Vec::new();
        Encoder::new(layout, &mut head).head(K::TYPE, 1)?;
        Ok(Self {
            layout,
            head: head.into(),
            kind: PhantomData,
        })
    }
}

/// A call of one `PMIX_KVAL` that holds an array of infos, up to the datum of each: keys and types
/// are packed once, for any number of calls.
#[derive(Clone, Debug)]
pub struct InfosStencil {
    layout: Layout,
    /// The type of each datum, and what stands in front of it.
    parts: Box<[(DataType, Box<[u8]>)]>,
}

impl InfosStencil {
    /// The stencil of a key with infos that have the keys and types of these.
    ///
    /// # Errors
    ///
    /// If the module does not have one of the types.
    pub fn new(layout: Layout, key: &Key<'_>, like: &[Info<'_>]) -> Result<Self, Error> {
        let mut items = Vec::new();
        for info in like {
            let (mut item, mut datum) = (Vec::new(), Vec::new());
            Encoder::new(layout, &mut item).field::<kind::Info>(info)?;
            dispatch::encode_value(&mut Encoder::new(layout, &mut datum), &info.value)?;
            items.push((info.value.data_type(), item, datum.len()));
        }
        // What stands in front of the first info.
        let mut head = Vec::new();
        Encoder::new(layout, &mut head).one::<kind::Kval>(&Kval {
            key: key.clone(),
            value: Value::DataArray(DataArray::Info(like.to_vec())),
        })?;
        let len: usize = items.iter().map(|(_, item, _)| item.len()).sum();
        head.truncate(head.len().saturating_sub(len));
        let parts = items.into_iter().map(|(data_type, item, datum)| {
            let mut part = std::mem::take(&mut head);
            let len = item.len().saturating_sub(datum);
            part.extend_from_slice(item.get(..len).unwrap_or_default());
            (data_type, part.into())
        });
        Ok(Self {
            layout,
            parts: parts.collect(),
        })
    }
}

impl Encoder<'_> {
    /// Packs a call of one kval with an array of infos whose keys a stencil has.
    ///
    /// # Errors
    ///
    /// If the stencil is of another layout or has other types, or if no peer could read a datum.
    pub fn fill_infos(
        &mut self,
        stencil: &InfosStencil,
        values: &[Value<'_>],
    ) -> Result<(), Error> {
        let types = stencil.parts.iter().map(|(data_type, _)| *data_type);
        if stencil.layout != self.layout() || !types.eq(values.iter().map(Value::data_type)) {
            return Err(Error::unpackable(
                "a stencil for other infos, or in another layout",
            ));
        }
        self.whole(|encoder| {
            for ((_, part), value) in stencil.parts.iter().zip(values) {
                encoder.bytes(part);
                dispatch::encode_value(encoder, value)?;
            }
            Ok(())
        })
    }

    /// Packs a call of one datum of the kind that a stencil has.
    ///
    /// # Errors
    ///
    /// If the stencil is of another layout, or if no peer could read the datum.
    #[inline]
    pub fn fill_call<K: Kind>(
        &mut self,
        stencil: &CallStencil<K>,
        item: &K::Item<'_>,
    ) -> Result<(), Error> {
        if stencil.layout != self.layout() {
            return Err(Error::unpackable("a stencil for another layout"));
        }
        self.whole(|encoder| {
            encoder.bytes(&stencil.head);
            encoder.field::<K>(item)
        })
    }

    /// Packs a call of one kval whose key a stencil has, with a datum of this kind.
    ///
    /// # Errors
    ///
    /// As [`Self::fill`].
    #[inline]
    pub fn fill_datum<K: Kind>(
        &mut self,
        stencil: &KvalStencil,
        item: &K::Item<'_>,
    ) -> Result<(), Error> {
        if stencil.layout != self.layout() || stencil.data_type != K::TYPE {
            return Err(stencil.refuses(K::TYPE));
        }
        self.whole(|encoder| {
            encoder.bytes(&stencil.bytes);
            encoder.field::<K>(item)
        })
    }

    /// Packs a call of one kval whose key a stencil has.
    ///
    /// # Errors
    ///
    /// If the stencil is of another layout or type, or if no peer could read the datum.
    #[inline]
    pub fn fill(&mut self, stencil: &KvalStencil, value: &Value<'_>) -> Result<(), Error> {
        if stencil.layout != self.layout() || stencil.data_type != value.data_type() {
            return Err(stencil.refuses(value.data_type()));
        }
        self.whole(|encoder| {
            encoder.bytes(&stencil.bytes);
            dispatch::encode_value(encoder, value)
        })
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::Rank;

    use super::*;
    use crate::{BufferKind, Module};

    #[test]
    fn a_filled_stencil_is_the_whole_call_in_every_layout() {
        let values = [
            (Value::Uint16(0), Value::Uint16(300)),
            (Value::Uint32(70_000), Value::Uint32(1)),
            (Value::from("host"), Value::from("another host")),
            (Value::Pid(1), Value::Pid(70_000)),
            (Value::Size(1), Value::Size(u64::MAX)),
        ];
        for module in Module::ALL {
            for buffer in [BufferKind::NonDescribed, BufferKind::Described] {
                let mut layout = Layout::new(module);
                layout.buffer = buffer;
                for (like, value) in &values {
                    let key = Key::new("some.key");
                    let stencil = KvalStencil::new(layout, &key, like).unwrap();
                    let (mut filled, mut whole) = (Vec::new(), Vec::new());
                    let mut encoder = Encoder::new(layout, &mut filled);
                    encoder.fill(&stencil, value).unwrap();
                    if let Value::Uint16(number) = value {
                        let mut datum = Vec::new();
                        let mut encoder = Encoder::new(layout, &mut datum);
                        encoder
                            .fill_datum::<kind::Uint16>(&stencil, number)
                            .unwrap();
                        assert_eq!(datum, filled, "{layout:?}");
                    }
                    let value = value.clone();
                    let mut encoder = Encoder::new(layout, &mut whole);
                    encoder.one::<kind::Kval>(&Kval { key, value }).unwrap();
                    assert_eq!(filled, whole, "{layout:?}");
                }
            }
        }
    }

    #[test]
    fn a_filled_call_is_the_whole_call_in_every_layout() {
        for module in Module::ALL {
            for buffer in [BufferKind::NonDescribed, BufferKind::Described] {
                let mut layout = Layout::new(module);
                layout.buffer = buffer;
                let stencil = CallStencil::<kind::Rank>::new(layout).unwrap();
                for rank in [0, 300, u32::MAX].map(Rank::new) {
                    let (mut filled, mut whole) = (Vec::new(), Vec::new());
                    let mut encoder = Encoder::new(layout, &mut filled);
                    encoder.fill_call(&stencil, &rank).unwrap();
                    let mut encoder = Encoder::new(layout, &mut whole);
                    encoder.one::<kind::Rank>(&rank).unwrap();
                    assert_eq!(filled, whole, "{layout:?}");
                }
            }
        }
    }

    #[test]
    fn filled_infos_are_the_whole_call_in_every_layout() {
        let infos = |name: &'static str, number| {
            vec![
                Info::new("some.name", name),
                Info::new("some.number", Value::Uint32(number)),
                Info::new("another", Value::Uint16(7)),
            ]
        };
        for module in Module::ALL {
            for buffer in [BufferKind::NonDescribed, BufferKind::Described] {
                let mut layout = Layout::new(module);
                layout.buffer = buffer;
                let key = Key::new("some.key");
                let stencil = InfosStencil::new(layout, &key, &infos("", 0)).unwrap();
                let infos = infos("host", 70_000);
                let values: Vec<_> = infos.iter().map(|info| info.value.clone()).collect();
                let (mut filled, mut whole) = (Vec::new(), Vec::new());
                let mut encoder = Encoder::new(layout, &mut filled);
                encoder.fill_infos(&stencil, &values).unwrap();
                assert!(encoder.fill_infos(&stencil, &values[1..]).is_err());
                let value = Value::DataArray(DataArray::Info(infos));
                let mut encoder = Encoder::new(layout, &mut whole);
                encoder.one::<kind::Kval>(&Kval { key, value }).unwrap();
                assert_eq!(filled, whole, "{layout:?}");
            }
        }
    }

    #[test]
    fn a_stencil_takes_no_other_type_and_no_other_layout() {
        let layout = Layout::new(Module::V41);
        let stencil = KvalStencil::new(layout, &Key::new("k"), &Value::Uint16(0)).unwrap();
        let mut out = vec![9];
        let mut encoder = Encoder::new(layout, &mut out);
        assert!(encoder.fill(&stencil, &Value::Uint32(1)).is_err());
        assert!(encoder.fill_datum::<kind::Uint32>(&stencil, &1).is_err());
        let mut encoder = Encoder::new(Layout::new(Module::V12), &mut out);
        assert!(encoder.fill(&stencil, &Value::Uint16(1)).is_err());
        assert_eq!(out, [9]);
    }
}
