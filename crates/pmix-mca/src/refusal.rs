// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reasons for which plugin files are rejected.
//!
//! Source: `docs/plugins.md`, and SECURITY.md for the owners of plugins.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::abi::{ABI_MAJOR, SYMBOL};

/// A plugin file that is not used, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The file.
    pub path: PathBuf,
    /// The reason.
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

/// The reason for which a plugin file is rejected before its operations are called.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadFault {
    /// The file cannot be read.
    Unreadable(String),
    /// Another user could have written the file.
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
    /// The dynamic linker rejects the file. The text is the linker's message.
    Link(String),
    /// The library does not export the symbol of the interface.
    NoSymbol,
    /// The exported function returned NULL or a misaligned address, or the header is invalid.
    BadTable(&'static str),
    /// The header does not begin with the magic number.
    Magic,
    /// The plugin was built for another version of the ABI.
    AbiVersion {
        /// The plugin's major version.
        major: u16,
        /// The plugin's minor version.
        minor: u16,
    },
    /// A struct is smaller than its version requires.
    Size {
        /// The name of the struct.
        what: &'static str,
        /// The size in bytes that the plugin states.
        found: usize,
        /// The required size in bytes.
        least: usize,
    },
    /// The plugin belongs to another framework.
    Framework(String),
    /// The plugin was built for another version of the framework's interface.
    Interface {
        /// The plugin's version.
        found: u32,
        /// The version of this library.
        expected: u32,
    },
    /// A text of the header is invalid.
    Text {
        /// The name of the text.
        what: &'static str,
        /// The reason for which the text is invalid.
        why: String,
    },
    /// The plugin's `query` violated the interface.
    Query(String),
    /// Another component already uses the plugin's name, tag or regex2 type.
    Taken {
        /// The kind of the collision: name, tag or type.
        what: &'static str,
        /// The name, tag or type itself.
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
