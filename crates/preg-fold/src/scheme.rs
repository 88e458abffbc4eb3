// SPDX-License-Identifier: MIT OR Apache-2.0
//! The component and its scheme.

use preg_core::{
    Component, Error, Explanation, Limits, NodeList, Params, ProcMap, Regex2, Regex2Ref,
    Registration, Scheme,
};

use crate::expand::{TextSink, expand};
use crate::format::{FOLDED, STORED};
use crate::nodes::NodeSink;
use crate::parse::Parser;
use crate::procs::ProcSink;

/// The description of the component.
///
/// Off by default: no other implementation parses this form.
pub static COMPONENT: Component = Component {
    name: NAME,
    priority: 110,
    enabled: false,
    tag: TAG,
    about: "lists as nested counters; read by this implementation only",
    params: &[],
    query,
};

preg_core::inventory::submit! { Registration(&COMPONENT) }

const NAME: &str = "fold";
const TAG: &[u8] = b"fold:";

fn query(_: &Params) -> Result<Option<Box<dyn Scheme>>, Error> {
    Ok(Some(Box::new(Fold)))
}

struct Fold;

/// The content of a value by its version.
enum Body<'a> {
    Stored(&'a [u8]),
    Folded(&'a [u8]),
}

/// Returns the content of a value. Rejects a NUL, because the string form ends at the first NUL.
fn body(value: &[u8]) -> Result<Body<'_>, Error> {
    if let Some(nul) = memchr::memchr(0, value) {
        return Err(Error::damaged(
            nul,
            "a NUL byte, which the string form cannot contain",
        ));
    }
    match value.split_first() {
        Some((&STORED, list)) => Ok(Body::Stored(list)),
        Some((&FOLDED, _)) => Ok(Body::Folded(value)),
        Some((other, _)) => Err(Error::damaged(
            0,
            format!(
                "expected the version, 0 or 1, found \"{}\"; a newer writer made this value",
                other.escape_ascii()
            ),
        )),
        None => Err(Error::damaged(0, "expected the version, found the end")),
    }
}

fn parse_nodes(value: &[u8], limits: &Limits) -> Result<NodeList, Error> {
    match body(value)? {
        Body::Stored(list) => Ok(NodeList::parse_text(list, limits)?),
        Body::Folded(value) => {
            let mut sink = NodeSink::new(value, limits);
            expand(value, 1, &mut sink)?;
            sink.finish()
        }
    }
}

fn parse_procs(value: &[u8], limits: &Limits) -> Result<ProcMap, Error> {
    match body(value)? {
        Body::Stored(list) => {
            ProcMap::parse_text(list, limits).map_err(|e| Error::from(e).shifted(1))
        }
        Body::Folded(value) => {
            let mut sink = ProcSink::new(limits);
            expand(value, 1, &mut sink)?;
            sink.finish()
        }
    }
}

fn parse_text(value: &[u8], limits: &Limits) -> Result<Vec<u8>, Error> {
    match body(value)? {
        Body::Stored(list) => {
            let len = u64::try_from(list.len()).unwrap_or(u64::MAX);
            if len > limits.max_text {
                return Err(pmix_map::Error::limit("bytes of text", limits.max_text).into());
            }
            Ok(pmix_types::memory::copy(list)?)
        }
        Body::Folded(value) => {
            let mut sink = TextSink::new(limits);
            expand(value, 1, &mut sink)?;
            Ok(sink.out)
        }
    }
}

/// Adds the fields of a value that begins at offset `base` of the explained bytes.
fn explain_value(value: &[u8], base: usize, explanation: &mut Explanation) {
    let mut inner = Explanation::default();
    match body(value) {
        Ok(Body::Stored(list)) => {
            inner.field(0..1, "version", "0: the list follows as it is");
            let meaning = format!("{} bytes of text", list.len());
            inner.field(1..value.len(), "list", meaning);
        }
        Ok(Body::Folded(_)) => {
            inner.field(0..1, "version", "1: items of templates, loops and joints");
            let mut parser = Parser::new(value, 1, Some(&mut inner));
            let fault = loop {
                match parser.next_item() {
                    Ok(Some(_)) => {}
                    Ok(None) => break None,
                    Err(fault) => break Some(fault),
                }
            };
            inner.fault = fault;
        }
        Err(fault) => inner.fault = Some(fault),
    }
    for mut field in inner.fields {
        field.range = field.range.start + base..field.range.end + base;
        explanation.fields.push(field);
    }
    explanation.fault = inner.fault.map(|f| f.shifted(base));
}

impl Scheme for Fold {
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
        Ok(crate::encode::encode(list).map(|bytes| Regex2::new(NAME, bytes)))
    }

    fn parse_regex(&self, regex: Regex2Ref<'_>, limits: &Limits) -> Result<Option<Vec<u8>>, Error> {
        let ours = regex.kind == NAME;
        ours.then(|| parse_text(regex.bytes, limits)).transpose()
    }

    fn regex_nodes(
        &self,
        regex: Regex2Ref<'_>,
        limits: &Limits,
    ) -> Result<Option<NodeList>, Error> {
        let ours = regex.kind == NAME;
        ours.then(|| parse_nodes(regex.bytes, limits)).transpose()
    }

    fn regex_procs(&self, regex: Regex2Ref<'_>, limits: &Limits) -> Result<Option<ProcMap>, Error> {
        let ours = regex.kind == NAME;
        ours.then(|| parse_procs(regex.bytes, limits)).transpose()
    }

    fn generate_node_regex(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(crate::encode::encode(list).map(|bytes| [TAG, &bytes].concat()))
    }

    fn generate_ppn(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.generate_node_regex(list)
    }

    fn parse_nodes(&self, regex: &[u8], limits: &Limits) -> Result<Option<NodeList>, Error> {
        regex
            .strip_prefix(TAG)
            .map(|value| parse_nodes(value, limits).map_err(|e| e.shifted(TAG.len())))
            .transpose()
    }

    fn parse_procs(&self, regex: &[u8], limits: &Limits) -> Result<Option<ProcMap>, Error> {
        regex
            .strip_prefix(TAG)
            .map(|value| parse_procs(value, limits).map_err(|e| e.shifted(TAG.len())))
            .transpose()
    }

    fn explain(&self, value: &[u8]) -> Option<Explanation> {
        let rest = value.strip_prefix(TAG)?;
        let mut explanation = Explanation::default();
        explanation.field(0..TAG.len(), "tag", "scheme fold");
        explain_value(rest, TAG.len(), &mut explanation);
        Some(explanation)
    }

    fn explain_regex(&self, regex: Regex2Ref<'_>) -> Option<Explanation> {
        let mut explanation = Explanation::default();
        (regex.kind == NAME).then(|| explain_value(regex.bytes, 0, &mut explanation))?;
        Some(explanation)
    }
}
