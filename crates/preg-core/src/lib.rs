// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preg framework: node and process maps encoded, self-identified and decoded by components.
//!
//! A *scheme* ([`Scheme`]) is one encoding; a *component* ([`Component`]) describes a scheme and
//! makes it; [`Preg`] is the framework itself: the active schemes in priority order and the ten
//! entry points of the specification (OpenPMIx `regex.rst`, "The MCA preg Framework"). Every
//! entry point is a pure function of its arguments and may be called from any thread.
//!
//! Declining is not failing: a scheme answers `Ok(None)` for "not mine" and the next is asked,
//! and `Err` for "mine, but damaged", which ends the walk. Text is never split into names when it
//! carries the tag of a scheme.
//!
//! This crate names no scheme. See `pmix-builtin` for the list of those in the tree.
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
