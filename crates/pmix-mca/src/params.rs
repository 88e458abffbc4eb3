// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters: names, values and their sources.
//!
//! Source: OpenPMIx, MCA parameters: `<framework>_<component>_<name>`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use crate::spec::{Kind, Layer, parse_flag};
use crate::{Error, Source};

/// The value of a parameter and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The value as text. Empty text means the default.
    pub value: String,
    /// The source that set the value.
    pub source: Source,
}

/// A plugin file that a configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFile {
    /// The path of the file. A relative path in `plugins.toml` has been resolved against the
    /// directory of that `plugins.toml`.
    pub path: PathBuf,
    /// The source that names the file.
    pub source: Source,
}

/// A value of one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) setting: Setting,
    pub(crate) layer: Layer,
    /// The key and the kind of value in `plugins.toml`; `None` for other sources.
    pub(crate) toml: Option<(String, Kind)>,
}

/// A table of `plugins.toml` that configures one component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) framework: String,
    pub(crate) component: String,
    pub(crate) source: Source,
}

/// All parameters that are set, with their values in each layer. They are immutable.
#[derive(Clone, Debug, Default)]
pub struct Params {
    /// The values of each parameter by name, lowest layer first.
    pub(crate) values: BTreeMap<String, Vec<Entry>>,
    pub(crate) sections: Vec<Section>,
    pub(crate) plugins: Vec<PluginFile>,
    pub(crate) files: Vec<PathBuf>,
}

impl Params {
    /// Returns the value of a parameter in the highest layer that sets it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.entry(name).map(|entry| &entry.setting)
    }

    /// Returns every value of a parameter, lowest layer first. All but the last are overridden.
    pub fn settings(&self, name: &str) -> impl DoubleEndedIterator<Item = &Setting> {
        self.values
            .get(name)
            .into_iter()
            .flatten()
            .map(|e| &e.setting)
    }

    /// Returns the names of all parameters that are set, including unknown ones.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Returns the configuration files that were read, lowest layer first.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns the plugin files of a framework: those of `plugins.toml` in its order, then those of
    /// the parameter `<framework>_base_plugins` (separated by colons).
    #[must_use]
    pub fn plugin_files(&self, framework: &str) -> Vec<PluginFile> {
        let mut files = self.plugins.clone();
        if let Some(setting) = self.get(&format!("{framework}_base_plugins")) {
            let paths = setting.value.split(':').map(str::trim);
            files.extend(paths.filter(|p| !p.is_empty()).map(|path| PluginFile {
                path: path.into(),
                source: setting.source.clone(),
            }));
        }
        files
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.values.get(name)?.last()
    }

    /// Returns a size or count: a decimal number. `-1` means "no limit", as in OpenPMIx, and is
    /// returned as `u64::MAX`.
    ///
    /// # Errors
    /// The value is not a number. The message names its source.
    pub fn size(&self, name: &str, default: u64) -> Result<u64, Error> {
        self.parsed(
            name,
            default,
            "a number from 0 up, or -1 for no limit",
            |text| match text {
                "-1" => Some(u64::MAX),
                _ => text.parse().ok(),
            },
        )
    }

    /// Returns a number that may be negative, such as a priority.
    ///
    /// # Errors
    /// The value is not a number or does not fit 32 bits. The message names its source.
    pub fn number(&self, name: &str, default: i32) -> Result<i32, Error> {
        let expected = "a whole number from -2147483648 to 2147483647";
        self.parsed(name, default, expected, |text| i32::from_str(text).ok())
    }

    /// Returns a truth value: 1, 0, true, false, yes, no, on, off.
    ///
    /// # Errors
    /// The value is none of these. The message names its source.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        self.parsed(name, default, "true or false", parse_flag)
    }

    /// Returns the trimmed text of a parameter, or the default if it is not set or empty.
    #[must_use]
    pub fn text<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        let value = self.get(name).map_or("", |setting| setting.value.trim());
        if value.is_empty() { default } else { value }
    }

    fn parsed<T>(
        &self,
        name: &str,
        default: T,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Error> {
        let Some(setting) = self.get(name) else {
            return Ok(default);
        };
        match setting.value.trim() {
            "" => Ok(default),
            text => parse(text).ok_or_else(|| malformed(name, setting, expected)),
        }
    }
}

/// Returns the error `SOURCE: NAME = "VALUE": expected ...`. In a plugin the source is omitted,
/// because its host knows and adds it.
pub(crate) fn malformed(name: &str, setting: &Setting, expected: &str) -> Error {
    let shown: String = setting.value.chars().take(60).collect();
    let what = format!("{name} = {shown:?}: expected {expected}");
    Error::new(match &setting.source {
        Source::Host => what,
        source => format!("{source}: {what}"),
    })
}
