// SPDX-License-Identifier: MIT OR Apache-2.0
//! Qualified values.

use pmix_types::{DataArray, Info, QualifiedValue, Status, Value, keys};

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
