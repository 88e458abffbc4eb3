// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processors on which this process may run, and the binding of its threads.
//!
//! Source: proc(5), heading `/proc/pid/status`, for `Cpus_allowed_list`; sched_setaffinity(2).

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::{Cpuset, Error};

impl Cpuset {
    /// Returns the processors on which the calling thread may run.
    ///
    /// # Errors
    /// `PMIX_ERR_NOT_FOUND`: `/proc` and `/sys` do not tell them.
    pub fn of_thread() -> Result<Self, Error> {
        of_task(Path::new("/proc/thread-self")).map(online)
    }

    /// Returns the processors on which any thread of this process may run.
    ///
    /// # Errors
    /// `PMIX_ERR_NOT_FOUND`: `/proc` and `/sys` do not tell them.
    pub fn of_process() -> Result<Self, Error> {
        let missing = |error| Error::missing(format!("/proc/self/task: {error}"));
        let mut all = Self::new();
        for entry in fs::read_dir("/proc/self/task").map_err(missing)? {
            let path = entry.map_err(missing)?.path();
            match of_task(&path) {
                Ok(cpus) => all.extend(&cpus),
                // The thread has ended since the directory was read.
                Err(_) if !path.exists() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(online(all))
    }

    /// Binds the calling thread to the processors of this set. An unbounded set means all online
    /// processors.
    ///
    /// # Errors
    /// `PMIX_ERR_NOT_SUPPORTED`: a processor does not exist, or this process may not use it. The
    /// thread may then be bound to the other processors. `PMIX_ERR_BAD_PARAM`: the set is empty.
    pub fn bind_thread(&self) -> Result<(), Error> {
        let wanted = match self.is_endless() {
            true => online(self.clone()),
            false => self.clone(),
        };
        if wanted.is_empty() {
            let message = format!("no processor to bind a thread to in {self:?}");
            return Err(Error::malformed(message));
        }
        let mut set = CpuSet::new();
        for cpu in wanted.iter() {
            let index = usize::try_from(cpu).unwrap_or(usize::MAX);
            if index >= CpuSet::MAX_CPU {
                let most = CpuSet::MAX_CPU;
                let message = format!(
                    "no thread can be bound to processor {cpu}: the system call accepts processors below {most}"
                );
                return Err(Error::unbindable(message));
            }
            set.set(index);
        }
        let unbindable = |error| {
            Error::unbindable(format!(
                "no thread can be bound to the processors {wanted}: {error}"
            ))
        };
        sched_setaffinity(None, &set).map_err(unbindable)?;
        // The kernel silently ignores processors that are offline or that the control group
        // excludes.
        let bound = sched_getaffinity(None).map_err(unbindable)?;
        let withheld = |cpu: &u32| usize::try_from(*cpu).is_ok_and(|index| !bound.is_set(index));
        match wanted.iter().find(withheld) {
            None => Ok(()),
            Some(cpu) => Err(Error::unbindable(format!(
                "no thread can be bound to processor {cpu}: it is offline, or this process may not use it"
            ))),
        }
    }

    /// Checks that threads of this process can be bound to the processors of this set. It binds a
    /// temporary thread.
    ///
    /// # Errors
    /// As [`bind_thread`](Self::bind_thread); `PMIX_ERR_NOT_SUPPORTED` also if no thread can be started.
    pub fn check_bindable(&self) -> Result<(), Error> {
        let no_thread = |error| Error::unbindable(format!("no thread to bind: {error}"));
        thread::scope(|scope| {
            let named = thread::Builder::new().name("pmix-bind".to_owned());
            let probe = named.spawn_scoped(scope, || self.bind_thread());
            let bound = probe.map_err(no_thread)?.join();
            bound.unwrap_or_else(|_| Err(Error::unbindable("the thread to bind panicked")))
        })
    }
}

/// Returns the online processors of a set, because the list of a task includes offline ones.
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
    // The file contains the name of the program, which need not be UTF-8.
    let status = fs::read(&path).map_err(|error| missing(error.kind()))?;
    let status = String::from_utf8_lossy(&status);
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Cpuset::parse(list.ok_or_else(|| missing(ErrorKind::InvalidData))?)
}

#[cfg(test)]
mod tests {
    use pmix_types::Status;

    use super::*;

    #[test]
    fn a_thread_is_bound_to_processors_that_are_there() {
        let before = Cpuset::of_thread().unwrap();
        let last: Cpuset = before.iter().last().into_iter().collect();
        last.check_bindable().unwrap();
        assert_eq!(Cpuset::of_thread().unwrap(), before);
        let bound = thread::spawn(move || {
            last.bind_thread().unwrap();
            (Cpuset::of_thread().unwrap(), last)
        });
        let (bound, last) = bound.join().unwrap();
        assert_eq!(bound, last);
    }

    #[test]
    fn a_list_with_a_processor_that_is_not_there_is_refused() {
        let status = |list: &str| {
            let bound = Cpuset::parse(list).unwrap().check_bindable();
            bound.unwrap_err().status()
        };
        let first = Cpuset::of_thread().unwrap().first().unwrap();
        // Processors that no test machine has: two around the size of a `cpu_set_t`, and the
        // highest one of a `Cpuset`.
        for absent in [1023, 1024, 65_535] {
            for list in [format!("{absent}"), format!("{first},{absent}")] {
                assert_eq!(status(&list), Status::ERR_NOT_SUPPORTED, "{list}");
            }
        }
        assert_eq!(status(""), Status::ERR_BAD_PARAM);
    }

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
