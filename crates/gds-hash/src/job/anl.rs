// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process maps in the notation of PMI-1 and PMI-2 (`PMIX_ANL_MAP`, the key `PMI_process_mapping`
//! of MPICH): `(vector,(0,2,4),(2,1,3))`.
//!
//! | part | meaning |
//! | --- | --- |
//! | `(first,nodes,procs)` | `procs` processes on each of `nodes` nodes, from node `first` on |
//! | `node` | one process on that node |
//! | `[part,part]xN` | the parts, repeated N times |
//!
//! Ranks are assigned to the parts in order, from rank 0 on. If the job has more processes, the
//! assignment restarts at the first part that begins at node 0: `(vector,(0,2,1))` is round robin
//! over two nodes.

use std::io::Write;

use pmix_map::{Limits, ProcMap, ProcMapBuilder, RankRun};
use pmix_types::Rank;
use pmix_types::memory::{self, OutOfMemory};

use crate::Error;

/// The maximum number of runs of ranks in a vector. A short text can represent one run for each
/// rank of the largest job.
const MAX_RUNS: usize = 1 << 22;

/// The node, the first rank and the number of ranks of a run.
type Run = (u64, u64, u64);

/// A process map as blocks of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnlMap(Vec<Part>);

/// Blocks, and how many times they are repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    blocks: Vec<Block>,
    times: u64,
}

/// Consecutive nodes with the same number of processes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    first: u64,
    nodes: u64,
    procs: u64,
}

impl Part {
    /// Returns the number of processes, or `None` on overflow.
    fn num_procs(&self) -> Option<u64> {
        let blocks = self.blocks.iter();
        let once = blocks.map(|block| block.nodes.checked_mul(block.procs));
        let once = once.sum::<Option<u64>>()?;
        once.checked_mul(self.times)
    }
}

impl AnlMap {
    /// Returns the process map for a number of nodes, and for a number of processes if it is known.
    pub(crate) fn to_procs(
        &self,
        num_nodes: usize,
        num_procs: Option<u32>,
        limits: &Limits,
    ) -> Result<ProcMap, Error> {
        let total = self.0.iter().map(Part::num_procs).sum::<Option<u64>>();
        let total = total.map(|total| total.max(num_procs.unwrap_or(0).into()));
        let most = limits.max_ranks.min(Rank::MAX_VALID.as_raw().into());
        let Some(total) = total.filter(|total| *total <= most) else {
            return Err(pmix_map::Error::limit("ranks", most).into());
        };
        let Some(mut runs) = self.runs(total)? else {
            let limit = pmix_map::Error::limit("runs of ranks in a vector", MAX_RUNS as u64);
            return Err(Error::new(limit.status(), limit.to_string()));
        };
        // A stable sort would allocate; the ranks keep the order of the runs of a node.
        runs.sort_unstable_by_key(|(node, rank, _)| (*node, *rank));
        let last = runs.last().map_or(0, |(node, ..)| *node);
        let num_nodes = u64::try_from(num_nodes).unwrap_or(u64::MAX);
        if !runs.is_empty() && last >= num_nodes {
            let message = format!("the map names node {last}, and there are {num_nodes}");
            return Err(Error::bad(message));
        }
        Ok(build(&runs, num_nodes, limits)?)
    }

    /// Returns the blocks with their repetitions.
    fn blocks(&self) -> impl Iterator<Item = &Block> + Clone {
        let parts = self.0.iter();
        parts.flat_map(|part| (0..part.times).flat_map(|_| &part.blocks))
    }

    /// Returns the node, the first rank and the count of each run for `total` processes, or `None`
    /// if there are too many runs.
    fn runs(&self, total: u64) -> Result<Option<Vec<Run>>, OutOfMemory> {
        // Every block has a process, so there are at most as many repetitions as processes.
        let again = || self.blocks().skip_while(|block| block.first != 0);
        let repeated =
            std::iter::repeat_with(again).take_while(|again| again.clone().next().is_some());
        let mut runs: Vec<Run> = Vec::new();
        let mut rank = 0;
        for block in self.blocks().chain(repeated.flatten()) {
            for node in block.first..block.first + block.nodes {
                if rank == total {
                    return Ok(Some(runs));
                }
                let count = block.procs.min(total - rank);
                // A run on the same node extends the previous run, because ranks are consecutive.
                let full = runs.len() == MAX_RUNS;
                match runs.last_mut().filter(|last| last.0 == node) {
                    Some(last) => last.2 += count,
                    None if full => return Ok(None),
                    None => {
                        memory::reserve(&mut runs, 1)?;
                        runs.push((node, rank, count));
                    }
                }
                rank += count;
            }
            if rank == total {
                break;
            }
        }
        Ok(Some(runs))
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
            // The limits on ranks were checked before.
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

impl AnlMap {
    /// Parses a map, or returns `None` if the text is in another notation.
    pub(crate) fn parse(text: &[u8]) -> Result<Option<Self>, Error> {
        let Some(mut rest) = text.trim_ascii().strip_prefix(b"(vector") else {
            return Ok(None);
        };
        let mut parts = Vec::new();
        loop {
            rest = rest.trim_ascii_start();
            if let Some(end) = rest.strip_prefix(b")") {
                return match end {
                    [] => Ok(Some(Self(parts))),
                    _ => Err(fault(text, end, "the end of the map after `)`")),
                };
            }
            let (part, behind) = part(text, token(text, rest, b',')?)?;
            add(&mut parts, part);
            rest = behind;
        }
    }
}

/// Adds a part, unless it has no processes: a large repetition count must not cause work without
/// processes.
fn add(parts: &mut Vec<Part>, mut part: Part) {
    (part.blocks).retain(|block| block.nodes > 0 && block.procs > 0);
    match parts.last_mut() {
        _ if part.times == 0 || part.blocks.is_empty() => {}
        Some(last) if last.times == 1 && part.times == 1 => last.blocks.append(&mut part.blocks),
        _ => parts.push(part),
    }
}

/// Parses a block, or `[block,block]xN`.
fn part<'t>(text: &[u8], rest: &'t [u8]) -> Result<(Part, &'t [u8]), Error> {
    let Some(mut rest) = rest.trim_ascii_start().strip_prefix(b"[") else {
        let (block, rest) = block(text, rest)?;
        let blocks = vec![block];
        return Ok((Part { blocks, times: 1 }, rest));
    };
    let mut blocks = Vec::new();
    loop {
        let (block, behind) = block(text, rest)?;
        blocks.push(block);
        match token(text, behind, b']') {
            Ok(behind) => {
                let (times, rest) = number(text, token(text, behind, b'x')?)?;
                return Ok((Part { blocks, times }, rest));
            }
            Err(_) => rest = token(text, behind, b',')?,
        }
    }
}

/// Parses `(first,nodes,procs)`, or the number of a node.
fn block<'t>(text: &[u8], rest: &'t [u8]) -> Result<(Block, &'t [u8]), Error> {
    let Some(rest) = rest.trim_ascii_start().strip_prefix(b"(") else {
        let (first, rest) = number(text, rest)?;
        let (nodes, procs) = (1, 1);
        return Ok((
            Block {
                first,
                nodes,
                procs,
            },
            rest,
        ));
    };
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
    // Nine digits exceed the number of nodes of any machine.
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

impl AnlMap {
    /// Converts a process map into blocks. Returns `None` if the ranks are not 0, 1, 2, … without
    /// gaps.
    ///
    /// # Errors
    ///
    /// The process has no memory for the blocks.
    pub(crate) fn of(procs: &ProcMap) -> Result<Option<Self>, OutOfMemory> {
        match Self::in_order(procs)? {
            Some(blocks) => Ok(Some(blocks)),
            None => Self::by_rank(procs),
        }
    }

    /// Returns the blocks of a map whose ranks are consecutive from node to node.
    fn in_order(procs: &ProcMap) -> Result<Option<Self>, OutOfMemory> {
        let mut blocks = Vec::new();
        let mut next = 0_u64;
        for block in procs.blocks() {
            let [run] = block.runs.as_slice() else {
                match block.runs.is_empty() {
                    true => continue,
                    false => return Ok(None),
                }
            };
            let Ok(nodes) = u64::try_from(block.num_nodes) else {
                return Ok(None);
            };
            let follows = u64::from(run.first.as_raw()) == next
                && (run.step == 1 || run.count == 1)
                && (block.shift == i64::from(run.count) || nodes == 1);
            if !follows {
                return Ok(None);
            }
            let Ok(first) = u64::try_from(block.first_node) else {
                return Ok(None);
            };
            let procs = run.count.into();
            push(
                &mut blocks,
                Block {
                    first,
                    nodes,
                    procs,
                },
            )?;
            next += nodes * u64::from(run.count);
        }
        Ok(Some(Self(vec![Part { blocks, times: 1 }])))
    }

    /// Returns the blocks of any other map, rank by rank.
    fn by_rank(procs: &ProcMap) -> Result<Option<Self>, OutOfMemory> {
        let mut blocks = Vec::new();
        let mut last: Option<Block> = None;
        for rank in 0..procs.num_ranks() {
            let node = u32::try_from(rank).ok().map(Rank::new);
            let node = node.and_then(|rank| procs.node_of(rank));
            let Some(node) = node.and_then(|node| u64::try_from(node).ok()) else {
                return Ok(None);
            };
            match &mut last {
                Some(block) if block.first == node => block.procs += 1,
                other => {
                    let started = other.replace(Block {
                        first: node,
                        nodes: 1,
                        procs: 1,
                    });
                    if let Some(block) = started {
                        push(&mut blocks, block)?;
                    }
                }
            }
        }
        if let Some(block) = last {
            push(&mut blocks, block)?;
        }
        Ok(Some(Self(vec![Part { blocks, times: 1 }])))
    }

    /// Returns the map as text.
    ///
    /// # Errors
    ///
    /// The process has no memory for the text.
    pub(crate) fn to_text(&self) -> Result<Vec<u8>, OutOfMemory> {
        let mut text = b"(vector".to_vec();
        let parts = self.0.iter();
        for block in parts.flat_map(|part| (0..part.times).flat_map(|_| &part.blocks)) {
            let Block {
                first,
                nodes,
                procs,
            } = block;
            memory::reserve(&mut text, MAX_BLOCK)?;
            // Writing into a vector cannot fail.
            let _ = write!(text, ",({first},{nodes},{procs})");
        }
        text.push(b')');
        Ok(text)
    }
}

/// The maximum length in bytes of a block as text: three 64-bit numbers, commas and brackets,
/// including the final bracket.
const MAX_BLOCK: usize = 66;

/// Appends a block, or extends the last one if the block continues it.
fn push(blocks: &mut Vec<Block>, block: Block) -> Result<(), OutOfMemory> {
    match blocks.last_mut() {
        Some(last) if last.procs == block.procs && last.first + last.nodes == block.first => {
            last.nodes += block.nodes;
        }
        _ => {
            memory::reserve(blocks, 1)?;
            blocks.push(block);
        }
    }
    Ok(())
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
    fn maps_survive_writing_and_parsing() {
        for (map, anl) in [
            ("0-3;4-7;8", "(vector,(0,2,4),(2,1,1))"),
            ("0,2,4;1,3,5", "(vector,(0,2,1),(0,2,1),(0,2,1))"),
            ("2-3;0-1", "(vector,(1,1,2),(0,1,2))"),
            ("0;;1", "(vector,(0,1,1),(2,1,1))"),
            ("0-1,4-5;2-3,6", "(vector,(0,2,2),(0,1,2),(1,1,1))"),
            ("", "(vector)"),
        ] {
            let procs = procs(map);
            let written = AnlMap::of(&procs).unwrap().unwrap();
            assert_eq!(String::from_utf8(written.to_text().unwrap()).unwrap(), anl);
            let read = parsed(anl).to_procs(procs.num_nodes(), None, &Limits::default());
            let mut text = Vec::new();
            read.unwrap().write_text(&mut text);
            let mut expected = Vec::new();
            procs.write_text(&mut expected);
            assert_eq!(text, expected, "{anl}");
        }
    }

    #[test]
    fn ranks_with_gaps_or_duplicates_have_no_vector() {
        for map in ["1;2", "0,2", "0;0", "0,1;1,2"] {
            assert_eq!(AnlMap::of(&procs(map)), Ok(None), "{map}");
        }
    }

    #[test]
    fn ignores_other_notations_and_rejects_damaged_vectors() {
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
    fn parts_repeat_until_all_processes_are_placed() {
        for (anl, size, map) in [
            ("(vector,(0,2,1))", 5, "0,2,4;1,3"),
            ("(vector,(1,1,1),(0,2,1))", 6, "1,3,5;0,2,4"),
            ("(vector,(0,2,2))", 3, "0-3"),
            ("(vector,(0,2,2))", 7, "0,1,4,5;2,3,6"),
            ("(vector,(1,1,2))", 4, ";0,1"),
            ("(vector,0,1,1)", 3, "0;1,2"),
            ("(vector,[(0,2,1)]x2,(0,1,3))", 7, "0,2,4-6;1,3"),
            ("(vector, [ (0,1,1), 1 ]x 2 , [1]x0)", 0, "0,2;1,3"),
        ] {
            let read = parsed(anl).to_procs(2, Some(size), &Limits::default());
            let (mut text, mut expected) = (Vec::new(), Vec::new());
            read.unwrap().write_text(&mut text);
            let map = map.replace("0-3", "0,1;2,3");
            procs(&map).write_text(&mut expected);
            assert_eq!(text, expected, "{anl}");
        }
    }

    #[test]
    fn rejects_blocks_beyond_the_limits() {
        let limits = Limits::default();
        let huge = parsed("(vector,(0,999999999,999999999))");
        assert!(huge.to_procs(4, None, &limits).is_err());
        assert!(
            parsed("(vector,(3,2,1))")
                .to_procs(4, None, &limits)
                .is_err()
        );
        let dealt = parsed("(vector,(0,2,1))").to_procs(2, Some(1 << 27), &limits);
        let error = dealt.unwrap_err();
        assert_eq!(error.status(), pmix_types::Status::ERR_OUT_OF_RESOURCE);
        let alone = parsed("(vector,(0,1,1))").to_procs(1, Some(1 << 20), &limits);
        assert_eq!(alone.unwrap().num_ranks(), 1 << 20);
        let empty = parsed("(vector,(0,999999999,0))").to_procs(4, None, &limits);
        assert_eq!(empty.unwrap().num_ranks(), 0);
        let often = parsed("(vector,[(0,1,9)]x999999999)");
        assert!(often.to_procs(4, None, &limits).is_err());
        let nothing = parsed("(vector,[(0,0,9),(0,9,0)]x999999999)");
        assert_eq!(
            nothing.to_procs(4, Some(9), &limits).unwrap().num_ranks(),
            0
        );
        assert!(
            parsed("(vector,0)")
                .to_procs(4, Some(u32::MAX), &limits)
                .is_err()
        );
    }
}
