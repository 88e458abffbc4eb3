// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks of the limits of the control group: processes, memory and processor time.
//!
//! Source: the kernel's documents `admin-guide/cgroup-v2.rst`, `cgroup-v1/pids.rst`, `cgroup-v1/memory.rst` and
//! `scheduler/sched-bwc.rst`.

use std::fs;
use std::path::{Path, PathBuf};

use super::Finding;

/// The number of further processes below which a launcher may not start: itself, its watcher and their threads.
const FEWEST_PROCESSES: u64 = 16;

/// The number of further processes below which a small job may not start.
const FEW_PROCESSES: u64 = 64;

/// The free bytes below which the kernel may kill processes of a small job.
const LITTLE_MEMORY: u64 = 128 << 20;

/// The directory of a control group, and that of the root of its hierarchy.
struct Group {
    dir: PathBuf,
    root: PathBuf,
    /// `true` for version 2.
    is_unified: bool,
}

impl Group {
    /// Returns the directories of the group and its ancestors. A limit of any of them applies.
    fn dirs(&self) -> impl Iterator<Item = &Path> {
        let dirs = self.dir.ancestors();
        dirs.take_while(|dir| dir.starts_with(&self.root))
    }
}

/// Checks the limits of the control group of this process. Returns nothing for limits that do not exist.
pub(super) fn check() -> Vec<Finding> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let find = |controller| find(&groups, &mounts, controller);
    let findings = [
        find("pids").iter().find_map(processes),
        find("memory").iter().find_map(memory),
        find("cpu").iter().find_map(processors),
    ];
    findings.into_iter().flatten().collect()
}

/// Returns the groups that may have a controller: that of version 1 before that of version 2.
fn find(groups: &str, mounts: &str, controller: &str) -> Vec<Group> {
    let has = |list: &str| list.split(',').any(|one| one == controller);
    let mut found = Vec::new();
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(root), Some(kind), Some(options)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let is_unified = kind == "cgroup2";
        if !(is_unified || kind == "cgroup" && has(options)) {
            continue;
        }
        let name = groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, name) = (fields.next()?, fields.next()?);
            let fits = if is_unified {
                controllers.is_empty()
            } else {
                has(controllers)
            };
            fits.then_some(name)
        });
        let root = PathBuf::from(root);
        let dir = root.join(name.unwrap_or_default().trim_start_matches('/'));
        // A container may see its own group as the root, but the name outside.
        let dir = if dir.is_dir() { dir } else { root.clone() };
        found.push(Group {
            dir,
            root,
            is_unified,
        });
    }
    found.sort_by_key(|group| group.is_unified);
    found
}

/// Returns the number in a file, or `None` if there is no limit.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn processes(group: &Group) -> Option<Finding> {
    let limits = group.dirs().filter_map(|dir| {
        let path = dir.join("pids.max");
        let most = number(&path)?;
        let now = number(&dir.join("pids.current")).unwrap_or(0);
        Some((most.saturating_sub(now), most, path))
    });
    let (left, most, path) = limits.min_by_key(|(left, ..)| *left)?;
    let found = format!(
        "the control group has room for {left} more processes of {most} ({})",
        path.display()
    );
    let help = "processes and threads of a job do not start beyond the limit: raise pids.max (in a container: \
                --pids-limit; for a service of systemd: TasksMax)";
    Some(match (left < FEWEST_PROCESSES, left < FEW_PROCESSES) {
        (true, _) => Finding::fault("pids", found, help),
        (_, true) => Finding::warning("pids", found, help),
        _ => Finding::ok("pids", found),
    })
}

fn memory(group: &Group) -> Option<Finding> {
    let (most, now) = match group.is_unified {
        true => ("memory.max", "memory.current"),
        false => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    };
    let limits = group.dirs().filter_map(|dir| {
        let path = dir.join(most);
        let limit = number(&path)?;
        let used = number(&dir.join(now)).unwrap_or(0);
        // The kernel drops file pages and caches before it kills a process. Version 1 counts them with subgroups apart.
        let names = match group.is_unified {
            true => &["inactive_file ", "active_file ", "slab_reclaimable "][..],
            false => &["total_inactive_file ", "total_active_file "],
        };
        let pages = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
        let pages = pages
            .lines()
            .filter_map(|line| names.iter().find_map(|name| line.strip_prefix(name)));
        let pages = pages.filter_map(|pages| pages.parse::<u64>().ok());
        let reclaimed = pages.fold(0, u64::saturating_add);
        Some((
            limit.saturating_sub(used.saturating_sub(reclaimed)),
            limit,
            path,
        ))
    });
    let (left, limit, path) = limits.min_by_key(|(left, ..)| *left)?;
    // Version 1 writes the largest number of pages for no limit.
    if limit >= u64::MAX >> 2 {
        return None;
    }
    let (left_mib, limit_mib) = (left >> 20, limit >> 20);
    let found = format!(
        "{left_mib} of {limit_mib} MiB are free in the control group ({})",
        path.display()
    );
    let help = "the kernel kills processes of the job beyond the limit: raise it (Slurm: --mem; in a container: --memory)";
    Some(match left < LITTLE_MEMORY {
        true => Finding::warning("memory", found, help),
        false => Finding::ok("memory", found),
    })
}

fn processors(group: &Group) -> Option<Finding> {
    let limits = group.dirs().filter_map(|dir| {
        let (quota, period, path) = match group.is_unified {
            true => {
                let path = dir.join("cpu.max");
                let text = fs::read_to_string(&path).ok()?;
                let (quota, period) = text.trim().split_once(' ')?;
                (
                    quota.parse::<u64>().ok()?,
                    period.parse::<u64>().ok()?,
                    path,
                )
            }
            false => {
                let path = dir.join("cpu.cfs_quota_us");
                (
                    number(&path)?,
                    number(&dir.join("cpu.cfs_period_us"))?,
                    path,
                )
            }
        };
        let hundredths = quota.saturating_mul(100).checked_div(period)?;
        Some((hundredths, path))
    });
    let (hundredths, path) = limits.min_by_key(|(hundredths, _)| *hundredths)?;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let number = num_processors(allowed.trim())?;
    let time = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    let found = format!(
        "the control group has the time of {time} processors, and may run on {number} ({})",
        path.display()
    );
    let most = (hundredths / 100).max(1);
    Some(match hundredths < number.saturating_mul(100) {
        true => Finding::warning(
            "processors",
            found,
            format!(
                "more than {most} busy processes wait for each other: start at most {most}, or raise the quota"
            ),
        ),
        false => Finding::ok("processors", found),
    })
}

/// Returns the number of processors in a list like `0-3,8`.
fn num_processors(list: &str) -> Option<u64> {
    let mut number = 0u64;
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
        number = number.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_are_found() {
        let groups = "4:cpuset,memory:/docker/1\n1:name=systemd:/\n0::/user\n";
        let mounts = "cgroup2 /g/unified cgroup2 rw 0 0\ncgroup /g/memory cgroup rw,memory 0 0\n\
                      tmpfs /g tmpfs rw 0 0\nshort\n";
        let roots = |controller| -> Vec<_> {
            let found = find(groups, mounts, controller).into_iter();
            found
                .map(|group| group.root.display().to_string())
                .collect()
        };
        assert_eq!(roots("memory"), ["/g/memory", "/g/unified"]);
        assert_eq!(roots("pids"), ["/g/unified"]);
    }

    #[test]
    fn processors_are_counted() {
        assert_eq!(num_processors("0-3,8"), Some(5));
        assert_eq!(num_processors("5"), Some(1));
        for text in ["", "3-1", "x", "0-18446744073709551615"] {
            assert_eq!(num_processors(text), None, "{text}");
        }
    }
}
