// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of processors, by the number that the system gives each.

use std::fmt;

/// A set of processors (hardware threads).
///
/// Written and read as Linux and hwloc list them: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus {
    /// 64 processors a word; the last word is not zero.
    words: Vec<u64>,
}

/// No Linux has more; a longer list is no list of processors.
const MOST: u32 = 1 << 16;

impl Cpus {
    /// The set with no processor.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a list like `0-3,8`; an empty one is the empty set.
    #[must_use]
    pub fn parse(list: &str) -> Option<Self> {
        let mut set = Self::new();
        let list = list.trim();
        if list.is_empty() {
            return Some(set);
        }
        for range in list.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= MOST {
                return None;
            }
            (first..=last).for_each(|cpu| set.insert(cpu));
        }
        Some(set)
    }

    /// Adds a processor.
    ///
    /// # Panics
    /// The number is 65,536 or more.
    pub fn insert(&mut self, cpu: u32) {
        assert!(cpu < MOST, "no processor has the number {cpu}");
        let (word, bit) = place(cpu);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    /// Adds a processor, unless none has such a number.
    pub(super) fn try_insert(&mut self, cpu: u32) -> Option<()> {
        (cpu < MOST).then(|| self.insert(cpu))
    }

    /// Whether a processor is in the set.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        let (word, bit) = place(cpu);
        self.words.get(word).is_some_and(|found| found & bit != 0)
    }

    /// Whether no processor is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many processors are in the set.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// The lowest number in the set.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The processors in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.words).flat_map(|(index, word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| index * 64 + bit)
        })
    }

    /// Whether both sets have a processor in common.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        let mut both = self.words.iter().zip(&other.words);
        both.any(|(mine, theirs)| mine & theirs != 0)
    }

    /// The processors that are in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let both = self.words.iter().zip(&other.words);
        let mut words: Vec<u64> = both.map(|(mine, theirs)| mine & theirs).collect();
        while words.last() == Some(&0) {
            words.pop();
        }
        Self { words }
    }
}

impl FromIterator<u32> for Cpus {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::new();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            match last == first {
                true => write!(f, "{separator}{first}")?,
                false => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

/// The word that a processor is in, and its bit there.
fn place(cpu: u32) -> (usize, u64) {
    ((cpu / 64) as usize, 1 << (cpu % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_written_as_they_are_read() {
        for list in ["", "0", "0-3", "1,3,5", "0-63,65,127-128"] {
            assert_eq!(Cpus::parse(list).unwrap().to_string(), list);
        }
        assert_eq!(Cpus::parse("3,1-2\n").unwrap().to_string(), "1-3");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["x", "3-1", "1,,2", "-1", "0-4294967295", "65536"] {
            assert_eq!(Cpus::parse(text), None, "{text}");
        }
    }

    #[test]
    fn sets_compare_by_their_processors() {
        let low = Cpus::parse("0-3").unwrap();
        let high = Cpus::parse("3-100").unwrap();
        assert!(low.intersects(&high));
        assert_eq!(low.and(&high), Cpus::parse("3").unwrap());
        let other = Cpus::parse("64-70").unwrap();
        assert!(!low.intersects(&other));
        assert!(low.and(&other).is_empty());
        assert_eq!(low.and(&other), Cpus::new());
        assert_eq!(high.len(), 98);
        assert!(high.contains(100) && !high.contains(101));
    }
}
