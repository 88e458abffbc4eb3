// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a job fits into the descriptors that the launcher may open.

use rustix::process::{Resource, getrlimit};

use crate::Error;

/// Starting a process takes some that are given back at once: its three streams, and a pair by
/// which the system tells that its program runs.
const SPARE: u64 = 8;

/// Refuses a job that would not fit beside what is open by now: each process takes a descriptor
/// for its connection to the server, and one for each pipe. Told before anything runs, because
/// processes whose connections are not accepted would wait for each other.
pub(crate) fn check(num_procs: usize, pipes_each: usize) -> Result<(), Error> {
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return Ok(());
    };
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let each = 1 + pipes_each;
    let needed = u64::try_from(open + num_procs * each).unwrap_or(u64::MAX);
    if needed.saturating_add(SPARE) <= limit {
        return Ok(());
    }
    // Only what goes through pipes can do without them.
    let cure = match pipes_each {
        0 => "",
        _ => ", or write to files by --output-dir",
    };
    Err(Error::request(format!(
        "{num_procs} processes take {} descriptors of the launcher, where {open} of {limit} are in \
         use: raise the limit (ulimit -n){cure}",
        num_procs * each
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_does_not_fit_is_refused_with_its_numbers() {
        assert!(check(1, 0).is_ok());
        let limit = getrlimit(Resource::Nofile).current.unwrap();
        let num_procs = usize::try_from(limit).unwrap() / 3;
        let error = check(num_procs, 2).unwrap_err().to_string();
        for part in [
            format!("{num_procs} processes take {} descriptors", num_procs * 3),
            format!("of {limit} are in use"),
            "--output-dir".to_owned(),
        ] {
            assert!(error.contains(&part), "{part:?} in {error:?}");
        }
    }
}
