// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells those who pack and unpack how long an old encoded map is.

use bfrops::{RegexExtent, RegexFramer};

use super::Preg;
use crate::Terminator;

impl RegexFramer for Preg {
    fn regex_extent(&self, bytes: &[u8]) -> Result<Option<RegexExtent>, String> {
        let extent = self.legacy_len(bytes).map_err(|e| e.to_string())?;
        Ok(extent.map(|extent| RegexExtent {
            len: extent.len,
            terminated: extent.terminator == Terminator::Nul,
        }))
    }
}
