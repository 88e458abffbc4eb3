// SPDX-License-Identifier: MIT OR Apache-2.0
//! The component and its scheme: node maps, process maps and the regex2 form.

use memchr::memchr;
use pmix_map::Error as MapError;
use pmix_types::{Regex2, Regex2Ref, memory};
use preg_core::{
    Component, Error, Explanation, Limits, NodeList, ParamSpec, Params, ProcMap, Registration,
    Scheme,
};

use crate::block::Block;
use crate::grammar::{self, TAG};
use crate::{explain, groups, parse, procs};

/// The description of the component.
pub static COMPONENT: Component = Component {
    name: NAME,
    priority: 30,
    enabled: true,
    tag: TAG,
    about: "numbers of host names folded into ranges, as text",
    params: &[REGEX2],
    query,
};

preg_core::inventory::submit! { Registration(&COMPONENT) }

const NAME: &str = "native";

const KIND: &str = "pmix";

const REGEX2: ParamSpec = ParamSpec {
    name: "preg_native_regex2",
    default: "false",
    help: "write the regex2 form too, as type pmix; no OpenPMIx reads it (true or false)",
};

fn query(params: &Params) -> Result<Option<Box<dyn Scheme>>, Error> {
    Ok(Some(Box::new(Native {
        writes_regex2: params.flag(REGEX2.name, false)?,
    })))
}

struct Native {
    /// `true` if the scheme writes the regex2 form (`preg_native_regex2`).
    writes_regex2: bool,
}

impl Scheme for Native {
    fn name(&self) -> &str {
        NAME
    }

    fn tag(&self) -> &[u8] {
        TAG
    }

    fn framing(&self) -> &str {
        "pmix"
    }

    fn kind(&self) -> Option<&str> {
        Some(KIND)
    }

    fn generate_regex(&self, list: &[u8]) -> Result<Option<Regex2>, Error> {
        if !self.writes_regex2 {
            return Ok(None);
        }
        Ok(generate_regex(list).map(|mut text| {
            text.push(0);
            Regex2::new(KIND, text)
        }))
    }

    fn parse_regex(&self, regex: Regex2Ref<'_>, limits: &Limits) -> Result<Option<Vec<u8>>, Error> {
        text_of(regex).map_or(Ok(None), |text| expand_regex(text, limits).map(Some))
    }

    fn regex_nodes(
        &self,
        regex: Regex2Ref<'_>,
        limits: &Limits,
    ) -> Result<Option<NodeList>, Error> {
        let Some(text) = text_of(regex) else {
            return Ok(None);
        };
        tagged(parse::nodes(text, limits)?).map(Some)
    }

    fn regex_procs(&self, regex: Regex2Ref<'_>, limits: &Limits) -> Result<Option<ProcMap>, Error> {
        let Some(text) = text_of(regex) else {
            return Ok(None);
        };
        tagged(procs::parse(text, limits)?).map(Some)
    }

    fn expands_text(&self) -> bool {
        true
    }

    fn generate_node_regex(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(generate_nodes(list))
    }

    fn generate_ppn(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(procs::generate(list))
    }

    fn parse_nodes(&self, regex: &[u8], limits: &Limits) -> Result<Option<NodeList>, Error> {
        parse::nodes(regex, limits)
    }

    fn parse_procs(&self, regex: &[u8], limits: &Limits) -> Result<Option<ProcMap>, Error> {
        procs::parse(regex, limits)
    }

    fn explain(&self, value: &[u8]) -> Option<Explanation> {
        explain::explain(value)
    }

    fn explain_regex(&self, regex: Regex2Ref<'_>) -> Option<Explanation> {
        let text = text_of(regex)?;
        let mut explanation = match explain::explain(text) {
            Some(explanation) => explanation,
            None => Explanation {
                fault: tagged::<()>(None).err(),
                ..Explanation::default()
            },
        };
        if explanation.fault.is_none() && text.len() < regex.bytes.len() {
            explanation.field(
                text.len()..regex.bytes.len(),
                "terminator",
                "a NUL, counted by the length",
            );
        }
        Some(explanation)
    }
}

/// Returns the text of a regex2 up to its first NUL, if the regex2 has this scheme's type.
fn text_of(regex: Regex2Ref<'_>) -> Option<&[u8]> {
    let end = memchr(0, regex.bytes).unwrap_or(regex.bytes.len());
    (regex.kind == KIND).then(|| &regex.bytes[..end])
}

/// Encodes a node list, or returns `None` if the form cannot represent it.
///
/// This is so for the empty list, empty names, and names with `[`, `]` or NUL, which OpenPMIx would
/// reject or misread.
// DEVIATION: OpenPMIx lets a name join an earlier group across other names, which loses the order;
// here a group ends at the first other name; order_and_duplicates_survive
// DEVIATION: OpenPMIx folds only on the first number, and not at all if a name contains other bytes
// than letters and digits; names_fold_on_whichever_number_folds_best
pub(crate) fn generate_nodes(list: &[u8]) -> Option<Vec<u8>> {
    let mut out = TAG.to_vec();
    let mut block = Block::new(list);
    let mut ends = Vec::new();
    let mut at = 0;
    loop {
        at = block.read(at)?;
        block.last_steps(&mut ends);
        groups::write(&block, &ends, &mut out);
        if at > list.len() {
            break;
        }
        out.push(b',');
    }
    out.push(b']');
    Some(out)
}

// The regex2 form: the same text with one NUL that the length includes, as in the raw form.
//
// A regex2 does not contain the kind of its map. A request to encode or to expand a regex2 does
// not contain it either. Text of digits, `,`, `-`, blanks and `;` is treated as a process map,
// other text as a node map. A list that could be both, with different results, is declined.

/// Encodes a list, and returns the value without its NUL. Returns `None` if the form cannot
/// represent the list, or if the list is ambiguous.
pub(crate) fn generate_regex(list: &[u8]) -> Option<Vec<u8>> {
    if !procs::looks_like_ranks(list) {
        return generate_nodes(list);
    }
    list.contains(&b';').then(|| procs::generate(list))?
}

/// Decodes a value to list text with expanded ranges.
///
/// # Errors
/// The value is damaged or exceeds the limits.
pub(crate) fn expand_regex(text: &[u8], limits: &Limits) -> Result<Vec<u8>, Error> {
    let body = tagged(grammar::body(text)?)?;
    let mut out = Vec::new();
    if procs::looks_like_ranks(text.get(body).unwrap_or_default()) {
        write_procs(text, limits, &mut out)?;
    } else {
        let list = tagged(parse::nodes(text, limits)?)?;
        limits.check_text(list.text_len())?;
        memory::reserve_exact(&mut out, list.text_len())?;
        list.write_text(b',', &mut out);
    }
    Ok(out)
}

/// The maximum number of bytes of a rank and its comma.
const MAX_RANK: usize = 11;

fn write_procs(text: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Result<(), Error> {
    let map = tagged(procs::parse(text, limits)?)?;
    for node in 0..map.num_nodes() {
        memory::reserve(out, 1)?;
        if node > 0 {
            out.push(b';');
        }
        for (index, rank) in map.ranks_of(node).into_iter().flatten().enumerate() {
            memory::reserve(out, MAX_RANK)?;
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(rank.to_string().as_bytes());
            if u64::try_from(out.len()).map_or(true, |len| len > limits.max_text) {
                return Err(MapError::limit("bytes of text", limits.max_text).into());
            }
        }
    }
    Ok(())
}

/// Returns an error if the value has no tag. With this regex2 type, it is a damaged value and not
/// one of another scheme.
pub(crate) fn tagged<T>(parsed: Option<T>) -> Result<T, Error> {
    parsed.ok_or_else(|| {
        let tag = String::from_utf8_lossy(TAG);
        Error::damaged(0, format!("expected `{tag}`, with which this type begins"))
    })
}
