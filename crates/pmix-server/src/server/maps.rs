// SPDX-License-Identifier: MIT OR Apache-2.0
//! The encoding of node maps and process maps.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_generate_regex` and
//! `PMIx_generate_ppn`.

use pmix_types::{Regex2, Regex2Ref};

use crate::{Error, Server};

impl Server {
    /// Encodes a node map: names separated by commas (`PMIx_generate_regex`).
    ///
    /// # Errors
    /// Returns an error if no encoder supports the list.
    pub fn generate_regex(&self, nodes: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.0.preg.generate_node_regex(nodes)?.bytes)
    }

    /// Encodes a process map: ranks separated by commas, nodes by semicolons (`PMIx_generate_ppn`).
    ///
    /// # Errors
    /// Returns an error if no encoder supports the list.
    pub fn generate_ppn(&self, ranks: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.0.preg.generate_ppn(ranks)?.bytes)
    }

    /// Encodes a node map or process map to a value that names its scheme (`PMIx_generate_regex2`).
    ///
    /// # Errors
    /// Returns an error if no encoder supports the list.
    pub fn generate_regex2(&self, list: &[u8]) -> Result<Regex2, Error> {
        Ok(self.0.preg.generate_regex(list)?)
    }

    /// Decodes a value that names its scheme to the list that was encoded (`PMIx_parse_regex2`).
    ///
    /// # Errors
    /// Returns an error if the scheme is unknown or the value is damaged.
    pub fn parse_regex2(&self, regex: Regex2Ref<'_>) -> Result<Vec<u8>, Error> {
        Ok(self.0.preg.parse_regex(regex)?)
    }
}
