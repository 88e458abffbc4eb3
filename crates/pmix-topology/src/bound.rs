// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where this process may run.
//!
//! Source: proc(5), heading `/proc/pid/status`, for `Cpus_allowed_list`.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::{Cpuset, Error};

impl Cpuset {
    /// Returns the processors that the calling thread may run on.
    ///
    /// # Errors
    /// `PMIX_ERR_NOT_FOUND`: `/proc` and `/sys` do not say.
    pub fn of_thread() -> Result<Self, Error> {
        of_task(Path::new("/proc/thread-self")).map(online)
    }

    /// Returns the processors that some thread of this process may run on.
    ///
    /// # Errors
    /// `PMIX_ERR_NOT_FOUND`: `/proc` and `/sys` do not say.
    pub fn of_process() -> Result<Self, Error> {
        let missing = |error| Error::missing(format!("/proc/self/task: {error}"));
        let mut all = Self::new();
        for entry in fs::read_dir("/proc/self/task").map_err(missing)? {
            let path = entry.map_err(missing)?.path();
            match of_task(&path) {
                Ok(cpus) => all.extend(&cpus),
                // It has ended since.
                Err(_) if !path.exists() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(online(all))
    }
}

/// Those of a set that are online: what a task may run on is told with those that are not.
fn online(cpus: Cpuset) -> Cpuset {
    let text = fs::read_to_string("/sys/devices/system/cpu/online");
    let online = text.ok().and_then(|list| Cpuset::parse(&list).ok());
    match online {
        Some(online) => cpus.and(&online),
        None => cpus,
    }
}

fn of_task(dir: &Path) -> Result<Cpuset, Error> {
    let path = dir.join("status");
    let missing = |why: ErrorKind| Error::missing(format!("{}: {why}", path.display()));
    // The name of a program need not be UTF-8.
    let status = fs::read(&path).map_err(|error| missing(error.kind()))?;
    let status = String::from_utf8_lossy(&status);
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Cpuset::parse(list.ok_or_else(|| missing(ErrorKind::InvalidData))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_where_its_threads_do() {
        let (thread, process) = (Cpuset::of_thread().unwrap(), Cpuset::of_process().unwrap());
        assert!(!thread.is_empty() && thread.is_subset(&process));
        let told = std::thread::available_parallelism().unwrap().get();
        assert!(
            usize::try_from(thread.len()).unwrap() >= told,
            "{thread}, but {told}"
        );
    }
}
