// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output files, one for each process and stream.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pmix_host::cleanup::{ProtectedPaths, remove_counted};
use pmix_host::forward::OutputFile;
use pmix_host::helpers::Cancel;
use pmix_server::{Cleanup, CleanupDirectory};
use pmix_types::{Rank, Text};

use super::pattern::Names;
use crate::{Error, OutputFiles, Plan};

/// The open files for standard output and standard error of a process.
pub(crate) type RankFiles = [OutputFile; 2];

/// The output files and directories that did not exist before. Those of a job that is not started are removed again.
#[derive(Debug, Default)]
pub(crate) struct CreatedPaths {
    files: Vec<PathBuf>,
    /// The directories in the order of their creation.
    dirs: Vec<PathBuf>,
}

/// The files of a job, with names like `rank.07.stdout`, in one directory.
///
/// File operations can take as long as the disk needs, so a helper thread executes them while processes run.
pub(crate) struct Files<'a> {
    asked: &'a OutputFiles,
    names: Names<'a>,
    /// `true` if both streams of a process go to one file.
    are_joined: bool,
}

impl<'a> Files<'a> {
    /// Returns the files of a job, or `None` if its output does not go to files.
    pub(crate) fn of_plan(plan: &'a Plan) -> Option<Self> {
        let layout = &plan.layout;
        let names = Names::new(&plan.nspace, layout.host(), layout.num_procs());
        let asked = plan.output.files.as_ref()?;
        Some(Self::new(asked, names, plan.output.is_merged))
    }

    fn new(asked: &'a OutputFiles, names: Names<'a>, is_merged: bool) -> Self {
        Self {
            asked,
            names,
            are_joined: is_merged || !asked.name.is_extended(),
        }
    }

    /// Returns the number of files for each process.
    pub(crate) fn num_each(&self) -> usize {
        if self.are_joined { 1 } else { 2 }
    }

    /// Creates the directory unless it exists.
    pub(crate) fn make_dir(&self, created: &mut CreatedPaths) -> Result<(), Error> {
        make(&self.asked.dir, created)
    }

    /// Opens the files of several processes, each the first incarnation of its rank.
    pub(crate) fn open_all(
        &self,
        ranks: &[Rank],
        created: &mut CreatedPaths,
        cancel: &Cancel,
    ) -> Result<Vec<RankFiles>, Error> {
        let open = |rank: &Rank| match cancel.is_cancelled() {
            true => Err(Error::cancelled()),
            false => self.open(*rank, true, created),
        };
        ranks.iter().map(open).collect()
    }

    /// Opens the files for standard output and standard error of a process, private to their owner. Existing files
    /// are truncated for the first incarnation of a rank and appended to for later ones. Joined streams share one
    /// open file and its offset.
    pub(crate) fn open(
        &self,
        rank: Rank,
        is_first: bool,
        created: &mut CreatedPaths,
    ) -> Result<RankFiles, Error> {
        let cannot_write =
            |path: &Path, error| Error::unusable(format!("cannot write {}", path.display()), error);
        let mut open = |stream: &str| {
            let name = self.asked.name.name(self.names, rank, stream);
            let path = self.asked.dir.join(&name);
            if let Some(dir) = name.parent().filter(|dir| !dir.as_os_str().is_empty()) {
                make(&self.asked.dir.join(dir), created)?;
            }
            let is_new = is_missing(&path);
            let opened = match is_first {
                true => pmix_files::create(&path),
                false => pmix_files::append(&path),
            };
            let file = opened.map_err(|e| cannot_write(&path, e))?;
            if is_new {
                created.files.push(path.clone());
            }
            let file = Arc::new(file);
            Ok(OutputFile { path, file })
        };
        let output = open("stdout")?;
        let errors = match self.are_joined {
            true => output.clone(),
            false => open("stderr")?,
        };
        Ok([output, errors])
    }
}

impl CreatedPaths {
    /// Removes the files, and the directories that are empty without them.
    pub(crate) fn remove(&self, progress: &AtomicU64) {
        let text = |path: &PathBuf| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            Text::new(path.into_os_string().into_encoded_bytes())
        };
        let directory = |path| CleanupDirectory {
            path: text(path),
            recursive: false,
            // Another job may have created files in the directory.
            only_empty: true,
            leave_top: false,
        };
        let cleanup = Cleanup {
            files: self.files.iter().map(text).collect(),
            // A directory is empty only after those below it, which were created later.
            directories: self.dirs.iter().rev().map(directory).collect(),
            ignored: Vec::new(),
        };
        let user = rustix::process::geteuid().as_raw();
        // This removal follows no links, so nothing outside is removed even if others can write to the directory.
        let errors = remove_counted(&cleanup, user, &ProtectedPaths::default(), progress);
        for error in errors {
            tracing::debug!("an output file of a job that was not started remains: {error}");
        }
    }
}

/// Creates a directory with its parents unless it exists.
fn make(dir: &Path, created: &mut CreatedPaths) -> Result<(), Error> {
    let above = dir.ancestors().filter(|dir| !dir.as_os_str().is_empty());
    let missing: Vec<_> = above.take_while(|dir| is_missing(dir)).collect();
    let made = DirBuilder::new().recursive(true).mode(0o755).create(dir);
    made.map_err(|e| {
        Error::unusable(
            format!(
                "cannot make the directory {} for output files (name a directory, not a file)",
                dir.display()
            ),
            e,
        )
    })?;
    let missing = missing.into_iter().rev().map(Path::to_owned);
    created.dirs.extend(missing);
    Ok(())
}

fn is_missing(path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path);
    found.is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FilePattern;
    use std::fs::Permissions;
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn asked(dir: &Path) -> OutputFiles {
        OutputFiles {
            dir: dir.to_owned(),
            name: FilePattern::default(),
            is_copied: false,
        }
    }

    fn files(asked: &OutputFiles, num_procs: u64, is_merged: bool) -> Files<'_> {
        let files = Files::new(asked, Names::new("job@1", b"n1", num_procs), is_merged);
        files.make_dir(&mut CreatedPaths::default()).unwrap();
        files
    }

    #[test]
    fn file_names_sort_in_rank_order() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().join("a/b");
        let asked = asked(&dir);
        let files = files(&asked, 11, false);
        files
            .open_all(
                &[Rank::new(10), Rank::new(9)],
                &mut CreatedPaths::default(),
                &Cancel::never(),
            )
            .unwrap();
        let mut names: Vec<_> = std::fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let expected = [
            "rank.09.stderr",
            "rank.09.stdout",
            "rank.10.stderr",
            "rank.10.stdout",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn two_streams_in_one_file_do_not_overwrite_each_other() {
        let tmp = tempfile::tempdir().unwrap();
        let asked = OutputFiles {
            name: FilePattern::parse("%n/out.%r".as_ref()).unwrap(),
            ..asked(tmp.path())
        };
        let files = files(&asked, 2, true);
        let streams = files
            .open(Rank::new(1), true, &mut CreatedPaths::default())
            .unwrap();
        for (stream, text) in [(0, "a"), (1, "b"), (0, "c")] {
            (&*streams[stream].file).write_all(text.as_bytes()).unwrap();
        }
        let path = tmp.path().join("job@1/out.1.stdout");
        assert_eq!(std::fs::read(&path).unwrap(), b"abc");
        let again = files
            .open(Rank::new(1), false, &mut CreatedPaths::default())
            .unwrap();
        (&*again[1].file).write_all(b"d").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"abcd");
        files
            .open(Rank::new(1), true, &mut CreatedPaths::default())
            .unwrap();
        assert_eq!(std::fs::read(path).unwrap(), b"");
    }

    #[test]
    fn files_are_private_and_no_link_of_others_is_followed() {
        let tmp = tempfile::tempdir().unwrap();
        let (dir, precious) = (tmp.path().join("out"), tmp.path().join("precious"));
        std::fs::write(&precious, "x").unwrap();
        let asked = asked(&dir);
        let files = files(&asked, 2, false);
        files
            .open(Rank::new(0), true, &mut CreatedPaths::default())
            .unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir.join("rank.0.stdout")), 0o600);
        std::fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
        symlink(&precious, dir.join("rank.1.stderr")).unwrap();
        let error = files
            .open(Rank::new(1), true, &mut CreatedPaths::default())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("rank.1.stderr") && error.contains("mode 0777"),
            "{error}"
        );
        assert_eq!(std::fs::read(&precious).unwrap(), b"x");
    }

    #[test]
    fn output_files_of_a_canceled_job_are_not_created() {
        let tmp = tempfile::tempdir().unwrap();
        let asked = asked(&tmp.path().join("out"));
        let files = files(&asked, 2, false);
        let cancel = Cancel::default();
        cancel.cancel();
        let error = files
            .open_all(&[Rank::new(0)], &mut CreatedPaths::default(), &cancel)
            .unwrap_err();
        assert_eq!(error.status(), pmix_types::Status::ERR_JOB_CANCELED);
        assert_eq!(std::fs::read_dir(&asked.dir).unwrap().count(), 0);
    }
}
