// SPDX-License-Identifier: MIT OR Apache-2.0
//! The walk along a path, from one open directory to the next.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::Fault;

/// The maximum number of symbolic links on a path, as in the kernel.
const MOST_LINKS: u32 = 40;

/// The flags to open a directory for lookups only. Reading it is a separate permission.
const SEARCH: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(if cfg!(target_os = "linux") {
        OFlags::PATH
    } else {
        OFlags::empty()
    });

/// Returns the permission bits, including set-id and sticky.
pub(crate) fn mode(stat: &Stat) -> u32 {
    Mode::from_raw_mode(stat.st_mode).bits()
}

/// The users who can add, replace and remove entries of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// Root and the user.
    Ours,
    /// All users, but each can replace and remove only own entries.
    Sticky,
    /// A user other than root and the user.
    Others,
}

impl Writers {
    fn of(stat: &Stat, user: u32) -> Self {
        let mode = mode(stat);
        match (is_ours(stat, user), mode & 0o022 != 0) {
            (true, false) => Self::Ours,
            (true, true) if mode & 0o1000 != 0 => Self::Sticky,
            _ => Self::Others,
        }
    }
}

/// Returns `true` if an object belongs to root or the user.
pub(crate) fn is_ours(stat: &Stat, user: u32) -> bool {
    stat.st_uid == 0 || stat.st_uid == user
}

/// Creates the fault for an object, with its owner and mode.
pub(crate) fn untrusted(path: &Path, stat: &Stat, user: u32) -> Fault {
    Fault::Untrusted {
        path: path.to_path_buf(),
        owner: stat.st_uid,
        mode: mode(stat),
        user,
    }
}

/// An open directory.
struct Directory {
    fd: OwnedFd,
    path: PathBuf,
    writers: Writers,
}

/// The last directory of a path, and the last name, which was not a symbolic link when it was
/// examined.
pub(crate) struct End {
    pub(crate) fd: OwnedFd,
    pub(crate) name: OsString,
    /// The path of the directory and the name.
    pub(crate) path: PathBuf,
    pub(crate) writers: Writers,
    /// The object with the name; `None` if there is none.
    pub(crate) stat: Option<Stat>,
    /// The reason for which the path is not trusted, if there is one.
    pub(crate) distrust: Option<Fault>,
}

/// Walks along an absolute path, and resolves its symbolic links.
pub(crate) fn walk(path: &Path, user: u32) -> Result<End, Fault> {
    let mut walk = Walk {
        user,
        names: VecDeque::new(),
        open: Vec::new(),
        distrust: None,
        links: 0,
    };
    walk.root()?;
    walk.push(path);
    walk.run()
}

struct Walk {
    user: u32,
    /// The remaining names.
    names: VecDeque<OsString>,
    /// The directories from the root to the current one.
    open: Vec<Directory>,
    distrust: Option<Fault>,
    links: u32,
}

impl Walk {
    fn root(&mut self) -> Result<(), Fault> {
        self.open.clear();
        let root = Path::new("/");
        let fd = rustix::fs::open(root, SEARCH, Mode::empty()).map_err(Fault::of)?;
        self.enter(fd, root.to_path_buf())
    }

    /// Puts the names of a path before the remaining ones.
    fn push(&mut self, path: &Path) {
        let names = path
            .components()
            .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
        for name in names.rev() {
            self.names.push_front(name.as_os_str().to_os_string());
        }
    }

    /// Continues with a directory that was opened.
    fn enter(&mut self, fd: OwnedFd, path: PathBuf) -> Result<(), Fault> {
        let stat = rustix::fs::fstat(&fd).map_err(Fault::of)?;
        self.check_entry(&path, &stat);
        let writers = Writers::of(&stat, self.user);
        if writers == Writers::Others {
            self.doubt(untrusted(&path, &stat, self.user));
        }
        self.open.push(Directory { fd, path, writers });
        Ok(())
    }

    /// Records a distrust if the entry is in a directory with the sticky bit and belongs to another
    /// user.
    fn check_entry(&mut self, path: &Path, stat: &Stat) {
        let sticky = self
            .open
            .last()
            .is_some_and(|last| last.writers == Writers::Sticky);
        if sticky && !is_ours(stat, self.user) {
            self.doubt(untrusted(path, stat, self.user));
        }
    }

    fn doubt(&mut self, fault: Fault) {
        self.distrust.get_or_insert(fault);
    }

    fn run(mut self) -> Result<End, Fault> {
        while let Some(name) = self.names.pop_front() {
            if name == ".." {
                if self.open.len() > 1 {
                    self.open.pop();
                }
                continue;
            }
            let Some(here) = self.open.last() else {
                return Err(Fault::Missing);
            };
            let path = here.path.join(&name);
            let unsearchable = || Fault::Unsearchable(here.path.clone());
            let stat = match look(here, &name) {
                Ok(stat) => Some(stat),
                Err(Errno::NOENT) if self.names.is_empty() => None,
                Err(Errno::ACCESS) => return Err(unsearchable()),
                Err(error) => return Err(Fault::of(error)),
            };
            match stat {
                Some(stat) if kind(&stat) == FileType::Symlink => {
                    self.check_entry(&path, &stat);
                    self.follow(&name, path)?;
                }
                Some(stat) if kind(&stat) == FileType::Directory && !self.names.is_empty() => {
                    let opened = rustix::fs::openat(&here.fd, &name, SEARCH, Mode::empty());
                    self.enter(opened.map_err(Fault::of)?, path)?;
                }
                Some(_) if !self.names.is_empty() => return Err(Fault::Missing),
                stat => return Ok(self.end(name, path, stat)),
            }
        }
        // No name remains: the path consists only of `/` and `..`.
        let (name, path) = (OsString::from("."), PathBuf::from("/"));
        let stat = self.open.last().and_then(|here| look(here, &name).ok());
        self.root()?;
        Ok(self.end(name, path, stat))
    }

    fn end(mut self, name: OsString, path: PathBuf, stat: Option<Stat>) -> End {
        if let Some(stat) = &stat {
            self.check_entry(&path, stat);
        }
        // `open` is never empty: the root directory stays open.
        let last = self.open.swap_remove(self.open.len() - 1);
        End {
            fd: last.fd,
            name,
            path,
            writers: last.writers,
            stat,
            distrust: self.distrust,
        }
    }

    /// Continues along a symbolic link. Records a distrust if another user could have created it.
    fn follow(&mut self, name: &OsStr, path: PathBuf) -> Result<(), Fault> {
        if let Some(fault) = &self.distrust {
            return Err(fault.clone());
        }
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Fault::Links);
        }
        let Some(here) = self.open.last() else {
            return Err(Fault::Missing);
        };
        let target = rustix::fs::readlinkat(&here.fd, name, Vec::new()).map_err(Fault::of)?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.as_os_str().is_empty() {
            return Err(Fault::Io(
                std::io::ErrorKind::InvalidInput,
                format!("{} leads nowhere", path.display()),
            ));
        }
        if target.is_absolute() {
            self.root()?;
        }
        self.push(&target);
        Ok(())
    }
}

fn look(here: &Directory, name: &OsStr) -> Result<Stat, Errno> {
    rustix::fs::statat(&here.fd, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Returns the kind of a file.
pub(crate) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}
