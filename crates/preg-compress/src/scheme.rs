// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheme: encodes lists, and decodes values into maps.

use preg_core::{
    Error, Explanation, Extent, Limits, NodeList, ProcMap, Regex2, Regex2Ref, Scheme, Terminator,
};

use crate::explain;
use crate::framing::{self, Frame, TAG};
use crate::payload::{self, Parts};
use crate::pcompress::Pcompress;

/// The name of the component and the type of its `Regex2` form.
pub(crate) const NAME: &str = "compress";

/// The compress scheme with the active back ends.
pub(crate) struct Compress {
    pcompress: Pcompress,
}

impl Compress {
    pub(crate) fn new(pcompress: Pcompress) -> Self {
        Self { pcompress }
    }

    fn string_form(&self, list: &[u8]) -> Option<Vec<u8>> {
        payload::encode(list, &self.pcompress).map(|payload| framing::write(&payload))
    }

    /// Calls `read` with the payload of a value in string form. Returns `None` for other bytes.
    fn read<T>(
        &self,
        regex: &[u8],
        read: impl Fn(&Parts<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if !framing::is_ours(regex) {
            return Ok(None);
        }
        let frame = Frame::read(regex)?;
        let parts = Parts::split(frame.payload_of(regex)?, &self.pcompress);
        parts
            .and_then(|parts| read(&parts))
            .map(Some)
            .map_err(|e| e.shifted(frame.header_len))
    }
}

impl Scheme for Compress {
    fn name(&self) -> &str {
        NAME
    }

    fn tag(&self) -> &[u8] {
        TAG
    }

    fn framing(&self) -> &str {
        "blob"
    }

    fn kind(&self) -> Option<&str> {
        Some(NAME)
    }

    fn generate_regex(&self, list: &[u8]) -> Result<Option<Regex2>, Error> {
        Ok(payload::encode(list, &self.pcompress).map(|bytes| Regex2::new(NAME, bytes)))
    }

    fn parse_regex(&self, regex: Regex2Ref<'_>, limits: &Limits) -> Result<Option<Vec<u8>>, Error> {
        if regex.kind != NAME {
            return Ok(None);
        }
        payload::decode(regex.bytes, &self.pcompress, limits).map(Some)
    }

    fn writes_text(&self) -> bool {
        false
    }

    fn generate_node_regex(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.string_form(list))
    }

    fn generate_ppn(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.string_form(list))
    }

    fn parse_nodes(&self, regex: &[u8], limits: &Limits) -> Result<Option<NodeList>, Error> {
        self.read(regex, |parts| parts.nodes(limits))
    }

    fn parse_procs(&self, regex: &[u8], limits: &Limits) -> Result<Option<ProcMap>, Error> {
        self.read(regex, |parts| parts.procs(limits))
    }

    fn legacy_len(&self, bytes: &[u8]) -> Result<Option<Extent>, Error> {
        if !framing::is_ours(bytes) {
            return Ok(None);
        }
        Ok(Some(Extent {
            len: Frame::read(bytes)?.len(),
            terminator: Terminator::None,
        }))
    }

    fn explain(&self, value: &[u8]) -> Option<Explanation> {
        framing::is_ours(value).then(|| explain::string_form(value, &self.pcompress))
    }

    fn explain_regex(&self, regex: Regex2Ref<'_>) -> Option<Explanation> {
        (regex.kind == NAME).then(|| explain::regex2(regex.bytes, &self.pcompress))
    }
}

#[cfg(all(test, feature = "zlib"))]
mod tests;
