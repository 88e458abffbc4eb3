// SPDX-License-Identifier: MIT OR Apache-2.0
//! A separate program, as its allocator counts the memory of every thread.
//!
//! The memory of decoding is bounded, whatever size a few bytes claim.

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

/// Returns a `blob:` value with the stated length `declared` and a stream of `text`.
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

/// Returns the error of a value as a node list, and the bytes of memory that were held.
fn refused(preg: &Preg, value: &[u8]) -> (Error, usize) {
    let (result, cost) = meter::of(|| preg.parse_nodes(value));
    let error = result.unwrap_err();
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE, "{error}");
    (error, cost.peak)
}

const MIB: usize = 1 << 20;

// Planted: a name may have any length.
#[test]
fn rejects_a_name_that_inflates_beyond_the_limit() {
    let value = blob(64 << 20, std::iter::repeat_n(vec![b'n'; MIB], 64));
    assert!(value.len() < 128 << 10);
    let (error, held) = refused(&preg(&[]), &value);
    assert!(error.message().contains("preg_base_max_name"), "{error}");
    assert!(held < 8 * MIB, "{held} bytes");
}

// Planted: a `blob:` may declare any length.
#[test]
fn a_blob_with_an_excessive_length_takes_no_memory() {
    let value = blob(2 << 20, std::iter::repeat_n(b"n,".repeat(MIB / 2), 2));
    let preg = preg(&[("preg_base_max_text", "1000000")]);
    let (error, held) = refused(&preg, &value);
    assert!(error.message().contains("preg_base_max_text"), "{error}");
    assert!(error.message().contains("1000000"), "{error}");
    assert!(held < 64 << 10, "{held} bytes");
}

#[test]
fn a_blob_with_an_impossible_length_takes_no_memory() {
    let value = blob(200 << 20, std::iter::once(b"n1,n2".to_vec()));
    let preg = preg(&[]);
    let (result, cost) = meter::of(|| preg.parse_nodes(&value));
    let error = result.unwrap_err();
    assert!(error.message().contains("the length field says"), "{error}");
    assert!(cost.peak < MIB, "{} bytes", cost.peak);
}

// Planted: decoding of a list ignores its memory limit.
#[test]
fn irregular_names_respect_the_memory_limit() {
    // Two bytes per name, and no two consecutive names fold.
    let names = "abcdefghijklm".chars().map(|c| format!("{c},"));
    let names: String = names.collect();
    let text = names.repeat(100_000);
    let limit = 16 * MIB;
    let preg = preg(&[("preg_base_max_memory", &limit.to_string())]);
    let (error, held) = refused(&preg, text.as_bytes());
    assert!(error.message().contains("preg_base_max_memory"), "{error}");
    // A table doubles when it grows, and both copies exist meanwhile.
    assert!(held < 4 * limit, "{held} bytes");
}

#[test]
fn irregular_ranks_respect_the_memory_limit() {
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
fn a_range_takes_little_memory_until_it_is_expanded() {
    let preg = preg(&[]);
    let (map, cost) = meter::of(|| preg.parse_procs(b"0-134217727").unwrap());
    assert_eq!(map.num_ranks(), 1 << 27);
    assert!(cost.peak < 4096, "{} bytes", cost.peak);
    let error = preg.limits().check_text(map.text_len()).unwrap_err();
    assert_eq!(error.exceeded(), Some("max_text"));
}

#[test]
fn expanded_names_respect_the_text_limit() {
    let preg = preg(&[]);
    let regex = pmix_types::Regex2Ref {
        kind: "pmix",
        bytes: b"pmix[node[100:1-15000000]]",
    };
    let (result, cost) = meter::of(|| preg.parse_regex(regex));
    let error = result.unwrap_err();
    assert!(error.message().contains("preg_base_max_text"), "{error}");
    assert!(cost.peak < 64 << 10, "{} bytes", cost.peak);
    // Folded, the list is within the limits.
    assert_eq!(preg.resolve_nodes(regex).unwrap().len(), 15_000_000);
}

/// Checks that decoding held at most `times` the length of the value, a base and the declared
/// length.
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
fn decoding_holds_a_multiple_of_the_value_and_its_declared_length() {
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
        // Hashes do not fold, and their table doubles when it grows.
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
        // The declared text of a blob is held besides its map.
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
