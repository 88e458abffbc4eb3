// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detection of encoded values and list text.
//!
//! The framework knows the tags of all components: a tag at the start of an argument or a line
//! begins a value. Values can also be hexadecimal or base64 text, or the JSON of `pmix map encode
//! --json`.

use preg_core::{Preg, Terminator};

use super::source::{Form, Source};
use crate::excerpt::Excerpt;
use crate::failure::Failure;
use crate::octets;

/// The byte order mark that some editors put before UTF-8 text.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// An encoded value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// The type, if the value is a regex2.
    pub(crate) kind: Option<String>,
    /// The bytes. A value in string form has no terminating NUL.
    pub(crate) bytes: Vec<u8>,
    /// The origin of the value, for messages.
    pub(crate) origin: String,
}

/// A part of a source.
#[derive(Debug)]
pub(crate) enum Segment {
    /// An encoded value.
    Value(Value),
    /// List text, to be split and expanded.
    List(Source),
    /// A list in the library's form: names separated by commas, without brackets.
    Exact(Vec<u8>),
}

/// Splits a source into values and list text.
pub(crate) fn segments(preg: &Preg, mut source: Source) -> Result<Vec<Segment>, Failure> {
    if source.comments && source.bytes.starts_with(MARK) {
        source.bytes.drain(..MARK.len());
    }
    if source.form != Form::Map {
        return Ok(vec![Segment::List(source)]);
    }
    let body = source.bytes.trim_ascii();
    if body.first() == Some(&b'{') {
        return json(preg, body, &source.origin);
    }
    if let Some(bytes) = coded(preg, body, &source)? {
        return Ok(vec![owned(preg, bytes, source.origin)]);
    }
    let start = source.bytes.len() - source.bytes.trim_ascii_start().len();
    if next_tag(preg, &source.bytes, start).is_none() {
        if pmix_hostlist::has_slots(&source.bytes) {
            source.form = Form::Hostfile;
        }
        return Ok(vec![Segment::List(source)]);
    }
    Ok(lines(preg, &source, start))
}

/// Reads every source as a value of this type, without a tag.
pub(crate) fn tagged_values(kind: &str, sources: Vec<Source>) -> Result<Vec<Value>, Failure> {
    let mut values = Vec::new();
    for source in sources {
        let body = source.bytes.trim_ascii();
        let bytes = match explicit(body, &source)? {
            Some(bytes) => bytes,
            None => match octets::unhex(body) {
                Ok(bytes) if !body.is_empty() => bytes,
                _ => without_line_end(source.bytes),
            },
        };
        values.push(Value {
            kind: Some(kind.to_owned()),
            bytes,
            origin: source.origin,
        });
    }
    Ok(values)
}

fn without_line_end(mut text: Vec<u8>) -> Vec<u8> {
    let is_text = !text
        .iter()
        .any(|b| b.is_ascii_control() && *b != b'\n' && *b != b'\r');
    if is_text {
        text.truncate(text.trim_ascii_end().len());
    }
    text
}

/// Returns decoded bytes as a value if they have a tag, otherwise as a list.
fn owned(preg: &Preg, bytes: Vec<u8>, origin: String) -> Segment {
    if preg.tag_owner(&bytes).is_none() {
        return Segment::Exact(bytes);
    }
    Segment::Value(Value {
        kind: None,
        bytes,
        origin,
    })
}

/// Decodes `hex:` and `base64:`.
fn explicit(body: &[u8], source: &Source) -> Result<Option<Vec<u8>>, Failure> {
    type Decode = fn(&[u8]) -> Result<Vec<u8>, usize>;
    let forms: [(&[u8], &str, Decode); 2] = [
        (b"hex:", "hexadecimal", octets::unhex),
        (b"base64:", "base64", octets::unbase64),
    ];
    for (prefix, what, decode) in forms {
        if let Some(digits) = body.strip_prefix(prefix) {
            let packed = packed(digits);
            return decode(&packed).map(Some).map_err(|at| {
                let message = match packed.get(at) {
                    Some(_) => format!("not a {what} digit"),
                    None => format!("the {what} text ends with an incomplete byte"),
                };
                let place = Excerpt::new(&source.origin, body, prefix.len() + at);
                let cure = match what {
                    "hexadecimal" => "a byte has two digits of 0-9 and a-f",
                    _ => "base64 has A-Z, a-z, 0-9, +, / and = at the end",
                };
                Failure::data(message).at(place).cure(cure)
            });
        }
    }
    Ok(None)
}

/// Decodes the bytes after `hex:` or `base64:`, or plain digits that decode to a value.
fn coded(preg: &Preg, body: &[u8], source: &Source) -> Result<Option<Vec<u8>>, Failure> {
    if let Some(bytes) = explicit(body, source)? {
        return Ok(Some(bytes));
    }
    // Decodes only as many digits as the longest tag needs, because names may look like digits.
    let head = &body[..body.len().min(64)];
    for decode in [octets::unhex, octets::unbase64] {
        if decode(head).is_ok_and(|bytes| preg.tag_owner(&bytes).is_some())
            && let Ok(bytes) = decode(&packed(body))
        {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

fn packed(digits: &[u8]) -> Vec<u8> {
    let mut packed = digits.to_vec();
    packed.retain(|b| !b.is_ascii_whitespace());
    packed
}

/// Parses consecutive outputs of `encode --json`.
fn json(preg: &Preg, body: &[u8], origin: &str) -> Result<Vec<Segment>, Failure> {
    let mut found = Vec::new();
    let mut stream = serde_json::Deserializer::from_slice(body).into_iter::<serde_json::Value>();
    while let Some(item) = stream.next() {
        let at = stream.byte_offset();
        let fail = |message: &str| {
            Failure::data(message)
                .at(Excerpt::new(origin, body, at))
                .cure("expected an encoded value, {\"form\":…,\"type\":…,\"bytes_hex\":…}")
        };
        let item = item.map_err(|_| fail("invalid JSON"))?;
        let text = |key: &str| item.get(key).and_then(serde_json::Value::as_str);
        let bytes = text("bytes_hex")
            .and_then(|digits| octets::unhex(digits.as_bytes()).ok())
            .ok_or_else(|| fail("the JSON object has no hexadecimal `bytes_hex`"))?;
        found.push(match (text("form"), text("type")) {
            (Some("regex2"), Some(kind)) => Segment::Value(Value {
                kind: Some(kind.to_owned()),
                bytes,
                origin: origin.to_owned(),
            }),
            _ => owned(preg, bytes, origin.to_owned()),
        });
    }
    Ok(found)
}

/// Returns the start of the next line with a tag, from the line start `from` on.
fn next_tag(preg: &Preg, text: &[u8], from: usize) -> Option<usize> {
    if preg.tag_owner(&text[from..]).is_some() {
        return Some(from);
    }
    preg.tags()
        .filter_map(|tag| {
            let line = [b"\n", tag].concat();
            memchr::memmem::find(&text[from..], &line).map(|at| from + at + 1)
        })
        .min()
}

/// Splits text with at least one line that begins with a tag.
fn lines(preg: &Preg, source: &Source, start: usize) -> Vec<Segment> {
    let text = &source.bytes[..];
    let mut found = Vec::new();
    let mut at = start;
    while at < text.len() {
        let next = next_tag(preg, text, at).unwrap_or(text.len());
        if next > at {
            found.push(Segment::List(Source {
                origin: source.origin.clone(),
                bytes: text[at..next].to_vec(),
                comments: source.comments,
                form: Form::Map,
            }));
        }
        if next == text.len() {
            break;
        }
        let len = value_len(preg, &text[next..]);
        found.push(Segment::Value(Value {
            kind: None,
            bytes: text[next..next + len].to_vec(),
            origin: source.origin.clone(),
        }));
        at = next + len;
        at += usize::from(text.get(at) == Some(&0));
        at += text[at..]
            .iter()
            .take_while(|b| b.is_ascii_whitespace())
            .count();
    }
    found
}

/// Returns the length of the value at the start of a text: a line, or the length that its scheme
/// reports.
fn value_len(preg: &Preg, text: &[u8]) -> usize {
    match preg.scheme_of(text) {
        Ok(Some((_, extent))) if extent.terminator == Terminator::None => {
            let ends = text.get(extent.len).is_none_or(u8::is_ascii_whitespace);
            // If other bytes follow directly, they are treated as part of the value, so that its
            // scheme reports the error.
            if ends { extent.len } else { text.len() }
        }
        Ok(_) => {
            let end = memchr::memchr2(b'\n', 0, text).unwrap_or(text.len());
            text[..end].trim_ascii_end().len()
        }
        Err(_) => text.len(),
    }
}
