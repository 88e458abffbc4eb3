// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ordered lists of host names.
//!
//! A name is a *shape* and a number (see `shape.rs`). A list is *blocks* of names of one shape,
//! each a lattice of numbers or, if the numbers are irregular, the numbers themselves. So the
//! memory of a list depends on its number of blocks, not on its number of names.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_generate_regex`, for the
//! text; the folded form is this project's own (`docs/decisions/0002-maps-in-their-own-crate.md`).

mod build;
mod expand;
mod fold;
mod index;
mod matcher;
mod parse;
mod repeat;
mod runs;
mod shape;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use pmix_types::memory::OutOfMemory;

pub use build::NodeListBuilder;
pub use runs::{NodeRun, Progression};

use crate::lattice::{self, Dim};
use crate::lattice_index::build_once;
use crate::{Error, Limits};
use index::Index;
use shape::Shapes;

/// The separator between names in list text.
const SEPARATOR: u8 = b',';

/// Consecutive names of one shape.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The place of the first name in the list.
    start: u64,
    /// The number of the first name.
    first: i64,
    /// The index of the first dimension or number.
    data: u32,
    shape: u32,
    kind: Kind,
}

/// The form in which the numbers of a block are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A lattice with this number of dimensions.
    Lattice(u8),
    /// Single numbers. `Block::first` is a copy of the first one.
    Scatter,
}

/// The names of nodes in order, folded into runs: a node map.
///
/// Names are bytes; order, duplicates and empty names are kept. Two lists are equal if they have
/// the same names in the same order, even if their blocks differ. All reads take `&self` and may
/// run on any number of threads; the first call of [`Self::position`] builds its index.
#[derive(Clone, Default)]
pub struct NodeList {
    shapes: Shapes,
    blocks: Vec<Block>,
    dims: Vec<Dim>,
    numbers: Vec<i64>,
    len: u64,
    /// The bytes of all names, including one separator for each.
    bytes: u64,
    index: OnceLock<Index>,
}

impl NodeList {
    /// Parses names separated by commas. Each text between commas is a name, even if empty. Empty
    /// text is the empty list.
    ///
    /// # Errors
    /// A limit was exceeded.
    pub fn parse_text(text: &[u8], limits: &Limits) -> Result<Self, Error> {
        let mut builder = NodeListBuilder::new(limits);
        if !text.is_empty() {
            builder.text(text)?;
        }
        Ok(builder.finish())
    }

    /// Returns the number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.len).unwrap_or(usize::MAX)
    }

    /// Returns `true` if there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bytes that [`Self::write_text`] appends.
    #[must_use]
    pub fn text_len(&self) -> usize {
        usize::try_from(self.bytes.saturating_sub(1)).unwrap_or(usize::MAX)
    }

    /// Returns the name at an index counted from zero.
    #[must_use]
    pub fn nth(&self, index: usize) -> Option<Vec<u8>> {
        let mut name = Vec::new();
        self.write_nth(index, &mut name).then_some(name)
    }

    /// Returns the index of the first occurrence of a name.
    #[must_use]
    pub fn position(&self, name: &[u8]) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let place = match self.index() {
            Ok(index) => index.position(self, name)?,
            Err(_) => index::search(self, name)?,
        };
        usize::try_from(place).ok()
    }

    /// Builds the index for [`Self::position`], unless it exists. A caller that looks up many names
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

    /// Returns the bytes of heap memory of the list, including the lazily built index.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.shapes.memory_bytes()
            + self.blocks.capacity() * size_of::<Block>()
            + self.dims.capacity() * size_of::<Dim>()
            + self.numbers.capacity() * size_of::<i64>()
            + self.index.get().map_or(0, Index::memory_bytes)
    }

    /// Returns the dimensions of a block that is a lattice.
    fn dims_of(&self, block: &Block) -> &[Dim] {
        match block.kind {
            Kind::Lattice(len) => {
                let start = block.data as usize;
                &self.dims[start..start + usize::from(len)]
            }
            Kind::Scatter => &[],
        }
    }

    /// Returns the block that contains a place of the list. The place must be below `len`.
    fn block_of(&self, place: u64) -> &Block {
        let behind = self.blocks.partition_point(|b| b.start <= place);
        &self.blocks[behind.saturating_sub(1)]
    }

    /// Returns the range of the numbers of a block that stores single numbers.
    fn scatter_of(&self, index: usize) -> Range<usize> {
        let block = &self.blocks[index];
        let end = self.blocks.get(index + 1).map_or(self.len, |b| b.start);
        let count = usize::try_from(end - block.start).unwrap_or(usize::MAX);
        block.data as usize..block.data as usize + count
    }

    /// Returns the number of the name at a place of a block.
    fn number_at(&self, block: &Block, place: u64) -> i64 {
        let within = place - block.start;
        match block.kind {
            Kind::Lattice(_) => lattice::number(block.first, self.dims_of(block), within),
            Kind::Scatter => {
                let at = block.data as usize + usize::try_from(within).unwrap_or(usize::MAX);
                self.numbers.get(at).copied().unwrap_or(block.first)
            }
        }
    }
}

impl fmt::Debug for NodeList {
    /// Formats the runs, not the names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        self.for_each_run(|run| {
            list.entry(&run);
        });
        list.finish()
    }
}
