// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands that show components and parameters.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The commands under `pmix plugins`.
#[derive(Subcommand)]
pub(crate) enum PluginsCommand {
    /// Show every component: its function, its priority, and the setting that selected it.
    List,
    /// Load one plugin file and check that every list decodes to the list that was encoded.
    Check {
        /// The shared library.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Lists to try in addition to the samples, one per argument: names, bracket lists, @FILE, or - for
        /// standard input.
        #[arg(value_name = "LIST")]
        lists: Vec<OsString>,
    },
}

/// Arguments of `info`.
#[derive(Args)]
pub(crate) struct Info {
    /// Show only parameters whose name or help contains this text, ignoring case; a pattern with `*` or `?`
    /// must match the whole name or help. Several patterns: parameters that match any of them.
    #[arg(value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,
    /// Show only the parameters of this framework: preg, pcompress, psec, gds, or all.
    #[arg(long, value_name = "FRAMEWORK", default_value = "all")]
    pub(crate) param: String,
}
