// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers with their nouns.

/// Returns a number with its noun: `1 node`, `2 nodes`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// Returns the size of a map: `2 nodes, 8 ranks`.
pub(crate) fn size(nodes: usize, ranks: u64) -> String {
    format!(
        "{}, {}",
        counted(nodes as u64, "node"),
        counted(ranks, "rank")
    )
}
