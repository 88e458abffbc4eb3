// SPDX-License-Identifier: MIT OR Apache-2.0
//! File operations whose errors name the file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Creates a directory and its parents.
///
/// # Errors
/// Returns a message with the path if it cannot be created.
pub(crate) fn directory(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))
}

/// Writes a file and creates its directories.
///
/// # Errors
/// Returns a message with the path if it cannot be written.
pub(crate) fn write(file: &Path, text: &[u8]) -> Result<(), String> {
    file.parent().map_or(Ok(()), directory)?;
    fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}

/// Replaces a file by a copy. A running program keeps the old file.
///
/// # Errors
/// Returns a message with both paths if it cannot be copied.
pub(crate) fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    to.parent().map_or(Ok(()), directory)?;
    // Nothing is removed if the file does not exist yet.
    let _ = fs::remove_file(to);
    let fault = |e: std::io::Error| format!("{} to {}: {e}", from.display(), to.display());
    fs::copy(from, to).map_err(fault)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(fault)
}
