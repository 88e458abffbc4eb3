// SPDX-License-Identifier: MIT OR Apache-2.0
//! Truth values, compared with the results of real libraries.

use pmix_types::{Info, Text, Truth, Value};

use super::table::{number, rows, text};

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
