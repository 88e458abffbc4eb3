// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examination of processes for a report: their state in the operating system, their use of processors, and their
//! stacks.
//!
//! The kernel or a debugger determines how long an examination takes, so threads do it. The launcher is woken at the
//! end of each.

use std::thread::sleep;
use std::time::{Duration, Instant};

use pmix_host::helpers::{Helpers, Task, TaskState};
use pmix_host::usage::{self, Detail};
use pmix_types::{Nspace, ProcStats};

use crate::stacks::stack_of_process;

/// The time between the two measurements that determine the use of processors.
const INTERVAL: Duration = Duration::from_millis(200);

/// The largest number of examinations at a time.
const MOST_AT_ONCE: usize = 2;

/// The largest number of reports that wait for their examination. A user may repeat SIGQUIT at will.
const MOST_PENDING: usize = 8;

/// A process to examine.
pub(crate) struct Subject {
    /// The name of the process in messages.
    pub(crate) name: String,
    /// The state as the launcher knows it.
    pub(crate) state: String,
    /// The process id; `None` if the process has ended.
    pub(crate) pid: Option<i32>,
}

/// A report that waits for the examination of processes.
pub(crate) struct Report {
    /// The job whose time limit has passed; `None` if the job continues after the report.
    pub(crate) ended_job: Option<Nspace<'static>>,
    /// The lines before those of the processes.
    pub(crate) lines: Vec<String>,
    /// The processes to examine.
    pub(crate) subjects: Vec<Subject>,
    /// `true` if the stacks of the processes are wanted.
    pub(crate) has_stacks: bool,
}

/// The examinations that have not ended.
pub(crate) struct Examinations {
    helpers: Helpers,
    pending: Vec<(Option<Nspace<'static>>, Task<Vec<String>>)>,
}

impl Examinations {
    pub(super) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            helpers: Helpers::new("pmix-examine", MOST_AT_ONCE, wake),
            pending: Vec::new(),
        }
    }

    /// Begins the examination of the processes of a report. Returns `false` if too many have begun.
    pub(crate) fn begin(&mut self, report: Report) -> bool {
        if self.pending.len() >= MOST_PENDING && report.ended_job.is_none() {
            return false;
        }
        let ended_job = report.ended_job.clone();
        match self.helpers.run(move |_| examine(report)) {
            Ok(task) => {
                self.pending.push((ended_job, task));
                true
            }
            Err(error) => {
                tracing::debug!("cannot examine processes: {error}");
                false
            }
        }
    }

    /// Returns the next complete report as lines, with the job whose time limit has passed.
    pub(crate) fn next(&mut self) -> Option<(Option<Nspace<'static>>, Vec<String>)> {
        for place in 0..self.pending.len() {
            let state = self.pending.get_mut(place).map(|(_, task)| task.poll());
            let lines = match state {
                None | Some(TaskState::Pending) => continue,
                Some(TaskState::Done(lines)) => lines,
                Some(TaskState::Lost) => Vec::new(),
            };
            let (ended_job, _) = self.pending.remove(place);
            return Some((ended_job, lines));
        }
        None
    }
}

/// Returns the lines of a report with the state and the use of processors of each process.
fn examine(report: Report) -> Vec<String> {
    let Report {
        mut lines,
        subjects,
        has_stacks,
        ..
    } = report;
    let measure = |subject: &Subject| usage::process(subject.pid?, Detail::State).ok();
    let before: Vec<_> = subjects.iter().map(measure).collect();
    let began = Instant::now();
    if before.iter().any(Option::is_some) {
        sleep(INTERVAL);
    }
    for (subject, before) in subjects.iter().zip(&before) {
        let now = measure(subject);
        let elapsed = began.elapsed();
        let mut line = format!("{}: {}", subject.name, subject.state);
        if let (Some(before), Some(now)) = (before, &now) {
            line += &figures(before, now, elapsed);
        }
        lines.push(line);
        if let Some(pid) = subject.pid.filter(|_| has_stacks) {
            lines.extend(stack_of_process(pid));
        }
    }
    lines
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
        let lines = examine(Report {
            ended_job: None,
            lines: vec!["head".to_owned()],
            subjects: vec![subject("rank 0", Some(own)), subject("rank 1", None)],
            has_stacks: false,
        });
        assert_eq!((lines.len(), lines[0].as_str()), (3, "head"));
        assert!(lines[1].starts_with("rank 0: connected, "), "{lines:?}");
        assert!(lines[1].contains(" % of a processor, "), "{lines:?}");
        assert_eq!(lines[2], "rank 1: connected");
    }

    #[test]
    fn repeated_requests_are_bounded() {
        let mut examinations = Examinations::new(|| {});
        let report = |ended_job| Report {
            ended_job,
            lines: Vec::new(),
            subjects: Vec::new(),
            has_stacks: false,
        };
        for _ in 0..MOST_PENDING {
            assert!(examinations.begin(report(None)));
        }
        assert!(!examinations.begin(report(None)));
        assert!(examinations.begin(report(Some(Nspace::new("job")))));
    }
}
