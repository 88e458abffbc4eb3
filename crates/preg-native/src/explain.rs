// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields of a value, up to the byte at which parsing stops.

use std::ops::Range;

use preg_core::{Error, Explanation};

use crate::grammar::{self, Element, Elements, Group, NumberRange, NumberRanges, Numbers, TAG};
use crate::procs;

/// The maximum number of fields in an explanation. One more field summarizes the rest, which is
/// still parsed.
const MAX_FIELDS: usize = 10_000;

/// Explains a value in string form, or returns `None` if it does not have the tag.
///
/// The value does not tell its kind of map. If the brackets contain only ranks and separators, the
/// value is explained as a process map.
pub(crate) fn explain(value: &[u8]) -> Option<Explanation> {
    if !value.starts_with(TAG) {
        return None;
    }
    let mut walk = Walk {
        value,
        told: Explanation::default(),
        left_out: None,
    };
    walk.field(0..TAG.len(), "tag", || {
        "scheme native: a map follows".to_owned()
    });
    let read = match grammar::body(value) {
        Ok(body) => body.map_or(Ok(()), |body| walk.map(body)),
        // The error is at the end, so all bytes before it are explained.
        Err(error) if error.offset() == Some(value.len()) => {
            walk.map(TAG.len()..value.len()).and(Err(error))
        }
        Err(error) => Err(error),
    };
    Some(walk.finish(read))
}

/// The maximum number of bytes of a name, prefix or suffix that an explanation shows.
const MAX_SHOWN: usize = 80;

struct Walk<'a> {
    value: &'a [u8],
    told: Explanation,
    /// The bytes and the number of the fields beyond `MAX_FIELDS`.
    left_out: Option<(Range<usize>, usize)>,
}

impl Walk<'_> {
    fn field(&mut self, range: Range<usize>, name: &'static str, meaning: impl FnOnce() -> String) {
        if self.told.fields.len() < MAX_FIELDS {
            self.told.field(range, name, meaning());
            return;
        }
        let (span, count) = self.left_out.get_or_insert((range.start..range.end, 0));
        span.end = range.end;
        *count += 1;
    }

    /// Returns the text of a range for display. A long text is cut.
    fn text(&self, range: &Range<usize>) -> String {
        let bytes = self.value.get(range.clone()).unwrap_or_default();
        match bytes.get(..MAX_SHOWN) {
            Some(start) if bytes.len() > MAX_SHOWN => {
                format!("{}...", String::from_utf8_lossy(start))
            }
            _ => String::from_utf8_lossy(bytes).into_owned(),
        }
    }

    fn map(&mut self, body: Range<usize>) -> Result<(), Error> {
        let text = self.value.get(body.clone()).unwrap_or_default();
        let end = body.end;
        if procs::looks_like_ranks(text) {
            self.procs(body)?;
        } else {
            self.nodes(body)?;
        }
        if end < self.value.len() {
            self.field(end..end + 1, "end", || "the map ends".to_owned());
        }
        Ok(())
    }

    fn nodes(&mut self, body: Range<usize>) -> Result<(), Error> {
        if body.is_empty() {
            self.field(body.clone(), "list", || "no names".to_owned());
        }
        for element in Elements::new(self.value, body) {
            match element? {
                Element::Name(name) => {
                    let shown = self.text(&name);
                    self.field(name, "name", || format!("the name {shown:?} as it stands"));
                }
                Element::Group(group) => self.group(&group)?,
            }
        }
        Ok(())
    }

    fn group(&mut self, group: &Group) -> Result<(), Error> {
        let prefix = self.text(&group.prefix);
        self.field(group.prefix.clone(), "prefix", || {
            format!("each name begins with {prefix:?}")
        });
        let width = group.width(self.value)?;
        self.field(group.width.clone(), "width", || {
            format!("numbers are padded to {width} digits")
        });
        let suffix = self.text(&group.suffix);
        for range in NumberRanges::new(self.value, group, width) {
            let NumberRange { span, numbers } = range?;
            let digits = match &numbers {
                Numbers::Long(digits) => Some(self.text(digits)),
                Numbers::Range(..) => None,
            };
            self.field(span, "range", || match (numbers, digits) {
                (Numbers::Range(first, last), _) if first == last => {
                    format!("1 name: {prefix}{}{suffix}", Padded(width, &first))
                }
                (Numbers::Range(first, last), _) => format!(
                    "{} names: {prefix}{}{suffix} to {prefix}{}{suffix}",
                    u128::from(last - first) + 1,
                    Padded(width, &first),
                    Padded(width, &last)
                ),
                (Numbers::Long(_), digits) => format!(
                    "1 name: {prefix}{}{suffix}",
                    Padded(width, &digits.unwrap_or_default())
                ),
            });
        }
        group.suffix(self.value)?;
        if !group.suffix.is_empty() {
            self.field(group.suffix.clone(), "suffix", || {
                format!("each name ends with {suffix:?}")
            });
        }
        Ok(())
    }

    fn procs(&mut self, body: Range<usize>) -> Result<(), Error> {
        let text = self.value.get(body.clone()).unwrap_or_default();
        let mut at = body.start;
        for (index, node) in text.split(|b| *b == b';').enumerate() {
            let span = at..at + node.len();
            at = span.end + 1;
            let map = procs::ranks(node).map_err(|e| e.shifted(span.start))?;
            self.field(span, "node", || match map.num_ranks() {
                0 => format!("node {index} of a process map has no ranks"),
                1 => format!("node {index} of a process map has 1 rank"),
                ranks => format!("node {index} of a process map has {ranks} ranks"),
            });
        }
        Ok(())
    }

    fn finish(mut self, read: Result<(), Error>) -> Explanation {
        if let Some((span, count)) = self.left_out {
            self.told
                .field(span, "rest", format!("{count} fields more, not listed"));
        }
        self.told.fault = read.err();
        self.told
    }
}

/// A number padded with zeros to a width. A very large width is described instead of padded.
struct Padded<'a, T>(usize, &'a T);

impl<T: std::fmt::Display> std::fmt::Display for Padded<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(width, number) = self;
        if *width > 64 {
            return write!(f, "({number} in {width} digits)");
        }
        write!(f, "{number:0>width$}")
    }
}
