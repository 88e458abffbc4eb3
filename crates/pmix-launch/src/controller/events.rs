// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events that the launcher raises when processes and jobs start and end.
//!
//! | event | condition | infos |
//! | --- | --- | --- |
//! | `PMIX_EVENT_JOB_START`, `PMIX_LAUNCH_COMPLETE` | all processes of a job were started | `PMIX_NSPACE`, `PMIX_EVENT_TIMESTAMP` |
//! | `PMIX_EVENT_PROC_TERMINATED` | a process exited with 0 | `PMIX_EVENT_AFFECTED_PROC` |
//! | `PMIX_ERR_EXIT_NONZERO_TERM` | a process exited with another code | also `PMIX_EXIT_CODE`, `PMIX_EVENT_TEXT_MESSAGE` |
//! | `PMIX_ERR_PROC_ABORTED_BY_SIG` | a signal terminated it that the launcher did not send | also `PMIX_EXIT_CODE` (128 plus the signal); the message names the signal |
//! | `PMIX_ERR_PROC_KILLED_BY_CMD` | a signal terminated it that the launcher sent, by itself or for job control | as above |
//! | `PMIX_ERR_PROC_TERM_WO_SYNC` | a process exited with 0 between initialize and finalize | `PMIX_EVENT_AFFECTED_PROC` |
//! | `PMIX_ERR_PROC_REQUESTED_ABORT` | a process called `PMIx_Abort` | also `PMIX_EXIT_CODE` |
//! | `PMIX_ERR_PROC_FAILED_TO_START` | its job could not be started as a whole | `PMIX_EVENT_AFFECTED_PROC` |
//! | `PMIX_ERR_JOB_EXE_NOT_FOUND` and others | the job of a spawn request is not started | `PMIX_REQUESTOR`, `PMIX_EVENT_TEXT_MESSAGE` |
//! | `PMIX_EVENT_JOB_END` | the last process of a job ended | `PMIX_JOB_TERM_STATUS`, `PMIX_EVENT_AFFECTED_PROC`, `PMIX_EXIT_CODE` if it is not 0, `PMIX_EVENT_TEXT_MESSAGE` of a failure |
//!
//! Handlers without codes do not receive these events (`PMIX_EVENT_NON_DEFAULT`), since libraries terminate their
//! process in such handlers. Events of processes reach only peers that are connected. The server keeps events of jobs
//! for peers that register later, and those of their ends for some time after the job was deregistered.
//!
//! Source: PMIx Standard, chapter "Event Notification" and "Process Management".

use std::time::{SystemTime, UNIX_EPOCH};

use pmix_types::{Info, Proc, Rank, Status, Text, Value, keys};

use super::job::Job;
use crate::Cause;
use crate::agent::Agent;
use crate::process::{Ending, Link, Process};

/// Notifies of a started job.
pub(crate) fn notify_started(agent: &Agent<'_>, job: &Job) {
    let name = Text::new(job.nspace.as_bytes().to_vec());
    let infos = vec![
        Info::new(keys::EVENT_NON_DEFAULT, true),
        Info::new(keys::NSPACE, Value::String(Some(name))),
        timestamp(),
    ];
    let source = job.proc(Rank::new(0));
    agent.notify(Status::EVENT_JOB_START, &source, &infos);
    // The processes that stop on exec have stopped before this.
    agent.notify(Status::LAUNCH_COMPLETE, &source, &infos);
}

/// Notifies of an ended process.
pub(crate) fn notify_process_ended(agent: &Agent<'_>, proc: &Proc<'static>, process: &Process) {
    let Some((ending, _)) = process.ended else {
        return;
    };
    let status = match (ending, process.link) {
        (Ending::Exited(0), Link::Connected) => Status::ERR_PROC_TERM_WO_SYNC,
        (Ending::Exited(0), _) => Status::EVENT_PROC_TERMINATED,
        (Ending::Exited(_), _) => Status::ERR_EXIT_NONZERO_TERM,
        (Ending::Signalled { .. }, _) if process.was_killed_by_command() => {
            Status::ERR_PROC_KILLED_BY_CMD
        }
        (Ending::Signalled { .. }, _) => Status::ERR_PROC_ABORTED_BY_SIG,
        (Ending::Lost, _) => Status::ERR_LOST_CONNECTION,
    };
    let code = Some(i32::from(ending.exit_code())).filter(|code| *code != 0);
    let text = code.map(|_| ending.to_string());
    notify_of_process(agent, status, proc, code, text);
}

/// Notifies of a spawn request whose job is not started.
pub(crate) fn notify_refused(
    agent: &Agent<'_>,
    server: &Proc<'static>,
    status: Status,
    asker: &Proc<'static>,
    why: &str,
) {
    let infos = vec![
        Info::new(keys::EVENT_NON_DEFAULT, true),
        Info::new(keys::EVENT_DO_NOT_CACHE, true),
        Info::new(keys::REQUESTOR, asker.clone()),
        message(why.to_owned()),
    ];
    let is_of_job = |name: &str| name.starts_with("ERR_JOB_");
    let status = match status.name() {
        Some(name) if is_of_job(name) => status,
        // Other errors of the request are described by the message only.
        _ => Status::ERR_JOB_FAILED_TO_LAUNCH,
    };
    agent.notify(status, server, &infos);
}

/// Notifies of each process of a job that could not be started as a whole, including processes that were started.
pub(crate) fn notify_failed_start(agent: &Agent<'_>, job: &Job) {
    for rank in job.plan.layout.here() {
        let proc = job.proc(*rank);
        notify_of_process(agent, Status::ERR_PROC_FAILED_TO_START, &proc, None, None);
    }
}

/// Notifies connected peers of an event of one process.
pub(crate) fn notify_of_process(
    agent: &Agent<'_>,
    status: Status,
    proc: &Proc<'static>,
    code: Option<i32>,
    text: Option<String>,
) {
    let mut infos = vec![
        Info::new(keys::EVENT_NON_DEFAULT, true),
        Info::new(keys::EVENT_DO_NOT_CACHE, true),
        Info::new(keys::EVENT_AFFECTED_PROC, proc.clone()),
    ];
    infos.extend(code.map(|code| Info::new(keys::EXIT_CODE, code)));
    infos.extend(text.map(message));
    agent.notify(status, proc, &infos);
}

/// Notifies of a job whose last process has ended.
pub(crate) fn notify_job_ended(agent: &Agent<'_>, job: &Job) {
    let cause = job.stop.cause();
    let (rank, status) = cause.map_or((Rank::WILDCARD, Status::SUCCESS), of_cause);
    let mut infos = vec![
        Info::new(keys::EVENT_NON_DEFAULT, true),
        Info::new(keys::JOB_TERM_STATUS, Value::Status(status)),
        Info::new(keys::EVENT_AFFECTED_PROC, job.proc(rank)),
    ];
    if let Some(cause) = cause {
        infos.push(Info::new(keys::EXIT_CODE, i32::from(cause.exit_code())));
        infos.push(message(cause.to_string()));
    }
    agent.notify(Status::EVENT_JOB_END, &job.proc(Rank::new(0)), &infos);
}

/// Returns `PMIX_EVENT_TIMESTAMP` with the current time.
pub(crate) fn timestamp() -> Info<'static> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.ok().and_then(|now| i64::try_from(now.as_secs()).ok());
    Info::new(keys::EVENT_TIMESTAMP, Value::Time(seconds.unwrap_or(0)))
}

/// Returns `PMIX_EVENT_TEXT_MESSAGE` with this text.
fn message(text: String) -> Info<'static> {
    let text = Value::String(Some(Text::from(text)));
    Info::new(keys::EVENT_TEXT_MESSAGE, text)
}

/// Returns the rank that caused the end of a job, and the status of the Standard for it.
pub(crate) fn of_cause(cause: &Cause) -> (Rank, Status) {
    match cause {
        Cause::Failed { rank, ending } => match ending {
            Ending::Exited(_) => (*rank, Status::ERR_JOB_NON_ZERO_TERM),
            Ending::Signalled { .. } => (*rank, Status::ERR_JOB_ABORTED_BY_SIG),
            Ending::Lost => (*rank, Status::ERR_JOB_ABORTED_BY_SYS_EVENT),
        },
        Cause::NotFinalized { rank } => (*rank, Status::ERR_JOB_TERM_WO_SYNC),
        Cause::Aborted { rank, .. } => (*rank, Status::ERR_JOB_ABORTED),
        Cause::TimedOut(_) => (Rank::WILDCARD, Status::ERR_TIMEOUT),
        Cause::Spawned { .. }
        | Cause::WithJob { .. }
        | Cause::SessionEnded { .. }
        | Cause::Unheeded { .. }
        | Cause::Interrupted { .. } => (Rank::WILDCARD, Status::ERR_JOB_KILLED_BY_CMD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_status() {
        let rank = Rank::new(3);
        let failed = |ending| Cause::Failed { rank, ending };
        let killed = Ending::Signalled {
            signal: 9,
            core: false,
        };
        for (cause, status) in [
            (failed(Ending::Exited(3)), Status::ERR_JOB_NON_ZERO_TERM),
            (failed(killed), Status::ERR_JOB_ABORTED_BY_SIG),
            (Cause::NotFinalized { rank }, Status::ERR_JOB_TERM_WO_SYNC),
        ] {
            assert_eq!(of_cause(&cause), (rank, status));
        }
        let ended = Cause::Interrupted { signal: 15 };
        let expected = (Rank::WILDCARD, Status::ERR_JOB_KILLED_BY_CMD);
        assert_eq!(of_cause(&ended), expected);
    }
}
