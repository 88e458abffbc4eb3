// SPDX-License-Identifier: MIT OR Apache-2.0
//! The removal of files and directories that processes registered for their end (`PMIX_REGISTER_CLEANUP` and relatives,
//! PMIx Standard, "Job control attributes").
//!
//! The server collects these requests and notifies its host with [`ServerEvent::Cleanup`] when a process or job has
//! terminated. The host passes the event to [`remove`]. A path is resolved from the root by descriptors, one directory
//! at a time, and no link is followed. So a process cannot redirect the removal by a link. Only files of the requesting
//! user are removed, and [`ProtectedPaths`] and their parents stay.
//!
//! [`ServerEvent::Cleanup`]: pmix_server::ServerEvent::Cleanup

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use pmix_server::{Cleanup, CleanupDirectory};
use pmix_types::{ErrorDetail, Status};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::Errno;

use crate::Error;

/// The deepest level of directories that are emptied.
const DEEPEST: usize = 64;

/// Directories that are never removed, including their parents: the working directory of the host, the
/// directory of its session directories, and the home directory of the user.
#[derive(Clone, Debug, Default)]
pub struct ProtectedPaths(Vec<PathBuf>);

impl ProtectedPaths {
    /// Protects these directories, under the given names and under the names to which links in them lead.
    #[must_use]
    pub fn new(kept: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut all = Vec::new();
        for path in kept {
            // A process may register the directory under another name that leads to it.
            all.extend(std::fs::canonicalize(&path).ok());
            all.push(path);
        }
        Self(all)
    }

    /// Returns the directories, under all their names.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.0
    }

    fn keeps(&self, path: &Path) -> bool {
        path == Path::new("/") || self.0.iter().any(|kept| kept.starts_with(path))
    }
}

/// Removes the files and directories that a user registered for cleanup, and returns an error for each that
/// could not be removed. A path that does not exist is not an error.
///
/// Only files owned by `uid`, the user of [`ServerEvent::Cleanup`], are removed. A host that runs as a
/// different user than its processes needs the privileges for that.
///
/// # Errors
/// Returns one error for each failed path, in the order of the request: `PMIX_ERR_NO_PERMISSIONS` for a path that
/// another user owns or that is protected; `PMIX_ERR_BAD_PARAM` for a file in place of a directory or the reverse, a
/// path with a link, or one that is not absolute; and `PMIX_ERROR` for any other error of the system.
///
/// [`ServerEvent::Cleanup`]: pmix_server::ServerEvent::Cleanup
pub fn remove(cleanup: &Cleanup, uid: u32, protected: &ProtectedPaths) -> Vec<Error> {
    remove_counted(cleanup, uid, protected, &AtomicU64::new(0))
}

/// Removes paths like [`remove`], and increments `progress` for each entry that it examines. The duration depends on
/// the disk and the number of files. So a host calls it in a thread of its own, and uses `progress` to detect a blocked
/// file system.
///
/// # Errors
/// Returns the errors of [`remove`].
pub fn remove_counted(
    cleanup: &Cleanup,
    uid: u32,
    protected: &ProtectedPaths,
    progress: &AtomicU64,
) -> Vec<Error> {
    let removal = Removal {
        ignored: cleanup.ignored.iter().map(|text| text.as_bytes()).collect(),
        uid,
        progress,
    };
    let mut errors = Vec::new();
    for file in &cleanup.files {
        removal.note_progress();
        let path = Path::new(OsStr::from_bytes(file.as_bytes()));
        errors.extend(error_of(path, removal.file(path)));
    }
    for directory in &cleanup.directories {
        removal.note_progress();
        let path = Path::new(OsStr::from_bytes(directory.path.as_bytes()));
        errors.extend(match protected.keeps(path) {
            true => {
                let what = format!("{} is not removed: it belongs to the host", path.display());
                Some(ErrorDetail::new(Status::ERR_NO_PERMISSIONS, what).into())
            }
            false => error_of(path, removal.directory(path, directory)),
        });
    }
    errors
}

fn error_of(path: &Path, result: Result<(), Errno>) -> Option<Error> {
    let errno = match result {
        Ok(()) => {
            tracing::debug!("removed {}", path.display());
            return None;
        }
        // The process has removed it itself.
        Err(Errno::NOENT) => return None,
        Err(errno) => errno,
    };
    let status = match errno {
        Errno::PERM | Errno::ACCESS => Status::ERR_NO_PERMISSIONS,
        Errno::INVAL | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP => Status::ERR_BAD_PARAM,
        _ => Status::ERROR,
    };
    let what = format!("cannot remove {}", path.display());
    Some(ErrorDetail::caused(status, what, std::io::Error::from(errno)).into())
}

/// The rules of one removal.
struct Removal<'a> {
    /// Names and paths that must stay.
    ignored: Vec<&'a [u8]>,
    /// The user whose entries are removed.
    uid: u32,
    /// The number of entries examined.
    progress: &'a AtomicU64,
}

impl Removal<'_> {
    fn note_progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    fn file(&self, path: &Path) -> Result<(), Errno> {
        let (parent, name) = open_parent(path)?;
        // A link itself is removed: the process could have changed its target since the request.
        let about = statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(about.st_mode) {
            FileType::Directory => Err(Errno::ISDIR),
            _ if self.is_ignored(path, &name) => Ok(()),
            _ => self.unlink(&parent, &name, about.st_uid, AtFlags::empty()),
        }
    }

    fn directory(&self, path: &Path, how: &CleanupDirectory) -> Result<(), Errno> {
        let (parent, name) = open_parent(path)?;
        if self.is_ignored(path, &name) {
            return Ok(());
        }
        let dir = open_dir(parent.as_fd(), &name)?;
        let owner = fstat(&dir)?.st_uid;
        // In a shared directory such as /tmp, another user may have taken this name.
        if owner != self.uid {
            return Err(Errno::PERM);
        }
        self.empty(&dir, path, how, 0)?;
        if how.leave_top {
            return Ok(());
        }
        kept(self.unlink(&parent, &name, owner, AtFlags::REMOVEDIR))
    }

    /// Removes the entries of a directory.
    fn empty(
        &self,
        dir: &OwnedFd,
        path: &Path,
        how: &CleanupDirectory,
        depth: usize,
    ) -> Result<(), Errno> {
        // Each level takes a descriptor and a stack frame, and the process chooses the depth.
        if depth == DEEPEST {
            return Err(Errno::LOOP);
        }
        for entry in Dir::read_from(dir)? {
            // An entry that stays counts as progress, too, since there may be millions of them.
            self.note_progress();
            let entry = entry?;
            let name = entry.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            let below = path.join(OsStr::from_bytes(name.to_bytes()));
            if !self.is_ignored(&below, name) {
                self.entry(dir, name, &below, how, depth)?;
            }
        }
        Ok(())
    }

    fn entry(
        &self,
        dir: &OwnedFd,
        name: &CStr,
        path: &Path,
        how: &CleanupDirectory,
        depth: usize,
    ) -> Result<(), Errno> {
        let about = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(about.st_mode) != FileType::Directory {
            return match how.only_empty {
                true => Ok(()),
                false => self.unlink(dir, name, about.st_uid, AtFlags::empty()),
            };
        }
        // A directory of another user stays with all of its contents.
        if how.recursive && about.st_uid == self.uid {
            self.empty(&open_dir(dir.as_fd(), name)?, path, how, depth + 1)?;
        }
        match how.recursive || how.only_empty {
            true => kept(self.unlink(dir, name, about.st_uid, AtFlags::REMOVEDIR)),
            false => Ok(()),
        }
    }

    fn unlink(&self, dir: &OwnedFd, name: &CStr, owner: u32, flags: AtFlags) -> Result<(), Errno> {
        // The kernel refuses nothing to a host that runs as root.
        match owner == self.uid {
            true => unlinkat(dir, name, flags),
            false => Err(Errno::PERM),
        }
    }

    fn is_ignored(&self, path: &Path, name: &CStr) -> bool {
        let path = path.as_os_str().as_bytes();
        let mut ignored = self.ignored.iter();
        ignored.any(|&ignored| ignored == name.to_bytes() || ignored == path)
    }
}

/// Ignores the error for a nonempty directory, which contains ignored paths.
fn kept(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        other => other,
    }
}

/// Opens the parent directory of a path without following links. Returns it with the name of the entry.
fn open_parent(path: &Path) -> Result<(OwnedFd, CString), Errno> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(name) => {
                names.push(CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)?);
            }
            // The engine rejects these components, since their meaning depends on the working directory.
            _ => return Err(Errno::INVAL),
        }
    }
    let name = names.pop().ok_or(Errno::INVAL)?;
    let mut dir = open_dir(rustix::fs::CWD, c"/")?;
    for name in &names {
        // Each step starts from an open directory, so a rename or a link in the meantime does not redirect it.
        dir = open_dir(dir.as_fd(), name)?;
    }
    Ok((dir, name))
}

fn open_dir(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_types::Text;
    use std::fs;
    use std::os::unix::fs::symlink;

    struct Tree {
        dir: tempfile::TempDir,
        uid: u32,
    }

    impl Tree {
        /// Creates files, and directories for names with a trailing slash.
        fn of(names: &[&str]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for name in names {
                let path = dir.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                match name.ends_with('/') {
                    true => fs::create_dir_all(path).unwrap(),
                    false => fs::write(path, "").unwrap(),
                }
            }
            let uid = rustix::process::getuid().as_raw();
            Self { dir, uid }
        }

        fn text(&self, name: &str) -> Text<'static> {
            let path = self.dir.path().canonicalize().unwrap().join(name);
            Text::new(path.into_os_string().into_encoded_bytes())
        }

        fn file(&self, name: &str) -> Cleanup {
            Cleanup {
                files: vec![self.text(name)],
                ..Cleanup::default()
            }
        }

        fn directory(&self, name: &str, change: impl FnOnce(&mut CleanupDirectory)) -> Cleanup {
            let mut directory = CleanupDirectory {
                path: self.text(name),
                recursive: false,
                only_empty: false,
                leave_top: false,
            };
            change(&mut directory);
            Cleanup {
                directories: vec![directory],
                ..Cleanup::default()
            }
        }

        /// Returns the remaining entries, sorted.
        fn after(&self, cleanup: &Cleanup) -> Vec<String> {
            remove(cleanup, self.uid, &ProtectedPaths::default());
            let mut left = Vec::new();
            list(self.dir.path(), "", &mut left);
            left.sort();
            left
        }
    }

    fn list(dir: &Path, prefix: &str, left: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                list(&entry.path(), &format!("{name}/"), left);
            }
            left.push(name);
        }
    }

    #[test]
    fn a_file_goes_and_a_directory_is_no_file() {
        let tree = Tree::of(&["a", "d/x"]);
        assert_eq!(tree.after(&tree.file("a")), ["d", "d/x"]);
        assert_eq!(tree.after(&tree.file("d")), ["d", "d/x"]);
        assert_eq!(tree.after(&tree.file("absent")), ["d", "d/x"]);
    }

    #[test]
    fn a_directory_is_removed_recursively_only_on_request() {
        let tree = Tree::of(&["d/x", "d/e/y", "f/z"]);
        assert_eq!(
            tree.after(&tree.directory("f", |_| {})),
            ["d", "d/e", "d/e/y", "d/x"]
        );
        assert_eq!(
            tree.after(&tree.directory("d", |_| {})),
            ["d", "d/e", "d/e/y"]
        );
        let all = tree.directory("d", |d| d.recursive = true);
        assert_eq!(tree.after(&all), [""; 0]);
    }

    #[test]
    fn ignored_paths_are_kept() {
        let tree = Tree::of(&["d/x", "d/e/keep", "d/e/y"]);
        let mut cleanup = tree.directory("d", |d| d.recursive = true);
        cleanup.ignored.push("keep".into());
        assert_eq!(tree.after(&cleanup), ["d", "d/e", "d/e/keep"]);
        let top = tree.directory("d", |d| (d.recursive, d.leave_top) = (true, true));
        assert_eq!(tree.after(&top), ["d"]);
    }

    #[test]
    fn only_empty_directories_go_where_that_is_asked() {
        let tree = Tree::of(&["d/x", "d/e/f/", "d/g/y"]);
        let cleanup = tree.directory("d", |d| (d.recursive, d.only_empty) = (true, true));
        assert_eq!(tree.after(&cleanup), ["d", "d/g", "d/g/y", "d/x"]);
    }

    #[test]
    fn no_link_is_followed() {
        let tree = Tree::of(&["precious/x", "d/y"]);
        let root = tree.dir.path();
        symlink(root.join("precious"), root.join("d/link")).unwrap();
        symlink(root.join("precious"), root.join("link")).unwrap();
        let through = tree.file("link/x");
        assert!(tree.after(&through).contains(&"precious/x".to_owned()));
        let link = tree.directory("link", |d| d.recursive = true);
        assert!(tree.after(&link).contains(&"precious/x".to_owned()));
        let around = tree.directory("d", |d| d.recursive = true);
        assert_eq!(tree.after(&around), ["link", "precious", "precious/x"]);
        // The link itself belongs to the user.
        assert_eq!(tree.after(&tree.file("link")), ["precious", "precious/x"]);
    }

    #[test]
    fn paths_that_cannot_be_removed_are_reported_with_their_status() {
        let tree = Tree::of(&["a", "d/x"]);
        let status_of = |cleanup: &Cleanup, uid| {
            let errors = remove(cleanup, uid, &ProtectedPaths::default());
            let [error] = errors.as_slice() else {
                panic!("{errors:?}");
            };
            (error.status(), error.to_string())
        };
        let (status, text) = status_of(&tree.file("a"), tree.uid + 1);
        assert_eq!(status, Status::ERR_NO_PERMISSIONS);
        let path = tree.text("a").to_str_lossy().into_owned();
        assert!(text.contains(&path), "{text}");
        let (status, _) = status_of(&tree.file("d"), tree.uid);
        assert_eq!(status, Status::ERR_BAD_PARAM);
        let (status, _) = status_of(&tree.directory("a", |_| {}), tree.uid);
        assert_eq!(status, Status::ERR_BAD_PARAM);
        let absent = remove(&tree.file("b"), tree.uid, &ProtectedPaths::default());
        assert_eq!(absent, []);
    }

    #[test]
    fn files_of_other_users_are_not_removed() {
        let mut tree = Tree::of(&["a", "d/x"]);
        tree.uid += 1;
        assert_eq!(tree.after(&tree.file("a")), ["a", "d", "d/x"]);
        let all = tree.directory("d", |d| d.recursive = true);
        assert_eq!(tree.after(&all), ["a", "d", "d/x"]);
    }

    #[test]
    fn the_working_directory_of_the_host_is_not_removed() {
        let tree = Tree::of(&["home/user/x"]);
        let protected = ProtectedPaths::new([tree.dir.path().join("home/user")]);
        for name in ["home/user", "home", ""] {
            let all = tree.directory(name, |d| d.recursive = true);
            let errors = remove(&all, tree.uid, &protected);
            let [error] = errors.as_slice() else {
                panic!("{errors:?}");
            };
            assert_eq!(error.status(), Status::ERR_NO_PERMISSIONS);
            assert!(
                error.to_string().contains("it belongs to the host"),
                "{error}"
            );
            assert!(tree.dir.path().join("home/user/x").exists(), "{name:?}");
        }
        assert!(protected.keeps(Path::new("/")));
    }
}
