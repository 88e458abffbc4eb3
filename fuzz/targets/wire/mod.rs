// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packed data: arbitrary bytes unpacked as any type in any layout, and data of any type packed and unpacked.

mod losses;

use bfrops::{
    BufferKind, Decoder, Encoder, Error, Integers, Layout, Limits, Module, RegexFramer, TracedField,
};
use pmix_random::{Bytes, Carried, Random};
use pmix_types::{DataArray, DataType, IntoOwned, Status};

use super::preg;
use losses::Losses;

/// The modules before v4, and the others with each integer encoding.
#[derive(Clone, Copy)]
pub(crate) enum Family {
    Legacy,
    Flex,
    Native,
}

impl Family {
    const ALL: [Self; 3] = [Self::Legacy, Self::Flex, Self::Native];

    /// Returns one of the eight layouts of the family.
    fn layout(self, choice: u8) -> Layout {
        let (modules, integers) = match self {
            Self::Legacy => (&Module::ALL[..4], Integers::Fixed),
            Self::Flex => (&Module::ALL[4..], Integers::Flex),
            Self::Native => (&Module::ALL[4..], Integers::Fixed),
        };
        let buffer = match choice & 1 {
            0 => BufferKind::NonDescribed,
            _ => BufferKind::Described,
        };
        let module = modules[usize::from(choice >> 1) % modules.len()];
        Layout::new(module)
            .with_buffer(buffer)
            .with_integers(integers)
    }
}

/// Unpacks a call. The first byte selects the layout and the second the type; without a type, the bytes are a stream of
/// calls.
pub(crate) fn call(family: Family, data: &[u8]) {
    let [choice, number, bytes @ ..] = data else {
        return;
    };
    let layout = family.layout(*choice);
    if *number == 0 {
        return stream(layout.with_buffer(BufferKind::Described), bytes);
    }
    message(layout, DataType::from_raw((*number).into()), bytes);
}

/// Unpacks types that contain other data in every layout.
pub(crate) fn nested(data: &[u8]) {
    const TYPES: [DataType; 8] = [
        DataType::VALUE,
        DataType::INFO,
        DataType::DATA_ARRAY,
        DataType::KVAL,
        DataType::PDATA,
        DataType::QUERY,
        DataType::APP,
        DataType::NODE_STATS,
    ];
    let [choice, number, bytes @ ..] = data else {
        return;
    };
    let family = Family::ALL[usize::from(choice >> 3) % Family::ALL.len()];
    let data_type = TYPES[usize::from(*number) % TYPES.len()];
    message(family.layout(choice & 7), data_type, bytes);
}

/// Generates data of a type from the bytes, and packs them in every layout that has the type.
pub(crate) fn model(data: &[u8]) {
    let Some((number, bytes)) = data.split_first() else {
        return;
    };
    let carried = everything();
    let mut source = Bytes::new(bytes);
    let mut random = Random::new(&mut source, &carried);
    let count = random.below(8);
    let array = random.data(DataType::from_raw((number % 76).into()), count);
    for family in Family::ALL {
        for layout in (0..8).map(|choice| family.layout(choice)) {
            packed(layout, &array);
        }
    }
}

/// Returns data of every type, in every place that the model supports.
fn everything() -> Carried {
    let types: Vec<DataType> = (0..76).map(DataType::from_raw).collect();
    let maps = [&b"raw:n1,n2"[..], b"pmix[n[1:1-3]]", b"n1,n2", b"blob:"];
    Carried {
        values: types.clone(),
        elements: types,
        is_whole: true,
        maps: maps.map(<[u8]>::to_vec).into(),
    }
}

/// Checks that packed data are unpacked unchanged.
fn packed(layout: Layout, array: &DataArray<'_>) {
    let data_type = array.data_type();
    let mut expected = array.clone();
    let losses = Losses::of(layout, &mut expected);
    let bytes = match pack(layout, array) {
        Ok(bytes) => bytes,
        Err(error) => {
            let refused = data_type == DataType::UNDEF || !losses.known || losses.maps;
            assert!(refused, "{array:?} in {layout:?}: {error}");
            return;
        }
    };
    match decoder(layout, &bytes).array(data_type) {
        _ if losses.open_end => {}
        Ok(mut read) => {
            Losses::of(layout, &mut read);
            assert_eq!(read, expected, "{layout:?}");
            again(layout, &read);
        }
        // v12 knows these types by name only.
        Err(error) => assert!(
            layout.module == Module::V12 && error.status() == Status::ERR_NOT_SUPPORTED,
            "{array:?} in {layout:?}: {error}"
        ),
    }
}

/// Unpacks calls until the end or a fault.
fn stream(layout: Layout, bytes: &[u8]) {
    let mut decoder = decoder(layout, bytes).with_limits(Limits::default());
    while !decoder.is_empty() {
        let start = decoder.offset();
        match decoder.described() {
            Ok(array) => {
                assert!(decoder.offset() > start, "a call of no bytes");
                again(layout, &array);
            }
            Err(error) => return fault(&error, bytes),
        }
    }
    decoder.finish().expect("nothing is left");
}

/// Unpacks a call of a type.
fn message(layout: Layout, data_type: DataType, bytes: &[u8]) {
    let limits = Limits::default();
    let mut plain = decoder(layout, bytes).with_limits(limits);
    let result = plain.array(data_type);
    let mut noted = decoder(layout, bytes).with_limits(limits).with_trace();
    let same = noted.array(data_type);
    let read = plain.offset();
    notes(
        noted.trace().expect("they were asked for").as_slice(),
        bytes,
    );
    match (result, same) {
        (Err(error), same) => {
            assert_eq!(Err(&error), same.as_ref());
            fault(&error, bytes);
        }
        (Ok(array), same) => {
            assert!(read <= bytes.len());
            assert_eq!(plain.rest(), &bytes[read..]);
            assert_eq!(noted.offset(), read);
            covered(&noted, read);
            let array = settled(layout, array);
            assert_eq!(
                array,
                settled(layout, same.expect("it was read without notes"))
            );
            assert_eq!(array.clone().into_owned(), array);
            again(layout, &array);
        }
    }
}

/// Checks that unpacked data are packed and unpacked again without a change of data or bytes.
fn again(layout: Layout, array: &DataArray<'_>) {
    let data_type = array.data_type();
    let mut expected = array.clone();
    let losses = Losses::of(layout, &mut expected);
    let bytes = match pack(layout, &expected) {
        Ok(bytes) => bytes,
        Err(error) => return assert!(losses.maps, "{array:?} in {layout:?}: {error}"),
    };
    if losses.open_end {
        return;
    }
    // Two calls in sequence must not affect each other.
    let twice = bytes.repeat(2);
    let mut decoder = decoder(layout, &twice);
    for end in [bytes.len(), twice.len()] {
        let read = decoder.array(data_type);
        let read = read.unwrap_or_else(|error| panic!("{expected:?} in {layout:?}: {error}"));
        assert_eq!(decoder.offset(), end, "{expected:?} in {layout:?}");
        assert_eq!(pack(layout, &read).as_ref(), Ok(&bytes), "{layout:?}");
        assert_eq!(settled(layout, read), expected, "{layout:?}");
    }
}

fn settled(layout: Layout, mut array: DataArray<'_>) -> DataArray<'_> {
    Losses::of(layout, &mut array);
    array
}

/// Returns a decoder for data packed here, whose memory limit may have to exceed that of the input.
fn decoder(layout: Layout, bytes: &[u8]) -> Decoder<'_> {
    let framer: &dyn RegexFramer = preg();
    let limits = Limits {
        memory_factor: 64,
        memory_base: 1 << 20,
        ..Limits::default()
    };
    Decoder::new(layout, bytes)
        .with_framer(framer)
        .with_limits(limits)
}

/// Packs a call after other bytes, which must not change.
fn pack(layout: Layout, array: &DataArray<'_>) -> Result<Vec<u8>, Error> {
    let mut out = b"before".to_vec();
    let mut encoder = Encoder::new(layout, &mut out).with_framer(preg());
    let result = encoder.array(array);
    assert!(out.starts_with(b"before"), "bytes in front were changed");
    let bytes = out.split_off(b"before".len());
    match result {
        Ok(()) => Ok(bytes),
        Err(error) => {
            assert!(bytes.is_empty(), "a call that failed left bytes behind");
            assert_eq!(error.offset(), None);
            assert!(!error.status().is_success());
            Err(error)
        }
    }
}

/// Checks that a fault has a status, an offset inside the bytes, and a short text.
fn fault(error: &Error, bytes: &[u8]) {
    assert!(!error.status().is_success(), "{error}");
    let offset = error.offset().expect("a place");
    assert!(offset <= bytes.len(), "{error} of {} bytes", bytes.len());
    assert!(error.message().len() < 512, "{error}");
}

/// Checks that traced fields are in the order of their bytes and do not overlap.
fn notes(notes: &[TracedField], bytes: &[u8]) {
    let mut end = 0;
    for note in notes {
        assert!(note.range.start >= end, "{note:?} starts before {end}");
        assert!(note.range.start <= note.range.end, "{note:?}");
        end = note.range.end;
    }
    assert!(end <= bytes.len(), "a note past the end");
}

/// Checks that every byte that was read has a note.
fn covered(decoder: &Decoder<'_>, read: usize) {
    let mut end = 0;
    for note in decoder.trace().expect("they were asked for").as_slice() {
        assert_eq!(
            note.range.start, end,
            "no note for the bytes before {note:?}"
        );
        end = note.range.end;
    }
    assert_eq!(end, read, "no note for the last bytes");
}
