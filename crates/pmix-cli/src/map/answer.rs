// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encoding and decoding with the framework, or with a single scheme.

use preg_core::{Error, Preg, Regex2Ref, Scheme, Status};

use super::list::Map;
use crate::args::FormArg;

/// The word that selects the framework instead of a single scheme.
pub(super) const AUTO: &str = "auto";

/// An encoded value of either form.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) form: FormArg,
    /// The framing of a value in string form, or the type of a regex2.
    pub(super) kind: String,
    pub(super) bytes: Vec<u8>,
}

/// Encodes a list.
pub(super) fn encode(
    preg: &Preg,
    scheme: &str,
    form: FormArg,
    procs: bool,
    list: &[u8],
) -> Result<Encoded, Error> {
    if scheme != AUTO {
        return encode_by(named(preg, scheme)?, form, procs, list);
    }
    let (kind, bytes) = match form {
        FormArg::Regex2 => {
            let value = preg.generate_regex(list)?;
            (value.kind, value.bytes)
        }
        FormArg::String => {
            let value = match procs {
                true => preg.generate_ppn(list),
                false => preg.generate_node_regex(list),
            }?;
            (value.framing, value.bytes)
        }
    };
    Ok(Encoded { form, kind, bytes })
}

/// Encodes a list with a single scheme.
pub(super) fn encode_by(
    scheme: &dyn Scheme,
    form: FormArg,
    procs: bool,
    list: &[u8],
) -> Result<Encoded, Error> {
    let answer = match (form, procs) {
        (FormArg::Regex2, _) => scheme
            .generate_regex(list)
            .map(|v| v.map(|v| (v.kind, v.bytes))),
        (FormArg::String, true) => scheme.generate_ppn(list).map(|v| framed(scheme, v)),
        (FormArg::String, false) => scheme.generate_node_regex(list).map(|v| framed(scheme, v)),
    };
    match answer.map_err(|e| e.from_scheme(scheme.name()))? {
        Some((kind, bytes)) => Ok(Encoded { form, kind, bytes }),
        None => Err(declined(scheme, "this list in this form")),
    }
}

fn framed(scheme: &dyn Scheme, value: Option<Vec<u8>>) -> Option<(String, Vec<u8>)> {
    value.map(|bytes| (scheme.framing().to_owned(), bytes))
}

/// Decodes a value. With a type, the value is a regex2.
pub(super) fn decode(
    preg: &Preg,
    scheme: &str,
    kind: Option<&str>,
    procs: bool,
    bytes: &[u8],
) -> Result<Map, Error> {
    if scheme != AUTO {
        let scheme = named(preg, scheme)?;
        let mine = match kind {
            Some(kind) => scheme.kind() == Some(kind),
            None => bytes.starts_with(scheme.tag()),
        };
        if !mine {
            return Err(declined(scheme, "this value"));
        }
    }
    Ok(match (kind, procs) {
        (Some(kind), true) => preg.resolve_procs(Regex2Ref { kind, bytes })?.into(),
        (Some(kind), false) => preg.resolve_nodes(Regex2Ref { kind, bytes })?.into(),
        (None, true) => preg.parse_procs(bytes)?.into(),
        (None, false) => preg.parse_nodes(bytes)?.into(),
    })
}

fn declined(scheme: &dyn Scheme, what: &str) -> Error {
    let message = format!("declines {what}");
    Error::new(Status::ERR_TAKE_NEXT_OPTION, message).from_scheme(scheme.name())
}

/// Returns the scheme of that name, whether it is active or not.
fn named<'a>(preg: &'a Preg, name: &str) -> Result<&'a dyn Scheme, Error> {
    if let Some(module) = preg.module(name) {
        return Ok(&*module.scheme);
    }
    if let Some(component) = preg.components().iter().find(|c| c.name == name) {
        let why = component.decision.excluded.as_ref();
        let why = why.map_or("its component did not create a scheme", |(why, _)| {
            why.as_str()
        });
        let message = format!("scheme {name:?} is not available: {why}");
        return Err(Error::new(Status::ERR_NOT_SUPPORTED, message));
    }
    let known: Vec<_> = preg.modules().iter().map(|m| m.scheme.name()).collect();
    let message = format!(
        "unknown scheme {name:?}, expected one of {AUTO}, {}",
        known.join(", ")
    );
    Err(Error::new(Status::ERR_NOT_FOUND, message))
}
