// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of comparisons of values against the results of real libraries.

use pmix_types::{
    Coord, DataArray, DataType, DeviceType, Envar, NodeStats, ProcInfo, ProcState, ResourceUnit,
    Text, Topology, Value, ValueComparison as Is,
};

use super::fixtures::{cpuset, fixture};
use super::infos::{number, rows, text};

/// Returns `true` if the library's result is wrong: it compares bytes in memory, or only a part of
/// the datum.
fn wrong_upstream(first: &str, second: &str) -> bool {
    let (kind, rest) = first.split_once('.').unwrap_or((first, ""));
    match kind {
        "size" | "pid" | "int" | "int8" | "int16" | "int32" | "int64" | "uint" | "uint16"
        | "uint32" | "uint64" | "float" | "double" | "timeval" | "time" | "status" | "rank"
        | "devtype" | "locality" | "medium" | "accesstype" | "coord" => true,
        "proc" => rest.starts_with('a') && second.starts_with("proc.a"),
        "pinfo" => [first, second]
            .iter()
            .any(|n| n.ends_with("rank") || n.ends_with("state")),
        "envar" => first == "envar.colon" && second == "envar.comma",
        "pstats" => [first, second].iter().any(|n| n.ends_with("time")),
        "nstats" => first == "nstats.none" || second == "nstats.none",
        "array" => rest.starts_with("uint32") || rest.starts_with("proc"),
        _ => false,
    }
}

fn compare(first: &str, second: &str) -> Is {
    fixture(first).compare(&fixture(second))
}

#[test]
fn values_compare_as_in_the_libraries() {
    let (mut same, mut other) = (0, 0);
    for row in rows("compare.tsv") {
        let ours = compare(&row[0], &row[1]);
        if ours.as_raw() == number::<u32>(&row[2]) {
            same += 1;
        } else {
            assert!(wrong_upstream(&row[0], &row[1]), "{row:?}, ours {ours}");
            other += 1;
        }
        assert_eq!(compare(&row[1], &row[0]), ours.mirrored(), "{row:?}");
    }
    assert!(same > 500 && (10..120).contains(&other), "{same} {other}");
}

#[test]
fn a_result_has_the_text_of_the_libraries() {
    for row in rows("comparison_string.tsv") {
        let shown = Is::from_raw(number(&row[0])).map_or("UNKNOWN VALUE", Is::as_str);
        assert_eq!(shown.as_bytes(), text(&row[1]).unwrap());
    }
    assert_eq!(format!("{:>6}", Is::Equal), " EQUAL");
}

#[test]
fn numbers_compare_as_numbers() {
    for kind in [
        "size",
        "pid",
        "int",
        "int16",
        "int32",
        "int64",
        "uint",
        "uint16",
        "uint32",
        "uint64",
        "time",
        "rank",
        "devtype",
        "locality",
        "medium",
        "accesstype",
    ] {
        let (one, more) = (format!("{kind}.1"), format!("{kind}.256"));
        assert_eq!(compare(&one, &more), Is::SecondGreater, "{kind}");
    }
    for kind in [
        "pid", "int", "int8", "int16", "int32", "int64", "float", "double",
    ] {
        let (below, one) = (format!("{kind}.-1"), format!("{kind}.1"));
        assert_eq!(compare(&below, &one), Is::SecondGreater, "{kind}");
    }
    assert_eq!(compare("status.0", "status.-1"), Is::FirstGreater);
    assert_eq!(compare("timeval.1.256", "timeval.256.1"), Is::SecondGreater);
    assert_eq!(compare("proc.a.1", "proc.a.256"), Is::SecondGreater);
}

#[test]
fn nan_equals_itself_and_is_outside_of_all_numbers() {
    let nan = || Value::Double(f64::NAN);
    assert_eq!(nan().compare(&nan()), Is::Equal);
    assert_eq!(
        nan().compare(&Value::Double(f64::INFINITY)),
        Is::FirstGreater
    );
    assert_eq!(Value::Float(0.0).compare(&Value::Float(-0.0)), Is::Equal);
}

#[test]
fn coordinates_compare_as_numbers() {
    assert_eq!(compare("coord.1.256", "coord.256.1"), Is::SecondGreater);
    let long = Coord {
        coord: vec![0, 0, 0],
        ..coord_of(&fixture("coord.1.256"))
    };
    assert_eq!(
        Value::from(long).compare(&fixture("coord.256.1")),
        Is::FirstGreater
    );
    assert_eq!(
        compare("coord.1.256", "coord.view2"),
        Is::IncompatibleObjects
    );
}

fn coord_of(value: &Value<'static>) -> Coord {
    value.clone().unload().unwrap()
}

#[test]
fn whole_structures_are_compared() {
    let envar = |separator| {
        Value::from(Envar {
            separator,
            ..Envar::default()
        })
    };
    assert_eq!(envar(b':').compare(&envar(b',')), Is::FirstGreater);
    let info = |state| {
        Value::from(ProcInfo {
            state: ProcState::from_raw(state),
            ..ProcInfo::default()
        })
    };
    assert_eq!(info(1).compare(&info(2)), Is::SecondGreater);
    let node = || {
        Value::from(NodeStats {
            node: Some("n".into()),
            ..NodeStats::default()
        })
    };
    assert_eq!(node().compare(&node()), Is::Equal);
}

#[test]
fn arrays_compare_element_by_element() {
    let texts = |items: &[&'static str]| {
        Value::from(DataArray::String(
            items.iter().map(|t| Some(Text::from(*t))).collect(),
        ))
    };
    assert_eq!(
        texts(&["ab", "c"]).compare(&texts(&["ab", "d"])),
        Is::SecondGreater
    );
    assert_eq!(
        texts(&["b"]).compare(&texts(&["a", "a"])),
        Is::SecondGreater
    );
    let nested = |last: u32| {
        let inner = |n| DataArray::Uint32(vec![n]);
        Value::from(DataArray::DataArray(vec![inner(1), inner(last)]))
    };
    assert_eq!(nested(2).compare(&nested(256)), Is::SecondGreater);
    let topologies = |text: &'static str| {
        let topology = Topology {
            source: Some("hwloc".into()),
            topology: Some(text.into()),
            ..Topology::default()
        };
        Value::from(DataArray::Topology(vec![topology]))
    };
    assert_eq!(
        topologies("<a/>").compare(&topologies("<b/>")),
        Is::SecondGreater
    );
    let other = Value::from(DataArray::Uint8(vec![1]));
    assert_eq!(nested(2).compare(&other), Is::TypeDifferent);
}

#[test]
fn arrays_of_unknown_types_compare_by_length() {
    let of = |data_type, len| {
        let data_type = DataType::from_raw(data_type);
        Value::from(DataArray::Untyped { data_type, len })
    };
    assert_eq!(of(0, 3).compare(&of(0, 3)), Is::Equal);
    assert_eq!(of(400, 0).compare(&of(400, 0)), Is::Equal);
    assert_eq!(of(400, 3).compare(&of(400, 3)), Is::NotAvailable);
    assert_eq!(of(400, 3).compare(&of(400, 4)), Is::SecondGreater);
    assert_eq!(of(400, 3).compare(&of(401, 3)), Is::TypeDifferent);
}

#[test]
fn opaque_descriptions_compare_within_one_source() {
    let cpus = |bitmap| cpuset(Some("hwloc"), bitmap);
    assert_eq!(cpus(Some("0")).compare(&cpus(Some("1"))), Is::SecondGreater);
    assert_eq!(cpus(None).compare(&cpus(Some("1"))), Is::NotAvailable);
    assert_eq!(
        cpus(Some("0")).compare(&cpuset(None, Some("0"))),
        Is::IncompatibleObjects
    );
    assert_eq!(
        cpuset(None, None).compare(&cpuset(None, None)),
        Is::NotAvailable
    );
    let unit = |device_type, count| {
        Value::from(ResourceUnit {
            device_type: DeviceType::from_raw(device_type),
            count,
        })
    };
    assert_eq!(unit(1, 2).compare(&unit(1, 1)), Is::FirstGreater);
    assert_eq!(unit(1, 2).compare(&unit(2, 2)), Is::IncompatibleObjects);
}
