// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slots of the nodes of a list, and the assignment of ranks to them.
//!
//! Source: `SLURM_TASKS_PER_NODE` and `--distribution` in the manual pages sbatch(1) and srun(1).

use pmix_map::{Limits, ProcMap, ProcMapBuilder};
use pmix_types::Rank;

use crate::Error;

const HINT: &str =
    "slots are numbers with repetitions: 16, or 2(x3),1 for three nodes of 2 and one of 1";

/// The number of slots of each node of a list, in node order. Nodes with equal numbers are grouped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Pairs of a number of slots and the number of consecutive nodes with this number.
    runs: Vec<(u32, u64)>,
}

impl Slots {
    /// Returns `slots` slots for each of `num_nodes` nodes.
    #[must_use]
    pub fn uniform(slots: u32, num_nodes: u64) -> Self {
        let mut all = Self::default();
        all.push(slots, num_nodes);
        all
    }

    /// Parses the format of `SLURM_TASKS_PER_NODE`: `2(x3),1` means 2, 2, 2 and 1.
    ///
    /// # Errors
    /// `PMIX_ERR_BAD_PARAM` with the offset for invalid text, or if the number of nodes exceeds 64
    /// bits.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let mut all = Self::default();
        let mut at = 0;
        for entry in text.split(|byte| *byte == b',') {
            let (count, times) = read_entry(entry).ok_or_else(|| {
                let message = format!("`{}` is not a number of slots", entry.escape_ascii());
                Error::syntax(at, message, HINT)
            })?;
            if all.num_nodes().checked_add(times).is_none() {
                return Err(Error::syntax(
                    at,
                    "the number of nodes exceeds 64 bits",
                    HINT,
                ));
            }
            all.push(count, times);
            at += entry.len() + 1;
        }
        Ok(all)
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn num_nodes(&self) -> u64 {
        self.runs.iter().map(|(_, nodes)| nodes).sum()
    }

    /// Returns the total number of slots.
    #[must_use]
    pub fn num_slots(&self) -> u128 {
        let of = |(slots, nodes): &(u32, u64)| u128::from(*slots) * u128::from(*nodes);
        self.runs.iter().map(of).sum()
    }

    /// Returns the number of slots of each node, in node order.
    pub fn per_node(&self) -> impl Iterator<Item = u32> + '_ {
        let runs = self.runs.iter();
        runs.flat_map(|(slots, nodes)| (0..*nodes).map(move |_| *slots))
    }

    /// Adds `num_nodes` nodes with `slots` slots each.
    pub(crate) fn push(&mut self, slots: u32, num_nodes: u64) {
        match self.runs.last_mut() {
            _ if num_nodes == 0 => {}
            Some((known, nodes)) if *known == slots => *nodes = nodes.saturating_add(num_nodes),
            _ => self.runs.push((slots, num_nodes)),
        }
    }
}

impl FromIterator<(u32, u64)> for Slots {
    /// Collects pairs of a number of slots and a number of nodes.
    fn from_iter<I: IntoIterator<Item = (u32, u64)>>(runs: I) -> Self {
        let mut all = Self::default();
        for (slots, num_nodes) in runs {
            all.push(slots, num_nodes);
        }
        all
    }
}

/// Parses `2` or `2(x3)`.
fn read_entry(entry: &[u8]) -> Option<(u32, u64)> {
    let entry = std::str::from_utf8(entry.trim_ascii()).ok()?;
    let (count, times) = match entry.strip_suffix(')') {
        Some(front) => front.split_once("(x")?,
        None => (entry, "1"),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(count) || !digits(times) {
        return None;
    }
    let times = times.parse().ok().filter(|times| *times > 0)?;
    Some((count.parse().ok()?, times))
}

/// The order in which ranks fill the slots of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Fills a node before the next one.
    Block,
    /// Assigns one rank per node in each round. Full nodes are skipped.
    Cyclic,
    /// Assigns this number of ranks per node in each round. Zero counts as one.
    Plane(u32),
}

/// Assigns consecutive ranks from zero on to all slots.
///
/// # Errors
/// `PMIX_ERR_OUT_OF_RESOURCE` beyond the limits, before memory is allocated.
pub fn lay_out(slots: &Slots, layout: Layout, limits: &Limits) -> Result<ProcMap, Error> {
    if u128::from(limits.max_ranks) < slots.num_slots() {
        return Err(pmix_map::Error::limit("ranks", limits.max_ranks).into());
    }
    if limits.max_nodes < slots.num_nodes() {
        return Err(pmix_map::Error::limit("nodes", limits.max_nodes).into());
    }
    let plane = match layout {
        Layout::Block => u32::MAX,
        Layout::Cyclic => 1,
        Layout::Plane(ranks) => ranks.max(1),
    };
    let most = slots
        .runs
        .iter()
        .map(|(slots, _)| slots.div_ceil(plane))
        .max();
    if u64::from(most.unwrap_or(0)).saturating_mul(8) > limits.max_memory {
        return Err(pmix_map::Error::limit("bytes of memory", limits.max_memory).into());
    }
    let mut next = first_of_rounds(slots, plane)?;
    let mut map = ProcMapBuilder::new(limits);
    for (slots, nodes) in &slots.runs {
        for _ in 0..*nodes {
            for (ranks, next) in rounds(*slots, plane).zip(&mut next) {
                let first = *next;
                *next += u64::from(ranks);
                map.range(rank(first)?, rank(*next - 1)?)?;
            }
            map.end_node()?;
        }
    }
    Ok(map.finish())
}

/// Returns the first rank of each round. In a round, every node with free slots gets `plane` ranks
/// or fewer.
fn first_of_rounds(slots: &Slots, plane: u32) -> Result<Vec<u64>, Error> {
    let mut first: Vec<u64> = Vec::new();
    for (slots, nodes) in &slots.runs {
        // The number of ranks was checked, and it bounds the number of rounds.
        for (round, ranks) in rounds(*slots, plane).enumerate() {
            let more = u64::from(ranks) * nodes;
            match first.get_mut(round) {
                Some(sum) => *sum += more,
                None => first.push(more),
            }
        }
    }
    let mut before = 0;
    for sum in &mut first {
        before += std::mem::replace(sum, before);
    }
    rank(before)?;
    Ok(first)
}

/// Returns the number of ranks that a node with `slots` slots gets in each round.
fn rounds(slots: u32, plane: u32) -> impl Iterator<Item = u32> {
    let full = slots / plane;
    let rest = Some(slots % plane).filter(|rest| *rest > 0);
    (0..full).map(move |_| plane).chain(rest)
}

fn rank(number: u64) -> Result<Rank, Error> {
    let valid = u32::try_from(number).ok().map(Rank::new);
    valid
        .filter(|rank| rank.is_valid())
        .ok_or_else(|| pmix_map::Error::limit("ranks", Rank::MAX_VALID.as_raw().into()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_procs;

    fn laid(slots: &str, layout: Layout) -> String {
        let slots = Slots::parse(slots.as_bytes()).unwrap();
        let map = lay_out(&slots, layout, &Limits::default()).unwrap();
        assert_eq!(map.num_nodes() as u64, slots.num_nodes());
        assert_eq!(u128::from(map.num_ranks()), slots.num_slots());
        assert!(pmix_map::rank_faults(&map).is_empty());
        String::from_utf8(write_procs(&map)).unwrap()
    }

    #[test]
    fn ranks_fill_slots_as_slurm_distributes_them() {
        assert_eq!(laid("2(x3),1", Layout::Block), "0-1;2-3;4-5;6");
        assert_eq!(laid("2(x3),1", Layout::Cyclic), "0,4;1,5;2,6;3");
        assert_eq!(laid("4(x2)", Layout::Plane(2)), "0-1,4-5;2-3,6-7");
        assert_eq!(laid("5,2,4", Layout::Plane(2)), "0-1,6-7,10;2-3;4-5,8-9");
        assert_eq!(laid("3(x2)", Layout::Plane(0)), "0,2,4;1,3,5");
        assert_eq!(laid("0,2,0", Layout::Block), ";0-1;");
    }

    #[test]
    fn parses_repetitions_and_rejects_other_text() {
        let slots = Slots::parse(b"16(x2),16,8").unwrap();
        assert_eq!((slots.num_nodes(), slots.num_slots()), (4, 56));
        assert_eq!(slots.runs, [(16, 3), (8, 1)]);
        for (text, at) in [
            ("", 0),
            ("2,x", 2),
            ("2(x0)", 0),
            ("2(x3", 0),
            ("1,,2", 2),
            ("-1", 0),
            ("+1", 0),
            ("4294967296", 0),
        ] {
            let error = Slots::parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.offset(), Some(at), "{text}: {error}");
        }
        assert!(Slots::parse(b"1(x18446744073709551615),1").is_err());
    }

    #[test]
    fn rejects_excessive_layouts_before_allocating() {
        for text in [
            "4294967295",
            "1(x18446744073709551615)",
            "0(x18446744073709551615)",
        ] {
            let slots = Slots::parse(text.as_bytes()).unwrap();
            let error = lay_out(&slots, Layout::Cyclic, &Limits::default()).unwrap_err();
            assert_eq!(error.status(), pmix_types::Status::ERR_OUT_OF_RESOURCE);
        }
    }
}
