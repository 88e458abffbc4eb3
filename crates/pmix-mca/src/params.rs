// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters: names, values and where each value came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::Error;

/// Where a value came from, lowest layer first.
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
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("built-in default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment { variable } => write!(f, "environment variable {variable}"),
            Self::CommandLine => f.write_str("command line (--mca)"),
            Self::Api => f.write_str("the embedding program"),
        }
    }
}

/// One parameter that a framework or component understands.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// The full MCA name, for example `pcompress_base_limit`.
    pub name: &'static str,
    /// The built-in value as text.
    pub default: &'static str,
    /// What it does, in one line, with unit and range.
    pub help: &'static str,
}

/// A value and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The value as text.
    pub value: String,
    /// Where it came from.
    pub source: Source,
}

/// All parameters that were set, resolved over the layers; immutable.
#[derive(Clone, Debug, Default)]
pub struct Params {
    values: BTreeMap<String, Setting>,
}

impl Params {
    /// Starts an empty set of layers.
    #[must_use]
    pub fn builder() -> ParamsBuilder {
        ParamsBuilder::default()
    }

    /// The value of a parameter, if any layer sets it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.values.get(name)
    }

    /// A size or count; `-1` means "no limit", as in OpenPMIx.
    ///
    /// # Errors
    /// The value is no number; the message names its source.
    pub fn size(&self, name: &str, default: u64) -> Result<u64, Error> {
        let Some(setting) = self.get(name) else {
            return Ok(default);
        };
        match setting.value.trim() {
            "-1" => Ok(u64::MAX),
            text => text.parse().map_err(|_| {
                Error::new(format!(
                    "{name} = {text:?} ({}) is no number",
                    setting.source
                ))
            }),
        }
    }

    /// A truth value: 1, 0, true, false, yes, no, on, off.
    ///
    /// # Errors
    /// The value is none of these; the message names its source.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        let Some(setting) = self.get(name) else {
            return Ok(default);
        };
        match setting.value.trim().to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" | "t" | "y" => Ok(true),
            "0" | "false" | "no" | "off" | "f" | "n" => Ok(false),
            text => Err(Error::new(format!(
                "{name} = {text:?} ({}) is neither true nor false",
                setting.source
            ))),
        }
    }
}

/// Collects layers, lowest first: a later value of a name replaces an earlier one.
#[derive(Clone, Debug, Default)]
pub struct ParamsBuilder {
    params: Params,
}

impl ParamsBuilder {
    /// Sets a parameter by its MCA name (without `PMIX_MCA_`).
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<String>, source: Source) -> Self {
        self.params.values.insert(
            name.to_owned(),
            Setting {
                value: value.into(),
                source,
            },
        );
        self
    }

    /// Adds every `PMIX_MCA_<name>` of an environment.
    #[must_use]
    pub fn environment(mut self, vars: impl IntoIterator<Item = (String, String)>) -> Self {
        for (variable, value) in vars {
            if let Some(name) = variable.strip_prefix("PMIX_MCA_").map(str::to_owned) {
                self = self.set(&name, value, Source::Environment { variable });
            }
        }
        self
    }

    /// Resolves the layers.
    ///
    /// # Errors
    /// A layer cannot be read or holds an unknown key.
    pub fn build(self) -> Result<Params, Error> {
        Ok(self.params)
    }
}
