// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks for duplicate ranks, in maps and in arrays that describe processes.

use std::collections::BTreeMap;

use pmix_map::{ProcBlock, ProcMap, RankRun};
use pmix_types::Rank;
use pmix_types::memory::{self, OutOfMemory};

/// A set of ranks as ranges: the last rank of each range, by its first rank.
#[derive(Debug, Default)]
pub(super) struct RankSet(BTreeMap<u32, u32>);

impl RankSet {
    /// Adds a rank. Returns `true` if it is new.
    pub(super) fn add(&mut self, rank: u32) -> bool {
        let before = self.0.range_mut(..=rank).next_back();
        if let Some((_, last)) = before {
            if *last >= rank {
                return false;
            }
            if *last + 1 == rank {
                *last = rank;
                return true;
            }
        }
        self.0.insert(rank, rank);
        true
    }
}

/// Returns a rank that occurs twice in a map, if there is one.
///
/// # Errors
///
/// Returns an error if the process has no memory for the ranks: a short map can have 134,217,728 of them in another order
/// than that of their numbers.
pub(super) fn in_map(procs: &ProcMap) -> Result<Option<Rank>, OutOfMemory> {
    if ascending(procs) {
        return Ok(None);
    }
    let mut blocks = procs.blocks();
    if let (Some(only), None) = (blocks.next(), blocks.next())
        && dealt(&only)
    {
        return Ok(None);
    }
    let num_ranks = usize::try_from(procs.num_ranks()).unwrap_or(usize::MAX);
    let mut ranks: Vec<Rank> = memory::list(num_ranks)?;
    ranks.extend(procs.iter().flatten());
    ranks.sort_unstable();
    let twice = ranks.windows(2).find(|pair| pair[0] == pair[1]);
    Ok(twice.and_then(|pair| pair.first().copied()))
}

/// Returns `true` if all ranks of each node exceed those of the previous node.
fn ascending(procs: &ProcMap) -> bool {
    let mut next = 0;
    procs.blocks().all(|block| {
        let Some((lowest, highest)) = span(&block.runs) else {
            return true;
        };
        let apart = block.num_nodes == 1 || block.shift > highest - lowest;
        let follows = lowest >= next && apart;
        let nodes = i64::try_from(block.num_nodes).unwrap_or(i64::MAX);
        next = block
            .shift
            .saturating_mul(nodes - 1)
            .saturating_add(highest + 1);
        follows
    })
}

/// Returns the lowest and highest rank of ascending runs.
fn span(runs: &[RankRun]) -> Option<(i64, i64)> {
    let lowest = i64::from(runs.first()?.first.as_raw());
    let mut next = lowest;
    for run in runs {
        let first = i64::from(run.first.as_raw());
        if first < next || (run.count > 1 && run.step < 1) {
            // For runs in another order, returns a span that overlaps every other.
            return Some((i64::MIN / 4, i64::MAX / 4));
        }
        next = first + run.step * i64::from(run.count - 1) + 1;
    }
    Some((lowest, next - 1))
}

/// Returns `true` if ranks are assigned to nodes in a cyclic way.
fn dealt(block: &ProcBlock) -> bool {
    let [run] = block.runs.as_slice() else {
        return false;
    };
    let nodes = i64::try_from(block.num_nodes).unwrap_or(i64::MAX);
    block.shift > 0 && run.step >= block.shift.saturating_mul(nodes)
}

#[cfg(test)]
mod tests {
    use pmix_map::Limits;

    use super::*;

    #[test]
    fn finds_duplicate_ranks() {
        for (map, twice) in [
            ("0-3;4-7;8-11;12", None),
            ("0,4,8;1,5,9;2,6,10;3,7", None),
            ("4-7;0-3", None),
            ("3,2,1,0;7,6,5,4", None),
            ("0-3;;5", None),
            ("0-3;3-5", Some(3)),
            ("0,4;1,4", Some(4)),
            ("0,0", Some(0)),
            ("0-3;4-7;0", Some(0)),
            ("0,2,4;1,3,5;2", Some(2)),
            ("0,2;1,3;2,4", Some(2)),
        ] {
            let procs = ProcMap::parse_text(map.as_bytes(), &Limits::default()).unwrap();
            assert_eq!(in_map(&procs), Ok(twice.map(Rank::new)), "{map}");
        }
    }

    #[test]
    fn a_set_recognizes_ranks_added_in_any_order() {
        let mut given = RankSet::default();
        for rank in [5, 3, 4, 0, 9] {
            assert!(given.add(rank), "{rank}");
        }
        for rank in [5, 3, 4, 0, 9] {
            assert!(!given.add(rank), "{rank}");
        }
        assert!(given.add(6) && given.add(1) && given.add(2));
        assert!(!given.add(2) && !given.add(6));
    }
}
