// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser of lists with brackets, in several notations. Each range becomes one run of the list.

use pmix_map::{Limits, NodeList, NodeListBuilder, Progression};

use crate::range::{self, Span};
use crate::{Error, is_blank};

/// Parses all names of a list. Names with several brackets are in the order of `notation`.
pub(crate) fn expand(
    text: &[u8],
    comments: bool,
    notation: Notation,
    limits: &Limits,
) -> Result<NodeList, Error> {
    let mut builder = NodeListBuilder::new(limits);
    let mut words = Words {
        text,
        at: 0,
        comments,
        open: false,
    };
    while let Some((start, end)) = words.next()? {
        let parts = parts(&text[start..end]).map_err(|e| e.shifted_by(start))?;
        spread(&parts, notation, limits, &mut builder).map_err(|e| Error::from(e.at(start)))?;
    }
    Ok(builder.finish())
}

/// An iterator over the names of a list. They are separated as in [`super::separators`], outside of
/// brackets.
struct Words<'a> {
    text: &'a [u8],
    at: usize,
    comments: bool,
    /// `true` after a comma, so that another name follows, which may be empty.
    open: bool,
}

impl Words<'_> {
    /// Returns the range of the next name.
    fn next(&mut self) -> Result<Option<(usize, usize)>, Error> {
        self.blanks();
        let start = self.at;
        match self.text.get(start) {
            None if !std::mem::take(&mut self.open) => Ok(None),
            None => Ok(Some((start, start))),
            Some(b',') => {
                self.at += 1;
                self.open = true;
                Ok(Some((start, start)))
            }
            Some(_) => {
                self.at = word_end(self.text, start)?;
                let end = self.at;
                self.blanks();
                self.open = self.text.get(self.at) == Some(&b',');
                self.at += usize::from(self.open);
                Ok(Some((start, end)))
            }
        }
    }

    fn blanks(&mut self) {
        let mut gap = self.at == 0;
        while let Some(byte) = self.text.get(self.at) {
            if is_blank(*byte) {
                gap = true;
                self.at += 1;
            } else if self.comments && gap && *byte == b'#' {
                let rest = &self.text[self.at..];
                self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            } else {
                break;
            }
        }
    }
}

/// Returns the end of the name at `start`: the next separator outside of brackets.
fn word_end(text: &[u8], start: usize) -> Result<usize, Error> {
    let mut at = start;
    while let Some(byte) = text.get(at) {
        match byte {
            b'[' => {
                let inside = &text[at + 1..];
                match memchr::memchr2(b'[', b']', inside) {
                    Some(end) if inside[end] == b']' => at += end + 1,
                    Some(end) => return Err(stray(at + 1 + end, "a bracket inside brackets")),
                    None => return Err(stray(at, "this bracket is never closed")),
                }
            }
            b']' => return Err(stray(at, "this bracket was never opened")),
            b',' => break,
            b if is_blank(*b) => break,
            _ => {}
        }
        at += 1;
    }
    Ok(at)
}

#[cold]
fn stray(at: usize, message: &str) -> Error {
    let hint = "a bracket list looks like n[001-128,200] or r[1-2]n[01-04]";
    Error::syntax(at, message, hint)
}

/// The parts of a name: the text before the first bracket, then each bracket with the text after
/// it.
struct Parts<'a> {
    prefix: &'a [u8],
    sets: Vec<(Vec<Span>, &'a [u8])>,
}

fn parts(word: &[u8]) -> Result<Parts<'_>, Error> {
    let mut open = memchr::memchr(b'[', word);
    let prefix = &word[..open.unwrap_or(word.len())];
    let mut sets = Vec::new();
    while let Some(start) = open {
        if sets.len() == MAX_BRACKETS {
            return Err(stray(start, "more than 16 brackets in one name"));
        }
        // `word_end` has checked that every bracket is closed.
        let end = start + memchr::memchr(b']', &word[start..]).unwrap_or(word.len() - 1 - start);
        let spans = range::parse(&word[start + 1..end]).map_err(|e| e.shifted_by(start + 1))?;
        open = memchr::memchr(b'[', &word[end..]).map(|n| end + n);
        sets.push((spans, &word[end + 1..open.unwrap_or(word.len())]));
    }
    Ok(Parts { prefix, sets })
}

/// Adds all names. Each range of the last bracket is added as a run.
fn spread(
    parts: &Parts<'_>,
    notation: Notation,
    limits: &Limits,
    builder: &mut NodeListBuilder,
) -> Result<(), pmix_map::Error> {
    if parts.sets.is_empty() {
        return builder.name(parts.prefix);
    }
    let (mut count, mut longest) = (1u64, parts.prefix.len());
    for (spans, text) in &parts.sets {
        let names = spans
            .iter()
            .try_fold(0u64, |sum, s| sum.checked_add(s.count));
        count = names.and_then(|n| n.checked_mul(count)).unwrap_or(u64::MAX);
        longest += text.len() + spans.iter().map(|s| s.zeros + s.width).max().unwrap_or(0);
    }
    if count > limits.max_nodes {
        return Err(pmix_map::Error::limit("nodes", limits.max_nodes));
    }
    let bytes = u64::try_from(longest)
        .ok()
        .and_then(|l| l.checked_mul(count));
    if bytes.is_none_or(|b| b > limits.max_bytes) {
        return Err(pmix_map::Error::limit("bytes of names", limits.max_bytes));
    }
    match (&parts.sets[..], notation) {
        ([front @ .., last], Notation::Slurm) if front.len() > 1 => {
            let mut numbers = vec![Vec::new(); front.len()];
            turn_as_slurm(
                parts.prefix,
                front,
                last,
                &mut numbers,
                builder,
                front.len(),
            )
        }
        (sets, _) => turn(sets, &mut parts.prefix.to_vec(), builder),
    }
}

/// Iterates over the brackets before the last one. The first bracket varies fastest, as in Slurm.
fn turn_as_slurm(
    prefix: &[u8],
    front: &[(Vec<Span>, &[u8])],
    last: &(Vec<Span>, &[u8]),
    numbers: &mut [Vec<u8>],
    builder: &mut NodeListBuilder,
    left: usize,
) -> Result<(), pmix_map::Error> {
    let Some(at) = left.checked_sub(1) else {
        let mut head = prefix.to_vec();
        for (number, (_, text)) in numbers.iter().zip(front) {
            head.extend_from_slice(number);
            head.extend_from_slice(text);
        }
        return turn(std::slice::from_ref(last), &mut head, builder);
    };
    for span in &front[at].0 {
        for index in 0..span.count {
            numbers[at].clear();
            span.write(index, &mut numbers[at]);
            turn_as_slurm(prefix, front, last, numbers, builder, at)?;
        }
    }
    Ok(())
}

/// Iterates over the brackets. The rightmost one varies fastest. [`MAX_BRACKETS`] bounds the
/// recursion.
fn turn(
    sets: &[(Vec<Span>, &[u8])],
    prefix: &mut Vec<u8>,
    builder: &mut NodeListBuilder,
) -> Result<(), pmix_map::Error> {
    let Some(((spans, text), rest)) = sets.split_first() else {
        return Ok(());
    };
    let len = prefix.len();
    for span in spans {
        if rest.is_empty() {
            prefix.resize(len + span.zeros, b'0');
            builder.progression(&Progression {
                prefix,
                width: span.width,
                first: span.first,
                count: span.count,
                step: i64::try_from(span.step).unwrap_or(i64::MAX),
                suffix: text,
            })?;
            prefix.truncate(len);
            continue;
        }
        for index in 0..span.count {
            span.write(index, prefix);
            prefix.extend_from_slice(text);
            turn(rest, prefix, builder)?;
            prefix.truncate(len);
        }
    }
    Ok(())
}

/// The maximum number of brackets in a name.
pub(crate) const MAX_BRACKETS: usize = 16;

/// The program that reads or writes a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Slurm. A name ends with its last bracket, because `scontrol` 22.05 rejects `n[1-2]-ib`.
    /// Ranges have no step. Names are written with at most two brackets, which all programs expand
    /// in the same order. Of three and more brackets, Slurm varies the last one fastest, and then
    /// the first.
    Slurm,
    /// ClusterShell. Text may follow the last bracket. A name may have several brackets. The
    /// rightmost one varies fastest. Ranges are written with steps if that is shorter.
    ClusterShell,
}

impl Notation {
    /// Returns `true` if a name may end with this text after its last bracket.
    pub(crate) fn ends_with(self, text: &[u8]) -> bool {
        text.is_empty() || self == Self::ClusterShell
    }

    /// Returns the maximum number of brackets in a written name.
    pub(crate) fn max_brackets(self) -> usize {
        match self {
            Self::Slurm => 2,
            Self::ClusterShell => MAX_BRACKETS,
        }
    }
}

#[cfg(test)]
mod tests;
