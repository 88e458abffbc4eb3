// SPDX-License-Identifier: MIT OR Apache-2.0
//! A minimal encoder of the native form, for maps that the host encodes.

use super::node::Node;

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
    use super::{names, ranks};
    use crate::gds::generate;
    use crate::gds::plan::listed;
    use crate::naive;
    use crate::random::Random;

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
