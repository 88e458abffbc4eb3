// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looking for rendezvous files below a directory.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// How deep session directories lie below the temporary directory: PRRTE has two levels.
const MAX_DEPTH: usize = 3;
/// How many directories are looked at, so that a large temporary directory costs a bounded time.
const MAX_DIRECTORIES: usize = 20_000;

/// The files below a directory, in the order of their paths, whose names satisfy a condition. Links are
/// not followed, and a directory of another user is not entered: what it holds is not believed.
pub(crate) fn files_below(top: &Path, user: u32, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![(top.to_path_buf(), 0)];
    let mut num_directories = 0;
    while let Some((directory, depth)) = left.pop() {
        num_directories += 1;
        if num_directories > MAX_DIRECTORIES {
            tracing::warn!(
                "only the first {MAX_DIRECTORIES} directories below {} were looked at",
                top.display()
            );
            break;
        }
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() && depth < MAX_DEPTH && is_entered(&entry, user) {
                left.push((entry.path(), depth + 1));
            } else if !kind.is_dir() && entry.file_name().to_str().is_some_and(&wanted) {
                found.push(entry.path());
            }
        }
    }
    found.sort_unstable();
    found
}

/// Whether a directory belongs to the user or to root.
fn is_entered(entry: &fs::DirEntry, user: u32) -> bool {
    let about = entry.metadata();
    about.is_ok_and(|about| about.uid() == user || about.uid() == 0)
}
