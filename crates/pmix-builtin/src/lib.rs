// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of all in-tree components.
//!
//! `inventory` alone is not enough: a crate that nothing names is not linked and registers nothing.
//! This list and all other registered components are merged by name.
//!
//! ```
//! let server = pmix_builtin::open_preg(&pmix_mca::Params::default())?;
//! let nodes = server.parse_nodes(b"pmix[nid[6:1-1000].site]")?; // one run, folded
//! let procs = server.parse_procs(b"pmix[0-63;64-127]")?;
//! assert_eq!(procs.node_of(pmix_types::Rank::new(100)), Some(1));
//! assert_eq!(nodes.position(b"nid000777.site"), Some(776));
//! # Ok::<(), preg_core::Error>(())
//! ```
#![forbid(unsafe_code)]

use std::path::Path;

use preg_core::{Component, Error, Params, PluginReport, Preg, Registration};

/// Every component of the tree.
static BUILTIN: &[&Component] = &[
    &preg_compress::COMPONENT,
    #[cfg(feature = "fold")]
    &preg_fold::COMPONENT,
    &preg_native::COMPONENT,
    &preg_raw::COMPONENT,
];

/// The features of this crate, and `true` for those that are enabled.
pub const FEATURES: &[(&str, bool)] = &[
    ("compress", cfg!(feature = "compress")),
    ("zstd", cfg!(feature = "zstd")),
    ("fold", cfg!(feature = "fold")),
];

/// Returns every statically linked component of the preg framework, the tree's own first, without
/// duplicate names.
#[must_use]
pub fn preg_components() -> Vec<&'static Component> {
    let mut all: Vec<&'static Component> = BUILTIN.to_vec();
    for Registration(component) in preg_core::inventory::iter::<Registration> {
        if !all.iter().any(|known| known.name == component.name) {
            all.push(component);
        }
    }
    all
}

/// Checks a plugin file against sample lists, `lists` and every linked component.
///
/// # Errors
/// As for [`preg_core::check_plugin`].
pub fn check_plugin(
    path: &Path,
    params: &Params,
    lists: &[(String, Vec<u8>)],
) -> Result<PluginReport, Error> {
    preg_core::check_plugin(path, params, &preg_components(), lists)
}

/// Opens the preg framework with every linked component.
///
/// # Errors
/// As for [`Preg::open`].
pub fn open_preg(params: &Params) -> Result<Preg, Error> {
    Preg::open(params, &preg_components())
}
