// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the maps of the measured jobs to files that every program reads.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pmix_interop::random::Random;

/// The forms of the maps of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `pmix[...]`, consecutive nodes and ranks in blocks.
    Native,
    /// The same maps as plain lists after `raw:`, which every release accepts.
    Raw,
    /// The same maps as plain text.
    Text,
    /// The same maps, folded by our own encoder.
    Fold,
    /// `pmix[...]` with 3 % of the names missing, and one process fewer on some nodes.
    Uneven,
}

/// A job with its number of nodes and of processes per node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) shape: Shape,
    pub(super) nodes: u32,
    pub(super) each: u32,
}

/// The files of a job and its number of processes.
pub(super) struct Files {
    pub(super) nodes: PathBuf,
    pub(super) procs: PathBuf,
    pub(super) num_procs: u32,
}

impl Job {
    /// Returns the name in the table.
    pub(super) fn title(self) -> String {
        let Self { shape, nodes, each } = self;
        let how = match shape {
            Shape::Native => "`pmix[...]`",
            Shape::Raw => "`raw:`",
            Shape::Text => "text",
            Shape::Fold => "`fold:`",
            Shape::Uneven => "3 % holes, mixed",
        };
        format!("{nodes} x {each}, {how}")
    }

    /// Writes the maps.
    ///
    /// # Errors
    /// Returns an error if the maps cannot be written.
    pub(super) fn write(self, dir: &Path) -> Result<Files, String> {
        let Self { shape, nodes, each } = self;
        let (names, ranks, num_procs) = match shape {
            Shape::Native => (
                format!("pmix[node[7:1-{nodes}]]"),
                format!("pmix[{}]", blocks(nodes, |_| each, true)),
                nodes * each,
            ),
            Shape::Raw | Shape::Text => {
                let tag = if shape == Shape::Raw { "raw:" } else { "" };
                let names: Vec<_> = (1..=nodes).map(|n| format!("node{n:07}")).collect();
                (
                    format!("{tag}{}", names.join(",")),
                    format!("{tag}{}", blocks(nodes, |_| each, false)),
                    nodes * each,
                )
            }
            Shape::Fold => (
                format!("fold:1node0000001*{nodes}"),
                format!("fold:10*{each}/{nodes}"),
                nodes * each,
            ),
            Shape::Uneven => uneven(nodes, each),
        };
        let path = |what: &str| dir.join(format!("{shape:?}-{nodes}x{each}.{what}"));
        let files = Files {
            nodes: path("nodes"),
            procs: path("procs"),
            num_procs,
        };
        std::fs::write(&files.nodes, names)
            .and_then(|()| std::fs::write(&files.procs, ranks))
            .map_err(|e| format!("{}: {e}", files.nodes.display()))?;
        Ok(files)
    }
}

/// Writes the ranks of each node in blocks, folded or one by one.
fn blocks(nodes: u32, each: impl Fn(u32) -> u32, folded: bool) -> String {
    let mut text = String::new();
    let mut first = 0;
    for node in 0..nodes {
        if node > 0 {
            text.push(';');
        }
        let last = first + each(node) - 1;
        // Writing to a string cannot fail.
        if folded {
            let _ = write!(text, "{first}-{last}");
        } else {
            for rank in first..=last {
                let comma = if rank > first { "," } else { "" };
                let _ = write!(text, "{comma}{rank}");
            }
        }
        first = last + 1;
    }
    text
}

/// Writes names without three in a hundred, and nodes of which one in four has one process fewer.
fn uneven(nodes: u32, each: u32) -> (String, String, u32) {
    let mut random = Random::new(u64::from(nodes));
    let mut runs: Vec<(u32, u32)> = Vec::new();
    let mut next = 1;
    for _ in 0..nodes {
        while random.within(0, 99) < 3 {
            next += 1;
        }
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == next => *last = next,
            _ => runs.push((next, next)),
        }
        next += 1;
    }
    let runs: Vec<_> = runs.iter().map(|(a, b)| format!("{a}-{b}")).collect();
    let counts: Vec<u32> = (0..nodes)
        .map(|_| each - u32::from(random.one_in(4)))
        .collect();
    let each = |node: u32| {
        usize::try_from(node)
            .ok()
            .and_then(|n| counts.get(n).copied())
    };
    (
        format!("pmix[node[7:{}]]", runs.join(",")),
        format!("pmix[{}]", blocks(nodes, |n| each(n).unwrap_or(1), true)),
        counts.iter().sum(),
    )
}

#[cfg(test)]
mod tests {
    use super::{blocks, uneven};
    use pmix_interop::naive;

    #[test]
    fn blocks_are_the_same_folded_or_not() {
        let counts = [3, 1, 2];
        let each = |n: u32| counts[usize::try_from(n).unwrap_or(0)];
        assert_eq!(blocks(3, each, true), "0-2;3-3;4-5");
        assert_eq!(blocks(3, each, false), "0,1,2;3;4,5");
    }

    #[test]
    fn uneven_maps_have_as_many_nodes_as_each_other() {
        let (names, ranks, procs) = uneven(200, 4);
        let names = naive::expand(&names, false).map(|n| n.len());
        let nodes = naive::expand(&ranks, true).unwrap_or_default();
        assert_eq!(names, Some(200));
        assert_eq!(nodes.len(), 200);
        let ranks: usize = nodes.iter().map(|n| n.split(',').count()).sum();
        assert_eq!(u32::try_from(ranks), Ok(procs));
    }
}
