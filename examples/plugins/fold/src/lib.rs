// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fold scheme as a file to load: the same source as the built-in component, with the
//! plugin ABI.
//!
//! `cargo build --release -p preg-fold-plugin` makes `target/release/libpreg_fold_plugin.so`. A
//! host that does not have the scheme built in loads and enables it with
//!
//! ```toml
//! [[plugin]]
//! path = "/usr/lib/pmix/libpreg_fold_plugin.so"
//!
//! [preg.fold]
//! enabled = true
//! ```
//!
//! in `plugins.toml`. Where the component is built in as well, the loaded one is refused for its
//! name.
#![forbid(unsafe_code)]

preg_core::export_component!(preg_fold::COMPONENT);
