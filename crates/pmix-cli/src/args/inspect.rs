// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands under `pmix map` that inspect maps.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::input::MapInput;
use super::layout::LayoutArgs;

/// Arguments of `explain`.
#[derive(Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) input: MapInput,
    /// The value has this type and no tag (`pmix_regex2_t`).
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
}

/// A node map and its process map; either can be @FILE or - for standard input.
#[derive(Args)]
pub(crate) struct Pair {
    /// The node map, in any form that the map commands accept as one argument.
    #[arg(long, value_name = "MAP")]
    pub(crate) nodes: OsString,
    /// The process map.
    #[arg(long, value_name = "MAP")]
    pub(crate) procs: Option<OsString>,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
}

/// Arguments of `where`.
#[derive(Args)]
pub(crate) struct Where {
    /// Ranks and ranges: 3, 8-15.
    #[arg(value_name = "RANK", required = true)]
    pub(crate) ranks: Vec<String>,
    #[command(flatten)]
    pub(crate) maps: Pair,
}

/// Arguments of `who`.
#[derive(Args)]
pub(crate) struct Who {
    /// Names of nodes, or bracket lists.
    #[arg(value_name = "NODE", required = true)]
    pub(crate) names: Vec<OsString>,
    #[command(flatten)]
    pub(crate) maps: Pair,
}

/// Arguments of `draw`.
#[derive(Args)]
pub(crate) struct Draw {
    /// The node map as names and bracket lists, instead of --nodes.
    #[arg(value_name = "NODE", conflicts_with = "nodes")]
    pub(crate) names: Vec<OsString>,
    /// The node map, for the names of the rows.
    #[arg(long, value_name = "MAP")]
    pub(crate) nodes: Option<OsString>,
    /// The process map; - for standard input (the default).
    #[arg(long, value_name = "MAP")]
    pub(crate) procs: Option<OsString>,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
    /// The kind of picture.
    #[arg(long = "of", value_enum, default_value_t = DrawAs::Text, value_name = "KIND")]
    pub(crate) kind: DrawAs,
    /// Write to a file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Kinds of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DrawAs {
    /// Characters.
    Text,
    /// A vector image.
    Svg,
}
