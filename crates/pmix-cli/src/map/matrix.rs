// SPDX-License-Identifier: MIT OR Apache-2.0
//! A grid of cells for nodes and ranks, folded to the available space, and short labels for its
//! rows.

use std::ops::Range;

use pmix_map::{ProcMap, RankFault, RankSpan};

use crate::style::columns;

/// Errors in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    None,
    Missing,
    Doubled,
}

/// A window of a process map as a grid.
pub(super) struct Matrix {
    nodes: usize,
    ranks: u64,
    rows: usize,
    cols: usize,
    counts: Vec<u64>,
    marks: Vec<Mark>,
}

impl Matrix {
    /// Creates the matrix of the first `nodes` nodes and `ranks` ranks with at most `rows` by `cols` cells.
    pub(super) fn new(
        map: &ProcMap,
        nodes: usize,
        ranks: u64,
        (rows, cols): (usize, usize),
        faults: &[RankFault],
    ) -> Self {
        let cols = usize::try_from(ranks).map_or(cols, |n| n.min(cols));
        let rows = rows.min(nodes);
        let mut matrix = Self {
            nodes,
            ranks,
            rows,
            cols,
            counts: vec![0; rows * cols],
            marks: vec![Mark::None; cols],
        };
        for node in 0..nodes {
            let row = node * rows / nodes;
            for run in map.runs_of(node).unwrap_or_default() {
                let first = run.first.as_raw();
                if run.step == 1 {
                    let last = first.saturating_add(run.count.saturating_sub(1));
                    matrix.add(row, RankSpan { first, last });
                    continue;
                }
                for index in 0..run.count {
                    let rank = i64::from(first) + i64::from(index) * run.step;
                    if let Ok(rank) = u32::try_from(rank) {
                        let (first, last) = (rank, rank);
                        matrix.add(row, RankSpan { first, last });
                    }
                }
            }
        }
        for fault in faults {
            match fault {
                RankFault::Missing { ranks, .. } => matrix.mark(*ranks, Mark::Missing),
                RankFault::Doubled { ranks, .. } => matrix.mark(*ranks, Mark::Doubled),
            }
        }
        matrix
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the number of nodes in all rows.
    pub(super) fn num_nodes(&self) -> usize {
        self.nodes
    }

    /// Returns `true` if a cell represents more than one node or rank.
    pub(super) fn is_folded(&self) -> bool {
        self.rows < self.nodes || (self.cols as u64) < self.ranks
    }

    /// Returns the nodes of a row.
    pub(super) fn nodes_of(&self, row: usize) -> Range<usize> {
        let start = |row: usize| (row * self.nodes).div_ceil(self.rows.max(1));
        start(row)..start(row + 1)
    }

    /// Returns the ranks of a column.
    pub(super) fn ranks_of(&self, col: usize) -> Range<u64> {
        let start = |col: usize| (col as u64 * self.ranks).div_ceil(self.cols.max(1) as u64);
        start(col)..start(col + 1)
    }

    /// Returns the share of a column's ranks in a cell in quarters, 0 to 4. It is at least 1 if the
    /// cell has any rank.
    pub(super) fn shade(&self, row: usize, col: usize) -> usize {
        let count = self.counts.get(row * self.cols + col).copied().unwrap_or(0);
        let ranks = self.ranks_of(col);
        let quarters = (count * 4).div_ceil((ranks.end - ranks.start).max(1));
        usize::try_from(quarters).unwrap_or(4).min(4)
    }

    pub(super) fn mark_of(&self, col: usize) -> Mark {
        self.marks.get(col).copied().unwrap_or(Mark::None)
    }

    pub(super) fn has_marks(&self) -> bool {
        self.marks.iter().any(|m| *m != Mark::None)
    }

    fn col_of(&self, rank: u64) -> usize {
        usize::try_from(rank * self.cols as u64 / self.ranks.max(1)).unwrap_or(usize::MAX)
    }

    /// Returns the columns of a span, each with its number of ranks.
    fn columns(&self, span: RankSpan) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (first, last) = (u64::from(span.first), u64::from(span.last));
        let last = last.min(self.ranks.saturating_sub(1));
        let (from, to) = match first < self.ranks {
            true => (self.col_of(first), self.col_of(last) + 1),
            false => (0, 0),
        };
        let bounds: Vec<_> = (from..to).map(|col| (col, self.ranks_of(col))).collect();
        bounds.into_iter().map(move |(col, ranks)| {
            let end = ranks.end.min(last + 1);
            (col, end.saturating_sub(ranks.start.max(first)))
        })
    }

    fn add(&mut self, row: usize, span: RankSpan) {
        for (col, count) in self.columns(span) {
            if let Some(cell) = self.counts.get_mut(row * self.cols + col) {
                *cell += count;
            }
        }
    }

    fn mark(&mut self, span: RankSpan, mark: Mark) {
        for (col, _) in self.columns(span) {
            if let Some(old) = self.marks.get_mut(col)
                && *old != Mark::Doubled
            {
                *old = mark;
            }
        }
    }
}

/// Shortens names to at most `most` columns each. First removes the common prefix of the long
/// names, then their common suffix.
pub(super) fn shorten_all(names: Vec<String>, most: usize) -> Vec<String> {
    let long = || names.iter().filter(|name| columns(name) > most);
    let Some(first) = long().next() else {
        return names;
    };
    let shared = |same: fn(&str, &str) -> usize| long().map(|name| same(first, name)).min();
    let (front, back) = (shared(same_front), shared(same_back));
    let (front, back) = (front.unwrap_or(0), back.unwrap_or(0));
    let shorten = |name: String| match columns(&name) > most {
        true => shorten(&name, front, back, most),
        false => name,
    };
    names.into_iter().map(shorten).collect()
}

/// Returns the length of the common prefix of two names.
fn same_front(a: &str, b: &str) -> usize {
    let alike = a.chars().zip(b.chars()).take_while(|(a, b)| a == b);
    alike.map(|(c, _)| c.len_utf8()).sum()
}

/// Returns the length of the common suffix of two names.
fn same_back(a: &str, b: &str) -> usize {
    let alike = a.chars().rev().zip(b.chars().rev());
    let alike = alike.take_while(|(a, b)| a == b);
    alike.map(|(c, _)| c.len_utf8()).sum()
}

/// Shortens a name whose first `front` and last `back` bytes are common to all names. Keeps the end
/// of the name if the distinct part fits, or else its beginning, or else the beginning of the
/// distinct part.
fn shorten(name: &str, front: usize, back: usize, most: usize) -> String {
    let differs = name.get(front..).unwrap_or_default();
    let begins = name.get(..name.len().saturating_sub(back));
    if columns(differs) < most || front + back >= name.len() {
        return format!("…{}", tail(name, most - 1));
    }
    match begins {
        Some(begins) if columns(begins) < most => format!("{}…", head(name, most - 1)),
        _ => format!("…{}…", head(differs, most - 2)),
    }
}

/// Returns the beginning of a text that fits `most` columns.
fn head(text: &str, most: usize) -> &str {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let fits = ends.take_while(|end| columns(&text[..*end]) <= most).last();
    &text[..fits.unwrap_or(0)]
}

/// Returns the end of a text that fits `most` columns.
fn tail(text: &str, most: usize) -> &str {
    let starts = text.char_indices().rev().map(|(at, _)| at);
    let fits = starts.take_while(|start| columns(&text[*start..]) <= most);
    &text[fits.last().unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use pmix_map::Limits;

    use super::*;

    fn shades(text: &str, ranks: u64, size: (usize, usize)) -> Vec<String> {
        let map = ProcMap::parse_text(text.as_bytes(), &Limits::default()).unwrap();
        let matrix = Matrix::new(&map, map.num_nodes(), ranks, size, &[]);
        (0..matrix.rows())
            .map(|row| {
                (0..matrix.cols())
                    .map(|col| matrix.shade(row, col).to_string())
                    .collect()
            })
            .collect()
    }

    #[test]
    fn small_maps_have_a_cell_for_each_pair() {
        assert_eq!(shades("0-1;2-3", 4, (9, 9)), ["4400", "0044"]);
        assert_eq!(shades("0,2;1,3", 4, (9, 9)), ["4040", "0404"]);
        assert_eq!(shades("0;;1", 2, (9, 9)), ["40", "00", "04"]);
    }

    #[test]
    fn folded_maps_keep_their_face() {
        assert_eq!(shades("0-1;2-3;4-5;6-7", 8, (2, 2)), ["40", "04"]);
        assert_eq!(shades("0,4;1,5;2,6;3,7", 8, (2, 2)), ["22", "22"]);
    }

    #[test]
    fn ranges_cover_everything_once() {
        let map = ProcMap::parse_text(b"0-9;10-99", &Limits::default()).unwrap();
        let matrix = Matrix::new(&map, 2, 100, (2, 7), &[]);
        let mut next = 0;
        for col in 0..7 {
            let ranks = matrix.ranks_of(col);
            assert_eq!(ranks.start, next);
            assert!(ranks.clone().all(|rank| matrix.col_of(rank) == col));
            next = ranks.end;
        }
        assert_eq!(next, 100);
    }

    fn shortened(names: &[&str]) -> Vec<String> {
        shorten_all(names.iter().map(|name| (*name).to_owned()).collect(), 10)
    }

    #[test]
    fn shortened_names_keep_their_differences() {
        assert_eq!(
            shortened(&["cluster-rack01-node1", "cluster-rack01-node2", "n3"]),
            ["…k01-node1", "…k01-node2", "n3"]
        );
        assert_eq!(
            shortened(&["n1.cluster.example", "n2.cluster.example"]),
            ["n1.cluste…", "n2.cluste…"]
        );
        assert_eq!(
            shortened(&["cluster-n1.example.org", "cluster-n2.example.org"]),
            ["…1.exampl…", "…2.exampl…"]
        );
        assert_eq!(shortened(&["cluster-rack01-node1"]), ["…k01-node1"]);
        assert_eq!(shortened(&["n1", "n2"]), ["n1", "n2"]);
    }

    #[test]
    fn columns_count_and_characters_stay_whole() {
        for name in shortened(&["日本語日本語日本語一", "日本語日本語日本語二"])
        {
            assert!(columns(&name) <= 10 && name.starts_with('…'), "{name}");
        }
        let names = shortened(&["é".repeat(30).as_str(), "é".repeat(31).as_str()]);
        assert!(names.iter().all(|name| columns(name) == 10), "{names:?}");
    }
}
