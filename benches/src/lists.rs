// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the maps that the benchmarks measure to files that every program reads.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pmix_interop::random::Random;

/// The kinds of node list.
pub(crate) const NODES: &[(&str, &str)] = &[
    ("seq", "consecutive"),
    ("holes", "3 % holes"),
    ("rack", "racks `r0001n01`"),
    ("xname", "x-names `x1000c0s0b0n0`"),
    ("shuf", "shuffled"),
];

/// Returns the name of a kind in the table.
pub(crate) fn title(kind: &str) -> &str {
    NODES
        .iter()
        .find(|(k, _)| *k == kind)
        .map_or(kind, |(_, t)| t)
}

/// Returns the path of the file with a node list and writes the file if it does not exist.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn nodes(dir: &Path, kind: &str, count: u64) -> Result<PathBuf, String> {
    file(dir, &format!("{kind}-{count}"), || node_text(kind, count))
}

/// Returns the path of the file with a process map of `nodes` nodes and writes the file if it does not exist.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn procs(dir: &Path, kind: &str, nodes: u64, each: u64) -> Result<PathBuf, String> {
    file(dir, &format!("{kind}-{nodes}x{each}"), || {
        let mut text = String::new();
        for node in 0..nodes {
            for i in 0..each {
                let rank = match kind {
                    "cyclic" => i * nodes + node,
                    _ => node * each + i,
                };
                text.push_str(match (node, i) {
                    (0, 0) => "",
                    (_, 0) => ";",
                    _ => ",",
                });
                // Writing to a string cannot fail.
                let _ = write!(text, "{rank}");
            }
        }
        text
    })
}

fn file(dir: &Path, name: &str, text: impl FnOnce() -> String) -> Result<PathBuf, String> {
    let path = dir.join(format!("{name}.txt"));
    if !path.exists() {
        // Write to another name first, so that a run that was stopped leaves no incomplete list.
        let part = dir.join(format!("{name}.part"));
        std::fs::write(&part, text())
            .and_then(|()| std::fs::rename(&part, &path))
            .map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(path)
}

fn node_text(kind: &str, count: u64) -> String {
    let mut random = Random::new(count);
    let names: Vec<String> = match kind {
        "holes" => (1..)
            .filter(|_| random.within(0, 99) >= 3)
            .map(|n: u64| format!("node{n:07}"))
            .take(usize::try_from(count).unwrap_or(usize::MAX))
            .collect(),
        "rack" => (0..count)
            .map(|i| format!("r{:04}n{:02}", i / 40 + 1, i % 40 + 1))
            .collect(),
        "xname" => (0..count).map(x_name).collect(),
        _ => {
            let mut names: Vec<_> = (1..=count).map(|n| format!("node{n:07}")).collect();
            if kind == "shuf" {
                random.shuffle(&mut names);
            }
            names
        }
    };
    names.join(",")
}

/// Returns the name of a node in a cabinet of 8 chassis, 8 slots, 2 boards and 2 nodes.
fn x_name(i: u64) -> String {
    let (n, b, s, c) = (i % 2, i / 2 % 2, i / 4 % 8, i / 32 % 8);
    format!("x{}c{c}s{s}b{b}n{n}", 1000 + i / 256)
}

#[cfg(test)]
mod tests {
    use super::{NODES, node_text};

    #[test]
    fn every_kind_has_as_many_names_as_asked_for_and_no_name_twice() {
        for (kind, _) in NODES {
            let text = node_text(kind, 5000);
            let mut names: Vec<_> = text.split(',').collect();
            assert_eq!(names.len(), 5000, "{kind}");
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), 5000, "{kind}");
        }
    }

    #[test]
    fn lists_with_holes_miss_about_three_in_a_hundred() {
        let text = node_text("holes", 10_000);
        let last = text
            .rsplit(',')
            .next()
            .and_then(|n| n.get(4..)?.parse().ok());
        assert!(
            last.is_some_and(|n: u64| (10_200..10_450).contains(&n)),
            "{last:?}"
        );
    }
}
