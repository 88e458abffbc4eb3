// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directories for the files of a server.
//!
//! A path is resolved name by name with descriptors, and no link on it is followed. The directory must belong to this
//! user or root. If others may write there, it must have the sticky bit, so that they cannot remove files of this user.
//! From then on only the descriptor is used, so later changes of the path have no effect.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use pmix_types::Status;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::Error;

/// A directory that was found safe.
#[derive(Debug)]
pub(super) struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
    /// The directories that this walk created, the last first, each with its parent.
    made: Vec<(OwnedFd, PathBuf)>,
}

impl Directory {
    /// Opens a directory. Missing parts of the path are created with access for this user only.
    ///
    /// DEVIATION: no link is followed and the directory of another user is rejected, where OpenPMIx accepts any;
    /// no_link_on_the_path_is_followed, a_directory_of_another_user_is_refused
    ///
    /// # Errors
    /// Returns an error if a name on the path is a link or not a directory, or if the directory is not safe.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let mut walk = Walk {
            at: PathBuf::new(),
            made: Vec::new(),
        };
        let descriptor = walk.to(path)?;
        // The innermost directory is removed first.
        walk.made.reverse();
        let directory = Self {
            descriptor,
            path: path.to_path_buf(),
            made: walk.made,
        };
        directory.check()?;
        Ok(directory)
    }

    /// Returns the path that was opened, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn check(&self) -> Result<(), Error> {
        let shown = self.path.display();
        let stat = fstat(&self.descriptor).map_err(|e| failed(&self.path, e))?;
        let me = rustix::process::geteuid().as_raw();
        if stat.st_uid != me && stat.st_uid != 0 {
            let why = format!(
                "{shown} is owned by user {}, but this process runs as user {me}: use a directory of your own",
                stat.st_uid
            );
            return Err(Error::new(Status::ERR_NO_PERMISSIONS, why));
        }
        let mode = Mode::from_raw_mode(stat.st_mode);
        let others_write = mode.intersects(Mode::WGRP | Mode::WOTH);
        if others_write && !mode.contains(Mode::SVTX) {
            let why = format!(
                "other users can replace files in {shown} (mode {:04o}): remove their write permission, or \
                set the sticky bit",
                mode.as_raw_mode() & 0o7777
            );
            return Err(Error::new(Status::ERR_NO_PERMISSIONS, why));
        }
        Ok(())
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Directory {
    /// Removes the directories that were created for the files, unless others use them.
    fn drop(&mut self) {
        for (parent, name) in &self.made {
            if unlinkat(parent, name, AtFlags::REMOVEDIR).is_err() {
                break;
            }
        }
    }
}

/// A walk along a path.
struct Walk {
    /// The path resolved so far, for messages.
    at: PathBuf,
    made: Vec<(OwnedFd, PathBuf)>,
}

impl Walk {
    fn to(&mut self, path: &Path) -> Result<OwnedFd, Error> {
        let mut here: Option<OwnedFd> = None;
        for part in path.components() {
            self.at.push(part);
            let name = match part {
                Component::RootDir => OsStr::new("/"),
                Component::CurDir => OsStr::new("."),
                Component::ParentDir => OsStr::new(".."),
                Component::Normal(name) => name,
                Component::Prefix(_) => continue,
            };
            let next = self.step(here.as_ref().map_or(CWD, AsFd::as_fd), name)?;
            here = Some(next);
        }
        here.ok_or_else(|| Error::new(Status::ERR_BAD_PARAM, "the name of a directory is empty"))
    }

    fn step(&mut self, from: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Error> {
        match enter(from, name) {
            Err(Errno::NOENT) => {
                let made = mkdirat(from, name, Mode::RWXU);
                match made {
                    Ok(()) => {
                        let parent =
                            enter(from, OsStr::new(".")).map_err(|e| failed(&self.at, e))?;
                        self.made.push((parent, name.into()));
                    }
                    // Another server has just created it; its owner is checked like that of any other directory.
                    Err(Errno::EXIST) => {}
                    Err(error) => return Err(failed(&self.at, error)),
                }
                enter(from, name).map_err(|e| self.refused(from, name, e))
            }
            other => other.map_err(|e| self.refused(from, name, e)),
        }
    }

    /// Returns the error for a name that cannot be opened; for a link the system only reports that it is not
    /// a directory.
    fn refused(&self, from: BorrowedFd<'_>, name: &OsStr, error: Errno) -> Error {
        let link = statat(from, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| is_link(&stat));
        if link {
            let why = format!(
                "{} is a symbolic link, which is not followed: use the path of the directory itself",
                self.at.display()
            );
            return Error::new(Status::ERR_NO_PERMISSIONS, why);
        }
        failed(&self.at, error)
    }
}

fn enter(from: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    // `O_PATH` needs no permission to list the directory.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(from, name, flags, Mode::empty())
}

pub(super) fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

pub(super) fn failed(path: &Path, error: Errno) -> Error {
    Error::io(&path.display().to_string(), error.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn refusal(path: &Path) -> String {
        Directory::open(path).unwrap_err().to_string()
    }

    #[test]
    fn missing_names_are_made_for_this_user_and_go_again() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a/b");
        let directory = Directory::open(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(directory);
        assert!(!top.path().join("a").exists());
    }

    #[test]
    fn a_directory_that_was_there_or_is_used_stays() {
        let top = tempfile::tempdir().unwrap();
        drop(Directory::open(top.path()).unwrap());
        let used = top.path().join("used");
        let directory = Directory::open(&used).unwrap();
        fs::write(used.join("file"), "").unwrap();
        drop(directory);
        assert!(used.exists());
    }

    #[test]
    fn no_link_on_the_path_is_followed() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("real/inner")).unwrap();
        symlink(top.path().join("real"), top.path().join("link")).unwrap();
        for path in ["link", "link/inner"] {
            let why = refusal(&top.path().join(path));
            assert!(why.contains("link is a symbolic link"), "{why}");
        }
        symlink("nowhere", top.path().join("dangling")).unwrap();
        assert!(refusal(&top.path().join("dangling")).contains("is a symbolic link"));
        assert!(!top.path().join("nowhere").exists());
    }

    #[test]
    fn others_may_not_be_able_to_replace_files() {
        let top = tempfile::tempdir().unwrap();
        let mode = |mode| fs::set_permissions(top.path(), fs::Permissions::from_mode(mode));
        mode(0o777).unwrap();
        assert!(refusal(top.path()).contains("mode 0777"));
        mode(0o1777).unwrap();
        assert!(Directory::open(top.path()).is_ok());
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let top = tempfile::tempdir().unwrap();
        if chown(top.path(), Some(12_345), None).is_err() {
            // Only root can change the owner of a directory; the rule applies to all users.
            return;
        }
        assert!(refusal(top.path()).contains("is owned by user 12345"));
    }

    #[test]
    fn a_file_is_no_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(refusal(&file.path().join("x")).contains("ot a directory"));
    }
}
