// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preg framework: components encode, identify and decode node and process maps.
//!
//! A *scheme* ([`Scheme`]) is one encoding. A *component* ([`Component`]) describes a scheme and
//! creates it. [`Preg`] is the framework itself: the active schemes in priority order, and the ten
//! entry points of the specification (OpenPMIx `regex.rst`, "The MCA preg Framework"). Every entry
//! point is a pure function of its arguments and may be called from any thread.
//!
//! A scheme declines a value of another scheme with `Ok(None)`. Then the next scheme is tried. It
//! rejects a damaged value of its own with `Err`. Then no other scheme is tried. Text with the tag
//! of a scheme is never split into names.
//!
//! This crate contains no scheme; `pmix-builtin` lists the schemes of this repository.
#![deny(unsafe_code)]

mod dynamic;
mod error;
mod preg;
mod scheme;

pub use dynamic::check::{Counts, Outcome, PluginReport, Sample, check_plugin};
pub use dynamic::{INTERFACE_VERSION, adapt, export};
pub use error::Error;
pub use inventory;
pub use pmix_map::{Limits, NodeList, NodeListBuilder, ProcMap, ProcMapBuilder};
pub use pmix_mca::{Catalog, ParamInfo, ParamSpec, Params, Refusal};
pub use pmix_types::{Regex2, Regex2Ref, Status};
pub use preg::{ComponentStatus, Module, Preg, parameters};
pub use scheme::{
    Component, Explanation, Extent, Field, LegacyRegex, Packed, Query, Registration, Scheme,
    Terminator, Unpacked, ValueForm,
};
