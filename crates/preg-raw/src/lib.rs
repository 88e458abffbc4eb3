// SPDX-License-Identifier: MIT OR Apache-2.0
//! The raw scheme: the verbatim list after a tag.
//!
//! It accepts every list without a NUL and is thus the encoder of last resort and the baseline for
//! the smallest value. The string form is `raw:` and the list. The [`Regex2`] form is the list and
//! one NUL, which its length includes (OpenPMIx `regex.rst`, "raw").
#![forbid(unsafe_code)]

use preg_core::{
    Component, Error, Explanation, Extent, Limits, NodeList, Params, ProcMap, Regex2, Regex2Ref,
    Registration, Scheme,
};

/// The description of the component.
pub static COMPONENT: Component = Component {
    name: NAME,
    priority: 50,
    enabled: true,
    tag: TAG,
    about: "the verbatim list after a tag",
    params: &[],
    query,
};

preg_core::inventory::submit! { Registration(&COMPONENT) }

const NAME: &str = "raw";
const TAG: &[u8] = b"raw:";

fn query(_: &Params) -> Result<Option<Box<dyn Scheme>>, Error> {
    Ok(Some(Box::new(Raw)))
}

struct Raw;

impl Raw {
    fn tagged(list: &[u8]) -> Option<Vec<u8>> {
        // A NUL would end the value early in every reader.
        //
        // DEVIATION: OpenPMIx adds no tag to a list that already begins with it, so a first name
        // `raw:…` loses it; here the tag is always added;
        // `a_name_that_begins_like_the_tag_is_kept`.
        (!list.contains(&0)).then(|| [TAG, list].concat())
    }

    /// Returns the list of a value of this type. The NUL may be missing, but nothing may follow it.
    ///
    /// DEVIATION: OpenPMIx relies on the NUL and drops bytes after it; here the length decides;
    /// `what_follows_the_nul_is_refused`.
    fn text(regex: Regex2Ref<'_>) -> Result<&[u8], Error> {
        let end = Extent::of_text(regex.bytes).len;
        match regex.bytes.split_at_checked(end) {
            Some((text, [] | [0])) => Ok(text),
            _ => Err(Error::damaged(
                end + 1,
                "bytes follow the NUL that ends the list",
            )),
        }
    }
}

impl Scheme for Raw {
    fn name(&self) -> &str {
        NAME
    }

    fn tag(&self) -> &[u8] {
        TAG
    }

    fn framing(&self) -> &str {
        NAME
    }

    fn kind(&self) -> Option<&str> {
        Some(NAME)
    }

    fn generate_regex(&self, list: &[u8]) -> Result<Option<Regex2>, Error> {
        Ok((!list.contains(&0)).then(|| Regex2::new(NAME, [list, b"\0"].concat())))
    }

    fn parse_regex(&self, regex: Regex2Ref<'_>, limits: &Limits) -> Result<Option<Vec<u8>>, Error> {
        if regex.kind != NAME {
            return Ok(None);
        }
        let text = Self::text(regex)?;
        if u64::try_from(text.len()).map_or(true, |len| len > limits.max_text) {
            return Err(pmix_map::Error::limit("bytes of text", limits.max_text).into());
        }
        Ok(Some(pmix_types::memory::copy(text)?))
    }

    fn generate_node_regex(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(Self::tagged(list))
    }

    fn generate_ppn(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(Self::tagged(list))
    }

    fn parse_nodes(&self, regex: &[u8], limits: &Limits) -> Result<Option<NodeList>, Error> {
        let Some(text) = regex.strip_prefix(TAG) else {
            return Ok(None);
        };
        Ok(Some(NodeList::parse_text(text, limits)?))
    }

    fn parse_procs(&self, regex: &[u8], limits: &Limits) -> Result<Option<ProcMap>, Error> {
        let Some(text) = regex.strip_prefix(TAG) else {
            return Ok(None);
        };
        ProcMap::parse_text(text, limits)
            .map(Some)
            .map_err(|e| Error::from(e).shifted(TAG.len()))
    }

    fn explain(&self, value: &[u8]) -> Option<Explanation> {
        let text = value.strip_prefix(TAG)?;
        let mut explanation = Explanation::default();
        explanation.field(0..TAG.len(), "tag", "scheme raw: the verbatim list follows");
        explanation.field(
            TAG.len()..value.len(),
            "list",
            format!("{} bytes of text", text.len()),
        );
        Some(explanation)
    }
    fn explain_regex(&self, regex: Regex2Ref<'_>) -> Option<Explanation> {
        if regex.kind != NAME {
            return None;
        }
        let end = Extent::of_text(regex.bytes).len;
        let mut explanation = Explanation::default();
        explanation.field(0..end, "list", format!("{end} bytes of text"));
        if end < regex.bytes.len() {
            explanation.field(end..end + 1, "end", "the NUL that the length counts");
        }
        explanation.fault = Self::text(regex).err();
        Some(explanation)
    }
}

#[cfg(test)]
mod tests;
