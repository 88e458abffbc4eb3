// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loading data into values and unloading them.

use pmix_types::{
    Bytes, DataArray, DataType, Envar, Info, Proc, ProcInfo, Rank, RegexBytes, Scope, Status, Text,
    Value,
};

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
