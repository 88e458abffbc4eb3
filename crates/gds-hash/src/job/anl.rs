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
//! The ranks count through the parts from zero. If the job has more processes, they continue with
//! the first part that begins at node 0: `(vector,(0,2,1))` is round robin over two nodes.

mod read;
mod write;

use pmix_map::{Limits, ProcMap, ProcMapBuilder, RankRun};
use pmix_types::Rank;

use crate::Error;

/// The most runs of ranks in a vector: a few bytes can represent one run for each rank of the
/// largest job.
const MAX_RUNS: usize = 1 << 22;

/// A process map as blocks of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnlMap(Vec<Part>);

/// Blocks that are repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    blocks: Vec<Block>,
    times: u64,
}

/// Nodes with an equal number of processes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    first: u64,
    nodes: u64,
    procs: u64,
}

impl Part {
    /// Returns the number of its processes, unless it overflows.
    fn num_procs(&self) -> Option<u64> {
        let blocks = self.blocks.iter();
        let once = blocks.map(|block| block.nodes.checked_mul(block.procs));
        let once = once.sum::<Option<u64>>()?;
        once.checked_mul(self.times)
    }
}

impl AnlMap {
    /// Returns the map for a number of nodes, and for a number of processes if that is known.
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
        let Some(mut runs) = self.runs(total) else {
            let limit = pmix_map::Error::limit("runs of ranks in a vector", MAX_RUNS as u64);
            return Err(Error::new(limit.status(), limit.to_string()));
        };
        runs.sort_by_key(|(node, ..)| *node);
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

    /// Returns node, first rank and count of each run for `total` processes, or `None` if there are
    /// too many runs.
    fn runs(&self, total: u64) -> Option<Vec<(u64, u64, u64)>> {
        // Every block has a process, so there are at most as many rounds as processes.
        let again = || self.blocks().skip_while(|block| block.first != 0);
        let repeated =
            std::iter::repeat_with(again).take_while(|again| again.clone().next().is_some());
        let mut runs: Vec<(u64, u64, u64)> = Vec::new();
        let mut rank = 0;
        for block in self.blocks().chain(repeated.flatten()) {
            for node in block.first..block.first + block.nodes {
                if rank == total {
                    return Some(runs);
                }
                let count = block.procs.min(total - rank);
                // Ranks are consecutive from run to run.
                let full = runs.len() == MAX_RUNS;
                match runs.last_mut().filter(|last| last.0 == node) {
                    Some(last) => last.2 += count,
                    None if full => return None,
                    None => runs.push((node, rank, count)),
                }
                rank += count;
            }
            if rank == total {
                break;
            }
        }
        Some(runs)
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
