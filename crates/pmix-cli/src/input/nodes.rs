// SPDX-License-Identifier: MIT OR Apache-2.0
//! Node maps from any input.

use std::ffi::OsString;

use pmix_map::{Limits, NodeList, NodeListBuilder, NodeRun};
use preg_core::{Preg, Regex2Ref};

use super::detect::{Segment, Value, segments};
use super::source::{self, Source};
use super::{brackets, separators};
use crate::failure::Failure;

/// A node map, as text where it came as text and folded where it came folded.
#[derive(Debug)]
pub(crate) enum Nodes {
    /// Names separated by commas.
    Text(Vec<u8>),
    /// A folded list.
    List(NodeList),
}

/// Reads what the words name and joins it.
pub(crate) fn read_nodes(preg: &Preg, words: &[OsString]) -> Result<Nodes, Failure> {
    let mut found = Vec::new();
    for source in source::read(words)? {
        for segment in segments(preg, source)? {
            found.push(of_segment(preg, segment)?);
        }
    }
    Nodes::join(found, preg.limits())
}

/// Decodes values to one node map.
pub(crate) fn decode_nodes(preg: &Preg, values: &[Value]) -> Result<Nodes, Failure> {
    let lists = values.iter().map(|v| of_value(preg, v).map(Nodes::List));
    Nodes::join(lists.collect::<Result<_, _>>()?, preg.limits())
}

fn of_segment(preg: &Preg, segment: Segment) -> Result<Nodes, Failure> {
    match segment {
        Segment::Exact(text) => Ok(Nodes::Text(text)),
        Segment::Value(value) => of_value(preg, &value).map(Nodes::List),
        Segment::List(source) => of_text(source, preg.limits()),
    }
}

fn of_value(preg: &Preg, value: &Value) -> Result<NodeList, Failure> {
    match &value.kind {
        None => preg.parse_nodes(&value.bytes),
        Some(kind) => preg.resolve_nodes(Regex2Ref {
            kind,
            bytes: &value.bytes,
        }),
    }
    .map_err(|e| Failure::of(&e, &value.origin, &value.bytes))
}

fn of_text(mut source: Source, limits: &Limits) -> Result<Nodes, Failure> {
    if memchr::memchr2(b'[', b']', &source.bytes).is_some() {
        return brackets::expand(&source, limits).map(Nodes::List);
    }
    separators::normalise(&mut source.bytes, source.comments);
    Ok(Nodes::Text(source.bytes))
}

impl Nodes {
    fn join(mut found: Vec<Self>, limits: &Limits) -> Result<Self, Failure> {
        found.retain(|part| !part.is_empty());
        if found.len() <= 1 {
            return Ok(found.pop().unwrap_or(Self::Text(Vec::new())));
        }
        if found.iter().all(|part| matches!(part, Self::Text(_))) {
            let texts: Vec<_> = found
                .into_iter()
                .map(|part| match part {
                    Self::Text(text) => text,
                    Self::List(_) => Vec::new(),
                })
                .collect();
            return Ok(Self::Text(texts.join(&b',')));
        }
        let mut builder = NodeListBuilder::new(limits);
        for part in found {
            append(&mut builder, &part.into_list(limits)?).map_err(of_limits)?;
        }
        Ok(Self::List(builder.finish()))
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::List(list) => list.is_empty(),
        }
    }

    /// The folded list.
    pub(crate) fn into_list(self, limits: &Limits) -> Result<NodeList, Failure> {
        match self {
            Self::List(list) => Ok(list),
            Self::Text(text) => NodeList::parse_text(&text, limits).map_err(of_limits),
        }
    }

    /// The list as the library's text.
    pub(crate) fn into_text(self, limits: &Limits) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Text(text) => Ok(text),
            Self::List(list) => text_of(&list, limits),
        }
    }
}

fn append(builder: &mut NodeListBuilder, list: &NodeList) -> Result<(), pmix_map::Error> {
    list.runs().try_for_each(|run| match run {
        NodeRun::Name(name) => builder.name(name),
        NodeRun::Progression(run) => builder.progression(&run),
    })
}

pub(super) fn of_limits(error: pmix_map::Error) -> Failure {
    Failure::of(&preg_core::Error::from(error), "the list", b"")
}

/// Expands a list to text, unless that would exceed the limits.
pub(crate) fn text_of(list: &NodeList, limits: &Limits) -> Result<Vec<u8>, Failure> {
    let len = text_len(list);
    if len > limits.max_bytes {
        return Err(of_limits(pmix_map::Error::limit(
            "bytes of names",
            limits.max_bytes,
        )));
    }
    let mut text = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
    list.write_text(b',', &mut text);
    Ok(text)
}

/// The bytes of the expanded list, separators included.
pub(crate) fn text_len(list: &NodeList) -> u64 {
    let lens = list.runs().map(|run| match run {
        NodeRun::Name(name) => (name.len(), 1),
        NodeRun::Progression(run) => (run.prefix.len() + run.width + run.suffix.len(), run.count),
    });
    lens.fold(0, |sum: u64, (len, count)| {
        let each = u64::try_from(len).unwrap_or(u64::MAX).saturating_add(1);
        sum.saturating_add(each.saturating_mul(count))
    })
}
