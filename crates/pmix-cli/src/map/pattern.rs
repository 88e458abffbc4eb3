// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout of ranks on nodes, in words.

use std::fmt::Write as _;

use pmix_map::{ProcMap, RankFault};

use crate::style::size;

/// The distribution of consecutive ranks over nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// No ranks.
    Empty,
    /// Node after node.
    Block,
    /// A number of ranks per node, round-robin; 1 is cyclic, more is plane.
    Plane(u32),
    /// Anything else.
    Irregular,
}

impl Layout {
    /// Returns the word for the layout.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Empty => "nothing",
            Self::Block => "block",
            Self::Plane(1) => "cyclic",
            Self::Plane(_) => "plane",
            Self::Irregular => "irregular",
        }
    }
}

/// A process map in one line, and its faults.
pub(super) struct Summary {
    pub(super) layout: Layout,
    pub(super) faults: Vec<RankFault>,
    /// The highest rank plus one.
    pub(super) span: u64,
    /// The line.
    pub(super) text: String,
}

/// Summarizes a map.
pub(super) fn summary(map: &ProcMap) -> Summary {
    let faults = pmix_map::rank_faults(map);
    let (layout, span) = (layout(map), span(map));
    let mut text = format!("{}: ", size(map.num_nodes(), map.num_ranks()));
    text.push_str(layout.word());
    // Writing into a String cannot fail.
    if let Layout::Plane(size @ 2..) = layout {
        let _ = write!(text, " of {size}");
    }
    let per_node = |node| map.ranks_of(node).map_or(0, |_| width(map, node));
    let (least, most) = (0..map.num_nodes()).fold((u64::MAX, 0), |(low, high), node| {
        let ranks = per_node(node);
        (low.min(ranks), high.max(ranks))
    });
    let _ = match least == most {
        _ if map.num_nodes() == 0 => Ok(()),
        true => write!(text, ", {most} per node"),
        false => write!(text, ", {least} to {most} per node"),
    };
    let sum = |missing: bool| -> u64 {
        let of = faults.iter().map(|fault| match fault {
            RankFault::Missing { ranks, .. } if missing => ranks.len(),
            RankFault::Doubled { ranks, .. } if !missing => ranks.len(),
            _ => 0,
        });
        of.sum()
    };
    for (count, what) in [(sum(true), "missing"), (sum(false), "doubled")] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    Summary {
        layout,
        faults,
        span,
        text,
    }
}

fn width(map: &ProcMap, node: usize) -> u64 {
    let runs = map.runs_of(node).unwrap_or_default();
    runs.iter().map(|run| u64::from(run.count)).sum()
}

fn span(map: &ProcMap) -> u64 {
    let ends = (0..map.num_nodes()).flat_map(|node| map.runs_of(node).unwrap_or_default());
    let ends = ends.map(|run| {
        let first = i64::from(run.first.as_raw());
        let last = first + i64::from(run.count.saturating_sub(1)) * run.step;
        u64::try_from(first.max(last)).unwrap_or(0) + 1
    });
    ends.max().unwrap_or(0)
}

fn layout(map: &ProcMap) -> Layout {
    if map.num_ranks() == 0 {
        return Layout::Empty;
    }
    if is_block(map) {
        return Layout::Block;
    }
    let size = plane_size(map);
    match is_plane(map, size) {
        true => Layout::Plane(size),
        false => Layout::Irregular,
    }
}

/// Returns `true` if ranks ascend from node to node. Missing ranks are ignored.
fn is_block(map: &ProcMap) -> bool {
    let mut next = 0;
    (0..map.num_nodes()).all(|node| {
        map.runs_of(node).unwrap_or_default().iter().all(|run| {
            let first = i64::from(run.first.as_raw());
            let last = first + i64::from(run.count.saturating_sub(1)) * run.step;
            let rises = first >= next && (run.step > 0 || run.count == 1);
            next = last + 1;
            rises
        })
    })
}

/// Returns the number of consecutive ranks at the start of the first node.
fn plane_size(map: &ProcMap) -> u32 {
    let mut size = 0;
    for rank in map.ranks_of(0).into_iter().flatten() {
        if rank.as_raw() != size {
            break;
        }
        size += 1;
    }
    size.max(1)
}

/// Returns `true` if rank r is on node (r / size) mod nodes, in ascending order.
fn is_plane(map: &ProcMap, size: u32) -> bool {
    let Ok(nodes) = u32::try_from(map.num_nodes()) else {
        return false;
    };
    (0..nodes).zip(0..).all(|(node, index)| {
        let mut next = 0;
        map.ranks_of(index).into_iter().flatten().all(|rank| {
            let raw = rank.as_raw();
            let rises = raw >= next;
            next = raw.saturating_add(1);
            rises && raw / size % nodes == node
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_map::Limits;

    fn line(text: &str) -> String {
        summary(&ProcMap::parse_text(text.as_bytes(), &Limits::default()).unwrap()).text
    }

    #[test]
    fn layouts_are_distinguished() {
        assert_eq!(line("0-3;4-7"), "2 nodes, 8 ranks: block, 4 per node");
        assert_eq!(
            line("0,2,4;1,3"),
            "2 nodes, 5 ranks: cyclic, 2 to 3 per node"
        );
        assert_eq!(
            line("0-1,4-5;2-3,6-7"),
            "2 nodes, 8 ranks: plane of 2, 4 per node"
        );
        assert_eq!(line("4-7;0-3"), "2 nodes, 8 ranks: irregular, 4 per node");
        assert_eq!(
            line("0-3;6-7"),
            "2 nodes, 6 ranks: block, 2 to 4 per node, 2 missing"
        );
        assert_eq!(
            line("0-3;3-5"),
            "2 nodes, 7 ranks: irregular, 3 to 4 per node, 1 doubled"
        );
        assert_eq!(line(";"), "2 nodes, 0 ranks: nothing, 0 per node");
        assert_eq!(line(""), "0 nodes, 0 ranks: nothing");
    }
}
