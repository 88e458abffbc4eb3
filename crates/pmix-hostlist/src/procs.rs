// SPDX-License-Identifier: MIT OR Apache-2.0
//! The writer of process maps with ranges of ranks.

use std::io::Write as _;

use pmix_map::ProcMap;

/// Writes a process map with consecutive ranks as ranges, `0-3,8;4-7`, which
/// [`ProcMap::parse_text`] parses.
#[must_use]
pub fn write_procs(map: &ProcMap) -> Vec<u8> {
    let mut out = Vec::new();
    for node in 0..map.num_nodes() {
        if node > 0 {
            out.push(b';');
        }
        append_ranks(map, node, &mut out);
    }
    out
}

/// Writes the ranks of one node as ranges, `0-3,8`. Returns empty text for an unknown node.
#[must_use]
pub fn write_ranks(map: &ProcMap, node: usize) -> Vec<u8> {
    let mut out = Vec::new();
    append_ranks(map, node, &mut out);
    out
}

/// Appends the ranks of one node: `0-3,8`.
fn append_ranks(map: &ProcMap, node: usize, out: &mut Vec<u8>) {
    let mut open: Option<(u32, u32)> = None;
    let mut first = true;
    for rank in map.ranks_of(node).into_iter().flatten() {
        let rank = rank.as_raw();
        match &mut open {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => push_ranks(open.replace((rank, rank)), &mut first, out),
        }
    }
    push_ranks(open, &mut first, out);
}

fn push_ranks(range: Option<(u32, u32)>, first: &mut bool, out: &mut Vec<u8>) {
    let Some((from, to)) = range else { return };
    if !std::mem::take(first) {
        out.push(b',');
    }
    // Writing into a Vec cannot fail.
    let _ = match from == to {
        true => write!(out, "{from}"),
        false => write!(out, "{from}-{to}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_map::Limits;

    #[test]
    fn consecutive_ranks_are_ranges_and_survive() {
        for (text, written) in [
            ("0,1,2,3,8;4,5,6,7", "0-3,8;4-7"),
            ("0,2,4;1,3,5", "0,2,4;1,3,5"),
            ("3,2;1,0", "3,2;1,0"),
            (";0;;1;", ";0;;1;"),
            ("", ""),
        ] {
            let map = ProcMap::parse_text(text.as_bytes(), &Limits::default()).unwrap();
            let out = write_procs(&map);
            assert_eq!(String::from_utf8_lossy(&out), written, "{text:?}");
            let back = ProcMap::parse_text(&out, &Limits::default()).unwrap();
            assert_eq!(back, map, "{text:?}");
        }
        let map = ProcMap::parse_text(b"0-3,8;4-7", &Limits::default()).unwrap();
        assert_eq!(write_ranks(&map, 0), b"0-3,8");
        assert_eq!(write_ranks(&map, 2), b"");
    }
}
