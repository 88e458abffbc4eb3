// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the processes write, on its way out.

mod files;
mod forward;
mod lines;
mod route;
mod sink;

pub(crate) use forward::{Forward, Held, Kind};
pub(crate) use route::Route;
