// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invariants of every map that a parser accepted.

use preg_core::{Error, NodeList, ProcMap};

use super::LIMITS;

/// Checks that an error reports an offset inside the value or at its end.
pub(crate) fn error(error: &Error, value: &[u8]) {
    assert!(
        !error.status().is_success(),
        "an error with status 0: {error}"
    );
    let offset = error.offset().unwrap_or(0);
    assert!(
        offset <= value.len(),
        "offset {offset} of {} bytes: {error}",
        value.len()
    );
}

/// Checks that a list respects the limits, and that all ways to read it agree.
pub(crate) fn nodes(list: &NodeList) {
    assert!(list.len() as u64 <= LIMITS.max_nodes);
    let names: Vec<Vec<u8>> = list.iter().collect();
    assert_eq!(names.len(), list.len());
    let bytes: usize = names.iter().map(|name| name.len() + 1).sum();
    assert!(bytes as u64 <= LIMITS.max_bytes + 1, "{bytes} bytes");
    for (at, name) in names.iter().enumerate().step_by(1 + names.len() / 64) {
        assert_eq!(list.nth(at).as_ref(), Some(name));
        let first = names.iter().position(|other| other == name);
        assert_eq!(list.position(name), first, "the place of {at}");
    }
    assert_eq!(list.nth(names.len()), None);
    let mut text = Vec::new();
    list.write_text(b',', &mut text);
    assert_eq!(text, names.join(&b','));
}

/// Checks that a map respects the limits, and that all ways to read it agree.
pub(crate) fn procs(map: &ProcMap) {
    assert!(map.num_nodes() as u64 <= LIMITS.max_nodes);
    assert!(map.num_ranks() <= LIMITS.max_ranks);
    let mut seen = std::collections::HashMap::new();
    let mut total = 0;
    for node in 0..map.num_nodes() {
        let ranks = map.ranks_of(node).expect("a node below the count");
        for rank in ranks {
            seen.entry(rank).or_insert(node);
            total += 1;
        }
    }
    assert_eq!(total, map.num_ranks());
    for (rank, node) in seen.iter().take(64) {
        assert_eq!(map.node_of(*rank), Some(*node), "the node of {rank:?}");
    }
    assert!(map.ranks_of(map.num_nodes()).is_none());
    let mut text = Vec::new();
    map.write_text(&mut text);
    // One empty node and no nodes both give the empty text.
    if !text.is_empty() {
        let again = ProcMap::parse_text(&text, &LIMITS).expect("our own text");
        assert!(again == *map, "the text of a map is another map");
    }
}
