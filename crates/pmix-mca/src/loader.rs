// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls to C functions, for plugin files, for the MUNGE library, and for the rights of the
//! process.

#![allow(unsafe_code)]

#[cfg(feature = "plugins")]
mod exits;
#[cfg(feature = "plugins")]
mod munge;
#[cfg(feature = "plugins")]
mod plugin;
mod secure;

#[cfg(feature = "plugins")]
pub use {
    exits::ExitGuard,
    munge::Munge,
    plugin::{Loaded, LoadedParam, load},
};

pub(crate) use secure::is_secure_execution;
