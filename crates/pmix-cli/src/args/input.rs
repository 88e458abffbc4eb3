// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every command under `pmix map` takes.

use std::ffi::OsString;

use clap::Args;

/// Where a map comes from.
#[derive(Args)]
pub(crate) struct MapInput {
    /// Names, bracket lists like n[001-128,200], encoded values, @FILE, or - for standard input
    /// (also read when nothing is given). Several are joined.
    #[arg(value_name = "INPUT")]
    pub(crate) words: Vec<OsString>,
    /// It is a process map: ranks and ranges by commas, nodes by `;`, newlines or arguments.
    #[arg(long)]
    pub(crate) procs: bool,
}
