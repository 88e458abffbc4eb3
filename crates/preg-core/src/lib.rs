// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preg framework: components encode, identify and decode node and process maps.
//!
//! A *scheme* ([`Scheme`]) is one encoding; a *component* ([`Component`]) describes a scheme and
//! creates it. [`Preg`] is the framework itself: the active schemes in priority order, and the ten
//! entry points of the specification (OpenPMIx `regex.rst`, "The MCA preg Framework"). Every entry
//! point is a pure function of its arguments and may be called from any thread.
//!
//! A scheme declines a value of another scheme with `Ok(None)`; then the next scheme is tried. It
//! rejects a damaged value of its own with `Err`; then no other scheme is tried. Text with the tag
//! of a scheme is never split into names.
//!
//! This crate contains no scheme; `pmix-builtin` lists the schemes of this repository.
#![deny(unsafe_code)]

mod component;
mod dynamic;
mod error;
mod explain;
mod legacy;
mod preg;
mod scheme;

pub use component::{Component, Query, Registration};
pub use dynamic::check::{Counts, Outcome, PluginReport, Sample, check_plugin};
pub use dynamic::{INTERFACE_VERSION, adapt, export};
pub use error::Error;
pub use explain::{Explanation, Field, ValueForm};
pub use inventory;
pub use legacy::{Extent, LegacyRegex, Packed, Terminator, Unpacked};
pub use pmix_map::{Limits, NodeList, NodeListBuilder, ProcMap, ProcMapBuilder};
pub use pmix_mca::{Catalog, ParamInfo, ParamSpec, Params, Refusal};
pub use pmix_types::{Regex2, Regex2Ref, Status};
pub use preg::{ComponentStatus, Module, Preg, parameters};
pub use scheme::Scheme;
