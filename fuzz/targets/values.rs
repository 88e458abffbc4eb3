// SPDX-License-Identifier: MIT OR Apache-2.0
//! The decoders of single schemes, with values that carry their tags.

use preg_core::{NodeList, ProcMap, Regex2Ref, Scheme};

use super::{LIMITS, checks, scheme};

/// Decodes a node map of one scheme, made of its tag and these bytes.
pub(crate) fn nodes(name: &str, data: &[u8]) {
    let scheme = scheme(name);
    nodes_of(scheme, &[scheme.tag(), data].concat());
}

/// Decodes a process map of one scheme, made of its tag and these bytes.
pub(crate) fn procs(name: &str, data: &[u8]) {
    let scheme = scheme(name);
    procs_of(scheme, &[scheme.tag(), data].concat());
}

/// Decodes all forms of the scheme that keeps the text.
pub(crate) fn raw(data: &[u8]) {
    nodes("raw", data);
    procs("raw", data);
    regex2("raw", data);
}

/// Decodes the framed form: the bytes are the payload after a valid header, or the whole value.
pub(crate) fn blob(data: &[u8]) {
    let scheme = scheme("compress");
    if let Some(value) = data.strip_prefix(b"\0") {
        let value = [b"blob:\0", value].concat();
        nodes_of(scheme, &value);
        procs_of(scheme, &value);
        return;
    }
    let header = format!("blob:\0component=zlib:\0size={}:\0", data.len());
    let value = [header.as_bytes(), data].concat();
    nodes_of(scheme, &value);
    procs_of(scheme, &value);
}

/// Decodes the typed form of one scheme.
pub(crate) fn regex2(name: &str, data: &[u8]) {
    let scheme = scheme(name);
    let kind = scheme.kind().expect("a scheme with a typed form");
    let regex = Regex2Ref { kind, bytes: data };
    match scheme.parse_regex(regex, &LIMITS) {
        Err(error) => checks::error(&error, data),
        Ok(text) => {
            let text = text.expect("a value of its own type");
            assert!(text.len() as u64 <= LIMITS.max_bytes);
            if let Some(list) = folded(scheme.regex_nodes(regex, &LIMITS)) {
                checks::nodes(&list);
            }
            if let Some(map) = folded(scheme.regex_procs(regex, &LIMITS)) {
                checks::procs(&map);
            }
        }
    }
    let _ = scheme.explain_regex(regex);
}

fn folded<T>(answer: Result<Option<T>, preg_core::Error>) -> Option<T> {
    answer.ok().flatten()
}

fn nodes_of(scheme: &dyn Scheme, value: &[u8]) {
    match scheme.parse_nodes(value, &LIMITS) {
        Err(error) => checks::error(&error, value),
        Ok(list) => {
            let list = list.expect("a value with its own tag");
            checks::nodes(&list);
            nodes_again(scheme, &list);
        }
    }
    extent(scheme, value);
    let _ = scheme.explain(value);
}

/// Checks that a decoded list can be written and read again.
fn nodes_again(scheme: &dyn Scheme, list: &NodeList) {
    let mut text = Vec::new();
    list.write_text(b',', &mut text);
    // One empty name and no names both give the empty text.
    if text.is_empty() {
        return;
    }
    let plain = NodeList::parse_text(&text, &LIMITS).expect("within the limits");
    if let Ok(Some(value)) = scheme.generate_node_regex(&text) {
        let again = scheme.parse_nodes(&value, &LIMITS);
        let again = again.expect("our own value").expect("our own tag");
        assert!(again == plain, "the list changed");
    }
}

fn procs_of(scheme: &dyn Scheme, value: &[u8]) {
    match scheme.parse_procs(value, &LIMITS) {
        Err(error) => checks::error(&error, value),
        Ok(map) => {
            let map = map.expect("a value with its own tag");
            checks::procs(&map);
            procs_again(scheme, &map);
        }
    }
    extent(scheme, value);
}

fn procs_again(scheme: &dyn Scheme, map: &ProcMap) {
    let mut text = Vec::new();
    map.write_text(&mut text);
    if text.is_empty() {
        return;
    }
    if let Ok(Some(value)) = scheme.generate_ppn(&text) {
        let again = scheme.parse_procs(&value, &LIMITS);
        let again = again.expect("our own value").expect("our own tag");
        assert!(again == *map, "the map changed");
    }
}

/// Checks that the length of a value is known or its framing is damaged; it may exceed the bytes that are present.
fn extent(scheme: &dyn Scheme, value: &[u8]) {
    if let Err(error) = scheme.legacy_len(value) {
        checks::error(&error, value);
    }
}
