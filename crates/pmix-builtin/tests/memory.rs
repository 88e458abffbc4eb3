// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program of its own: its allocator counts what every thread takes.
//!
//! What decoding takes in memory, whatever a few bytes claim to stand for.

#[path = "../../bfrops/tests/meter/mod.rs"]
mod meter;

use std::io::Write as _;

use pmix_mca::{Params, Source};
use pmix_types::Status;
use preg_core::{Error, Preg};

#[global_allocator]
static METER: meter::Meter = meter::Meter;

fn preg(settings: &[(&str, &str)]) -> Preg {
    let params = settings
        .iter()
        .fold(Params::builder(), |p, (k, v)| p.set(k, *v, Source::Api));
    pmix_builtin::open_preg(&params.build().unwrap()).unwrap()
}

/// A `blob:` value whose length field says `declared` and whose stream holds `text`.
fn blob(declared: u32, text: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    for part in text {
        encoder.write_all(&part).unwrap();
    }
    let stream = encoder.finish().unwrap();
    let payload = [&declared.to_le_bytes()[..], &stream].concat();
    let head = format!("blob:\0component=zlib:\0size={}:\0", payload.len());
    [head.as_bytes(), &payload].concat()
}

/// The error of a value as a node list, and the bytes that were held.
fn refused(preg: &Preg, value: &[u8]) -> (Error, usize) {
    let (result, cost) = meter::of(|| preg.parse_nodes(value));
    let error = result.unwrap_err();
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE, "{error}");
    (error, cost.peak)
}

const MIB: usize = 1 << 20;

#[test]
fn one_name_that_a_blob_makes_long_is_refused_at_its_limit() {
    let value = blob(64 << 20, std::iter::repeat_n(vec![b'n'; MIB], 64));
    assert!(value.len() < 128 << 10);
    let (error, held) = refused(&preg(&[]), &value);
    assert!(error.message().contains("preg_base_max_name"), "{error}");
    assert!(held < 8 * MIB, "{held} bytes");
}

#[test]
fn a_blob_that_declares_more_text_than_is_allowed_takes_nothing() {
    let value = blob(2 << 20, std::iter::repeat_n(b"n,".repeat(MIB / 2), 2));
    let preg = preg(&[("preg_base_max_text", "1000000")]);
    let (error, held) = refused(&preg, &value);
    assert!(error.message().contains("preg_base_max_text"), "{error}");
    assert!(error.message().contains("1000000"), "{error}");
    assert!(held < 64 << 10, "{held} bytes");
}

#[test]
fn a_blob_that_declares_what_its_stream_cannot_hold_takes_nothing() {
    let value = blob(200 << 20, std::iter::once(b"n1,n2".to_vec()));
    let preg = preg(&[]);
    let (result, cost) = meter::of(|| preg.parse_nodes(&value));
    let error = result.unwrap_err();
    assert!(error.message().contains("the length field says"), "{error}");
    assert!(cost.peak < MIB, "{} bytes", cost.peak);
}

#[test]
fn names_that_do_not_fold_take_what_is_allowed_and_no_more() {
    // Two bytes a name, and no two that follow each other alike.
    let names = "abcdefghijklm".chars().map(|c| format!("{c},"));
    let names: String = names.collect();
    let text = names.repeat(100_000);
    let limit = 16 * MIB;
    let preg = preg(&[("preg_base_max_memory", &limit.to_string())]);
    let (error, held) = refused(&preg, text.as_bytes());
    assert!(error.message().contains("preg_base_max_memory"), "{error}");
    // A table grows to twice its size, and is in memory beside its copy while it does.
    assert!(held < 4 * limit, "{held} bytes");
}

#[test]
fn ranks_that_do_not_fold_take_what_is_allowed_and_no_more() {
    let ranks = (0..1_000_000_u64).map(|at| (at * at % 999_983 + at % 2).to_string());
    let text = ranks.collect::<Vec<_>>().join(",");
    let limit = 4 * MIB;
    let preg = preg(&[("preg_base_max_memory", &limit.to_string())]);
    let (result, cost) = meter::of(|| preg.parse_procs(text.as_bytes()));
    let error = result.unwrap_err();
    assert!(error.message().contains("preg_base_max_memory"), "{error}");
    assert!(cost.peak < 4 * limit, "{} bytes", cost.peak);
}

#[test]
fn a_range_is_no_larger_than_its_bytes_until_it_is_written_out() {
    let preg = preg(&[]);
    let (map, cost) = meter::of(|| preg.parse_procs(b"0-134217727").unwrap());
    assert_eq!(map.num_ranks(), 1 << 27);
    assert!(cost.peak < 4096, "{} bytes", cost.peak);
    let error = preg.limits().check_text(map.text_len()).unwrap_err();
    assert_eq!(error.exceeded(), Some("max_text"));
}

#[test]
fn names_that_are_written_out_obey_a_limit_of_their_own() {
    let preg = preg(&[]);
    let regex = pmix_types::Regex2Ref {
        kind: "pmix",
        bytes: b"pmix[node[100:1-15000000]]",
    };
    let (result, cost) = meter::of(|| preg.parse_regex(regex));
    let error = result.unwrap_err();
    assert!(error.message().contains("preg_base_max_text"), "{error}");
    assert!(cost.peak < 64 << 10, "{} bytes", cost.peak);
    // Folded it is a list like any other.
    assert_eq!(preg.resolve_nodes(regex).unwrap().len(), 15_000_000);
}

/// Fails if decoding held more than so many times the value, a base, and what the value declares.
fn holds_at_most(times: usize, value: &[u8], declared: usize, cost: meter::Cost) {
    let most = times * value.len() + declared + (64 << 10);
    let shown = String::from_utf8_lossy(value.get(..40).unwrap_or(value));
    let (held, len) = (cost.peak, value.len());
    assert!(
        held <= most,
        "{shown}: {held} bytes held of {len}, more than {most}"
    );
}

#[test]
fn decoding_holds_so_many_times_the_value_and_what_it_declares() {
    let preg = preg(&[]);
    let names = |form: fn(u32) -> String| (0..100_000).map(form).collect::<Vec<_>>().join(",");
    let values = [
        (8, names(|n| format!("node{n:06}"))),
        (
            8,
            names(|n| format!("rack{}-node{n}.cluster.example.org", n % 97)),
        ),
        (8, names(|n| format!("n{}", n % 7))),
        (8, "pmix[node[6:0-99999]]".to_owned()),
        // Hashes, which do not fold: a table of them grows to twice its size.
        (
            16,
            names(|n| format!("n{:08x}", n.wrapping_mul(2_654_435_761))),
        ),
    ];
    for (times, value) in &values {
        let (nodes, cost) = meter::of(|| preg.parse_nodes(value.as_bytes()).unwrap());
        assert!(nodes.len() >= 100_000);
        drop(nodes);
        holds_at_most(*times, value.as_bytes(), 0, cost);
        // The text that a blob declares is held beside what it says.
        let text = std::iter::once(value.clone().into_bytes());
        let blob = blob(u32::try_from(value.len()).unwrap(), text);
        let (nodes, cost) = meter::of(|| preg.parse_nodes(&blob));
        nodes.unwrap();
        holds_at_most(*times, &blob, (times + 1) * value.len(), cost);
    }
    let ranks = (0..100_000_u64).map(|n| (n * n % 999_983).to_string());
    let ranks: Vec<_> = ranks.collect();
    for value in [ranks.join(","), ranks.join(";"), "0-99999".to_owned()] {
        let (map, cost) = meter::of(|| preg.parse_procs(value.as_bytes()).unwrap());
        assert!(map.num_ranks() >= 100_000);
        holds_at_most(8, value.as_bytes(), 0, cost);
    }
}
