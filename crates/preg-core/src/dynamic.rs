// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loaded components: conversion of a C table into a [`Scheme`] and of a [`Scheme`] into a C table.
//!
//! A loaded component is not trusted. Before a value that it encoded is used, the component must
//! return the length of the value and decode it, and the result must equal the encoded list. A
//! violation of the interface causes one warning with the name of the file, and the next component
//! is used. `docs/plugins.md` lists the faults that no check in the same process can prevent: abort,
//! endless loops, writes to memory of the host.
//!
//! Source: this project; `docs/plugins.md` defines the C table.

#![allow(unsafe_code)]

pub(crate) mod check;
pub mod export;
mod fault;
mod module;
mod sink;
mod verify;

use pmix_mca::abi::Transform;
use pmix_mca::{LoadFault, Loaded, Params, Refusal};

use crate::{
    Error, Extent, Limits, NodeList, ProcMap, Regex2, Regex2Ref, Scheme, Status, Terminator,
};
use fault::{Fault, Reporter};
use module::{Damage, Module};
use verify::Form;

/// The version of the preg interface, repeated in `include/pmix_plugin.h`.
pub const INTERFACE_VERSION: u32 = 1;

/// Opens a file as a preg component.
pub(crate) fn load(path: &std::path::Path) -> Result<Loaded, Refusal> {
    pmix_mca::load(path, "preg", INTERFACE_VERSION)
}

/// Returns the reason to reject a component, if another one already uses its name, tag or regex2
/// type.
pub(crate) fn collision(
    loaded: &Loaded,
    others: &[(Occupied<'_>, String)],
) -> Result<(), LoadFault> {
    for (other, owner) in others {
        let tags = [loaded.tag.as_slice(), other.tag];
        let kind = loaded
            .kind
            .as_deref()
            .filter(|kind| other.claims_kind(kind));
        let (what, value) = if loaded.name == other.name {
            ("name", loaded.name.clone())
        } else if !other.tag.is_empty()
            && (tags[0].starts_with(tags[1]) || tags[1].starts_with(tags[0]))
        {
            ("tag", String::from_utf8_lossy(&loaded.tag).into_owned())
        } else if let Some(kind) = kind {
            ("regex2 type", kind.to_owned())
        } else {
            continue;
        };
        return Err(LoadFault::Taken {
            what,
            value,
            owner: owner.clone(),
        });
    }
    Ok(())
}

/// The names that an existing component uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occupied<'a> {
    pub(crate) name: &'a str,
    pub(crate) tag: &'a [u8],
    pub(crate) kind: Option<&'a str>,
}

impl Occupied<'_> {
    /// Returns `true` if the component uses the regex2 type `kind`: as its type, its name, or its
    /// tag without punctuation. The type of a disabled built-in component is unknown, but it equals
    /// its name or its tag.
    fn claims_kind(&self, kind: &str) -> bool {
        self.kind == Some(kind) || self.name == kind || framing(self.tag) == kind
    }
}

/// Returns a tag without the punctuation at its end.
fn framing(tag: &[u8]) -> String {
    let in_word = |b: &u8| b.is_ascii_alphanumeric() || b"-_".contains(b);
    let word = tag.split(|b| !in_word(b)).next().unwrap_or(tag);
    String::from_utf8_lossy(word).into_owned()
}

/// A loaded component as a scheme.
pub(crate) struct Dynamic {
    module: Module,
    loaded: Loaded,
    framing: String,
    limits: Limits,
    reporter: Reporter,
}

/// Creates the scheme of a loaded component. Returns `None` if it cannot work here.
pub(crate) fn scheme(
    loaded: &Loaded,
    params: &Params,
    limits: &Limits,
) -> Result<Option<Dynamic>, String> {
    let _guard = pmix_mca::ExitGuard::new(&loaded.path);
    let module = Module::query(loaded, params).map_err(|fault| fault.to_string())?;
    Ok(module.map(|module| Dynamic {
        module,
        framing: framing(&loaded.tag),
        reporter: Reporter::new(loaded.path.clone()),
        limits: *limits,
        loaded: loaded.clone(),
    }))
}

/// Creates a scheme from a C table in this program, linked or built by a test. Its results are
/// checked like those of a loaded plugin.
///
/// # Errors
/// The component's `query` violates the interface.
///
/// # Safety
/// The functions of `loaded` follow the rules of `include/pmix_plugin.h` for memory: they read and
/// write their arguments within bounds, and do not unwind.
pub unsafe fn adapt(
    loaded: &Loaded,
    params: &Params,
    limits: &Limits,
) -> Result<Option<Box<dyn Scheme>>, Error> {
    match scheme(loaded, params, limits) {
        Ok(made) => Ok(made.map(|scheme| -> Box<dyn Scheme> { Box::new(scheme) })),
        Err(why) => Err(Error::new(
            Status::ERR_NOT_SUPPORTED,
            format!("query: {why}"),
        )),
    }
}

impl Dynamic {
    fn decode(
        &self,
        slot: Option<Transform>,
        value: &[u8],
        bound: u64,
    ) -> Result<Option<Vec<u8>>, Damage> {
        let answer = self.module.transform(slot, value, bound, &self.limits);
        Damage::of(answer)
    }

    fn extent(&self, bytes: &[u8]) -> Result<Option<Extent>, Damage> {
        let Some(slot) = self.module.operations().legacy_len else {
            return Ok(Some(Extent::of_text(bytes)));
        };
        let extent = Damage::of(self.module.measure(slot, bytes, &self.limits))?;
        // The framework rejects lengths beyond the buffer.
        let plausible = |extent: &Extent| {
            let text = extent.terminator == Terminator::Nul;
            extent.len >= self.loaded.tag.len()
                && (!text || extent.len > bytes.len() || *extent == Extent::of_text(bytes))
        };
        match extent {
            Some(extent) if !plausible(&extent) => Err(Damage::Broken(Fault::WrongExtent {
                says: extent.len,
                has: Extent::of_text(bytes).len,
            })),
            other => Ok(other),
        }
    }

    fn generate(&self, form: Form, list: &[u8]) -> Option<Vec<u8>> {
        self.try_generate(form, list).unwrap_or_else(|fault| {
            self.reporter.tell(form.generator(), &fault);
            None
        })
    }

    /// Returns the error for the caller, and logs a violation of the interface.
    fn damage(&self, operation: &str, damage: Damage) -> Error {
        match damage {
            Damage::Value(error) => error,
            Damage::Broken(Fault::TooMuch(limit)) => Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!(
                    "more than {limit} bytes of decoded text; raise the limit if this is meant"
                ),
            ),
            Damage::Broken(fault) => {
                self.reporter.tell(operation, &fault);
                Error::new(
                    Status::ERR_NOT_SUPPORTED,
                    format!(
                        "plugin {} cannot decode this: {fault}",
                        self.loaded.path.display()
                    ),
                )
            }
        }
    }

    /// Decodes a value in string form into list text.
    fn parse(
        &self,
        operation: &str,
        slot: Option<Transform>,
        value: &[u8],
        limits: &Limits,
    ) -> Result<Option<Vec<u8>>, Error> {
        if !value.starts_with(&self.loaded.tag) {
            return Ok(None);
        }
        let answer = self.module.transform(slot, value, limits.max_text, limits);
        Damage::of(answer).map_err(|damage| self.damage(operation, damage))
    }
}

/// Converts an error about decoded text. Its offset is dropped, because it is not an offset in the
/// value.
fn decoded(error: &pmix_map::Error) -> Error {
    Error::new(
        error.status(),
        format!("in the decoded text: {}", error.message()),
    )
}

impl Scheme for Dynamic {
    fn name(&self) -> &str {
        &self.loaded.name
    }

    fn tag(&self) -> &[u8] {
        &self.loaded.tag
    }

    fn framing(&self) -> &str {
        &self.framing
    }

    fn kind(&self) -> Option<&str> {
        self.loaded.kind.as_deref()
    }

    fn generate_regex(&self, list: &[u8]) -> Result<Option<Regex2>, Error> {
        let value = self.generate(Form::Regex, list);
        Ok(value.and_then(|bytes| Some(Regex2::new(self.kind()?, bytes))))
    }

    fn parse_regex(&self, regex: Regex2Ref<'_>, limits: &Limits) -> Result<Option<Vec<u8>>, Error> {
        if self.kind() != Some(regex.kind) {
            return Ok(None);
        }
        let slot = self.module.operations().parse_regex;
        let answer = self
            .module
            .transform(slot, regex.bytes, limits.max_text, limits);
        Damage::of(answer).map_err(|damage| self.damage("parse_regex", damage))
    }

    fn generate_node_regex(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.generate(Form::Nodes, list))
    }

    fn generate_ppn(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.generate(Form::Procs, list))
    }

    fn parse_nodes(&self, regex: &[u8], limits: &Limits) -> Result<Option<NodeList>, Error> {
        let slot = self.module.operations().parse_nodes;
        let text = self.parse("parse_nodes", slot, regex, limits)?;
        let list = text.map(|text| NodeList::parse_text(&text, limits));
        list.transpose().map_err(|e| decoded(&e))
    }

    fn parse_procs(&self, regex: &[u8], limits: &Limits) -> Result<Option<ProcMap>, Error> {
        let slot = self.module.operations().parse_procs;
        let text = self.parse("parse_procs", slot, regex, limits)?;
        let map = text.map(|text| ProcMap::parse_text(&text, limits));
        map.transpose().map_err(|e| decoded(&e))
    }

    fn legacy_len(&self, bytes: &[u8]) -> Result<Option<Extent>, Error> {
        if !bytes.starts_with(&self.loaded.tag) {
            return Ok(None);
        }
        self.extent(bytes)
            .map_err(|damage| self.damage("legacy_len", damage))
    }
}
