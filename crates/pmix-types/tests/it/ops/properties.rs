// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of the operations for every input.

use pmix_types::{
    Argv, DataArray, DataType, Info, Nspace, Proc, Rank, Text, Value, ValueComparison,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = Text<'static>> {
    vec(any::<u8>(), 0..4).prop_map(Text::new)
}

/// Generates values of few types with few different data, so that equal values occur.
fn value() -> impl Strategy<Value = Value<'static>> {
    let leaf = prop_oneof![
        Just(Value::Undef),
        any::<bool>().prop_map(Value::Bool),
        (-2i32..300).prop_map(Value::Int),
        any::<i64>().prop_map(Value::Int64),
        any::<u64>().prop_map(Value::Size),
        any::<f32>().prop_map(Value::Float),
        any::<f64>().prop_map(Value::Double),
        option::of(text()).prop_map(Value::String),
        vec(any::<u8>(), 0..3).prop_map(Value::from),
        (text(), 0u32..300).prop_map(|(ns, rank)| Proc::new(ns, Rank::new(rank)).into()),
        vec(0u32..300, 0..3).prop_map(|items| DataArray::Uint32(items).into()),
        any::<u16>().prop_map(|n| DataType::from_raw(n).into()),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(|values| DataArray::Value(values).into()),
            vec((text(), inner), 0..3).prop_map(|infos| {
                let infos = infos.into_iter().map(|(key, value)| Info::new(key, value));
                infos.collect::<Vec<_>>().into()
            }),
        ]
    })
}

const NUMBERS: [DataType; 16] = [
    DataType::SIZE,
    DataType::PID,
    DataType::INT,
    DataType::INT8,
    DataType::INT16,
    DataType::INT32,
    DataType::INT64,
    DataType::UINT,
    DataType::UINT8,
    DataType::UINT16,
    DataType::UINT32,
    DataType::UINT64,
    DataType::FLOAT,
    DataType::DOUBLE,
    DataType::PROC_RANK,
    DataType::STATUS,
];

proptest! {
    #[test]
    fn comparison_is_a_mirror(a in value(), b in value()) {
        prop_assert_eq!(a.compare(&b), b.compare(&a).mirrored());
    }

    #[test]
    fn the_order_is_transitive(a in value(), b in value(), c in value()) {
        let greater = ValueComparison::FirstGreater;
        if a.compare(&b) == greater && b.compare(&c) == greater {
            prop_assert_eq!(a.compare(&c), greater);
        }
    }

    #[test]
    fn a_value_is_never_greater_than_itself(a in value()) {
        prop_assert!(!matches!(
            a.compare(&a),
            ValueComparison::FirstGreater | ValueComparison::SecondGreater
                | ValueComparison::TypeDifferent | ValueComparison::IncompatibleObjects
        ));
    }

    #[test]
    fn no_operation_panics(a in value(), to in any::<u16>()) {
        let to = DataType::from_raw(to % 80);
        let _ = (a.truth(), a.storage_size(), a.convert(to), Value::load(to, a));
    }

    #[test]
    fn split_parts_and_delimiters_restore_the_text(text in vec(prop_oneof![Just(b','), 1u8..], 0..40)) {
        let split = Argv::split_with_empty(&text, b',');
        let mut joined = split.join(b',').as_bytes().to_vec();
        if text.ends_with(b",") {
            joined.push(b',');
        }
        prop_assert_eq!(joined, text);
    }

    #[test]
    fn parts_without_delimiters_survive_join_and_split(
        parts in vec(vec((1u8..).prop_filter("no delimiter", |b| *b != b','), 1..5), 0..6),
    ) {
        let list: Argv<'_> = parts.iter().map(|part| Text::new(&part[..])).collect();
        let joined = list.join(b',');
        prop_assert_eq!(&Argv::split(&joined, b','), &list);
        prop_assert_eq!(&Argv::split_with_empty(&joined, b','), &list);
    }

    #[test]
    fn split_omits_exactly_the_empty_parts(text in vec(prop_oneof![Just(b':'), any::<u8>()], 0..40)) {
        let mut all: Vec<_> = Argv::split_with_empty(&text, b':').into_vec();
        all.retain(|part| !part.is_empty());
        prop_assert_eq!(Argv::split(&text, b':').into_vec(), all);
    }

    #[test]
    fn a_variable_that_is_set_is_found_and_unset(
        entries in vec(text(), 0..5), name in text(), value in text(),
    ) {
        prop_assume!(!name.as_bytes().contains(&b'='));
        let mut list = Argv::from(entries);
        list.set_var(&name, &value, true).unwrap();
        prop_assert_eq!(list.var(&name), Some(value.as_bytes()));
        prop_assert!(list.set_var(&name, "x", false).is_err());
        let before = list.len();
        list.unset_var(&name).unwrap();
        prop_assert_eq!(list.len(), before - 1);
    }

    #[test]
    fn clusters_join_and_split(cluster in vec(1u8.., 0..300), nspace in vec(1u8.., 0..300)) {
        prop_assume!(!cluster.contains(&b':'));
        let (cluster, nspace) = (Nspace::load(cluster), Nspace::load(nspace));
        let fits = cluster.as_bytes().len() + nspace.as_bytes().len() < 255;
        let joined = Nspace::of_cluster(&cluster, &nspace);
        prop_assert_eq!(joined.is_some(), fits);
        if let Some(joined) = joined {
            prop_assert_eq!(joined.split_cluster(), (cluster, nspace));
        }
    }

    #[test]
    fn a_number_that_converts_converts_back(number in any::<i64>(), shift in 0u32..63, to in 0usize..16) {
        let value = Value::Int64(number >> shift);
        if let Ok(converted) = value.convert(NUMBERS[to]) {
            prop_assert_eq!(converted.data_type(), NUMBERS[to]);
            let exact = !matches!(NUMBERS[to], DataType::FLOAT | DataType::DOUBLE);
            if exact {
                prop_assert_eq!(converted.convert(DataType::INT64), Ok(value));
            }
        }
    }
}
