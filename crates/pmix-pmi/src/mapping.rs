// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distribution of processes over nodes in the form of PMI, `(vector,(0,2,4))`.
//!
//! Source: the value of `PMI_process_mapping` that Hydra sends and MPICH reads.

use std::fmt::Write as _;

use pmix_map::ProcMap;
use pmix_types::Rank;

/// The key of the distribution, by which MPICH finds the processes that share memory.
pub const MAPPING: &str = "PMI_process_mapping";

/// The longest value that clients have room for, without its NUL.
const MAX_LEN: usize = 1023;

/// The largest number of processes whose distribution is determined one by one.
const MAX_UNFOLDED: u64 = 1 << 16;

/// Nodes that follow each other and have the same number of consecutive ranks.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Block {
    node: usize,
    num_nodes: usize,
    len: u64,
}

/// Returns the distribution of the processes of a job. Returns `None` if it has no processes, if the text would be
/// longer than clients accept, or if the job is large and its distribution irregular. Clients then compare the names of
/// their hosts.
///
/// A block `(N,K,P)` has P ranks on each of the nodes N to N+K-1. If ranks are left after the last block, the blocks
/// repeat.
#[must_use]
pub fn process_mapping(map: &ProcMap) -> Option<String> {
    let mut blocks = match folded(map) {
        Some(blocks) => blocks,
        None if map.num_ranks() <= MAX_UNFOLDED => unfolded(map),
        None => return None,
    };
    let first = *blocks.first()?;
    if blocks.iter().all(|block| *block == first) {
        blocks.truncate(1);
    }
    let mut text = String::from("(vector");
    for Block {
        node,
        num_nodes,
        len,
    } in blocks
    {
        write!(text, ",({node},{num_nodes},{len})").ok()?;
        if text.len() >= MAX_LEN {
            return None;
        }
    }
    text.push(')');
    Some(text)
}

/// Returns the blocks of a map whose nodes have consecutive ranks in their order, or one rank after the other in turn.
fn folded(map: &ProcMap) -> Option<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut next = 0;
    for nodes in map.blocks() {
        let [run] = nodes.runs[..] else {
            return None;
        };
        let (first, len) = (u64::from(run.first.as_raw()), u64::from(run.count));
        let is_in_turn = nodes.num_nodes == map.num_nodes() && nodes.shift == 1;
        if is_in_turn && first == 0 && usize::try_from(run.step) == Ok(nodes.num_nodes) {
            let block = Block {
                node: 0,
                num_nodes: nodes.num_nodes,
                len: 1,
            };
            return Some(vec![block]);
        }
        let is_consecutive = run.step == 1 || len == 1;
        let continues = nodes.num_nodes == 1 || u64::try_from(nodes.shift) == Ok(len);
        if first != next || !is_consecutive || !continues {
            return None;
        }
        next += len * u64::try_from(nodes.num_nodes).ok()?;
        push(
            &mut blocks,
            Block {
                node: nodes.first_node,
                num_nodes: nodes.num_nodes,
                len,
            },
        );
    }
    Some(blocks)
}

/// Returns the blocks of any map.
fn unfolded(map: &ProcMap) -> Vec<Block> {
    let of_node = |(node, ranks)| Iterator::map(ranks, move |rank: Rank| (rank.as_raw(), node));
    let mut nodes: Vec<(u32, usize)> = map.iter().enumerate().flat_map(of_node).collect();
    nodes.sort_unstable();
    let mut blocks = Vec::new();
    for ranks in nodes.chunk_by(|(_, one), (_, other)| one == other) {
        if let [(_, node), ..] = ranks {
            let len = ranks.len() as u64;
            let block = Block {
                node: *node,
                num_nodes: 1,
                len,
            };
            push(&mut blocks, block);
        }
    }
    blocks
}

/// Appends a block, or adds its nodes to the block before.
fn push(blocks: &mut Vec<Block>, block: Block) {
    match blocks.last_mut() {
        Some(last) if last.len == block.len && last.node + last.num_nodes == block.node => {
            last.num_nodes += block.num_nodes;
        }
        _ => blocks.push(block),
    }
}

#[cfg(test)]
mod tests {
    use pmix_map::Limits;

    use super::*;

    fn mapping(text: &str) -> Option<String> {
        process_mapping(&ProcMap::parse_text(text.as_bytes(), &Limits::default()).unwrap())
    }

    #[test]
    fn distributions_have_the_fewest_blocks() {
        for (map, expected) in [
            ("0,1", "(vector,(0,1,2))"),
            ("0,1;2,3;4,5", "(vector,(0,3,2))"),
            ("0,2,4;1,3,5", "(vector,(0,2,1))"),
            ("0-3;4;5", "(vector,(0,1,4),(1,2,1))"),
            ("2,3;0,1", "(vector,(1,1,2),(0,1,2))"),
            ("0;1;2,3", "(vector,(0,2,1),(2,1,2))"),
            ("0,5;1,2;3,4", "(vector,(0,1,1),(1,2,2),(0,1,1))"),
        ] {
            assert_eq!(mapping(map).as_deref(), Some(expected), "{map}");
        }
    }

    #[test]
    fn large_distributions_are_not_unfolded() {
        let limits = Limits::default();
        let mut builder = pmix_map::ProcMapBuilder::new(&limits);
        for node in 0..10_000 {
            let first = node * 100;
            let (first, last) = (Rank::new(first), Rank::new(first + 99));
            builder.range(first, last).unwrap();
            builder.end_node().unwrap();
        }
        let map = builder.finish();
        assert_eq!(
            process_mapping(&map).as_deref(),
            Some("(vector,(0,10000,100))")
        );
        assert!(folded(&map).is_some());
    }

    #[test]
    fn a_text_that_clients_have_no_room_for_is_left_out() {
        // Each node has one rank more than the one before, so no two share a block.
        let mut next = 0;
        let nodes: Vec<String> = (1..400)
            .map(|len| {
                let first = next;
                next += len;
                format!("{first}-{}", next - 1)
            })
            .collect();
        assert_eq!(mapping(&nodes.join(";")), None);
    }
}
