// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers of PMIx 1.2 to 3: forms that only they use, and types that they do not have.

use bfrops::{BufferKind, Decoder, Encoder, Error, Layout, Module, WireType, wire_type};
use data_encoding::HEXLOWER_PERMISSIVE;
use pmix_types::{
    App, Command, DataArray, DataType, Info, InfoFlags, Proc, Rank, Status, Text, Value,
};

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.replace(' ', "");
    HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).unwrap()
}

/// Unpacks a call with one datum from hexadecimal digits.
fn unpack<K: WireType>(layout: Layout, hex: &str, check: impl FnOnce(Result<K::Item<'_>, Error>)) {
    let bytes = unhex(hex);
    let mut decoder = Decoder::new(layout, &bytes);
    let datum = decoder.one::<K>();
    if datum.is_ok() {
        decoder.finish().unwrap();
    }
    check(datum);
}

fn pack(layout: Layout, array: &DataArray<'_>) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    Encoder::new(layout, &mut out).array(array)?;
    Ok(out)
}

const V12: Layout = Layout::new(Module::V12);
const V20: Layout = Layout::new(Module::V20);
const V21: Layout = Layout::new(Module::V21);

#[test]
fn an_integer_of_another_width_is_converted_as_c_does() {
    for (hex, expected) in [
        ("00000001 0009 fffffffb", -5),
        ("00000001 0007 fb", -5),
        ("00000001 000e fffffffb", -5),
        ("00000001 0008 0005", 5),
        ("00000001 000f 00000001fffffffb", -5),
    ] {
        unpack::<wire_type::Int>(V21, hex, |int| assert_eq!(int.unwrap(), expected));
    }
    for (hex, expected) in [
        ("00000001 000e 00000007", 7),
        ("00000001 0009 ffffffff", u64::MAX),
        ("00000001 000c ff", 255),
    ] {
        unpack::<wire_type::Size>(V21, hex, |size| assert_eq!(size.unwrap(), expected));
    }
    unpack::<wire_type::Int>(V21, "00000001 0010 0005", |int| {
        assert_eq!(int.unwrap_err().status(), Status::ERR_NOT_FOUND);
    });
}

#[test]
fn v20_fills_only_half_of_the_type_of_an_info() {
    let hex = "00000001 00000002 6b00 00000000 0009 dead000e 0000012c";
    let expected = Info::new("k", Value::Uint32(300));
    unpack::<wire_type::Info>(V20, hex, |info| assert_eq!(info.unwrap(), expected));
}

#[test]
fn v12_has_the_special_ranks_at_the_top_of_signed_numbers() {
    for (rank, expected) in [
        ("7fffffff", Rank::UNDEF),
        ("7ffffffe", Rank::WILDCARD),
        ("ffffffff", Rank::UNDEF),
        ("00000007", Rank::new(7)),
    ] {
        let hex = format!("00000001 00000003 6e7300 00000009 {rank}");
        unpack::<wire_type::Proc>(V12, &hex, |proc| {
            assert_eq!(proc.unwrap(), Proc::new("ns", expected));
        });
    }
}

#[test]
fn v12_holds_an_array_of_infos_in_a_value() {
    let infos = vec![Info::new("k", Value::Uint32(300))];
    let value = Value::DataArray(DataArray::Info(infos));
    for buffer in [BufferKind::NonDescribed, BufferKind::Described] {
        let layout = V12.with_buffer(buffer);
        let bytes = pack(layout, &DataArray::Value(vec![value.clone()])).unwrap();
        let mut decoder = Decoder::new(layout, &bytes);
        assert_eq!(decoder.one::<wire_type::Value>().unwrap(), value);
        decoder.finish().unwrap();
    }
    let numbers = Value::DataArray(DataArray::Uint32(vec![1]));
    let error = pack(V12, &DataArray::Value(vec![numbers])).unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
}

#[test]
fn values_of_v12_and_v20_are_of_few_types() {
    let refused = |layout, value| {
        let error = pack(layout, &DataArray::Value(vec![value])).unwrap_err();
        assert_eq!(error.status(), Status::ERROR, "{error}");
    };
    refused(V12, Value::Undef);
    refused(V12, Value::Status(Status::SUCCESS));
    refused(V12, Value::Time(1));
    refused(V20, Value::DataType(DataType::INT));
    refused(V20, Value::AllocDirective(Default::default()));
    // In v12, 20 is the code of an hwloc topology, and 40 (0x28) is unknown.
    for code in ["00000014", "00000028", "00000027", "0000002a"] {
        let hex = format!("00000001 00000009 {code} 00000000");
        unpack::<wire_type::Value>(V12, &hex, |value| {
            assert_eq!(value.unwrap_err().status(), Status::ERROR);
        });
    }
}

#[test]
fn rejects_missing_types_with_the_status_of_the_library() {
    let array = |items| DataArray::DataArray(vec![items]);
    let coord = || DataArray::Coord(vec![Default::default()]);
    let jobs = || DataArray::Value(vec![Value::JobState(Default::default())]);
    let coords = || DataArray::Value(vec![Value::Coord(Default::default())]);
    let status = |module, data: DataArray<'_>| {
        let error = pack(Layout::new(module), &data).unwrap_err();
        error.status().as_raw()
    };
    assert_eq!(status(Module::V12, coord()), -21);
    assert_eq!(status(Module::V20, coord()), -21);
    assert_eq!(status(Module::V20, array(coord())), -21);
    assert_eq!(status(Module::V3, coord()), -16);
    assert_eq!(status(Module::V3, array(coord())), -16);
    assert_eq!(status(Module::V3, coords()), -16);
    assert_eq!(status(Module::V3, jobs()), -1);
    assert_eq!(status(Module::V20, jobs()), -1);
    assert_eq!(status(Module::V12, array(coord())), -47);
    for (layout, hex, expected) in [
        (V12, "00000001 00", -47),
        (V20, "00000001 002f 000f 0000000000000001 00", -47),
        (V21, "00000001 002f 000f 0000000000000001 00", -16),
    ] {
        unpack::<wire_type::DataArray>(layout, hex, |array| {
            assert_eq!(array.unwrap_err().status().as_raw(), expected);
        });
    }
}

#[test]
fn packed_fields_survive_in_every_old_module_and_buffer() {
    let infos = vec![Info {
        flags: InfoFlags::from_raw(1),
        ..Info::new("k", Value::Proc(Proc::new("ns", Rank::new(1))))
    }];
    let data = [
        DataArray::Info(infos.clone()),
        DataArray::App(vec![App {
            cmd: Some(Text::from("app")),
            argv: vec![Text::from("app"), Text::from("-x")],
            cwd: Some(Text::from("/")),
            info: infos.clone(),
            ..App::default()
        }]),
        DataArray::Command(vec![Command::from_raw(3), Command::from_raw(255)]),
        DataArray::DataArray(vec![
            DataArray::Int(vec![1, -1]),
            DataArray::Pid(Vec::new()),
            DataArray::Value(vec![Value::DataArray(DataArray::Info(infos))]),
            DataArray::Command(vec![Command::from_raw(7)]),
        ]),
        DataArray::Buffer(vec![vec![1, 2, 3].into()]),
    ];
    for module in [Module::V20, Module::V21, Module::V3] {
        for buffer in [BufferKind::NonDescribed, BufferKind::Described] {
            let layout = Layout::new(module).with_buffer(buffer);
            for array in &data {
                let bytes = pack(layout, array).unwrap();
                let mut decoder = Decoder::new(layout, &bytes);
                assert_eq!(decoder.array(array.data_type()).unwrap(), *array);
                decoder.finish().unwrap();
            }
        }
    }
}

#[test]
fn a_buffer_has_its_kind_since_v21() {
    let buffer = DataArray::Buffer(vec![vec![0xab].into()]);
    let size = "000f 0000000000000001 ab";
    for (layout, expected) in [
        (V20, format!("00000001 {size}")),
        (V21, format!("00000001 01 {size}")),
        (
            V21.with_buffer(BufferKind::Described),
            format!("0009 00000001 001a 02 {size}"),
        ),
    ] {
        assert_eq!(pack(layout, &buffer).unwrap(), unhex(&expected));
    }
}
