// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index from ranks to nodes. The first query builds it. A query does a few binary searches.

use pmix_types::Rank;
use pmix_types::memory::{self, OutOfMemory};

use super::ProcMap;
use crate::lattice;
use crate::lattice_index::{Item, LatticeIndex};

/// The index of a map: each run of each block is one lattice.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// The id of the first lattice of each block.
    starts: Vec<u32>,
    lattices: LatticeIndex,
}

impl Index {
    /// Indexes a map.
    ///
    /// # Errors
    ///
    /// The process has no memory for the index.
    pub(super) fn new(map: &ProcMap) -> Result<Self, OutOfMemory> {
        let (mut starts, mut items) = (memory::list(map.blocks.len())?, Vec::new());
        let mut id = 0;
        for (index, block) in map.blocks.iter().enumerate() {
            starts.push(id);
            memory::reserve(&mut items, block.num_runs as usize)?;
            for run in 0..block.num_runs as usize {
                let (first, dims) = map.lattice(index, run);
                let (low, high) = lattice::bounds(first, &dims);
                items.push(Item {
                    class: 0,
                    id,
                    low,
                    high,
                });
                // This does not overflow: the builder limits the runs of all blocks to 32 bits.
                id += 1;
            }
        }
        let lattices = LatticeIndex::new(items, |id, cut| {
            let (index, run) = locate(&starts, id);
            let (first, dims) = map.lattice(index, run);
            cut(first, &dims);
        })?;
        Ok(Self { starts, lattices })
    }

    /// Returns the first node that has a rank.
    pub(super) fn node_of(&self, map: &ProcMap, rank: Rank) -> Option<u64> {
        let number = i64::from(rank.as_raw());
        let (_, node) = self.lattices.find(0, number, |id| {
            let (index, run) = locate(&self.starts, id);
            let (first, dims) = map.lattice(index, run);
            let place = lattice::place(first, &dims, number)?;
            Some(map.blocks[index].start + place / dims[0].count)
        })?;
        Some(node)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.starts.capacity() * size_of::<u32>() + self.lattices.memory_bytes()
    }
}

/// Returns the first node that has a rank. Searches all runs, without an index.
pub(super) fn search(map: &ProcMap, rank: Rank) -> Option<u64> {
    let number = i64::from(rank.as_raw());
    (0..map.blocks.len()).find_map(|index| {
        let runs = 0..map.blocks[index].num_runs as usize;
        let nodes = runs.filter_map(|run| {
            let (first, dims) = map.lattice(index, run);
            Some(lattice::place(first, &dims, number)? / dims[0].count)
        });
        Some(map.blocks[index].start + nodes.min()?)
    })
}

/// Returns the block and the run of a lattice. Blocks without runs have the same id as the next
/// block. The last block with this id has the lattice.
fn locate(starts: &[u32], id: u32) -> (usize, usize) {
    let index = starts.partition_point(|s| *s <= id).saturating_sub(1);
    (index, (id - starts[index]) as usize)
}
