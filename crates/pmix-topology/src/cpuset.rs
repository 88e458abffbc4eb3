// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of processors, by the number that the system gives each.
//!
//! Source: Linux, `Documentation/admin-guide/cputopology.rst`, for lists; hwloc documentation, "The
//! bitmap API", for lists without an end and for sets in hexadecimal words.

use std::fmt;

use crate::Error;

/// A set of processors (hardware threads) with numbers below 65,536.
///
/// Written and read as Linux and hwloc list them: `0-3,8`. As in hwloc a set may go on without an
/// end, `4-`: that of a process that may run anywhere is `0-`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpuset {
    /// 64 processors a word; the last word differs from what follows.
    words: Vec<u64>,
    /// Whether all processors behind the words are in the set.
    is_endless: bool,
}

/// No Linux has more; a longer list is no list of processors.
const MOST: u32 = 1 << 16;

impl Cpuset {
    /// How many processors a set can tell apart.
    pub const MAX_CPUS: u32 = MOST;

    /// Returns the set with no processor.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the set with every processor: that of a process that is not bound.
    #[must_use]
    pub fn full() -> Self {
        Self {
            words: Vec::new(),
            is_endless: true,
        }
    }

    /// Returns the set with these words of 64 processors each, the lowest first, and all or none of the
    /// processors behind them.
    ///
    /// # Errors
    /// `PMIX_ERR_BAD_PARAM`: one of the processors has the number 65,536 or more.
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

    /// Returns the words of 64 processors, the lowest first; what is behind them says [`Cpuset::is_endless`].
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Reads a list like `0-3,8` or `4-`; an empty one is the empty set.
    ///
    /// # Errors
    /// `PMIX_ERR_BAD_PARAM`: it is no such list, a range is backwards, or a number is 65,536 or more.
    pub fn parse(list: &str) -> Result<Self, Error> {
        let mut set = Self::new();
        let list = list.trim();
        if list.is_empty() {
            return Ok(set);
        }
        let number = |text: &str| -> Result<u32, Error> {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let found = digits.then(|| text.parse().ok()).flatten();
            found.ok_or_else(|| Error::malformed(format!("{text:?} is no number of a processor")))
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

    /// Reads a set as PMIx writes it: the source, a colon and the list, `hwloc:0-3,8`.
    ///
    /// # Errors
    /// `PMIX_ERR_BAD_PARAM`: there is no colon, or what follows is no list;
    /// `PMIX_ERR_NOT_SUPPORTED`: the source is another than hwloc.
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

    /// Returns the set as PMIx writes it, `hwloc:0-3,8`.
    #[must_use]
    pub fn to_pmix(&self) -> String {
        format!("hwloc:{self}")
    }

    /// Reads a set as hwloc's XML has it, `0x1,,0xff000000`: words of 32 bits, the highest first; an
    /// empty one is 0, and a first one `0xf...f` stands for all processors above the others.
    ///
    /// # Errors
    /// `PMIX_ERR_BAD_PARAM`: it is no such set, or a number is 65,536 or more.
    pub fn parse_bitmap(text: &str) -> Result<Self, Error> {
        let malformed = || Error::malformed(format!("{text:.40?} is no set of processors"));
        let (is_endless, text) = match text.strip_prefix("0xf...f") {
            Some(rest) => (true, rest.strip_prefix(',').unwrap_or(rest)),
            None => (false, text),
        };
        let mut set = Self::new();
        let mut count = 0;
        // All of `0xf...f` alone is every processor: there are no words below it.
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

    /// Returns the set as hwloc's XML has it; see [`Cpuset::parse_bitmap`].
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

    /// Adds processors, the last of which is below [`MOST`].
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

    /// Adds this processor, the number of which is at most [`MOST`], and all above it.
    fn insert_from(&mut self, first: u32) {
        let index = place(first).0;
        let partial = self.word(index) | u64::MAX << (first % 64);
        let behind = if self.is_endless { u64::MAX } else { 0 };
        self.words.resize(index, behind);
        self.words.push(partial);
        self.is_endless = true;
        self.trim();
    }

    /// Returns whether a processor is in the set.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        let (word, bit) = place(cpu);
        let word = self.words.get(word);
        word.map_or(self.is_endless, |found| found & bit != 0)
    }

    /// Returns whether no processor is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && !self.is_endless
    }

    /// Returns whether every processor is in the set.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.words.is_empty() && self.is_endless
    }

    /// Returns whether the set goes on without an end.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        self.is_endless
    }

    /// Returns how many processors below 65,536 are in the set.
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

    /// The word at a place, told or not.
    fn word(&self, index: usize) -> u64 {
        let behind = if self.is_endless { u64::MAX } else { 0 };
        self.words.get(index).copied().unwrap_or(behind)
    }

    /// Returns whether both sets have a processor in common.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        let most = self.words.len().max(other.words.len());
        let told = (0..most).any(|index| self.word(index) & other.word(index) != 0);
        told || (self.is_endless && other.is_endless)
    }

    /// Returns whether every processor of this set is in another, too.
    #[must_use]
    pub fn is_subset(&self, of: &Self) -> bool {
        let most = self.words.len().max(of.words.len());
        let told = (0..most).all(|index| self.word(index) & !of.word(index) == 0);
        told && (of.is_endless || !self.is_endless)
    }

    /// Returns the processors that are in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        // Behind the end of a set that is not endless there is nothing in common.
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

    /// Takes away words that say what follows anyway.
    fn trim(&mut self) {
        let behind = if self.is_endless { u64::MAX } else { 0 };
        while self.words.last() == Some(&behind) {
            self.words.pop();
        }
    }
}

/// A set of the processors below 65,536 among these numbers.
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

/// Whether a source of PMIx is hwloc, of whatever release: `hwloc`, `hwloc:2.9`.
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

/// The word that a processor is in, and its bit there.
fn place(cpu: u32) -> (usize, u64) {
    ((cpu / 64) as usize, 1 << (cpu % 64))
}

#[cfg(test)]
mod tests;
