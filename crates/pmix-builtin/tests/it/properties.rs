// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of every scheme and of the framework for any list: round trip, order, mutual
//! rejection, limits.

use bfrops::{Decoder, Encoder, Error, Layout, Module, wire_type};
use pmix_mca::Source;
use pmix_types::RegexBytes;
use preg_core::{LegacyRegex, Limits, NodeList, Params, Preg, ProcMap, Scheme, Status, Unpacked};
use proptest::prelude::*;

fn framework(settings: &[(&str, &str)]) -> Preg {
    let mut params = Params::builder();
    for (name, value) in settings {
        params = params.set(name, *value, Source::Api);
    }
    let params = params.build().expect("valid settings");
    pmix_builtin::open_preg(&params).expect("the settings can be obeyed")
}

/// Returns one framework for each relevant order of preference.
fn frameworks() -> Vec<Preg> {
    vec![
        framework(&[]),
        framework(&[("pcompress_base_limit", "16")]),
        framework(&[("preg", "native")]),
        framework(&[("preg", "raw")]),
        framework(&[("preg_fold_enabled", "true")]),
        framework(&[
            ("preg_native_priority", "200"),
            ("preg_native_regex2", "true"),
        ]),
    ]
}

/// Returns all schemes, active or not.
fn schemes(preg: &Preg) -> impl Iterator<Item = &dyn Scheme> {
    preg.modules().iter().map(|module| &*module.scheme)
}

/// Generates names as on real machines: prefixes, numbers of one or many widths, suffixes,
/// oddities.
fn name() -> impl Strategy<Value = String> {
    let letters = prop::sample::select(vec!["n", "node", "r1n", "a", "x10c0s", "h-", "", "\u{e9}"]);
    let number = prop_oneof![0_u64..20, 95_u64..105, any::<u64>()];
    let numbered = (
        letters,
        number,
        0_usize..6,
        prop::sample::select(vec!["", "b0", "-ib", ".c"]),
    )
        .prop_map(|(prefix, number, width, suffix)| format!("{prefix}{number:0width$}{suffix}"));
    let odd = prop::sample::select(vec![
        "",
        "login",
        "n[1-3]",
        "pmix[n[1:1-3]]",
        "raw:x",
        "blob:",
        "fold:",
        " ",
        "a;b",
        "n:1",
        "]",
    ]);
    prop_oneof![12 => numbered, 1 => odd.prop_map(str::to_owned)]
}

/// Generates lists: names of any kind, or a run, with steps and repetitions.
fn list() -> impl Strategy<Value = Vec<String>> {
    let mixed = prop::collection::vec(name(), 0..40);
    let run = (0_usize..200, 1_usize..5, 1_usize..4, 1_usize..4).prop_map(
        |(count, step, width, repeated)| {
            let numbers = (0..count).map(|n| n * step);
            let names = numbers.map(|n| format!("node{n:0width$}"));
            names.flat_map(|name| vec![name; repeated]).collect()
        },
    );
    prop_oneof![mixed, run]
}

/// Generates process maps: nodes of ranks, some empty.
fn map() -> impl Strategy<Value = Vec<Vec<u32>>> {
    let node = prop_oneof![
        (0_u32..5_000, 0_u32..20).prop_map(|(first, count)| (first..first + count).collect()),
        prop::collection::vec(0_u32..5_000, 0..8),
    ];
    prop::collection::vec(node, 0..40)
}

fn map_text(map: &[Vec<u32>]) -> String {
    let node = |ranks: &Vec<u32>| {
        let ranks: Vec<_> = ranks.iter().map(u32::to_string).collect();
        ranks.join(",")
    };
    let nodes: Vec<_> = map.iter().map(node).collect();
    nodes.join(";")
}

fn names(list: &NodeList) -> Vec<Vec<u8>> {
    list.iter().collect()
}

fn ranks(map: &ProcMap) -> Vec<Vec<u32>> {
    let node = |at| {
        map.ranks_of(at)
            .into_iter()
            .flatten()
            .map(|rank| rank.as_raw())
    };
    (0..map.num_nodes()).map(|at| node(at).collect()).collect()
}

/// Returns the list as it is parsed: one empty name is the empty text, which is the empty list.
fn as_read(list: &[String]) -> Vec<Vec<u8>> {
    match list {
        [only] if only.is_empty() => Vec::new(),
        list => list.iter().map(|name| name.clone().into_bytes()).collect(),
    }
}

fn as_read_map(map: &[Vec<u32>]) -> Vec<Vec<u32>> {
    match map {
        [only] if only.is_empty() => Vec::new(),
        map => map.to_vec(),
    }
}

proptest! {
    #[test]
    fn every_scheme_keeps_the_order_of_a_node_list(list in list()) {
        let preg = framework(&[("pcompress_base_limit", "16")]);
        let text = list.join(",").into_bytes();
        for scheme in schemes(&preg) {
            if let Some(value) = scheme.generate_node_regex(&text).expect("a list") {
                let read = scheme.parse_nodes(&value, preg.limits()).expect("sound");
                prop_assert_eq!(names(&read.expect("its own")), as_read(&list), "{}", scheme.name());
            }
            if let Some(value) = scheme.generate_regex(&text).expect("a list") {
                let read = scheme.parse_regex(value.as_view(), preg.limits()).expect("sound");
                prop_assert_eq!(read.as_deref(), Some(&text[..]), "{}", scheme.name());
            }
        }
    }

    #[test]
    fn every_framework_keeps_the_order_of_a_node_list(list in list()) {
        let text = list.join(",").into_bytes();
        for preg in frameworks() {
            match preg.generate_node_regex(&text) {
                Ok(LegacyRegex { bytes, framing }) => {
                    let read = preg.parse_nodes(&bytes).expect("our own value");
                    prop_assert_eq!(names(&read), as_read(&list), "{}", framing);
                }
                // No scheme accepts the list, and the plain list would be misread.
                Err(error) => {
                    let tagged = schemes(&preg).any(|scheme| text.starts_with(scheme.tag()));
                    prop_assert!(tagged, "{}", error);
                }
            }
        }
    }

    #[test]
    fn every_framework_keeps_the_order_of_a_process_map(map in map()) {
        let text = map_text(&map).into_bytes();
        for preg in frameworks() {
            let value = preg.generate_ppn(&text).expect("a map");
            let read = preg.parse_procs(&value.bytes).expect("our own value");
            prop_assert_eq!(ranks(&read), as_read_map(&map), "{}", value.framing);
            if let Ok(value) = preg.generate_regex(&text) {
                let read = preg.resolve_procs(value.as_view()).expect("our own value");
                prop_assert_eq!(ranks(&read), as_read_map(&map), "{}", value.kind);
            }
        }
    }

    #[test]
    fn no_scheme_claims_the_value_of_another(list in list(), map in map()) {
        let preg = framework(&[("pcompress_base_limit", "16")]);
        let (list, map) = (list.join(",").into_bytes(), map_text(&map).into_bytes());
        for writer in schemes(&preg) {
            let values = [
                writer.generate_node_regex(&list).expect("a list"),
                writer.generate_ppn(&map).expect("a map"),
            ];
            for value in values.into_iter().flatten() {
                for reader in schemes(&preg).filter(|r| r.name() != writer.name()) {
                    prop_assert_eq!(reader.legacy_len(&value), Ok(None), "{}", reader.name());
                    prop_assert_eq!(reader.parse_nodes(&value, preg.limits()), Ok(None));
                    prop_assert_eq!(reader.parse_procs(&value, preg.limits()), Ok(None));
                }
            }
            if let Some(value) = writer.generate_regex(&list).expect("a list") {
                for reader in schemes(&preg).filter(|r| r.name() != writer.name()) {
                    let read = reader.parse_regex(value.as_view(), preg.limits());
                    prop_assert_eq!(read, Ok(None), "{}", reader.name());
                }
            }
        }
    }

    #[test]
    fn a_limit_rejects_exactly_the_lists_beyond_it(list in list(), most in 0_u64..60) {
        let preg = framework(&[("pcompress_base_limit", "16")]);
        let text = list.join(",").into_bytes();
        let limits = Limits { max_nodes: most, ..Limits::default() };
        let expected = as_read(&list);
        for scheme in schemes(&preg) {
            let Some(value) = scheme.generate_node_regex(&text).expect("a list") else {
                continue;
            };
            match scheme.parse_nodes(&value, &limits) {
                Ok(read) => {
                    prop_assert!(expected.len() as u64 <= most, "{}", scheme.name());
                    prop_assert_eq!(names(&read.expect("its own")), expected.clone());
                }
                Err(error) => {
                    prop_assert!(expected.len() as u64 > most, "{}: {}", scheme.name(), error);
                    prop_assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
                }
            }
        }
    }

    #[test]
    fn values_survive_packing_and_copying(list in list()) {
        let text = list.join(",").into_bytes();
        for preg in frameworks() {
            let Ok(value) = preg.generate_node_regex(&text) else { continue };
            let mut wire = preg.copy(&value.bytes).expect("our own value");
            let used = wire.len();
            wire.extend_from_slice(b"the next value");
            match preg.unpack(&wire).expect("our own value") {
                Unpacked::Framed(unpacked, length) => {
                    prop_assert_eq!(&unpacked, &value);
                    prop_assert_eq!(length, used);
                    prop_assert!(preg.release(unpacked).is_ok());
                }
                Unpacked::Text => {
                    prop_assert_eq!(&value.framing, LegacyRegex::PLAIN);
                    let refused = preg.release(value).map_err(|e| e.status());
                    prop_assert_eq!(refused, Err(Status::ERR_BAD_PARAM));
                }
            }
        }
    }

    #[test]
    fn a_damaged_value_is_an_error_or_another_map_but_never_a_panic(
        list in list(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let text = list.join(",").into_bytes();
        for preg in frameworks() {
            let Ok(value) = preg.generate_node_regex(&text) else { continue };
            let mut bytes = value.bytes;
            if bytes.is_empty() {
                continue;
            }
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            if let Err(error) = preg.parse_nodes(&bytes) {
                prop_assert!(error.offset().unwrap_or(0) <= bytes.len(), "{}", error);
            }
            let _ = (preg.parse_procs(&bytes), preg.copy(&bytes), preg.unpack(&bytes));
        }
    }
}

// Encoded maps of the string form have no length on the wire; the framework of encoders determines
// it.

const LAYOUT: Layout = Layout::new(Module::V41);

fn preg(settings: &[(&str, &str)]) -> Preg {
    let mut builder = Params::builder();
    for (name, value) in settings {
        builder = builder.set(name, *value, Source::Api);
    }
    pmix_builtin::open_preg(&builder.build().unwrap()).unwrap()
}

fn packed(preg: &Preg, values: &[Vec<u8>]) -> Result<Vec<u8>, Error> {
    let values: Vec<_> = values.iter().map(|v| RegexBytes(v.into())).collect();
    let mut out = Vec::new();
    Encoder::new(LAYOUT, &mut out)
        .with_framer(preg)
        .call::<wire_type::Regex>(&values)?;
    Ok(out)
}

#[test]
fn consecutive_values_of_every_encoder_are_unpacked() {
    let names: Vec<_> = (0..500).map(|n| format!("node{n:04}")).collect();
    let list = names.join(",");
    let mut values = Vec::new();
    for encoder in ["native", "raw", "compress", "fold"] {
        let preg = preg(&[("preg", encoder), ("pcompress_base_limit", "64")]);
        values.push(preg.generate_node_regex(list.as_bytes()).unwrap().bytes);
    }
    let preg = preg(&[]);
    let mut out = packed(&preg, &values).unwrap();
    Encoder::new(LAYOUT, &mut out)
        .one::<wire_type::Bool>(&true)
        .unwrap();

    let mut decoder = Decoder::new(LAYOUT, &out).with_framer(&preg);
    for (value, back) in values
        .iter()
        .zip(decoder.all::<wire_type::Regex>().unwrap())
    {
        assert_eq!(*value, *back.0);
        assert_eq!(preg.parse_nodes(&back.0).unwrap().len(), 500);
    }
    assert!(decoder.one::<wire_type::Bool>().unwrap());
    decoder.finish().unwrap();
}

#[test]
fn a_value_of_no_encoder_is_a_string() {
    let preg = preg(&[]);
    let out = packed(&preg, &[b"n1,n2".to_vec()]).unwrap();
    assert_eq!(out, b"\x02\x02\x0cn1,n2\0");
    let mut decoder = Decoder::new(LAYOUT, &out).with_framer(&preg);
    assert_eq!(*decoder.one::<wire_type::Regex>().unwrap().0, *b"n1,n2");
}

#[test]
fn rejects_a_map_longer_than_the_message_with_its_place() {
    let preg = preg(&[]);
    let bytes = b"\x02blob:\0component=zlib:\0size=100:\0abc";
    let mut decoder = Decoder::new(LAYOUT, bytes).with_framer(&preg);
    let error = decoder.one::<wire_type::Regex>().unwrap_err();
    assert_eq!(error.offset(), Some(1));
    assert!(error.to_string().contains("are present"));
}
