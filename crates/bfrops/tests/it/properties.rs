// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties for random data. Unpacking restores packed data. A failed call leaves no bytes. A
//! damaged datum does not affect others.

use crate::losses::Losses;
use crate::records::Framer;
use bfrops::{BufferKind, Decoder, Encoder, Error, Integers, Layout, Limits, Module, wire_type};
use pmix_random::{Bytes, Carried, Random};
use pmix_types::{DataArray, DataType, Info, IntoOwned, Key, Nspace, Proc, Rank, Status, Value};
use proptest::prelude::*;

/// The codes of all types, except those of early modules only.
const TYPES: std::ops::RangeInclusive<u16> = 1..=75;

fn layout() -> impl Strategy<Value = Layout> {
    let module = prop::sample::select(Module::ALL.to_vec());
    let buffer = prop::sample::select(vec![BufferKind::NonDescribed, BufferKind::Described]);
    let integers = prop::sample::select(vec![Integers::Flex, Integers::Fixed]);
    (module, buffer, integers).prop_map(|(module, buffer, integers)| {
        Layout::new(module)
            .with_buffer(buffer)
            .with_integers(integers)
    })
}

/// Generates bytes from which data are built.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..400)
}

/// Builds data of a type from bytes.
fn made(data_type: DataType, noise: &[u8]) -> DataArray<'static> {
    let types: Vec<DataType> = (0..=*TYPES.end()).map(DataType::from_raw).collect();
    let carried = Carried {
        values: types.clone(),
        elements: types,
        is_whole: true,
        maps: vec![b"raw:n1,n2".to_vec(), b"n1,n2".to_vec()],
    };
    let mut source = Bytes::new(noise);
    let mut random = Random::new(&mut source, &carried);
    let count = random.below(8);
    random.data(data_type, count)
}

fn pack(layout: Layout, array: &DataArray<'_>) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(layout, &mut out).with_framer(&Framer);
    encoder.array(array).map(|()| out)
}

fn unpack(
    layout: Layout,
    data_type: DataType,
    bytes: &[u8],
) -> Result<(DataArray<'_>, usize), Error> {
    // A small datum takes more than eight times its packed length, and all data may be small.
    let limits = Limits {
        memory_factor: 64,
        ..Limits::default()
    };
    let mut decoder = Decoder::new(layout, bytes)
        .with_framer(&Framer)
        .with_limits(limits);
    let array = decoder.array(data_type)?;
    Ok((array, decoder.offset()))
}

/// Packs and unpacks data. Returns `None` if the layout lacks one of the types.
fn round_trip(layout: Layout, array: &DataArray<'_>) -> Result<Option<()>, TestCaseError> {
    let data_type = array.data_type();
    let mut expected = array.clone();
    let losses = Losses::of(layout, &mut expected);
    let bytes = match pack(layout, array) {
        Ok(bytes) => bytes,
        Err(error) => {
            let refused = data_type == DataType::UNDEF || !losses.known || losses.maps;
            prop_assert!(refused, "{array:?}: {error}");
            return Ok(None);
        }
    };
    if losses.open_end {
        return Ok(None);
    }
    let (mut read, end) = match unpack(layout, data_type, &bytes) {
        Ok(read) => read,
        Err(error) => {
            // v12 defines three types whose data it cannot pack.
            let by_name =
                layout.module == Module::V12 && matches!(data_type.as_raw(), 31 | 35 | 37);
            prop_assert!(by_name, "{array:?} in {layout:?}: {error}");
            prop_assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
            return Ok(None);
        }
    };
    prop_assert_eq!(end, bytes.len());
    // v12 packs two special ranks as other ranks.
    if layout.module > Module::V12 {
        let again = pack(layout, &read);
        prop_assert_eq!(again.as_ref(), Ok(&bytes));
    }
    Losses::of(layout, &mut read);
    prop_assert_eq!(&read, &expected);
    prop_assert_eq!(read.clone().into_owned(), expected);
    Ok(Some(()))
}

#[test]
fn every_type_makes_the_round_trip_in_every_module() {
    let scattered = |number: u32| number.wrapping_mul(0x9e37_79b1).to_be_bytes()[1];
    let noise: Vec<u8> = (0..4096).map(scattered).collect();
    for module in Module::ALL {
        for number in TYPES {
            let data_type = DataType::from_raw(number);
            let mut trips = 0;
            for start in 0..64 {
                let array = made(data_type, &noise[start * 7..]);
                let packed = round_trip(Layout::new(module), &array);
                trips += usize::from(packed.expect("the round trip").is_some());
            }
            let travels = module.registers(data_type)
                && (module != Module::V12 || !matches!(number, 31 | 35 | 37..=39 | 41));
            assert_eq!(trips > 0, travels, "{data_type} in {module}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn data_of_every_type_make_the_round_trip(
        layout in layout(),
        number in TYPES,
        noise in noise(),
    ) {
        let array = made(DataType::from_raw(number), &noise);
        round_trip(layout, &array)?;
    }

    #[test]
    fn values_in_infos_make_the_round_trip(layout in layout(), noise in noise()) {
        for data_type in [DataType::VALUE, DataType::INFO, DataType::DATA_ARRAY] {
            round_trip(layout, &made(data_type, &noise))?;
        }
    }

    #[test]
    fn bytes_at_random_never_panic(
        layout in layout(),
        number in 0_u16..=80,
        noise in noise(),
    ) {
        let data_type = DataType::from_raw(number);
        match unpack(layout, data_type, &noise) {
            Ok((array, end)) => {
                prop_assert!(end <= noise.len());
                prop_assert_eq!(array.data_type(), data_type);
            }
            Err(error) => {
                prop_assert!(!error.status().is_success());
                prop_assert!(error.offset().is_some_and(|offset| offset <= noise.len()));
            }
        }
    }

    #[test]
    fn a_failed_call_leaves_the_buffer_unchanged(
        layout in layout(),
        noise in noise(),
        before in prop::collection::vec(any::<u8>(), 0..20),
        place in any::<prop::sample::Index>(),
        fault in 0..3,
    ) {
        // No peer could unpack one of the infos: its key is too long, or its value is inconsistent.
        let DataArray::Info(mut infos) = made(DataType::INFO, &noise) else {
            unreachable!("data are of the type that was asked for");
        };
        let bad = match fault {
            0 => Info::new(Key::new("k".repeat(Key::MAX_LEN + 1)), Value::Bool(true)),
            1 => {
                let nspace = Nspace::new("n".repeat(Nspace::MAX_LEN + 1));
                Info::new("key", Value::Proc(Proc { nspace, rank: Rank::new(0) }))
            }
            _ => Info::new("key", Value::DataArray(DataArray::Untyped {
                data_type: DataType::UINT32,
                len: 1,
            })),
        };
        infos.insert(place.index(infos.len() + 1), bad);
        let mut out = before.clone();
        let mut encoder = Encoder::new(layout, &mut out).with_framer(&Framer);
        prop_assert!(encoder.array(&DataArray::Info(infos.clone())).is_err());
        prop_assert!(encoder.call::<wire_type::Info>(&infos).is_err());
        // The next call is not affected.
        encoder.one::<wire_type::Uint32>(&7).expect("a number");
        let expected = [before, pack(layout, &DataArray::Uint32(vec![7])).expect("a number")];
        prop_assert_eq!(out, expected.concat());
    }

    #[test]
    fn a_damaged_datum_does_not_affect_others(
        layout in layout(),
        messages in prop::collection::vec((TYPES, noise()), 1..6),
        bad in any::<prop::sample::Index>(),
        damage in any::<(prop::sample::Index, u8)>(),
    ) {
        // Messages as byte objects of a message, one of them damaged.
        let data_types: Vec<_> = messages.iter().map(|(n, _)| DataType::from_raw(*n)).collect();
        let arrays = messages.iter().zip(&data_types);
        let arrays = arrays.map(|((_, noise), data_type)| made(*data_type, noise));
        let good: Vec<Vec<u8>> = arrays.map(|a| pack(layout, &a).unwrap_or_default()).collect();
        let mut sent = good.clone();
        let bad = bad.index(sent.len());
        if !sent[bad].is_empty() {
            let at = damage.0.index(sent[bad].len());
            sent[bad][at] ^= damage.1 | 1;
        }
        let objects = sent.iter().map(|bytes| bytes.as_slice().into()).collect();
        let outer = pack(layout, &DataArray::ByteObject(objects)).expect("byte objects");
        let (read, end) = unpack(layout, DataType::BYTE_OBJECT, &outer).expect("our own bytes");
        prop_assert_eq!(end, outer.len());
        let DataArray::ByteObject(objects) = read else {
            unreachable!("data are of the type that was asked for");
        };
        for (index, object) in objects.iter().enumerate() {
            prop_assert_eq!(object, &sent[index]);
            let same = format!("{:?}", unpack(layout, data_types[index], &good[index]));
            let read = format!("{:?}", unpack(layout, data_types[index], object));
            prop_assert!(index == bad || read == same, "{} and {}", read, same);
        }
    }
}
