// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of what is made and installed, with errors that name them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Makes a directory and those above it.
///
/// # Errors
/// It cannot be made, by its path.
pub(crate) fn directory(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))
}

/// Writes a file, in directories that are made if need be.
///
/// # Errors
/// It cannot be written, by its path.
pub(crate) fn write(file: &Path, text: &[u8]) -> Result<(), String> {
    file.parent().map_or(Ok(()), directory)?;
    fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}

/// Copies a file; a program that runs keeps the one that it has.
///
/// # Errors
/// It cannot be copied, by both paths.
pub(crate) fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    to.parent().map_or(Ok(()), directory)?;
    // What is not there need not be removed.
    let _ = fs::remove_file(to);
    let fault = |e: std::io::Error| format!("{} to {}: {e}", from.display(), to.display());
    fs::copy(from, to).map_err(fault)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(fault)
}
