// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of every list: its value decodes to the list, and the folded parsers agree with the
//! text.

use crate::lists::{encoded, fold, shown};
use preg_core::{Limits, NodeList, ProcMap};
use proptest::prelude::*;

/// Checks a list with every decoder of its value.
fn check(list: &[u8]) {
    let limits = Limits::default();
    let value = encoded(list);
    let shown = shown(&value.bytes);
    assert!(value.bytes.len() <= list.len() + 1, "{shown}");
    let nodes = fold().regex_nodes(value.as_view(), &limits).unwrap();
    let names: Vec<_> = nodes.unwrap().iter().collect();
    let wanted: Vec<_> = NodeList::parse_text(list, &limits)
        .unwrap()
        .iter()
        .collect();
    assert_eq!(names, wanted, "{shown}");
    let procs = fold().regex_procs(value.as_view(), &limits);
    match ProcMap::parse_text(list, &limits) {
        Ok(map) => {
            let procs = procs.unwrap().unwrap();
            let ranks = |m: &ProcMap| -> Vec<Vec<_>> {
                let node = |n| m.ranks_of(n).into_iter().flatten().collect();
                (0..m.num_nodes()).map(node).collect()
            };
            assert_eq!(ranks(&procs), ranks(&map), "{shown}");
        }
        Err(_) => assert!(procs.is_err(), "{shown}"),
    }
    let explanation = fold().explain_regex(value.as_view()).unwrap();
    assert!(explanation.fault.is_none(), "{shown}");
    let mut at = 0;
    for field in &explanation.fields {
        assert_eq!(field.range.start, at, "a gap before {field:?} in {shown}");
        at = field.range.end;
    }
    assert_eq!(at, value.bytes.len(), "{shown}");
}

/// A counter: text, first number, width, step, rounds, and `true` if a `;` follows each round.
type Wheel = (String, i64, usize, i64, usize, bool);

fn wheel() -> impl Strategy<Value = Wheel> {
    let text = prop::string::string_regex("[a-z.*/%()^~\\\\-]{0,3}").unwrap();
    let step = prop_oneof![4 => Just(1_i64), 1 => -3_i64..20];
    let semicolon = prop::bool::weighted(0.2);
    (text, 0_i64..120, 0_usize..4, step, 1_usize..6, semicolon)
}

/// Returns all names of a product, with their separators.
fn product(wheels: &[Wheel]) -> Vec<(u8, String)> {
    let mut names = vec![(b',', String::new())];
    for (text, first, width, step, rounds, semicolon) in wheels {
        let mut next = Vec::new();
        for (separator, name) in &names {
            for round in 0..*rounds {
                let number = (first + step * i64::try_from(round).unwrap()).abs();
                let separator = match (round, semicolon) {
                    (0, _) => *separator,
                    (_, true) => b';',
                    (_, false) => b',',
                };
                next.push((separator, format!("{name}{text}{number:0width$}")));
            }
        }
        names = next;
    }
    names
}

fn joined(names: &[(u8, String)]) -> Vec<u8> {
    let mut list = Vec::new();
    for (at, (separator, name)) in names.iter().enumerate() {
        if at > 0 {
            list.push(*separator);
        }
        list.extend_from_slice(name.as_bytes());
    }
    list
}

proptest! {
    #[test]
    fn products_with_noise_survive(
        wheels in prop::collection::vec(wheel(), 1..5),
        noise in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8), 0..6),
        window in (0_usize..50, 50_usize..100),
    ) {
        let mut names = product(&wheels);
        let place = |percent: usize| names.len() * percent / 100;
        names = names[place(window.0)..place(window.1).max(place(window.0) + 1)].to_vec();
        for (index, kind) in noise {
            let at = index.index(names.len());
            let name = names[at].clone();
            match kind {
                0 if names.len() > 1 => { names.remove(at); }
                1 => names.insert(at, name),
                2 => names.insert(at, (b',', "login01".into())),
                _ => names.insert(at, (b';', String::new())),
            }
        }
        check(&joined(&names));
    }

    #[test]
    fn alternating_names_survive(
        record in prop::collection::vec("[a-c]{0,2}[0-9]{0,3}[a-c]?", 1..10),
        steps in prop::collection::vec(0_i64..12, 10),
        rounds in 1_usize..12,
        cut in 0_usize..4,
    ) {
        let mut names = Vec::new();
        for round in 0..rounds {
            for (name, step) in record.iter().zip(&steps) {
                let grown: String = match name.find(|c: char| c.is_ascii_digit()) {
                    Some(at) => {
                        let end = name[at..].find(|c: char| !c.is_ascii_digit());
                        let end = end.map_or(name.len(), |e| at + e);
                        let number: i64 = name[at..end].parse().unwrap();
                        let number = number + step * i64::try_from(round).unwrap();
                        format!("{}{number:0w$}{}", &name[..at], &name[end..], w = end - at)
                    }
                    None => name.clone(),
                };
                names.push((b',', grown));
            }
        }
        names.truncate(names.len() - cut.min(names.len() - 1));
        check(&joined(&names));
    }

    #[test]
    fn process_maps_survive(
        nodes in prop::collection::vec((0_u32..5000, 0_u32..9, 0_u32..5), 0..30),
    ) {
        let node = |(first, count, step): &(u32, u32, u32)| -> String {
            let ranks = (0..*count).map(|n| (first + n * step).to_string());
            ranks.collect::<Vec<_>>().join(",")
        };
        let list: Vec<_> = nodes.iter().map(node).collect();
        check(list.join(";").as_bytes());
    }

    #[test]
    fn any_bytes_but_nul_survive(list in prop::collection::vec(1_u8.., 0..200)) {
        check(&list);
    }

    #[test]
    fn lists_of_few_characters_survive(list in "[019,;a*/^~%()\\\\<>+-]{0,80}") {
        check(list.as_bytes());
    }

    #[test]
    fn long_numbers_survive(
        names in prop::collection::vec("n?[09]{0,4}[0-9]{15,21}", 1..8),
    ) {
        check(names.join(",").as_bytes());
    }
}

#[test]
fn a_truncated_record_after_a_joint_keeps_its_names() {
    check(
        b"a03-1100h,a03-1200c,a03-1300s,a03-1400d,a03-1500h,a03-1600c,a03-1700s,a03-1800d,\
          a03-1900h,a03-2000c,a03-2100s,a03-2200d,a03-2300h,a00-2430c,a03-2500s,a03-2600d,\
          a03-2700h",
    );
}

#[test]
fn a_list_with_a_nul_is_declined() {
    assert!(fold().generate_regex(b"n1,n\0,n2").unwrap().is_none());
    assert!(fold().generate_node_regex(b"\0").unwrap().is_none());
    assert!(fold().generate_ppn(b"0,1\0").unwrap().is_none());
}

#[test]
fn numbers_fold_in_their_last_18_digits() {
    check(b"n999999999999999998,n999999999999999999");
    check(b"n999999999999999999,n1000000000000000000,n1000000000000000001");
    let list: Vec<_> = (0..50)
        .map(|n| format!("uuid-123456789000000000000000{:03}", n + 90))
        .collect();
    let list = list.join(",");
    check(list.as_bytes());
    assert!(encoded(list.as_bytes()).bytes.len() < 40);
}

#[test]
fn the_empty_list_is_empty_and_two_empty_names_are_two() {
    let limits = Limits::default();
    for (list, names, nodes) in [(&b""[..], 0, 0), (b",", 2, 1), (b";", 1, 2), (b",,", 3, 1)] {
        let value = encoded(list);
        let found = fold().regex_nodes(value.as_view(), &limits).unwrap();
        assert_eq!(found.unwrap().len(), names);
        let found = fold().regex_procs(value.as_view(), &limits).unwrap();
        assert_eq!(found.unwrap().num_nodes(), nodes);
    }
}
