// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser of lists with brackets. Each range becomes one run of the list.

use pmix_map::{Limits, NodeList, NodeListBuilder, Progression};

use crate::notation::{MAX_BRACKETS, Notation};
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expanded(text: &str) -> Vec<String> {
        let list = expand(
            text.as_bytes(),
            true,
            Notation::ClusterShell,
            &Limits::default(),
        )
        .unwrap();
        list.iter().map(|n| String::from_utf8(n).unwrap()).collect()
    }

    #[test]
    fn separators_are_those_of_plain_lists() {
        assert_eq!(expanded("[1],,a , b\n\nc"), ["1", "", "a", "b", "c"]);
        assert_eq!(expanded(",[1],"), ["", "1", ""]);
        assert_eq!(expanded("# no [\n[1] # no ]\nb#2"), ["1", "b#2"]);
    }

    /// The output of `scontrol show hostnames` of Slurm 22.05.
    #[test]
    fn slurm_counts_the_first_of_three_brackets_before_the_second() {
        let names = |text: &str| {
            let limits = Limits::default();
            let list = expand(text.as_bytes(), false, Notation::Slurm, &limits).unwrap();
            let names: Vec<_> = list.iter().map(|n| String::from_utf8(n).unwrap()).collect();
            names.join(" ")
        };
        assert_eq!(names("r[1-2]n[1-2]"), "r1n1 r1n2 r2n1 r2n2");
        assert_eq!(
            names("x[1-2]c[1-2]n[1-2],y"),
            "x1c1n1 x1c1n2 x2c1n1 x2c1n2 x1c2n1 x1c2n2 x2c2n1 x2c2n2 y"
        );
        assert_eq!(
            names("x[1-2]c[1-2]b[3-4]n[08,9]"),
            "x1c1b3n08 x1c1b3n9 x2c1b3n08 x2c1b3n9 x1c2b3n08 x1c2b3n9 x2c2b3n08 x2c2b3n9 \
             x1c1b4n08 x1c1b4n9 x2c1b4n08 x2c1b4n9 x1c2b4n08 x1c2b4n9 x2c2b4n08 x2c2b4n9"
        );
    }

    #[test]
    fn errors_have_offsets_in_the_whole_text() {
        for (text, offset) in [
            ("a,n[1-x]", 6),
            ("n1]", 2),
            ("n[1", 1),
            ("n[1[2]]", 3),
            ("ok n[1-2]m[]", 11),
            ("n[4-2]", 2),
        ] {
            let error = expand(
                text.as_bytes(),
                false,
                Notation::ClusterShell,
                &Limits::default(),
            )
            .unwrap_err();
            assert_eq!(error.offset(), Some(offset), "{text}: {error}");
            assert_eq!(error.status(), pmix_types::Status::ERR_BAD_PARAM);
        }
        let most = Limits {
            max_nodes: 10,
            ..Limits::default()
        };
        let error = expand(b"a,n[1-99999999999]", false, Notation::Slurm, &most).unwrap_err();
        assert_eq!(error.status(), pmix_types::Status::ERR_OUT_OF_RESOURCE);
        assert_eq!(error.offset(), Some(2));
    }

    /// A bracket entry: numbers or ranges, with the width of their padding.
    #[derive(Clone, Debug)]
    struct Range {
        first: u64,
        more: u64,
        step: u64,
        width: usize,
    }

    impl Range {
        fn text(&self) -> String {
            let (first, last, width) = (self.first, self.first + self.more, self.width);
            match (self.more, self.step) {
                (0, _) => format!("{first:0width$}"),
                (_, 1) => format!("{first:0width$}-{last:0width$}"),
                (_, step) => format!("{first:0width$}-{last:0width$}/{step}"),
            }
        }

        fn numbers(&self) -> Vec<String> {
            let width = self.width;
            let steps =
                (self.first..=self.first + self.more).step_by(usize::try_from(self.step).unwrap());
            steps.map(|n| format!("{n:0width$}")).collect()
        }
    }

    fn range() -> impl Strategy<Value = Range> {
        (0u64..1100, 0u64..30, 1u64..4, 0usize..5).prop_map(|(first, more, step, width)| Range {
            first,
            more,
            step,
            width,
        })
    }

    type Name = (String, Vec<(Vec<Range>, String)>);

    fn name() -> impl Strategy<Value = Name> {
        let bracket = (prop::collection::vec(range(), 1..3), "[a-z0-9.-]{0,3}");
        ("[a-z][a-z0-9-]{0,3}", prop::collection::vec(bracket, 0..3))
    }

    fn text_of((prefix, brackets): &Name) -> String {
        brackets
            .iter()
            .fold(prefix.clone(), |text, (ranges, tail)| {
                let inside: Vec<_> = ranges.iter().map(Range::text).collect();
                format!("{text}[{}]{tail}", inside.join(","))
            })
    }

    /// Expands a name in a simple way: every bracket multiplies the names so far.
    fn names_of((prefix, brackets): &Name) -> Vec<String> {
        brackets
            .iter()
            .fold(vec![prefix.clone()], |heads, (ranges, tail)| {
                let numbers: Vec<_> = ranges.iter().flat_map(Range::numbers).collect();
                let grow = |head: &String| -> Vec<String> {
                    numbers.iter().map(|n| format!("{head}{n}{tail}")).collect()
                };
                heads.iter().flat_map(grow).collect()
            })
    }

    proptest! {
        #[test]
        fn expansion_agrees_with_the_naive_one(list in prop::collection::vec(name(), 1..5)) {
            let text = list.iter().map(text_of).collect::<Vec<_>>().join(",");
            let expected: Vec<_> = list.iter().flat_map(names_of).collect();
            prop_assert_eq!(expanded(&text), expected);
        }

        #[test]
        fn no_text_causes_a_panic(text in "[\\[\\]0-9,a/ :\n#-]{0,40}") {
            let limits = Limits { max_nodes: 10_000, ..Limits::default() };
            // Both success and an error are correct, but the parser must not panic.
            prop_assert!(expand(text.as_bytes(), true, Notation::Slurm, &limits).map_or(true, |l| l.len() <= 10_000));
        }
    }
}
