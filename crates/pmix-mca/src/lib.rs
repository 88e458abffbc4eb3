// SPDX-License-Identifier: MIT OR Apache-2.0
//! Component selection, as OpenPMIx's Modular Component Architecture does it.
//!
//! A *framework* (`preg`, `pcompress`) has *components*; parameters decide which are active and
//! in which order. Parameters come in layers, and each value remembers its source. This crate
//! reads the environment and the files once, into an immutable [`Params`]; nothing else in the
//! workspace does.
//!
//! ```
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

mod builder;
mod catalog;
mod elf;
mod environment;
mod error;
mod list;
mod loader;
mod mca_file;
mod nearest;
mod params;
mod refusal;
mod rights;
mod select;
mod source;
mod spec;
mod toml_file;

pub use builder::ParamsBuilder;
pub use catalog::{Catalog, ParamInfo};
pub use environment::Environment;
pub use error::Error;
pub use loader::{ExitGuard, Loaded, Munge, load};
pub use nearest::nearest;
pub use params::{Params, PluginFile, Setting};
pub use refusal::{LoadFault, Refusal};
pub use rights::gained_rights;
pub use select::{Decision, Header, Selection, no_plugins, select};
pub use source::Source;
pub use spec::{Kind, ParamSpec};
