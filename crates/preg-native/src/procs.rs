// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process maps: `pmix[0-3;4-7]`.

use memchr::{memchr, memchr2};
use pmix_map::{Limits, ProcMap, scan};
use preg_core::Error;

use crate::grammar::{self, TAG};

/// The highest rank that OpenPMIx can expand. Its loop over a range counts with a signed 32-bit
/// integer, so it would not end for the highest integer.
const MAX_RANK: u64 = i32::MAX as u64 - 1;

/// Parses a process map. Returns `None` if the value does not have the tag.
///
/// The text between the brackets is a process map: an empty node is a node without ranks, and empty
/// text is the map without nodes.
///
/// # Errors
/// The value is damaged or exceeds the limits; the message names the offset.
// DEVIATION: OpenPMIx drops empty nodes, and expands words, negative numbers, open and reversed
// ranges to arbitrary ranks; here every node is kept and only ranks are accepted;
// process_maps_are_exact_or_refused
pub(crate) fn parse(value: &[u8], limits: &Limits) -> Result<Option<ProcMap>, Error> {
    let Some(body) = grammar::body(value)? else {
        return Ok(None);
    };
    let start = body.start;
    ProcMap::parse_text(value.get(body).unwrap_or_default(), limits)
        .map(Some)
        .map_err(|e| Error::from(e).shifted(start))
}

/// Returns `true` if a text contains a rank, and otherwise only ranks, ranges, blanks and
/// separators.
pub(crate) fn looks_like_ranks(text: &[u8]) -> bool {
    text.iter().any(u8::is_ascii_digit)
        && text
            .iter()
            .all(|b| matches!(b, b'0'..=b'9' | b',' | b';' | b'-' | b' '))
}

/// Parses the ranks of one node, for an explanation.
///
/// # Errors
/// An entry is not a rank. The error has its offset in the text.
pub(crate) fn ranks(node: &[u8]) -> Result<ProcMap, Error> {
    Ok(ProcMap::parse_text(node, &Limits::default())?)
}

/// Encodes a process map. Returns `None` if the form cannot represent the map or would be longer
/// than the text.
///
/// The form cannot represent empty nodes, which OpenPMIx drops, entries that are not ranks or
/// ranges of ranks, and ranks above [`MAX_RANK`].
// DEVIATION: OpenPMIx loses ranks if a range in the input continues the previous one;
// ranges_of_the_input_lose_no_rank
pub(crate) fn generate(list: &[u8]) -> Option<Vec<u8>> {
    let mut ranges = Ranges {
        out: TAG.to_vec(),
        open: None,
    };
    let mut at = 0;
    loop {
        let RankEntry { ranks, mut end } = RankEntry::read(list, at)?;
        if let Some((first, mut last)) = ranks {
            if ranges.continues(first) && first == last && list.get(end) == Some(&b',') {
                let (more, next) = successors(list, at, end);
                last += more;
                end = next;
            }
            ranges.push(first, last)?;
        }
        match list.get(end) {
            Some(b',') => {}
            Some(_) => ranges.end_node()?,
            None => break,
        }
        if ranges.out.len() > list.len() {
            return None;
        }
        at = end + 1;
    }
    ranges.end_node()?;
    *ranges.out.last_mut()? = b']';
    (ranges.out.len() <= list.len()).then_some(ranges.out)
}

/// Counts the entries after `start..end` that continue the entry there, each with the next rank.
///
/// Returns the count and the end of the last such entry. An entry that ends its node does not
/// count.
fn successors(list: &[u8], start: usize, end: usize) -> (u64, usize) {
    let rank = &list[start..end];
    let (count, next) = scan::successors(list, end + 1, rank, 0..rank.len(), b',');
    (count as u64, next - 1)
}

/// An entry between commas: a rank, a range of ranks, or nothing.
struct RankEntry {
    ranks: Option<(u64, u64)>,
    end: usize,
}

impl RankEntry {
    /// Parses the entry at an offset. Returns `None` if it is neither a rank nor a range of ranks.
    fn read(list: &[u8], start: usize) -> Option<Self> {
        let text = &list[start..];
        let (mut digits, mut rank) = (0, 0);
        while let Some(digit) = text.get(digits).filter(|b| b.is_ascii_digit()) {
            rank = rank * 10 + u64::from(digit - b'0');
            digits += 1;
            if digits > scan::MAX_DIGITS {
                return None;
            }
        }
        if matches!(text.get(digits), None | Some(b',' | b';')) && digits > 0 {
            return Some(Self {
                ranks: Some((rank, rank)),
                end: start + digits,
            });
        }
        let len = memchr2(b',', b';', text).unwrap_or(text.len());
        let entry = text[..len].trim_ascii();
        let end = start + len;
        if entry.is_empty() {
            return Some(Self { ranks: None, end });
        }
        let ranks = match memchr(b'-', entry) {
            None => number(entry).map(|r| (r, r))?,
            Some(dash) => (
                number(entry[..dash].trim_ascii())?,
                number(entry[dash + 1..].trim_ascii())?,
            ),
        };
        (ranks.0 <= ranks.1).then_some(Self {
            ranks: Some(ranks),
            end,
        })
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let digits = match digits {
        [b'0', ..] => grammar::significant_digits(digits),
        _ => digits,
    };
    let plain = !digits.is_empty()
        && digits.len() <= scan::MAX_DIGITS
        && digits.iter().all(u8::is_ascii_digit);
    plain.then(|| scan::number(digits))
}

/// A writer of the ranks of a process map.
struct Ranges {
    out: Vec<u8>,
    /// The first and last rank of the range to write next, which the next rank may continue; `None`
    /// at the start of a node.
    open: Option<(u64, u64)>,
}

impl Ranges {
    /// Returns `true` if `rank` is the next one after the open range.
    fn continues(&self, rank: u64) -> bool {
        self.open.is_some_and(|(_, high)| rank == high + 1)
    }

    /// Adds ranks to the node.
    fn push(&mut self, first: u64, last: u64) -> Option<()> {
        if last > MAX_RANK {
            return None;
        }
        self.open = Some(match self.open {
            Some((low, high)) if first == high + 1 => (low, last),
            Some(done) => {
                self.write(done);
                self.out.push(b',');
                (first, last)
            }
            None => (first, last),
        });
        Some(())
    }

    /// Ends the node, or returns `None` if the node is empty.
    fn end_node(&mut self) -> Option<()> {
        let done = self.open.take()?;
        self.write(done);
        self.out.push(b';');
        Some(())
    }

    fn write(&mut self, (first, last): (u64, u64)) {
        grammar::push_decimal(first, &mut self.out);
        if first != last {
            self.out.push(b'-');
            grammar::push_decimal(last, &mut self.out);
        }
    }
}
