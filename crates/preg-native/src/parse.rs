// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser of node maps into folded lists, without expansion.

use std::ops::Range;

use pmix_map::{Error as MapError, Limits, NodeList, NodeListBuilder, Progression, scan};
use pmix_types::memory;
use preg_core::Error;

use crate::grammar::{self, Element, Elements, Group, NumberRange, NumberRanges, Numbers};

/// The maximum width whose padding is not limited: host names have at most 255 bytes.
pub(crate) const PLAIN_WIDTH: usize = 255;

/// The maximum bytes of padding for all wider groups of a value together. A short value can request
/// any width, and a folded list stores the padding once for each range.
const WIDE_BUDGET: usize = 4 << 20;

/// Parses a node map. Returns `None` if the value does not have the tag.
///
/// # Errors
/// The value is damaged or exceeds the limits. The message names the offset.
pub(crate) fn nodes(value: &[u8], limits: &Limits) -> Result<Option<NodeList>, Error> {
    let Some(body) = grammar::body(value)? else {
        return Ok(None);
    };
    let mut parser = Parser::new(value, limits);
    for element in Elements::new(value, body) {
        match element? {
            Element::Name(name) => parser.name(&name)?,
            Element::Group(group) => parser.group(&group)?,
        }
    }
    Ok(Some(parser.builder.finish()))
}

struct Parser<'a> {
    value: &'a [u8],
    builder: NodeListBuilder,
    /// The bytes that the remaining list text may have, including separators.
    bytes_left: u64,
    max_bytes: u64,
    wide_left: usize,
    /// A buffer for a prefix with padding, used if the width is too large for a progression.
    padded: Vec<u8>,
}

impl<'a> Parser<'a> {
    fn new(value: &'a [u8], limits: &Limits) -> Self {
        Self {
            value,
            builder: NodeListBuilder::new(limits),
            // The last name has no separator.
            bytes_left: limits.max_bytes.saturating_add(1),
            max_bytes: limits.max_bytes,
            wide_left: WIDE_BUDGET,
            padded: Vec::new(),
        }
    }

    fn bytes(&self, range: &Range<usize>) -> &'a [u8] {
        self.value.get(range.clone()).unwrap_or_default()
    }

    /// Counts the list text of `count` names of `len` bytes against the limit.
    fn spend(&mut self, count: u64, len: usize, offset: usize) -> Result<(), Error> {
        let need = u64::try_from(len)
            .ok()
            .and_then(|len| len.checked_add(1)?.checked_mul(count));
        self.bytes_left = need
            .and_then(|need| self.bytes_left.checked_sub(need))
            .ok_or_else(|| MapError::limit("bytes of names", self.max_bytes).at(offset))?;
        Ok(())
    }

    fn name(&mut self, name: &Range<usize>) -> Result<(), Error> {
        self.spend(1, name.len(), name.start)?;
        self.builder
            .name(self.bytes(name))
            .map_err(|e| e.at(name.start).into())
    }

    fn group(&mut self, group: &Group) -> Result<(), Error> {
        let width = group.width(self.value)?;
        self.allow_wide(width, group)?;
        self.padded.clear();
        let padding = width.saturating_sub(scan::MAX_DIGITS);
        memory::reserve(&mut self.padded, group.prefix.len() + padding)?;
        self.padded.extend_from_slice(self.bytes(&group.prefix));
        self.padded.resize(self.padded.len() + padding, b'0');
        for range in NumberRanges::new(self.value, group, width) {
            let range = range?;
            self.allow_wide(width, group)?;
            self.range(group, width, &range)?;
        }
        group.suffix(self.value).map(|_| ())
    }

    /// Counts another copy of the padding against the budget.
    fn allow_wide(&mut self, width: usize, group: &Group) -> Result<(), Error> {
        if width <= PLAIN_WIDTH {
            return Ok(());
        }
        self.wide_left = self.wide_left.checked_sub(width).ok_or_else(|| {
            MapError::limit("bytes of zeros in front of numbers", WIDE_BUDGET as u64)
                .at(group.width.start)
        })?;
        Ok(())
    }

    fn range(&mut self, group: &Group, width: usize, range: &NumberRange) -> Result<(), Error> {
        let offset = range.span.start;
        let suffix = self.bytes(&group.suffix);
        let len = group.prefix.len() + width + suffix.len();
        match &range.numbers {
            Numbers::Range(first, last) => {
                let count = (last - first).saturating_add(1);
                let run = Progression {
                    prefix: &self.padded,
                    width: width.min(scan::MAX_DIGITS),
                    first: *first,
                    count,
                    step: 1,
                    suffix,
                };
                self.builder.progression(&run).map_err(|e| e.at(offset))?;
                self.spend(count, len, offset)
            }
            Numbers::Long(digits) => {
                let zeros = width.saturating_sub(digits.len());
                let mut name =
                    memory::list(group.prefix.len() + zeros + digits.len() + suffix.len())?;
                name.extend_from_slice(self.bytes(&group.prefix));
                name.resize(name.len() + zeros, b'0');
                name.extend_from_slice(self.bytes(digits));
                name.extend_from_slice(suffix);
                self.builder.name(&name).map_err(|e| e.at(offset))?;
                self.spend(1, len, offset)
            }
        }
    }
}
