// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the launcher tells of processes and jobs that start and end, to whoever registered for it.
//!
//! | event | when | infos |
//! | --- | --- | --- |
//! | `PMIX_EVENT_JOB_START`, `PMIX_LAUNCH_COMPLETE` | the processes of a job were started | `PMIX_NSPACE`, `PMIX_EVENT_TIMESTAMP` |
//! | `PMIX_EVENT_PROC_TERMINATED` | a process ended well | `PMIX_EVENT_AFFECTED_PROC` |
//! | `PMIX_ERR_EXIT_NONZERO_TERM` | it ended with another exit code than 0 | and `PMIX_EXIT_CODE`, `PMIX_EVENT_TEXT_MESSAGE` |
//! | `PMIX_ERR_PROC_ABORTED_BY_SIG` | a signal ended it that the launcher had not sent it | and `PMIX_EXIT_CODE`, 128 and its number; the message names the signal |
//! | `PMIX_ERR_PROC_KILLED_BY_CMD` | a signal ended it that the launcher had sent it, by itself or for who controls it | the same |
//! | `PMIX_ERR_PROC_TERM_WO_SYNC` | it ended well between initialising and finalising | `PMIX_EVENT_AFFECTED_PROC` |
//! | `PMIX_ERR_PROC_REQUESTED_ABORT` | it aborted its job | and `PMIX_EXIT_CODE` |
//! | `PMIX_ERR_PROC_FAILED_TO_START` | its job could not be started as a whole | `PMIX_EVENT_AFFECTED_PROC` |
//! | `PMIX_ERR_JOB_EXE_NOT_FOUND` and others | a job that was asked for is not started | `PMIX_REQUESTOR`, `PMIX_EVENT_TEXT_MESSAGE` |
//! | `PMIX_EVENT_JOB_END` | the last process of a job ended | `PMIX_JOB_TERM_STATUS`, `PMIX_EVENT_AFFECTED_PROC`, `PMIX_EXIT_CODE` if it is not 0, `PMIX_EVENT_TEXT_MESSAGE` of a failure |
//!
//! None goes to handlers without a code (`PMIX_EVENT_NON_DEFAULT`), since libraries end their process
//! in these. Those of processes are for who is there; those of jobs are kept for who comes later, those of their
//! ends for a time also when the job is no longer registered.
//!
//! Source: PMIx Standard, chapter "Event Notification" and "Process Management".

use std::time::{SystemTime, UNIX_EPOCH};

use pmix_types::{DataRange, Info, Proc, Rank, Status, Text, Value, keys};

use super::job::Job;
use super::session::Session;
use crate::process::{Ending, Link};
use crate::{Cause, process::Process, service};

impl Session<'_> {
    /// Tells of a job that has started.
    pub(super) fn tell_start(&self, job: &Job<'_>) {
        let name = Text::new(job.nspace.as_bytes().to_vec());
        let infos = vec![
            Info::new(keys::EVENT_NON_DEFAULT, true),
            Info::new(keys::NSPACE, Value::String(Some(name))),
            timestamp(),
        ];
        self.tell(Status::EVENT_JOB_START, &job.proc(Rank::new(0)), &infos);
        // All were started, and those that stop on exec are stopped.
        self.tell(Status::LAUNCH_COMPLETE, &job.proc(Rank::new(0)), &infos);
    }

    /// Tells of a process that has ended.
    pub(super) fn tell_end_of_process(&self, job: &Job<'_>, process: &Process) {
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
        };
        let code = Some(i32::from(ending.exit_code())).filter(|code| *code != 0);
        let text = code.map(|_| ending.to_string());
        self.tell_of_process(status, &job.proc(process.rank), code, text);
    }

    /// Tells that a job was asked for and is not started.
    pub(super) fn tell_refused(&self, status: Status, asker: &Proc<'static>, why: &str) {
        let infos = vec![
            Info::new(keys::EVENT_NON_DEFAULT, true),
            Info::new(keys::EVENT_DO_NOT_CACHE, true),
            Info::new(keys::REQUESTOR, asker.clone()),
            message(why.to_owned()),
        ];
        let is_of_job = |name: &str| name.starts_with("ERR_JOB_");
        let status = match status.name() {
            Some(name) if is_of_job(name) => status,
            // What else was wrong with the request says the message.
            _ => Status::ERR_JOB_FAILED_TO_LAUNCH,
        };
        let server = service::name(&self.plan.nspace);
        self.tell(status, &server, &infos);
    }

    /// Tells of each process of a job that is not started as a whole, whether or not it was started itself.
    pub(super) fn tell_failed_start(&self, job: &Job<'_>) {
        for rank in job.plan.layout.here() {
            let proc = job.proc(*rank);
            self.tell_of_process(Status::ERR_PROC_FAILED_TO_START, &proc, None, None);
        }
    }

    /// Tells something of one process, for who is there to hear it.
    pub(super) fn tell_of_process(
        &self,
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
        self.tell(status, proc, &infos);
    }

    /// Tells of a job whose last process has ended.
    pub(super) fn tell_end_of_job(&self, job: &Job<'_>) {
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
        self.tell(Status::EVENT_JOB_END, &job.proc(Rank::new(0)), &infos);
    }

    pub(super) fn tell(&self, status: Status, source: &Proc<'static>, infos: &[Info<'_>]) {
        if let Err(e) = self
            .server
            .notify(status, source, DataRange::SESSION, infos)
        {
            tracing::debug!("cannot notify clients of {status}: {e}");
        }
    }
}

/// When something happened: now.
pub(super) fn timestamp() -> Info<'static> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.ok().and_then(|now| i64::try_from(now.as_secs()).ok());
    Info::new(keys::EVENT_TIMESTAMP, Value::Time(seconds.unwrap_or(0)))
}

/// What happened, for people.
fn message(text: String) -> Info<'static> {
    let text = Value::String(Some(Text::from(text)));
    Info::new(keys::EVENT_TEXT_MESSAGE, text)
}

/// Who ended a job, and how it ended, in the words of the Standard.
pub(super) fn of_cause(cause: &Cause) -> (Rank, Status) {
    match cause {
        Cause::Failed { rank, ending } => match ending {
            Ending::Exited(_) => (*rank, Status::ERR_JOB_NON_ZERO_TERM),
            Ending::Signalled { .. } => (*rank, Status::ERR_JOB_ABORTED_BY_SIG),
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
