// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ordered lists of host names.

use crate::{Error, Limits, scan};

/// Names that differ in one number: `prefix`, the number in `width` digits, `suffix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progression<'a> {
    /// What stands before the number.
    pub prefix: &'a [u8],
    /// How many digits the number has, leading zeros included; 1 to [`scan::MAX_DIGITS`].
    pub width: usize,
    /// The first number.
    pub first: u64,
    /// How many names; at least 1.
    pub count: u64,
    /// What is added from name to name; may be zero or negative.
    pub step: i64,
    /// What stands behind the number.
    pub suffix: &'a [u8],
}

/// One run of a [`NodeList`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRun<'a> {
    /// One name as it stands.
    Name(&'a [u8]),
    /// Names that differ in one number.
    Progression(Progression<'a>),
}

/// An ordered list of host names, kept folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeList {
    names: Vec<Vec<u8>>,
}

impl NodeList {
    /// Splits text on commas; every element is a name, the empty text is the empty list.
    ///
    /// # Errors
    /// A limit was exceeded.
    pub fn parse_text(text: &[u8], limits: &Limits) -> Result<Self, Error> {
        let mut builder = NodeListBuilder::new(limits);
        let mut at = 0;
        while at <= text.len() && !text.is_empty() {
            let end = scan::name_end(text, at, b',');
            builder.name(&text[at..end])?;
            at = end + 1;
        }
        Ok(builder.finish())
    }

    /// The number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name at an index counted from zero.
    #[must_use]
    pub fn nth(&self, index: usize) -> Option<Vec<u8>> {
        self.names.get(index).cloned()
    }

    /// The index of the first occurrence of a name.
    #[must_use]
    pub fn position(&self, name: &[u8]) -> Option<usize> {
        self.names.iter().position(|n| n == name)
    }

    /// The names in order, each as an owned string of bytes.
    pub fn iter(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.names.iter().cloned()
    }

    /// Calls `f` with each name in order, without allocating.
    pub fn for_each(&self, mut f: impl FnMut(&[u8])) {
        self.names.iter().for_each(|n| f(n));
    }

    /// The runs in order.
    pub fn runs(&self) -> impl Iterator<Item = NodeRun<'_>> {
        self.names.iter().map(|n| NodeRun::Name(n))
    }

    /// Appends the names, separated, to `out`.
    pub fn write_text(&self, separator: u8, out: &mut Vec<u8>) {
        let mut first = true;
        self.for_each(|name| {
            if !std::mem::take(&mut first) {
                out.push(separator);
            }
            out.extend_from_slice(name);
        });
    }
}

/// Builds a [`NodeList`], folding as it goes.
#[derive(Debug)]
pub struct NodeListBuilder {
    list: NodeList,
    limits: Limits,
}

impl NodeListBuilder {
    /// An empty list that may grow up to the limits.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            list: NodeList::default(),
            limits: *limits,
        }
    }

    /// Appends one name.
    ///
    /// # Errors
    /// The list would exceed the limits.
    pub fn name(&mut self, name: &[u8]) -> Result<(), Error> {
        if self.list.names.len() as u64 >= self.limits.max_nodes {
            return Err(Error::limit("nodes", self.limits.max_nodes));
        }
        self.list.names.push(name.to_vec());
        Ok(())
    }

    /// Appends a progression without expanding it.
    ///
    /// # Errors
    /// The list would exceed the limits, or a number does not fit the width.
    pub fn progression(&mut self, run: &Progression<'_>) -> Result<(), Error> {
        let total = (self.list.names.len() as u64).checked_add(run.count);
        if total.is_none_or(|n| n > self.limits.max_nodes) {
            return Err(Error::limit("nodes", self.limits.max_nodes));
        }
        let mut number = i128::from(run.first);
        for _ in 0..run.count {
            let digits = format!("{number:0width$}", width = run.width);
            if digits.len() != run.width || number < 0 {
                return Err(Error::malformed(
                    0,
                    format!("{number} does not fit {} digits", run.width),
                ));
            }
            self.name(&[run.prefix, digits.as_bytes(), run.suffix].concat())?;
            number += i128::from(run.step);
        }
        Ok(())
    }

    /// The finished list.
    #[must_use]
    pub fn finish(self) -> NodeList {
        self.list
    }
}
