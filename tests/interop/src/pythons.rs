// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Python of the system and what is installed for it: mpi4py, and the wrapper of libpmix.

use crate::peers;

/// The Python of the system, whichever other is first on the path: the wrapper is a package of Debian's.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// Whether the Python of the system has mpi4py, which is for the Open MPI of the system.
///
/// # Errors
/// It has not.
pub(crate) fn require_mpi4py() -> Result<(), String> {
    match peers::package_files(&["python3-mpi4py"]).is_empty() {
        true => Err("no mpi4py of the system: install python3-mpi4py".to_owned()),
        false => Ok(()),
    }
}

/// Whether the Python of the system has the wrapper of libpmix.
///
/// # Errors
/// It has not.
pub(crate) fn require_wrapper() -> Result<(), String> {
    match peers::package_files(&["python3-pmix"]).is_empty() {
        true => Err("no Python wrapper: install python3-pmix".to_owned()),
        false => Ok(()),
    }
}
