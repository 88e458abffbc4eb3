// SPDX-License-Identifier: MIT OR Apache-2.0
//! The check that a job fits into the limits of descriptors and processes.
//!
//! It is made before anything is created or started. Processes that do start would otherwise wait for those that
//! cannot be started or connected.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, geteuid, getrlimit};

use crate::Error;
use crate::control_group::{ControlGroup, MOUNT};

/// The descriptors that starting a process takes for a moment: its three streams, and the pair by which the system
/// reports that the program runs.
const SPARE: u64 = 8;

/// Returns an error if the job would exceed a limit, given the current use.
pub(crate) fn check(num_procs: usize, for_output: usize) -> Result<(), Error> {
    processes(num_procs)?;
    match getrlimit(Resource::Nofile).current {
        Some(limit) => descriptors(num_procs, for_output, limit),
        None => Ok(()),
    }
}

/// Checks the limit of descriptors. Each process takes one for its connection to the server, and some for its output.
fn descriptors(num_procs: usize, for_output: usize, limit: u64) -> Result<(), Error> {
    // `/proc` lists descriptors without disk access, and their number is bounded by the limit.
    let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let each = 1 + for_output;
    let needed = u64::try_from(open + num_procs * each).unwrap_or(u64::MAX);
    if needed.saturating_add(SPARE) <= limit {
        return Ok(());
    }
    // Only output through pipes can be redirected to files to save descriptors.
    let cure = match for_output {
        0 => "",
        _ => ", or write output to files only (--output-dir)",
    };
    Err(Error::no_room(format!(
        "{num_procs} processes need {} descriptors of the launcher, but {open} of {limit} are in use: start \
        fewer processes, raise the limit (ulimit -n){cure}",
        num_procs * each
    )))
}

/// Returns the number of pseudo terminals that the system still has.
pub(crate) fn num_free_terminals() -> usize {
    let of = |name| number(&Path::new("/proc/sys/kernel/pty").join(name));
    // A container may hide the figures; opening a pseudo terminal then shows if there is one.
    let (Some(most), Some(used)) = (of("max"), of("nr")) else {
        return usize::MAX;
    };
    usize::try_from(most.saturating_sub(used)).unwrap_or(usize::MAX)
}

/// Returns an error if the system has fewer pseudo terminals left than the job needs.
pub(crate) fn check_terminals(num_procs: usize) -> Result<(), Error> {
    terminals(num_procs, num_free_terminals())
}

fn terminals(num_procs: usize, num_free: usize) -> Result<(), Error> {
    match num_procs > num_free {
        false => Ok(()),
        true => Err(Error::no_room(format!(
            "{num_procs} processes need as many pseudo terminals (--pty), and the system has {num_free} left: omit \
            --pty, start fewer processes, or raise the limit (sysctl kernel.pty.max)"
        ))),
    }
}

/// The number of further processes that one limit allows.
struct Limit {
    most: u64,
    what: String,
}

fn processes(num_procs: usize) -> Result<(), Error> {
    let limits = of_user()
        .into_iter()
        .chain(of_system("pid_max"))
        .chain(of_system("threads-max"))
        .chain(of_group());
    among(num_procs, limits)
}

fn among(num_procs: usize, limits: impl Iterator<Item = Limit>) -> Result<(), Error> {
    let num_procs = u64::try_from(num_procs).unwrap_or(u64::MAX);
    match limits.min_by_key(|limit| limit.most) {
        Some(limit) if num_procs > limit.most => Err(Error::no_room(format!(
            "{num_procs} processes exceed the {} that {}: start fewer processes, or raise the limit",
            limit.most, limit.what
        ))),
        _ => Ok(()),
    }
}

/// Returns the limit of processes of the user. It does not apply to root.
fn of_user() -> Option<Limit> {
    let most = getrlimit(Resource::Nproc).current?;
    (!geteuid().is_root()).then(|| Limit {
        most,
        what: "the limit of the user allows (ulimit -u)".to_owned(),
    })
}

/// Returns a limit of the kernel, for process ids or for threads.
fn of_system(name: &str) -> Option<Limit> {
    let most = number(Path::new(&format!("/proc/sys/kernel/{name}")))?;
    let what = format!("the system allows (sysctl kernel.{name})");
    Some(Limit { most, what })
}

/// Returns the number of processes that the control group of the launcher and its ancestors still allow.
fn of_group() -> Option<Limit> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = ControlGroup::all(&groups, Path::new(MOUNT), "pids").next()?;
    let dir = group.dir();
    let within = dir
        .ancestors()
        .take_while(|dir| dir.starts_with(&group.root));
    let limits = within.filter_map(|dir| {
        let most = number(&dir.join("pids.max"))?;
        let now = number(&dir.join("pids.current")).unwrap_or(0);
        Some(Limit {
            most: most.saturating_sub(now),
            what: format!("its control group allows ({}/pids.max)", dir.display()),
        })
    });
    limits.min_by_key(|limit| limit.most)
}

/// Returns the number in a file, or `None` if the file says that there is no limit.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_does_not_fit_is_refused_with_its_numbers() {
        let error = descriptors(1_000, 2, 3_000).unwrap_err().to_string();
        for part in [
            "1000 processes need 3000 descriptors".to_owned(),
            "of 3000 are in use".to_owned(),
            "--output-dir".to_owned(),
        ] {
            assert!(error.contains(&part), "{part:?} in {error:?}");
        }
        assert!(descriptors(1, 2, 1 << 40).is_ok());
    }

    #[test]
    fn a_job_with_more_processes_than_pseudo_terminals_is_refused_with_its_numbers() {
        assert!(terminals(4, 4).is_ok());
        let error = terminals(5, 4).unwrap_err().to_string();
        for part in ["5 processes", "has 4 left", "--pty", "kernel.pty.max"] {
            assert!(error.contains(part), "{part:?} in {error:?}");
        }
    }

    #[test]
    fn more_processes_than_the_system_has_numbers_for_are_refused() {
        let limit = |most| Limit {
            most,
            what: format!("the limit of {most} allows"),
        };
        let limits = || [limit(64), limit(32), limit(48)].into_iter();
        assert!(among(32, limits()).is_ok());
        assert!(among(usize::MAX, std::iter::empty()).is_ok());
        let error = among(33, limits()).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let expected = "33 processes exceed the 32 that the limit of 32 allows";
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
