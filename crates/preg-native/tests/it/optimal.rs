// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the generator with slow but simple algorithms for the shortest text.

use std::ops::Range;

use preg_core::{Limits, Params, Scheme};
use proptest::prelude::*;

fn scheme() -> Box<dyn Scheme> {
    (preg_native::COMPONENT.query)(&Params::default())
        .expect("the defaults are valid")
        .expect("the scheme works everywhere")
}

/// Returns the numeric fields of a name: at most the last 18 of consecutive digits, and the zeros
/// before these.
fn fields(name: &str) -> Vec<Range<usize>> {
    let bytes = name.as_bytes();
    let mut fields = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let mut end = at;
        while end < bytes.len() && bytes[end].is_ascii_digit() {
            end += 1;
        }
        let mut start = at.max(end.saturating_sub(18));
        while start > at && bytes[start - 1] == b'0' {
            start -= 1;
        }
        fields.push(start..end);
        at = end;
    }
    fields
}

/// Returns these names as one group on this field, or `None` if they differ elsewhere.
fn group(names: &[&str], field: &Range<usize>) -> Option<String> {
    let around = |name: &str| (name[..field.start].to_owned(), name[field.end..].to_owned());
    let first = around(names[0]);
    let mut ranges: Vec<(u128, u128)> = Vec::new();
    for name in names {
        if name.len() != names[0].len() || around(name) != first {
            return None;
        }
        let number: u128 = name[field.clone()].parse().ok()?;
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let ranges: Vec<_> = ranges
        .iter()
        .map(|(a, b)| {
            if a == b {
                a.to_string()
            } else {
                format!("{a}-{b}")
            }
        })
        .collect();
    let (prefix, suffix) = first;
    Some(format!(
        "{prefix}[{}:{}]{suffix}",
        field.len(),
        ranges.join(",")
    ))
}

/// Returns the length of the shortest single element for these names.
fn element_len(names: &[&str]) -> Option<usize> {
    let verbatim = (names.len() == 1).then(|| names[0].len());
    let groups = fields(names[0])
        .into_iter()
        .filter_map(|f| group(names, &f).map(|g| g.len()));
    groups.chain(verbatim).min()
}

/// Tries every division of the list into elements.
fn exhaustive(names: &[&str]) -> usize {
    if names.is_empty() {
        return 0;
    }
    (1..=names.len())
        .filter_map(|n| Some(element_len(&names[..n])? + 1 + exhaustive(&names[n..])))
        .min()
        .expect("one name is always an element")
}

/// Returns the same as `exhaustive`, for longer lists, with a table.
fn tabled(names: &[&str]) -> usize {
    let mut best = vec![0];
    for end in 1..=names.len() {
        let shortest = (0..end)
            .filter_map(|start| Some(best[start] + 1 + element_len(&names[start..end])?))
            .min();
        best.push(shortest.expect("one name is always an element"));
    }
    best[names.len()]
}

fn encode(list: &str) -> String {
    let value = scheme()
        .generate_node_regex(list.as_bytes())
        .expect("never fails");
    String::from_utf8(value.expect("the list can be carried")).expect("text")
}

fn decode(value: &str) -> String {
    let list = scheme().parse_nodes(value.as_bytes(), &Limits::default());
    let mut text = Vec::new();
    list.expect("parses")
        .expect("carries the tag")
        .write_text(b',', &mut text);
    String::from_utf8(text).expect("text")
}

fn check(list: &str, best: impl Fn(&[&str]) -> usize) {
    let names: Vec<_> = list.split(',').collect();
    let value = encode(list);
    assert_eq!(decode(&value), list);
    assert_eq!(value.len(), "pmix[".len() + best(&names), "{list}: {value}");
}

/// Generates lists in which neighbors often differ in one field: each step changes the numbers of a
/// template.
fn walks(steps: Range<usize>) -> impl Strategy<Value = String> {
    let template = prop_oneof![
        Just(("", vec![1], "")),
        Just(("", vec![2], "")),
        Just(("n", vec![1], "")),
        Just(("n", vec![3], "-ib")),
        Just(("r", vec![1, 1], "")),
        Just(("r", vec![2, 3], ".x")),
        Just(("x", vec![4, 1, 1], "")),
        Just(("a", vec![6, 5], "")),
        Just(("", vec![20], "z")),
    ];
    let step = (
        0_usize..3,
        prop_oneof![4 => Just(1_i64), 1 => -3_i64..12],
        1_usize..7,
        0..30_u8,
    );
    let starts = prop::collection::vec(0_u64..30, 3);
    (template, starts, prop::collection::vec(step, steps)).prop_map(
        |((prefix, widths, suffix), mut numbers, steps)| {
            let mut names = Vec::new();
            for (field, delta, times, jump) in steps {
                for _ in 0..times {
                    let text: Vec<_> = widths
                        .iter()
                        .zip(&numbers)
                        .map(|(&w, n)| format!("{n:0w$}"))
                        .collect();
                    names.push(format!("{prefix}{}{suffix}", text.join("n")));
                    let at = field % widths.len();
                    numbers[at] = numbers[at].saturating_add_signed(delta);
                }
                if jump == 0 {
                    names.push("login".to_owned());
                }
                if jump == 1 {
                    let again = names[names.len() - 1].clone();
                    names.push(again);
                }
            }
            names.join(",")
        },
    )
}

/// Generates lists of sections. In each, one field has numbers in any order, with repetitions and
/// consecutive numbers.
fn scattered() -> impl Strategy<Value = String> {
    let template = prop_oneof![
        Just(("n", vec![3], "")),
        Just(("", vec![2, 2], "")),
        Just(("node", vec![7, 2], "-ib")),
        Just(("c", vec![10, 1], ".example.com")),
    ];
    let number = prop_oneof![3 => 0_u64..1000, 1 => 8_u64..11];
    let run = prop_oneof![5 => Just(1_u64), 1 => 2_u64..9];
    let stretch = (0_usize..2, prop::collection::vec((number, run), 1..9));
    (template, prop::collection::vec(stretch, 1..6)).prop_map(
        |((prefix, widths, suffix), stretches)| {
            let mut numbers = vec![1_u64; widths.len()];
            let mut names = Vec::new();
            for (field, values) in stretches {
                let at = field % widths.len();
                let most = 10_u64.pow(widths[at].try_into().expect("small"));
                for value in values.iter().flat_map(|(n, run)| *n..n + run) {
                    numbers[at] = value % most;
                    let text: Vec<_> = widths
                        .iter()
                        .zip(&numbers)
                        .map(|(&w, n)| format!("{n:0w$}"))
                        .collect();
                    names.push(format!("{prefix}{}{suffix}", text.join("n")));
                }
            }
            names.join(",")
        },
    )
}

fn cut(list: &str, names: usize) -> String {
    list.split(',').take(names).collect::<Vec<_>>().join(",")
}

/// Returns a configuration without files for failures; a failure becomes a test below.
fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_division_of_a_short_list_is_shorter(list in walks(1..6)) {
        check(&cut(&list, 9), exhaustive);
    }

    #[test]
    fn no_division_of_a_longer_list_is_shorter(list in walks(4..20)) {
        check(&cut(&list, 40), tabled);
    }

    #[test]
    fn no_division_of_scattered_numbers_is_shorter(list in scattered()) {
        check(&cut(&list, 60), tabled);
    }

    #[test]
    fn unrelated_names_are_divided_optimally(
        names in prop::collection::vec("[ab]?[0-2]{1,6}(n[01]{1,2})?", 1..9),
    ) {
        check(&names.join(","), exhaustive);
    }
}

#[test]
fn the_example_of_the_specification() {
    let list = "odin009,odin010,odin011,odin012,odin017,odin018,thor176";
    assert_eq!(encode(list), "pmix[odin[3:9-12,17-18],thor176]");
}

#[test]
fn names_fold_on_whichever_number_folds_best() {
    let cases = [
        (
            "x1000c0s0b0n0,x1000c0s0b0n1,x1000c0s0b0n2",
            "pmix[x1000c0s0b0n[1:0-2]]",
        ),
        ("r01n07,r02n07,r03n07,r04n07", "pmix[r[2:1-4]n07]"),
        (
            "ip-10-0-0-12.ec2.internal,ip-10-0-0-13.ec2.internal",
            "pmix[ip-10-0-0-[2:12-13].ec2.internal]",
        ),
        ("jwb0001.juwels,jwb0003.juwels", "pmix[jwb[4:1,3].juwels]"),
        ("0001,0002,0003,0004", "pmix[[4:1-4]]"),
        (
            "rack1n1,rack1n2,rack1n3,rack2n3,rack3n3,rack4n3",
            "pmix[rack1n[1:1-2],rack[1:1-4]n3]",
        ),
        ("raw:01,raw:02,raw:03", "pmix[raw:[2:1-3]]"),
        ("blob1,pmix1", "pmix[blob1,pmix1]"),
    ];
    for (list, value) in cases {
        assert_eq!(encode(list), value);
        assert_eq!(decode(value), list);
    }
}

#[test]
fn a_single_name_has_the_form_of_upstream_unless_longer() {
    assert_eq!(encode("frontier00001"), "pmix[frontier[5:1]]");
    assert_eq!(encode("frontier00012"), "pmix[frontier00012]");
    assert_eq!(encode("a00001b00001"), "pmix[a[5:1]b00001]");
    assert_eq!(encode("n00000"), "pmix[n[5:0]]");
}

#[test]
fn order_and_duplicates_survive() {
    for list in [
        "login,node1,node2,login,node3",
        "a1,1,a2,2",
        "a01-0100s,login01,a01-0200d,login02",
        "n3,n2,n1,n1,n1,n2,n9,n10,n11,n99,n100",
        "n1,n1,n1,n1",
        "a0n08,a0n09,a0n09,a0n10,a0n10,a0n10,a1n10,login,a2n10,login",
    ] {
        assert_eq!(decode(&encode(list)), list);
    }
}

#[test]
fn numbers_of_any_length_are_exact() {
    for (list, value) in [
        (
            "n2147483646,n2147483647,n2147483648",
            "pmix[n[10:2147483646-2147483648]]",
        ),
        (
            "n12345678901234567890,n12345678901234567891,n12345678901234567892",
            "pmix[n12[18:345678901234567890-345678901234567892]]",
        ),
        ("n99999999999999999999", "pmix[n99999999999999999999]"),
        (
            "n00000000000000000001,n00000000000000000002",
            "pmix[n[20:1-2]]",
        ),
        ("n10000000000000000000001", "pmix[n1[22:1]]"),
    ] {
        assert_eq!(encode(list), value);
        assert_eq!(decode(value), list);
    }
    let long = format!("n{}1,n{}2", "0".repeat(5000), "0".repeat(5000));
    assert_eq!(decode(&encode(&long)), long);
}

#[test]
fn long_lists_fold_the_same_at_every_length() {
    let names = |range: Range<usize>| range.map(|i| format!("n{i:06}")).collect::<Vec<_>>();
    for count in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 100, 1000, 100_000] {
        let list = names(1..count + 1).join(",");
        let value = encode(&list);
        assert!(
            value.len() <= "pmix[n[6:1-]]".len() + count.to_string().len(),
            "{value}"
        );
        assert_eq!(decode(&value), list);
    }
    let mut broken = names(1..500);
    broken.remove(250);
    broken.push("n000499".to_owned());
    assert_eq!(encode(&broken.join(",")), "pmix[n[6:1-250,252-499,499]]");
}

#[test]
fn declines_lists_that_peers_would_misread() {
    let scheme = scheme();
    for list in [
        &b""[..],
        b",",
        b"n1,",
        b",n1",
        b"n1,,n2",
        b"a[1]",
        b"n1,a]",
        b"n1,a[",
        b"n\0",
        b"n1,n2,n\x003",
    ] {
        let shown = String::from_utf8_lossy(list);
        assert_eq!(scheme.generate_node_regex(list), Ok(None), "{shown:?}");
    }
}
