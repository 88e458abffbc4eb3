// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entry points for values with a type, bytes and a length.
//!
//! Source: OpenPMIx `regex.rst`, "Wire Format".

use pmix_map::{NodeList, ProcMap};
use pmix_types::{Regex2, Regex2Ref, Status};

use crate::{Error, Explanation, Preg, Scheme, ValueForm};

impl Preg {
    /// Encodes a list into the [`Regex2`] form. Every active scheme encodes it, and the shortest
    /// value is used. Among equally short values, the scheme with the highest priority wins.
    ///
    /// # Errors
    /// `PMIX_ERR_NOT_SUPPORTED` if every active scheme declines the list, or if a reader would
    /// mistake the list itself for a damaged value.
    pub fn generate_regex(&self, list: &[u8]) -> Result<Regex2, Error> {
        Self::check_memory(list)?;
        self.refuse_damaged_ranges(list)?;
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

    /// Decodes a [`Regex2`] to list text with the scheme of its type.
    ///
    /// # Errors
    /// The type is unknown (`PMIX_ERR_NOT_SUPPORTED`), or the value is damaged.
    pub fn parse_regex(&self, regex: Regex2Ref<'_>) -> Result<Vec<u8>, Error> {
        Self::first(self.readers(), |s| s.parse_regex(regex, &self.limits))?
            .map(|(_, text)| text)
            .ok_or_else(|| Self::unknown_kind(regex))
    }

    /// Returns the node map of a [`Regex2`]: decoded, with expanded ranges.
    ///
    /// The datastore uses this function. If the decoded text has the tag of a scheme that expands
    /// ranges, it is parsed as a value in string form. Otherwise it is the list.
    ///
    /// # Errors
    /// As for [`Self::parse_regex`] and [`Self::parse_nodes`].
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

    /// Returns the process map of a [`Regex2`], as [`Self::resolve_nodes`] does for node maps.
    ///
    /// # Errors
    /// As for [`Self::parse_regex`] and [`Self::parse_procs`].
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

    /// Rejects a list that begins with the tag of range notation but is not valid in that notation.
    /// The reader would decode the value to this list, and then fail to expand it
    /// ([`Self::resolve_nodes`]).
    fn refuse_damaged_ranges(&self, list: &[u8]) -> Result<(), Error> {
        for scheme in self.expanders().filter(|s| list.starts_with(s.tag())) {
            let nodes = scheme.parse_nodes(list, &self.limits).map(|_| ());
            let procs = scheme.parse_procs(list, &self.limits).map(|_| ());
            if let (Err(fault), Err(_)) = (nodes, procs) {
                let status = Status::ERR_NOT_SUPPORTED;
                return Err(fault.with_status(status).from_scheme(scheme.name()));
            }
        }
        Ok(())
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
}

impl Preg {
    /// Returns the form and the fields of a value in the string form. For a damaged value the
    /// explanation contains the fields up to the error, and the error.
    ///
    /// If the scheme cannot explain its values, the fields are its tag and the remaining bytes.
    /// There are no fields for a plain list, and for a scheme that is disabled for parsing.
    #[must_use]
    pub fn explain(&self, value: &[u8]) -> (ValueForm, Explanation) {
        let mut schemes = self.modules().iter().map(|module| &*module.scheme);
        let owner = schemes.find(|scheme| value.starts_with(scheme.tag()));
        match (owner, self.tag_owner(value)) {
            (Some(scheme), _) => {
                let form = ValueForm::String {
                    scheme: scheme.name().to_owned(),
                };
                let explained = scheme.explain(value);
                (form, explained.unwrap_or_else(|| tag_only(scheme, value)))
            }
            (None, Some(name)) => {
                let scheme = name.to_owned();
                (ValueForm::Unread { scheme }, Explanation::default())
            }
            (None, None) => (ValueForm::List, Explanation::default()),
        }
    }

    /// Returns the form and the fields of a value with a type. There are no fields if no scheme
    /// parses the type, or if its scheme cannot explain its values.
    #[must_use]
    pub fn explain_regex(&self, regex: Regex2Ref<'_>) -> (ValueForm, Explanation) {
        let mut schemes = self.modules().iter().map(|module| &*module.scheme);
        let owner = schemes.find(|scheme| scheme.kind() == Some(regex.kind));
        let form = ValueForm::Regex2 {
            kind: regex.kind.to_owned(),
            scheme: owner.map(|scheme| scheme.name().to_owned()),
        };
        let explained = owner.and_then(|scheme| scheme.explain_regex(regex));
        (form, explained.unwrap_or_default())
    }
}

/// Returns the explanation for a scheme that cannot explain its values.
fn tag_only(scheme: &dyn Scheme, value: &[u8]) -> Explanation {
    let mut explanation = Explanation::default();
    let tag = scheme.tag().len();
    explanation.field(0..tag, "tag", format!("scheme {}", scheme.name()));
    explanation.field(tag..value.len(), "body", "known only to the scheme");
    explanation
}
