// SPDX-License-Identifier: MIT OR Apache-2.0
//! Node maps from any input, including several arguments as one list and the resources of a Flux job.

use pmix_hostlist::{Allocation, Notation, Slots, is_blank};
use pmix_map::{Limits, NodeList, NodeListBuilder, NodeRun};
use preg_core::{Preg, Regex2Ref};
use serde::Deserialize;

use super::detect::{Segment, Value, segments};
use super::expression::Expressions;
use super::source::{Form, Source, of_limits, of_list};
use crate::excerpt::Excerpt;
use crate::failure::Failure;

/// A node map, as text or folded like its input.
#[derive(Debug)]
pub(crate) enum Nodes {
    /// Names separated by commas.
    Text(Vec<u8>),
    /// A folded list.
    List(Box<NodeList>),
}

/// Expands sources into names, and joins them.
pub(crate) fn read_nodes(preg: &Preg, sources: Vec<Source>) -> Result<Nodes, Failure> {
    let mut found = Vec::new();
    for source in sources {
        found.append(&mut segments(preg, source)?);
    }
    for index in 1..found.len() {
        if let Ok([Segment::List(left), Segment::List(right)]) =
            found.get_disjoint_mut([index - 1, index])
        {
            join_separated(left, right);
        }
    }
    let found = found.into_iter().map(|segment| of_segment(preg, segment));
    Nodes::join(found.collect::<Result<_, _>>()?, preg.limits())
}

/// Reads one source as a node map, with the slots of the nodes if it has them.
pub(crate) fn read_slots(
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
pub(crate) fn allocation(source: &Source, limits: &Limits) -> Result<Allocation, Failure> {
    let text = &source.bytes;
    match &source.form {
        Form::Slurm(None) => {
            let nodes =
                pmix_hostlist::parse_notation(text, source.comments, Notation::Slurm, limits);
            nodes.map(|nodes| Allocation { nodes, slots: None })
        }
        Form::Slurm(tasks) => pmix_hostlist::parse_slurm(text, tasks.as_deref(), limits),
        Form::FluxResources => return read_flux(source, limits),
        Form::Hosts => pmix_hostlist::parse_hosts(text, limits),
        Form::McpuHosts => pmix_hostlist::parse_mcpu_hosts(text, limits),
        Form::Hostfile | Form::Map => pmix_hostlist::parse_hostfile(text, source.comments, limits),
    }
    .map_err(|error| of_list(&error, source))
}

/// Decodes values, and joins them to one node map.
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
    .map_err(|e| {
        Failure::of(&e, &value.origin, &value.bytes)
            .or_cure("`pmix map explain VALUE` shows the value byte by byte, `pmix plugins list` the schemes")
    })
}

/// Expands list text into names.
pub(crate) fn of_text(mut source: Source, limits: &Limits) -> Result<Nodes, Failure> {
    if source.form != Form::Map {
        return allocation(&source, limits).map(|found| Nodes::folded(found.nodes));
    }
    let typed = is_typed(&source);
    if typed && let Some(list) = Expressions::new(limits).list(&source)? {
        return Ok(Nodes::folded(list));
    }
    warn_of_notations(&source, typed);
    if typed {
        warn_of_empty_names(&source);
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

/// Returns `true` if a user typed the source as an argument. Only a user types operators and groups. Files and requests
/// of programs contain names.
fn is_typed(source: &Source) -> bool {
    let begins = ["argument ", "list ", "--", "the names"];
    !source.comments && begins.iter().any(|begin| source.origin.starts_with(begin))
}

/// Warns of notations of other programs that are parts of names here: operators and groups in files and on standard
/// input, and patterns anywhere.
fn warn_of_notations(source: &Source, is_typed: bool) {
    let origin = &source.origin;
    let is_rare = |byte: &u8| {
        matches!(byte, b'!' | b'&' | b'^' | b'@' | b'*' | b'?' | b'{')
            || is_typed && matches!(byte, b'<' | b'(' | b';' | b'|')
    };
    if !source.bytes.iter().any(is_rare) {
        return;
    }
    for line in source.bytes.split(|byte| *byte == b'\n') {
        let words = line.split(|byte| *byte == b',' || is_blank(*byte));
        for word in words.take_while(|word| !(source.comments && word.starts_with(b"#"))) {
            let is_group = word.len() > 1 && word.starts_with(b"@");
            let shown = word.escape_ascii();
            if !is_typed && (is_group || memchr::memchr3(b'!', b'&', b'^', word).is_some()) {
                tracing::warn!(
                    "{origin}: `{shown}` is a name here; only an argument can have groups and the operators of nodeset"
                );
                return;
            }
            if !is_group && memchr::memchr3(b'*', b'?', b'{', word).is_some() {
                tracing::warn!(
                    "{origin}: `{shown}` is a name here, not a pattern; `pmix map decode LIST | grep` selects names"
                );
                return;
            }
            if is_typed && memchr::memchr2(b'<', b'(', word).is_some() {
                tracing::warn!("{origin}: `{shown}` is a name here, not a range; write n[1-3]");
                return;
            }
            if is_typed && memchr::memchr2(b';', b'|', word).is_some() {
                tracing::warn!(
                    "{origin}: `{shown}` is one name here; commas and blanks separate names"
                );
                return;
            }
        }
    }
}

/// Warns of groups and operators in a list of Slurm that a user typed. Slurm has neither, so they are parts of names.
pub(crate) fn warn_of_names_of_slurm(source: &Source) {
    let words = source.bytes.split(|byte| *byte == b',' || is_blank(*byte));
    let has_operator =
        |word: &&[u8]| word.starts_with(b"@") || memchr::memchr3(b'!', b'&', b'^', word).is_some();
    if is_typed(source)
        && let Some(word) = words.into_iter().find(has_operator)
    {
        tracing::warn!(
            "{}: `{}` is a name for Slurm; leave out `--from slurm` for groups and the operators of nodeset",
            source.origin,
            word.escape_ascii()
        );
    }
}

/// Warns of empty names, which are nodes here and errors for nodeset.
fn warn_of_empty_names(source: &Source) {
    let text = source.bytes.trim_ascii();
    let mut parts = text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    if text.contains(&b',') && parts.any(<[u8]>::is_empty) {
        let (origin, shown) = (&source.origin, text.escape_ascii().to_string());
        let shown: String = shown.chars().take(60).collect();
        tracing::warn!(
            "{origin}: a comma of `{shown}` has no name beside it, which counts as a node with an empty name; leave out that comma"
        );
    }
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

    /// Returns the list as text in the library's form.
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

// The nodes and cores of a Flux job, from its resource set R.
//
// Source: Flux RFC 20 (resource set, version 1), RFC 22 (sets of numbers) and RFC 29 (lists of
// hosts). The hosts of `nodelist` belong to the ranks in ascending order. The order of the ranks in
// `R_lite` does not matter.

/// A resource set of Flux: the fields with the nodes and cores of a job.
#[derive(Deserialize)]
struct ResourceSet {
    version: u32,
    execution: Execution,
}

#[derive(Deserialize)]
struct Execution {
    #[serde(rename = "R_lite")]
    entries: Vec<ResourceEntry>,
    nodelist: Vec<String>,
}

/// The resources of some brokers of the instance. Each broker is a node.
#[derive(Deserialize)]
struct ResourceEntry {
    rank: String,
    children: Children,
}

#[derive(Deserialize)]
struct Children {
    core: String,
}

/// Reads a resource set: its nodes in the order of their ranks, with a slot for each core.
pub(super) fn read_flux(source: &Source, limits: &Limits) -> Result<Allocation, Failure> {
    let text = &source.bytes;
    let set: ResourceSet = serde_json::from_slice(text).map_err(|error| {
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let before: usize = lines
            .take(error.line().saturating_sub(1))
            .map(<[u8]>::len)
            .sum();
        let at = (before + error.column().saturating_sub(1)).min(text.len());
        Failure::data(format!("not a Flux resource set: {error}"))
            .at(Excerpt::new(&source.origin, text, at))
            .cure("`flux job info JOBID R` and `flux kvs get resource.R` print one")
    })?;
    let Execution { entries, nodelist } = set.execution;
    let fault = |why: String| {
        let origin = &source.origin;
        Failure::data(format!("the resource set in {origin} {why}"))
    };
    if set.version != 1 {
        let version = set.version;
        return Err(fault(format!(
            "has version {version}; only version 1 is supported"
        )));
    }
    let mut runs = Vec::new();
    for entry in &entries {
        let cores = numbers(&entry.children.core);
        let cores = cores.map(|runs| runs.iter().map(|(first, last)| last - first + 1).sum());
        let cores: u64 = cores.ok_or_else(|| fault(no_set(&entry.children.core)))?;
        let slots = u32::try_from(cores).map_err(|_| fault(no_set(&entry.children.core)))?;
        let ranks = numbers(&entry.rank).ok_or_else(|| fault(no_set(&entry.rank)))?;
        runs.extend(ranks.into_iter().map(|(first, last)| (first, last, slots)));
    }
    runs.sort_unstable();
    if let Some(pair) = runs.windows(2).find(|pair| pair[0].1 >= pair[1].0) {
        return Err(fault(format!("has rank {} twice", pair[1].0)));
    }
    let nodelist = Source {
        origin: format!("nodelist in {}", source.origin),
        bytes: nodelist.join(",").into_bytes(),
        ..source.clone()
    };
    limits.check_text(nodelist.bytes.len()).map_err(of_limits)?;
    let nodes = pmix_hostlist::parse(&nodelist.bytes, limits);
    let nodes = nodes.map_err(|error| of_list(&error, &nodelist))?;
    let slots: Slots = (runs.iter())
        .map(|(first, last, slots)| (*slots, last - first + 1))
        .collect();
    if slots.num_nodes() != nodes.len() as u64 {
        let (hosts, ranks) = (nodes.len(), slots.num_nodes());
        return Err(fault(format!("names {hosts} hosts for {ranks} ranks")));
    }
    Ok(Allocation {
        nodes,
        slots: Some(slots),
    })
}

fn no_set(text: &str) -> String {
    format!("has {text:?}, expected numbers and ranges like 0-3,8")
}

/// Parses a set of numbers, `0-3,8` or `[0-3,8]`, into ranges with both ends included. Returns `None` for
/// other text, and for numbers that are not in ascending order.
fn numbers(text: &str) -> Option<Vec<(u64, u64)>> {
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for range in inner.unwrap_or(text).split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<u32>().ok().map(u64::from);
        let (first, last) = (number(first)?, number(last)?);
        if first > last || runs.last().is_some_and(|(_, before)| *before >= first) {
            return None;
        }
        runs.push((first, last));
    }
    Some(runs)
}

/// Joins two arguments like one text with a blank between. If the first ends with a comma or the
/// second begins with one, no other separator is added.
pub(super) fn join_separated(left: &mut Source, right: &mut Source) {
    let is_map = |source: &Source| source.form == Form::Map;
    if left.comments || right.comments || !is_map(left) || !is_map(right) {
        return;
    }
    let ends = left.bytes.iter().rposition(|b| !is_blank(*b));
    let starts = right.bytes.iter().position(|b| !is_blank(*b));
    let (Some(end), Some(start)) = (ends, starts) else {
        return;
    };
    if left.bytes[end] != b',' {
        if right.bytes[start] == b',' {
            right.bytes[start] = b' ';
            if right.bytes.iter().all(|b| is_blank(*b)) {
                left.bytes.push(b',');
            }
        }
        return;
    }
    left.bytes[end] = b' ';
    if left.bytes.iter().all(|b| is_blank(*b)) {
        // A single empty name has no text.
        right.bytes.insert(0, b',');
    }
}

#[cfg(test)]
mod tests {
    use pmix_hostlist::normalise;

    use super::*;

    fn normal(text: &str, comments: bool) -> String {
        let mut bytes = text.as_bytes().to_vec();
        normalise(&mut bytes, comments);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn arguments_read_like_one_text_with_a_blank_between() {
        let texts = [
            "a", "a,", ",a", ",a,", ",", ",,", " a , ", "a b,", " , ", "n[1-2],",
        ];
        for (left, right) in texts.iter().flat_map(|l| texts.map(|r| (*l, r))) {
            let source = |text: &str| Source {
                origin: String::new(),
                bytes: text.as_bytes().to_vec(),
                comments: false,
                form: Form::Map,
            };
            let (mut a, mut b) = (source(left), source(right));
            join_separated(&mut a, &mut b);
            normalise(&mut a.bytes, false);
            normalise(&mut b.bytes, false);
            let parts = [a.bytes, b.bytes];
            let parts: Vec<_> = parts.iter().filter(|p| !p.is_empty()).collect();
            let joined: Vec<u8> = parts
                .iter()
                .map(|p| p.as_slice())
                .collect::<Vec<_>>()
                .join(&b',');
            let expected = normal(&format!("{left} {right}"), false);
            assert_eq!(
                String::from_utf8_lossy(&joined),
                expected,
                "{left:?} {right:?}"
            );
        }
    }
}
