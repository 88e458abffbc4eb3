// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports about jobs that make no progress: at the time limit of a job, after SIGQUIT, and once for each collective
//! that waits for long.
//!
//! | report | when | effect on the job |
//! | --- | --- | --- |
//! | of a job | its time limit passed | terminated after the report |
//! | of all jobs | the launcher got SIGQUIT | none |
//! | of a collective | ranks have been missing for [`Diagnosis::notice_after`](crate::Diagnosis) | none |

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pmix_types::{Nspace, Proc};

use super::job::Job;
use super::{Controller, Cx};
use crate::agent::{Report, Subject};
use crate::pending::PendingOperations;
use crate::process::{Link, Process, ProcessState};

/// The largest number of processes that a report describes one by one.
const MAX_SUBJECTS: usize = 16;

/// The shortest time between two checks for collectives that wait for long.
const SHORTEST: Duration = Duration::from_millis(10);

/// The notices of collectives that wait for long.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// The time of the next check; `None` before the first turn.
    next: Option<Instant>,
    /// The identifiers of the collectives that were reported.
    reported: BTreeSet<u64>,
}

impl Notices {
    /// Returns the time of the next check.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.next
    }

    /// Returns the lines for collectives that have waited for `limit` and were not reported.
    fn check(
        &mut self,
        pending: &PendingOperations,
        job: &[u8],
        limit: Duration,
        now: Instant,
    ) -> Vec<String> {
        let is_collective = |id: u64, operation: &str| id != 0 && operation != "get";
        let listed = pending.listed.iter();
        let collectives = listed.filter(|one| is_collective(one.id, &one.operation));
        let (mut lines, mut open) = (Vec::new(), BTreeSet::new());
        // A collective that begins after this check is not due before the limit.
        let mut next = limit;
        for one in collectives {
            if one.age < limit {
                next = next.min(limit.saturating_sub(one.age));
            } else if one.missing.num_procs > 0 {
                open.insert(one.id);
                if !self.reported.contains(&one.id) {
                    lines.push(one.to_line(job));
                }
            }
        }
        self.reported = open;
        // Without a minimum, a limit of zero would make the session spin.
        self.next = now.checked_add(next.max(SHORTEST));
        lines
    }
}

impl Controller {
    /// Reports collectives that have waited for long, each once.
    pub(crate) fn tick_notices(&mut self, cx: &mut Cx<'_>, now: Instant) {
        let Some(limit) = cx.plan.diagnosis.notice_after else {
            return;
        };
        if self.notices.next.is_some_and(|next| next > now) {
            return;
        }
        let pending = cx.agent.pending(None);
        let lines = (self.notices).check(&pending, cx.plan.nspace.as_bytes(), limit, now);
        for line in lines {
            let hint = "`pmix ps` and SIGQUIT show more, --quiet omits this message";
            cx.say(&format!("{line} ({hint})"));
        }
    }

    /// Handles SIGQUIT: reports the operations in which processes wait. The jobs continue.
    pub(crate) fn report_all(&mut self, cx: &mut Cx<'_>) {
        if self.tool_wait.is_some() {
            return cx.say("no job has started: the launcher waits for its release by a tool");
        }
        let num_jobs = self.jobs.len();
        for index in 0..num_jobs {
            if !cx.agent.examinations().has_room() {
                let (num_more, hint) = (num_jobs - index, "`pmix ps` shows more");
                let noun = if num_more == 1 { "job is" } else { "jobs are" };
                let line = "too many reports are not complete";
                return cx.say(&format!("{num_more} {noun} not reported: {line} ({hint})"));
            }
            self.begin_report(cx, index, false);
        }
    }

    /// Begins the report of a job whose time limit has passed. The job is terminated when the report is complete.
    pub(crate) fn report_late(&mut self, cx: &mut Cx<'_>, index: usize, now: Instant) {
        if self.begin_report(cx, index, true) {
            return;
        }
        let order = self.jobs.get_mut(index);
        if let Some(order) = order.and_then(|job| job.stop.diagnosed(now)) {
            self.execute(cx, index, order);
        }
    }

    /// Reports what is known about a job, and begins the examination of its processes. Returns `false` if they cannot
    /// be examined.
    fn begin_report(&self, cx: &mut Cx<'_>, index: usize, is_late: bool) -> bool {
        let Some(job) = self.jobs.get(index) else {
            return false;
        };
        let (lines, report) = report(cx, job, is_late);
        // At once: the job may end before the examination, or the session may.
        for line in lines {
            cx.say(&line);
        }
        let has_begun = cx.agent.examinations().begin(report);
        if !has_begun {
            let nspace = &job.nspace;
            let why = "too many others are being examined, or no thread can be started";
            cx.say(&format!("{nspace}: its processes are not examined: {why}"));
        }
        has_begun
    }

    /// Writes the lines of the examinations that are complete.
    pub(crate) fn finish_reports(&mut self, cx: &mut Cx<'_>, now: Instant) {
        while let Some((ended_job, lines)) = cx.agent.examinations().next() {
            for line in lines {
                cx.say(&line);
            }
            let index = ended_job.and_then(|nspace| self.jobs.place(&nspace));
            let job = index.and_then(|index| self.jobs.get_mut(index));
            let order = job.and_then(|job| job.stop.diagnosed(now));
            if let (Some(order), Some(index)) = (order, index) {
                self.execute(cx, index, order);
            }
        }
    }
}

/// Returns the report of a job: lines with its pending operations, and the processes to examine. These are the missing
/// ones, or the running ones if none is missing.
fn report(cx: &Cx<'_>, job: &Job, is_late: bool) -> (Vec<String>, Report) {
    let nspace = &job.nspace;
    let pending = cx.agent.pending(Some(nspace));
    let local = cx.agent.job(nspace);
    let processes = || local.into_iter().flat_map(|local| local.processes());
    let running = || processes().filter(|process| process.ended.is_none());
    let mut lines: Vec<_> = { pending.listed.iter() }
        .map(|one| format!("{nspace}: {}", one.to_line(nspace.as_bytes())))
        .collect();
    if pending.num_more > 0 {
        lines.push(format!(
            "{nspace}: {} more operations are pending",
            pending.num_more
        ));
    }
    let num_running = running().count();
    if pending.listed.is_empty() {
        let noun = if num_running == 1 {
            "rank runs"
        } else {
            "ranks run"
        };
        lines.push(format!(
            "{nspace}: no rank waits for others in a PMIx operation; {num_running} {noun}"
        ));
    }
    if is_late && !cx.agent.has_live_output(&job.plan) {
        let hint = "output that its processes have not flushed is lost; with --pty they print each line at once";
        lines.push(format!("{nspace}: {hint}"));
    }
    let missing = pending.missing(MAX_SUBJECTS);
    let subjects: Vec<_> = match missing.is_empty() {
        true => { running().take(MAX_SUBJECTS) }
            .map(|process| subject(cx, &job.proc(process.rank), process))
            .collect(),
        false => { missing.iter() }
            .filter_map(|proc| Some(subject(cx, proc, cx.agent.jobs().process(proc)?)))
            .collect(),
    };
    let report = Report {
        ended_job: is_late.then(|| Nspace::clone(nspace)),
        subjects,
        has_stacks: cx.plan.diagnosis.stacks,
    };
    (lines, report)
}

fn subject(cx: &Cx<'_>, proc: &Proc<'static>, process: &Process) -> Subject {
    let state = match process.state() {
        ProcessState::StoppedOnExec => "waits for a debugger before its first instruction",
        ProcessState::RestartAwaited => "is being restarted",
        ProcessState::Connected => "connected",
        ProcessState::Running if process.link == Link::Finalized => "has called PMIx_Finalize",
        ProcessState::Running => "has not called PMIx_Init",
        ProcessState::Ended(_) => "has ended",
    };
    let pid = process.pid.as_raw_nonzero().get();
    Subject {
        name: cx.identify(proc),
        state: state.to_owned(),
        // Only this node can examine its processes.
        pid: (process.ended.is_none() && process.node.is_none()).then_some(pid),
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::Rank;

    use super::*;
    use crate::pending::{PendingOperation, ProcRuns};

    const LIMIT: Duration = Duration::from_secs(30);

    fn pending(ages: &[(u64, u64, u64)]) -> PendingOperations {
        let one = |(id, age, num_missing): &(u64, u64, u64)| PendingOperation {
            id: *id,
            operation: "fence".to_owned(),
            age: Duration::from_secs(*age),
            missing: ProcRuns {
                runs: vec![(Proc::new("job", Rank::new(1)), Rank::new(1))],
                num_procs: *num_missing,
            },
            ..PendingOperation::default()
        };
        PendingOperations {
            listed: ages.iter().map(one).collect(),
            num_more: 0,
        }
    }

    #[test]
    fn a_collective_is_reported_once() {
        let (mut notices, now) = (Notices::default(), Instant::now());
        let mut check = |ages: &[_]| {
            let lines = notices.check(&pending(ages), b"job", LIMIT, now);
            (lines, notices.next.unwrap() - now)
        };
        let (lines, next) = check(&[(1, 12, 1), (2, 25, 1)]);
        assert_eq!((lines, next), (vec![], Duration::from_secs(5)));
        let (lines, next) = check(&[(1, 17, 1), (2, 30, 1)]);
        let expected = "fence, 30 s: waits for rank 1".to_owned();
        assert_eq!((lines, next), (vec![expected], Duration::from_secs(13)));
        // The second one completed, and another began.
        let (lines, _) = check(&[(1, 30, 0), (2, 43, 1), (3, 1, 1)]);
        assert_eq!(lines, Vec::<String>::new());
        let (lines, next) = check(&[]);
        assert_eq!((lines, next), (vec![], LIMIT));
    }
}
