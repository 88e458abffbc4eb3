// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `pmix get`.

use std::ffi::OsString;

use clap::Args;
use pmix_types::{Attribute, Rank};

use super::layout::LayoutArgs;

/// Arguments of `get`.
#[derive(Args)]
pub(crate) struct Get {
    /// The keys to look up: names like PMIX_JOB_SIZE or JOB_SIZE, or keys like pmix.job.size.
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// The node map, in any form that the map commands accept as one argument.
    #[arg(long, value_name = "MAP")]
    pub(crate) nodes: Option<OsString>,
    /// The process map.
    #[arg(long, value_name = "MAP", requires = "nodes")]
    pub(crate) procs: Option<OsString>,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
    /// A file of registered jobs in JSON, one job per line; - for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    pub(crate) job: Option<OsString>,
    /// The name of the job with --nodes; the job to look up with --job.
    #[arg(long, value_name = "NAME")]
    pub(crate) nspace: Option<String>,
    /// Look up values of this process, not of the whole job.
    #[arg(long, value_name = "RANK", conflicts_with_all = ["node", "app"])]
    pub(crate) rank: Option<Rank>,
    /// Look up values of this node, by name, alias or number.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// Look up values of this application; with --node, values of the node in this application.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) app: Option<u32>,
    /// Reply like a server on this node instead of the current node.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Print all known values of the session, the job, and each application, node and process, or only of the
    /// named one.
    #[arg(long, conflicts_with = "keys")]
    pub(crate) all: bool,
    /// Read requests from standard input, one JSON object per line.
    #[arg(long, conflicts_with_all = ["keys", "nodes", "all", "nspace", "rank", "node", "app"])]
    pub(crate) jsonl: bool,
}

/// Returns the key of the attribute with this name, or the word itself if there is none. Only words in upper
/// case can be names, so every other key can be looked up.
pub(crate) fn key(word: &str) -> &str {
    let is_name = !word.contains(|c: char| c.is_ascii_lowercase());
    let named = is_name.then(|| Attribute::by_name(word)).flatten();
    named.map_or(word, |attribute| attribute.key())
}
