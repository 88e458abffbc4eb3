// SPDX-License-Identifier: MIT OR Apache-2.0
//! Component selection, as OpenPMIx's Modular Component Architecture does it.
//!
//! A *framework* (`preg`, `pcompress`) has *components*; parameters determine which are active and
//! in which order. Parameters are set in layers, and each value has its source. This crate reads
//! the environment and the files once, into immutable `Params`. No other crate reads them.
//!
//! | feature | content |
//! | --- | --- |
//! | none | [`Environment`]: the variables and directories of the process |
//! | `params` | parameters, their files, and selection |
//! | `plugins`, the default | `params`, and the opening of plugin files and of the MUNGE library |
#![cfg_attr(feature = "params", doc = "```")]
#![cfg_attr(not(feature = "params"), doc = "```ignore")]
//! use pmix_mca::{Header, Params, Source, select};
//! let variable = "PMIX_MCA_preg".to_owned();
//! let params = Params::builder().environment([(variable, "^raw".to_owned())]).build()?;
//! let header = |name, priority| Header { name, priority, enabled: true };
//! let selection = select("preg", &[header("raw", 50), header("native", 30)], &params)?;
//! assert_eq!(selection.active, [1]);
//! let (why, source) = selection.decisions[0].excluded.clone().unwrap();
//! assert_eq!(format!("{why} ({source})"), "preg = ^raw (environment variable PMIX_MCA_preg)");
//! # Ok::<(), pmix_mca::Error>(())
//! ```
#![deny(unsafe_code)]

#[cfg(feature = "plugins")]
pub mod abi;
#[cfg(feature = "params")]
mod builder;
#[cfg(feature = "params")]
mod catalog;
#[cfg(feature = "plugins")]
mod elf;
mod environment;
#[cfg(feature = "params")]
mod error;
mod loader;
#[cfg(feature = "params")]
mod mca_file;
#[cfg(feature = "params")]
mod nearest;
#[cfg(feature = "params")]
mod params;
#[cfg(feature = "plugins")]
mod refusal;
#[cfg(feature = "params")]
mod select;
#[cfg(feature = "params")]
mod spec;
#[cfg(feature = "params")]
mod toml_file;

pub use environment::{Environment, gained_rights};
#[cfg(feature = "plugins")]
pub use loader::{ExitGuard, Loaded, LoadedParam, Munge, load};
#[cfg(feature = "plugins")]
pub use refusal::{LoadFault, Refusal};

#[cfg(feature = "params")]
pub use {
    builder::ParamsBuilder,
    catalog::{Catalog, ParamInfo},
    error::Error,
    nearest::nearest,
    params::{Params, PluginFile, Setting},
    select::{Decision, Header, Selection, no_plugins, select},
    spec::{Kind, ParamSpec, Source},
};
