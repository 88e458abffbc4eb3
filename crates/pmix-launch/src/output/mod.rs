// SPDX-License-Identifier: MIT OR Apache-2.0
//! The destination of the output of each process: the launcher's own streams or files.

mod files;
mod pattern;
mod route;
mod terminal;

pub(crate) use files::{CreatedPaths, Files, RankFiles};
pub use pattern::FilePattern;
pub use route::Standard;
pub(crate) use route::{OwnStreams, Route, Streams};
