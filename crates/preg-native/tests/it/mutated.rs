// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random lists and mutated values, compared with a model of OpenPMIx's parsers.

use preg_core::{Limits, ProcMap};

use crate::component::{nodes, proc_text, procs, scheme, text};
use proptest::prelude::*;

/// Returns the result of OpenPMIx's parsers for a node map, if all of them agree.
fn upstream(value: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (_, text) = value.split_last()?;
    let mut text = text.strip_prefix(b"pmix[")?;
    let mut names = Vec::new();
    loop {
        let stop = text.iter().position(|b| matches!(b, b',' | b'['));
        let Some(stop) = stop.filter(|at| text[*at] == b'[') else {
            let (name, rest) = text.split_at(stop.unwrap_or(text.len()));
            if name.is_empty() {
                return None;
            }
            names.push(name.to_vec());
            match rest.split_first() {
                Some((_, rest)) => text = rest,
                None => return Some(names),
            }
            continue;
        };
        let (prefix, inner) = (&text[..stop], &text[stop + 1..]);
        let colon = inner.iter().position(|b| *b == b':')?;
        let width: usize = std::str::from_utf8(&inner[..colon]).ok()?.parse().ok()?;
        let close = colon + inner[colon..].iter().position(|b| *b == b']')?;
        let after = &inner[close + 1..];
        let end = after.iter().position(|b| *b == b',').unwrap_or(after.len());
        for range in inner[colon + 1..close].split(|b| *b == b',') {
            let mut numbers = range
                .split(|b| !b.is_ascii_digit())
                .filter(|n| !n.is_empty())
                .map(|n| std::str::from_utf8(n).ok()?.parse::<u64>().ok());
            let Some(first) = numbers.next() else {
                continue;
            };
            let last = numbers.next().unwrap_or(first);
            for number in first?..=last? {
                let digits = format!("{number:0width$}");
                names.push([prefix, digits.as_bytes(), &after[..end]].concat());
            }
        }
        match after.get(end + 1..) {
            Some(rest) => text = rest,
            None => return Some(names),
        }
    }
}

/// Generates values as encoders write them, with a few bytes changed, dropped or inserted.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let element = prop_oneof![
        "[a-z]{0,3}\\[[1-4]:[0-9]{1,2}(-[0-9]{1,2})?(,[0-9]{1,3}){0,2}\\](ib)?",
        "[a-z0-9.-]{1,6}",
        "[0-9]{1,2}(-[0-9]{1,2})?(;[0-9]){0,2}",
    ];
    let change = (
        any::<prop::sample::Index>(),
        0_u8..3,
        prop_oneof![
            any::<u8>(),
            prop::sample::select(&b"[]:,-;0123456789 \0"[..]),
        ],
    );
    (
        prop::collection::vec(element, 0..5),
        prop::collection::vec(change, 0..4),
    )
        .prop_map(|(elements, changes)| {
            let mut value = format!("pmix[{}]", elements.join(",")).into_bytes();
            for (index, kind, byte) in changes {
                let at = index.index(value.len().max(1)).min(value.len());
                match kind {
                    0 => value.insert(at, byte),
                    1 if at < value.len() => value[at] = byte,
                    _ if at < value.len() => drop(value.remove(at)),
                    _ => {}
                }
            }
            value
        })
}

fn quiet() -> ProptestConfig {
    ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(quiet())]

    #[test]
    fn accepted_values_have_the_names_of_upstream(value in mutated()) {
        let limits = Limits { max_nodes: 10_000, ..Limits::default() };
        let ours = scheme().parse_nodes(&value, &limits);
        let told = scheme().explain(&value);
        prop_assert_eq!(told.is_some(), value.starts_with(b"pmix["));
        for field in told.iter().flat_map(|t| &t.fields) {
            prop_assert!(field.range.start <= field.range.end && field.range.end <= value.len());
        }
        let Ok(Some(list)) = ours else { return Ok(()) };
        let body = &value[5..value.len() - 1];
        let empty = body.split(|b| *b == b',').any(<[u8]>::is_empty);
        let names: Vec<_> = list.iter().collect();
        if empty {
            // OpenPMIx rejects empty names. This scheme returns one only if the value has an empty
            // element.
            let commas = body.iter().filter(|b| **b == b',').count();
            prop_assert!(names.iter().filter(|n| n.is_empty()).count() <= commas + 1);
        } else {
            prop_assert_eq!(Some(names), upstream(&value));
        }
    }

    #[test]
    fn process_maps_never_panic_and_agree_with_their_text(value in mutated()) {
        let limits = Limits { max_ranks: 100_000, ..Limits::default() };
        if let Ok(Some(map)) = scheme().parse_procs(&value, &limits) {
            let body = &value[5..value.len() - 1];
            let meant = ProcMap::parse_text(body, &limits);
            prop_assert_eq!(meant.map(|m| proc_text(&m)), Ok(proc_text(&map)));
        }
    }

    #[test]
    fn any_list_survives_or_is_declined(list in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Some(value) = scheme().generate_node_regex(&list).expect("never fails") {
            prop_assert_eq!(nodes(&value).map(|l| text(&l)), Ok(list.clone()));
            prop_assert_eq!(upstream(&value).map(|n| n.join(&b',')), Some(list.clone()));
        }
        if let Some(value) = scheme().generate_ppn(&list).expect("never fails") {
            let meant = ProcMap::parse_text(&list, &Limits::default()).map(|m| proc_text(&m));
            prop_assert_eq!(procs(&value).map(|m| proc_text(&m)), Ok(meant.expect("ranks")));
        }
    }

    #[test]
    fn names_of_any_bytes_keep_their_order(
        names in prop::collection::vec("[a-z0-9.:;=%é -]{1,8}|n0{0,4}[0-9]{1,4}", 1..30),
    ) {
        let list = names.join(",").into_bytes();
        let value = scheme().generate_node_regex(&list).expect("never fails").expect("taken");
        prop_assert_eq!(nodes(&value).map(|l| text(&l)), Ok(list.clone()));
        prop_assert_eq!(upstream(&value).map(|n| n.join(&b',')), Some(list));
    }
}
