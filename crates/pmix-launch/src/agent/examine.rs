// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examination of processes for a report: their state in the operating system, their use of processors, and their
//! stacks.
//!
//! The kernel or a debugger determines how long an examination takes, so threads do it. The launcher is woken at the
//! end of each.

use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use pmix_host::helpers::{Cancel, Helpers, Task, TaskState};
use pmix_host::usage::{self, Detail};
use pmix_types::{Nspace, ProcStats};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::stacks::{StackPrograms, stack_within};

/// The time between the two measurements that determine the use of processors.
const INTERVAL: Duration = Duration::from_millis(200);

/// The largest number of examinations at a time.
const MOST_AT_ONCE: usize = 2;

/// The largest number of reports that wait for their examination. A user may repeat SIGQUIT at will.
const MOST_PENDING: usize = 8;

/// The time for all stacks of a report. The job whose time limit has passed waits for them.
const STACKS: Duration = Duration::from_secs(20);

/// A process to examine.
pub(crate) struct Subject {
    /// The name of the process in messages.
    pub(crate) name: String,
    /// The state as the launcher knows it.
    pub(crate) state: String,
    /// The process id; `None` if the process has ended.
    pub(crate) pid: Option<i32>,
}

/// The recipient of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// The user. The jobs continue.
    User,
    /// The user. The job, whose time limit has passed, waits for the end of the report.
    Late(Nspace<'static>),
    /// A controller on another node, by the number of its request.
    Controller(u64),
}

/// The part of a report that needs the examination of processes.
pub(crate) struct Report {
    pub(crate) recipient: Recipient,
    /// The processes to examine.
    pub(crate) subjects: Vec<Subject>,
    /// `true` if the stacks of the processes are wanted.
    pub(crate) has_stacks: bool,
}

/// The examinations that have not ended.
pub(crate) struct Examinations {
    helpers: Helpers,
    pending: Vec<(Recipient, Task<Vec<String>>)>,
    stack_programs: StackPrograms,
}

impl Examinations {
    pub(super) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            helpers: Helpers::new("pmix-examine", MOST_AT_ONCE, wake),
            pending: Vec::new(),
            stack_programs: StackPrograms::default(),
        }
    }

    /// Returns the programs that print stacks.
    pub(super) fn stack_programs(&self) -> StackPrograms {
        self.stack_programs.clone()
    }

    /// Returns `true` if the report of a job that continues can be examined.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.len() < MOST_PENDING
    }

    /// Begins the examination of the processes of a report. Returns `false` if too many have begun, or if there is no
    /// thread for it.
    pub(crate) fn begin(&mut self, report: Report) -> bool {
        let has_room = match (&report.recipient, report.has_stacks) {
            (Recipient::User | Recipient::Controller(_), _) => self.has_room(),
            // The job waits for the report, and each examination before it can take as long as all stacks.
            (Recipient::Late(_), true) => self.pending.len() < MOST_AT_ONCE,
            (Recipient::Late(_), false) => true,
        };
        if !has_room {
            return false;
        }
        let recipient = report.recipient.clone();
        let examination = Examination::new(report, self.stack_programs());
        match self.helpers.run(move |cancel| examination.lines(cancel)) {
            Ok(task) => {
                self.pending.push((recipient, task));
                true
            }
            Err(error) => {
                tracing::debug!("cannot examine processes: {error}");
                false
            }
        }
    }

    /// Returns the lines of the next complete examination, with their recipient.
    pub(crate) fn next(&mut self) -> Option<(Recipient, Vec<String>)> {
        for place in 0..self.pending.len() {
            let state = self.pending.get_mut(place).map(|(_, task)| task.poll());
            let lines = match state {
                None | Some(TaskState::Pending) => continue,
                Some(TaskState::Done(lines)) => lines,
                Some(TaskState::Lost) => Vec::new(),
            };
            let (recipient, _) = self.pending.remove(place);
            return Some((recipient, lines));
        }
        None
    }

    /// Cancels all examinations and kills their programs, at the end of the session.
    pub(super) fn end(&mut self) {
        self.pending.clear();
        self.stack_programs.close();
    }
}

impl Drop for Examinations {
    fn drop(&mut self) {
        self.end();
    }
}

/// The examination of the processes of a report.
struct Examination {
    subjects: Vec<Examined>,
    has_stacks: bool,
    stack_programs: StackPrograms,
}

/// A process that is examined.
struct Examined {
    subject: Subject,
    /// The descriptor of the process. Another process may get its number during the examination.
    fd: Option<OwnedFd>,
}

impl Examined {
    /// Opens the process. The launcher has not reaped it, so its number is still its own.
    fn new(subject: Subject) -> Self {
        let pid = subject.pid.and_then(Pid::from_raw);
        let fd = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Self { subject, fd }
    }

    /// Returns the process id if the process has not exited.
    fn pid(&self) -> Option<i32> {
        let Some(fd) = &self.fd else {
            // Without a descriptor, the state in the operating system has to do.
            let stats = usage::process(self.subject.pid?, Detail::State).ok()?;
            return self.subject.pid.filter(|_| !has_exited(&stats));
        };
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut polled = [PollFd::new(fd, PollFlags::IN)];
        let is_over = poll(&mut polled, Some(&now)).is_ok_and(|num| num > 0);
        self.subject.pid.filter(|_| !is_over)
    }

    fn measure(&self) -> Option<ProcStats<'static>> {
        let stats = usage::process(self.pid()?, Detail::State).ok()?;
        // The measurement of another process with the same number is dropped.
        self.pid().map(|_| stats)
    }
}

impl Examination {
    fn new(report: Report, stack_programs: StackPrograms) -> Self {
        Self {
            subjects: report.subjects.into_iter().map(Examined::new).collect(),
            has_stacks: report.has_stacks,
            stack_programs,
        }
    }

    /// Returns the lines with the state and the use of processors of each process, and its stack.
    fn lines(self, cancel: &Cancel) -> Vec<String> {
        let _thread = self.stack_programs.enter();
        let before: Vec<_> = self.subjects.iter().map(Examined::measure).collect();
        let began = Instant::now();
        if before.iter().any(Option::is_some) {
            sleep(INTERVAL);
        }
        let (mut lines, mut num_left_out) = (Vec::new(), 0);
        // All measurements before the first stack: a debugger stops its process.
        let measured: Vec<_> = { self.subjects.iter().zip(&before) }
            .map(|(examined, before)| line(examined, before.as_ref(), began))
            .collect();
        let began = Instant::now();
        for (examined, line) in self.subjects.iter().zip(measured) {
            lines.push(line);
            let limit = STACKS.saturating_sub(began.elapsed());
            let is_over = || cancel.is_cancelled() || examined.pid().is_none();
            match examined.pid().filter(|_| self.has_stacks) {
                None => {}
                Some(_) if limit.is_zero() => num_left_out += 1,
                Some(pid) => {
                    lines.extend(stack_within(pid, &self.stack_programs, limit, is_over));
                }
            }
        }
        if num_left_out > 0 {
            let noun = if num_left_out == 1 {
                "process"
            } else {
                "processes"
            };
            lines.push(format!(
                "the stacks of {num_left_out} {noun} are left out: those before took {STACKS:?}"
            ));
        }
        lines
    }
}

/// Returns the line of a process with its use of processors since a measurement.
fn line(examined: &Examined, before: Option<&ProcStats<'_>>, began: Instant) -> String {
    let now = examined.measure();
    let elapsed = began.elapsed();
    let subject = &examined.subject;
    let figures = match (before, &now) {
        (Some(before), Some(now)) => figures(before, now, elapsed),
        (Some(_), None) => ", has exited".to_owned(),
        (None, _) => String::new(),
    };
    format!("{}: {}{figures}", subject.name, subject.state)
}

/// Returns `true` if a process has exited and is not reaped.
fn has_exited(stats: &ProcStats<'_>) -> bool {
    matches!(stats.state, b'Z' | b'X')
}

/// Returns the state and the use of processors between two measurements.
fn figures(before: &ProcStats<'_>, now: &ProcStats<'_>, elapsed: Duration) -> String {
    let (start, end) = (seconds(before), seconds(now));
    let percent = (end - start).max(0.0) / elapsed.as_secs_f64().max(1e-6) * 100.0;
    let state = match now.state {
        b'R' => ", runs",
        b'S' => ", sleeps",
        b'D' => ", waits in the kernel",
        b'T' | b't' => ", is stopped",
        b'Z' | b'X' => ", has exited",
        _ => "",
    };
    format!("{state}, {percent:.1} % of a processor, {end:.2} s of processor time")
}

fn seconds(stats: &ProcStats<'_>) -> f64 {
    let whole = Duration::from_secs(u64::try_from(stats.time.tv_sec).unwrap_or(0));
    let micros = Duration::from_micros(u64::try_from(stats.time.tv_usec).unwrap_or(0));
    whole.saturating_add(micros).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_state_of_living_and_ended_processes() {
        let subject = |name: &str, pid| Subject {
            name: name.to_owned(),
            state: "connected".to_owned(),
            pid,
        };
        let own = i32::try_from(std::process::id()).unwrap();
        // A child that has exited, like a rank that exits during the examination.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let exited = i32::try_from(child.id()).unwrap();
        let report = Report {
            recipient: Recipient::User,
            subjects: vec![
                subject("rank 0", Some(own)),
                subject("rank 1", None),
                subject("rank 2", Some(exited)),
            ],
            has_stacks: false,
        };
        let examination = Examination::new(report, StackPrograms::default());
        child.wait().unwrap();
        assert_eq!(examination.subjects[2].pid(), None);
        let lines = examination.lines(&Cancel::never());
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].starts_with("rank 0: connected, "), "{lines:?}");
        assert!(lines[0].contains(" % of a processor, "), "{lines:?}");
        assert_eq!(lines[1..], ["rank 1: connected", "rank 2: connected"]);
    }

    #[test]
    fn repeated_requests_are_bounded() {
        let mut examinations = Examinations::new(|| {});
        let report = |recipient, has_stacks| Report {
            recipient,
            subjects: Vec::new(),
            has_stacks,
        };
        for _ in 0..MOST_PENDING {
            assert!(examinations.has_room());
            assert!(examinations.begin(report(Recipient::User, false)));
        }
        assert!(!examinations.has_room());
        assert!(!examinations.begin(report(Recipient::User, false)));
        let job = Recipient::Late(Nspace::new("job"));
        assert!(examinations.begin(report(job.clone(), false)));
        // The job would wait too long for the stacks of others.
        assert!(!examinations.begin(report(job.clone(), true)));
        while examinations.pending.len() >= MOST_AT_ONCE {
            examinations.next();
        }
        assert!(examinations.begin(report(job, true)));
    }
}
