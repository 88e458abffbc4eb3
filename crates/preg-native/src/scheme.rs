// SPDX-License-Identifier: MIT OR Apache-2.0
//! The component and its scheme.

use memchr::memchr;
use pmix_types::{Regex2, Regex2Ref};
use preg_core::{
    Component, Error, Explanation, Limits, NodeList, ParamSpec, Params, ProcMap, Registration,
    Scheme,
};

use crate::grammar::TAG;
use crate::{explain, nodes, parse, procs, regex};

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
        Ok(regex::generate(list).map(|mut text| {
            text.push(0);
            Regex2::new(KIND, text)
        }))
    }

    fn parse_regex(&self, regex: Regex2Ref<'_>, limits: &Limits) -> Result<Option<Vec<u8>>, Error> {
        text_of(regex).map_or(Ok(None), |text| regex::expand(text, limits).map(Some))
    }

    fn regex_nodes(
        &self,
        regex: Regex2Ref<'_>,
        limits: &Limits,
    ) -> Result<Option<NodeList>, Error> {
        let Some(text) = text_of(regex) else {
            return Ok(None);
        };
        regex::tagged(parse::nodes(text, limits)?).map(Some)
    }

    fn regex_procs(&self, regex: Regex2Ref<'_>, limits: &Limits) -> Result<Option<ProcMap>, Error> {
        let Some(text) = text_of(regex) else {
            return Ok(None);
        };
        regex::tagged(procs::parse(text, limits)?).map(Some)
    }

    fn expands_text(&self) -> bool {
        true
    }

    fn generate_node_regex(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(nodes::generate(list))
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
                fault: regex::tagged::<()>(None).err(),
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
