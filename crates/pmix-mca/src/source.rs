// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a value came from.
//!
//! Source: none outside.

use std::fmt;
use std::path::PathBuf;

/// Names the layer that a value came from; a lower layer is less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Built in.
    Default,
    /// A line of `plugins.toml` or of an MCA parameter file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from one.
        line: usize,
    },
    /// An environment variable.
    Environment {
        /// The variable's full name.
        variable: String,
    },
    /// `--mca NAME VALUE`.
    CommandLine,
    /// Set by the embedding program.
    Api,
    /// Read by a plugin from its host, which knows where the value came from.
    Host,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("built-in default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment { variable } => write!(f, "environment variable {variable}"),
            Self::CommandLine => f.write_str("command line (--mca)"),
            Self::Api => f.write_str("the embedding program"),
            Self::Host => f.write_str("the host"),
        }
    }
}

/// The layers, lowest first. A [`Source::File`] alone does not tell `plugins.toml` from an MCA
/// parameter file, so each value carries its layer beside its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    /// The files `plugins.toml`, in the order in which they were added.
    Plugins(usize),
    /// The MCA parameter files.
    ParamFiles,
    /// `PMIX_MCA_*` variables.
    Environment,
    /// `--mca` and the API.
    Program,
}

impl Layer {
    /// The layer of a value that a caller sets with a source of its own.
    pub(crate) fn of(source: &Source) -> Self {
        match source {
            Source::Default => Self::Plugins(0),
            Source::File { .. } => Self::ParamFiles,
            Source::Environment { .. } => Self::Environment,
            Source::CommandLine | Source::Api | Source::Host => Self::Program,
        }
    }
}
