// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kills of processes by the kernel because memory was exhausted.
//!
//! The processes of a job are in the control group of the launcher, unless they leave it. The kernel counts the kills in
//! a control group before it sends the signal:
//!
//! | version | file | limit |
//! | --- | --- | --- |
//! | 2 | `memory.events`, the line `oom_kill N` | `memory.max` |
//! | 1 | `memory.oom_control`, the line `oom_kill N` | `memory.limit_in_bytes` |
//!
//! Source: the kernel's documents `admin-guide/cgroup-v2.rst` and `admin-guide/cgroup-v1/memory.rst`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::control_group::{ControlGroup, MOUNT};

/// A limit of this size or more is none: version 1 has no word for it.
const NO_LIMIT: u64 = 1 << 60;

/// The counter of kills in the control group of the launcher.
#[derive(Debug, Default)]
pub(super) struct OomKills {
    group: Option<Accounts>,
    /// The number of kills that are known or were not of this session.
    num_known: u64,
}

/// The files of a control group that accounts for memory.
#[derive(Debug)]
struct Accounts {
    name: String,
    events: PathBuf,
    limit: PathBuf,
}

impl OomKills {
    /// Finds the control group of this process.
    pub(super) fn of_launcher() -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::new(&groups, Path::new(MOUNT))
    }

    fn new(groups: &str, mount: &Path) -> Self {
        let group = Accounts::find(groups, mount);
        let num_known = group.as_ref().and_then(Accounts::num_kills);
        Self {
            group,
            num_known: num_known.unwrap_or(0),
        }
    }

    /// Returns the probable reason for a SIGKILL that the launcher did not send, if the kernel has killed a process
    /// since the last call. The control group may contain processes that are not of the session.
    pub(super) fn explain(&mut self) -> Option<String> {
        let group = self.group.as_ref()?;
        let num_kills = group.num_kills()?;
        // The kill of another process before the last call must not explain this SIGKILL.
        if num_kills <= std::mem::replace(&mut self.num_known, num_kills) {
            return None;
        }
        let name = &group.name;
        let reason = match group.limit() {
            Some(bytes) => format!("whose limit is {} MiB", bytes >> 20),
            None => {
                "because of the limit of a group above it, or of the memory of the node".to_owned()
            }
        };
        Some(format!(
            "probably out of memory: the kernel has killed a process of control group {name}, {reason}"
        ))
    }
}

impl Accounts {
    /// Finds the files in the lines of `/proc/self/cgroup`.
    fn find(groups: &str, mount: &Path) -> Option<Self> {
        let mut all = ControlGroup::all(groups, mount, "memory").map(Self::of);
        all.find(|accounts| accounts.num_kills().is_some())
    }

    fn of(group: ControlGroup) -> Self {
        let [events, limit] = match group.is_unified {
            true => ["memory.events", "memory.max"],
            false => ["memory.oom_control", "memory.limit_in_bytes"],
        };
        let inside = group.dir();
        // In a container, the mount point can be the control group itself.
        let dir = match inside.join(events).exists() {
            true => inside,
            false => group.root,
        };
        Self {
            name: group.name,
            events: dir.join(events),
            limit: dir.join(limit),
        }
    }

    fn num_kills(&self) -> Option<u64> {
        let events = fs::read_to_string(&self.events).ok()?;
        let line = events
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "));
        line?.trim().parse().ok()
    }

    fn limit(&self) -> Option<u64> {
        let limit = fs::read_to_string(&self.limit).ok()?;
        limit.trim().parse().ok().filter(|limit| *limit < NO_LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn kills_of_version_2_explain_the_end_of_one_process() {
        let mount = tempfile::tempdir().unwrap();
        let dir = mount.path().join("job/4711");
        let events = |num: u32| format!("low 0\nmax 12\noom 3\noom_kill {num}\noom_group_kill 0\n");
        write(&dir.join("memory.events"), &events(2));
        write(&dir.join("memory.max"), "104857600\n");
        let mut kills = OomKills::new("1:name=systemd:/\n0::/job/4711\n", mount.path());
        assert_eq!(kills.explain(), None);
        write(&dir.join("memory.events"), &events(3));
        let expected = "probably out of memory: the kernel has killed a process of control group /job/4711, \
            whose limit is 100 MiB";
        assert_eq!(kills.explain().as_deref(), Some(expected));
        assert_eq!(kills.explain(), None);
        // One explanation covers all kills so far: the others may be of processes that are not of the session.
        write(&dir.join("memory.events"), &events(7));
        assert_eq!(kills.explain().as_deref(), Some(expected));
        assert_eq!(kills.explain(), None);
    }

    #[test]
    fn the_memory_controller_of_version_1_is_found() {
        let mount = tempfile::tempdir().unwrap();
        let dir = mount.path().join("memory");
        write(&dir.join("memory.oom_control"), "under_oom 0\noom_kill 0\n");
        write(&dir.join("memory.limit_in_bytes"), "9223372036854771712\n");
        let groups = "5:devices:/\n4:cpuset,memory:/docker/1\n0::/\n";
        let mut kills = OomKills::new(groups, mount.path());
        write(&dir.join("memory.oom_control"), "under_oom 0\noom_kill 1\n");
        let reason = kills.explain().unwrap();
        assert!(reason.contains("a group above it"), "{reason}");
        assert_eq!(OomKills::new("garbage", mount.path()).explain(), None);
    }
}
