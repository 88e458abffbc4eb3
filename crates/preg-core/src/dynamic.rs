// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loaded components: a C table made into a [`Scheme`], and a [`Scheme`] made into a C table.
//!
//! Nothing that a loaded component says is believed. A value it encodes is measured and decoded
//! by its own decoder and compared with the list before it is used; a breach of the interface is
//! one warning that names the file, and the next component answers. What no check in the same
//! process can guard against (abort, endless loops, writes to foreign memory) is listed in
//! `docs/plugins.md`.

#![allow(unsafe_code)]

pub(crate) mod check;
pub mod export;
mod fault;
mod module;
mod sink;

use pmix_mca::{LoadFault, Loaded, Params, Refusal};

use crate::{
    Error, Extent, Limits, NodeList, ProcMap, Regex2, Regex2Ref, Scheme, Status, Terminator,
};
use fault::{Fault, Reporter};
use module::{Answer, Module};

/// The version of the preg interface: stated here, pasted into `include/pmix_plugin.h`.
pub const INTERFACE_VERSION: u32 = 1;

/// Opens a file as a preg component.
pub(crate) fn load(path: &std::path::Path) -> Result<Loaded, Refusal> {
    pmix_mca::load(path, "preg", INTERFACE_VERSION)
}

/// Refuses a component that is called, tagged or typed like one that is there.
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

/// What a component that is already there lays claim to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occupied<'a> {
    pub(crate) name: &'a str,
    pub(crate) tag: &'a [u8],
    pub(crate) kind: Option<&'a str>,
}

impl Occupied<'_> {
    /// A component has its regex2 type, its name, and the word of its tag: a built-in one that is
    /// switched off is not asked for its type, and its type is one of these words.
    fn claims_kind(&self, kind: &str) -> bool {
        self.kind == Some(kind) || self.name == kind || framing(self.tag) == kind
    }
}

/// A tag as a word: without the sign at its end.
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

/// Makes the scheme of a loaded component; `None` if it cannot work here.
pub(crate) fn scheme(
    loaded: &Loaded,
    params: &Params,
    limits: &Limits,
) -> Result<Option<Dynamic>, String> {
    let module = Module::query(loaded, params).map_err(|fault| fault.to_string())?;
    Ok(module.map(|module| Dynamic {
        module,
        framing: framing(&loaded.tag),
        reporter: Reporter::new(loaded.path.clone()),
        limits: *limits,
        loaded: loaded.clone(),
    }))
}

/// What of an encoder is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Nodes,
    Procs,
    Regex,
}

impl Form {
    pub(crate) fn generator(self) -> &'static str {
        match self {
            Self::Nodes => "generate_node_regex",
            Self::Procs => "generate_ppn",
            Self::Regex => "generate_regex",
        }
    }
}

impl Dynamic {
    /// Encodes and verifies; a fault is what would be warned about.
    pub(crate) fn try_generate(&self, form: Form, list: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let operations = self.module.operations();
        let slot = match form {
            Form::Nodes => operations.generate_node_regex,
            Form::Procs => operations.generate_ppn,
            Form::Regex => operations.generate_regex.filter(|_| self.kind().is_some()),
        };
        // A list that is no process map has nothing to compare an answer with.
        let map = match form {
            Form::Procs if slot.is_some() => match ProcMap::parse_text(list, &self.limits) {
                Ok(map) => Some(map),
                Err(_) => return Ok(None),
            },
            _ => None,
        };
        let bound = len_u64(list).saturating_mul(4).saturating_add(1 << 16);
        let value = match self.module.transform(slot, list, bound, &self.limits) {
            Answer::Done(value) => value,
            Answer::Declined => return Ok(None),
            Answer::Failed(status, text, _) => return Err(Fault::EncoderFailed(status, text)),
            Answer::Broken(fault) => return Err(fault),
        };
        match map {
            Some(map) => self.verify_procs(&map, &value)?,
            None if form == Form::Regex => {
                self.verify_text(operations.parse_regex, list, &value)?
            }
            None => {
                self.verify_frame(&value)?;
                self.verify_text(operations.parse_nodes, list, &value)?;
            }
        }
        Ok(Some(value))
    }

    /// A value must begin with the tag and reach exactly as far as its bytes.
    fn verify_frame(&self, value: &[u8]) -> Result<(), Fault> {
        if !value.starts_with(&self.loaded.tag) {
            return Err(Fault::WrongTag);
        }
        let extent = self
            .extent(value)
            .map_err(|e| e.into_fault(Fault::Undecodable))?;
        let says = extent.map_or(0, |extent| extent.len);
        if says != value.len() {
            return Err(Fault::WrongExtent {
                says,
                has: value.len(),
            });
        }
        Ok(())
    }

    /// The text of a value must be the list, byte for byte.
    fn verify_text(
        &self,
        slot: Option<pmix_plugin_abi::Transform>,
        list: &[u8],
        value: &[u8],
    ) -> Result<(), Fault> {
        let bound = len_u64(list).saturating_add(1 << 16);
        match self.decode(slot, value, bound) {
            Ok(Some(text)) if text == list => Ok(()),
            Ok(Some(text)) => Err(Fault::OtherList(difference(list, &text))),
            Ok(None) => Err(Fault::Undecodable("its own decoder declines it".to_owned())),
            Err(e) => Err(e.into_fault(Fault::Undecodable)),
        }
    }

    /// A process map may be written in other words, but its ranks must be the same.
    fn verify_procs(&self, map: &ProcMap, value: &[u8]) -> Result<(), Fault> {
        self.verify_frame(value)?;
        let slot = self.module.operations().parse_procs;
        let text = match self.decode(slot, value, self.limits.max_bytes) {
            Ok(Some(text)) => text,
            Ok(None) => return Err(Fault::Undecodable("its own decoder declines it".to_owned())),
            Err(e) => return Err(e.into_fault(Fault::Undecodable)),
        };
        let found = ProcMap::parse_text(&text, &self.limits)
            .map_err(|e| Fault::Undecodable(e.to_string()))?;
        if found == *map {
            return Ok(());
        }
        let nodes = [map.num_nodes(), found.num_nodes()];
        let ranks = [map.num_ranks(), found.num_ranks()];
        Err(Fault::OtherList(format!(
            "{} ranks on {} nodes became {} ranks on {} nodes{}",
            ranks[0],
            nodes[0],
            ranks[1],
            nodes[1],
            if ranks[0] == ranks[1] {
                " in other places"
            } else {
                ""
            }
        )))
    }

    fn decode(
        &self,
        slot: Option<pmix_plugin_abi::Transform>,
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
        // Bytes beyond the buffer are the framework's business.
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

    /// An error for the caller; a breach is also told.
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

    /// Decodes a value of the string form into list text.
    fn parse(
        &self,
        operation: &str,
        slot: Option<pmix_plugin_abi::Transform>,
        value: &[u8],
        limits: &Limits,
    ) -> Result<Option<Vec<u8>>, Error> {
        if !value.starts_with(&self.loaded.tag) {
            return Ok(None);
        }
        let answer = self.module.transform(slot, value, limits.max_bytes, limits);
        Damage::of(answer).map_err(|damage| self.damage(operation, damage))
    }
}

/// Why a decoder gave no text.
#[derive(Debug)]
enum Damage {
    /// The value is damaged.
    Value(Error),
    /// The component is.
    Broken(Fault),
}

impl Damage {
    fn of<T>(answer: Answer<T>) -> Result<Option<T>, Self> {
        match answer {
            Answer::Done(done) => Ok(Some(done)),
            Answer::Declined => Ok(None),
            Answer::Broken(fault) => Err(Self::Broken(fault)),
            Answer::Failed(status, text, offset) => {
                let text = if text.is_empty() {
                    status.text().to_owned()
                } else {
                    text
                };
                let error = Error::new(status, text);
                Err(Self::Value(match offset {
                    Some(offset) => error.at(offset),
                    None => error,
                }))
            }
        }
    }

    /// The fault of an encoder whose own value brought this about.
    fn into_fault(self, wrap: impl Fn(String) -> Fault) -> Fault {
        match self {
            Self::Value(error) => wrap(error.to_string()),
            Self::Broken(Fault::TooMuch(_)) => wrap("it is longer than the list".to_owned()),
            Self::Broken(fault) => fault,
        }
    }
}

/// Where two lists part, for a message.
fn difference(list: &[u8], found: &[u8]) -> String {
    let same = list.iter().zip(found).take_while(|(a, b)| a == b).count();
    let start = list[..same]
        .iter()
        .rposition(|b| *b == b',')
        .map_or(0, |at| at + 1);
    let shown = |text: &[u8]| {
        let rest = text.get(start..).unwrap_or_default();
        let name = rest.split(|b| *b == b',').next().unwrap_or_default();
        String::from_utf8_lossy(&name[..name.len().min(40)]).into_owned()
    };
    format!(
        "{:?} became {:?} at byte {start}",
        shown(list),
        shown(found)
    )
}

/// An error in decoded text, whose offsets mean nothing in the value.
fn decoded(error: &pmix_map::Error) -> Error {
    Error::new(
        error.status(),
        format!("in the decoded text: {}", error.message()),
    )
}

fn len_u64(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
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
            .transform(slot, regex.bytes, limits.max_bytes, limits);
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
