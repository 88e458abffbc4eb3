// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reasons that plugin files are rejected.
//!
//! Source: `docs/plugins.md`, and SECURITY.md for the owners of plugins.

use std::fmt;
use std::path::{Path, PathBuf};

use pmix_plugin_abi::{ABI_MAJOR, SYMBOL};

/// A plugin file that is not used, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The file.
    pub path: PathBuf,
    /// The fault of the file.
    pub fault: LoadFault,
}

impl Refusal {
    /// Creates the report about a rejected file.
    #[must_use]
    pub fn new(path: &Path, fault: LoadFault) -> Self {
        Self {
            path: path.to_path_buf(),
            fault,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugin {}: {}", self.path.display(), self.fault)
    }
}

impl std::error::Error for Refusal {}

/// The fault of a plugin file that is rejected before its first call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadFault {
    /// The file cannot be read.
    Unreadable(String),
    /// Another user could have placed the file there.
    Untrusted(pmix_files::Fault),
    /// The file is not a shared library.
    NotALibrary(String),
    /// The file is a library for another machine.
    OtherMachine {
        /// The machine of the file.
        file: String,
        /// The machine of this process.
        host: String,
    },
    /// The dynamic linker rejects it.
    Link(String),
    /// It does not export the symbol of the interface.
    NoSymbol,
    /// Its function returned NULL, or an address that cannot be a header.
    BadTable(&'static str),
    /// The header does not begin with the magic.
    Magic,
    /// It was built for another version of the ABI.
    AbiVersion {
        /// Its version.
        major: u16,
        /// Its minor version.
        minor: u16,
    },
    /// A struct is smaller than its version requires.
    Size {
        /// The struct.
        what: &'static str,
        /// The stated size.
        found: usize,
        /// The required size.
        least: usize,
    },
    /// It belongs to another framework.
    Framework(String),
    /// It was built for another version of the framework's interface.
    Interface {
        /// Its version.
        found: u32,
        /// The host's version.
        expected: u32,
    },
    /// A text of the header is invalid.
    Text {
        /// The text.
        what: &'static str,
        /// The error in it.
        why: String,
    },
    /// Its `query` violated the interface.
    Query(String),
    /// Its name, tag or type is that of another component.
    Taken {
        /// The kind of the collision: name, tag or type.
        what: &'static str,
        /// The value in question.
        value: String,
        /// The component that uses it.
        owner: String,
    },
}

impl fmt::Display for LoadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Self::Untrusted(why) => write!(f, "is not trusted: {why}"),
            Self::NotALibrary(why) => write!(f, "is not a shared library: {why}"),
            Self::OtherMachine { file, host } => {
                write!(f, "was built for {file}, this host is {host}")
            }
            Self::Link(why) => write!(f, "cannot be linked: {why}"),
            Self::NoSymbol => write!(f, "exports no symbol {SYMBOL}"),
            Self::BadTable(why) => write!(f, "{SYMBOL}() returned {why}"),
            Self::Magic => f.write_str("the component header does not begin with the magic bytes"),
            Self::AbiVersion { major, minor } => write!(
                f,
                "was built for version {major}.{minor} of the plugin ABI, this host has \
                 {ABI_MAJOR}; rebuild it"
            ),
            Self::Size { what, found, least } => {
                write!(
                    f,
                    "the {what} says it has {found} bytes, expected {least} or more"
                )
            }
            Self::Framework(name) => write!(f, "is a component of framework {name:?}"),
            Self::Interface { found, expected } => write!(
                f,
                "was built for interface version {found}, this host has {expected}"
            ),
            Self::Text { what, why } => write!(f, "the {what} {why}"),
            Self::Query(why) => write!(f, "query: {why}"),
            Self::Taken { what, value, owner } => {
                write!(f, "its {what} {value:?} collides with that of {owner}")
            }
        }
    }
}
