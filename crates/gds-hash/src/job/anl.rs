// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process maps in the notation of PMI-1 and PMI-2 (`PMIX_ANL_MAP`, the key `PMI_process_mapping`
//! of MPICH): `(vector,(0,2,4),(2,1,3))`.
//!
//! Each block is a first node, a number of nodes, and a number of processes on each; the ranks
//! count through the blocks from zero. Round robin over two nodes is `(vector,(0,2,1),(0,2,1))`.

use std::io::Write;

use pmix_map::{Limits, ProcMap, ProcMapBuilder, RankRun};
use pmix_types::Rank;

use crate::Error;

/// A process map as blocks of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnlMap(Vec<Block>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    first: u64,
    nodes: u64,
    procs: u64,
}

impl AnlMap {
    /// Reads a map; none if the text is in another notation.
    pub(crate) fn parse(text: &[u8]) -> Result<Option<Self>, Error> {
        let Some(mut rest) = text.trim_ascii().strip_prefix(b"(vector") else {
            return Ok(None);
        };
        let mut blocks = Vec::new();
        loop {
            rest = rest.trim_ascii_start();
            if let Some(end) = rest.strip_prefix(b")") {
                return match end {
                    [] => Ok(Some(Self(blocks))),
                    _ => Err(fault(text, end, "nothing behind the last bracket")),
                };
            }
            let (block, behind) = block(text, rest)?;
            blocks.push(block);
            rest = behind;
        }
    }

    /// The map of so many nodes.
    pub(crate) fn to_procs(&self, num_nodes: usize, limits: &Limits) -> Result<ProcMap, Error> {
        let total = self.0.iter().try_fold(0_u64, |total, block| {
            total.checked_add(block.nodes.checked_mul(block.procs)?)
        });
        let most = limits.max_ranks.min(Rank::MAX_VALID.as_raw().into());
        if total.is_none_or(|total| total > most) {
            let limit = pmix_map::Error::limit("ranks", most);
            return Err(Error::new(limit.status(), limit.to_string()));
        }
        // No block has more nodes than processes, so the ranks bound these, too.
        let mut runs: Vec<(u64, u64, u64)> = Vec::new();
        let mut rank = 0;
        for block in self.0.iter().filter(|block| block.procs > 0) {
            for node in block.first..block.first.saturating_add(block.nodes) {
                runs.push((node, rank, block.procs));
                rank += block.procs;
            }
        }
        runs.sort_by_key(|(node, ..)| *node);
        let last = runs.last().map_or(0, |(node, ..)| *node);
        let num_nodes = u64::try_from(num_nodes).unwrap_or(u64::MAX);
        if !runs.is_empty() && last >= num_nodes {
            let message = format!("the map names node {last}, and there are {num_nodes}");
            return Err(Error::bad(message));
        }
        build(&runs, num_nodes, limits)
            .map_err(|error| Error::new(error.status(), error.to_string()))
    }

    /// The map as blocks; none if the ranks do not count from zero without a gap.
    pub(crate) fn of(procs: &ProcMap) -> Option<Self> {
        Self::in_order(procs).or_else(|| Self::by_rank(procs))
    }

    /// The blocks of a map whose ranks count from node to node.
    fn in_order(procs: &ProcMap) -> Option<Self> {
        let mut map = Self(Vec::new());
        let mut next = 0_u64;
        for block in procs.blocks() {
            let [run] = block.runs.as_slice() else {
                match block.runs.is_empty() {
                    true => continue,
                    false => return None,
                }
            };
            let nodes = u64::try_from(block.num_nodes).ok()?;
            let follows = u64::from(run.first.as_raw()) == next
                && (run.step == 1 || run.count == 1)
                && (block.shift == i64::from(run.count) || nodes == 1);
            if !follows {
                return None;
            }
            map.push(Block {
                first: u64::try_from(block.first_node).ok()?,
                nodes,
                procs: run.count.into(),
            });
            next += nodes * u64::from(run.count);
        }
        Some(map)
    }

    /// The blocks of any other map, rank by rank.
    fn by_rank(procs: &ProcMap) -> Option<Self> {
        let mut map = Self(Vec::new());
        let mut last: Option<Block> = None;
        for rank in 0..procs.num_ranks() {
            let rank = Rank::new(u32::try_from(rank).ok()?);
            let node = u64::try_from(procs.node_of(rank)?).ok()?;
            match &mut last {
                Some(block) if block.first == node => block.procs += 1,
                other => {
                    let started = other.replace(Block {
                        first: node,
                        nodes: 1,
                        procs: 1,
                    });
                    started.into_iter().for_each(|block| map.push(block));
                }
            }
        }
        last.into_iter().for_each(|block| map.push(block));
        Some(map)
    }

    /// Adds a block, to the last one if it continues that.
    fn push(&mut self, block: Block) {
        match self.0.last_mut() {
            Some(last) if last.procs == block.procs && last.first + last.nodes == block.first => {
                last.nodes += block.nodes;
            }
            _ => self.0.push(block),
        }
    }

    /// The map as text.
    pub(crate) fn to_text(&self) -> Vec<u8> {
        let mut text = b"(vector".to_vec();
        for block in &self.0 {
            let Block {
                first,
                nodes,
                procs,
            } = block;
            // Writing into a vector cannot fail.
            let _ = write!(text, ",({first},{nodes},{procs})");
        }
        text.push(b')');
        text
    }
}

/// Builds a map from runs of ranks in the order of their nodes.
fn build(
    runs: &[(u64, u64, u64)],
    num_nodes: u64,
    limits: &Limits,
) -> Result<ProcMap, pmix_map::Error> {
    let mut builder = ProcMapBuilder::new(limits);
    let mut rest = runs.iter().peekable();
    for node in 0..num_nodes {
        while let Some((_, first, count)) = rest.next_if(|(of, ..)| *of == node) {
            // The ranks were counted against the limits.
            builder.run(RankRun {
                first: Rank::new(u32::try_from(*first).unwrap_or(u32::MAX)),
                count: u32::try_from(*count).unwrap_or(u32::MAX),
                step: 1,
            })?;
        }
        builder.end_node()?;
    }
    Ok(builder.finish())
}

/// Reads `,(first,nodes,procs)`.
fn block<'t>(text: &[u8], rest: &'t [u8]) -> Result<(Block, &'t [u8]), Error> {
    let rest = token(text, rest, b',')?;
    let rest = token(text, rest, b'(')?;
    let (first, rest) = number(text, rest)?;
    let rest = token(text, rest, b',')?;
    let (nodes, rest) = number(text, rest)?;
    let rest = token(text, rest, b',')?;
    let (procs, rest) = number(text, rest)?;
    let rest = token(text, rest, b')')?;
    let block = Block {
        first,
        nodes,
        procs,
    };
    Ok((block, rest))
}

fn token<'t>(text: &[u8], rest: &'t [u8], byte: u8) -> Result<&'t [u8], Error> {
    let rest = rest.trim_ascii_start();
    match rest.split_first() {
        Some((first, behind)) if *first == byte => Ok(behind),
        _ => Err(fault(text, rest, &format!("`{}`", char::from(byte)))),
    }
}

fn number<'t>(text: &[u8], rest: &'t [u8]) -> Result<(u64, &'t [u8]), Error> {
    let rest = rest.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, behind) = rest.split_at_checked(digits).unwrap_or((rest, &[]));
    // Nine digits count more nodes than there are.
    if digits.is_empty() || digits.len() > 9 {
        return Err(fault(text, rest, "a number of at most nine digits"));
    }
    Ok((pmix_map::scan::number(digits), behind))
}

#[cold]
fn fault(text: &[u8], rest: &[u8], expected: &str) -> Error {
    let at = text
        .trim_ascii_end()
        .len()
        .saturating_sub(rest.trim_ascii_end().len());
    Error::bad(format!("expected {expected} at byte {at}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn procs(text: &str) -> ProcMap {
        ProcMap::parse_text(text.as_bytes(), &Limits::default()).unwrap()
    }

    fn parsed(text: &str) -> AnlMap {
        AnlMap::parse(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn maps_are_written_and_read_again() {
        for (map, anl) in [
            ("0-3;4-7;8", "(vector,(0,2,4),(2,1,1))"),
            ("0,2,4;1,3,5", "(vector,(0,2,1),(0,2,1),(0,2,1))"),
            ("2-3;0-1", "(vector,(1,1,2),(0,1,2))"),
            ("0;;1", "(vector,(0,1,1),(2,1,1))"),
            ("0-1,4-5;2-3,6", "(vector,(0,2,2),(0,1,2),(1,1,1))"),
            ("", "(vector)"),
        ] {
            let procs = procs(map);
            let written = AnlMap::of(&procs).unwrap();
            assert_eq!(String::from_utf8(written.to_text()).unwrap(), anl);
            let read = parsed(anl).to_procs(procs.num_nodes(), &Limits::default());
            let mut text = Vec::new();
            read.unwrap().write_text(&mut text);
            let mut expected = Vec::new();
            procs.write_text(&mut expected);
            assert_eq!(text, expected, "{anl}");
        }
    }

    #[test]
    fn ranks_with_a_gap_or_twice_have_no_such_map() {
        for map in ["1;2", "0,2", "0;0", "0,1;1,2"] {
            assert_eq!(AnlMap::of(&procs(map)), None, "{map}");
        }
    }

    #[test]
    fn another_notation_is_none_and_a_broken_vector_names_its_byte() {
        assert_eq!(AnlMap::parse(b"c101,c102").unwrap(), None);
        assert_eq!(parsed(" (vector, (0, 1 ,2) ) "), parsed("(vector,(0,1,2))"));
        for (text, at) in [
            ("(vector,(0,1,2)", "byte 15"),
            ("(vector,(0,1))", "byte 12"),
            ("(vector,(0,x,2))", "byte 11"),
            ("(vector,(0,1,2))x", "byte 16"),
            ("(vector,(0,1,1234567890))", "byte 13"),
        ] {
            let message = AnlMap::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(message.ends_with(at), "{text}: {message}");
        }
    }

    #[test]
    fn no_block_is_believed() {
        let limits = Limits::default();
        let huge = parsed("(vector,(0,999999999,999999999))");
        assert!(huge.to_procs(4, &limits).is_err());
        assert!(parsed("(vector,(3,2,1))").to_procs(4, &limits).is_err());
        let empty = parsed("(vector,(0,999999999,0))").to_procs(4, &limits);
        assert_eq!(empty.unwrap().num_ranks(), 0);
    }
}
