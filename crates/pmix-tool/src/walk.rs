// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looking for rendezvous files below a directory.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Maximum depth of session directories below the temporary directory: PRRTE uses two levels.
const MAX_DEPTH: usize = 3;
/// Maximum number of directories to read, which bounds the time for a large temporary directory.
const MAX_DIRECTORIES: usize = 20_000;

/// Maximum number of names to read, which bounds the time for a directory filled by other users.
const MAX_NAMES: usize = 4_000_000;
/// Maximum number of files of other users to return, for messages that name their owners.
const MAX_OF_OTHERS: usize = 4;

/// The files that were found.
pub(crate) struct Files {
    /// Their paths in ascending order.
    pub(crate) paths: Vec<PathBuf>,
    /// The number of further files that belong to other users, which are not used.
    pub(crate) num_of_others: usize,
}

/// Returns the files below a directory whose names satisfy a condition. Links are not followed, and a directory of
/// another user is not entered: what it holds is not believed. Other users may have put any number of files with such
/// names into a shared directory, so only some of theirs are returned.
pub(crate) fn files_below(top: &Path, user: u32, wanted: impl Fn(&str) -> bool) -> Files {
    let mut found = Files {
        paths: Vec::new(),
        num_of_others: 0,
    };
    let mut of_others = Vec::new();
    let mut left = vec![(top.to_path_buf(), 0)];
    let (mut num_directories, mut num_names) = (0, 0);
    while let Some((directory, depth)) = left.pop() {
        num_directories += 1;
        if num_directories > MAX_DIRECTORIES || num_names > MAX_NAMES {
            tracing::warn!(
                "the search below {} stopped after {num_directories} directories and {num_names} names: servers may be \
                 missing; remove old files there, or name the server by its file or address",
                top.display()
            );
            break;
        }
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries.flatten().take(MAX_NAMES) {
            num_names += 1;
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                if depth < MAX_DEPTH && is_trusted(&entry, user) {
                    left.push((entry.path(), depth + 1));
                }
            } else if entry.file_name().to_str().is_some_and(&wanted) {
                match is_trusted(&entry, user) {
                    true => found.paths.push(entry.path()),
                    false if of_others.len() < MAX_OF_OTHERS => of_others.push(entry.path()),
                    false => found.num_of_others += 1,
                }
            }
        }
    }
    found.paths.append(&mut of_others);
    found.paths.sort_unstable();
    found
}

/// Returns whether an entry belongs to the user or to root.
fn is_trusted(entry: &fs::DirEntry, user: u32) -> bool {
    let about = entry.metadata();
    about.is_ok_and(|about| about.uid() == user || about.uid() == 0)
}
