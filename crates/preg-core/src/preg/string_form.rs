// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entry points for the string form, whose extent only its scheme can determine.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_generate_regex` and
//! `PMIx_generate_ppn`; OpenPMIx `regex.rst`.

use bfrops::{RegexExtent, RegexFramer};
use pmix_map::{Limits, MapParser, NodeList, ProcMap};
use pmix_types::{ErrorDetail, Regex2Ref, Status, memory};

use crate::{Error, Extent, LegacyRegex, Packed, Preg, Scheme, Terminator, Unpacked};

/// The maximum length in bytes of the header after the first NUL, which determines the length of a
/// value.
const LONGEST_HEADER: usize = 256;

/// Encodes with a scheme, and returns the value if it contains no NUL.
fn text_of(
    scheme: &dyn Scheme,
    generate: impl Fn(&dyn Scheme) -> Result<Option<Vec<u8>>, Error>,
) -> Result<Option<Vec<u8>>, Error> {
    if !scheme.writes_text() {
        return Ok(None);
    }
    // A loaded component does not declare which values contain a NUL.
    Ok(generate(scheme)?.filter(|value| memchr::memchr(0, value).is_none()))
}

impl Preg {
    /// Encodes a node list into the string form.
    ///
    /// The first active scheme that accepts the list is used; if all decline, the list itself is
    /// the value.
    ///
    /// # Errors
    /// No scheme accepts the list, and a reader would misinterpret the plain list.
    pub fn generate_node_regex(&self, list: &[u8]) -> Result<LegacyRegex, Error> {
        self.generate_legacy(list, |s| s.generate_node_regex(list))
    }

    /// Encodes a node list into a value without NUL bytes, for a caller that passes the value on as
    /// a C string. Otherwise it is like [`Self::generate_node_regex`].
    ///
    /// # Errors
    /// As for [`Self::generate_node_regex`].
    pub fn generate_node_text(&self, list: &[u8]) -> Result<LegacyRegex, Error> {
        self.generate_legacy(list, |s| text_of(s, |s| s.generate_node_regex(list)))
    }

    /// Encodes a process map into a value without NUL bytes, as [`Self::generate_node_text`] does
    /// for a node list.
    ///
    /// # Errors
    /// As for [`Self::generate_node_regex`].
    pub fn generate_ppn_text(&self, list: &[u8]) -> Result<LegacyRegex, Error> {
        self.generate_legacy(list, |s| text_of(s, |s| s.generate_ppn(list)))
    }

    /// Encodes a process map into the string form, as [`Self::generate_node_regex`] does for a node
    /// list.
    ///
    /// # Errors
    /// As for [`Self::generate_node_regex`].
    pub fn generate_ppn(&self, list: &[u8]) -> Result<LegacyRegex, Error> {
        self.generate_legacy(list, |s| s.generate_ppn(list))
    }

    fn generate_legacy(
        &self,
        list: &[u8],
        ask: impl Fn(&dyn Scheme) -> Result<Option<Vec<u8>>, Error>,
    ) -> Result<LegacyRegex, Error> {
        Self::check_memory(list)?;
        if let Some((scheme, bytes)) = Self::first(self.active(), ask)? {
            return Ok(LegacyRegex {
                framing: scheme.framing().to_owned(),
                bytes,
            });
        }
        self.refuse_tagged(list)?;
        Ok(LegacyRegex {
            framing: LegacyRegex::PLAIN.to_owned(),
            bytes: memory::copy(list)?,
        })
    }

    /// Decodes a node map in string form. Text that no scheme recognizes is split at commas.
    ///
    /// # Errors
    /// The value is damaged, exceeds the limits, or has the tag of a scheme that is disabled for
    /// parsing.
    pub fn parse_nodes(&self, regex: &[u8]) -> Result<NodeList, Error> {
        let found = Self::first(self.readers(), |s| {
            s.parse_nodes(value_of(s, regex)?, &self.limits)
        })?;
        match found {
            Some((_, map)) => Ok(map),
            None => Ok(NodeList::parse_text(self.plain_text(regex)?, &self.limits)?),
        }
    }

    /// Decodes a process map in string form. Text that no scheme recognizes is split at semicolons.
    ///
    /// # Errors
    /// As for [`Self::parse_nodes`].
    pub fn parse_procs(&self, regex: &[u8]) -> Result<ProcMap, Error> {
        let found = Self::first(self.readers(), |s| {
            s.parse_procs(value_of(s, regex)?, &self.limits)
        })?;
        match found {
            Some((_, map)) => Ok(map),
            None => Ok(ProcMap::parse_text(self.plain_text(regex)?, &self.limits)?),
        }
    }

    /// Returns the extent of the value at the start of `bytes`, or `None` if no scheme recognizes
    /// it.
    ///
    /// # Errors
    /// The value has a scheme's tag, but its length cannot be determined.
    pub fn legacy_len(&self, bytes: &[u8]) -> Result<Option<Extent>, Error> {
        Ok(self.owner(bytes)?.map(|(_, extent)| extent))
    }

    /// Returns the extent of a value in memory of unknown length, such as a C string.
    ///
    /// `first(n)` returns the first `n` bytes of the memory. First it is called for the text and
    /// its NUL, which are `text_len + 1` bytes. Then it is called for one more byte at a time while
    /// the scheme of the value parses its header. It is never called for bytes after the header,
    /// although the value may be longer.
    ///
    /// # Errors
    /// The value has a scheme's tag, but its length cannot be determined.
    pub fn unbounded_len<'b>(
        &self,
        text_len: usize,
        first: impl Fn(usize) -> &'b [u8],
    ) -> Result<Extent, Error> {
        let mut len = text_len.saturating_add(1);
        let longest = len.saturating_add(LONGEST_HEADER);
        loop {
            let bytes = first(len);
            match Self::first(self.readers(), |s| s.legacy_len(bytes)) {
                Ok(None) => return Ok(Extent::of_text(bytes)),
                Ok(Some((_, extent))) => return Ok(extent),
                // The header is truncated: the scheme needs the next byte.
                Err(error) if error.offset() == Some(len) && len < longest => len += 1,
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn owner(&self, bytes: &[u8]) -> Result<Option<(&dyn Scheme, Extent)>, Error> {
        let found = Self::first(self.readers(), |s| s.legacy_len(bytes))?;
        if let Some((scheme, extent)) = &found
            && extent.len > bytes.len()
        {
            return Err(Error::new(
                Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER,
                format!(
                    "the value declares {} bytes, but only {} are present",
                    extent.len,
                    bytes.len()
                ),
            )
            .from_scheme(scheme.name()));
        }
        Ok(found)
    }

    /// Copies a value, with the terminating NUL if the value is text.
    ///
    /// # Errors
    /// The value has a scheme's tag, but its length cannot be determined.
    pub fn copy(&self, value: &[u8]) -> Result<Vec<u8>, Error> {
        let extent = self
            .legacy_len(value)?
            .unwrap_or_else(|| Extent::of_text(value));
        Self::terminated(value, extent)
    }

    /// Returns the data to pack for a value in string form.
    ///
    /// # Errors
    /// As for [`Self::copy`].
    pub fn pack(&self, value: &[u8]) -> Result<Packed, Error> {
        Ok(match self.legacy_len(value)? {
            Some(extent) => Packed::Framed(Self::terminated(value, extent)?),
            None => Packed::Text(memory::copy(&value[..Extent::of_text(value).len])?),
        })
    }

    /// Unpacks the value at the start of a buffer.
    ///
    /// # Errors
    /// The value has a scheme's tag, but its length cannot be determined or exceeds the buffer.
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
        let bytes = memory::copy(&buffer[..extent.len])?;
        Ok(Unpacked::Framed(
            LegacyRegex { framing, bytes },
            extent.wire_len(),
        ))
    }

    /// Releases a value, which must belong to a scheme of this framework.
    ///
    /// # Errors
    /// `PMIX_ERR_BAD_PARAM` if no scheme recognizes the value.
    pub fn release(&self, value: LegacyRegex) -> Result<(), Error> {
        match self.legacy_len(&value.bytes)? {
            Some(_) => Ok(()),
            None => Err(Error::new(
                Status::ERR_BAD_PARAM,
                "no active scheme owns this value",
            )),
        }
    }

    fn terminated(value: &[u8], extent: Extent) -> Result<Vec<u8>, Error> {
        let mut copy = memory::list(extent.wire_len())?;
        copy.extend_from_slice(&value[..extent.len]);
        if extent.terminator == Terminator::Nul {
            copy.push(0);
        }
        Ok(copy)
    }

    /// Returns the bytes as a plain list, or an error if a reader would misinterpret them.
    fn plain_text<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], Error> {
        let text = bytes.strip_suffix(b"\0").unwrap_or(bytes);
        self.refuse_tagged(text)?;
        Ok(text)
    }
}

/// Returns the part of `bytes` that is the value. A NUL may follow it, but nothing else.
fn value_of<'a>(scheme: &dyn Scheme, bytes: &'a [u8]) -> Result<&'a [u8], Error> {
    let Some(extent) = scheme.legacy_len(bytes)? else {
        return Ok(bytes);
    };
    match bytes.split_at_checked(extent.len) {
        Some((value, [] | [0])) => Ok(value),
        Some((_, rest)) => {
            let message = format!("{} bytes follow the end of the value", rest.len());
            Err(Error::damaged(extent.len, message))
        }
        None => Err(past_end(scheme, extent, bytes.len())),
    }
}

fn past_end(scheme: &dyn Scheme, extent: Extent, there: usize) -> Error {
    Error::new(
        Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER,
        format!(
            "the value declares {} bytes, but only {there} are present",
            extent.len
        ),
    )
    .at(there)
    .from_scheme(scheme.name())
}

impl RegexFramer for Preg {
    fn regex_extent(&self, bytes: &[u8]) -> Result<Option<RegexExtent>, String> {
        let extent = self.legacy_len(bytes).map_err(|e| e.to_string())?;
        Ok(extent.map(|extent| RegexExtent {
            len: extent.len,
            terminated: extent.terminator == Terminator::Nul,
        }))
    }
}

impl MapParser for Preg {
    fn limits(&self) -> &Limits {
        Self::limits(self)
    }

    fn parse_nodes(&self, text: &[u8]) -> Result<NodeList, pmix_map::Error> {
        Self::parse_nodes(self, text).map_err(of_map)
    }

    fn parse_procs(&self, text: &[u8]) -> Result<ProcMap, pmix_map::Error> {
        Self::parse_procs(self, text).map_err(of_map)
    }

    fn resolve_nodes(&self, regex: Regex2Ref<'_>) -> Result<NodeList, pmix_map::Error> {
        Self::resolve_nodes(self, regex).map_err(of_map)
    }

    fn resolve_procs(&self, regex: Regex2Ref<'_>) -> Result<ProcMap, pmix_map::Error> {
        Self::resolve_procs(self, regex).map_err(of_map)
    }
}

/// Converts the error and keeps the scheme that detected it.
fn of_map(error: Error) -> pmix_map::Error {
    ErrorDetail::from(error).into()
}
