// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arithmetic of a tree of nodes, in which each node has the same number of children.
//!
//! Node 0 is the root. The children of node `i` with fanout `k` are `k * i + 1` to `k * i + k`, so that each level is
//! full before the next begins. The functions take any numbers and do not allocate; an effort is at most the depth.
//!
//! ```
//! use std::num::NonZero;
//! use pmix_host::tree::Tree;
//!
//! let tree = Tree::new(7, NonZero::new(2).expect("a fanout"));
//! assert_eq!(tree.parent(5), Some(2));
//! assert_eq!(tree.children(2), 5..7);
//! assert_eq!(tree.branch(0, 5), Some(2));
//! assert_eq!((tree.depth(5), tree.height()), (Some(2), 2));
//! ```
//!
//! Source: this project; the numbering is that of a heap.

use std::num::NonZero;
use std::ops::Range;

/// A tree of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    num_nodes: usize,
    fanout: NonZero<usize>,
}

impl Tree {
    /// Creates a tree of a number of nodes, each with at most `fanout` children.
    #[must_use]
    pub const fn new(num_nodes: usize, fanout: NonZero<usize>) -> Self {
        Self { num_nodes, fanout }
    }

    /// Returns the number of nodes.
    #[must_use]
    pub const fn num_nodes(&self) -> usize {
        self.num_nodes
    }

    /// Returns the parent of a node, or `None` for the root and for a number that is no node.
    #[must_use]
    pub fn parent(&self, node: usize) -> Option<usize> {
        let before = node.checked_sub(1)?;
        (node < self.num_nodes).then(|| before / self.fanout)
    }

    /// Returns the children of a node; none for a number that is no node.
    #[must_use]
    pub fn children(&self, node: usize) -> Range<usize> {
        if node >= self.num_nodes {
            return 0..0;
        }
        let fanout = self.fanout.get();
        // A child beyond the range of numbers is beyond the number of nodes, too.
        let first = node.saturating_mul(fanout).saturating_add(1);
        let first = first.min(self.num_nodes);
        first..first.saturating_add(fanout).min(self.num_nodes)
    }

    /// Returns the number of links between the root and a node, or `None` for a number that is no node.
    #[must_use]
    pub fn depth(&self, node: usize) -> Option<usize> {
        let exists = node < self.num_nodes;
        exists.then(|| self.ancestors(node).count())
    }

    /// Returns the largest depth of any node.
    #[must_use]
    pub fn height(&self) -> usize {
        let last = self.num_nodes.checked_sub(1);
        last.and_then(|last| self.depth(last)).unwrap_or(0)
    }

    /// Returns the parent of a node, its parent, and so on up to the root.
    pub fn ancestors(&self, node: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.parent(node), |node| self.parent(*node))
    }

    /// Returns the branch of a node that another node is on: the child that leads to it, or the node itself. Returns
    /// `None` if the other node is not below it.
    #[must_use]
    pub fn branch(&self, node: usize, of: usize) -> Option<usize> {
        if of >= self.num_nodes {
            return None;
        }
        let mut below = of;
        // The numbers of ancestors descend, so the search ends at the root.
        while below > node {
            let parent = self.parent(below)?;
            if parent == node {
                return Some(below);
            }
            below = parent;
        }
        (below == node && of == node).then_some(node)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tree(num_nodes: usize, fanout: usize) -> Tree {
        Tree::new(num_nodes, NonZero::new(fanout).expect("a fanout"))
    }

    proptest! {
        #[test]
        fn every_node_but_the_root_is_the_child_of_its_parent(
            num_nodes in 1_usize..600,
            fanout in 1_usize..40,
        ) {
            let tree = tree(num_nodes, fanout);
            let mut num_children = 0;
            for node in 0..num_nodes {
                for child in tree.children(node) {
                    prop_assert_eq!(tree.parent(child), Some(node));
                    prop_assert_eq!(tree.depth(child), tree.depth(node).map(|depth| depth + 1));
                    num_children += 1;
                }
                prop_assert!(tree.children(node).len() <= fanout);
            }
            prop_assert_eq!(num_children, num_nodes - 1);
            prop_assert_eq!(tree.parent(0), None);
            prop_assert_eq!(tree.parent(num_nodes), None);
        }

        #[test]
        fn the_branches_of_a_node_partition_what_is_below_it(
            num_nodes in 1_usize..200,
            fanout in 1_usize..10,
            at in 0_usize..200,
        ) {
            let tree = tree(num_nodes, fanout);
            let at = at % num_nodes;
            for of in 0..num_nodes + 2 {
                let path: Vec<_> = std::iter::once(of).chain(tree.ancestors(of)).collect();
                let is_below = of < num_nodes && path.contains(&at);
                let expected = is_below.then(|| match path.iter().position(|node| *node == at) {
                    Some(0) | None => at,
                    Some(place) => path[place - 1],
                });
                prop_assert_eq!(tree.branch(at, of), expected, "{} of {}", of, at);
            }
        }

        #[test]
        fn any_numbers_have_a_bounded_answer(
            num_nodes: usize,
            fanout in 1_usize..,
            node: usize,
            of: usize,
        ) {
            let tree = tree(num_nodes, fanout);
            prop_assert!(tree.children(node).end <= num_nodes.max(1));
            prop_assert!(tree.parent(node).is_none_or(|parent| parent < node));
            if fanout > 1 {
                // A chain of this length is a legitimate tree of fanout 1, whose depth is its length.
                prop_assert!(tree.height() <= 64);
                let _ = tree.branch(node, of);
            }
        }
    }

    #[test]
    fn a_tree_of_4096_nodes_with_fanout_32_has_three_levels_below_the_root() {
        let tree = tree(4096, 32);
        assert_eq!(tree.height(), 3);
        assert_eq!(tree.children(0), 1..33);
        assert_eq!(tree.children(4095), 4096..4096);
        assert_eq!(super::Tree::new(0, tree.fanout).height(), 0);
    }

    #[test]
    fn a_chain_has_the_depth_of_its_length() {
        let tree = tree(1000, 1);
        assert_eq!(tree.height(), 999);
        assert_eq!(tree.branch(10, 999), Some(11));
    }
}
