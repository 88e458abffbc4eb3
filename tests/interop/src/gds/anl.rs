// SPDX-License-Identifier: MIT OR Apache-2.0
//! A minimal encoder of process maps in the notation of PMI-1 and PMI-2, with a block for each run of ranks on one
//! node: `(vector,(0,1,2),(1,1,2))`.

use super::node::Node;

/// Returns the map of ranks that count from zero without a gap.
pub(super) fn blocks(nodes: &[Node]) -> String {
    let mut text = "(vector".to_owned();
    for (place, _, count) in stretches(nodes) {
        text += &format!(",({place},1,{count})");
    }
    text + ")"
}

/// Returns `true` if the notation can express the placement: the ranks of each node ascend.
pub(super) fn can_say(nodes: &[Node]) -> bool {
    let mut next = 0;
    let rising = |ranks: &[u32]| ranks.is_sorted();
    stretches(nodes).into_iter().all(|(_, first, count)| {
        let follows = first == next;
        next += count;
        follows
    }) && nodes.iter().all(|node| rising(&node.ranks))
}

/// Returns the node, first rank and number of ranks of each run, ordered by rank.
fn stretches(nodes: &[Node]) -> Vec<(usize, u32, u32)> {
    let mut places: Vec<_> = (nodes.iter().enumerate())
        .flat_map(|(place, node)| node.ranks.iter().map(move |rank| (*rank, place)))
        .collect();
    places.sort_unstable();
    let mut all: Vec<(usize, u32, u32)> = Vec::new();
    for (rank, place) in places {
        match all.last_mut() {
            Some((p, first, count)) if *p == place && *first + *count == rank => *count += 1,
            _ => all.push((place, rank, 1)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{blocks, can_say};
    use crate::gds::node::{Named, Node};

    fn node(ranks: &[u32]) -> Node {
        Node {
            name: "n".to_owned(),
            id: 0,
            ranks: ranks.to_vec(),
            aliases: Vec::new(),
            values: Vec::new(),
            named: Named::Both,
        }
    }

    #[test]
    fn a_block_is_a_stretch_of_ranks_on_one_node() {
        let nodes = [node(&[0, 1, 4]), node(&[2, 3])];
        assert_eq!(blocks(&nodes), "(vector,(0,1,2),(1,1,2),(0,1,1))");
        assert!(can_say(&nodes));
        assert!(!can_say(&[node(&[0, 2])]), "a gap");
        assert!(!can_say(&[node(&[1, 0])]), "another order");
    }
}
