// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directives and lists of infos, compared with the results of real libraries.

use pmix_types::{DataArray, DataType, Info, InfoFlags, InfoList, Value};

use super::table::{calls, number};

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
