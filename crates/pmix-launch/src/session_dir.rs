// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directories of a session, of its jobs, and of their processes.
//!
//! A launcher locks the directory of its session. The kernel releases the lock however the launcher ends, so the
//! directory of a killed launcher can be recognized, even from another container with the same `/tmp`.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pmix_types::Rank;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, openat, unlinkat};
use rustix::rand::GetRandomFlags;

use crate::Error;

/// The directory of a session, private to its owner. Dropping it removes the directory with its content.
#[derive(Debug)]
pub(crate) struct SessionDir {
    /// `PMIX_TMPDIR`.
    path: PathBuf,
    /// The locked directory; `None` if the file system has no locks.
    _lock: Option<File>,
    /// `true` if other code removes the directory.
    is_left: bool,
}

impl SessionDir {
    /// Creates the directory below `tmpdir`, after it removed directories that killed launchers of this user left
    /// there. The path is absolute, because processes and the watcher have other working directories.
    pub(crate) fn create(tmpdir: &Path) -> Result<Self, Error> {
        let tmpdir = std::path::absolute(tmpdir);
        let tmpdir =
            &tmpdir.map_err(|e| Error::system("cannot determine the working directory", e))?;
        remove_left_over(tmpdir);
        let (path, lock) = fresh(tmpdir)?;
        Ok(Self {
            path,
            _lock: lock,
            is_left: false,
        })
    }

    /// Returns the directory of the session.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the removal of the directory to the caller. It stays locked until this is dropped.
    pub(crate) fn leave(&mut self) -> PathBuf {
        self.is_left = true;
        self.path.clone()
    }

    /// Leaves the directory behind as a killed launcher does.
    #[cfg(test)]
    pub(crate) fn abandon(mut self) {
        drop(self._lock.take());
        self.is_left = true;
    }
}

/// The directory of a job in that of its session. It is removed with the session at the latest.
///
/// The directory of a process is created when the process connects
/// ([`ProcessDirs`](crate::process_dirs::ProcessDirs)). Many programs never connect, and creating and removing a
/// directory takes a noticeable part of their launch.
#[derive(Debug)]
pub(crate) struct JobDir {
    /// `PMIX_NSDIR`.
    path: PathBuf,
}

impl JobDir {
    /// Creates the directory of the job with this number, or of the first job.
    pub(crate) fn create(session: &Path, number: Option<u64>) -> Result<Self, Error> {
        let path = session.join(name_of(number.unwrap_or(0)));
        let made = private().create(&path);
        made.map_err(|e| Error::system(format!("cannot make {}", path.display()), e))?;
        Ok(Self { path })
    }

    /// Returns the directory of the job.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory of a process of the job.
    pub(crate) fn of_process(&self, rank: Rank) -> PathBuf {
        self.path.join(rank.to_string())
    }
}

/// Returns the name of the directory of a job; the first job has the number 0.
pub(crate) fn name_of(number: u64) -> String {
    match number {
        0 => "job".to_owned(),
        _ => format!("job.{number}"),
    }
}

/// Removes a directory. `remove_dir_all` follows no links, so nothing outside is touched.
fn remove(path: &Path) {
    if let Err(e) = fs::remove_dir_all(path)
        && e.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!("cannot remove {}: {e}", path.display());
    }
}

impl Drop for SessionDir {
    fn drop(&mut self) {
        if !self.is_left {
            remove(&self.path);
        }
    }
}

/// Removes a directory with its content without following links, and adds 1 to `progress` for each entry.
///
/// # Errors
/// Returns an error if something cannot be removed.
pub(crate) fn remove_tree(path: &Path, progress: &AtomicU64) -> io::Result<()> {
    // `empty` skips entries that are nested too deeply; they are removed here without being counted.
    if let Ok(dir) = open_dir(rustix::fs::CWD, path) {
        empty(&dir, progress, 0)?;
    }
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Removes the entries of a directory at this depth.
fn empty(dir: &OwnedFd, progress: &AtomicU64, depth: usize) -> io::Result<()> {
    const DEEPEST: usize = 64;
    if depth == DEEPEST {
        return Ok(());
    }
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        progress.fetch_add(1, Ordering::Relaxed);
        // An entry that could not be removed makes the removal of the directory fail, which is reported.
        let _ = match entry.file_type() {
            FileType::Directory => {
                if let Ok(below) = open_dir(dir, name) {
                    empty(&below, progress, depth + 1)?;
                }
                unlinkat(dir, name, AtFlags::REMOVEDIR)
            }
            _ => unlinkat(dir, name, AtFlags::empty()),
        };
    }
    Ok(())
}

fn open_dir(dir: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty())
}

/// Creates a new directory with a name that cannot be guessed. If the name exists nevertheless, even as a link, it is
/// left alone and another name is tried.
fn fresh(tmpdir: &Path) -> Result<(PathBuf, Option<File>), Error> {
    const TRIES: u32 = 100;
    let prefix = prefix();
    let pid = std::process::id();
    for _ in 0..TRIES {
        let suffix = suffix().map_err(|e| Error::system("cannot read random numbers", e))?;
        let path = tmpdir.join(format!("{prefix}{pid}.{suffix}"));
        match private().create(&path) {
            Ok(()) => match lock(&path) {
                Ok(lock) => return Ok((path, Some(lock))),
                // Another launcher took the directory for a left-over before it was locked.
                Err(e) if is_taken(&e) => {}
                Err(e) => {
                    tracing::debug!("cannot lock {}: {e}", path.display());
                    return Ok((path, None));
                }
            },
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => {
                return Err(Error::unusable(
                    format!("cannot make {}", path.display()),
                    e,
                ));
            }
        }
    }
    Err(Error::request(format!(
        "{}: cannot create a directory {prefix}{pid}.* in {TRIES} attempts: each name existed already, or another launcher removed the new directory",
        tmpdir.display()
    )))
}

/// Returns random letters and digits.
fn suffix() -> io::Result<String> {
    const SIGNS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bytes = [0u8; 12];
    let filled = rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())?;
    if filled < bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let sign = |byte: u8| char::from(SIGNS[usize::from(byte % 32)]);
    Ok(bytes.into_iter().map(sign).collect())
}

/// Returns the common prefix of the session directories of this user.
fn prefix() -> String {
    format!("pmix-run.{}.", rustix::process::getuid().as_raw())
}

/// Locks a directory of this user, if it is not locked.
fn lock(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let dir = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let found = dir.metadata()?;
    if found.uid() != rustix::process::getuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    flock(&dir, FlockOperation::NonBlockingLockExclusive)?;
    // The previous owner of the lock may have removed the directory, and a new one may exist under its name.
    let now = fs::symlink_metadata(path)?;
    if (now.dev(), now.ino()) != (found.dev(), found.ino()) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    Ok(dir)
}

/// Returns `true` if a directory could not be locked because another launcher uses or removed it.
fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::NotFound
    )
}

/// Removes the session directories of this user that are not locked.
fn remove_left_over(tmpdir: &Path) {
    // Any user can fill a shared directory with such names, so the work is bounded. The rest is removed another time.
    const MOST_OF_OTHERS: u32 = 1000;
    let prefix = prefix();
    let mut of_others = 0;
    // An error of listing the directory is ignored; creating the session in it will report the cause.
    for entry in fs::read_dir(tmpdir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_one = name.to_str().is_some_and(|name| name.starts_with(&prefix));
        // The lock is held until the directory is removed.
        let _lock = match is_one.then(|| lock(&entry.path())) {
            None => continue,
            Some(Ok(lock)) => lock,
            Some(Err(_)) => {
                of_others += 1;
                match of_others < MOST_OF_OTHERS {
                    true => continue,
                    false => break,
                }
            }
        };
        remove_locked(&entry.path());
    }
}

/// Removes the directory of a killed launcher's session, unless it is in use, belongs to another user, or has another
/// name. Waits a moment for the lock: the kernel closes the descriptors of a killed launcher one by one, so the pipe
/// to the watcher may close before the lock is released.
pub(crate) fn remove_of_killed(path: &Path) {
    const TRIES: usize = 200;
    const PAUSE: Duration = Duration::from_millis(5);
    let name = path.file_name().and_then(|name| name.to_str());
    if !name.is_some_and(|name| name.starts_with(&prefix())) {
        return;
    }
    for _ in 0..TRIES {
        match lock(path) {
            Ok(_lock) => return remove_locked(path),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            Err(e) => return tracing::debug!("cannot lock {}: {e}", path.display()),
        }
    }
}

/// Removes a directory that this process has locked, without following links.
fn remove_locked(path: &Path) {
    match fs::remove_dir_all(path) {
        Ok(()) => tracing::info!("{}: removed the files of a killed launcher", path.display()),
        Err(e) => tracing::debug!("cannot remove {}: {e}", path.display()),
    }
}

/// Returns a builder of directories that are private to their owner.
pub(crate) fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn directories_are_private_and_go_with_what_is_in_them() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = SessionDir::create(tmp.path()).unwrap();
        let job = JobDir::create(dir.path(), None).unwrap();
        let spawned = JobDir::create(dir.path(), Some(1)).unwrap();
        let rank = Rank::new(7);
        for job in [&job, &spawned] {
            private().create(job.of_process(rank)).unwrap();
        }
        let (own, other) = (job.of_process(rank), spawned.of_process(rank));
        for path in [dir.path(), job.path(), &own, &other] {
            let mode = fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", path.display());
        }
        fs::write(other.join("left"), "x").unwrap();
        let progress = AtomicU64::new(0);
        remove_tree(spawned.path(), &progress).unwrap();
        // The file, and the directory of the process.
        assert_eq!(progress.into_inner(), 2);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::write(own.join("left"), "x").unwrap();
        drop(dir);
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_that_was_planted_is_neither_used_nor_followed() {
        let tmp = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("precious"), "x").unwrap();
        // Plant many names with the predictable part.
        for number in 0..2000 {
            let planted = format!("{}{}.{number}", prefix(), std::process::id());
            symlink(elsewhere.path(), tmp.path().join(planted)).unwrap();
        }
        let mut dir = SessionDir::create(tmp.path()).unwrap();
        symlink(elsewhere.path(), dir.path().join("out")).unwrap();
        let nested = dir.path().join("a/".repeat(100));
        fs::create_dir_all(&nested).unwrap();
        symlink(elsewhere.path(), nested.join("out")).unwrap();
        let path = dir.leave();
        remove_tree(&path, &AtomicU64::new(0)).unwrap();
        assert!(!path.exists());
        remove_tree(&path, &AtomicU64::new(0)).unwrap();
        drop(dir);
        assert!(elsewhere.path().join("precious").exists());
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_killed_launcher_left_is_removed_and_nothing_else() {
        let tmp = tempfile::tempdir().unwrap();
        let alive = SessionDir::create(tmp.path()).unwrap();
        // Release the lock, as the kernel does for a killed launcher, and keep the directory.
        let mut killed = SessionDir::create(tmp.path()).unwrap();
        fs::write(killed.path().join("left"), "x").unwrap();
        drop(killed._lock.take());
        let killed = std::mem::ManuallyDrop::new(killed);

        let prefix = prefix();
        let elsewhere = tempfile::tempdir().unwrap();
        let link = tmp.path().join(format!("{prefix}1.0"));
        symlink(elsewhere.path(), &link).unwrap();
        fs::write(tmp.path().join(format!("{prefix}1.1")), "a file").unwrap();
        let other = tmp.path().join("pmix-run.of-somebody");
        fs::create_dir(&other).unwrap();

        let next = SessionDir::create(tmp.path()).unwrap();
        assert!(!killed.path().exists());
        for path in [alive.path(), next.path(), &link, &other, elsewhere.path()] {
            assert!(path.exists(), "{}", path.display());
        }
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 5);
    }

    #[test]
    fn names_cannot_be_foreseen() {
        let (one, other) = (suffix().unwrap(), suffix().unwrap());
        assert_ne!(one, other);
        for name in [one, other] {
            let is_sign = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit();
            assert!(name.len() == 12 && name.chars().all(is_sign), "{name}");
        }
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let error = SessionDir::create(Path::new("/proc")).unwrap_err();
        assert!(error.to_string().starts_with("cannot make /proc/pmix-run."));
    }
}
