// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directories of a session: one for it, one for the job, one for each process.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pmix_types::Rank;

use crate::Error;

/// The directory of a session, for its owner alone, removed with all that is in it when this is
/// dropped.
#[derive(Debug)]
pub(crate) struct SessionDir {
    /// `PMIX_TMPDIR`.
    path: PathBuf,
    /// `PMIX_NSDIR`.
    job: PathBuf,
}

impl SessionDir {
    /// Makes the directory below `tmpdir`, and one for each process below it.
    pub(crate) fn create(tmpdir: &Path, ranks: &[Rank]) -> Result<Self, Error> {
        let path = fresh(tmpdir)?;
        let dir = Self {
            job: path.join("job"),
            path,
        };
        let make = |path: &Path| {
            let made = private().create(path);
            made.map_err(|e| Error::system(format!("cannot make {}", path.display()), e))
        };
        make(&dir.job)?;
        for &rank in ranks {
            make(&dir.of_process(rank))?;
        }
        Ok(dir)
    }

    /// The directory of the session.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of the job in it.
    pub(crate) fn job(&self) -> &Path {
        &self.job
    }

    /// The directory of one process in that.
    pub(crate) fn of_process(&self, rank: Rank) -> PathBuf {
        self.job.join(rank.to_string())
    }
}

impl Drop for SessionDir {
    fn drop(&mut self) {
        // Goes by open directories and follows no link, so nothing outside is touched.
        if let Err(e) = fs::remove_dir_all(&self.path) {
            tracing::warn!("cannot remove {}: {e}", self.path.display());
        }
    }
}

/// Makes a directory that was not there before. A name that is taken, be it by a link, is left
/// alone and the next one tried.
fn fresh(tmpdir: &Path) -> Result<PathBuf, Error> {
    const TRIES: u32 = 1000;
    let uid = rustix::process::getuid().as_raw();
    let pid = std::process::id();
    for number in 0..TRIES {
        let path = tmpdir.join(format!("pmix-run.{uid}.{pid}.{number}"));
        match private().create(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(Error::system(format!("cannot make {}", path.display()), e)),
        }
    }
    Err(Error::request(format!(
        "{} holds the left-overs of {TRIES} sessions of process {pid}: remove pmix-run.{uid}.{pid}.*",
        tmpdir.display()
    )))
}

/// For its owner alone.
fn private() -> DirBuilder {
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
        let ranks = [Rank::new(0), Rank::new(7)];
        let dir = SessionDir::create(tmp.path(), &ranks).unwrap();
        for path in [dir.path(), dir.job(), &dir.of_process(Rank::new(7))] {
            let mode = fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", path.display());
        }
        fs::write(dir.of_process(Rank::new(0)).join("left"), "x").unwrap();
        drop(dir);
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_that_was_planted_is_neither_used_nor_followed() {
        let tmp = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("precious"), "x").unwrap();
        let uid = rustix::process::getuid().as_raw();
        let planted = format!("pmix-run.{uid}.{}.0", std::process::id());
        symlink(elsewhere.path(), tmp.path().join(planted)).unwrap();
        let dir = SessionDir::create(tmp.path(), &[Rank::new(0)]).unwrap();
        symlink(elsewhere.path(), dir.of_process(Rank::new(0)).join("out")).unwrap();
        drop(dir);
        assert!(elsewhere.path().join("precious").exists());
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let error = SessionDir::create(Path::new("/proc"), &[]).unwrap_err();
        assert!(error.to_string().starts_with("cannot make /proc/pmix-run."));
    }
}
