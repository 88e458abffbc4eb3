// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generators: an encoded list decodes to the same list, by its own scheme and no other.

use preg_core::{LegacyRegex, ProcMap, Scheme};

use super::{LIMITS, preg};

/// The bytes of most lists, so that short inputs already have structure.
const NAMES: &[u8; 32] = b"000112345689,,,,,aabbnnxs-.:[]; ";
const RANKS: &[u8; 32] = b"00001112223344556789,,,,,,;;;---";

/// Encodes a node list by every scheme and the framework.
pub(crate) fn nodes(data: &[u8]) {
    let list = spelled(data, NAMES);
    let names = split(&list, b',');
    for module in preg().modules() {
        let scheme = &*module.scheme;
        if let Some(value) = scheme
            .generate_node_regex(&list)
            .expect("lists do not fail")
        {
            let read = scheme.parse_nodes(&value, &LIMITS);
            let read = read.expect("our own value").expect("our own tag");
            assert_eq!(read.iter().collect::<Vec<_>>(), names, "{}", scheme.name());
            owned(scheme, &value);
        }
        typed(scheme, &list);
    }
    if let Ok(value) = preg().generate_node_regex(&list) {
        let read = preg().parse_nodes(&value.bytes).expect("our own value");
        assert_eq!(read.iter().collect::<Vec<_>>(), names, "{}", value.framing);
    } else {
        // Only a NUL or a scheme's own tag prevents a list from being sent as plain text.
        assert!(list.contains(&0), "a list that nothing carries");
    }
}

/// Encodes a process map by every scheme and the framework.
pub(crate) fn procs(data: &[u8]) {
    let text = spelled(data, RANKS);
    let meant = ProcMap::parse_text(&text, &LIMITS);
    for module in preg().modules() {
        let scheme = &*module.scheme;
        typed(scheme, &text);
        let value = scheme.generate_ppn(&text).expect("maps do not fail");
        if let (Some(value), Ok(meant)) = (value, &meant) {
            let read = scheme.parse_procs(&value, &LIMITS);
            let read = read.expect("our own value").expect("our own tag");
            assert!(read == *meant, "{} changed the map", scheme.name());
            owned(scheme, &value);
        }
    }
    if let (Ok(LegacyRegex { bytes, framing }), Ok(meant)) = (preg().generate_ppn(&text), &meant) {
        let read = preg().parse_procs(&bytes).expect("our own value");
        assert!(read == *meant, "{framing} changed the map");
    }
}

/// Checks that the typed form restores the text exactly.
fn typed(scheme: &dyn Scheme, list: &[u8]) {
    if let Some(value) = scheme.generate_regex(list).expect("lists do not fail") {
        let text = scheme.parse_regex(value.as_view(), &LIMITS);
        let text = text.expect("our own value").expect("our own type");
        assert!(text == list, "{} changed the list", scheme.name());
    }
}

/// Checks that a value belongs to its scheme completely, and to no other.
fn owned(scheme: &dyn Scheme, value: &[u8]) {
    for module in preg().modules() {
        let claim = module.scheme.legacy_len(value).expect("a sound value");
        let own = module.scheme.name() == scheme.name();
        assert_eq!(claim.is_some(), own, "{}", module.scheme.name());
        if let Some(extent) = claim {
            assert_eq!(extent.len, value.len());
        }
    }
}

/// Returns the bytes unchanged, or mapped to an alphabet if the high bit of the first one is clear.
fn spelled(data: &[u8], alphabet: &[u8; 32]) -> Vec<u8> {
    match data.split_first() {
        Some((first, rest)) if first & 0x80 == 0 => {
            let letter = |byte: &u8| alphabet[usize::from(byte % 32)];
            rest.iter().map(letter).collect()
        }
        Some((_, rest)) => rest.to_vec(),
        None => Vec::new(),
    }
}

/// Returns the elements of a list; the empty text has none.
fn split(list: &[u8], separator: u8) -> Vec<Vec<u8>> {
    if list.is_empty() {
        return Vec::new();
    }
    let parts = list.split(|b| *b == separator);
    parts.map(<[u8]>::to_vec).collect()
}
