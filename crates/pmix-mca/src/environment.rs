// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a process is surrounded by: environment, directories, configuration files.
//!
//! [`Environment::of_process`] is the one place in the workspace that reads the environment;
//! tests make their own.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::builder::PREFIX;
use crate::toml_file::FRAMEWORKS;
use crate::{Error, Params, ParamsBuilder};

/// Names the `plugins.toml` to read.
const PLUGINS_VARIABLE: &str = "PMIX_PLUGINS";
/// Replaces the list of MCA parameter files.
const FILES_VARIABLE: &str = "PMIX_MCA_mca_base_param_files";

/// Where settings are looked for.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The environment.
    pub vars: Vec<(OsString, OsString)>,
    /// The directory against which relative paths are resolved.
    pub cwd: PathBuf,
    /// The home directory, if there is one.
    pub home: Option<PathBuf>,
    /// Where system-wide configuration lives: `/etc/pmix`, and `/etc` for the parameter file.
    pub system: PathBuf,
}

impl Environment {
    /// The environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self {
            vars: std::env::vars_os().collect(),
            cwd: std::env::current_dir().unwrap_or_default(),
            home: std::env::var_os("HOME")
                .filter(|home| !home.is_empty())
                .map(PathBuf::from),
            system: PathBuf::from("/etc"),
        }
    }

    /// Reads the layers: `plugins.toml` (`config`, or the first that exists of `PMIX_PLUGINS`,
    /// `./plugins.toml`, `/etc/pmix/plugins.toml`), the MCA parameter files, the environment.
    ///
    /// # Errors
    /// A named file is missing, a file cannot be read, or `plugins.toml` is malformed.
    pub fn params(&self, config: Option<&Path>) -> Result<ParamsBuilder, Error> {
        let mut builder = Params::builder();
        if let Some((path, text)) = self.plugins_toml(config)? {
            builder = builder.plugins_toml(&path, &text)?;
        }
        // The first file of the list is the most important one.
        for (path, named) in self.param_files().into_iter().rev() {
            match read(&path) {
                Ok(text) => builder = builder.mca_file(&path, &text),
                Err(e) if e.kind() == io::ErrorKind::NotFound && !named => {}
                Err(e) => tracing::warn!("{}: {e}; the file is ignored", path.display()),
            }
        }
        Ok(self.environment(builder))
    }

    /// The first of some variables that is set to something.
    #[must_use]
    pub fn first_of(&self, names: &[&str]) -> Option<&OsStr> {
        names.iter().find_map(|name| self.var(name))
    }

    fn environment(&self, mut builder: ParamsBuilder) -> ParamsBuilder {
        let mut vars = Vec::new();
        for (variable, value) in &self.vars {
            let Some(variable) = variable.to_str().filter(|v| v.starts_with(PREFIX)) else {
                continue;
            };
            match value.to_str() {
                Some(value) => vars.push((variable.to_owned(), value.to_owned())),
                // Other frameworks' variables are none of our business.
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

    fn var(&self, name: &str) -> Option<&OsStr> {
        let found = self.vars.iter().find(|(variable, _)| variable == name);
        found.map(|(_, value)| &**value).filter(|v| !v.is_empty())
    }

    fn plugins_toml(&self, config: Option<&Path>) -> Result<Option<(PathBuf, String)>, Error> {
        let named = config
            .map(|path| (path.to_path_buf(), "the configuration file given"))
            .or_else(|| {
                let path = self.var(PLUGINS_VARIABLE)?;
                Some((path.into(), "environment variable PMIX_PLUGINS"))
            });
        if let Some((path, who)) = named {
            let path = self.cwd.join(path);
            let text =
                read(&path).map_err(|e| Error::new(format!("{who}: {}: {e}", path.display())))?;
            return Ok(Some((path, text)));
        }
        let places = [
            self.cwd.join("plugins.toml"),
            self.system.join("pmix/plugins.toml"),
        ];
        for path in places {
            match read(&path) {
                Ok(text) => return Ok(Some((path, text))),
                Err(e) if absent(&e) => {}
                Err(e) => return Err(Error::new(format!("{}: {e}", path.display()))),
            }
        }
        Ok(None)
    }

    /// The MCA parameter files, most important first, and whether somebody named them.
    fn param_files(&self) -> Vec<(PathBuf, bool)> {
        match self.var(FILES_VARIABLE) {
            Some(list) if list == "none" => Vec::new(),
            // OpenPMIx separates the list by commas, older versions by colons.
            Some(list) => list
                .to_string_lossy()
                .split([',', ':'])
                .filter(|file| !file.is_empty())
                .map(|file| (self.cwd.join(file), true))
                .collect(),
            None => {
                let home = self.home.iter().map(|h| h.join(".pmix/mca-params.conf"));
                home.chain([self.system.join("pmix-mca-params.conf")])
                    .map(|file| (file, false))
                    .collect()
            }
        }
    }
}

/// Whether a file that nobody named is simply not there.
fn absent(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// No configuration is larger; a device that never ends would be.
const MAX_FILE: u64 = 4 << 20;

/// Reads a file of text.
fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(MAX_FILE + 1)
        .read_to_string(&mut text)?;
    if u64::try_from(text.len()).is_ok_and(|len| len > MAX_FILE) {
        let message = format!("the file has more than {MAX_FILE} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}
