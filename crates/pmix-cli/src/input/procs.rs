// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process maps from any input.
//!
//! Every `;` and every newline ends a node, and each argument begins one. The newline at the end of
//! the input does not begin another node. Blanks separate ranks like commas. Empty nodes are kept.

use pmix_map::{Limits, ProcMap, ProcMapBuilder};
use preg_core::{Preg, Regex2Ref};

use super::detect::{Segment, Value, segments};

use super::source::{Form, Source, of_limits};
use crate::failure::Failure;

/// A process map, as text or folded like its input.
#[derive(Debug)]
pub(crate) enum Procs {
    /// Text in the library's form, and its origin.
    Text(Vec<u8>, Origin),
    /// A folded map.
    Map(ProcMap),
}

/// The origin of a text.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    name: String,
    /// The original text, if it has several lines, for the line number in errors.
    lines: Option<Vec<u8>>,
}

impl From<&str> for Origin {
    fn from(name: &str) -> Self {
        let (name, lines) = (name.to_owned(), None);
        Self { name, lines }
    }
}

/// Expands sources into nodes, and joins them.
pub(crate) fn read_procs(preg: &Preg, sources: Vec<Source>) -> Result<Procs, Failure> {
    let mut found = Vec::new();
    for source in sources {
        for segment in segments(preg, source)? {
            found.push(match segment {
                Segment::Exact(text) => Procs::Text(text, "the decoded input".into()),
                Segment::Value(value) => Procs::Map(of_value(preg, &value)?),
                Segment::List(source) if source.form != Form::Map => {
                    let message = format!("{} describes nodes, not a process map", source.origin);
                    let cure = "use it as the node map, with --layout for the ranks on its slots";
                    return Err(Failure::usage(message).cure(cure));
                }
                Segment::List(source) => of_text(source),
            });
        }
    }
    Procs::join(found, preg.limits())
}

/// Decodes values, and joins them to one process map.
pub(crate) fn decode_procs(preg: &Preg, values: &[Value]) -> Result<Procs, Failure> {
    let maps = values.iter().map(|v| of_value(preg, v).map(Procs::Map));
    Procs::join(maps.collect::<Result<_, _>>()?, preg.limits())
}

fn of_value(preg: &Preg, value: &Value) -> Result<ProcMap, Failure> {
    match &value.kind {
        None => preg.parse_procs(&value.bytes),
        Some(kind) => preg.resolve_procs(Regex2Ref {
            kind,
            bytes: &value.bytes,
        }),
    }
    .map_err(|e| Failure::of(&e, &value.origin, &value.bytes))
}

/// Rewrites text in the library's form.
///
/// Only replaces bytes, so that an offset in the result is an offset in the input.
pub(crate) fn of_text(source: Source) -> Procs {
    let mut text = source.bytes;
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    let origin = Origin {
        name: source.origin,
        lines: memchr::memchr(b'\n', &text).map(|_| text.clone()),
    };
    if source.comments {
        blank_comments(&mut text);
    }
    let mut last = b';';
    let mut gap = None;
    for at in 0..text.len() {
        match text[at] {
            b'\n' => {
                text[at] = b';';
                (last, gap) = (b';', None);
            }
            byte if byte.is_ascii_whitespace() => {
                text[at] = b' ';
                gap.get_or_insert(at);
            }
            byte => {
                if let Some(gap) = gap.take()
                    && last.is_ascii_digit()
                    && byte.is_ascii_digit()
                {
                    text[gap] = b',';
                }
                last = byte;
            }
        }
    }
    Procs::Text(text, origin)
}

/// Overwrites comments with blanks. A line with only a comment is not a node.
fn blank_comments(text: &mut Vec<u8>) {
    let (mut start, mut last_alone) = (0, false);
    while start < text.len() {
        let end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |n| start + n);
        let hash = memchr::memchr(b'#', &text[start..end]);
        last_alone = false;
        if let Some(hash) = hash {
            last_alone = text[start..start + hash].trim_ascii().is_empty();
            let stop = if last_alone {
                (end + 1).min(text.len())
            } else {
                end
            };
            text[start + hash..stop].fill(b' ');
        }
        start = end + 1;
    }
    if last_alone {
        // The newline before the comment is now the end of the last line.
        let len = text
            .iter()
            .rposition(|b| *b == b'\n' || !b.is_ascii_whitespace());
        text.truncate(len.map_or(0, |n| n + 1));
        if text.last() == Some(&b'\n') {
            text.pop();
        }
    }
}

impl Procs {
    fn join(mut found: Vec<Self>, limits: &Limits) -> Result<Self, Failure> {
        if found.len() <= 1 {
            let nothing = || Self::Text(Vec::new(), Origin::default());
            return Ok(found.pop().unwrap_or_else(nothing));
        }
        if found.iter().all(|part| matches!(part, Self::Text(..))) {
            let mut joined = Vec::new();
            for (index, part) in found.into_iter().enumerate() {
                if let Self::Text(text, _) = part {
                    joined.extend_from_slice(if index > 0 { b";" } else { b"" });
                    joined.extend_from_slice(&text);
                }
            }
            return Ok(Self::Text(joined, "the arguments, joined by `;`".into()));
        }
        let mut builder = ProcMapBuilder::new(limits);
        for part in found {
            append(&mut builder, &part.into_map(limits)?).map_err(of_limits)?;
        }
        Ok(Self::Map(builder.finish()))
    }

    /// Returns the folded map.
    pub(crate) fn into_map(self, limits: &Limits) -> Result<ProcMap, Failure> {
        match self {
            Self::Map(map) => Ok(map),
            Self::Text(text, origin) => parse(&text, &origin, limits),
        }
    }

    /// Returns the map as text in the library's form, with expanded ranks, which every peer can
    /// parse.
    pub(crate) fn into_text(self, limits: &Limits) -> Result<Vec<u8>, Failure> {
        let map = match self {
            Self::Text(text, origin) => {
                let map = parse(&text, &origin, limits)?;
                if memchr::memchr2(b'-', b' ', &text).is_none() {
                    return Ok(text);
                }
                map
            }
            Self::Map(map) => map,
        };
        text_of_procs(&map, limits)
    }
}

/// Returns the map as text with expanded ranks, unless that would exceed the limits.
pub(crate) fn text_of_procs(map: &ProcMap, limits: &Limits) -> Result<Vec<u8>, Failure> {
    limits.check_text(map.text_len()).map_err(of_limits)?;
    let mut text = Vec::new();
    map.write_text(&mut text);
    Ok(text)
}

fn parse(text: &[u8], origin: &Origin, limits: &Limits) -> Result<ProcMap, Failure> {
    ProcMap::parse_text(text, limits).map_err(|e| {
        let shown = origin.lines.as_deref().unwrap_or(text);
        Failure::of(&preg_core::Error::from(e), &origin.name, shown).or_cure(
            "a process map looks like 0-3;4-7: ranks separated by commas, nodes by semicolons",
        )
    })
}

fn append(builder: &mut ProcMapBuilder, map: &ProcMap) -> Result<(), pmix_map::Error> {
    for node in 0..map.num_nodes() {
        for run in map.runs_of(node).unwrap_or_default() {
            builder.run(run)?;
        }
        builder.end_node()?;
    }
    Ok(())
}
