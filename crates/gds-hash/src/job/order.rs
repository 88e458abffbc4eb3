// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ascending order of the ranks of a process map, computed on first use.

use std::sync::OnceLock;

use pmix_map::ProcMap;
use pmix_types::Rank;
use pmix_types::memory::{self, OutOfMemory};

/// The ascending order of the ranks of a map. No rank occurs twice in a map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    span: OnceLock<Option<(i64, i64)>>,
    /// The sorted ranks, only for a map with gaps between its ranks.
    sorted: OnceLock<Box<[Rank]>>,
}

impl Order {
    /// Returns the lowest rank.
    pub(crate) fn lowest(&self, procs: &ProcMap) -> Option<Rank> {
        let (lowest, _) = self.span(procs)?;
        u32::try_from(lowest).ok().map(Rank::new)
    }

    /// Returns the number of ranks below a rank, if the map contains it.
    pub(crate) fn place(&self, procs: &ProcMap, rank: Rank) -> Option<u32> {
        procs.node_of(rank)?;
        let (lowest, highest) = self.span(procs)?;
        if u64::try_from(highest - lowest + 1) == Ok(procs.num_ranks()) {
            return u32::try_from(i64::from(rank.as_raw()) - lowest).ok();
        }
        let place = match self.sorted(procs) {
            Ok(sorted) => sorted.binary_search(&rank).ok()?,
            // Without memory for the table the ranks are counted.
            Err(_) => { procs.iter().flatten() }
                .filter(|other| *other < rank)
                .count(),
        };
        u32::try_from(place).ok()
    }

    /// Returns all ranks in ascending order.
    fn sorted(&self, procs: &ProcMap) -> Result<&[Rank], OutOfMemory> {
        if let Some(sorted) = self.sorted.get() {
            return Ok(sorted);
        }
        let mut ranks = memory::list(usize::try_from(procs.num_ranks()).unwrap_or(usize::MAX))?;
        ranks.extend(procs.iter().flatten());
        ranks.sort_unstable();
        Ok(self.sorted.get_or_init(|| ranks.into()))
    }

    fn span(&self, procs: &ProcMap) -> Option<(i64, i64)> {
        *self.span.get_or_init(|| {
            // Ranks change monotonically in a run and from node to node, so the ends are the
            // extremes.
            let ends = procs.blocks().flat_map(|block| {
                let more = i64::try_from(block.num_nodes).unwrap_or(i64::MAX) - 1;
                let shift = block.shift * more;
                block.runs.into_iter().flat_map(move |run| {
                    let first = i64::from(run.first.as_raw());
                    let last = first + run.step * (i64::from(run.count) - 1);
                    [first, last, first + shift, last + shift]
                })
            });
            ends.fold(None, |span, end| match span {
                None => Some((end, end)),
                Some((lowest, highest)) => Some((end.min(lowest), end.max(highest))),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use pmix_map::Limits;

    use super::*;

    #[test]
    fn place_is_the_number_of_lower_ranks() {
        for map in ["0-3;4-7", "0,2,4;1,3,5", "7,6;5,4", "3,10;20;;4-6", "9"] {
            let procs = ProcMap::parse_text(map.as_bytes(), &Limits::default()).unwrap();
            let order = Order::default();
            let mut ranks: Vec<Rank> = procs.iter().flatten().collect();
            ranks.sort_unstable();
            assert_eq!(order.lowest(&procs), ranks.first().copied(), "{map}");
            for (place, rank) in (0..).zip(&ranks) {
                assert_eq!(order.place(&procs, *rank), Some(place), "{map}");
            }
            assert_eq!(order.place(&procs, Rank::new(1_000)), None);
        }
        let none = ProcMap::parse_text(b";", &Limits::default()).unwrap();
        assert_eq!(Order::default().lowest(&none), None);
    }
}
