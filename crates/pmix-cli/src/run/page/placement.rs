// SPDX-License-Identifier: MIT OR Apache-2.0
//! The placement of the processes: node, package and cores of each rank.

use std::collections::BTreeMap;

use pmix_launch::Outcome;
use pmix_topology::{Cpuset, Level, Topology};

use super::escape;

/// The largest number of rows.
const MAX_ROWS: usize = 500;

/// The largest number of numbers or ranges in a cell.
const MAX_RANGES: usize = 16;

/// Returns the placement with its heading. Ranks with the same processors share a row.
pub(super) fn render(outcome: &Outcome, topology: &Topology) -> String {
    let host = escape(&outcome.host);
    let mut ranks_of: BTreeMap<Option<String>, (Option<&Cpuset>, Vec<u32>)> = BTreeMap::new();
    for rank in &outcome.ranks {
        let cpus = rank.cpus.as_ref();
        let row = ranks_of.entry(cpus.map(ToString::to_string)).or_default();
        row.0 = cpus;
        row.1.push(rank.rank.as_raw());
    }
    let mut rows: Vec<_> = ranks_of.into_values().collect();
    rows.sort_by_key(|(_, ranks)| ranks.first().copied());
    let mut html = "<h2>Placement</h2>\n<div class=\"wide\">\n<table>\n<tr><th>node</th><th>package</th><th>core</th>\
        <th>CPUs</th><th>ranks</th></tr>\n"
        .to_owned();
    for (cpus, ranks) in rows.iter().take(MAX_ROWS) {
        let [package, core] = [Level::Package, Level::Core].map(|level| match cpus {
            Some(cpus) => listed(&parts(topology.parts(level), cpus)),
            None => "any".to_owned(),
        });
        let cpus = cpus.map_or_else(|| "any".to_owned(), ToString::to_string);
        html += &format!(
            "<tr><td>{host}</td><td>{package}</td><td>{core}</td><td>{}</td><td>{}</td></tr>\n",
            escape(cpus.as_bytes()),
            listed(ranks)
        );
    }
    html += "</table>\n</div>\n";
    if let more @ 1.. = rows.len().saturating_sub(MAX_ROWS) {
        html += &format!("<p class=\"dim\">{more} more sets of processors are not listed.</p>\n");
    }
    html
}

/// Returns the numbers of the parts that a set of processors touches.
fn parts(parts: &[Cpuset], cpus: &Cpuset) -> Vec<u32> {
    let numbered = (0..).zip(parts);
    let touched = numbered.filter(|(_, part)| part.intersects(cpus));
    touched.map(|(number, _)| number).collect()
}

/// Returns ascending numbers as ranges, or a dash if there are none.
fn listed(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let mut texts: Vec<_> = { runs.take(MAX_RANGES) }
        .filter_map(|run| match (run.first()?, run.last()?) {
            (first, last) if first == last => Some(first.to_string()),
            (first, last) => Some(format!("{first}-{last}")),
        })
        .collect();
    let num_runs = numbers
        .chunk_by(|a, b| a.checked_add(1) == Some(*b))
        .count();
    if num_runs > MAX_RANGES {
        texts.push(format!("and {} more", num_runs - MAX_RANGES));
    }
    match texts.is_empty() {
        true => "-".to_owned(),
        false => texts.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ranges_and_no_cell_is_endless() {
        assert_eq!(listed(&[]), "-");
        assert_eq!(listed(&[0, 1, 2, 5]), "0-2, 5");
        let even: Vec<_> = (0..1000).map(|number| 2 * number).collect();
        assert!(
            listed(&even).ends_with(", 30, and 984 more"),
            "{}",
            listed(&even)
        );
    }

    #[test]
    fn a_process_touches_the_parts_of_its_processors() {
        let [first, second, both] = ["0-1", "2-3", "1-2"].map(|text| Cpuset::parse(text).unwrap());
        let all = [first.clone(), second];
        assert_eq!(parts(&all, &first), [0]);
        assert_eq!(parts(&all, &both), [0, 1]);
    }
}
