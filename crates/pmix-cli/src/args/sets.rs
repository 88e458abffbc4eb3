// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands under `pmix map` that make lists of lists.

use std::ffi::OsString;
use std::num::NonZeroUsize;

use clap::Args;

use super::layout::LayoutArgs;
use super::target::Target;

/// Lists, and how the answer is written.
#[derive(Args)]
pub(crate) struct Lists {
    /// A list an argument: names, bracket lists, encoded values, @FILE, or - for standard input (also
    /// read when nothing is given).
    #[arg(value_name = "LIST")]
    pub(crate) lists: Vec<OsString>,
    /// How to write the answer.
    #[arg(long, value_enum, default_value_t = Target::Clustershell, value_name = "FORMAT")]
    pub(crate) to: Target,
}

/// Arguments of `slice`.
#[derive(Args)]
pub(crate) struct Slice {
    /// Which names, counted from zero: 0, 4-7, 0-3,8.
    #[arg(value_name = "PLACES", allow_negative_numbers = true)]
    pub(crate) places: String,
    #[command(flatten)]
    pub(crate) lists: Lists,
}

/// Arguments of `split` and `chop`.
#[derive(Args)]
pub(crate) struct Parts {
    /// How many parts, or how many names in each.
    #[arg(value_name = "N", value_parser = at_least_one)]
    pub(crate) number: NonZeroUsize,
    #[command(flatten)]
    pub(crate) lists: Lists,
}

/// Arguments of `position`.
#[derive(Args)]
pub(crate) struct Position {
    /// The names that are looked for, as a list.
    #[arg(value_name = "NAMES")]
    pub(crate) names: OsString,
    /// Where they are looked for: as for every map command.
    #[arg(value_name = "INPUT")]
    pub(crate) words: Vec<OsString>,
}

/// Arguments of `diff`.
#[derive(Args)]
pub(crate) struct Diff {
    /// The node map as it was.
    #[arg(long, value_name = "MAP")]
    pub(crate) nodes: OsString,
    /// The process map as it was.
    #[arg(long, value_name = "MAP", requires = "new_procs")]
    pub(crate) procs: Option<OsString>,
    /// The node map as it is.
    #[arg(long, value_name = "MAP")]
    pub(crate) new_nodes: OsString,
    /// The process map as it is.
    #[arg(long, value_name = "MAP", requires = "procs")]
    pub(crate) new_procs: Option<OsString>,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
}

/// Reads how many.
fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    match text.parse::<usize>() {
        Ok(number) => NonZeroUsize::new(number).ok_or_else(|| "at least 1 is needed".to_owned()),
        Err(_) => Err(format!("expected a number from 1 to {}", usize::MAX)),
    }
}
