// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the process that wrote a file is still the one with that number.
//!
//! Source: proc(5).

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// The clock that tells when a process started has whole seconds, and files have their own.
const SLACK: Duration = Duration::from_secs(2);

/// Returns whether the process with a number is alive and was there at a time: the number of one that
/// ended may be that of another by now.
///
/// A process whose start cannot be learned counts as one that was there.
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

/// What `/proc` says of a process.
struct Stat {
    /// It has ended, and its parent has not taken notice yet.
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

/// The state and the start of a process: the third and the twenty-second field, of which the second
/// is a name in parentheses that may hold anything. Source: proc(5).
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
    fn this_process_is_there_now_and_was_not_an_hour_before_it_started() {
        let me = std::process::id();
        assert!(was_there(me, SystemTime::now()));
        let mine = Stat::read(rustix::process::getpid()).unwrap();
        let before = mine.started.unwrap() - Duration::from_secs(3600);
        assert!(!was_there(me, before));
    }

    #[test]
    fn a_process_that_nobody_took_notice_of_is_not_there() {
        let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
        // Its output ends with it; it stays in the table until it is waited for.
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
    fn a_name_may_look_like_the_rest_of_the_line() {
        let line = b"7 (a) R 1 2 (x)) Z 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 4711 8 9";
        assert_eq!(fields(line), Some((b'Z', 4711)));
        assert_eq!(fields(b"7 (a"), None);
    }
}
