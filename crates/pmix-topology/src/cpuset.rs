// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of processors, identified by their numbers in the operating system.
//!
//! Source: Linux, `Documentation/admin-guide/cputopology.rst`, for lists; hwloc documentation, "The
//! bitmap API", for unbounded lists and for sets in hexadecimal words.

use std::fmt;

use crate::Error;

/// A set of processors (hardware threads) with numbers below 65,536.
///
/// The text form is that of Linux and hwloc: `0-3,8`. As in hwloc, a set may be unbounded, `4-`.
/// The set of an unbound process is `0-`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpuset {
    /// The processors as words of 64 bits, lowest first. The last word is not the one that
    /// `is_endless` implies.
    words: Vec<u64>,
    /// `true` if all processors after the words are in the set.
    is_endless: bool,
}

/// The exclusive upper bound of processor numbers; Linux supports fewer.
const MOST: u32 = 1 << 16;

impl Cpuset {
    /// The exclusive upper bound of processor numbers in a set.
    pub const MAX_CPUS: u32 = MOST;

    /// Returns the empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the set of all processors, which is the set of an unbound process.
    #[must_use]
    pub fn full() -> Self {
        Self {
            words: Vec::new(),
            is_endless: true,
        }
    }

    /// Returns the set with these words of 64 processors, lowest first. `is_endless` adds all
    /// processors after them.
    ///
    /// # Errors
    /// `PMIX_ERR_BAD_PARAM`: a processor has the number 65,536 or more.
    pub fn from_words(words: &[u64], is_endless: bool) -> Result<Self, Error> {
        let most = (MOST / 64) as usize;
        let end = match is_endless {
            true => words.len(),
            false => words
                .iter()
                .rposition(|word| *word != 0)
                .map_or(0, |last| last + 1),
        };
        let words = words.get(..end).unwrap_or_default();
        if words.len() > most {
            return Err(no_such(MOST));
        }
        let words = words.to_vec();
        Ok(Self { words, is_endless }.trimmed())
    }

    /// Returns the set as words of 64 processors, lowest first. [`Cpuset::is_endless`] states
    /// whether all processors after them are in the set.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Parses a list such as `0-3,8` or `4-`. An empty list is the empty set.
    ///
    /// # Errors
    /// `PMIX_ERR_BAD_PARAM`: the list is invalid, a range is reversed, or a number is 65,536 or
    /// more.
    pub fn parse(list: &str) -> Result<Self, Error> {
        let mut set = Self::new();
        let list = list.trim();
        if list.is_empty() {
            return Ok(set);
        }
        let number = |text: &str| -> Result<u32, Error> {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let found = digits.then(|| text.parse().ok()).flatten();
            found.ok_or_else(|| {
                Error::malformed(format!("{text:?} is not the number of a processor"))
            })
        };
        let mut ranges = list.split(',').peekable();
        while let Some(range) = ranges.next() {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let first = number(first)?;
            if last.is_empty() && ranges.peek().is_none() {
                if first >= MOST {
                    return Err(no_such(first));
                }
                set.insert_from(first);
                break;
            }
            let last = number(last)?;
            if first > last {
                return Err(Error::malformed(format!(
                    "the range {range:?} is backwards"
                )));
            }
            if last >= MOST {
                return Err(no_such(last));
            }
            set.insert_range(first, last);
        }
        Ok(set)
    }

    /// Parses a set in the form of PMIx: the source, a colon and the list, `hwloc:0-3,8`.
    ///
    /// # Errors
    /// `PMIX_ERR_BAD_PARAM`: there is no colon, or the list is invalid; `PMIX_ERR_NOT_SUPPORTED`:
    /// the source is not hwloc.
    pub fn from_pmix(text: &str) -> Result<Self, Error> {
        let Some((source, list)) = text.split_once(':') else {
            return Err(Error::malformed(
                "no source and colon before the processors",
            ));
        };
        match is_hwloc(source) {
            true => Self::parse(list),
            false => Err(Error::foreign(format!(
                "the source {source:?} is not hwloc"
            ))),
        }
    }

    /// Returns the set in the form of PMIx, `hwloc:0-3,8`.
    #[must_use]
    pub fn to_pmix(&self) -> String {
        format!("hwloc:{self}")
    }

    /// Parses a set in the form of hwloc's XML, `0x1,,0xff000000`: words of 32 bits, highest first.
    /// An empty word is 0, and a leading `0xf...f` means all processors above the others.
    ///
    /// # Errors
    /// `PMIX_ERR_BAD_PARAM`: the set is invalid, or a number is 65,536 or more.
    pub fn parse_bitmap(text: &str) -> Result<Self, Error> {
        let malformed = || Error::malformed(format!("{text:.40?} is not a set of processors"));
        let (is_endless, text) = match text.strip_prefix("0xf...f") {
            Some(rest) => (true, rest.strip_prefix(',').unwrap_or(rest)),
            None => (false, text),
        };
        let mut set = Self::new();
        let mut count = 0;
        // A single `0xf...f` is the set of all processors, without words.
        let words = if text.is_empty() && is_endless {
            None
        } else {
            Some(text.rsplit(','))
        };
        for word in words.into_iter().flatten() {
            let bits = match word.strip_prefix("0x") {
                Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                    u32::from_str_radix(digits, 16).map_err(|_| malformed())?
                }
                None if word.is_empty() => 0,
                _ => return Err(malformed()),
            };
            for bit in (0..32).filter(|bit| bits >> bit & 1 == 1) {
                set.insert(count + bit)?;
            }
            count += 32;
            if count > MOST {
                return Err(no_such(count));
            }
        }
        if is_endless {
            set.insert_from(count);
        }
        Ok(set)
    }

    /// Returns the set in the form of hwloc's XML; see [`Cpuset::parse_bitmap`].
    #[must_use]
    pub fn to_bitmap(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        if self.is_endless {
            words.push("0xf...f".to_owned());
        }
        for word in self.words.iter().rev() {
            words.push(format!("0x{:08x}", word >> 32));
            words.push(format!("0x{:08x}", word & 0xffff_ffff));
        }
        match words.is_empty() {
            true => "0x0".to_owned(),
            false => words.join(","),
        }
    }

    /// Adds a processor.
    ///
    /// # Errors
    /// `PMIX_ERR_BAD_PARAM`: the number is 65,536 or more.
    pub fn insert(&mut self, cpu: u32) -> Result<(), Error> {
        if cpu >= MOST {
            return Err(no_such(cpu));
        }
        self.insert_range(cpu, cpu);
        Ok(())
    }

    /// Adds a range of processors. The last must be below [`MOST`].
    fn insert_range(&mut self, first: u32, last: u32) {
        let end = place(last).0 + 1;
        if self.words.len() < end {
            let behind = if self.is_endless { u64::MAX } else { 0 };
            self.words.resize(end, behind);
        }
        for (index, word) in (0u32..).zip(&mut self.words).skip(place(first).0) {
            let (low, high) = (index * 64, index * 64 + 63);
            if low > last {
                break;
            }
            let from = u64::MAX << (first.max(low) - low);
            let to = u64::MAX >> (high - last.min(high));
            *word |= from & to;
        }
        self.trim();
    }

    /// Adds the processors of another set.
    pub fn extend(&mut self, other: &Self) {
        let most = self.words.len().max(other.words.len());
        let words = (0..most).map(|index| self.word(index) | other.word(index));
        self.words = words.collect();
        self.is_endless |= other.is_endless;
        self.trim();
    }

    /// Adds a processor and all processors above it. `first` must be at most [`MOST`].
    fn insert_from(&mut self, first: u32) {
        let index = place(first).0;
        let partial = self.word(index) | u64::MAX << (first % 64);
        let behind = if self.is_endless { u64::MAX } else { 0 };
        self.words.resize(index, behind);
        self.words.push(partial);
        self.is_endless = true;
        self.trim();
    }

    /// Returns `true` if a processor is in the set.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        let (word, bit) = place(cpu);
        let word = self.words.get(word);
        word.map_or(self.is_endless, |found| found & bit != 0)
    }

    /// Returns `true` if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && !self.is_endless
    }

    /// Returns `true` if every processor is in the set.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.words.is_empty() && self.is_endless
    }

    /// Returns `true` if the set is unbounded.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        self.is_endless
    }

    /// Returns the number of processors below 65,536 in the set.
    #[must_use]
    pub fn len(&self) -> u32 {
        let behind = match self.is_endless {
            true => MOST - u32::try_from(self.words.len() * 64).unwrap_or(MOST),
            false => 0,
        };
        self.words.iter().map(|word| word.count_ones()).sum::<u32>() + behind
    }

    /// Returns the lowest number in the set.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// Returns the processors below 65,536 in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let told = (0u32..).zip(&self.words).flat_map(|(index, word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| index * 64 + bit)
        });
        let end = u32::try_from(self.words.len() * 64).unwrap_or(MOST);
        told.chain(if self.is_endless { end..MOST } else { 0..0 })
    }

    /// Returns the word at an index. After the stored words, it is implied by `is_endless`.
    fn word(&self, index: usize) -> u64 {
        let behind = if self.is_endless { u64::MAX } else { 0 };
        self.words.get(index).copied().unwrap_or(behind)
    }

    /// Returns `true` if the sets have a processor in common.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        let most = self.words.len().max(other.words.len());
        let told = (0..most).any(|index| self.word(index) & other.word(index) != 0);
        told || (self.is_endless && other.is_endless)
    }

    /// Returns `true` if the other set contains every processor of this set.
    #[must_use]
    pub fn is_subset(&self, of: &Self) -> bool {
        let most = self.words.len().max(of.words.len());
        let told = (0..most).all(|index| self.word(index) & !of.word(index) == 0);
        told && (of.is_endless || !self.is_endless)
    }

    /// Returns the processors that are in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        // The intersection has no words after the end of a bounded set.
        let told = |set: &Self| {
            if set.is_endless {
                usize::MAX
            } else {
                set.words.len()
            }
        };
        let most = self.words.len().max(other.words.len());
        let most = most.min(told(self)).min(told(other));
        let words = (0..most).map(|index| self.word(index) & other.word(index));
        let both = Self {
            words: words.collect(),
            is_endless: self.is_endless && other.is_endless,
        };
        both.trimmed()
    }

    fn trimmed(mut self) -> Self {
        self.trim();
        self
    }

    /// Removes words at the end that `is_endless` implies.
    fn trim(&mut self) {
        let behind = if self.is_endless { u64::MAX } else { 0 };
        while self.words.last() == Some(&behind) {
            self.words.pop();
        }
    }
}

/// Collects the processors below 65,536 among these numbers.
impl FromIterator<u32> for Cpuset {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::new();
        for cpu in cpus.into_iter().filter(|cpu| *cpu < MOST) {
            set.insert_range(cpu, cpu);
        }
        set
    }
}

impl fmt::Display for Cpuset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            match last {
                last if last + 1 == MOST && self.is_endless => write!(f, "{separator}{first}-")?,
                last if last == first => write!(f, "{separator}{first}")?,
                last => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

/// Returns `true` if the source of a PMIx cpuset or topology is hwloc of any release: `hwloc`,
/// `hwloc:2.9`.
pub(crate) fn is_hwloc(source: &str) -> bool {
    let start = source.as_bytes().get(..5);
    start.is_some_and(|start| start.eq_ignore_ascii_case(b"hwloc"))
}

fn no_such(cpu: u32) -> Error {
    Error::malformed(format!(
        "no processor has the number {cpu}: the highest is {}",
        MOST - 1
    ))
}

/// Returns the word of a processor, and its bit in the word.
fn place(cpu: u32) -> (usize, u64) {
    ((cpu / 64) as usize, 1 << (cpu % 64))
}

#[cfg(test)]
mod tests;
