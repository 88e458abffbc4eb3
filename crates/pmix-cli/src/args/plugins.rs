// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands that show components and parameters.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with components.
#[derive(Subcommand)]
pub(crate) enum PluginsCommand {
    /// Show every component: what it does, its priority, and which setting decided.
    List,
    /// Load one plugin file and try it: does every list come back as it went?
    Check {
        /// The shared library.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Lists of names to try besides the samples: names, bracket lists, @FILE, or - for standard
        /// input, a list an argument.
        #[arg(value_name = "LIST")]
        lists: Vec<OsString>,
    },
}

/// Arguments of `info`.
#[derive(Args)]
pub(crate) struct Info {
    /// Only parameters whose name or help has this in it, in upper or lower case; with `*` or `?` it
    /// has to fit the whole name or the whole help. Several: those that one of them finds.
    #[arg(value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,
    /// Only the parameters of this framework: preg, pcompress, psec, gds, or all.
    #[arg(long, value_name = "FRAMEWORK", default_value = "all")]
    pub(crate) param: String,
}
