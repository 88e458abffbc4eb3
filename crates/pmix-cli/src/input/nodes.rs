// SPDX-License-Identifier: MIT OR Apache-2.0
//! Node maps from any input.

use pmix_hostlist::{Allocation, Notation, Slots};
use pmix_map::{Limits, NodeList, NodeListBuilder, NodeRun};
use preg_core::{Preg, Regex2Ref};

use super::detect::{Segment, Value, segments};
use super::source::{Form, Source, of_limits, of_list};
use super::{flux, separators};
use crate::failure::Failure;

/// A node map, as text where it came as text and folded where it came folded.
#[derive(Debug)]
pub(crate) enum Nodes {
    /// Names separated by commas.
    Text(Vec<u8>),
    /// A folded list.
    List(Box<NodeList>),
}

/// Spreads sources into names and joins them.
pub(crate) fn read_nodes(preg: &Preg, sources: Vec<Source>) -> Result<Nodes, Failure> {
    let mut found = Vec::new();
    for source in sources {
        found.append(&mut segments(preg, source)?);
    }
    for index in 1..found.len() {
        if let Ok([Segment::List(left), Segment::List(right)]) =
            found.get_disjoint_mut([index - 1, index])
        {
            separators::join(left, right);
        }
    }
    let found = found.into_iter().map(|segment| of_segment(preg, segment));
    Nodes::join(found.collect::<Result<_, _>>()?, preg.limits())
}

/// Reads one source as a node map, and the slots of the nodes if it tells them.
pub(super) fn read_slots(
    preg: &Preg,
    source: Source,
) -> Result<(NodeList, Option<Slots>), Failure> {
    let limits = preg.limits();
    let mut found = segments(preg, source)?;
    if let [Segment::List(source)] = &mut found[..]
        && source.form != Form::Map
    {
        let found = allocation(source, limits)?;
        return Ok((found.nodes, found.slots));
    }
    let found = found.into_iter().map(|segment| of_segment(preg, segment));
    let nodes = Nodes::join(found.collect::<Result<_, _>>()?, limits)?;
    Ok((nodes.into_list(limits)?, None))
}

/// Reads nodes with slots.
fn allocation(source: &Source, limits: &Limits) -> Result<Allocation, Failure> {
    let text = &source.bytes;
    match &source.form {
        Form::Slurm(None) => {
            let nodes =
                pmix_hostlist::parse_notation(text, source.comments, Notation::Slurm, limits);
            nodes.map(|nodes| Allocation { nodes, slots: None })
        }
        Form::Slurm(tasks) => pmix_hostlist::parse_slurm(text, tasks.as_deref(), limits),
        Form::FluxResources => return flux::read(source, limits),
        Form::McpuHosts => pmix_hostlist::parse_mcpu_hosts(text, limits),
        Form::Hostfile | Form::Map => pmix_hostlist::parse_hostfile(text, source.comments, limits),
    }
    .map_err(|error| of_list(&error, source))
}

/// Decodes values to one node map.
pub(crate) fn decode_nodes(preg: &Preg, values: &[Value]) -> Result<Nodes, Failure> {
    let lists = values.iter().map(|v| of_value(preg, v).map(Nodes::folded));
    Nodes::join(lists.collect::<Result<_, _>>()?, preg.limits())
}

fn of_segment(preg: &Preg, segment: Segment) -> Result<Nodes, Failure> {
    match segment {
        Segment::Exact(text) => Ok(Nodes::Text(text)),
        Segment::Value(value) => of_value(preg, &value).map(Nodes::folded),
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

/// Spreads list text into names.
pub(crate) fn of_text(mut source: Source, limits: &Limits) -> Result<Nodes, Failure> {
    if source.form != Form::Map {
        return allocation(&source, limits).map(|found| Nodes::folded(found.nodes));
    }
    if memchr::memchr2(b'[', b']', &source.bytes).is_some() {
        let read = match source.comments {
            true => pmix_hostlist::parse_file(&source.bytes, limits),
            false => pmix_hostlist::parse(&source.bytes, limits),
        };
        return read
            .map(Nodes::folded)
            .map_err(|error| of_list(&error, &source));
    }
    pmix_hostlist::normalise(&mut source.bytes, source.comments);
    Ok(Nodes::Text(source.bytes))
}

impl Nodes {
    fn folded(list: NodeList) -> Self {
        Self::List(Box::new(list))
    }

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
        Ok(Self::folded(builder.finish()))
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::List(list) => list.is_empty(),
        }
    }

    /// Returns the folded list.
    pub(crate) fn into_list(self, limits: &Limits) -> Result<NodeList, Failure> {
        match self {
            Self::List(list) => Ok(*list),
            Self::Text(text) => NodeList::parse_text(&text, limits).map_err(of_limits),
        }
    }

    /// Returns the list as the library's text.
    pub(crate) fn into_text(self, limits: &Limits) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Text(text) => Ok(text),
            Self::List(list) => text_of(&list, limits),
        }
    }
}

fn append(builder: &mut NodeListBuilder, list: &NodeList) -> Result<(), pmix_map::Error> {
    let mut result = Ok(());
    list.for_each_run(|run| {
        if result.is_ok() {
            result = match run {
                NodeRun::Name(name) => builder.name(name),
                NodeRun::Progression(run) => builder.progression(&run),
            };
        }
    });
    result
}

/// Expands a list to text, unless that would exceed the limits.
pub(crate) fn text_of(list: &NodeList, limits: &Limits) -> Result<Vec<u8>, Failure> {
    limits.check_text(list.text_len()).map_err(of_limits)?;
    let mut text = Vec::with_capacity(list.text_len());
    list.write_text(b',', &mut text);
    Ok(text)
}
