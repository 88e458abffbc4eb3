// SPDX-License-Identifier: MIT OR Apache-2.0
//! The check that a process id still refers to the process that wrote a file.
//!
//! Source: proc(5).

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// The tolerance for comparing the start time of a process, which has whole seconds, with file
/// times, which are finer.
const SLACK: Duration = Duration::from_secs(2);

/// Returns `true` if a process is alive and already existed at a time. After a process has exited,
/// another one may get its id.
///
/// A process with an unknown start time counts as existing.
#[must_use]
pub fn was_there(pid: u32, at: SystemTime) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    if let Err(Errno::SRCH) = test_kill_process(pid) {
        return false;
    }
    match Stat::read(pid) {
        Some(stat) if stat.ended => false,
        Some(stat) => stat.started.is_none_or(|started| started <= at + SLACK),
        None => true,
    }
}

/// The fields of `/proc/PID/stat` that this module uses.
struct Stat {
    /// `true` if the process has exited and its parent has not waited for it yet.
    ended: bool,
    started: Option<SystemTime>,
}

impl Stat {
    fn read(pid: Pid) -> Option<Self> {
        let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
        let text = fs::read(path).ok()?;
        let (state, ticks) = fields(&text)?;
        Some(Self {
            ended: matches!(state, b'Z' | b'X'),
            started: boot_time().map(|boot| boot + since_boot(ticks)),
        })
    }
}

/// Returns the state and the start of a process: the third and the twenty-second field. The second
/// field is a name in parentheses that may contain any bytes. Source: proc(5).
fn fields(stat: &[u8]) -> Option<(u8, u64)> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

fn since_boot(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_secs(ticks / per_second)
}

fn boot_time() -> Option<SystemTime> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let seconds = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(UNIX_EPOCH + Duration::from_secs(seconds.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn this_process_exists_now_but_not_an_hour_before_its_start() {
        let me = std::process::id();
        assert!(was_there(me, SystemTime::now()));
        let mine = Stat::read(rustix::process::getpid()).unwrap();
        let before = mine.started.unwrap() - Duration::from_secs(3600);
        assert!(!was_there(me, before));
    }

    #[test]
    fn a_zombie_does_not_exist() {
        let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
        // At the end of the output the process has exited, but it remains in the process table
        // until it is waited for.
        let mut output = child.stdout.take().unwrap();
        std::io::copy(&mut output, &mut std::io::sink()).unwrap();
        while Stat::read(Pid::from_child(&child)).is_some_and(|stat| !stat.ended) {
            std::thread::yield_now();
        }
        assert!(!was_there(child.id(), SystemTime::now()));
        child.wait().unwrap();
        assert!(!was_there(0, SystemTime::now()));
        assert!(!was_there(u32::MAX, SystemTime::now()));
    }

    #[test]
    fn a_name_may_contain_the_syntax_of_the_line() {
        let line = b"7 (a) R 1 2 (x)) Z 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 4711 8 9";
        assert_eq!(fields(line), Some((b'Z', 4711)));
        assert_eq!(fields(b"7 (a"), None);
    }
}
