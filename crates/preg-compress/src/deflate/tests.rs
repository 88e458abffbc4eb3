// SPDX-License-Identifier: MIT OR Apache-2.0

use std::io::Read;

use flate2::read::ZlibDecoder;
use flate2::{Compress, Compression, FlushCompress};
use proptest::prelude::*;

use super::*;

fn deflated(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    zlib_stream(text, &mut out);
    out
}

fn inflated(stream: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut decoder = ZlibDecoder::new(stream);
    decoder.read_to_end(&mut text).expect("a valid stream");
    assert_eq!(
        decoder.total_in(),
        stream.len() as u64,
        "nothing is left over"
    );
    text
}

/// Returns the size of a text that a general encoder at level 9 compressed.
fn general(text: &[u8]) -> usize {
    let mut out = Vec::with_capacity(text.len() + 1000);
    let mut encoder = Compress::new(Compression::best(), true);
    encoder
        .compress_vec(text, &mut out, FlushCompress::Finish)
        .expect("it fits");
    out.len()
}

/// Returns a permutation that is the same in every run.
fn shuffled(mut names: Vec<String>) -> Vec<String> {
    let mut state = 1_u64;
    for at in (1..names.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        names.swap(at, (state >> 33) as usize % (at + 1));
    }
    names
}

fn cray(n: usize) -> String {
    let (c, s) = (n / 32 % 8, n / 4 % 8);
    format!("x{}c{c}s{s}b{}n{}", 1000 + n / 256, n / 2 % 2, n % 2)
}

fn map(nodes: usize, ranks: usize, rank: impl Fn(usize, usize) -> usize) -> Vec<u8> {
    let node = |n| {
        (0..ranks)
            .map(|r| rank(n, r).to_string())
            .collect::<Vec<_>>()
    };
    let nodes: Vec<_> = (0..nodes).map(|n| node(n).join(",")).collect();
    nodes.join(";").into_bytes()
}

/// The lists for which the quick parse gives at most two thirds of the size of level 9.
const IN_ORDER: &[&str] = &[
    "consecutive",
    "holes",
    "racks",
    "any width",
    "one rank a node",
];

fn lists() -> Vec<(&'static str, Vec<u8>)> {
    let n = 16_000;
    let joined = |names: Vec<String>| names.join(",").into_bytes();
    let numbered: Vec<_> = (1..=n).map(|i| format!("node{i:06}")).collect();
    let racks: Vec<_> = (0..n)
        .map(|i| format!("r{:04}n{:02}", i / 64, i % 64))
        .collect();
    let cray: Vec<_> = (0..n).map(cray).collect();
    let holes = numbered
        .iter()
        .enumerate()
        .filter(|(i, _)| i * 37 % 100 >= 3);
    vec![
        (
            "holes",
            joined(holes.map(|(_, name)| name.clone()).collect()),
        ),
        ("shuffled racks", joined(shuffled(racks.clone()))),
        ("shuffled x-names", joined(shuffled(cray.clone()))),
        ("shuffled", joined(shuffled(numbered.clone()))),
        ("racks", joined(racks)),
        ("x-names", joined(cray)),
        ("consecutive", joined(numbered)),
        (
            "any width",
            joined((0..n).map(|i| format!("n{i}")).collect()),
        ),
        (
            "two names a node",
            joined((0..n).map(|i| format!("a{:05},b{:05}", i, i)).collect()),
        ),
        (
            "repeated",
            joined((0..n).map(|i| format!("node{:04}", i % 700)).collect()),
        ),
        ("one host", joined(vec!["node1".to_owned(); n])),
        ("block", map(n, 8, |node, r| node * 8 + r)),
        ("cyclic", map(n, 8, |node, r| node + r * n)),
        ("one rank a node", map(n, 1, |node, _| node)),
    ]
}

#[test]
fn every_list_survives_within_its_bound_of_level_9() {
    for (name, text) in lists() {
        let stream = deflated(&text);
        assert!(inflated(&stream) == text, "{name}");
        let (ours, general) = (stream.len(), general(&text));
        let percent = if IN_ORDER.contains(&name) { 66 } else { 102 };
        assert!(
            ours * 100 <= general * percent,
            "{name}: {ours} bytes, {general} at level 9"
        );
    }
}

#[test]
fn names_without_separators_inflate_to_themselves() {
    for len in [
        0, 1, 2, 3, 7, 8, 9, 257, 258, 259, 260, 32_767, 32_768, 32_769, 200_000,
    ] {
        assert!(
            inflated(&deflated(&vec![b'a'; len])) == vec![b'a'; len],
            "{len}"
        );
    }
}

#[test]
fn a_match_reaches_back_one_window_at_most() {
    let part: Vec<u8> = (0..64_u8).map(|i| i.wrapping_mul(37) ^ 0x5a).collect();
    for gap in [32_700, 32_703, 32_704, 32_705, 32_768, 33_000] {
        let noise: Vec<u8> = (0..gap)
            .map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let text = [&part[..], &noise, &part, &noise].concat();
        assert!(inflated(&deflated(&text)) == text, "{gap}");
    }
}

#[test]
fn a_list_of_changing_kinds_inflates_to_itself() {
    let mut text = Vec::new();
    for (_, list) in lists() {
        text.extend_from_slice(&list[..list.len().min(90_000)]);
        text.push(b',');
    }
    assert!(inflated(&deflated(&text)) == text);
}

#[test]
fn the_stream_is_appended() {
    let mut out = vec![1, 2, 3, 4];
    zlib_stream(b"n1,n2,n3", &mut out);
    assert_eq!(out[..6], [1, 2, 3, 4, 0x78, 0xda]);
    assert_eq!(inflated(&out[4..]), b"n1,n2,n3");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_inflate_to_themselves(text in proptest::collection::vec(any::<u8>(), 0..3000)) {
        prop_assert_eq!(inflated(&deflated(&text)), text);
    }

    #[test]
    fn few_different_bytes_inflate_to_themselves(
        text in proptest::collection::vec(prop::sample::select(b"n01,;".to_vec()), 0..4000),
        times in 1..20_usize,
    ) {
        let text = text.repeat(times);
        prop_assert_eq!(inflated(&deflated(&text)), text);
    }

    #[test]
    fn the_thorough_parse_alone_inflates_to_the_text(
        text in proptest::collection::vec(prop::sample::select(b"node012,".to_vec()), 1..6000),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(text.len());
        let mut parser = optimal_parse::OptimalParse::new();
        let mut out = HEADER.to_vec();
        let mut writer = huffman::BitWriter::new(&mut out);
        for part in [0..cut, cut..text.len()] {
            let mut block = block::Block::new();
            parser.parse(&text, part.clone(), &mut block);
            block.write(&block.codes(), part.end == text.len(), &mut writer);
            if part.end == text.len() {
                break;
            }
        }
        writer.finish();
        out.extend_from_slice(&adler32(&text).to_be_bytes());
        prop_assert_eq!(inflated(&out), text);
    }
}

#[test]
fn checksums_agree_with_the_definition() {
    let simple = |bytes: &[u8]| {
        let step = |(a, b): (u64, u64), byte: &u8| {
            let a = (a + u64::from(*byte)) % 65_521;
            (a, (b + a) % 65_521)
        };
        let (a, b) = bytes.iter().fold((1, 0), step);
        u32::try_from(b << 16 | a).unwrap()
    };
    assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
    assert_eq!(adler32(b""), 1);
    for len in [1, 15, 16, 17, 5551, 5552, 5553, 100_000] {
        let worst = vec![255; len];
        assert_eq!(adler32(&worst), simple(&worst), "{len}");
        let mixed: Vec<_> = (0..len).map(|n| (n % 251) as u8).collect();
        assert_eq!(adler32(&mixed), simple(&mixed), "{len}");
    }
}
