// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process maps: which ranks live on which node.

use pmix_types::Rank;

use crate::{Error, Limits};

/// Ranks in arithmetic progression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankRun {
    /// The first rank.
    pub first: Rank,
    /// How many ranks; at least 1.
    pub count: u32,
    /// What is added from rank to rank; may be zero or negative.
    pub step: i64,
}

/// The ranks of each node, in node order, kept folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcMap {
    nodes: Vec<Vec<RankRun>>,
}

/// The ranks of one node, in order.
#[derive(Clone, Debug)]
pub struct Ranks<'a> {
    runs: &'a [RankRun],
    at: u32,
}

impl Iterator for Ranks<'_> {
    type Item = Rank;

    fn next(&mut self) -> Option<Rank> {
        let (run, rest) = self.runs.split_first()?;
        let rank = i64::from(run.first.as_raw()) + i64::from(self.at) * run.step;
        self.at += 1;
        if self.at == run.count {
            self.at = 0;
            self.runs = rest;
        }
        u32::try_from(rank).ok().map(Rank::new)
    }
}

impl ProcMap {
    /// Reads `node;node;...`, a node being ranks and rank ranges (`0-3`) separated by commas.
    ///
    /// The empty text is the empty map; an empty node keeps its place. Blanks around a rank and
    /// empty entries between commas are skipped.
    ///
    /// # Errors
    /// Something that is not a rank, a reversed range, a special rank value, a limit exceeded;
    /// with the byte offset.
    pub fn parse_text(text: &[u8], limits: &Limits) -> Result<Self, Error> {
        let mut builder = ProcMapBuilder::new(limits);
        if text.is_empty() {
            return Ok(builder.finish());
        }
        let mut at = 0;
        for node in text.split(|b| *b == b';') {
            for entry in node.split(|b| *b == b',') {
                let shown = entry.trim_ascii();
                let offset = at + (entry.len() - entry.trim_ascii_start().len());
                at += entry.len() + 1;
                if shown.is_empty() {
                    continue;
                }
                let (first, last) = range(shown, offset)?;
                builder.range(first, last).map_err(|e| e.at(offset))?;
            }
            builder.end_node()?;
        }
        Ok(builder.finish())
    }

    /// The number of nodes.
    #[must_use]
    pub fn num_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The number of ranks over all nodes.
    #[must_use]
    pub fn num_ranks(&self) -> u64 {
        self.nodes
            .iter()
            .flatten()
            .map(|r| u64::from(r.count))
            .sum()
    }

    /// The ranks of a node, by its index in the node map.
    #[must_use]
    pub fn ranks_of(&self, node: usize) -> Option<Ranks<'_>> {
        self.nodes.get(node).map(|runs| Ranks { runs, at: 0 })
    }

    /// The runs of ranks of a node.
    #[must_use]
    pub fn runs_of(&self, node: usize) -> Option<Vec<RankRun>> {
        self.nodes.get(node).cloned()
    }

    /// The first node that holds a rank.
    #[must_use]
    pub fn node_of(&self, rank: Rank) -> Option<usize> {
        (0..self.num_nodes()).find(|n| self.ranks_of(*n).is_some_and(|mut r| r.any(|x| x == rank)))
    }

    /// Appends `node;node;...` to `out`, ranks expanded and separated by commas.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        for node in 0..self.num_nodes() {
            if node > 0 {
                out.push(b';');
            }
            self.write_node(node, out);
        }
    }

    /// Appends the ranks of one node to `out`, expanded and separated by commas.
    pub fn write_node(&self, node: usize, out: &mut Vec<u8>) {
        for (i, rank) in self.ranks_of(node).into_iter().flatten().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(rank.to_string().as_bytes());
        }
    }
}

fn range(text: &[u8], offset: usize) -> Result<(Rank, Rank), Error> {
    let (first, last) = match text.iter().position(|b| *b == b'-') {
        Some(dash) => (
            rank(&text[..dash], offset)?,
            rank(&text[dash + 1..], offset + dash + 1)?,
        ),
        None => {
            let one = rank(text, offset)?;
            (one, one)
        }
    };
    if first > last {
        return Err(Error::malformed(
            offset,
            format!("the rank range {first}-{last} is reversed"),
        ));
    }
    Ok((first, last))
}

fn rank(text: &[u8], offset: usize) -> Result<Rank, Error> {
    std::str::from_utf8(text.trim_ascii())
        .ok()
        .filter(|t| t.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|t| t.parse().ok())
        .map(Rank::new)
        .filter(|r| r.is_valid())
        .ok_or_else(|| {
            let shown = String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned();
            Error::malformed(
                offset,
                format!(
                    "expected a rank (0 to {}), found {shown:?}",
                    Rank::MAX_VALID
                ),
            )
        })
}

/// Builds a [`ProcMap`], folding as it goes.
#[derive(Debug)]
pub struct ProcMapBuilder {
    map: ProcMap,
    node: Vec<RankRun>,
    ranks: u64,
    limits: Limits,
}

impl ProcMapBuilder {
    /// An empty map that may grow up to the limits.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            map: ProcMap::default(),
            node: Vec::new(),
            ranks: 0,
            limits: *limits,
        }
    }

    /// Adds the ranks `first` to `last`, both included, to the current node.
    ///
    /// # Errors
    /// The map would exceed the limits, `last` is below `first`, or a rank is a special value.
    pub fn range(&mut self, first: Rank, last: Rank) -> Result<(), Error> {
        if !last.is_valid() {
            return Err(Error::malformed(
                0,
                format!("{last} is no rank of a process"),
            ));
        }
        let Some(more) = last.as_raw().checked_sub(first.as_raw()) else {
            return Err(Error::malformed(
                0,
                format!("the rank range {first}-{last} is reversed"),
            ));
        };
        self.run(RankRun {
            first,
            count: more + 1,
            step: 1,
        })
    }

    /// Adds a progression of ranks to the current node.
    ///
    /// # Errors
    /// The map would exceed the limits, or a rank leaves the valid range.
    pub fn run(&mut self, run: RankRun) -> Result<(), Error> {
        self.ranks += u64::from(run.count);
        if self.ranks > self.limits.max_ranks {
            return Err(Error::limit("ranks", self.limits.max_ranks));
        }
        let last = i128::from(run.first.as_raw())
            + i128::from(run.count.saturating_sub(1)) * i128::from(run.step);
        if !run.first.is_valid() || last < 0 || last > i128::from(Rank::MAX_VALID.as_raw()) {
            return Err(Error::malformed(
                0,
                format!("{last} is no rank of a process"),
            ));
        }
        if run.count > 0 {
            self.node.push(run);
        }
        Ok(())
    }

    /// Ends the current node, which may be empty, and starts the next.
    ///
    /// # Errors
    /// The map would exceed the limits.
    pub fn end_node(&mut self) -> Result<(), Error> {
        if self.map.nodes.len() as u64 >= self.limits.max_nodes {
            return Err(Error::limit("nodes", self.limits.max_nodes));
        }
        self.map.nodes.push(std::mem::take(&mut self.node));
        Ok(())
    }

    /// The finished map; ranks after the last [`Self::end_node`] are dropped.
    #[must_use]
    pub fn finish(self) -> ProcMap {
        self.map
    }
}
