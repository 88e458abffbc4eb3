// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process maps, the regex2 form and explanations.

use pmix_mca::Source;
use preg_core::{Limits, Params, ProcMap, Regex2Ref, Scheme, Status};
use proptest::prelude::*;

fn open(params: &Params) -> Box<dyn Scheme> {
    (preg_native::COMPONENT.query)(params)
        .expect("the parameters are valid")
        .expect("the scheme works everywhere")
}

fn scheme() -> Box<dyn Scheme> {
    open(&Params::default())
}

fn writing_regex2() -> Box<dyn Scheme> {
    let params = Params::builder().set("preg_native_regex2", "true", Source::Api);
    open(&params.build().expect("valid"))
}

fn ppn(list: &str) -> Option<String> {
    let value = scheme().generate_ppn(list.as_bytes()).expect("never fails");
    value.map(|v| String::from_utf8(v).expect("text"))
}

#[test]
fn ranges_of_the_input_lose_no_rank() {
    for (list, value) in [
        ("0-3,4-7,8-11,12-15,16-19", "pmix[0-19]"),
        ("0,1-9,10-19,20-29", "pmix[0-29]"),
        ("0-3,4,5,6-100;101-200,7", "pmix[0-100;101-200,7]"),
        ("00,01,02,03,04,05,06,07", "pmix[0-7]"),
        ("0,1, 2,3 ,4 - 9,10,,11,12,", "pmix[0-12]"),
        (
            "10,11,12,13;9,8,7,7,7,8,9,10,11,12",
            "pmix[10-13;9,8,7,7,7-12]",
        ),
        ("98,99,100,101,102;999,1000,1001", "pmix[98-102;999-1001]"),
        (
            "2147483640,2147483641,2147483642",
            "pmix[2147483640-2147483642]",
        ),
    ] {
        assert_eq!(ppn(list).as_deref(), Some(value), "{list}");
    }
}

#[test]
fn process_maps_that_peers_would_misread_or_that_grow_are_declined() {
    for list in [
        "",
        ";",
        ",",
        "0;,;1,2,3,4,5,6,7,8",
        "0,1,2,3,4,5,6,7;",
        ";0,1,2,3,4,5,6,7",
        "0,1,2,3;;4,5,6,7,8,9",
        "0",
        "0,1;2,3",
        "0,8,16;1,9,17",
        "a,b,c,d,e,f,g",
        "0,1,2,3,4,5,6,x",
        "-1,0,1,2,3,4,5,6,7",
        "9-0,1,2,3,4,5,6,7",
        "0-,1,2,3,4,5,6,7,8",
        "+0,+1,+2,+3,+4,+5",
        "0-1-2,3,4,5,6,7,8,9",
        "2147483645,2147483646,2147483647",
        "4294967293,4294967294,4294967295",
        "99999999999999999999,1,2,3",
        "0 1,2,3,4,5,6,7,8,9",
    ] {
        assert_eq!(ppn(list), None, "{list:?}");
    }
    // A value as long as the list is accepted. A value that is one byte longer is declined.
    assert_eq!(ppn("0,1,2,3,4,5").as_deref(), Some("pmix[0-5]"));
    assert_eq!(ppn("0,1,2,3,4").as_deref(), Some("pmix[0-4]"));
    assert_eq!(ppn("0,1,2,3"), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ranks_keep_their_order_and_number(
        nodes in prop::collection::vec(
            prop::collection::vec((0_u32..120, 1_u32..40, any::<bool>()), 1..4), 1..6),
    ) {
        let entry = |&(first, count, range): &(u32, u32, bool)| {
            let ranks: Vec<_> = (first..first + count).map(|r| r.to_string()).collect();
            if range { format!("{first}-{}", first + count - 1) } else { ranks.join(",") }
        };
        let node = |n: &Vec<_>| n.iter().map(entry).collect::<Vec<_>>().join(",");
        let list = nodes.iter().map(node).collect::<Vec<_>>().join(";");
        let meant = ProcMap::parse_text(list.as_bytes(), &Limits::default()).expect("ranks");
        if let Some(value) = ppn(&list) {
            prop_assert!(value.len() <= list.len());
            let map = scheme().parse_procs(value.as_bytes(), &Limits::default());
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            map.expect("parses").expect("mine").write_text(&mut ours);
            meant.write_text(&mut theirs);
            prop_assert_eq!(ours, theirs);
        }
    }
}

#[test]
fn regex2_is_offered_only_on_request() {
    assert_eq!(scheme().generate_regex(b"n1,n2,n3"), Ok(None));
    let regex = writing_regex2()
        .generate_regex(b"n1,n2,n3")
        .expect("ok")
        .expect("asked for");
    assert_eq!(
        (regex.kind.as_str(), &regex.bytes[..]),
        ("pmix", &b"pmix[n[1:1-3]]\0"[..])
    );
    let params = Params::builder().set("preg_native_regex2", "maybe", Source::Api);
    assert!((preg_native::COMPONENT.query)(&params.build().expect("valid")).is_err());
}

#[test]
fn ambiguous_regex2_maps_are_not_written() {
    let scheme = writing_regex2();
    let bytes = |list: &[u8]| scheme.generate_regex(list).expect("ok").map(|r| r.bytes);
    let procs = bytes(b"0,1,2,3;4,5,6,7").expect("a process map");
    assert_eq!(procs, b"pmix[0-3;4-7]\0");
    // Ambiguous: node names that are numbers, or the ranks of one node.
    assert_eq!(bytes(b"0,1,2,3,4,5,6,7,8"), None);
    assert_eq!(bytes(b"0-3,4-7,8-11"), None);
    assert_eq!(bytes(b"a,0,1,2").as_deref(), Some(&b"pmix[a,0,1,2]\0"[..]));
}

#[test]
fn regex2_text_is_expanded_with_and_without_its_terminator() {
    let limits = Limits::default();
    let text = |bytes: &[u8], limits: &Limits| {
        scheme().parse_regex(
            Regex2Ref {
                kind: "pmix",
                bytes,
            },
            limits,
        )
    };
    assert_eq!(
        text(b"pmix[n[2:1-3],x]\0", &limits),
        Ok(Some(b"n01,n02,n03,x".to_vec()))
    );
    assert_eq!(
        text(b"pmix[n[2:1-3],x]", &limits),
        Ok(Some(b"n01,n02,n03,x".to_vec()))
    );
    assert_eq!(
        text(b"pmix[0-3;4,6]\0", &limits),
        Ok(Some(b"0,1,2,3;4,6".to_vec()))
    );
    assert_eq!(text(b"pmix[]\0", &limits), Ok(Some(Vec::new())));
    for bytes in [&b""[..], b"\0", b"n1,n2\0", b"pmix[n[2:1-3]\0", b"raw:n1\0"] {
        let error = text(bytes, &limits).expect_err("damaged");
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
        let told = scheme()
            .explain_regex(Regex2Ref {
                kind: "pmix",
                bytes,
            })
            .expect("mine");
        assert_eq!(told.fault, Some(error));
    }
    let small = Limits {
        max_bytes: 20,
        ..limits
    };
    for bytes in [&b"pmix[node[4:1-9]]\0"[..], b"pmix[0-9;10-19]\0"] {
        let error = text(bytes, &small).expect_err("more than 20 bytes");
        assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
    }
}

#[test]
fn regex2_maps_stay_folded() {
    let limits = Limits::default();
    let regex = |bytes| Regex2Ref {
        kind: "pmix",
        bytes,
    };
    let nodes = scheme()
        .regex_nodes(regex(b"pmix[0,1]\0"), &limits)
        .expect("ok")
        .expect("mine");
    assert_eq!(nodes.len(), 2);
    let procs = scheme()
        .regex_procs(regex(b"pmix[0,1]\0"), &limits)
        .expect("ok")
        .expect("mine");
    assert_eq!((procs.num_nodes(), procs.num_ranks()), (1, 2));
    assert!(scheme().regex_nodes(regex(b"n1\0"), &limits).is_err());
    assert!(scheme().expands_text());
}

fn told(value: &str) -> Vec<(String, &'static str)> {
    let told = scheme().explain(value.as_bytes()).expect("carries the tag");
    let fields = told.fields.into_iter();
    fields
        .map(|f| (value[f.range].to_owned(), f.name))
        .collect()
}

#[test]
fn explanations_cover_every_field() {
    let expected = [
        ("pmix[", "tag"),
        ("node", "prefix"),
        ("3", "width"),
        ("9-12", "range"),
        ("17", "range"),
        ("-ib", "suffix"),
        ("login", "name"),
        ("", "prefix"),
        ("2", "width"),
        ("4", "range"),
        ("]", "end"),
    ];
    let value = "pmix[node[3:9-12,17]-ib,login,[2:4]]";
    assert_eq!(
        told(value),
        expected.map(|(text, name)| (text.to_owned(), name))
    );
    let fields = scheme().explain(value.as_bytes()).expect("mine").fields;
    assert_eq!(fields[3].meaning, "4 names: node009-ib to node012-ib");
    assert_eq!(fields[4].meaning, "1 name: node017-ib");
    let procs = [
        ("pmix[", "tag"),
        ("0-3", "node"),
        ("", "node"),
        ("4,9", "node"),
        ("]", "end"),
    ];
    assert_eq!(
        told("pmix[0-3;;4,9]"),
        procs.map(|(text, name)| (text.to_owned(), name))
    );
}

#[test]
fn explanations_and_the_parser_stop_at_the_same_byte() {
    let told = scheme().explain(b"pmix[n[2:1-3],m[2:5-]]").expect("mine");
    assert_eq!(told.fields.last().map(|f| f.name), Some("width"));
    let fault = told.fault.expect("an open range");
    assert_eq!(
        (fault.status(), fault.offset()),
        (Status::ERR_NOT_FOUND, Some(20))
    );
    let told = scheme().explain(b"pmix[n[2:1-3],m").expect("mine");
    assert_eq!(told.fields.last().map(|f| f.name), Some("name"));
    assert_eq!(told.fault.and_then(|f| f.offset()), Some(15));
    let told = scheme().explain(b"pmix[0-3;4-x]").expect("mine");
    assert!(told.fault.is_none(), "4-x is a name");
    let told = scheme().explain(b"pmix[0-3;7-4]").expect("mine");
    assert_eq!(told.fault.and_then(|f| f.offset()), Some(9));
}

#[test]
fn explanations_of_large_maps_are_summarized() {
    let ranges = (0..50_000)
        .map(|i| (i * 2).to_string())
        .collect::<Vec<_>>()
        .join(",");
    let mut value = format!("pmix[n[6:{ranges}]]");
    let told = scheme().explain(value.as_bytes()).expect("mine");
    assert_eq!((told.fields.len(), told.fault), (10_001, None));
    assert_eq!(told.fields.last().map(|f| f.range.end), Some(value.len()));
    value.insert_str(value.len() - 2, ",x");
    let told = scheme().explain(value.as_bytes()).expect("mine");
    assert_eq!(told.fault.and_then(|f| f.offset()), Some(value.len() - 3));
}

#[test]
fn explanations_of_regex2_show_the_terminator() {
    let told = scheme().explain_regex(Regex2Ref {
        kind: "pmix",
        bytes: b"pmix[n1]\0",
    });
    let last = told.expect("mine").fields.pop().expect("fields");
    assert_eq!((last.name, last.range), ("terminator", 8..9));
}
