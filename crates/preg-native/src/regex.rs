// SPDX-License-Identifier: MIT OR Apache-2.0
//! The regex2 form: the same text with one NUL that the length includes, as in the raw form.
//!
//! A regex2 does not contain the kind of its map. A request to encode or to expand a regex2 does
//! not contain it either. Text of digits, `,`, `-`, blanks and `;` is treated as a process map,
//! other text as a node map. A list that could be both, with different results, is declined.

use pmix_map::{Error as MapError, Limits};
use pmix_types::memory;
use preg_core::Error;

use crate::grammar::{self, TAG};
use crate::{nodes, parse, procs};

/// Encodes a list, and returns the value without its NUL. Returns `None` if the form cannot
/// represent the list, or if the list is ambiguous.
pub(crate) fn generate(list: &[u8]) -> Option<Vec<u8>> {
    if !procs::looks_like_ranks(list) {
        return nodes::generate(list);
    }
    list.contains(&b';').then(|| procs::generate(list))?
}

/// Decodes a value to list text with expanded ranges.
///
/// # Errors
/// The value is damaged or exceeds the limits.
pub(crate) fn expand(text: &[u8], limits: &Limits) -> Result<Vec<u8>, Error> {
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
