// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system's Python and its packages: mpi4py, and the wrapper of libpmix.

use crate::peers;

/// The system's Python, not another one on the path: the wrapper is a Debian package.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// Checks that the system's Python has mpi4py, which is built for the system's Open MPI.
///
/// # Errors
/// Returns a message if it is missing.
pub(crate) fn require_mpi4py() -> Result<(), String> {
    match peers::package_files(&["python3-mpi4py"]).is_empty() {
        true => Err("no mpi4py of the system: install python3-mpi4py".to_owned()),
        false => Ok(()),
    }
}

/// Checks that the system's Python has the wrapper of libpmix.
///
/// # Errors
/// Returns a message if it is missing.
pub(crate) fn require_wrapper() -> Result<(), String> {
    match peers::package_files(&["python3-pmix"]).is_empty() {
        true => Err("no Python wrapper: install python3-pmix".to_owned()),
        false => Ok(()),
    }
}
