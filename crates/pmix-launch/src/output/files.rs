// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output into files, one for each process and stream.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pmix_types::Rank;

use crate::Error;

/// A directory with files like `rank.07.stdout`, which the processes themselves write to.
pub(crate) struct Files {
    dir: PathBuf,
    /// How many digits a rank has, so that files stand in the order of ranks.
    width: usize,
}

impl Files {
    /// Makes the directory if it is not there.
    pub(super) fn create(dir: &Path, num_procs: u64) -> Result<Self, Error> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(dir)
            .map_err(|e| Error::unusable(format!("cannot make {}", dir.display()), e))?;
        Ok(Self {
            dir: dir.to_owned(),
            width: num_procs.saturating_sub(1).to_string().len(),
        })
    }

    /// The files for standard output and error of a process, for their owner alone, emptied if they
    /// were there.
    pub(super) fn of(&self, rank: Rank) -> Result<[File; 2], Error> {
        let open = |stream: &str| {
            let name = format!(
                "rank.{:0width$}.{stream}",
                rank.as_raw(),
                width = self.width
            );
            let path = self.dir.join(name);
            pmix_files::create(&path)
                .map_err(|e| Error::unusable(format!("cannot write {}", path.display()), e))
        };
        Ok([open("stdout")?, open("stderr")?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn names_stand_in_the_order_of_ranks() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().join("a/b");
        let files = Files::create(&dir, 11).unwrap();
        files.of(Rank::new(10)).unwrap();
        files.of(Rank::new(9)).unwrap();
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
    fn files_are_private_and_no_link_of_others_is_followed() {
        let tmp = tempfile::tempdir().unwrap();
        let (dir, precious) = (tmp.path().join("out"), tmp.path().join("precious"));
        std::fs::write(&precious, "x").unwrap();
        let files = Files::create(&dir, 2).unwrap();
        files.of(Rank::new(0)).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir.join("rank.0.stdout")), 0o600);
        std::fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
        symlink(&precious, dir.join("rank.1.stderr")).unwrap();
        let error = files.of(Rank::new(1)).unwrap_err().to_string();
        assert!(
            error.contains("rank.1.stderr") && error.contains("mode 0777"),
            "{error}"
        );
        assert_eq!(std::fs::read(&precious).unwrap(), b"x");
    }
}
