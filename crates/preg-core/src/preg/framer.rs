// SPDX-License-Identifier: MIT OR Apache-2.0
//! The implementation of traits of lower crates, which measure and parse encoded maps through them.

use bfrops::{RegexExtent, RegexFramer};
use pmix_map::{Limits, MapParser, NodeList, ProcMap};
use pmix_types::{ErrorDetail, Regex2Ref};

use super::Preg;
use crate::{Error, Terminator};

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
