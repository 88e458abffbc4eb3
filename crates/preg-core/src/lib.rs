// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preg framework: components encode, identify and decode node and process maps.
//!
//! A *scheme* ([`Scheme`]) is one encoding; a *component* ([`Component`]) describes a scheme and
//! creates it. [`Preg`] is the framework itself: the active schemes in priority order, and the ten
//! entry points of the specification (OpenPMIx `regex.rst`, "The MCA preg Framework"). Every entry
//! point is a pure function of its arguments and may be called from any thread.
//!
//! Declining is not an error: a scheme returns `Ok(None)` for a value of another scheme, and the
//! next scheme is tried. It returns `Err` for a damaged value of its own, and no other scheme is
//! tried. Text with the tag of a scheme is never split into names.
//!
//! This crate contains no scheme; `pmix-builtin` lists those in the tree.
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
