// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looking for rendezvous files below a directory.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Maximum depth of session directories below the temporary directory: PRRTE uses two levels.
const MAX_DEPTH: usize = 3;
/// Maximum number of directories to read, which bounds the time for a large temporary directory.
const MAX_DIRECTORIES: usize = 20_000;

/// Maximum number of names to read, which bounds the time for a directory filled by other users.
const MAX_NAMES: usize = 4_000_000;
/// Maximum number of files of other users to return, for messages that name their owners.
const MAX_OF_OTHERS: usize = 4;

/// Maximum number of directories of one other user to read.
const MAX_DIRECTORIES_OF_USER: usize = 1_000;
/// Maximum number of names to read in the directories of one other user.
const MAX_NAMES_OF_USER: usize = 100_000;
/// Maximum number of files of one other user to return, where the files of all users are wanted. A server has two.
const MAX_FILES_OF_USER: usize = 256;

/// Maximum number of files and directories of all other users to keep. One person may own those of many users.
const MAX_KEPT_OF_OTHERS: usize = 50_000;

/// The files that were found.
pub(crate) struct Files {
    /// Their paths in ascending order.
    pub(crate) paths: Vec<PathBuf>,
    /// The files of other users with their owners, if they are wanted: the first file of each user, then the second
    /// file of each, and so on.
    pub(crate) of_others: Vec<(u32, PathBuf)>,
    /// The number of further files that belong to other users, which are not used.
    pub(crate) num_of_others: usize,
}

/// The users whose files are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owners {
    /// Root and one user.
    Own(u32),
    /// All users. The search is root's.
    All,
}

/// Returns the files below a directory whose names satisfy a condition. Links are not followed. Unless the files of all
/// users are wanted, a directory of another user is not entered: what it holds is not believed. Other users may have put
/// any number of files with such names into a shared directory, so only some of theirs are returned.
pub(crate) fn files_below(top: &Path, owners: Owners, wanted: impl Fn(&str) -> bool) -> Files {
    let mut walk = Walk {
        owners,
        wanted,
        paths: Vec::new(),
        left: vec![(top.to_path_buf(), 0)],
        others: BTreeMap::new(),
        num_kept_of_others: 0,
        num_of_others: 0,
    };
    walk.enter_own(top);
    walk.enter_others();
    walk.finish()
}

/// A directory with its depth below the top.
type Below = (PathBuf, usize);

/// The search below a directory.
struct Walk<F> {
    owners: Owners,
    wanted: F,
    paths: Vec<PathBuf>,
    left: Vec<Below>,
    /// The files and directories of each other user.
    others: BTreeMap<u32, OfUser>,
    num_kept_of_others: usize,
    num_of_others: usize,
}

/// The files and directories of one other user.
#[derive(Default)]
struct OfUser {
    paths: Vec<PathBuf>,
    directories: Vec<Below>,
    num_directories: usize,
    num_names: usize,
}

impl<F: Fn(&str) -> bool> Walk<F> {
    /// Reads the directories of this user and of root.
    fn enter_own(&mut self, top: &Path) {
        let (mut num_directories, mut num_names) = (0, 0);
        while let Some((directory, depth)) = self.left.pop() {
            num_directories += 1;
            if num_directories > MAX_DIRECTORIES || num_names > MAX_NAMES {
                warn_of_end(top, num_directories, num_names);
                break;
            }
            let Ok(entries) = fs::read_dir(&directory) else {
                continue;
            };
            for entry in entries.flatten().take(MAX_NAMES) {
                num_names += 1;
                self.take(&entry, (&directory, depth), None);
            }
        }
    }

    /// Reads the directories of other users, if their files are wanted. Each user has a limit, so that the files of one
    /// do not hide the servers of another.
    fn enter_others(&mut self) {
        let users: Vec<_> = self.others.keys().copied().collect();
        let mut num_directories = 0;
        for user in users {
            while let Some((directory, depth)) = self.of(user).directories.pop() {
                num_directories += 1;
                let OfUser {
                    num_directories: of_user,
                    num_names,
                    ..
                } = *self.of(user);
                if num_directories > MAX_DIRECTORIES
                    || of_user >= MAX_DIRECTORIES_OF_USER
                    || num_names >= MAX_NAMES_OF_USER
                {
                    warn_of_end(&directory, of_user, num_names);
                    break;
                }
                self.of(user).num_directories += 1;
                // The owner may have replaced the directory by a link to another one since it was found.
                let Some(entries) = read_dir_of(&directory, user) else {
                    continue;
                };
                for entry in entries.flatten().take(MAX_NAMES_OF_USER - num_names) {
                    self.of(user).num_names += 1;
                    self.take(&entry, (&directory, depth), Some(user));
                }
            }
        }
    }

    fn of(&mut self, user: u32) -> &mut OfUser {
        self.others.entry(user).or_default()
    }

    /// Keeps an entry that is a directory to enter or a wanted file. `inside` is the other user that owns the directory of
    /// the entry: only that user's entries count there.
    fn take(
        &mut self,
        entry: &fs::DirEntry,
        (directory, depth): (&Path, usize),
        inside: Option<u32>,
    ) {
        let Ok(kind) = entry.file_type() else {
            return;
        };
        let is_dir = kind.is_dir();
        let is_meant = match is_dir {
            true => depth < MAX_DEPTH,
            false => entry.file_name().to_str().is_some_and(&self.wanted),
        };
        let Some(Ok(owner)) = is_meant.then(|| entry.metadata().map(|about| about.uid())) else {
            return;
        };
        let path = directory.join(entry.file_name());
        let is_own = owner == 0 || self.owners == Owners::Own(owner);
        match (is_own && inside.is_none(), self.owners) {
            (true, _) if is_dir => self.left.push((path, depth + 1)),
            (true, _) => self.paths.push(path),
            (false, Owners::Own(_)) if is_dir => {}
            (false, Owners::Own(_)) => {
                // These are only named in messages.
                let num_shown: usize = self.others.values().map(|of| of.paths.len()).sum();
                match num_shown < MAX_OF_OTHERS {
                    true => self.of(owner).paths.push(path),
                    false => self.num_of_others += 1,
                }
            }
            (false, Owners::All) if inside.is_some_and(|inside| inside != owner) => {}
            (false, Owners::All) if self.num_kept_of_others >= MAX_KEPT_OF_OTHERS => {
                self.num_of_others += usize::from(!is_dir);
            }
            (false, Owners::All) if is_dir => {
                let of = self.of(owner);
                if of.directories.len() < MAX_DIRECTORIES_OF_USER {
                    of.directories.push((path, depth + 1));
                    self.num_kept_of_others += 1;
                }
            }
            (false, Owners::All) => {
                let of = self.of(owner);
                match of.paths.len() < MAX_FILES_OF_USER {
                    true => {
                        of.paths.push(path);
                        self.num_kept_of_others += 1;
                    }
                    false => self.num_of_others += 1,
                }
            }
        }
    }

    fn finish(self) -> Files {
        let mut paths = self.paths;
        let mut of_others = Vec::new();
        match self.owners {
            Owners::Own(_) => paths.extend(self.others.into_values().flat_map(|of| of.paths)),
            Owners::All => {
                for (owner, mut of) in self.others {
                    of.paths.sort_unstable();
                    let numbered = of.paths.into_iter().enumerate();
                    of_others.extend(numbered.map(|(number, path)| (number, owner, path)));
                }
                // A user with many files thus does not delay the servers of others.
                of_others.sort_unstable();
            }
        }
        paths.sort_unstable();
        Files {
            paths,
            of_others: of_others
                .into_iter()
                .map(|(_, owner, path)| (owner, path))
                .collect(),
            num_of_others: self.num_of_others,
        }
    }
}

/// Lists a directory if it is no link and still belongs to this user.
fn read_dir_of(path: &Path, user: u32) -> Option<fs::ReadDir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let about = rustix::fs::fstat(&opened).ok()?;
    let same = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    match about.st_uid == user {
        true => fs::read_dir(same).ok(),
        false => None,
    }
}

fn warn_of_end(below: &Path, num_directories: usize, num_names: usize) {
    tracing::warn!(
        "the search below {} stopped after {num_directories} directories and {num_names} names: servers may be \
         missing; remove old files there, or name the server by its file or address",
        below.display()
    );
}
