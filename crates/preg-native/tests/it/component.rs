// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access to the component for tests.

use preg_core::{Error, Limits, NodeList, Params, ProcMap, Scheme};

/// Returns the scheme with its defaults.
pub(crate) fn scheme() -> Box<dyn Scheme> {
    (preg_native::COMPONENT.query)(&Params::default())
        .expect("the defaults are valid")
        .expect("the scheme works everywhere")
}

/// Parses a node map that has the tag.
pub(crate) fn nodes(value: &[u8]) -> Result<NodeList, Error> {
    let list = scheme().parse_nodes(value, &Limits::default());
    list.map(|list| list.expect("the value carries the tag"))
}

/// Parses a process map that has the tag.
pub(crate) fn procs(value: &[u8]) -> Result<ProcMap, Error> {
    let map = scheme().parse_procs(value, &Limits::default());
    map.map(|map| map.expect("the value carries the tag"))
}

/// Returns the names, separated by commas.
pub(crate) fn text(list: &NodeList) -> Vec<u8> {
    let mut text = Vec::new();
    list.write_text(b',', &mut text);
    text
}

/// Returns the expanded ranks.
pub(crate) fn proc_text(map: &ProcMap) -> String {
    let mut text = Vec::new();
    map.write_text(&mut text);
    String::from_utf8(text).expect("ranks are ASCII")
}
