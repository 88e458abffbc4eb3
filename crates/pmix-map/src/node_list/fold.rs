// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folding of rows into blocks.
//!
//! Rows that repeat with a constant shift become lattices. Two equal lattices become one with one
//! more dimension. A lattice absorbs another that continues its outermost dimension. Numbers that
//! do not fold take eight bytes each, so a shuffled list takes about as much memory as its text.

use pmix_types::memory;

use super::build::{NodeListBuilder, Row};
use super::{Block, Kind};
use crate::Error;
use crate::lattice::{self, Dim, MAX_DIMS};

/// The maximum number of numbers, and of blocks, that [`NodeListBuilder::finish`] adds. Memory for
/// them is kept reserved, so that `finish` allocates none.
const AT_END: usize = 4;

impl NodeListBuilder {
    /// Returns the number of names in the blocks.
    pub(super) fn stored(&self) -> u64 {
        self.list
            .blocks
            .last()
            .map_or(0, |b| b.start + self.count_of(b))
    }

    fn count_of(&self, last: &Block) -> u64 {
        match last.kind {
            Kind::Lattice(_) => lattice::len(self.list.dims_of(last)),
            Kind::Scatter => (self.list.numbers.len() as u64).saturating_sub(u64::from(last.data)),
        }
    }

    /// Stores a single number of the current shape.
    pub(super) fn single(&mut self, number: i64) -> Result<(), Error> {
        let shape = self.shape_id();
        self.demote()?;
        match self.list.blocks.last() {
            Some(b) if b.shape == shape && b.kind == Kind::Scatter => self.push_number(number),
            Some(b) if b.shape == shape && matches!(b.kind, Kind::Lattice(0)) => {
                let first = b.first;
                self.list.blocks.pop();
                self.scatter(shape, first)?;
                self.scatter(shape, number)
            }
            _ => self.block(shape, number, &[]),
        }
    }

    /// Stores a number in a block of single numbers.
    fn scatter(&mut self, shape: u32, number: i64) -> Result<(), Error> {
        let joins = matches!(self.list.blocks.last(),
            Some(b) if b.shape == shape && b.kind == Kind::Scatter);
        if !joins {
            let block = Block {
                start: self.stored(),
                first: number,
                data: offset(self.list.numbers.len())?,
                shape,
                kind: Kind::Scatter,
            };
            self.push_block(block)?;
        }
        self.push_number(number)
    }

    /// Appends to the table of numbers, which doubles when it is full, if there is memory for it.
    #[inline]
    fn push_number(&mut self, number: i64) -> Result<(), Error> {
        let free = self.list.numbers.capacity() - self.list.numbers.len();
        if free <= AT_END && !self.is_ending {
            let more = self.list.numbers.capacity() * size_of::<i64>();
            self.limits.check_memory(self.list.memory_bytes() + more)?;
            memory::reserve(&mut self.list.numbers, 1 + AT_END)?;
        }
        self.list.numbers.push(number);
        Ok(())
    }

    /// Appends to the table of blocks, which doubles when it is full, if there is memory for it.
    fn push_block(&mut self, block: Block) -> Result<(), Error> {
        let free = self.list.blocks.capacity() - self.list.blocks.len();
        if free <= AT_END && !self.is_ending {
            let more = self.list.blocks.capacity() * size_of::<Block>();
            self.limits.check_memory(self.list.memory_bytes() + more)?;
            memory::reserve(&mut self.list.blocks, 1 + AT_END)?;
        }
        self.list.blocks.push(block);
        Ok(())
    }

    /// Converts short lattices at the end into single numbers, once no more names can fold into
    /// them.
    pub(super) fn demote(&mut self) -> Result<(), Error> {
        let Some(shape) = self.list.blocks.last().map(|b| b.shape) else {
            return Ok(());
        };
        let (mut from, mut names, mut kept) = (self.list.blocks.len(), 0, false);
        for (at, block) in self.list.blocks.iter().enumerate().rev() {
            kept = block.shape == shape && block.kind == Kind::Scatter;
            let dims = self.list.dims_of(block);
            if kept || block.shape != shape || !is_short(dims) {
                break;
            }
            (from, names) = (at, names + lattice::len(dims));
        }
        if names == 0 || (names < 2 && !kept) {
            return Ok(());
        }
        let more = usize::try_from(names).unwrap_or(usize::MAX);
        let asked = memory::check(size_of::<Block>() * (self.list.blocks.len() - from))
            .and_then(|()| memory::reserve(&mut self.list.numbers, more.saturating_add(AT_END)));
        match asked {
            Ok(()) => {}
            // The lattices remain: they only take more memory.
            Err(_) if self.is_ending => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let short = self.list.blocks.split_off(from);
        let dims_end = short.first().map_or(0, |b| b.data as usize);
        for block in short {
            let mut dims = [Dim { count: 1, step: 0 }; MAX_DIMS];
            let own = self.list.dims_of(&block);
            let len = lattice::len(own);
            dims[..own.len()].copy_from_slice(own);
            for place in 0..len {
                self.scatter(shape, lattice::number(block.first, &dims, place))?;
            }
        }
        self.list.dims.truncate(dims_end);
        Ok(())
    }

    /// Stores a lattice unfolded.
    fn block(&mut self, shape: u32, first: i64, dims: &[Dim]) -> Result<(), Error> {
        if !self.is_ending {
            // Reserves all dimensions that the block may get, because `finish` must not fail.
            memory::reserve(&mut self.list.dims, dims.len() + MAX_DIMS)?;
        }
        let block = Block {
            start: self.stored(),
            first,
            data: offset(self.list.dims.len())?,
            shape,
            kind: Kind::Lattice(u8::try_from(dims.len()).unwrap_or(0)),
        };
        self.list.dims.extend_from_slice(dims);
        self.push_block(block)
    }

    /// Stores a row and folds it into the preceding blocks as far as possible.
    pub(super) fn lattice(&mut self, row: &Row) -> Result<(), Error> {
        let dims = [Dim {
            count: row.count,
            step: row.step,
        }];
        let shape = self.shape_id();
        let last = self.list.blocks.last().copied();
        if let Some(last) = last.filter(|b| b.shape == shape)
            && self.absorb(&last, row.first, &dims)
        {
            while self.fold_last_two() {}
            self.folded = true;
            return Ok(());
        }
        // A lattice with more dimensions may absorb the new one after that has grown.
        let dead = |b: Block| b.shape != shape || self.list.dims_of(&b).len() <= 1;
        if last.is_some_and(dead) {
            self.demote()?;
        }
        self.block(shape, row.first, &dims)
    }

    /// Folds the last block into the one before it, and returns `true` on success.
    pub(super) fn fold_last_two(&mut self) -> bool {
        let [.., a, b] = self.list.blocks.as_slice() else {
            return false;
        };
        if a.shape != b.shape || b.kind == Kind::Scatter {
            return false;
        }
        let (a, b) = (*a, *b);
        let mut dims = [Dim { count: 1, step: 0 }; MAX_DIMS];
        let own = self.list.dims_of(&b);
        let len = own.len();
        dims[..len].copy_from_slice(own);
        // The dimensions of `a` can grow only at the end of the table.
        self.list.dims.truncate(b.data as usize);
        self.list.blocks.pop();
        if self.absorb(&a, b.first, &dims[..len]) {
            return true;
        }
        self.list.dims.extend_from_slice(&dims[..len]);
        self.list.blocks.push(b);
        false
    }

    /// Absorbs a lattice into the last block. Returns `false` if they do not fold.
    ///
    /// The lattice either continues the outermost dimension of the block, or equals the block. In
    /// the second case, both become the two steps of a new dimension.
    fn absorb(&mut self, last: &Block, first: i64, lattice: &[Dim]) -> bool {
        let start = last.data as usize;
        if last.kind == Kind::Scatter {
            return false;
        }
        let shift = first - last.first;
        let dims = &mut self.list.dims;
        if dims[start..] == *lattice && lattice.len() < MAX_DIMS {
            dims.push(Dim {
                count: 2,
                step: shift,
            });
            let nests = lattice::nests(&dims[start..]);
            if nests {
                self.set_dims(last.data);
            } else {
                dims.pop();
            }
            return nests;
        }
        let Some((outer, inner)) = dims[start..].split_last_mut() else {
            return false;
        };
        if inner != lattice || outer.step.wrapping_mul(outer.count.cast_signed()) != shift {
            return false;
        }
        outer.count += 1;
        let nests = lattice::nests(&dims[start..]);
        if !nests && let Some(outer) = dims.last_mut() {
            outer.count -= 1;
        }
        nests
    }

    /// Sets the dimensions of the last block to those from `start` on.
    fn set_dims(&mut self, start: u32) {
        let len = self.list.dims.len() - start as usize;
        if let Some(last) = self.list.blocks.last_mut() {
            last.kind = Kind::Lattice(u8::try_from(len).unwrap_or(u8::MAX));
        }
    }
}

/// Returns `true` if single numbers take less memory than the lattice.
fn is_short(dims: &[Dim]) -> bool {
    let cost = size_of::<Block>() + size_of_val(dims);
    lattice::len(dims) < (cost / size_of::<i64>()) as u64
}

fn offset(len: usize) -> Result<u32, Error> {
    u32::try_from(len).map_err(|_| Error::limit("irregular names", u64::from(u32::MAX)))
}
