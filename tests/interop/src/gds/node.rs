// SPDX-License-Identifier: MIT OR Apache-2.0
//! A node of a job, and the identification of its array.

use super::entry::{Entry, Given, entry, text};
use super::keys;

/// The infos by which a node's array identifies its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Name,
    Id,
    Both,
}

/// A node and its processes in the order of the map.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    /// The stated number, or else the place in the map.
    pub(super) id: u32,
    pub(super) ranks: Vec<u32>,
    pub(super) aliases: Vec<String>,
    /// The values in the node's array; empty if there is no array.
    pub(super) values: Vec<Entry>,
    pub(super) named: Named,
}

impl Node {
    /// Returns the infos that identify the node.
    fn identity(&self) -> Vec<Entry> {
        let name = text(keys::HOST_NAME, &self.name);
        let id = entry(keys::NODE_ID, Given::Number(self.id));
        match self.named {
            Named::Name => vec![name],
            Named::Id => vec![id],
            Named::Both => vec![id, name],
        }
    }

    pub(super) fn array(&self, values: &[Entry]) -> Entry {
        let mut infos = self.identity();
        infos.extend_from_slice(values);
        entry(keys::NODE_ARRAY, Given::Infos(infos))
    }

    /// Returns `true` if the job has an array for the node.
    pub(super) fn has_array(&self) -> bool {
        !self.values.is_empty() || !self.aliases.is_empty()
    }
}

// A minimal encoder of process maps in the notation of PMI-1 and PMI-2, with a block for each run of ranks on one
// node: `(vector,(0,1,2),(1,1,2))`.

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

/// Folds adjacent names that count up by one into `prefix[digits:first-last]`.
pub(super) fn names(nodes: &[Node]) -> String {
    let mut groups: Vec<(&str, usize, u64, u64)> = Vec::new();
    let mut words = Vec::new();
    for node in nodes {
        let digits = node.name.len()
            - node
                .name
                .trim_end_matches(|c: char| c.is_ascii_digit())
                .len();
        let (prefix, number) = node.name.split_at(node.name.len() - digits);
        let Ok(number) = number.parse::<u64>() else {
            flush(&mut groups, &mut words);
            words.push(node.name.clone());
            continue;
        };
        match groups.last_mut() {
            Some((p, d, _, last)) if *p == prefix && *d == digits && *last + 1 == number => {
                *last = number;
            }
            _ => {
                flush(&mut groups, &mut words);
                groups.push((prefix, digits, number, number));
            }
        }
    }
    flush(&mut groups, &mut words);
    words.join(",")
}

fn flush(groups: &mut Vec<(&str, usize, u64, u64)>, words: &mut Vec<String>) {
    for (prefix, digits, first, last) in groups.drain(..) {
        if first == last {
            words.push(format!("{prefix}{first:0digits$}"));
        } else {
            words.push(format!("{prefix}[{digits}:{first}-{last}]"));
        }
    }
}

/// Folds adjacent ranks of each node into `first-last`.
pub(super) fn ranks(nodes: &[Node]) -> String {
    let nodes: Vec<_> = nodes.iter().map(|node| runs(&node.ranks)).collect();
    nodes.join(";")
}

fn runs(ranks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *rank => *last = *rank,
            _ => runs.push((*rank, *rank)),
        }
    }
    let word = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(word).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::{Named, Node, blocks, can_say, names, ranks};
    use crate::gds::generate;
    use crate::gds::plan::listed;
    use crate::naive;
    use crate::random::Random;

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

    #[test]
    fn what_is_folded_reads_as_before() {
        for seed in 0..300 {
            let plan = generate::plan(&mut Random::new(seed), 1);
            if plan.nodes.iter().any(|node| node.ranks.is_empty()) {
                // The naive reader supports no node without processes.
                continue;
            }
            let nodes = plan.nodes.iter().map(|n| n.name.clone()).collect();
            let value = format!("pmix[{}]", names(&plan.nodes));
            assert_eq!(naive::expand(&value, false), Some(nodes), "{value}");
            let procs = plan.nodes.iter().map(|n| listed(&n.ranks)).collect();
            let value = format!("pmix[{}]", ranks(&plan.nodes));
            assert_eq!(naive::expand(&value, true), Some(procs), "{value}");
        }
    }
}
