// SPDX-License-Identifier: MIT OR Apache-2.0
//! The input of the commands under `pmix map`.

use std::ffi::OsString;

use clap::Args;

/// The source of a map.
#[derive(Args)]
pub(crate) struct MapInput {
    /// Names, bracket lists like n[001-128,200], encoded values, @FILE, or - for standard input (the
    /// default). Several are joined.
    #[arg(value_name = "INPUT")]
    pub(crate) words: Vec<OsString>,
    /// The input is a process map: ranks and ranges separated by commas, nodes by `;`, newlines or arguments.
    #[arg(long)]
    pub(crate) procs: bool,
}
