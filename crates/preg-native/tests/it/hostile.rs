// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damaged and hostile values: the parser returns exact names or an error with an offset.

use preg_core::{Limits, Regex2Ref, Status};

use crate::component::{nodes, proc_text, procs, scheme, text};

fn refused(value: &str, status: Status, offset: usize) {
    let error = nodes(value.as_bytes()).expect_err(value);
    assert_eq!(
        (error.status(), error.offset()),
        (status, Some(offset)),
        "{value}: {error}"
    );
    let told = scheme().explain(value.as_bytes()).expect("carries the tag");
    let fault = told.fault.expect(value);
    assert_eq!(
        (fault.status(), fault.offset()),
        (status, Some(offset)),
        "{value}: {fault}"
    );
}

const BAD: Status = Status::ERR_BAD_PARAM;
const MISSING: Status = Status::ERR_NOT_FOUND;

#[test]
fn truncated_maps_are_errors_at_their_end() {
    let whole = "pmix[n[2:1-3,7]ib,login,x[4:1000]c0]";
    for end in "pmix[".len()..whole.len() {
        let cut = &whole[..end];
        let error = nodes(cut.as_bytes()).expect_err(cut);
        assert_eq!(error.status(), BAD, "{cut}");
        assert!(
            error.offset().is_some_and(|o| o >= end - 1),
            "{cut}: {error}"
        );
    }
    assert_eq!(nodes(whole.as_bytes()).map(|l| l.len()), Ok(6));
}

#[test]
fn ranges_that_no_generator_writes_are_errors() {
    for (value, status, offset) in [
        ("pmix[n[1-3]]", BAD, 8),
        ("pmix[n[:1-3]]", BAD, 7),
        ("pmix[n[0:1-3]]", BAD, 7),
        ("pmix[n[-2:1-3]]", BAD, 7),
        ("pmix[n[2x:1-3]]", BAD, 8),
        ("pmix[n[99999999999999999999:1]]", BAD, 7),
        ("pmix[n[2:]]", MISSING, 9),
        ("pmix[n[2:,1]]", MISSING, 9),
        ("pmix[n[2:1,,2]]", MISSING, 11),
        ("pmix[n[2:1-]]", MISSING, 11),
        ("pmix[n[2:-1]]", MISSING, 9),
        ("pmix[n[2:a]]", MISSING, 9),
        ("pmix[n[2:1a]]", BAD, 10),
        ("pmix[n[2:1-2-3]]", BAD, 12),
        ("pmix[n[2:1--3]]", BAD, 11),
        ("pmix[n[2:3-1]]", BAD, 9),
        ("pmix[n[2:1-3", BAD, 12),
        ("pmix[login,n[2:1-3]", BAD, 18),
    ] {
        refused(value, status, offset);
    }
}

#[test]
fn a_number_wider_than_its_width_is_an_error() {
    refused("pmix[n[1:8-12]]", BAD, 11);
    refused("pmix[n[3:1234]]", BAD, 9);
    refused("pmix[[5:123456]]", BAD, 8);
    // Leading zeros do not count as digits of the number.
    assert_eq!(
        nodes(b"pmix[n[2:0007-0009]]").map(|l| text(&l)),
        Ok(b"n07,n08,n09".to_vec())
    );
}

#[test]
fn brackets_without_a_partner_are_errors() {
    refused("pmix[n[2:1-3]]]", BAD, 13);
    refused("pmix[n[2:1-3]a[b]", BAD, 14);
    refused("pmix[n[2:1-3]]x]", BAD, 13);
    // A second group with both brackets is text, as in OpenPMIx.
    let two = nodes(b"pmix[r[1:1-2]n[1:1-2]]").map(|l| text(&l));
    assert_eq!(two, Ok(b"r1n[1:1-2],r2n[1:1-2]".to_vec()));
    // A verbatim name may contain a closing bracket: OpenPMIx writes and parses it.
    assert_eq!(
        nodes(b"pmix[a],n[1:1-2]]").map(|l| text(&l)),
        Ok(b"a],n1,n2".to_vec())
    );
}

#[test]
fn empty_elements_are_empty_names() {
    for (value, list) in [
        (&b"pmix[]"[..], &b""[..]),
        (b"pmix[,]", b","),
        (b"pmix[n[1:1-2],]", b"n1,n2,"),
        (b"pmix[,n1]", b",n1"),
        (b"pmix[a,,b]", b"a,,b"),
    ] {
        assert_eq!(nodes(value).map(|l| text(&l)), Ok(list.to_vec()));
    }
    assert_eq!(nodes(b"pmix[]").map(|l| l.len()), Ok(0));
    assert_eq!(nodes(b"pmix[,]").map(|l| l.len()), Ok(2));
}

#[test]
fn long_numbers_are_exact_or_refused() {
    let cases = [
        ("pmix[n[19:9223372036854775807]]", "n9223372036854775807"),
        (
            "pmix[n[21:9223372036854775807]x]",
            "n009223372036854775807x",
        ),
        (
            "pmix[n[18:999999999999999998-999999999999999999]]",
            "n999999999999999998,n999999999999999999",
        ),
        (
            "pmix[n[20:9-11]]",
            "n00000000000000000009,n00000000000000000010,n00000000000000000011",
        ),
        // Consecutive names across 2^31, as OpenPMIx 4.2.2 to 6.1 write them.
        (
            "pmix[n[10:2147483647--2147483647]]",
            "n2147483647,n2147483648,n2147483649",
        ),
    ];
    for (value, list) in cases {
        assert_eq!(
            nodes(value.as_bytes()).map(|l| text(&l)),
            Ok(list.into()),
            "{value}"
        );
    }
    refused("pmix[n[19:9223372036854775808]]", BAD, 10);
    refused("pmix[n[19:1-1000000000000000000]]", BAD, 12);
    refused("pmix[n[20:-1]]", MISSING, 10);
    refused("pmix[n[10:5000000000--1]]", BAD, 21);
}

#[test]
fn one_range_stays_one_run() {
    let list = nodes(b"pmix[n[7:1-1000000]]").expect("parses");
    let mut runs = 0;
    list.for_each_run(|_| runs += 1);
    assert_eq!((list.len(), runs), (1_000_000, 1));
    assert!(list.memory_bytes() < 1024, "{}", list.memory_bytes());
    assert_eq!(list.nth(999_999).as_deref(), Some(&b"n1000000"[..]));
    assert_eq!(list.position(b"n0500000"), Some(499_999));
    assert_eq!(list.position(b"n500000"), None);
}

#[test]
fn limits_hold_before_anything_is_allocated() {
    let limits = |max_nodes, max_bytes| Limits {
        max_nodes,
        max_bytes,
        ..Limits::default()
    };
    let parse = |value: &[u8], limits: &Limits| scheme().parse_nodes(value, limits);
    let refused = |value: &[u8], limits: &Limits| {
        let error = parse(value, limits).expect_err("too much");
        assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
        assert!(error.offset().is_some(), "{error}");
    };
    refused(b"pmix[n[10:0-4294967295]]", &Limits::default());
    refused(b"pmix[n[18:0-999999999999999999]]", &Limits::default());
    refused(b"pmix[a,n[1:1-3]]", &limits(3, 1 << 20));
    refused(b"pmix[a,b,c,d]", &limits(3, 1 << 20));
    assert!(parse(b"pmix[a,n[1:1-2]]", &limits(3, 1 << 20)).is_ok());
    // 3 names of 6 bytes and the commas between them are 20 bytes.
    refused(b"pmix[node[2:1-3]]", &limits(3, 19));
    assert!(parse(b"pmix[node[2:1-3]]", &limits(3, 20)).is_ok());
    refused(b"pmix[long-name]", &limits(3, 8));
    // A number is padded to a large width, but only up to a limit.
    let wide = parse(b"pmix[n[1000000:1-2]]", &Limits::default()).expect("fits");
    assert_eq!(wide.expect("mine").nth(1).map(|n| n.len()), Some(1_000_001));
    refused(b"pmix[n[2000000000:1]]", &Limits::default());
    let many = format!("pmix[n[100000:{}]]", "1,".repeat(1000));
    refused(many.as_bytes(), &Limits::default());
}

#[test]
fn other_values_are_not_claimed() {
    let scheme = scheme();
    for value in [
        &b""[..],
        b"pmix",
        b"pmix]",
        b"PMIX[n1]",
        b"pmixx[n1]",
        b" pmix[n1]",
        b"raw:pmix[n1]",
        b"blob:\0component=zlib:\0size=4:\0....",
        b"n1,n2",
        b"n[1-3]",
        b"fold:x",
    ] {
        assert_eq!(scheme.parse_nodes(value, &Limits::default()), Ok(None));
        assert_eq!(scheme.parse_procs(value, &Limits::default()), Ok(None));
        assert_eq!(scheme.legacy_len(value), Ok(None));
        assert_eq!(scheme.explain(value), None);
    }
    for kind in ["raw", "compress", "PMIX", "pmix ", ""] {
        let regex = Regex2Ref {
            kind,
            bytes: b"pmix[n[1:1-2]]\0",
        };
        assert_eq!(scheme.parse_regex(regex, &Limits::default()), Ok(None));
        assert_eq!(scheme.regex_nodes(regex, &Limits::default()), Ok(None));
        assert_eq!(scheme.explain_regex(regex), None);
    }
}

#[test]
fn the_extent_ends_at_the_terminator() {
    let extent = scheme()
        .legacy_len(b"pmix[n[1:1-2]]\0rest of a buffer")
        .expect("ok");
    let extent = extent.expect("mine");
    assert_eq!((extent.len, extent.wire_len()), (14, 15));
    let error = nodes(b"pmix[n1\0]").expect_err("a NUL inside");
    assert_eq!((error.status(), error.offset()), (BAD, Some(7)));
}

#[test]
fn process_maps_are_exact_or_refused() {
    for (value, map) in [
        ("pmix[0-3;4-7,9]", "0,1,2,3;4,5,6,7,9"),
        ("pmix[3,1,1,2]", "3,1,1,2"),
        ("pmix[0-1;;2-3]", "0,1;;2,3"),
        ("pmix[;]", ";"),
        ("pmix[]", ""),
        ("pmix[4294967245]", "4294967245"),
    ] {
        assert_eq!(
            procs(value.as_bytes()).map(|m| proc_text(&m)),
            Ok(map.into()),
            "{value}"
        );
    }
    assert_eq!(procs(b"pmix[]").map(|m| m.num_nodes()), Ok(0));
    assert_eq!(procs(b"pmix[;]").map(|m| m.num_nodes()), Ok(2));
    for (value, offset) in [
        ("pmix[0-3", 8),
        ("pmix[0;a]", 7),
        ("pmix[0;1;-1]", 9),
        ("pmix[3-0]", 5),
        ("pmix[3-]", 7),
        ("pmix[0,4294967246]", 7),
        ("pmix[0-4294967295]", 7),
        ("pmix[0-1-2]", 7),
        ("pmix[[1:0-3]]", 5),
    ] {
        let error = procs(value.as_bytes()).expect_err(value);
        assert_eq!(
            (error.status(), error.offset()),
            (BAD, Some(offset)),
            "{value}: {error}"
        );
    }
    let limits = Limits {
        max_ranks: 10,
        ..Limits::default()
    };
    let error = scheme()
        .parse_procs(b"pmix[0-10]", &limits)
        .expect_err("11 ranks");
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
}
