// SPDX-License-Identifier: MIT OR Apache-2.0
//! The declaration of parameters, and the sources of their values.
//!
//! Source: this project.

use std::fmt;
use std::path::PathBuf;

/// A parameter of a framework or component.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// The full MCA name, for example `pcompress_base_limit`.
    pub name: &'static str,
    /// The default as text. It also determines the kind of value, see [`Kind::of`].
    pub default: &'static str,
    /// The help, in one line, with unit and range.
    pub help: &'static str,
}

/// The kind of value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A truth value.
    Flag,
    /// A whole number.
    Number,
    /// Any text.
    Text,
}

impl Kind {
    /// Returns the kind of a parameter with this default.
    #[must_use]
    pub fn of(default: &str) -> Self {
        match default {
            "true" | "false" => Self::Flag,
            text if text.parse::<i64>().is_ok() => Self::Number,
            _ => Self::Text,
        }
    }

    /// Returns a description of the expected values, for messages.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Self::Flag => "true or false",
            Self::Number => "a whole number",
            Self::Text => "text",
        }
    }
}

/// Parses 1, 0, true, false, yes, no, on, off.
pub(crate) fn parse_flag(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" | "t" | "y" => Some(true),
        "0" | "false" | "no" | "off" | "f" | "n" => Some(false),
        _ => None,
    }
}

// The sources of values.
//
// Source: this project.

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The built-in default.
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
        /// The full name of the variable.
        variable: String,
    },
    /// `--mca NAME VALUE`.
    CommandLine,
    /// A call by the embedding program.
    Api,
    /// The host of a plugin. Only the host can name the actual source.
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

/// The layers, lowest first. A [`Source::File`] does not distinguish `plugins.toml` from an MCA
/// parameter file, so each value has both its layer and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    /// A `plugins.toml`, numbered in the order in which the files were added.
    Plugins(usize),
    /// The MCA parameter files.
    ParamFiles,
    /// `PMIX_MCA_*` variables.
    Environment,
    /// `--mca` and the API.
    Program,
}

impl Layer {
    /// Returns the layer of a value that a caller sets with this source.
    pub(crate) fn of(source: &Source) -> Self {
        match source {
            Source::Default => Self::Plugins(0),
            Source::File { .. } => Self::ParamFiles,
            Source::Environment { .. } => Self::Environment,
            Source::CommandLine | Source::Api | Source::Host => Self::Program,
        }
    }
}
