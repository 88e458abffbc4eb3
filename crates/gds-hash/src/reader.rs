// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser of encoded maps that a store uses.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_generate_regex` and
//! `PMIx_generate_ppn`, whose results it parses.

use bfrops::{RegexExtent, RegexFramer};
use pmix_map::{Error, Limits, MapParser, NodeList, ProcMap};
use pmix_types::{ErrorDetail, Regex2Ref, Status};

/// A parser of encoded maps that also determines the length of maps that have no length on the
/// wire.
///
/// `preg_core::Preg` and [`PlainMaps`] implement it.
pub trait MapReader: MapParser + RegexFramer {}

impl<T: MapParser + RegexFramer> MapReader for T {}

/// A parser of maps as text. It rejects encoded maps.
///
/// Clients use it, because servers send them node names instead of encoded maps.
#[derive(Clone, Debug, Default)]
pub struct PlainMaps(Limits);

impl PlainMaps {
    fn refuse_encoded(text: &[u8]) -> Result<(), Error> {
        // The tag of a scheme is letters and a punctuation mark. Lists of names or ranks do not
        // begin like this.
        let letters = text.iter().take_while(|b| b.is_ascii_alphabetic()).count();
        let is_tagged = letters > 0 && matches!(text.get(letters), Some(b'[' | b':'));
        match is_tagged || text.contains(&0) {
            true => Err(not_read("it begins like an encoded map")),
            false => Ok(()),
        }
    }
}

fn not_read(why: &str) -> Error {
    let what = format!("{why}, but only text is accepted here");
    ErrorDetail::new(Status::ERR_NOT_SUPPORTED, what).into()
}

impl MapParser for PlainMaps {
    fn limits(&self) -> &Limits {
        &self.0
    }

    fn parse_nodes(&self, text: &[u8]) -> Result<NodeList, Error> {
        Self::refuse_encoded(text)?;
        NodeList::parse_text(text, &self.0)
    }

    fn parse_procs(&self, text: &[u8]) -> Result<ProcMap, Error> {
        Self::refuse_encoded(text)?;
        ProcMap::parse_text(text, &self.0)
    }

    fn resolve_nodes(&self, regex: Regex2Ref<'_>) -> Result<NodeList, Error> {
        Err(not_read(&format!("it is of type {:?}", regex.kind)))
    }

    fn resolve_procs(&self, regex: Regex2Ref<'_>) -> Result<ProcMap, Error> {
        Err(not_read(&format!("it is of type {:?}", regex.kind)))
    }
}

impl RegexFramer for PlainMaps {
    fn regex_extent(&self, _: &[u8]) -> Result<Option<RegexExtent>, String> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_text_and_rejects_encoded_maps() {
        let maps = PlainMaps::default();
        assert_eq!(maps.parse_nodes(b"n1,n2,10.0.0.1").unwrap().len(), 3);
        assert_eq!(maps.parse_procs(b"0-3;4").unwrap().num_ranks(), 5);
        for encoded in [&b"pmix[n[1:1-2]]"[..], b"raw:n1,n2", b"blob:\0x", b"n1\0"] {
            let error = maps.parse_nodes(encoded).unwrap_err();
            assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "{error}");
            assert!(maps.parse_procs(encoded).is_err());
        }
        let regex = Regex2Ref {
            kind: "raw",
            bytes: b"n1",
        };
        let error = maps.resolve_nodes(regex).unwrap_err();
        assert_eq!(
            error.to_string(),
            "it is of type \"raw\", but only text is accepted here"
        );
    }
}
