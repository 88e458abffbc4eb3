// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loading data into values and unloading them.

use pmix_types::{
    App, Bytes, DataArray, DataType, Envar, Info, Key, Kval, Pdata, Proc, ProcInfo, Query, Rank,
    RegexBytes, Scope, Status, Text, Topology, Truth, Value,
};

use super::fixtures::{cpuset, fixture};
use super::infos::{calls, number, rows, text};

#[test]
fn loaded_data_are_unloaded() {
    assert_eq!(Value::from(true).unload::<bool>(), Ok(true));
    assert_eq!(Value::from(-5i16).unload::<i16>(), Ok(-5));
    assert_eq!(Value::from(1.5f32).unload::<f32>(), Ok(1.5));
    let text = Some(Text::from("n01"));
    assert_eq!(Value::from("n01").unload::<Option<Text<'_>>>(), Ok(text));
    let proc = Proc::new("job", Rank::WILDCARD);
    assert_eq!(
        Value::from(proc.clone()).unload::<Proc<'_>>(),
        Ok(proc.clone())
    );
    let bytes = Bytes::Borrowed(&b"\0\x01"[..]);
    assert_eq!(Value::from(&b"\0\x01"[..]).unload::<Bytes<'_>>(), Ok(bytes));
    let info = ProcInfo {
        proc,
        pid: 9,
        ..ProcInfo::default()
    };
    assert_eq!(Value::from(info.clone()).unload::<ProcInfo<'_>>(), Ok(info));
    assert_eq!(
        Value::from(Scope::GLOBAL).unload::<Scope>(),
        Ok(Scope::GLOBAL)
    );
    let array = Value::from(vec![Info::new("a", 1u8)]);
    assert_eq!(array.unload::<DataArray<'_>>().unwrap().len(), 1);
}

#[test]
fn rejects_another_type_as_mismatch_and_no_type_as_unknown() {
    let error = Value::from(7u32).unload::<u64>().unwrap_err();
    assert_eq!(error.status(), Status::ERR_TYPE_MISMATCH);
    assert_eq!(
        error.to_string(),
        "expected a datum of type PMIX_UINT64, found PMIX_UINT32"
    );
    assert!(Value::from(Rank::new(7)).unload::<u32>().is_err());
    assert!(Value::from(Status::ERROR).unload::<i32>().is_err());
    let error = Value::Undef.unload::<bool>().unwrap_err();
    assert_eq!(error.status(), Status::ERR_UNKNOWN_DATA_TYPE);
}

#[test]
fn types_equal_in_c_share_a_rust_type() {
    assert_eq!(Value::Uint(7).unload::<u32>(), Ok(7));
    assert_eq!(Value::Size(7).unload::<u64>(), Ok(7));
    assert_eq!(Value::Pid(7).unload::<i32>(), Ok(7));
    assert_eq!(Value::Byte(7).unload::<u8>(), Ok(7));
    assert_eq!(Value::Time(7).unload::<i64>(), Ok(7));
}

#[test]
fn views_borrow_text_bytes_and_arrays() {
    let value = Value::from("n01");
    assert_eq!(value.as_text().unwrap().map(|text| text.len()), Some(3));
    assert_eq!(Value::String(None).as_text(), Ok(None));
    assert_eq!(Value::from(vec![1u8, 2]).as_bytes(), Ok(&[1u8, 2][..]));
    assert_eq!(Value::from(true).as_bool(), Ok(true));
    assert_eq!(Value::from(Rank::WILDCARD).as_rank(), Ok(Rank::WILDCARD));
    assert!(Value::from(1u32).as_bool().is_err());
    let infos = Value::from(vec![Info::new("a", 1u8)]);
    assert_eq!(infos.as_infos().unwrap().len(), 1);
    let error = Value::from(DataArray::Uint8(vec![]))
        .as_infos()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected a datum of type PMIX_INFO, found PMIX_UINT8"
    );
}

#[test]
fn a_datum_is_loaded_as_the_type_that_is_named() {
    assert_eq!(Value::load(DataType::SIZE, 7u32), Ok(Value::Size(7)));
    assert_eq!(Value::load(DataType::UINT, 7), Ok(Value::Uint(7)));
    assert_eq!(
        Value::load(DataType::PROC_RANK, 7u64),
        Ok(Value::Rank(Rank::new(7)))
    );
    assert_eq!(Value::load(DataType::BYTE, 7u8), Ok(Value::Byte(7)));
    assert_eq!(Value::load(DataType::UNDEF, 7u8), Ok(Value::Undef));
    assert_eq!(Value::load(DataType::STRING, "a"), Ok(Value::from("a")));
    let regex = Value::Regex(RegexBytes(b"raw:a".to_vec().into()));
    assert_eq!(
        Value::load(DataType::REGEX, b"raw:a".to_vec()),
        Ok(regex.clone())
    );
    let bytes = Value::from(b"raw:a".to_vec());
    assert_eq!(Value::load(DataType::BYTE_OBJECT, regex), Ok(bytes));
}

#[test]
fn a_datum_of_another_type_is_not_loaded() {
    let refused = |data_type, value: Value<'static>| {
        Value::load(data_type, value)
            .expect_err("is refused")
            .status()
    };
    assert_eq!(
        refused(DataType::UINT8, 256.into()),
        Status::ERR_LOST_PRECISION
    );
    assert_eq!(
        refused(DataType::UINT8, (-1).into()),
        Status::ERR_CHANGE_SIGN
    );
    assert_eq!(
        refused(DataType::PID, Rank::new(1).into()),
        Status::ERR_BAD_PARAM
    );
    assert_eq!(
        refused(DataType::BOOL, 1u8.into()),
        Status::ERR_TYPE_MISMATCH
    );
    assert_eq!(
        refused(DataType::UINT8, "1".into()),
        Status::ERR_TYPE_MISMATCH
    );
    assert_eq!(
        refused(DataType::STRING, b"a".to_vec().into()),
        Status::ERR_TYPE_MISMATCH
    );
    assert_eq!(
        refused(DataType::ENVAR, Value::Undef),
        Status::ERR_UNKNOWN_DATA_TYPE
    );
    let envar = Value::from(Envar::default());
    assert_eq!(refused(DataType::PROC, envar), Status::ERR_TYPE_MISMATCH);
}

fn value(data_type: &str, field: &str) -> Value<'static> {
    match data_type {
        "UNDEF" => Value::Undef,
        "BOOL" => Value::Bool(field == "true"),
        "STRING" => Value::String(text(field).map(Text::new)),
        "INT" => Value::Int(number(field)),
        "UINT32" => Value::Uint32(number(field)),
        "SIZE" => Value::Size(number(field)),
        "BYTE" => Value::Byte(number(field)),
        "UINT8" => Value::Uint8(number(field)),
        other => panic!("{other}"),
    }
}

#[test]
fn values_are_true_as_in_the_newest_library() {
    let mut seen = 0;
    for row in rows("truth.tsv")
        .iter()
        .filter(|row| row[3].ends_with("master"))
    {
        let value = value(&row[0], &row[1]);
        if row[1] != "\"4294967296\"" {
            assert_eq!(value.truth().as_raw(), number::<u32>(&row[2]), "{row:?}");
        }
        assert_eq!(Info::new("key", value.clone()).truth(), value.truth());
        seen += 1;
    }
    assert!(seen > 70, "{seen}");
}

#[test]
fn a_number_beyond_32_bits_is_yes() {
    for text in ["4294967296", "8589934592 ", "018446744073709551616"] {
        assert_eq!(Value::from(text).truth(), Truth::True, "{text}");
    }
    for text in ["00000000000000000000000000", "0,4294967296"] {
        assert_eq!(Value::from(text).truth(), Truth::False, "{text}");
    }
}

#[test]
fn a_truth_has_the_number_of_c() {
    for (number, truth) in [(0, Truth::True), (1, Truth::False), (2, Truth::NonBool)] {
        assert_eq!(Truth::from_raw(number), Some(truth));
        assert_eq!(truth.as_raw(), number);
    }
    assert_eq!(Truth::from_raw(3), None);
    assert!(Truth::True.is_true() && Truth::False.is_bool() && !Truth::NonBool.is_bool());
    assert_eq!(Truth::NonBool.as_bool(), None);
}

#[test]
fn values_have_the_size_that_the_library_counts() {
    let mut same = 0;
    for row in calls("size.tsv", "size") {
        let size = fixture(&row[0]).storage_size();
        match (&*row[1], &*row[2]) {
            ("0", "unset") | ("crash", _) => assert!(size.is_ok(), "{row:?}"),
            ("0", real) => {
                assert_eq!(size, Ok(number(real)), "{row:?}");
                same += 1;
            }
            (status, _) => assert_eq!(size.unwrap_err().status().as_raw(), number::<i32>(status)),
        }
    }
    assert!(same > 120, "{same}");
}

#[test]
fn infos_have_the_size_that_the_library_counts() {
    for row in calls("size.tsv", "info_size") {
        let info = Info::new(Key::new(vec![b'k'; number(&row[0])]), 1u32);
        assert_eq!(info.storage_size(), Ok(number(&row[2])), "{row:?}");
    }
}

/// Compares with OpenPMIx's source at the seed commit, because 5.0.11 needs more than a value for
/// this call.
#[test]
fn compressed_data_count_their_original_length() {
    assert_eq!(fixture("cbo.4").storage_size(), Ok(32 + 4));
    assert_eq!(fixture("cstr.4").storage_size(), Ok(32 + 4 + 1));
    assert_eq!(fixture("cstr.short").storage_size(), Ok(32));
    assert_eq!(
        fixture("array.cstr").storage_size(),
        Ok(32 + 24 + 8 + 4 + 1)
    );
}

#[test]
fn numbers_without_a_case_have_a_size() {
    assert_eq!(fixture("flags.1").storage_size(), Ok(32 + 4));
    assert_eq!(fixture("datatype.1").storage_size(), Ok(32 + 2));
    assert_eq!(fixture("iof.1").storage_size(), Ok(32 + 2));
}

#[test]
fn arrays_of_everything_have_a_size() {
    let size = |array: DataArray<'static>| Value::from(array).storage_size();
    let info = || Info::new("k", 1u32);
    let of_info = 32 + 4 + 2 + 552;
    assert_eq!(info().storage_size(), Ok(of_info));
    assert_eq!(
        size(DataArray::Info(vec![info(), info()])),
        Ok(56 + 2 * of_info)
    );
    assert_eq!(
        size(DataArray::Value(vec![1u8.into(), "ab".into()])),
        Ok(56 + 33 + 35)
    );
    let nested = DataArray::DataArray(vec![DataArray::Uint32(vec![1, 2])]);
    assert_eq!(size(nested), Ok(56 + 24 + 8));
    let query = Query {
        keys: vec![Text::from("k1")],
        qualifiers: vec![info()],
    };
    assert_eq!(
        size(DataArray::Query(vec![query])),
        Ok(56 + 24 + 8 + 3 + of_info)
    );
    let app = App {
        cmd: Some("a".into()),
        argv: vec!["a".into()],
        ..App::default()
    };
    assert_eq!(size(DataArray::App(vec![app])), Ok(56 + 56 + 2 + 1 + 8 + 2));
    let pdata = Pdata {
        key: "k".into(),
        value: 1u8.into(),
        ..Pdata::default()
    };
    assert_eq!(size(DataArray::Pdata(vec![pdata])), Ok(56 + 808 + 2 + 33));
    let refused = |array| size(array).unwrap_err().status();
    let unknown = Status::ERR_UNKNOWN_DATA_TYPE;
    assert_eq!(refused(DataArray::Kval(vec![Kval::default()])), unknown);
    assert_eq!(refused(DataArray::Value(vec![Value::Undef])), unknown);
    assert_eq!(
        refused(DataArray::Untyped {
            data_type: DataType::UNDEF,
            len: 9
        }),
        unknown
    );
    assert_eq!(size(DataArray::Kval(vec![])), Ok(56));
}

/// Follows the newest source, which counts the list of processors; the releases ignore it.
#[test]
fn a_cpuset_counts_its_list_of_processors() {
    assert_eq!(
        cpuset(Some("hwloc"), Some("0-3")).storage_size(),
        Ok(32 + 16 + 4)
    );
    assert_eq!(cpuset(Some("hwloc"), None).storage_size(), Ok(32 + 16));
    let described = Topology {
        topology: Some("<t/>".into()),
        ..Topology::default()
    };
    assert_eq!(Value::from(described).storage_size(), Ok(32 + 16 + 5));
}
