// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of node maps and process maps. Each fault has its place in the map.
//!
//! Source: PMIx Standard, chapter "Reserved Keys", `PMIX_NODE_MAP` and `PMIX_PROC_MAP`: each rank
//! is on one node.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

use pmix_types::Rank;

use crate::{NodeList, ProcMap};

/// A range of consecutive ranks, including the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankSpan {
    /// The first rank.
    pub first: u32,
    /// The last rank.
    pub last: u32,
}

impl RankSpan {
    /// Returns the number of ranks, at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is at least one rank")]
    pub const fn len(self) -> u64 {
        (self.last as u64).saturating_sub(self.first as u64) + 1
    }
}

/// A rank and its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankPlace {
    /// The rank.
    pub rank: Rank,
    /// The index of the node.
    pub node: usize,
}

/// A name that occurs more than once in a node map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateName {
    /// The index of the first node with the name.
    pub node: usize,
    /// The index of a later node with the name.
    pub again: usize,
}

/// A fault in the ranks of a process map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankFault {
    /// Ranks that no node has, although higher ranks exist.
    Missing {
        /// The ranks.
        ranks: RankSpan,
        /// The nearest lower rank, if there is one.
        before: Option<RankPlace>,
        /// The nearest higher rank.
        after: RankPlace,
    },
    /// Ranks that two nodes have, or one node has twice.
    Doubled {
        /// The ranks.
        ranks: RankSpan,
        /// The index of a node that has the ranks.
        node: usize,
        /// The index of the other node; equal to `node` if one node has them twice.
        again: usize,
    },
}

/// Consecutive ranks of one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    first: u32,
    /// The index of the node. It has 32 bits to save memory: a cyclic map has a piece for each
    /// rank.
    node: u32,
    last: u32,
}

impl Piece {
    fn place(self) -> usize {
        usize::try_from(self.node).unwrap_or(usize::MAX)
    }

    /// Returns a rank of this piece with its node.
    fn at(self, rank: u32) -> RankPlace {
        RankPlace {
            rank: Rank::new(rank),
            node: self.place(),
        }
    }
}

/// Finds ranks of a process map that are missing below the highest rank or occur twice, in
/// ascending order.
///
/// The time depends on the number of nodes for a block map, and on the number of ranks for a cyclic
/// map.
#[must_use]
pub fn rank_faults(map: &ProcMap) -> Vec<RankFault> {
    let mut pieces = pieces(map);
    pieces.sort_unstable();
    let mut faults = Vec::new();
    // The piece with the highest last rank so far.
    let mut reach: Option<Piece> = None;
    for piece in pieces {
        let next = reach.map_or(0, |r| u64::from(r.last) + 1);
        if u64::from(piece.first) > next {
            let first = u32::try_from(next).unwrap_or(u32::MAX);
            let ranks = RankSpan {
                first,
                last: piece.first - 1,
            };
            faults.push(RankFault::Missing {
                ranks,
                before: reach.map(|r| r.at(r.last)),
                after: piece.at(piece.first),
            });
        } else if let Some(r) = reach
            && piece.first <= r.last
        {
            let ranks = RankSpan {
                first: piece.first,
                last: piece.last.min(r.last),
            };
            doubled(&mut faults, ranks, r.place(), piece.place());
        }
        if reach.is_none_or(|r| piece.last > r.last) {
            reach = Some(piece);
        }
    }
    faults
}

/// Appends a fault for doubled ranks, or extends the previous one.
fn doubled(faults: &mut Vec<RankFault>, ranks: RankSpan, node: usize, again: usize) {
    if let Some(RankFault::Doubled {
        ranks: last,
        node: a,
        again: b,
    }) = faults.last_mut()
        && (*a, *b) == (node, again)
        && last.last.checked_add(1) == Some(ranks.first)
    {
        last.last = ranks.last;
        return;
    }
    faults.push(RankFault::Doubled { ranks, node, again });
}

/// Splits the map into pieces. A block map has a piece for each run, a cyclic map for each rank.
fn pieces(map: &ProcMap) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (node, index) in (0..u32::MAX).zip(0..map.num_nodes()) {
        let mut open: Option<Piece> = None;
        for run in map.runs_of(index).unwrap_or_default() {
            if run.step == 1 {
                let first = run.first.as_raw();
                let last = first.saturating_add(run.count.saturating_sub(1));
                push(&mut pieces, &mut open, Piece { first, node, last });
                continue;
            }
            for index in 0..run.count {
                let rank = i64::from(run.first.as_raw()) + i64::from(index) * run.step;
                if let Ok(first) = u32::try_from(rank) {
                    let last = first;
                    push(&mut pieces, &mut open, Piece { first, node, last });
                }
            }
        }
        pieces.extend(open);
    }
    pieces
}

fn push(pieces: &mut Vec<Piece>, open: &mut Option<Piece>, piece: Piece) {
    match open {
        Some(o) if o.last.checked_add(1) == Some(piece.first) => o.last = piece.last,
        _ => pieces.extend(open.replace(piece)),
    }
}

/// Finds names that occur more than once in a node map, in the order of their second occurrence.
#[must_use]
pub fn duplicate_names(list: &NodeList) -> Vec<DuplicateName> {
    let mut hashes = Vec::with_capacity(list.len());
    list.for_each(|name| {
        let mut hasher = DefaultHasher::new();
        hasher.write(name);
        hashes.push((hasher.finish(), hashes.len()));
    });
    hashes.sort_unstable();
    let mut found = Vec::new();
    for group in hashes.chunk_by(|a, b| a.0 == b.0).filter(|g| g.len() > 1) {
        // Different names may have equal hashes, so the names are compared as well.
        let mut firsts: Vec<(usize, Vec<u8>)> = Vec::new();
        for (_, index) in group {
            let name = list.nth(*index).unwrap_or_default();
            match firsts.iter().find(|(_, first)| *first == name) {
                Some((first, _)) => found.push(DuplicateName {
                    node: *first,
                    again: *index,
                }),
                None => firsts.push((*index, name)),
            }
        }
    }
    found.sort_unstable_by_key(|name| name.again);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn of(text: &str) -> Vec<RankFault> {
        rank_faults(&ProcMap::parse_text(text.as_bytes(), &Limits::default()).unwrap())
    }

    fn missing(
        first: u32,
        last: u32,
        before: Option<(u32, usize)>,
        after: (u32, usize),
    ) -> RankFault {
        let place = |(rank, node)| RankPlace {
            rank: Rank::new(rank),
            node,
        };
        RankFault::Missing {
            ranks: RankSpan { first, last },
            before: before.map(place),
            after: place(after),
        }
    }

    fn twice(first: u32, last: u32, node: usize, again: usize) -> RankFault {
        let ranks = RankSpan { first, last };
        RankFault::Doubled { ranks, node, again }
    }

    #[test]
    fn valid_maps_have_no_faults_in_any_order() {
        for text in ["", "0", "0-3;4-7", "0,2,4;1,3,5", "3,2;1,0", ";0;;1;"] {
            assert_eq!(of(text), [], "{text:?}");
        }
    }

    #[test]
    fn missing_ranks_name_their_neighbors() {
        assert_eq!(of("0-1;4"), [missing(2, 3, Some((1, 0)), (4, 1))]);
        assert_eq!(of("5"), [missing(0, 4, None, (5, 0))]);
    }

    #[test]
    fn doubled_ranks_name_both_nodes() {
        assert_eq!(of("0-3;2-5"), [twice(2, 3, 0, 1)]);
        assert_eq!(of("0,0"), [twice(0, 0, 0, 0)]);
        assert_eq!(
            of("0-9;1,3;2"),
            [twice(1, 1, 0, 1), twice(2, 2, 0, 2), twice(3, 3, 0, 1)]
        );
    }

    #[test]
    fn duplicate_names_are_found_among_many() {
        let list = NodeList::parse_text(b"a,b,a,c,a,b", &Limits::default()).unwrap();
        let found = duplicate_names(&list);
        let found: Vec<_> = found.iter().map(|name| (name.node, name.again)).collect();
        assert_eq!(found, [(0, 2), (0, 4), (1, 5)]);
    }
}
