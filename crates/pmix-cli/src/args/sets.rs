// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands under `pmix map` that compute lists from lists.

use std::ffi::OsString;
use std::num::NonZeroUsize;

use clap::Args;

use super::layout::LayoutArgs;
use super::target::Target;

/// Lists, and the format of the result.
#[derive(Args)]
pub(crate) struct Lists {
    /// Lists, one per argument: names, bracket lists, encoded values, @FILE, or - for standard input (the
    /// default).
    #[arg(value_name = "LIST")]
    pub(crate) lists: Vec<OsString>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = Target::Clustershell, value_name = "FORMAT")]
    pub(crate) to: Target,
}

/// Arguments of `slice`.
#[derive(Args)]
pub(crate) struct Slice {
    /// The positions of the names, counted from zero: 0, 4-7, 0-3,8.
    #[arg(value_name = "PLACES", allow_negative_numbers = true)]
    pub(crate) places: String,
    #[command(flatten)]
    pub(crate) lists: Lists,
}

/// Arguments of `split` and `chop`.
#[derive(Args)]
pub(crate) struct Parts {
    /// The number of parts (split), or of names in each part (chop).
    #[arg(value_name = "N", value_parser = at_least_one)]
    pub(crate) number: NonZeroUsize,
    #[command(flatten)]
    pub(crate) lists: Lists,
}

/// Arguments of `position`.
#[derive(Args)]
pub(crate) struct Position {
    /// The names to find, as a list.
    #[arg(value_name = "NAMES")]
    pub(crate) names: OsString,
    /// The list to search, in any form that the map commands accept.
    #[arg(value_name = "INPUT")]
    pub(crate) words: Vec<OsString>,
}

/// Arguments of `diff`.
#[derive(Args)]
pub(crate) struct Diff {
    /// The old node map.
    #[arg(long, value_name = "MAP")]
    pub(crate) nodes: OsString,
    /// The old process map.
    #[arg(long, value_name = "MAP", requires = "new_procs")]
    pub(crate) procs: Option<OsString>,
    /// The new node map.
    #[arg(long, value_name = "MAP")]
    pub(crate) new_nodes: OsString,
    /// The new process map.
    #[arg(long, value_name = "MAP", requires = "procs")]
    pub(crate) new_procs: Option<OsString>,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
}

/// Parses a number of 1 or more.
fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    match text.parse::<usize>() {
        Ok(number) => {
            NonZeroUsize::new(number).ok_or_else(|| "expected a number of at least 1".to_owned())
        }
        Err(_) => Err(format!("expected a number from 1 to {}", usize::MAX)),
    }
}
