// SPDX-License-Identifier: MIT OR Apache-2.0
//! The builder of parameters, which collects their layers.
//!
//! Source: OpenPMIx, the order of its sources of MCA parameters; the layers of files are this
//! project's own.

use std::path::Path;

use crate::params::Entry;
use crate::spec::Layer;
use crate::{Error, Params, PluginFile, Setting, Source, mca_file, toml_file};

/// The prefix of a parameter's name in the environment.
pub(crate) const PREFIX: &str = "PMIX_MCA_";

/// A builder that collects the layers of parameters. A higher layer takes precedence. The order of
/// the calls for different layers does not matter. Within a layer, the last call takes precedence.
#[derive(Clone, Debug, Default)]
pub struct ParamsBuilder {
    params: Params,
    /// The number of `plugins.toml` files that were added.
    tomls: usize,
    fault: Option<Error>,
}

impl Params {
    /// Creates a builder without layers.
    #[must_use]
    pub fn builder() -> ParamsBuilder {
        ParamsBuilder::default()
    }
}

impl ParamsBuilder {
    /// Sets a parameter by its MCA name (without `PMIX_MCA_`). The source determines the layer.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<String>, source: Source) -> Self {
        let layer = Layer::of(&source);
        self.insert(name, value.into(), source, layer);
        self
    }

    /// Adds a plugin file by its path.
    #[must_use]
    pub fn plugin(mut self, path: impl AsRef<Path>) -> Self {
        self.params.plugins.push(PluginFile {
            path: path.as_ref().to_path_buf(),
            source: Source::Api,
        });
        self
    }

    /// Adds every `PMIX_MCA_<name>` of an environment.
    #[must_use]
    pub fn environment(mut self, vars: impl IntoIterator<Item = (String, String)>) -> Self {
        for (variable, value) in vars {
            if let Some(name) = variable.strip_prefix(PREFIX).map(str::to_owned) {
                self.insert(
                    &name,
                    value,
                    Source::Environment { variable },
                    Layer::Environment,
                );
            }
        }
        self
    }

    /// Adds the text of a `plugins.toml`. `path` is its path for messages, and relative plugin
    /// paths are relative to the directory of `path`. Each file is a layer above the files added
    /// before, and its plugins are loaded before those of the other files.
    ///
    /// # Errors
    /// The text is not TOML, or contains an invalid table or value.
    pub fn plugins_toml(mut self, path: &Path, text: &str) -> Result<Self, Error> {
        let file = toml_file::parse(path, text)?;
        self.tomls += 1;
        let layer = Layer::Plugins(self.tomls);
        for value in file.values {
            let entry = Entry {
                setting: Setting {
                    value: value.text,
                    source: value.source,
                },
                layer,
                toml: Some((value.key, value.kind)),
            };
            self.insert_entry(&value.name, entry);
        }
        self.params.sections.extend(file.sections);
        self.params.plugins.splice(0..0, file.plugins);
        self.params.files.push(path.to_path_buf());
        Ok(self)
    }

    /// Adds the text of an MCA parameter file (`name = value` lines). `path` is its path for
    /// messages. Files must be added in ascending order of precedence.
    ///
    /// A malformed line is ignored with a warning, because other programs read the same file.
    #[must_use]
    pub fn mca_file(mut self, path: &Path, text: &str) -> Self {
        for line in mca_file::parse(text) {
            let source = Source::File {
                path: path.to_path_buf(),
                line: line.number,
            };
            match line.content {
                Ok((name, value)) => self.insert(&name, value, source, Layer::ParamFiles),
                Err(fault) => tracing::warn!("{source}: {fault}; the line is ignored"),
            }
        }
        self.params.files.push(path.to_path_buf());
        self
    }

    /// Resolves the layers into parameters.
    ///
    /// # Errors
    /// A layer contains a value that cannot be parsed.
    pub fn build(self) -> Result<Params, Error> {
        match self.fault {
            Some(fault) => Err(fault),
            None => Ok(self.params),
        }
    }

    pub(crate) fn fail(&mut self, fault: Error) {
        self.fault.get_or_insert(fault);
    }

    fn insert(&mut self, name: &str, value: String, source: Source, layer: Layer) {
        self.insert_entry(
            name,
            Entry {
                setting: Setting { value, source },
                layer,
                toml: None,
            },
        );
    }

    fn insert_entry(&mut self, name: &str, entry: Entry) {
        let entries = self.params.values.entry(name.to_owned()).or_default();
        let at = entries.partition_point(|known| known.layer <= entry.layer);
        entries.insert(at, entry);
    }
}
