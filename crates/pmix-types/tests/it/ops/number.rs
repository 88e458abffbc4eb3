// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversions between numbers, compared with the results of a real library.

use pmix_types::{DataType, Rank, Status, Value};

use super::infos::{number, rows};

const TYPES: [&str; 19] = [
    "SIZE",
    "INT",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "FLOAT",
    "DOUBLE",
    "PID",
    "PROC_RANK",
    "STATUS",
    "BOOL",
    "BYTE",
    "TIME",
];

/// Returns a value of a type from text that represents it exactly.
fn value(data_type: &str, text: &str) -> Value<'static> {
    match data_type {
        "SIZE" => Value::Size(number(text)),
        "INT" => Value::Int(number(text)),
        "INT8" => Value::Int8(number(text)),
        "INT16" => Value::Int16(number(text)),
        "INT32" => Value::Int32(number(text)),
        "INT64" => Value::Int64(number(text)),
        "UINT" => Value::Uint(number(text)),
        "UINT8" => Value::Uint8(number(text)),
        "UINT16" => Value::Uint16(number(text)),
        "UINT32" => Value::Uint32(number(text)),
        "UINT64" => Value::Uint64(number(text)),
        "FLOAT" => Value::Float(number(text)),
        "DOUBLE" => Value::Double(number(text)),
        "PID" => Value::Pid(number(text)),
        "PROC_RANK" => Value::Rank(Rank::new(number(text))),
        "STATUS" => Value::Status(Status::from_raw(number(text))),
        "BOOL" => Value::Bool(text == "1"),
        "BYTE" => Value::Byte(number(text)),
        "TIME" => Value::Time(number(text)),
        other => panic!("{other}"),
    }
}

/// Converts a value. The error is the letter that the table uses for the status.
fn answer(value: &Value<'_>, to: &str) -> Result<Value<'static>, &'static str> {
    let data_type = DataType::from_name(to).unwrap();
    match value.convert(data_type) {
        Ok(converted) => {
            assert_eq!(converted.data_type(), data_type);
            Ok(pmix_types::IntoOwned::into_owned(converted))
        }
        Err(error) => Err(match error.status() {
            Status::ERR_LOST_PRECISION => "P",
            Status::ERR_CHANGE_SIGN => "S",
            Status::ERR_BAD_PARAM => "B",
            other => panic!("{other}"),
        }),
    }
}

/// Returns `true` if OpenPMIx returns the processor's result for a number that does not fit.
fn beyond_the_type(from: &str, text: &str, to: &str) -> bool {
    let real: f64 = number(text);
    let limit = match to {
        "INT" | "PID" | "STATUS" => 2_147_483_647.0,
        "UINT" => 4_294_967_295.0,
        "INT64" => 9_223_372_036_854_774_784.0,
        "UINT64" | "SIZE" => 18_446_744_073_709_549_568.0,
        _ => f64::INFINITY,
    };
    let lowest = match to {
        "INT" | "PID" | "STATUS" => -2_147_483_648.0,
        "INT64" => -9_223_372_036_854_775_808.0,
        // Negative numbers are rejected for their sign first.
        _ => f64::NEG_INFINITY,
    };
    matches!(from, "FLOAT" | "DOUBLE")
        && !matches!(to, "FLOAT" | "DOUBLE" | "BOOL" | "BYTE" | "TIME")
        && (real.is_nan() || real > limit || real < lowest)
}

#[test]
fn numbers_convert_as_in_the_newest_library() {
    let (mut same, mut refused) = (0, 0);
    for row in rows("number.tsv")
        .iter()
        .filter(|row| row[21].ends_with("master"))
    {
        let (from, text) = (&*row[0], &*row[1]);
        let value = value(from, text);
        for (to, real) in TYPES.iter().zip(&row[2..21]) {
            let ours = answer(&value, to);
            if beyond_the_type(from, text, to) {
                assert_eq!(ours, Err("P"), "{from} {text} to {to}");
                refused += 1;
                continue;
            }
            let expected = match &**real {
                "P" | "S" | "B" => Err(&**real),
                "nan" => {
                    assert!(
                        matches!(ours, Ok(Value::Float(x)) if x.is_nan())
                            || matches!(ours, Ok(Value::Double(x)) if x.is_nan())
                    );
                    continue;
                }
                text => Ok(self::value(to, text)),
            };
            assert_eq!(ours, expected, "{from} {text} to {to}");
            same += 1;
        }
    }
    assert!(same > 4500 && refused > 50, "{same} {refused}");
}

#[test]
fn reals_outside_the_range_are_refused() {
    for real in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300] {
        for to in TYPES[..16]
            .iter()
            .filter(|to| !matches!(**to, "FLOAT" | "DOUBLE"))
        {
            assert!(answer(&Value::Double(real), to).is_err(), "{real} to {to}");
        }
    }
    for (real, to) in [
        (9_223_372_036_854_775_808.0, "INT64"),
        (18_446_744_073_709_551_616.0, "UINT64"),
        (18_446_744_073_709_551_616.0, "SIZE"),
        (4_294_967_296.0, "UINT"),
        (2_147_483_648.0, "INT"),
    ] {
        assert_eq!(answer(&Value::Double(real), to), Err("P"), "{real} to {to}");
    }
    assert_eq!(answer(&Value::Float(-3e9), "PID"), Err("P"));
    assert_eq!(answer(&Value::Float(-3e9), "STATUS"), Err("P"));
}

#[test]
fn converts_to_the_requested_rust_type() {
    assert_eq!(Value::Pid(7).to_number::<u64>(), Ok(7));
    assert_eq!(Value::Size(7).to_number::<Rank>(), Ok(Rank::new(7)));
    assert_eq!(
        Value::Int(-7).to_number::<Status>(),
        Ok(Status::from_raw(-7))
    );
    assert_eq!(Value::Float(-1234.567).to_number::<i32>(), Ok(-1234));
    let error = Value::from("7").to_number::<u32>().unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    assert_eq!(
        error.to_string(),
        "a datum of type PMIX_STRING does not convert to PMIX_UINT32"
    );
}
