// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of C that this crate makes: opening plugin files, the library of MUNGE, and asking the
//! kernel whether the process gained rights.

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
