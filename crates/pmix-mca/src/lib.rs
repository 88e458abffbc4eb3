// SPDX-License-Identifier: MIT OR Apache-2.0
//! Component selection, as OpenPMIx's Modular Component Architecture does it.
//!
//! A *framework* (`preg`, `pcompress`) has *components*; parameters decide which are active and
//! in which order. Parameters come in layers, and each value remembers its source. This crate
//! reads the environment and the files once, into an immutable [`Params`]; nothing else in the
//! workspace does.
#![deny(unsafe_code)]

mod error;
mod params;
mod select;

pub use error::Error;
pub use params::{ParamSpec, Params, ParamsBuilder, Setting, Source};
pub use select::{Decision, Header, Selection, select};
