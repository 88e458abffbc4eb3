// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parameters of an environment: its variables and configuration files.
//!
//! Source: OpenPMIx, `mca-params.conf`; `docs/plugins.md` for `plugins.toml`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use pmix_files::{Fault, Trust};

use super::{Environment, gained_rights};
use crate::builder::PREFIX;
use crate::toml_file::FRAMEWORKS;
use crate::{Error, Params, ParamsBuilder};

/// The variable with the path of another `plugins.toml`, which takes precedence over those that are
/// found, or with `none`.
const PLUGINS_VARIABLE: &str = "PMIX_PLUGINS";
/// The variable that replaces the list of MCA parameter files.
const FILES_VARIABLE: &str = "PMIX_MCA_mca_base_param_files";

/// The value of a variable that means no file.
const NONE: &str = "none";

impl Environment {
    /// Reads the layers, lowest first: every `plugins.toml` (of the system, of the user, of the
    /// current directory, `PMIX_PLUGINS`, `config`), the MCA parameter files, the environment.
    ///
    /// A file is read only if no user but root and the current user could have written it. An
    /// untrusted file is ignored with a warning, unless it was named.
    ///
    /// # Errors
    /// A named file is missing or untrusted, or a `plugins.toml` is malformed. A process that
    /// gained rights rejects named files.
    pub fn params(&self, config: Option<&Path>) -> Result<ParamsBuilder, Error> {
        if let Some(config) = config.filter(|_| gained_rights()) {
            return Err(Error::new(format!(
                "{}: this process runs with privileges that its caller does not have, so it reads \
                 configuration of the system only",
                config.display()
            )));
        }
        let mut builder = Params::builder();
        // Files are read from the highest precedence down, so that an error in a file that the user
        // named is reported first.
        let mut files = Vec::new();
        for found in self.plugins_tomls(config).into_iter().rev() {
            files.extend(found.read()?);
        }
        for (path, text) in files.into_iter().rev() {
            builder = builder.plugins_toml(&path, &text)?;
        }
        // The first file of the list has the highest precedence.
        for found in self.param_files().into_iter().rev() {
            if let Some((path, text)) = found.read()? {
                builder = builder.mca_file(&path, &text);
            }
        }
        Ok(self.environment(builder))
    }

    fn environment(&self, mut builder: ParamsBuilder) -> ParamsBuilder {
        let mut vars = Vec::new();
        for (variable, value) in &self.vars {
            let Some(variable) = variable.to_str().filter(|v| v.starts_with(PREFIX)) else {
                continue;
            };
            match value.to_str() {
                Some(value) => vars.push((variable.to_owned(), value.to_owned())),
                // Variables of other frameworks are ignored.
                None if FRAMEWORKS
                    .iter()
                    .any(|f| variable[PREFIX.len()..].starts_with(f)) =>
                {
                    builder.fail(Error::new(format!(
                        "environment variable {variable}: the value is not valid UTF-8"
                    )));
                }
                None => {}
            }
        }
        builder.environment(vars)
    }

    /// Returns the places of `plugins.toml`, lowest precedence first.
    fn plugins_tomls(&self, config: Option<&Path>) -> Vec<Place> {
        let named = |path: &Path, who| Place::named(self.cwd.join(path), who);
        let variable = self.var(PLUGINS_VARIABLE);
        let nothing = |word: Option<&OsStr>| word.is_some_and(|word| word == NONE);
        let mut places = Vec::new();
        if nothing(config.map(Path::as_os_str)) {
            return places;
        }
        if !nothing(variable) {
            places.push(Place::found(self.system.join("pmix/plugins.toml")));
            let home = self.home.iter().map(|home| home.join(".pmix/plugins.toml"));
            places.extend(home.map(Place::found));
            if !self.cwd.as_os_str().is_empty() {
                places.push(Place::found(self.cwd.join("plugins.toml")));
            }
            let path = variable.map(Path::new);
            places.extend(path.map(|path| named(path, "environment variable PMIX_PLUGINS")));
        }
        places.extend(config.map(|path| named(path, "the configuration file given")));
        // If a file is both named and found, it counts as named.
        let paths: Vec<_> = places.iter().map(|place| place.path.clone()).collect();
        let mut number = 0;
        places.retain(|place| {
            number += 1;
            !paths[number..].contains(&place.path)
        });
        places
    }

    /// Returns the MCA parameter files, highest precedence first.
    fn param_files(&self) -> Vec<Place> {
        match self.var(FILES_VARIABLE) {
            Some(list) if list == NONE => Vec::new(),
            // OpenPMIx separates the list by commas, older versions by colons.
            Some(list) => list
                .to_string_lossy()
                .split([',', ':'])
                .filter(|file| !file.is_empty())
                .map(|file| Place {
                    missing: Missing::Warns,
                    ..Place::named(
                        self.cwd.join(file),
                        "environment variable PMIX_MCA_mca_base_param_files",
                    )
                })
                .collect(),
            None => {
                let home = self.home.iter().map(|h| h.join(".pmix/mca-params.conf"));
                home.chain([self.system.join("pmix-mca-params.conf")])
                    .map(Place::found)
                    .collect()
            }
        }
    }
}

impl Params {
    /// Collects the layers of this process: `plugins.toml` files, with `config` above them, the MCA
    /// parameter files and the environment. The caller may add `--mca` and API settings before
    /// `build`.
    ///
    /// # Errors
    /// A named file is missing, a file cannot be read, or `plugins.toml` is malformed.
    pub fn from_process(config: Option<&Path>) -> Result<ParamsBuilder, Error> {
        Environment::of_process().params(config)
    }
}

/// A file that may configure this process.
struct Place {
    path: PathBuf,
    /// The option or variable that names the file; `None` if the file was searched for.
    named: Option<&'static str>,
    missing: Missing,
}

/// The reaction to a missing file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Nothing,
    Warns,
    Fails,
}

/// The maximum size of a configuration file in bytes.
const MAX_FILE: u64 = 4 << 20;

impl Place {
    fn found(path: PathBuf) -> Self {
        Self {
            path,
            named: None,
            missing: Missing::Nothing,
        }
    }

    fn named(path: PathBuf, who: &'static str) -> Self {
        Self {
            path,
            named: Some(who),
            missing: Missing::Fails,
        }
    }

    /// Returns the path and the text of the file, if it exists and is readable.
    fn read(self) -> Result<Option<(PathBuf, String)>, Error> {
        let Self {
            path,
            named,
            missing,
        } = self;
        let shown = path.display();
        let fault = match Trust::of_process().read(&path, MAX_FILE) {
            Ok(text) => return Ok(Some((path, text))),
            Err(fault) => fault,
        };
        match (named, missing) {
            (None, _) if fault == Fault::Missing => {}
            (None, _) if fault.is_absent() => tracing::debug!("{shown}: {fault}"),
            (None, _) => tracing::warn!("{shown} is not read: {fault}"),
            (Some(_), Missing::Warns) if fault == Fault::Missing => {
                tracing::warn!("{shown}: {fault}; the file is ignored");
            }
            (Some(who), _) => return Err(Error::new(format!("{who}: {shown}: {fault}"))),
        }
        Ok(None)
    }
}
