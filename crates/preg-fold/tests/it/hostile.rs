// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damaged values: decoding returns an error with an offset, stays within the limits, and does not
//! panic.

use crate::lists::{Dice, encoded, fold, odometer, procs, xnames};
use preg_core::{Limits, Regex2Ref, Status};

const TIGHT: Limits = Limits {
    max_nodes: 1_000,
    max_ranks: 1_000,
    max_bytes: 10_000,
    max_text: 10_000,
    max_memory: 1 << 20,
    max_name: 1_000,
};

fn value(bytes: &[u8]) -> Regex2Ref<'_> {
    Regex2Ref {
        kind: "fold",
        bytes,
    }
}

/// Decodes a value with every decoder, under tight limits.
fn read(bytes: &[u8]) {
    let fold = fold();
    if let Ok(text) = fold.parse_regex(value(bytes), &TIGHT) {
        assert!(text.unwrap().len() <= 10_000);
    }
    if let Ok(nodes) = fold.regex_nodes(value(bytes), &TIGHT) {
        assert!(nodes.unwrap().len() <= 1_000);
    }
    if let Ok(map) = fold.regex_procs(value(bytes), &TIGHT) {
        assert!(map.unwrap().num_ranks() <= 1_000);
    }
    let explanation = fold.explain_regex(value(bytes)).unwrap();
    for field in explanation.fields {
        assert!(field.range.start <= field.range.end && field.range.end <= bytes.len());
    }
}

#[track_caller]
fn fault(bytes: &[u8], offset: usize, words: &str) {
    let error = fold().parse_regex(value(bytes), &TIGHT).unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{error}");
    assert_eq!(error.offset(), Some(offset), "{error}");
    assert!(error.message().contains(words), "{error}");
    let legacy = [b"fold:", bytes].concat();
    let error = fold().parse_nodes(&legacy, &TIGHT).unwrap_err();
    assert_eq!(error.offset(), Some(offset + 5), "{error}");
}

#[test]
fn errors_name_the_offset_and_the_expected_text() {
    fault(b"", 0, "expected the version");
    fault(b"2n1", 0, "expected the version");
    fault(b"1n1*", 4, "expected a count");
    fault(b"1n1*x", 4, "expected a count");
    fault(b"1n1*0", 4, "no rounds");
    fault(b"1n1*3x", 5, "expected another column");
    fault(b"1n1*3a1a2", 7, "expected another column");
    fault(b"1n1*3+", 6, "expected a step");
    fault(b"1n\\,1*3", 3, "expected a byte of a name");
    fault(b"1n\\;", 3, "expected a byte of a name");
    fault(b"1n1*3!", 5, "expected a loop, a joint or a separator");
    fault(b"1n1*3<3", 3, "expected a window");
    fault(b"1n1*3>4", 3, "expected a window");
    fault(b"1n1*3>0", 3, "expected a window");
    fault(b"1(n1,m1)*3<1", 8, "expected a window");
    fault(b"1n3*5-1", 3, "a column reaches -1");
    fault(b"1n1*99999999999999999999", 4, "above 2^64");
    fault(b"1n1*4294967296*4294967296*2", 3, "more than 2^64");
    fault(b"1n1*2+1000000000000000000", 25, "more than 18 digits");
    fault(b"1n999999999999999999*2", 20, "a column reaches");
    fault(b"1(n1,m1", 7, "the end of the group");
    fault(b"1n)*2", 2, "before a parenthesis");
    fault(b"1n%x*2", 3, "digits behind `%`");
    fault(b"1n1\\", 4, "a byte behind");
    fault(b"0n1\0,n2", 3, "NUL");
    fault(b"1n1*2\0", 5, "NUL");
}

#[test]
fn rejects_too_many_loops_and_columns() {
    let deep = [b"1n1".to_vec(), b"*1".repeat(33)].concat();
    fault(&deep, 3 + 64, "more than 32 loops");
    let wide = [b"1".to_vec(), b"a1".repeat(53), b"*2".to_vec()].concat();
    fault(&wide, 1 + 52 * 2 + 1, "more than 52 columns");
}

#[test]
fn limits_are_checked_before_the_work() {
    let fold = fold();
    for bytes in [
        &b"1n1*999999999999"[..],
        b"1n1*1000001+0*1000001*1000001",
        b"1*18446744073709551615",
        b"1(,,)/18446744073709551",
        b"10*4294967295/4294967295+0",
        b"1n1*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2*2",
    ] {
        let default = Limits::default();
        for limits in [&TIGHT, &default] {
            let status = Status::ERR_OUT_OF_RESOURCE;
            let error = fold.parse_regex(value(bytes), limits).unwrap_err();
            assert_eq!(error.status(), status, "{error}");
            let error = fold.regex_nodes(value(bytes), limits).unwrap_err();
            assert_eq!(error.status(), status, "{error}");
            let error = fold.regex_procs(value(bytes), limits).unwrap_err();
            assert!([status, Status::ERR_BAD_PARAM].contains(&error.status()));
        }
    }
}

#[test]
fn rejects_words_as_ranks() {
    let fold = fold();
    for bytes in [&b"1n1*3"[..], b"0a,b", b"14294967290*9", b"10*3,x"] {
        let error = fold.regex_procs(value(bytes), &TIGHT).unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{error}");
        assert!(error.offset().is_some(), "{error}");
    }
}

#[test]
fn mutated_values_never_panic() {
    let mut dice = Dice(12345);
    let seeds = [
        encoded(&xnames(3, 300)).bytes,
        encoded(&odometer(&[("r", 1..=9, 4), ("n", 1..=72, 2)], 5, 300)).bytes,
        encoded(&procs(10, 8, |n, s| s * 10 + n)).bytes,
        b"1(a1,b%02;c)*3b4a-1<3>4^5*2~ba-3,\\*x,y9*9-1".to_vec(),
        b"0n1,n2".to_vec(),
    ];
    let alphabet = b"0123456789*/^~%()\\<>+-ab,;n\0\xff";
    let letter =
        |dice: &mut Dice| alphabet[usize::try_from(dice.below(alphabet.len() as u64)).unwrap()];
    for round in 0..20_000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=dice.below(4) {
            let at = usize::try_from(dice.below(bytes.len() as u64 + 1)).unwrap();
            let byte = letter(&mut dice);
            match dice.below(3) {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => bytes[at] = byte,
                _ if at < bytes.len() => drop(bytes.remove(at)),
                _ => bytes.truncate(at),
            }
        }
        read(&bytes);
    }
}

#[test]
fn claims_only_values_with_its_tag_or_type() {
    let fold = fold();
    let other = Regex2Ref {
        kind: "raw",
        bytes: b"1n1*3",
    };
    assert!(fold.parse_regex(other, &TIGHT).unwrap().is_none());
    assert!(fold.regex_nodes(other, &TIGHT).unwrap().is_none());
    assert!(fold.parse_nodes(b"raw:n1", &TIGHT).unwrap().is_none());
    assert!(fold.parse_procs(b"1n1*3", &TIGHT).unwrap().is_none());
    assert!(fold.legacy_len(b"pmix[n1]").unwrap().is_none());
    let extent = fold.legacy_len(b"fold:1n1*3\0rest").unwrap().unwrap();
    assert_eq!((extent.len, extent.wire_len()), (10, 11));
}

#[test]
fn explanations_have_the_fields_and_the_error() {
    let explanation = fold().explain(b"fold:1n01*3+2^5*x").unwrap();
    let fields: Vec<_> = (explanation.fields.iter())
        .map(|f| (f.name, f.range.clone()))
        .collect();
    let wanted = [
        ("tag", 0..5),
        ("version", 5..6),
        ("template", 6..9),
        ("loop", 9..13),
        ("joint", 13..15),
    ];
    assert_eq!(fields, wanted);
    assert_eq!(explanation.fields[3].meaning, "3 rounds, each column a +2");
    let fault = explanation.fault.unwrap();
    assert_eq!(fault.offset(), Some(16));
}
