// SPDX-License-Identifier: MIT OR Apache-2.0

use preg_core::Status;

use super::*;

fn names(list: &NodeList) -> Vec<Vec<u8>> {
    list.iter().collect()
}

fn parsed(value: &[u8]) -> NodeList {
    let list = Raw.parse_nodes(value, &Limits::default());
    list.unwrap().expect("it carries the tag")
}

fn regex(bytes: &[u8]) -> Regex2Ref<'_> {
    Regex2Ref { kind: "raw", bytes }
}

#[test]
fn the_verbatim_list_follows_the_tag() {
    let list = b"n1,,n1,n2,\xe9t\xe9,pmix[n[1:1-3]],";
    let value = Raw.generate_node_regex(list).unwrap().unwrap();
    assert_eq!(value, [&b"raw:"[..], list].concat());
    let expected: Vec<_> = list.split(|b| *b == b',').map(<[u8]>::to_vec).collect();
    assert_eq!(names(&parsed(&value)), expected);
    assert_eq!(Raw.generate_ppn(b"0;1").unwrap().unwrap(), b"raw:0;1");
}

#[test]
fn a_name_that_begins_like_the_tag_is_kept() {
    let value = Raw.generate_node_regex(b"raw:n1,n2").unwrap().unwrap();
    assert_eq!(value, b"raw:raw:n1,n2");
    assert_eq!(names(&parsed(&value)), [&b"raw:n1"[..], b"n2"]);
}

#[test]
fn the_empty_list_survives() {
    assert_eq!(Raw.generate_node_regex(b"").unwrap().unwrap(), b"raw:");
    assert!(parsed(b"raw:").is_empty());
    assert_eq!(Raw.generate_regex(b"").unwrap().unwrap().bytes, b"\0");
    let text = Raw.parse_regex(regex(b"\0"), &Limits::default());
    assert_eq!(text, Ok(Some(Vec::new())));
}

#[test]
fn a_list_with_a_nul_is_declined() {
    assert_eq!(Raw.generate_node_regex(b"n1\0n2"), Ok(None));
    assert_eq!(Raw.generate_ppn(b"0\x001"), Ok(None));
    assert_eq!(Raw.generate_regex(b"n1\0n2"), Ok(None));
}

#[test]
fn parses_rank_ranges_and_keeps_empty_nodes() {
    let map = Raw.parse_procs(b"raw:0-3;;4,5", &Limits::default());
    let map = map.unwrap().unwrap();
    assert_eq!((map.num_nodes(), map.num_ranks()), (3, 6));
    let mut text = Vec::new();
    map.write_text(&mut text);
    assert_eq!(text, b"0,1,2,3;;4,5");
}

#[test]
fn an_error_has_its_offset_in_the_value() {
    let error = Raw.parse_procs(b"raw:0,1;x", &Limits::default());
    let error = error.unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    assert_eq!(error.offset(), Some(8));
}

#[test]
fn the_length_of_regex2_counts_the_nul() {
    let value = Raw.generate_regex(b"n1,n2").unwrap().unwrap();
    assert_eq!(
        (value.kind.as_str(), &value.bytes[..]),
        ("raw", &b"n1,n2\0"[..])
    );
    for bytes in [&b"n1,n2\0"[..], b"n1,n2"] {
        let text = Raw.parse_regex(regex(bytes), &Limits::default());
        assert_eq!(text, Ok(Some(b"n1,n2".to_vec())));
    }
}

#[test]
fn what_follows_the_nul_is_refused() {
    let error = Raw.parse_regex(regex(b"n1\0n2\0"), &Limits::default());
    let error = error.unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    assert_eq!(error.offset(), Some(3));
    let explanation = Raw.explain_regex(regex(b"n1\0n2\0")).unwrap();
    assert_eq!(explanation.fault, Some(error));
}

#[test]
fn limits_hold_in_both_forms() {
    let limits = Limits {
        max_nodes: 2,
        max_text: 5,
        ..Limits::default()
    };
    let nodes = Raw.parse_nodes(b"raw:a,b,c", &limits).unwrap_err();
    assert_eq!(nodes.status(), Status::ERR_OUT_OF_RESOURCE);
    let text = Raw.parse_regex(regex(b"n1,n22\0"), &limits).unwrap_err();
    assert_eq!(text.status(), Status::ERR_OUT_OF_RESOURCE);
    assert!(Raw.parse_regex(regex(b"n1,n2\0"), &limits).is_ok());
}

#[test]
fn declines_values_of_other_schemes() {
    for value in [&b"raw"[..], b"RAW:n1", b"n1,raw:", b"pmix[n1]", b""] {
        assert_eq!(Raw.parse_nodes(value, &Limits::default()), Ok(None));
        assert_eq!(Raw.parse_procs(value, &Limits::default()), Ok(None));
        assert_eq!(Raw.legacy_len(value), Ok(None));
        assert_eq!(Raw.explain(value), None);
    }
    let other = Regex2Ref {
        kind: "Raw",
        bytes: b"n1\0",
    };
    assert_eq!(Raw.parse_regex(other, &Limits::default()), Ok(None));
    assert_eq!(Raw.explain_regex(other), None);
}

#[test]
fn the_extent_ends_at_the_nul() {
    let extent = Raw.legacy_len(b"raw:n1,n2\0more").unwrap().unwrap();
    assert_eq!((extent.len, extent.wire_len()), (9, 10));
}

#[test]
fn the_fields_of_an_explanation_cover_the_value() {
    let ends = |e: Explanation| e.fields.iter().map(|f| f.range.end).collect::<Vec<_>>();
    assert_eq!(ends(Raw.explain(b"raw:n1,n2").unwrap()), [4, 9]);
    assert_eq!(ends(Raw.explain_regex(regex(b"n1,n2\0")).unwrap()), [5, 6]);
    assert_eq!(ends(Raw.explain_regex(regex(b"n1,n2")).unwrap()), [5]);
}
