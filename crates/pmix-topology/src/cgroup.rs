// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processors and memories that the control group of this process may use. hwloc omits all
//! others and numbers only the objects that remain.
//!
//! Source: Linux, `Documentation/admin-guide/cgroup-v2.rst`, heading "Cpuset Interface Files", and
//! `cgroup-v1/cpusets.rst`; cpuset(7) for `/proc/pid/cpuset`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Cpuset;

/// The numbers of the processors and memories that may be used; `None` means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) cpus: Option<Cpuset>,
    pub(crate) memories: Option<Cpuset>,
}

impl Allowed {
    /// Returns the resources that the control group of this process may use. `root` is `/`, or a
    /// directory with its layout.
    pub(crate) fn of_process(root: &Path) -> Self {
        Self::read(root).unwrap_or_default()
    }

    fn read(root: &Path) -> Option<Self> {
        let group = fs::read_to_string(root.join("proc/self/cpuset")).ok()?;
        let mounts = fs::read_to_string(root.join("proc/self/mounts")).ok()?;
        let files = files(&mounts)?;
        let below = |path: &str| root.join(path.trim_start_matches('/'));
        let dir = below(&files.mounted).join(group.trim().trim_start_matches('/'));
        let list = |name: &str| -> Option<Cpuset> {
            let text = fs::read_to_string(PathBuf::from(&dir).join(name)).ok()?;
            let set = Cpuset::parse(&text).ok()?;
            // An empty set means that the limit is not set.
            (!set.is_empty()).then_some(set)
        };
        Some(Self {
            cpus: list(files.cpus),
            memories: list(files.memories),
        })
    }
}

/// The directory of the control groups for processors, and the names of their files.
struct Files {
    mounted: String,
    cpus: &'static str,
    memories: &'static str,
}

/// Returns the files of version 1 if it controls processors, otherwise those of version 2.
fn files(mounts: &str) -> Option<Files> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?, words.next()?))
    });
    let mut second = None;
    for (mounted, kind, options) in mounts {
        let mounted = mounted.to_owned();
        match kind {
            "cgroup" if options.split(',').any(|option| option == "cpuset") => {
                return Some(Files {
                    mounted,
                    cpus: "cpuset.cpus",
                    memories: "cpuset.mems",
                });
            }
            "cgroup2" => {
                second = Some(Files {
                    mounted,
                    cpus: "cpuset.cpus.effective",
                    memories: "cpuset.mems.effective",
                });
            }
            _ => {}
        }
    }
    second
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(mounts: &str, group: &str, files: &[(&str, &str)]) -> Allowed {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("proc/self/mounts", mounts);
        put("proc/self/cpuset", group);
        files.iter().for_each(|(path, text)| put(path, text));
        Allowed::of_process(root.path())
    }

    fn only(cpus: &str, memories: Option<&str>) -> Allowed {
        Allowed {
            cpus: Cpuset::parse(cpus).ok(),
            memories: memories.map(|list| Cpuset::parse(list).unwrap()),
        }
    }

    const FIRST: &str = "tmpfs /g tmpfs rw 0 0\ncgroup /g/cpu cgroup rw,cpu 0 0\n\
                         cgroup /g/cpuset cgroup rw,relatime,cpuset 0 0\n";
    const SECOND: &str = "cgroup2 /g/unified cgroup2 rw,relatime 0 0\n";

    #[test]
    fn reads_the_limits_of_the_process_group() {
        let files = [
            ("g/cpuset/job/cpuset.cpus", "2-3\n"),
            ("g/cpuset/job/cpuset.mems", "1\n"),
            ("g/unified/job/cpuset.cpus.effective", "5\n"),
        ];
        let both = format!("{SECOND}{FIRST}");
        assert_eq!(allowed(&both, "/job\n", &files), only("2-3", Some("1")));
        assert_eq!(allowed(SECOND, "/job\n", &files), only("5", None));
        assert_eq!(allowed(FIRST, "/other\n", &files), Allowed::default());
        assert_eq!(allowed("", "/job\n", &files), Allowed::default());
    }

    #[test]
    fn an_empty_list_allows_all() {
        for text in ["", "\n", "x"] {
            let files = [("g/unified/cpuset.cpus.effective", text)];
            assert_eq!(allowed(SECOND, "/\n", &files), Allowed::default());
        }
        assert_eq!(
            Allowed::of_process(Path::new("/nonexistent")),
            Allowed::default()
        );
    }
}
