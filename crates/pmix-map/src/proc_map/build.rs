// SPDX-License-Identifier: MIT OR Apache-2.0
//! The builder of process maps, which folds ranks into runs and nodes into blocks incrementally.
//!
//! Source: this project; the folding is this project's own.

use pmix_types::Rank;
use pmix_types::memory::{self, OutOfMemory};

use super::{Block, ProcMap, RankRun, Run};
use crate::{Error, Limits};

/// The number of recent patterns with which the pattern of a node is compared before it is stored
/// as a new one.
const RECENT_PATTERNS: usize = 4;

/// A builder of [`ProcMap`]s, which folds incrementally.
#[derive(Debug)]
pub struct ProcMapBuilder {
    map: ProcMap,
    limits: Limits,
    /// The finished runs of the current node. Until the node ends, their offsets are absolute
    /// ranks.
    node: Vec<Run>,
    /// The current run, and the rank that would continue it.
    run: Run,
    next: i64,
    /// The maximum number of nodes of the last block.
    room: u64,
    /// The run of the next node, if it continues the last block and the nodes of the block have one
    /// run. Most maps consist of such nodes.
    expected: Option<Run>,
    /// The number of runs of all blocks. A pattern counts once for each block that uses it.
    used_runs: u64,
    /// The reason for which the next rank is rejected, if there is no memory for more runs.
    full: Option<Full>,
    /// `true` if the map is complete. From then on, no step may fail.
    is_ending: bool,
}

/// The reason for which a map accepts no more runs.
#[derive(Clone, Copy, Debug)]
enum Full {
    /// The limit for memory is reached.
    Limit,
    /// The process has no memory left.
    Process(OutOfMemory),
}

impl ProcMapBuilder {
    /// Creates an empty map that may grow up to the limits.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            map: ProcMap::default(),
            limits: *limits,
            node: Vec::new(),
            run: Run {
                offset: 0,
                step: 0,
                count: 0,
            },
            next: 0,
            room: 0,
            expected: None,
            used_runs: 0,
            full: None,
            is_ending: false,
        }
    }

    /// Adds the ranks `first` to `last`, both included, to the current node.
    ///
    /// # Errors
    /// The map would exceed the limits, `last` is below `first`, or a rank is a special value.
    pub fn range(&mut self, first: Rank, last: Rank) -> Result<(), Error> {
        if !last.is_valid() {
            return Err(no_rank(i128::from(last.as_raw())));
        }
        let Some(more) = last.as_raw().checked_sub(first.as_raw()) else {
            let message = format!("the range {first}-{last} is reversed");
            return Err(Error::malformed(0, message));
        };
        // The count fits 32 bits, because valid ranks are below the highest number.
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
        let more = i128::from(run.count.saturating_sub(1));
        let last = i128::from(run.first.as_raw()) + more * i128::from(run.step);
        let valid = 0..=i128::from(Rank::MAX_VALID.as_raw());
        for number in [i128::from(run.first.as_raw()), last] {
            if !valid.contains(&number) {
                return Err(no_rank(number));
            }
        }
        let first = i64::from(run.first.as_raw());
        let run = Run {
            offset: first,
            step: run.step,
            count: run.count,
        };
        match run.count {
            0 => Ok(()),
            1 => self.one(first),
            count => {
                self.grow(u64::from(count), run.text_len())?;
                self.append(run);
                Ok(())
            }
        }
    }

    /// Adds one rank, which must be valid.
    #[inline]
    pub(super) fn one(&mut self, rank: i64) -> Result<(), Error> {
        self.grow(1, u64::from(rank.checked_ilog10().unwrap_or(0)) + 2)?;
        self.rank(rank);
        Ok(())
    }

    /// Ends the current node, which may be empty, and starts the next.
    ///
    /// # Errors
    /// The map would exceed the limits.
    pub fn end_node(&mut self) -> Result<(), Error> {
        if self.run.count == 0 {
            // An empty node is counted here. Other nodes are counted with their first rank.
            self.grow(0, 1)?;
        }
        if self.node.is_empty() && Some(self.run) == self.expected {
            self.map.num_nodes += 1;
            self.run.count = 0;
            self.expect();
            return Ok(());
        }
        self.flush();
        let base = self.node.first().map_or(0, |r| r.offset);
        for run in &mut self.node {
            run.offset -= base;
        }
        if !self.extends(base)? {
            self.block(base)?;
        }
        self.map.num_nodes += 1;
        self.node.clear();
        self.expect();
        Ok(())
    }

    /// Predicts the node that would continue the last block.
    #[inline]
    fn expect(&mut self) {
        self.expected = None;
        let Some(last) = self.map.blocks.last().filter(|b| b.num_runs == 1) else {
            return;
        };
        let nodes = self.map.num_nodes - last.start;
        if (2..self.room).contains(&nodes) {
            let run = self.map.runs.get(last.runs as usize);
            self.expected = run.map(|run| Run {
                offset: last.base + last.shift * nodes.cast_signed(),
                ..*run
            });
        }
    }

    /// Returns the finished map. Ranks after the last [`Self::end_node`] form a node as well.
    #[must_use]
    pub fn finish(mut self) -> ProcMap {
        if self.run.count > 0 {
            // Ending the last node must not fail. It is already counted, and it takes little
            // memory.
            self.limits.max_memory = u64::MAX;
            self.full = None;
            self.is_ending = true;
            let ended = self.end_node();
            debug_assert!(ended.is_ok());
        }
        self.map.blocks.shrink_to_fit();
        self.map.runs.shrink_to_fit();
        self.map
    }

    /// Counts ranks and the bytes of their text against the limits, before they are stored.
    #[inline]
    fn grow(&mut self, ranks: u64, bytes: u64) -> Result<(), Error> {
        let (map, limits) = (&mut self.map, &self.limits);
        if self.run.count == 0 && map.num_nodes >= limits.max_nodes {
            return Err(Error::limit("nodes", limits.max_nodes));
        }
        let ranks = map.num_ranks.saturating_add(ranks);
        if ranks > limits.max_ranks {
            return Err(Error::limit("ranks", limits.max_ranks));
        }
        let bytes = map.bytes.saturating_add(bytes);
        if bytes.saturating_sub(1) > limits.max_bytes {
            return Err(Error::limit("bytes of ranks", limits.max_bytes));
        }
        match self.full {
            None => {}
            Some(Full::Limit) => return Err(Error::limit("bytes of memory", limits.max_memory)),
            Some(Full::Process(error)) => return Err(error.into()),
        }
        (map.num_ranks, map.bytes) = (ranks, bytes);
        Ok(())
    }

    /// Returns the bytes of memory that the map takes so far.
    fn memory_bytes(&self) -> usize {
        self.map.memory_bytes() + self.node.capacity() * size_of::<Run>()
    }

    /// Appends a rank to the current run.
    #[inline]
    fn rank(&mut self, rank: i64) {
        let run = &mut self.run;
        match run.count {
            1 => {
                run.step = rank - run.offset;
                run.count = 2;
                self.next = rank + run.step;
            }
            2.. if rank == self.next && run.count < u32::MAX => {
                run.count += 1;
                self.next += run.step;
            }
            2 if run.step != 1 => {
                // Any two ranks form a run. The second one may fit better into a run with the
                // third.
                let second = run.offset + run.step;
                (run.step, run.count) = (0, 1);
                self.flush();
                self.run = Run {
                    offset: second,
                    step: rank - second,
                    count: 2,
                };
                self.next = rank + self.run.step;
            }
            _ => self.append(Run {
                offset: rank,
                step: 0,
                count: 1,
            }),
        }
    }

    /// Appends a run, or extends the current run if the new one continues it.
    fn append(&mut self, more: Run) {
        let next = more.offset + more.step * i64::from(more.count);
        let run = &mut self.run;
        let continues = match run.count {
            0 => false,
            1 => run.offset + more.step == more.offset,
            _ => run.step == more.step && self.next == more.offset,
        };
        if continues && let Some(count) = run.count.checked_add(more.count) {
            run.step = more.step;
            run.count = count;
        } else {
            self.flush();
            self.run = more;
        }
        self.next = next;
    }

    /// Ends the current run.
    fn flush(&mut self) {
        if self.run.count > 0 {
            if self.node.len() == self.node.capacity() {
                self.full = self.grow_node().err();
                if self.full.is_some() {
                    // Reserves memory for this run only, because its ranks are already counted. The
                    // next run is rejected.
                    self.node.reserve_exact(1);
                }
            }
            self.node.push(self.run);
            self.run.count = 0;
        }
    }

    /// Reserves memory for more runs of the current node. A full table grows to twice its size.
    fn grow_node(&mut self) -> Result<(), Full> {
        let grown = self.memory_bytes() + self.node.capacity() * size_of::<Run>();
        self.limits.check_memory(grown).map_err(|_| Full::Limit)?;
        memory::reserve(&mut self.node, 1).map_err(Full::Process)?;
        // At the end of the node, its runs are copied to the table of all nodes. This may be the
        // end of the map, which must not fail.
        let copied = self.map.runs.len() + self.node.capacity();
        memory::check(copied * size_of::<Run>()).map_err(Full::Process)
    }

    /// Reserves memory for the runs of the current node in the table of all nodes. Also checks that
    /// there is memory for another node of that size, because the end of the map must not fail.
    fn room_for_node(&mut self) -> Result<(), Error> {
        let more = self.node.len();
        if self.is_ending {
            // `grow_node`, or this function for the previous node, has checked that there is
            // memory.
            self.map.runs.reserve_exact(more);
            return Ok(());
        }
        memory::reserve(&mut self.map.runs, more)?;
        let runs = self.map.runs.len() + more + self.node.capacity();
        if runs > self.map.runs.capacity() {
            memory::check(runs * size_of::<Run>())?;
        }
        Ok(())
    }

    /// Adds the current node to the last block, if it continues the block. Returns `true` if so.
    fn extends(&mut self, base: i64) -> Result<bool, Error> {
        let map = &mut self.map;
        let Some(last) = map.blocks.last() else {
            return Ok(false);
        };
        if map.pattern(last) != self.node.as_slice() {
            return Ok(false);
        }
        let nodes = map.num_nodes - last.start;
        if nodes == 1 {
            let shift = base - last.base;
            match memory::check(size_of_val(map.pattern(last))) {
                Ok(()) => {}
                // A separate block for the node represents the same map.
                Err(_) if self.is_ending => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            self.room = room(map.pattern(last), shift);
            if self.room > 1
                && let Some(last) = map.blocks.last_mut()
            {
                last.shift = shift;
                return Ok(true);
            }
            return Ok(false);
        }
        Ok(nodes < self.room && base == last.base + last.shift * nodes.cast_signed())
    }

    /// Starts a block with the current node.
    fn block(&mut self, base: i64) -> Result<(), Error> {
        let too_many = |_| Error::limit("irregular runs of ranks", u64::from(u32::MAX));
        self.used_runs = self.used_runs.saturating_add(self.node.len() as u64);
        u32::try_from(self.used_runs).map_err(too_many)?;
        let num_runs = u32::try_from(self.node.len()).map_err(too_many)?;
        self.limits.check_memory(self.memory_bytes())?;
        let recent = self.map.blocks.iter().rev().take(RECENT_PATTERNS);
        let shared = recent
            .map(|b| (b.runs, self.map.pattern(b)))
            .find(|(_, pattern)| *pattern == self.node.as_slice());
        let runs = match shared {
            Some((runs, _)) => runs,
            None => {
                let runs = u32::try_from(self.map.runs.len()).map_err(too_many)?;
                self.room_for_node()?;
                self.map.runs.extend_from_slice(&self.node);
                runs
            }
        };
        if !self.is_ending {
            // One block for this node and one for the last node of the map.
            memory::reserve(&mut self.map.blocks, 2)?;
        }
        self.map.blocks.push(Block {
            start: self.map.num_nodes,
            base,
            shift: 0,
            runs,
            num_runs,
        });
        Ok(())
    }
}

fn no_rank(number: i128) -> Error {
    Error::malformed(0, format!("{number} is not a valid rank"))
}

/// Returns the maximum number of nodes in a block with this pattern, so that a division finds the
/// node of a rank.
///
/// There are two cases. In the first case, the ranks of each node end before those of the next node
/// begin. In the second case, which occurs in cyclic maps, the ranks of one run on all nodes fit
/// between its steps, and the runs do not interleave.
fn room(pattern: &[Run], shift: i64) -> u64 {
    let by = shift.unsigned_abs();
    let low = pattern.iter().map(|r| r.bounds().0).min();
    let high = pattern.iter().map(|r| r.bounds().1).max();
    let (Some(low), Some(high)) = (low, high) else {
        return u64::MAX;
    };
    if by == 0 || by > high.abs_diff(low) {
        return u64::MAX;
    }
    let mut room = u64::MAX;
    for run in pattern {
        let (low, high) = run.bounds();
        if by <= high.abs_diff(low) {
            room = room.min((run.step.unsigned_abs() - 1) / by + 1);
        }
    }
    let mut bounds: Vec<_> = pattern.iter().map(|r| r.bounds()).collect();
    bounds.sort_unstable();
    for pair in bounds.windows(2) {
        let gap = pair[1].0 - pair[0].1;
        let free = u64::try_from(gap - 1).map_or(0, |free| free / by);
        room = room.min(free + 1);
    }
    room
}

impl Run {
    /// Returns the lowest and the highest rank, relative to the first rank of the node.
    fn bounds(&self) -> (i64, i64) {
        let last = self.offset + self.step * i64::from(self.count - 1);
        (self.offset.min(last), self.offset.max(last))
    }

    /// Returns the length in bytes of the ranks as text, including separators. Offsets must be
    /// absolute ranks.
    fn text_len(&self) -> u64 {
        let (low, high) = self.bounds();
        let count = u64::from(self.count);
        let mut len = 2 * count;
        let mut bound = 10i64;
        while bound <= high {
            // Each rank at or above the bound has one more digit.
            len += if low >= bound {
                count
            } else {
                ((high - bound) / self.step.abs()).cast_unsigned() + 1
            };
            bound *= 10;
        }
        len
    }
}
