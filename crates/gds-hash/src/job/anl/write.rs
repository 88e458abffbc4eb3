// SPDX-License-Identifier: MIT OR Apache-2.0
//! The writer of a process map as blocks of nodes.

use std::io::Write;

use pmix_map::ProcMap;
use pmix_types::Rank;
use pmix_types::memory::{self, OutOfMemory};

use super::{AnlMap, Block, Part};

impl AnlMap {
    /// Returns the map as blocks, or `None` if the ranks do not count from zero without gaps.
    ///
    /// # Errors
    ///
    /// The process has no memory for the blocks.
    pub(crate) fn of(procs: &ProcMap) -> Result<Option<Self>, OutOfMemory> {
        match Self::in_order(procs)? {
            Some(blocks) => Ok(Some(blocks)),
            None => Self::by_rank(procs),
        }
    }

    /// Returns the blocks of a map whose ranks count from node to node.
    fn in_order(procs: &ProcMap) -> Result<Option<Self>, OutOfMemory> {
        let mut blocks = Vec::new();
        let mut next = 0_u64;
        for block in procs.blocks() {
            let [run] = block.runs.as_slice() else {
                match block.runs.is_empty() {
                    true => continue,
                    false => return Ok(None),
                }
            };
            let Ok(nodes) = u64::try_from(block.num_nodes) else {
                return Ok(None);
            };
            let follows = u64::from(run.first.as_raw()) == next
                && (run.step == 1 || run.count == 1)
                && (block.shift == i64::from(run.count) || nodes == 1);
            if !follows {
                return Ok(None);
            }
            let Ok(first) = u64::try_from(block.first_node) else {
                return Ok(None);
            };
            let procs = run.count.into();
            push(
                &mut blocks,
                Block {
                    first,
                    nodes,
                    procs,
                },
            )?;
            next += nodes * u64::from(run.count);
        }
        Ok(Some(Self(vec![Part { blocks, times: 1 }])))
    }

    /// Returns the blocks of any other map, rank by rank.
    fn by_rank(procs: &ProcMap) -> Result<Option<Self>, OutOfMemory> {
        let mut blocks = Vec::new();
        let mut last: Option<Block> = None;
        for rank in 0..procs.num_ranks() {
            let node = u32::try_from(rank).ok().map(Rank::new);
            let node = node.and_then(|rank| procs.node_of(rank));
            let Some(node) = node.and_then(|node| u64::try_from(node).ok()) else {
                return Ok(None);
            };
            match &mut last {
                Some(block) if block.first == node => block.procs += 1,
                other => {
                    let started = other.replace(Block {
                        first: node,
                        nodes: 1,
                        procs: 1,
                    });
                    if let Some(block) = started {
                        push(&mut blocks, block)?;
                    }
                }
            }
        }
        if let Some(block) = last {
            push(&mut blocks, block)?;
        }
        Ok(Some(Self(vec![Part { blocks, times: 1 }])))
    }

    /// Returns the map as text.
    ///
    /// # Errors
    ///
    /// The process has no memory for the text.
    pub(crate) fn to_text(&self) -> Result<Vec<u8>, OutOfMemory> {
        let mut text = b"(vector".to_vec();
        let parts = self.0.iter();
        for block in parts.flat_map(|part| (0..part.times).flat_map(|_| &part.blocks)) {
            let Block {
                first,
                nodes,
                procs,
            } = block;
            memory::reserve(&mut text, MAX_BLOCK)?;
            // Writing into a vector cannot fail.
            let _ = write!(text, ",({first},{nodes},{procs})");
        }
        text.push(b')');
        Ok(text)
    }
}

/// The most bytes of a block as text: three numbers of 64 bits, commas and brackets, and the one that ends all.
const MAX_BLOCK: usize = 66;

/// Appends a block, or extends the last one if the block continues it.
fn push(blocks: &mut Vec<Block>, block: Block) -> Result<(), OutOfMemory> {
    match blocks.last_mut() {
        Some(last) if last.procs == block.procs && last.first + last.nodes == block.first => {
            last.nodes += block.nodes;
        }
        _ => {
            memory::reserve(blocks, 1)?;
            blocks.push(block);
        }
    }
    Ok(())
}
