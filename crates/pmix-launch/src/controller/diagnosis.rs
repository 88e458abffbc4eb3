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
use super::purpose::{LISTING, Purpose, SubjectsOfNodes};
use super::{Controller, Cx};
use crate::agent::{Recipient, Report, Subject};
use crate::nodes::{ProcName, SubjectForm};
use crate::pending::PendingOperations;
use crate::process::{Link, Process, ProcessState};

/// The largest number of processes that a report describes one by one.
pub(super) const MAX_SUBJECTS: usize = 16;

/// The shortest time between two checks for collectives that wait for long.
const SHORTEST: Duration = Duration::from_millis(10);

/// The notices of collectives that wait for long.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// The time of the next check; `None` before the first turn.
    next: Option<Instant>,
    /// The nodes and identifiers of the collectives that were reported.
    reported: BTreeSet<(usize, u64)>,
}

impl Notices {
    /// Returns the time of the next check.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.next
    }

    /// Defers the next check until another one has ended.
    fn defer(&mut self, now: Instant) {
        self.next = now.checked_add(LISTING * 2);
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
                // A server that describes the collective later than others adds an identifier.
                let mut ids = one.identifiers();
                if !ids.any(|id| self.reported.contains(&id)) {
                    lines.push(one.to_line(job));
                }
                open.extend(one.identifiers());
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
        if !cx.agent.open_nodes().is_empty() {
            self.notices.defer(now);
            // Without room, the next check comes later.
            let _ = self.ask_waits(cx, vec![None], Purpose::Notice(limit));
            return;
        }
        let pending = cx.agent.pending(None);
        self.show_notices(cx, &pending, limit, now);
    }

    /// Shows the collectives that have waited for `limit` and were not reported.
    pub(super) fn show_notices(
        &mut self,
        cx: &mut Cx<'_>,
        pending: &PendingOperations,
        limit: Duration,
        now: Instant,
    ) {
        let lines = (self.notices).check(pending, cx.plan.nspace.as_bytes(), limit, now);
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
            if !cx.agent.examinations().has_room() || !self.inquiries.has_room() {
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
    fn begin_report(&mut self, cx: &mut Cx<'_>, index: usize, is_late: bool) -> bool {
        let Some(job) = self.jobs.get(index) else {
            return false;
        };
        let nspace = job.nspace.clone();
        if cx.agent.open_nodes().is_empty() {
            let pending = cx.agent.pending(Some(&nspace));
            return self.report(cx, index, is_late, &pending);
        }
        let jobs = vec![Some(nspace.clone())];
        let has_begun = self.ask_waits(cx, jobs, Purpose::Report(nspace.clone(), is_late));
        if has_begun.is_err() {
            cx.say(&format!(
                "{nspace}: it is not reported: too many requests to nodes are open"
            ));
        }
        has_begun.is_ok()
    }

    /// Reports the pending operations of a job, and begins the examination of its processes on all nodes. Returns
    /// `false` if they cannot be examined.
    pub(super) fn report(
        &mut self,
        cx: &mut Cx<'_>,
        index: usize,
        is_late: bool,
        pending: &PendingOperations,
    ) -> bool {
        let Some(job) = self.jobs.get(index) else {
            return false;
        };
        let (lines, report, others) = report(cx, job, is_late, pending);
        // At once: the job may end before the examination, or the session may.
        for line in lines {
            cx.say(&line);
        }
        match others.is_empty() {
            true => examine(cx, report),
            false => match self.ask_examinations(cx, others, report) {
                Ok(()) => true,
                Err(report) => examine(cx, report),
            },
        }
    }

    /// Begins the termination of a job whose time limit has passed, after its report.
    pub(super) fn end_report(&mut self, cx: &mut Cx<'_>, recipient: &Recipient, now: Instant) {
        let Recipient::Late(nspace) = recipient else {
            return;
        };
        let index = self.jobs.place(nspace);
        let job = index.and_then(|index| self.jobs.get_mut(index));
        let order = job.and_then(|job| job.stop.diagnosed(now));
        if let (Some(order), Some(index)) = (order, index) {
            self.execute(cx, index, order);
        }
    }

    /// Writes the lines of the examinations that are complete.
    pub(crate) fn finish_reports(&mut self, cx: &mut Cx<'_>, now: Instant) {
        while let Some((recipient, lines)) = cx.agent.examinations().next() {
            for line in lines {
                cx.say(&line);
            }
            self.end_report(cx, &recipient, now);
        }
    }
}

/// Begins the examination of processes of this node. Returns `false` if they cannot be examined.
pub(super) fn examine(cx: &mut Cx<'_>, report: Report) -> bool {
    let job = match &report.recipient {
        Recipient::Late(nspace) => format!("{nspace}: "),
        Recipient::User | Recipient::Controller(_) => String::new(),
    };
    let has_begun = cx.agent.examinations().begin(report);
    if !has_begun {
        let why = "too many others are being examined, or no thread can be started";
        cx.say(&format!("{job}processes are not examined: {why}"));
    }
    has_begun
}

/// Returns the report of a job: lines with its pending operations, the processes of this node to examine, and those of
/// other nodes. These are the missing ones, or the running ones if none is missing.
fn report(
    cx: &Cx<'_>,
    job: &Job,
    is_late: bool,
    pending: &PendingOperations,
) -> (Vec<String>, Report, SubjectsOfNodes) {
    let nspace = &job.nspace;
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
    lines.extend(
        pending
            .silent_line()
            .map(|line| format!("{nspace}: {line}")),
    );
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
    let described: Vec<_> = match missing.is_empty() {
        true => { running().take(MAX_SUBJECTS) }
            .map(|process| (job.proc(process.rank), process))
            .collect(),
        false => { missing.into_iter() }
            .filter_map(|proc| {
                let process = cx.agent.jobs().process(&proc)?;
                Some((proc, process))
            })
            .collect(),
    };
    let (mut subjects, mut others) = (Vec::new(), SubjectsOfNodes::new());
    for (proc, process) in described {
        match process.node.filter(|_| process.ended.is_none()) {
            None => subjects.push(subject(cx, &proc, process)),
            Some(node) => {
                let form = subject_form(cx, &proc, process);
                others.entry(node).or_default().push(form);
            }
        }
    }
    let report = Report {
        recipient: match is_late {
            true => Recipient::Late(Nspace::clone(nspace)),
            false => Recipient::User,
        },
        subjects,
        has_stacks: cx.plan.diagnosis.stacks,
    };
    (lines, report, others)
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

/// Returns a process of another node in the form for the agent there.
pub(super) fn subject_form(cx: &Cx<'_>, proc: &Proc<'static>, process: &Process) -> SubjectForm {
    let Subject { name, state, .. } = subject(cx, proc, process);
    SubjectForm {
        proc: ProcName::of(proc),
        name,
        state,
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
            ..PendingOperations::default()
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
