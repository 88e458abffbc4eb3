// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encoded maps of the string form have no length on the wire; the framework of encoders determines
//! it.

use bfrops::{Decoder, Encoder, Error, Layout, Module, wire_type};
use pmix_mca::Source;
use pmix_types::RegexBytes;
use preg_core::{Params, Preg};

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
    assert!(error.to_string().contains("37 are there") || error.to_string().contains("there"));
}
