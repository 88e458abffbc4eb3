// SPDX-License-Identifier: MIT OR Apache-2.0
//! The raw scheme: the list as it is, behind a tag.
//!
//! It always succeeds, so it is the encoder of last resort and the baseline of the contest for
//! the smallest value. The string form is `raw:` and the list; the [`Regex2`] form is the list and
//! one NUL, which its length counts (OpenPMIx `regex.rst`, "raw").
#![forbid(unsafe_code)]

use preg_core::{
    Component, Error, Explanation, Extent, Limits, NodeList, Params, ProcMap, Regex2, Regex2Ref,
    Registration, Scheme,
};

/// The component's description.
pub static COMPONENT: Component = Component {
    name: NAME,
    priority: 50,
    enabled: true,
    tag: TAG,
    about: "the list as it is, behind a tag",
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
        (!list.contains(&0)).then(|| [TAG, list].concat())
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

    fn parse_regex(&self, regex: Regex2Ref<'_>, _: &Limits) -> Result<Option<Vec<u8>>, Error> {
        Ok((regex.kind == NAME).then(|| regex.bytes[..Extent::of_text(regex.bytes).len].to_vec()))
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

    fn legacy_len(&self, bytes: &[u8]) -> Result<Option<Extent>, Error> {
        Ok(bytes.starts_with(TAG).then(|| Extent::of_text(bytes)))
    }

    fn explain(&self, value: &[u8]) -> Option<Explanation> {
        let text = value.strip_prefix(TAG)?;
        let mut explanation = Explanation::default();
        explanation.field(0..TAG.len(), "tag", "scheme raw: the list follows as it is");
        explanation.field(
            TAG.len()..value.len(),
            "list",
            format!("{} bytes of text", text.len()),
        );
        Some(explanation)
    }
}
