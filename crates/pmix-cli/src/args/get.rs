// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `pmix get`.

use std::ffi::OsString;

use clap::Args;
use pmix_types::{Attribute, Rank};

use super::layout::LayoutArgs;

/// Arguments of `get`.
#[derive(Args)]
pub(crate) struct Get {
    /// What is asked for: names like PMIX_JOB_SIZE or JOB_SIZE, or keys like pmix.job.size.
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// The node map: anything that a map command takes as one argument.
    #[arg(long, value_name = "MAP")]
    pub(crate) nodes: Option<OsString>,
    /// The process map.
    #[arg(long, value_name = "MAP", requires = "nodes")]
    pub(crate) procs: Option<OsString>,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
    /// What a host registers, one job a line in JSON; - for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    pub(crate) job: Option<OsString>,
    /// The name of the job with --nodes; which jobs are asked with --job.
    #[arg(long, value_name = "NAME")]
    pub(crate) nspace: Option<String>,
    /// Ask about this process, not the job as a whole.
    #[arg(long, value_name = "RANK", conflicts_with_all = ["node", "app"])]
    pub(crate) rank: Option<Rank>,
    /// Ask about this node, by name, alias or number.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// Ask about this application; with --node about the node as the application describes it.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) app: Option<u32>,
    /// Answer as the server on this node would, not on the one that this runs on.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Print everything that is known: of the session, the job, each application, node and
    /// process, or of the one that is named.
    #[arg(long, conflicts_with = "keys")]
    pub(crate) all: bool,
    /// Answer requests, one JSON object a line, from standard input.
    #[arg(long, conflicts_with_all = ["keys", "nodes", "all", "nspace", "rank", "node", "app"])]
    pub(crate) jsonl: bool,
}

/// The key that a word means: that of an attribute with this name, else the word itself. Names
/// are in upper case, so that any other key may be asked for.
pub(crate) fn key(word: &str) -> &str {
    let is_name = !word.contains(|c: char| c.is_ascii_lowercase());
    let named = is_name.then(|| Attribute::by_name(word)).flatten();
    named.map_or(word, |attribute| attribute.key())
}
