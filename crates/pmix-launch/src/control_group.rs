// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control groups of the launcher, in which its processes start.
//!
//! Source: the kernel's documents `admin-guide/cgroup-v2.rst` and `admin-guide/cgroup-v1/cgroups.rst`.

use std::path::{Path, PathBuf};

/// The mount point of control groups.
pub(crate) const MOUNT: &str = "/sys/fs/cgroup";

/// The control group of a process that may have a controller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ControlGroup {
    /// The name, below the root.
    pub(crate) name: String,
    /// The directory of the root.
    pub(crate) root: PathBuf,
    /// `true` for version 2, which has one hierarchy for all controllers.
    pub(crate) is_unified: bool,
}

impl ControlGroup {
    /// Returns the control groups in the text of `/proc/self/cgroup` that may have a controller, in the order of the
    /// text. The line of version 2 names no controllers.
    pub(crate) fn all<'t>(
        text: &'t str,
        mount: &'t Path,
        controller: &'t str,
    ) -> impl Iterator<Item = Self> + 't {
        text.lines().filter_map(move |line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, name) = (fields.next()?, fields.next()?, fields.next()?);
            let is_unified = controllers.is_empty();
            let root = match is_unified {
                true => mount.to_owned(),
                false if controllers.split(',').any(|one| one == controller) => {
                    mount.join(controller)
                }
                false => return None,
            };
            Some(Self {
                name: name.to_owned(),
                root,
                is_unified,
            })
        })
    }

    /// Returns the directory of the control group.
    pub(crate) fn dir(&self) -> PathBuf {
        self.root.join(self.name.trim_start_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_both_versions_are_found() {
        let text = "5:devices:/\n4:cpuset,memory:/docker/1\n1:name=systemd:/\n0::/user\ngarbage\n";
        let of = |controller| -> Vec<_> {
            let groups = ControlGroup::all(text, Path::new("/mnt"), controller);
            groups
                .map(|group| (group.dir(), group.is_unified))
                .collect()
        };
        let unified = (PathBuf::from("/mnt/user"), true);
        assert_eq!(of("pids"), std::slice::from_ref(&unified));
        let memory = (PathBuf::from("/mnt/memory/docker/1"), false);
        assert_eq!(of("memory"), [memory, unified]);
    }
}
