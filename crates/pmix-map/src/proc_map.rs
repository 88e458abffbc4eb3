// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process maps: the ranks of each node, and the index from ranks to nodes.
//!
//! The ranks of a node are its first rank and a *pattern*: runs relative to the first rank.
//! Consecutive nodes with the same pattern and a constant shift form a block. So block, cyclic and
//! plane maps of any size have one or a few blocks. A node joins a block only if a division still
//! finds the node of each rank.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_generate_ppn`, for the text;
//! the folded form is this project's own.

mod build;
mod expand;
mod parse;

use std::iter::repeat;
use std::sync::OnceLock;

use pmix_types::Rank;
use pmix_types::memory::{self, OutOfMemory};

use crate::lattice::{self, Dim};
use crate::lattice_index::{Item, LatticeIndex, build_once};

pub use build::ProcMapBuilder;

/// Ranks in arithmetic progression on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankRun {
    /// The first rank.
    pub first: Rank,
    /// The number of ranks, at least 1.
    pub count: u32,
    /// The difference between neighboring ranks; may be zero or negative.
    pub step: i64,
}

/// Consecutive nodes. Each has the ranks of the previous node plus a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcBlock {
    /// The index of the first node.
    pub first_node: usize,
    /// The number of nodes, at least 1.
    pub num_nodes: usize,
    /// The difference of each rank from one node to the next; may be zero or negative.
    pub shift: i64,
    /// The ranks of the first node.
    pub runs: Vec<RankRun>,
}

/// Ranks in arithmetic progression, relative to the first rank of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    offset: i64,
    step: i64,
    count: u32,
}

/// Consecutive nodes with the same pattern and a constant shift.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The index of the first node.
    start: u64,
    /// The first rank of the first node.
    base: i64,
    shift: i64,
    /// The index of the first run of the pattern. Blocks may share a pattern.
    runs: u32,
    num_runs: u32,
}

/// The ranks of each node of a job, in node order, folded into runs: a process map.
///
/// Two maps are equal if each node has the same ranks in the same order, even if their blocks
/// differ. All reads take `&self` and may run on any number of threads; the first call of
/// [`Self::node_of`] builds its index.
#[derive(Clone, Debug, Default)]
pub struct ProcMap {
    blocks: Vec<Block>,
    runs: Vec<Run>,
    num_nodes: u64,
    num_ranks: u64,
    /// The length in bytes of the text, including one separator for each node and each rank.
    bytes: u64,
    index: OnceLock<Index>,
}

/// An iterator over the ranks of one node, in order.
#[derive(Clone, Debug)]
pub struct Ranks<'a> {
    base: i64,
    runs: &'a [Run],
    at: u32,
}

impl Iterator for Ranks<'_> {
    type Item = Rank;

    fn next(&mut self) -> Option<Rank> {
        let (run, rest) = self.runs.split_first()?;
        let rank = run.at(self.base, self.at);
        self.at += 1;
        if self.at == run.count {
            (self.at, self.runs) = (0, rest);
        }
        Some(rank)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let all: u64 = self.runs.iter().map(|r| u64::from(r.count)).sum();
        let left = usize::try_from(all - u64::from(self.at)).ok();
        (left.unwrap_or(usize::MAX), left)
    }
}

impl Ranks<'_> {
    /// Returns how many of the remaining ranks precede `rank`, or `None` if it is not one of them.
    /// The time depends on the number of runs ([`ProcMap::runs_of`]), not on the number of ranks.
    #[must_use]
    pub fn place(&self, rank: Rank) -> Option<usize> {
        let rank = i64::from(rank.as_raw());
        let mut before = 0_u64;
        for (run, start) in self.runs.iter().zip([self.at].into_iter().chain(repeat(0))) {
            let far = rank - self.base - run.offset;
            let place = match run.step {
                0 => (far == 0).then_some(i64::from(start)),
                step => (far % step == 0).then(|| far / step),
            };
            let place = place.and_then(|place| u32::try_from(place).ok());
            if let Some(place) = place.filter(|place| (start..run.count).contains(place)) {
                return usize::try_from(before + u64::from(place - start)).ok();
            }
            before += u64::from(run.count - start);
        }
        None
    }
}

impl Run {
    /// Returns the rank at a place of the run. The builder has checked that it is valid.
    fn at(&self, base: i64, place: u32) -> Rank {
        let number = base + self.offset + i64::from(place) * self.step;
        Rank::new(u32::try_from(number).unwrap_or(u32::MAX))
    }
}

impl ProcMap {
    /// Returns the number of nodes.
    #[must_use]
    pub fn num_nodes(&self) -> usize {
        usize::try_from(self.num_nodes).unwrap_or(usize::MAX)
    }

    /// Returns the number of ranks over all nodes.
    #[must_use]
    pub fn num_ranks(&self) -> u64 {
        self.num_ranks
    }

    /// Returns the ranks of a node, by its index in the node map.
    #[must_use]
    pub fn ranks_of(&self, node: usize) -> Option<Ranks<'_>> {
        let place = u64::try_from(node).ok().filter(|n| *n < self.num_nodes)?;
        let behind = self.blocks.partition_point(|b| b.start <= place);
        let block = &self.blocks[behind.checked_sub(1)?];
        Some(self.ranks_at(block, place - block.start))
    }

    /// Returns the runs of ranks of a node.
    #[must_use]
    pub fn runs_of(&self, node: usize) -> Option<Vec<RankRun>> {
        self.ranks_of(node).map(|ranks| ranks.runs())
    }

    /// Returns the first node that has a rank.
    #[must_use]
    pub fn node_of(&self, rank: Rank) -> Option<usize> {
        if self.blocks.is_empty() {
            return None;
        }
        let node = match self.index() {
            Ok(index) => index.node_of(self, rank)?,
            Err(_) => search(self, rank)?,
        };
        usize::try_from(node).ok()
    }

    /// Builds the index for [`Self::node_of`], unless it exists. A caller that looks up many ranks
    /// should call this first: without memory for the index, each lookup searches all blocks.
    ///
    /// # Errors
    /// The process has no memory for the index.
    pub fn build_index(&self) -> Result<(), OutOfMemory> {
        self.index().map(drop)
    }

    /// Returns the index. The first call builds it.
    fn index(&self) -> Result<&Index, OutOfMemory> {
        build_once(&self.index, || Index::new(self))
    }

    /// Returns the ranks of each node, in node order.
    pub fn iter(&self) -> impl Iterator<Item = Ranks<'_>> {
        (0..self.blocks.len()).flat_map(move |index| {
            let block = &self.blocks[index];
            (0..self.nodes_in(index)).map(move |node| self.ranks_at(block, node))
        })
    }

    /// Returns the blocks into which the builder folded the map.
    pub fn blocks(&self) -> impl Iterator<Item = ProcBlock> {
        (0..self.blocks.len()).map(|index| {
            let block = &self.blocks[index];
            let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
            ProcBlock {
                first_node: size(block.start),
                num_nodes: size(self.nodes_in(index)),
                shift: block.shift,
                runs: self.ranks_at(block, 0).runs(),
            }
        })
    }

    /// Returns the bytes of heap memory of the map, including the lazily built index.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
            + self.runs.capacity() * size_of::<Run>()
            + self.index.get().map_or(0, Index::memory_bytes)
    }

    fn ranks_at(&self, block: &Block, node: u64) -> Ranks<'_> {
        Ranks {
            base: block.base + block.shift * node.cast_signed(),
            runs: self.pattern(block),
            at: 0,
        }
    }

    fn pattern(&self, block: &Block) -> &[Run] {
        let start = block.runs as usize;
        &self.runs[start..start + block.num_runs as usize]
    }

    /// Returns the number of nodes of a block.
    fn nodes_in(&self, index: usize) -> u64 {
        let end = self
            .blocks
            .get(index + 1)
            .map_or(self.num_nodes, |b| b.start);
        end - self.blocks[index].start
    }

    /// Returns a run on all nodes of a block, as a lattice.
    fn lattice(&self, index: usize, run: usize) -> (i64, [Dim; 2]) {
        let block = &self.blocks[index];
        let run = &self.runs[block.runs as usize + run];
        let dims = [
            Dim {
                count: u64::from(run.count),
                step: run.step,
            },
            Dim {
                count: self.nodes_in(index),
                step: block.shift,
            },
        ];
        (block.base + run.offset, dims)
    }
}

impl Ranks<'_> {
    fn runs(&self) -> Vec<RankRun> {
        let run = |r: &Run| RankRun {
            first: r.at(self.base, 0),
            count: r.count,
            step: r.step,
        };
        self.runs.iter().map(run).collect()
    }
}

impl PartialEq for ProcMap {
    /// Compares the ranks of each node. The blocks of the maps do not matter.
    fn eq(&self, other: &Self) -> bool {
        let sizes = |m: &Self| (m.num_nodes, m.num_ranks, m.bytes);
        if sizes(self) != sizes(other) {
            return false;
        }
        let (mut a, mut b, mut node) = (0, 0, 0);
        while node < self.num_nodes {
            let (x, y) = (&self.blocks[a], &other.blocks[b]);
            let ends = (x.start + self.nodes_in(a), y.start + other.nodes_in(b));
            let end = ends.0.min(ends.1);
            let left = self.ranks_at(x, node - x.start);
            let right = other.ranks_at(y, node - y.start);
            let in_step = end - node == 1 || x.num_runs == 0 || x.shift == y.shift;
            if !in_step || !left.same(&right) {
                return false;
            }
            a += usize::from(ends.0 == end);
            b += usize::from(ends.1 == end);
            node = end;
        }
        true
    }
}

impl Eq for ProcMap {}

impl Ranks<'_> {
    /// Returns `true` if two nodes have the same ranks in the same order.
    fn same(&self, other: &Self) -> bool {
        if self.runs == other.runs {
            return self.runs.is_empty() || self.base == other.base;
        }
        let (mut left, mut right) = (self.runs.iter(), other.runs.iter());
        let (mut a, mut b) = (left.next().copied(), right.next().copied());
        while let (Some(x), Some(y)) = (a, b) {
            let count = x.count.min(y.count);
            let starts = self.base + x.offset == other.base + y.offset;
            if !starts || (count > 1 && x.step != y.step) {
                return false;
            }
            a = x.rest_after(count).or_else(|| left.next().copied());
            b = y.rest_after(count).or_else(|| right.next().copied());
        }
        a.is_none() && b.is_none()
    }
}

impl Run {
    /// Returns the rest of the run after its first `count` ranks.
    fn rest_after(self, count: u32) -> Option<Self> {
        (count < self.count).then(|| Self {
            offset: self.offset + self.step * i64::from(count),
            count: self.count - count,
            ..self
        })
    }
}

/// The index of a map: each run of each block is one lattice.
#[derive(Clone, Debug)]
struct Index {
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
    fn new(map: &ProcMap) -> Result<Self, OutOfMemory> {
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
    fn node_of(&self, map: &ProcMap, rank: Rank) -> Option<u64> {
        let number = i64::from(rank.as_raw());
        let (_, node) = self.lattices.find(0, number, |id| {
            let (index, run) = locate(&self.starts, id);
            let (first, dims) = map.lattice(index, run);
            let place = lattice::place(first, &dims, number)?;
            Some(map.blocks[index].start + place / dims[0].count)
        })?;
        Some(node)
    }

    fn memory_bytes(&self) -> usize {
        self.starts.capacity() * size_of::<u32>() + self.lattices.memory_bytes()
    }
}

/// Returns the first node that has a rank. Searches all runs, without an index.
fn search(map: &ProcMap, rank: Rank) -> Option<u64> {
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

#[cfg(test)]
mod tests;
