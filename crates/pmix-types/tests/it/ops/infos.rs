// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directives and lists of infos, compared with the results of real libraries.

use std::path::Path;

use pmix_types::{
    DataArray, DataType, Info, InfoFlags, InfoList, QualifiedValue, Status, Value, keys,
};

fn flagged(flags: u32) -> Info<'static> {
    Info {
        flags: InfoFlags::from_raw(flags),
        ..Info::new("key", Value::Undef)
    }
}

#[test]
fn directives_are_set_as_in_the_libraries() {
    for row in calls("infos.tsv", "flags") {
        let mut info = flagged(number(&row[1]));
        match &*row[0] {
            "required" => info.set_required(),
            "optional" => info.set_optional(),
            "processed" => info.set_processed(),
            "end" => info.set_end(),
            "qualifier" => info.set_qualifier(),
            "persistent" => info.set_persistent(),
            other => panic!("{other}"),
        }
        assert_eq!(info.flags.as_raw(), number::<u32>(&row[2]), "{row:?}");
    }
}

#[test]
fn directives_are_tested_as_in_the_libraries() {
    for row in calls("infos.tsv", "is") {
        let info = flagged(number(&row[0]));
        let bit = u8::from;
        let seen = format!(
            "required={} optional={} processed={} end={} qualifier={} persistent={}",
            bit(info.is_required()),
            bit(info.is_optional()),
            bit(info.was_processed()),
            bit(info.is_end()),
            bit(info.is_qualifier()),
            bit(info.is_persistent())
        );
        assert_eq!(seen, row[1], "{row:?}");
    }
}

/// Repeats the calls of the program that wrote the table, and compares with the result of 5.0.11.
#[test]
fn a_list_becomes_the_array_of_the_library() {
    let b = Info {
        flags: InfoFlags::from_raw(9),
        ..Info::new("b", "s")
    };
    let mut list = InfoList::new();
    list.append("a", 1u32)
        .transfer(b.clone())
        .prepend("p", 2u32)
        .insert(b);
    assert!(!list.append_unique("a", 2u32, false));

    let rows = calls("infos.tsv", "list");
    let order = rows.iter().find(|row| row[0] == "get_info").unwrap();
    let keys: Vec<_> = list.iter().map(|info| info.key.to_string()).collect();
    assert_eq!(keys, order[1..order.len() - 1]);

    let array = list.into_array();
    assert_eq!(array.data_type(), DataType::INFO);
    let DataArray::Info(infos) = array else {
        panic!("no infos")
    };
    let shown: Vec<_> = infos
        .iter()
        .map(|info| {
            let number = info.value.to_number::<u32>().unwrap_or_default();
            format!("{}/{}/{number}", info.key, info.flags.as_raw())
        })
        .collect();
    let converted = rows.iter().rfind(|row| row[0] == "convert").unwrap();
    assert_eq!(shown, converted[3..converted.len() - 1]);
}

#[test]
fn an_empty_list_is_an_empty_array_of_infos() {
    let array = InfoList::new().into_array();
    assert_eq!((array.data_type(), array.len()), (DataType::INFO, 0));
}

#[test]
fn a_known_key_keeps_or_changes_its_value_and_keeps_its_directives() {
    let mut list: InfoList<'_> = [Info::new("a", 1u32).required()].into_iter().collect();
    assert!(!list.append_unique("a", 2u32, false));
    assert_eq!(list.iter().next().unwrap().value, Value::Uint32(1));
    assert!(list.transfer_unique(Info::new("a", 3u32), true));
    assert!(list.append_unique("b", 4u32, false));
    let infos: Vec<_> = list.into();
    assert_eq!(
        infos,
        [Info::new("a", 3u32).required(), Info::new("b", 4u32)]
    );
}

fn speed() -> QualifiedValue<'static> {
    let mut speed = QualifiedValue::new(Info::new("app.speed", 100u32));
    speed.qualify("app.unit", "gbps").qualify("app.port", 2u16);
    speed
}

#[test]
fn a_qualified_value_survives_as_one_info() {
    let info = speed().into_info();
    assert_eq!(info.key, keys::QUALIFIED_VALUE);
    let Value::DataArray(DataArray::Info(infos)) = &info.value else {
        panic!("{info:?}")
    };
    let flags: Vec<_> = infos.iter().map(Info::is_qualifier).collect();
    assert_eq!(flags, [false, true, true]);
    assert_eq!(QualifiedValue::from_info(info), Ok(speed()));
}

#[test]
fn infos_after_the_value_are_qualifiers_without_a_mark() {
    let infos = vec![
        Info::new("app.speed", 100u32),
        Info::new("app.unit", "gbps"),
    ];
    let taken = QualifiedValue::from_info(Info::new(keys::QUALIFIED_VALUE, infos)).unwrap();
    assert!(taken.qualifiers()[0].is_qualifier());
}

#[test]
fn rejects_infos_that_are_not_qualified_values() {
    let empty: Vec<Info<'_>> = Vec::new();
    for info in [
        Info::new("other", vec![Info::new("a", 1u8)]),
        Info::new(keys::QUALIFIED_VALUE, "text"),
        Info::new(keys::QUALIFIED_VALUE, DataArray::Uint8(vec![1])),
        Info::new(keys::QUALIFIED_VALUE, empty),
    ] {
        let error = QualifiedValue::from_info(info).unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    }
}

#[test]
fn a_value_must_have_all_requested_qualifiers() {
    let unit = || Info::new("app.unit", "gbps").qualifier();
    let port = || Info::new("app.port", 2u16).qualifier();
    let speed = speed();
    assert!(speed.answers("app.speed", &[unit()]));
    assert!(speed.answers("app.speed", &[port(), Info::new("pmix.timeout", 5), unit()]));
    assert!(!speed.answers("app.other", &[unit()]), "another key");
    assert!(!speed.answers("app.speed", &[]), "no qualifiers");
    assert!(
        !speed.answers("app.speed", &[Info::new("app.unit", "gbps")]),
        "not marked"
    );
    assert!(
        !speed.answers("app.speed", &[Info::new("app.unit", "mbps").qualifier()]),
        "value"
    );
    assert!(
        !speed.answers("app.speed", &[Info::new("app.port", 2u32).qualifier()]),
        "type"
    );
    assert!(
        !speed.answers("app.speed", &[unit(), Info::new("app.x", 1u8).qualifier()]),
        "one more"
    );
}

#[test]
fn a_value_without_qualifiers_answers_gets_without_them() {
    let plain = QualifiedValue::new(Info::new("app.speed", 1u8));
    assert!(plain.answers("app.speed", &[Info::new("pmix.timeout", 5)]));
    assert!(!plain.answers("app.speed", &[Info::new("app.unit", "gbps").qualifier()]));
}

/// Returns the rows of a table without its header, split at tabs.
pub(crate) fn rows(name: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/ops")
        .join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let rows: Vec<_> = text
        .lines()
        .skip(1)
        .map(|l| l.split('\t').map(String::from).collect())
        .collect();
    assert!(!rows.is_empty(), "{name} has no rows");
    rows
}

/// Returns the rows of one call, without its name.
pub(crate) fn calls(name: &str, call: &str) -> Vec<Vec<String>> {
    let rows: Vec<_> = rows(name)
        .into_iter()
        .filter(|row| row[0] == call)
        .map(|row| row[1..].to_vec())
        .collect();
    assert!(!rows.is_empty(), "{name} has no {call}");
    rows
}

/// Parses `null`, or text in quotes with `\xNN` for unprintable bytes.
pub(crate) fn text(field: &str) -> Option<Vec<u8>> {
    if field == "null" {
        return None;
    }
    let inner = field
        .strip_prefix('"')
        .and_then(|f| f.strip_suffix('"'))
        .expect(field);
    let mut bytes = Vec::new();
    let mut rest = inner.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if let Some(hex) = rest.strip_prefix(b"\\x") {
            let digits = std::str::from_utf8(&hex[..2]).expect("hex");
            bytes.push(u8::from_str_radix(digits, 16).expect("hex"));
            rest = &hex[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    Some(bytes)
}

/// Parses `null`, or texts in brackets with commas between them.
pub(crate) fn list(field: &str) -> Option<Vec<Vec<u8>>> {
    if field == "null" {
        return None;
    }
    let inner = field
        .strip_prefix('[')
        .and_then(|f| f.strip_suffix(']'))
        .expect(field);
    let mut texts = Vec::new();
    let mut rest = inner;
    while !rest.is_empty() {
        let end = rest[1..].find('"').expect("a closing quote") + 2;
        texts.extend(text(&rest[..end]));
        rest = &rest[end..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    Some(texts)
}

pub(crate) fn number<T: std::str::FromStr>(field: &str) -> T {
    field
        .parse()
        .unwrap_or_else(|_| panic!("{field} is not a number"))
}
