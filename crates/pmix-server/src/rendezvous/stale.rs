// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of killed servers. Their names contain the nspace or process id of their server, so no later server has
//! the same name and replaces them.

use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, unlinkat};

use super::directory::Directory;
use super::file::{is_left_over, move_in};

/// Removes the files of this user in a directory whose names have this prefix and whose servers have exited.
/// Files that cannot be removed are ignored.
pub(super) fn remove(directory: &Directory, prefix: &str) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = openat(directory, c".", flags, Mode::empty()).and_then(Dir::new);
    let Ok(entries) = listed else {
        return tracing::debug!("{} cannot be listed", directory.path().display());
    };
    let is_one = |name: &&str| name.trim_start_matches('.').starts_with(prefix);
    for entry in entries.flatten() {
        if let Some(name) = entry.file_name().to_str().ok().filter(is_one) {
            remove_one(directory, name);
        }
    }
}

fn remove_one(directory: &Directory, name: &str) {
    if !is_left_over(directory, name) {
        return;
    }
    // A new server may have taken the name since the check, so the file is renamed before it is removed.
    let aside = format!(".{name}.{}.left", std::process::id());
    if move_in(directory, name, &aside).is_err() {
        return;
    }
    let done = match is_left_over(directory, &aside) {
        true => unlinkat(directory, &*aside, AtFlags::empty()),
        false => move_in(directory, &aside, name),
    };
    let path = directory.path().join(name);
    match done {
        Ok(()) => tracing::info!("{}: file of a server that has exited", path.display()),
        Err(error) => tracing::debug!(%error, "{}", path.display()),
    }
}
