// SPDX-License-Identifier: MIT OR Apache-2.0
//! The environment of a process: variables, directories, and rights that its caller does not have.
//!
//! [`Environment::of_process`] is the only place in the workspace that reads the environment; tests
//! create their own.
//!
//! Source: OpenPMIx, the variables `PMIX_MCA_*`; `docs/plugins.md` for the others.

#[cfg(feature = "params")]
mod files;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use rustix::process::{getegid, geteuid, getgid, getuid};

use crate::loader::is_secure_execution;

/// The environment variables, and the directories in which settings are searched.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The environment variables, in order.
    pub vars: Vec<(OsString, OsString)>,
    /// The current directory, for relative paths and for a `plugins.toml`; empty if there is none.
    pub cwd: PathBuf,
    /// The home directory, if there is one.
    pub home: Option<PathBuf>,
    /// The configuration directory of the system.
    pub system: PathBuf,
}

impl Environment {
    /// Returns the environment of this process. For a process that [gained
    /// rights](crate::gained_rights), it has neither the variables nor the directories of the
    /// caller.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one reader")]
    pub fn of_process() -> Self {
        let system = PathBuf::from("/etc");
        if gained_rights() {
            return Self {
                vars: Vec::new(),
                cwd: PathBuf::new(),
                home: None,
                system,
            };
        }
        Self {
            vars: std::env::vars_os().collect(),
            cwd: std::env::current_dir().unwrap_or_default(),
            home: std::env::var_os("HOME")
                .filter(|home| !home.is_empty())
                .map(PathBuf::from),
            system,
        }
    }

    /// Returns the first of several variables that is set and not empty.
    #[must_use]
    pub fn first_of(&self, names: &[&str]) -> Option<&OsStr> {
        names.iter().find_map(|name| self.var(name))
    }

    fn var(&self, name: &str) -> Option<&OsStr> {
        let found = self.vars.iter().find(|(variable, _)| variable == name);
        found.map(|(_, value)| &**value).filter(|v| !v.is_empty())
    }
}

// The check whether this process has rights that its caller does not have.
//
// Source: the Linux manual, `getauxval`, `AT_SECURE`.

/// Returns `true` if this process has more rights than its caller: by a set-id bit, by capabilities
/// of its file, or by the kernel's `AT_SECURE`. Then neither the environment nor the command line
/// may select files that the process reads or loads.
#[must_use]
pub fn gained_rights() -> bool {
    getuid() != geteuid() || getgid() != getegid() || is_secure_execution()
}
