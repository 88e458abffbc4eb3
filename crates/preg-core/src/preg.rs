// SPDX-License-Identifier: MIT OR Apache-2.0
//! The framework: active schemes in priority order and the ten entry points.

use pmix_map::{Limits, NodeList, ProcMap};
use pmix_mca::{Decision, Header, Params};
use pmix_types::{Regex2, Regex2Ref, Status};

use crate::{Component, Error, Extent, LegacyRegex, Scheme, Terminator, Unpacked, Wire};

/// A scheme that runs, and what was decided about it.
pub struct Module {
    /// The scheme.
    pub scheme: Box<dyn Scheme>,
    /// Its priority, why it is excluded if it is, whether it reads.
    pub decision: Decision,
}

/// The preg framework, opened once and then immutable.
pub struct Preg {
    modules: Vec<Module>,
    tags: Vec<(Vec<u8>, String)>,
    limits: Limits,
}

impl Preg {
    /// Selects among the components by the parameters and makes their schemes.
    ///
    /// # Errors
    /// A setting that cannot be obeyed, or no component left; the message names the settings.
    pub fn open(params: &Params, components: &[&'static Component]) -> Result<Self, Error> {
        let headers: Vec<_> = components
            .iter()
            .map(|c| Header {
                name: c.name,
                priority: c.priority,
                enabled: c.enabled,
            })
            .collect();
        let selection = pmix_mca::select("preg", &headers, params)?;
        let mut modules = Vec::new();
        for index in selection.readers {
            if let Some(scheme) = (components[index].query)(params)? {
                modules.push(Module {
                    scheme,
                    decision: selection.decisions[index].clone(),
                });
            }
        }
        let tags = components
            .iter()
            .map(|c| (c.tag.to_vec(), c.name.to_owned()))
            .collect();
        Ok(Self {
            modules,
            tags,
            limits: Limits::default(),
        })
    }

    /// The modules, highest priority first, those that only read included.
    #[must_use]
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The limits that the parsers obey.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The same framework with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    fn active(&self) -> impl Iterator<Item = &dyn Scheme> {
        self.modules
            .iter()
            .filter(|m| m.decision.excluded.is_none())
            .map(|m| &*m.scheme)
    }

    fn readers(&self) -> impl Iterator<Item = &dyn Scheme> {
        self.modules
            .iter()
            .filter(|m| m.decision.excluded.is_none() || m.decision.parse)
            .map(|m| &*m.scheme)
    }

    /// The first answer of the given schemes.
    fn first<'a, T>(
        schemes: impl Iterator<Item = &'a dyn Scheme>,
        ask: impl Fn(&dyn Scheme) -> Result<Option<T>, Error>,
    ) -> Result<Option<(&'a dyn Scheme, T)>, Error> {
        for scheme in schemes {
            if let Some(answer) = ask(scheme).map_err(|e| e.from_scheme(scheme.name()))? {
                return Ok(Some((scheme, answer)));
            }
        }
        Ok(None)
    }

    /// Encodes a node list into the string form.
    ///
    /// The first active scheme that takes it wins; if none does, the list itself is the value.
    ///
    /// # Errors
    /// No scheme takes the list and, shipped as it is, a reader would take it for something else.
    pub fn generate_node_regex(&self, list: &[u8]) -> Result<LegacyRegex, Error> {
        self.generate_legacy(list, |s| s.generate_node_regex(list))
    }

    /// Encodes a process map into the string form; otherwise as [`Self::generate_node_regex`].
    ///
    /// # Errors
    /// As [`Self::generate_node_regex`].
    pub fn generate_ppn(&self, list: &[u8]) -> Result<LegacyRegex, Error> {
        self.generate_legacy(list, |s| s.generate_ppn(list))
    }

    fn generate_legacy(
        &self,
        list: &[u8],
        ask: impl Fn(&dyn Scheme) -> Result<Option<Vec<u8>>, Error>,
    ) -> Result<LegacyRegex, Error> {
        if let Some((scheme, bytes)) = Self::first(self.active(), ask)? {
            return Ok(LegacyRegex {
                framing: scheme.framing().to_owned(),
                bytes,
            });
        }
        self.refuse_tagged(list)?;
        Ok(LegacyRegex {
            framing: LegacyRegex::PLAIN.to_owned(),
            bytes: list.to_vec(),
        })
    }

    /// Decodes a node map of the string form; text that no scheme owns is split on commas.
    ///
    /// # Errors
    /// The value is damaged, exceeds the limits, or carries the tag of a scheme that may not read.
    pub fn parse_nodes(&self, regex: &[u8]) -> Result<NodeList, Error> {
        let value = Self::value_of(regex);
        if let Some((_, list)) =
            Self::first(self.readers(), |s| s.parse_nodes(value, &self.limits))?
        {
            return Ok(list);
        }
        self.refuse_tagged(value)?;
        Ok(NodeList::parse_text(value, &self.limits)?)
    }

    /// Decodes a process map of the string form; text that no scheme owns is split on semicolons.
    ///
    /// # Errors
    /// As [`Self::parse_nodes`].
    pub fn parse_procs(&self, regex: &[u8]) -> Result<ProcMap, Error> {
        let value = Self::value_of(regex);
        if let Some((_, map)) = Self::first(self.readers(), |s| s.parse_procs(value, &self.limits))?
        {
            return Ok(map);
        }
        self.refuse_tagged(value)?;
        Ok(ProcMap::parse_text(value, &self.limits)?)
    }

    /// How far the value at the front of `bytes` reaches, by the scheme that owns it.
    ///
    /// # Errors
    /// The value carries a scheme's tag and its length cannot be told.
    pub fn legacy_len(&self, bytes: &[u8]) -> Result<Option<Extent>, Error> {
        Ok(self.owner(bytes)?.map(|(_, extent)| extent))
    }

    fn owner(&self, bytes: &[u8]) -> Result<Option<(&dyn Scheme, Extent)>, Error> {
        let found = Self::first(self.readers(), |s| s.legacy_len(bytes))?;
        if let Some((scheme, extent)) = &found
            && extent.len > bytes.len()
        {
            return Err(Error::new(
                Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER,
                format!(
                    "the value says it has {} bytes, {} are there",
                    extent.len,
                    bytes.len()
                ),
            )
            .from_scheme(scheme.name()));
        }
        Ok(found)
    }

    /// Copies a value; the length of the copy counts the terminating NUL of the text forms.
    ///
    /// # Errors
    /// The value carries a scheme's tag and its length cannot be told.
    pub fn copy(&self, value: &[u8]) -> Result<Vec<u8>, Error> {
        let extent = self
            .legacy_len(value)?
            .unwrap_or_else(|| Extent::of_text(value));
        Ok(Self::terminated(value, extent))
    }

    /// What goes on the wire for a value.
    ///
    /// # Errors
    /// As [`Self::copy`].
    pub fn pack(&self, value: &[u8]) -> Result<Wire, Error> {
        Ok(match self.legacy_len(value)? {
            Some(extent) => Wire::Framed(Self::terminated(value, extent)),
            None => Wire::Text(value[..Extent::of_text(value).len].to_vec()),
        })
    }

    /// Reads the value at the front of a buffer.
    ///
    /// # Errors
    /// The value carries a scheme's tag and its length cannot be told or exceeds the buffer.
    pub fn unpack(&self, buffer: &[u8]) -> Result<Unpacked, Error> {
        let Some((scheme, extent)) = self.owner(buffer)? else {
            return Ok(Unpacked::Text);
        };
        if extent.wire_len() > buffer.len() {
            return Err(Error::new(
                Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER,
                "the buffer ends before the NUL that ends the value",
            )
            .at(buffer.len())
            .from_scheme(scheme.name()));
        }
        let framing = scheme.framing().to_owned();
        let bytes = buffer[..extent.len].to_vec();
        Ok(Unpacked::Framed(
            LegacyRegex { framing, bytes },
            extent.wire_len(),
        ))
    }

    /// Gives a value back; only the framework that a scheme's value came from may take it.
    ///
    /// # Errors
    /// `PMIX_ERR_BAD_PARAM` if no scheme owns the value.
    pub fn release(&self, value: LegacyRegex) -> Result<(), Error> {
        match self.legacy_len(&value.bytes)? {
            Some(_) => Ok(()),
            None => Err(Error::new(
                Status::ERR_BAD_PARAM,
                "no active scheme owns this value",
            )),
        }
    }

    /// Encodes a list into the [`Regex2`] form: every active scheme is asked, the smallest answer
    /// wins, and on a tie the higher priority stands.
    ///
    /// # Errors
    /// `PMIX_ERR_NOT_SUPPORTED` if no active scheme takes the list.
    pub fn generate_regex(&self, list: &[u8]) -> Result<Regex2, Error> {
        let mut best: Option<Regex2> = None;
        for scheme in self.active() {
            let answer = scheme
                .generate_regex(list)
                .map_err(|e| e.from_scheme(scheme.name()))?;
            if let Some(answer) = answer
                && best
                    .as_ref()
                    .is_none_or(|b| answer.bytes.len() < b.bytes.len())
            {
                best = Some(answer);
            }
        }
        best.ok_or_else(|| {
            Error::new(
                Status::ERR_NOT_SUPPORTED,
                "no active scheme writes this form for this list",
            )
        })
    }

    /// Turns a [`Regex2`] back into list text, by its type tag.
    ///
    /// # Errors
    /// The type is unknown (`PMIX_ERR_NOT_SUPPORTED`) or the value damaged.
    pub fn parse_regex(&self, regex: Regex2Ref<'_>) -> Result<Vec<u8>, Error> {
        Self::first(self.readers(), |s| s.parse_regex(regex, &self.limits))?
            .map(|(_, text)| text)
            .ok_or_else(|| Self::unknown_kind(regex))
    }

    /// The node map that a [`Regex2`] stands for: decoded, then its ranges expanded.
    ///
    /// The one call for a datastore. The decoded text is read as a value of the string form only
    /// if it carries the tag of a scheme that expands ranges; otherwise it is the list.
    ///
    /// # Errors
    /// As [`Self::parse_regex`] and [`Self::parse_nodes`].
    pub fn resolve_nodes(&self, regex: Regex2Ref<'_>) -> Result<NodeList, Error> {
        if let Some((_, list)) =
            Self::first(self.readers(), |s| s.regex_nodes(regex, &self.limits))?
        {
            return Ok(list);
        }
        let text = self.parse_regex(regex)?;
        match Self::first(self.expanders(), |s| s.parse_nodes(&text, &self.limits))? {
            Some((_, list)) => Ok(list),
            None => Ok(NodeList::parse_text(&text, &self.limits)?),
        }
    }

    /// The process map that a [`Regex2`] stands for; otherwise as [`Self::resolve_nodes`].
    ///
    /// # Errors
    /// As [`Self::parse_regex`] and [`Self::parse_procs`].
    pub fn resolve_procs(&self, regex: Regex2Ref<'_>) -> Result<ProcMap, Error> {
        if let Some((_, map)) = Self::first(self.readers(), |s| s.regex_procs(regex, &self.limits))?
        {
            return Ok(map);
        }
        let text = self.parse_regex(regex)?;
        match Self::first(self.expanders(), |s| s.parse_procs(&text, &self.limits))? {
            Some((_, map)) => Ok(map),
            None => Ok(ProcMap::parse_text(&text, &self.limits)?),
        }
    }

    fn expanders(&self) -> impl Iterator<Item = &dyn Scheme> {
        self.readers().filter(|s| s.expands_text())
    }

    fn unknown_kind(regex: Regex2Ref<'_>) -> Error {
        Error::new(
            Status::ERR_NOT_SUPPORTED,
            format!("no scheme reads type {:?}", regex.kind),
        )
    }

    fn value_of(regex: &[u8]) -> &[u8] {
        regex.strip_suffix(b"\0").unwrap_or(regex)
    }

    fn terminated(value: &[u8], extent: Extent) -> Vec<u8> {
        let mut copy = value[..extent.len].to_vec();
        if extent.terminator == Terminator::Nul {
            copy.push(0);
        }
        copy
    }

    /// Refuses text that would be split into plausible garbage.
    fn refuse_tagged(&self, text: &[u8]) -> Result<(), Error> {
        if let Some((_, name)) = self.tags.iter().find(|(tag, _)| text.starts_with(tag)) {
            return Err(Error::new(
                Status::ERR_NOT_SUPPORTED,
                format!("this is a value of scheme {name}, which may not read here"),
            )
            .at(0));
        }
        match text.iter().position(|b| *b == 0) {
            Some(nul) => Err(Error::damaged(
                nul,
                "a NUL in text that carries no scheme's tag",
            )),
            None => Ok(()),
        }
    }
}
