// SPDX-License-Identifier: MIT OR Apache-2.0
//! The writer of a process map as blocks of nodes.

use std::io::Write;

use pmix_map::ProcMap;
use pmix_types::Rank;

use super::{AnlMap, Block, Part};

impl AnlMap {
    /// Returns the map as blocks, or `None` if the ranks do not count from zero without gaps.
    pub(crate) fn of(procs: &ProcMap) -> Option<Self> {
        Self::in_order(procs).or_else(|| Self::by_rank(procs))
    }

    /// Returns the blocks of a map whose ranks count from node to node.
    fn in_order(procs: &ProcMap) -> Option<Self> {
        let mut blocks = Vec::new();
        let mut next = 0_u64;
        for block in procs.blocks() {
            let [run] = block.runs.as_slice() else {
                match block.runs.is_empty() {
                    true => continue,
                    false => return None,
                }
            };
            let nodes = u64::try_from(block.num_nodes).ok()?;
            let follows = u64::from(run.first.as_raw()) == next
                && (run.step == 1 || run.count == 1)
                && (block.shift == i64::from(run.count) || nodes == 1);
            if !follows {
                return None;
            }
            let first = u64::try_from(block.first_node).ok()?;
            let procs = run.count.into();
            push(
                &mut blocks,
                Block {
                    first,
                    nodes,
                    procs,
                },
            );
            next += nodes * u64::from(run.count);
        }
        Some(Self(vec![Part { blocks, times: 1 }]))
    }

    /// Returns the blocks of any other map, rank by rank.
    fn by_rank(procs: &ProcMap) -> Option<Self> {
        let mut blocks = Vec::new();
        let mut last: Option<Block> = None;
        for rank in 0..procs.num_ranks() {
            let rank = Rank::new(u32::try_from(rank).ok()?);
            let node = u64::try_from(procs.node_of(rank)?).ok()?;
            match &mut last {
                Some(block) if block.first == node => block.procs += 1,
                other => {
                    let started = other.replace(Block {
                        first: node,
                        nodes: 1,
                        procs: 1,
                    });
                    started
                        .into_iter()
                        .for_each(|block| push(&mut blocks, block));
                }
            }
        }
        last.into_iter().for_each(|block| push(&mut blocks, block));
        Some(Self(vec![Part { blocks, times: 1 }]))
    }

    /// Returns the map as text.
    pub(crate) fn to_text(&self) -> Vec<u8> {
        let mut text = b"(vector".to_vec();
        let parts = self.0.iter();
        for block in parts.flat_map(|part| (0..part.times).flat_map(|_| &part.blocks)) {
            let Block {
                first,
                nodes,
                procs,
            } = block;
            // Writing into a vector cannot fail.
            let _ = write!(text, ",({first},{nodes},{procs})");
        }
        text.push(b')');
        text
    }
}

/// Appends a block, or extends the last one if the block continues it.
fn push(blocks: &mut Vec<Block>, block: Block) {
    match blocks.last_mut() {
        Some(last) if last.procs == block.procs && last.first + last.nodes == block.first => {
            last.nodes += block.nodes;
        }
        _ => blocks.push(block),
    }
}
