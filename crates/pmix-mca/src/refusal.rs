// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a plugin file is not used.
//!
//! Source: `docs/plugins.md`, and SECURITY.md for who may own a plugin.

use std::fmt;
use std::path::{Path, PathBuf};

use pmix_plugin_abi::{ABI_MAJOR, SYMBOL};

/// Reports a plugin file that is not used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The file.
    pub path: PathBuf,
    /// The fault of the file.
    pub fault: LoadFault,
}

impl Refusal {
    /// Creates the report of a file that is refused.
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

/// Says what is wrong with a plugin file that is refused before its first call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadFault {
    /// The file cannot be read.
    Unreadable(String),
    /// Somebody else could have put the file there.
    Untrusted(pmix_files::Fault),
    /// The file is no shared library.
    NotALibrary(String),
    /// The file is a library for another machine.
    OtherMachine {
        /// What it was built for.
        file: String,
        /// What this is.
        host: String,
    },
    /// The dynamic linker refused it.
    Link(String),
    /// It does not export the one symbol.
    NoSymbol,
    /// Its function returned NULL, or something that cannot be a header.
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
    /// A struct is not as large as its version says.
    Size {
        /// Which struct.
        what: &'static str,
        /// What it says.
        found: usize,
        /// What there must be.
        least: usize,
    },
    /// It belongs to another framework.
    Framework(String),
    /// It was built for another version of the framework's interface.
    Interface {
        /// Its version.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// A text of the header is not what it must be.
    Text {
        /// Which text.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Its `query` misbehaved.
    Query(String),
    /// It is called, tagged or typed like another component.
    Taken {
        /// Which of name, tag and type.
        what: &'static str,
        /// The value in question.
        value: String,
        /// Who has it.
        owner: String,
    },
}

impl fmt::Display for LoadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Self::Untrusted(why) => write!(f, "is not trusted: {why}"),
            Self::NotALibrary(why) => write!(f, "is no shared library: {why}"),
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
