// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the output of each process goes: through the launcher, past it, or into a file.

mod files;
mod pattern;
mod route;

pub(crate) use files::{Files, RankFiles};
pub use pattern::FilePattern;
pub(crate) use route::{Route, Streams};
