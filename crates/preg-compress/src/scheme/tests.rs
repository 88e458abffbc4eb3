// SPDX-License-Identifier: MIT OR Apache-2.0

use pmix_mca::Source;
use preg_core::{Params, Status};
use proptest::prelude::*;

use super::*;

fn scheme(settings: &[(&str, &str)]) -> Compress {
    let params = settings
        .iter()
        .fold(Params::builder(), |p, (k, v)| p.set(k, *v, Source::Api));
    let pcompress = Pcompress::select(&params.build().unwrap()).unwrap();
    Compress::new(pcompress.expect("zlib is built"))
}

fn names(count: usize) -> Vec<u8> {
    let names: Vec<_> = (0..count).map(|n| format!("node{n:05}")).collect();
    names.join(",").into_bytes()
}

/// Returns a payload with this length field and with the text compressed by the general encoder.
fn payload(text: &[u8], declared: u32) -> Vec<u8> {
    let mut payload = Vec::new();
    let coder = scheme(&[("pcompress_zlib_level", "9")]);
    assert!(coder.pcompress.compress(text, &mut payload));
    [&declared.to_le_bytes()[..], &payload].concat()
}

fn refused(bytes: &[u8], limits: &Limits) -> (i32, usize, String) {
    let kind = NAME;
    let error = scheme(&[])
        .parse_regex(Regex2Ref { kind, bytes }, limits)
        .unwrap_err();
    let place = error.offset().expect("every fault has a place");
    (error.status().as_raw(), place, error.message().to_owned())
}

#[test]
fn a_list_round_trips_through_both_forms() {
    let (scheme, limits) = (scheme(&[]), Limits::default());
    let list = names(2000);
    let value = scheme.generate_node_regex(&list).unwrap().unwrap();
    let back = scheme.parse_nodes(&value, &limits).unwrap().unwrap();
    let mut text = Vec::new();
    back.write_text(b',', &mut text);
    assert_eq!(text, list);
    let regex = scheme.generate_regex(&list).unwrap().unwrap();
    assert_eq!(regex.kind, "compress");
    assert!(value.ends_with(&regex.bytes));
    let text = scheme.parse_regex(regex.as_view(), &limits).unwrap();
    assert_eq!(text, Some(list));
}

#[test]
fn node_lists_parsed_in_parts_equal_the_whole_text() {
    let (scheme, limits) = (scheme(&[]), Limits::default());
    let ends: [&dyn Fn(usize) -> usize; 3] = [&|n| n, &|n| n * 7919 % 100_003, &|n| n / 3];
    for (list, number) in ends.iter().enumerate() {
        // Names that are longer than a part, and a last name without a separator.
        for long in [0, 1, 200_000, 300_000, 1_000_000] {
            let names = (0..120_000).map(|n| format!("node{:06}", number(n)));
            let mut names: Vec<_> = names.collect();
            names.insert(30_000, "x".repeat(long));
            names.push("y".repeat(long / 2));
            let text = names.join(",").into_bytes();
            let value = framing::write(&payload(&text, u32::try_from(text.len()).unwrap()));
            let read = scheme.parse_nodes(&value, &limits).unwrap().unwrap();
            assert_eq!(read.len(), names.len());
            assert!(
                read == NodeList::parse_text(&text, &limits).unwrap(),
                "list {list} with a name of {long} bytes"
            );
        }
    }
}

#[test]
fn errors_of_later_parts_have_the_offset_of_the_stream() {
    let mut text = names(100_000);
    let value = |text: &[u8], more| {
        framing::write(&payload(text, u32::try_from(text.len()).unwrap() + more))
    };
    let fault = |value: &[u8], limits: &Limits| {
        let error = scheme(&[]).parse_nodes(value, limits).unwrap_err();
        let header_len = Frame::read(value).unwrap().header_len;
        (
            error.offset().map(|at| at - header_len),
            error.message().to_owned(),
        )
    };
    let all = Limits::default();
    let few = Limits {
        max_nodes: 99_999,
        ..all
    };
    let (place, message) = fault(&value(&text, 0), &few);
    assert!(place.is_none() && message.contains("99999"), "{message}");
    let (place, message) = fault(&value(&text, 1), &all);
    assert!(
        place == Some(0) && message.contains("length field"),
        "{message}"
    );
    for at in [0, 300_000, text.len() - 1] {
        let old = std::mem::replace(&mut text[at], 0);
        let (place, message) = fault(&value(&text, 0), &all);
        assert_eq!(place, Some(payload::LENGTH_BYTES), "{message}");
        assert!(
            message.starts_with(&format!("byte {at} of the list")),
            "{message}"
        );
        text[at] = old;
    }
}

#[test]
fn a_process_map_round_trips_with_its_empty_nodes() {
    let (scheme, limits) = (scheme(&[]), Limits::default());
    let map = "0,1,2,3;;4,5,6,7;".repeat(400);
    let value = scheme.generate_ppn(map.as_bytes()).unwrap().unwrap();
    let back = scheme.parse_procs(&value, &limits).unwrap().unwrap();
    let mut text = Vec::new();
    back.write_text(&mut text);
    assert_eq!(text, map.as_bytes());
}

#[test]
fn compresses_only_lists_from_the_limit_on() {
    let list = [b'a'; 5000];
    let scheme_of = |limit| scheme(&[("pcompress_base_limit", limit)]);
    let taken = |s: &Compress, len: usize| s.generate_node_regex(&list[..len]).unwrap().is_some();
    assert!(!taken(&scheme(&[]), 4095));
    assert!(taken(&scheme(&[]), 4096));
    assert!(taken(&scheme_of("100"), 100));
    assert!(!taken(&scheme_of("100"), 99));
    assert!(!taken(&scheme_of("-1"), 5000));
    assert!(!taken(&scheme_of("18446744073709551615"), 5000));
    assert!(!taken(&scheme_of("0"), 0));
}

#[test]
fn a_value_that_would_not_shrink_is_declined() {
    let scheme = scheme(&[("pcompress_base_limit", "0")]);
    assert_eq!(scheme.generate_regex(b"").unwrap(), None);
    assert_eq!(scheme.generate_regex(b"n1,n2").unwrap(), None);
    // The payload, 4 bytes plus the stream, must be shorter than the list.
    for len in 1..100 {
        let list = vec![b'n'; len];
        if let Some(value) = scheme.generate_regex(&list).unwrap() {
            assert!(value.bytes.len() < len);
        }
    }
}

#[test]
fn a_list_with_a_nul_is_declined() {
    let mut list = names(1000);
    list[4500] = 0;
    assert_eq!(scheme(&[]).generate_node_regex(&list), Ok(None));
    assert_eq!(scheme(&[]).generate_regex(&list), Ok(None));
}

#[test]
fn a_nul_in_the_text_is_refused() {
    let mut list = names(1000);
    list[4500] = 0;
    let (status, at, message) = refused(&payload(&list, 9999), &Limits::default());
    assert_eq!((status, at), (-47, 4));
    assert!(message.contains("byte 4500"), "{message}");
}

#[test]
fn a_lying_length_is_refused() {
    let (list, limits) = (names(1000), Limits::default());
    for declared in [0, 1, 9998, 10_000, 20_000, u32::MAX] {
        let (status, _, message) = refused(&payload(&list, declared), &limits);
        assert_eq!(status, -47, "{declared}: {message}");
    }
    assert_eq!(payload(&list, 9999).len(), payload(&list, 0).len());
}

#[test]
fn a_bomb_is_bounded_by_the_length_it_declares() {
    let bomb = vec![b'a'; 64 << 20];
    let (status, at, message) = refused(&payload(&bomb, 1000), &Limits::default());
    assert_eq!(status, -47);
    assert!(
        at > 4 && message.contains("more than the 1000 bytes"),
        "{at}: {message}"
    );
}

#[test]
fn a_bomb_is_bounded_by_the_limits() {
    let bomb = vec![b'a'; 1 << 20];
    let limits = Limits {
        max_text: 1 << 16,
        ..Limits::default()
    };
    let (status, at, _) = refused(&payload(&bomb, 1 << 20), &limits);
    assert_eq!((status, at), (Status::ERR_OUT_OF_RESOURCE.as_raw(), 0));
    let commas = vec![b','; 1 << 16];
    let limits = Limits {
        max_nodes: 1000,
        ..Limits::default()
    };
    let value = scheme(&[]).generate_node_regex(&commas).unwrap().unwrap();
    let error = scheme(&[]).parse_nodes(&value, &limits).unwrap_err();
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
}

#[test]
fn rejects_lengths_beyond_the_reach_of_deflate_at_once() {
    let bytes = payload(&names(1000), 1 << 30);
    let (status, at, message) = refused(&bytes, &Limits::default());
    assert_eq!((status, at), (-47, 0));
    assert!(message.contains("give at most"), "{message}");
}

#[test]
fn rejects_truncated_streams_of_every_length() {
    let (list, limits) = (names(500), Limits::default());
    let whole = payload(&list, 4999);
    for len in 0..whole.len() {
        let (status, at, _) = refused(&whole[..len], &limits);
        assert_eq!(status, -47, "cut to {len}");
        assert!(at <= len, "cut to {len}: offset {at}");
    }
}

#[test]
fn rejects_bytes_after_the_stream() {
    let list = names(500);
    let whole = payload(&list, 4999);
    let end = whole.len();
    let (status, at, message) = refused(&[&whole[..], b"\0"].concat(), &Limits::default());
    assert_eq!((status, at), (-47, end));
    assert_eq!(message, "1 bytes follow the zlib stream");
}

#[test]
fn recognizes_streams_other_than_zlib() {
    let limits = Limits::default();
    for (stream, says) in [
        (
            &b"\x1f\x8b\x08\0\0\0\0\0"[..],
            "expected a zlib or zstd stream",
        ),
        (b"\x78\xdb\0\0", "expected a zlib"),
        (b"\x78\xbb\0\0", "expected a zlib"),
        (b"", "expected a zlib"),
        (b"\x78", "expected a zlib"),
        #[cfg(not(feature = "zstd"))]
        (
            b"\x28\xb5\x2f\xfd\0\0",
            "the stream is zstd, which no active back end reads",
        ),
    ] {
        let bytes = [b"\x05\0\0\0", stream].concat();
        let (status, at, message) = refused(&bytes, &limits);
        assert_eq!((status, at), (-47, 4));
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn an_error_of_the_list_names_its_offset_in_the_list() {
    let map = format!("{}x", "0,1,2,3;".repeat(600));
    let value = scheme(&[]).generate_ppn(map.as_bytes()).unwrap().unwrap();
    let error = scheme(&[])
        .parse_procs(&value, &Limits::default())
        .unwrap_err();
    let stream = Frame::read(&value).unwrap().header_len + payload::LENGTH_BYTES;
    assert_eq!(error.offset(), Some(stream));
    assert!(error.message().contains("byte 4800 of the list"), "{error}");
}

#[test]
fn the_extent_is_the_header_and_the_size_and_no_terminator() {
    let scheme = scheme(&[]);
    let value = scheme.generate_node_regex(&names(1000)).unwrap().unwrap();
    let len = |bytes: &[u8]| scheme.legacy_len(bytes).unwrap().unwrap().wire_len();
    assert_eq!(len(&value), value.len());
    assert_eq!(len(&[&value[..], b"next"].concat()), value.len());
    // The caller checks whether the bytes are available.
    assert_eq!(len(&value[..100]), value.len());
}

#[test]
fn the_fields_of_an_explanation_cover_the_value() {
    let scheme = scheme(&[]);
    let value = scheme.generate_node_regex(&names(1000)).unwrap().unwrap();
    let explanation = scheme.explain(&value).unwrap();
    assert_eq!(explanation.fault, None);
    let fields: Vec<_> = explanation.fields.iter().map(|f| f.name).collect();
    let expected = [
        "tag", "label", "size", "length", "header", "deflate", "adler32",
    ];
    assert_eq!(fields, expected);
    let mut at = 0;
    for field in &explanation.fields {
        assert_eq!(field.range.start, at, "{}", field.name);
        at = field.range.end;
    }
    assert_eq!(at, value.len());
}

#[test]
fn an_explanation_ends_at_the_error() {
    let scheme = scheme(&[]);
    let mut value = scheme.generate_node_regex(&names(1000)).unwrap().unwrap();
    let last = value.len() - 1;
    value[last] ^= 1;
    let explanation = scheme.explain(&value).unwrap();
    assert_eq!(
        explanation.fault.unwrap().status(),
        Status::ERR_NOT_SUPPORTED
    );
    assert_eq!(explanation.fields.last().unwrap().name, "deflate");
    let explanation = scheme.explain(b"blob:\0component=zlib:\0sise=").unwrap();
    assert_eq!(explanation.fields.len(), 2);
    assert_eq!(explanation.fault.unwrap().offset(), Some(24));
}

proptest! {
    #[test]
    fn a_mutated_value_is_rejected_or_gives_the_same_list(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..4),
    ) {
        let scheme = scheme(&[]);
        let list = names(600);
        let mut value = scheme.generate_node_regex(&list).unwrap().unwrap();
        for (at, flip) in changes {
            let at = at.index(value.len());
            value[at] ^= flip;
        }
        let answer = scheme.read(&value, |parts| parts.inflate(&Limits::default()));
        if let Ok(Some(text)) = answer {
            prop_assert_eq!(text, list);
        }
        let _ = scheme.legacy_len(&value);
        let _ = scheme.explain(&value);
    }

    #[test]
    fn no_bytes_after_the_tag_cause_a_panic(tail in proptest::collection::vec(any::<u8>(), 0..64)) {
        let scheme = scheme(&[]);
        for head in [&b"blob:\0"[..], b"blob:\0component=zlib:\0size=", b"blob:\0component=zlib:\0size=40:\0\xff\xff\0\0\x78\xda"] {
            let value = [head, &tail].concat();
            let _ = scheme.parse_nodes(&value, &Limits::default());
            let _ = scheme.parse_procs(&value, &Limits::default());
            let _ = scheme.legacy_len(&value);
            let _ = scheme.explain(&value);
        }
    }

    #[test]
    fn any_list_of_any_bytes_round_trips_or_is_declined(
        list in proptest::collection::vec(any::<u8>(), 0..300),
        times in 1..40_usize,
    ) {
        let scheme = scheme(&[("pcompress_base_limit", "0")]);
        let list = list.repeat(times);
        if let Some(value) = scheme.generate_node_regex(&list).unwrap() {
            prop_assert_eq!(scheme.read(&value, |parts| parts.inflate(&Limits::default())).unwrap(), Some(list));
        }
    }
}
